"""Draws from the posterior of a logistic regression, its data weighted down or its prior narrowed."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from privsample._checks import FloatArray, generator, holdable, how_many
from privsample._entropy import undisturbed
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.glm import LogisticAccountant
from privsample.accounting.targets import Target, largest
from privsample.distributions.models.glm import LogisticLaw
from privsample.distributions.models.shells import Shells, plan
from privsample.distributions.rows import labelled, moved_rows, within_norm
from privsample.interop import pymc
from privsample.mechanisms.base import Mechanism, charged
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release

Sampler = Literal["auto", "rejection", "nuts"]
_WORK = 1e9  # visits to a record: some 20 ns each
_ADVICE = "ask for delta > 0, or for a Renyi or zCDP guarantee"


@value
class LogisticPosterior(Mechanism):
    """`draws` independent draws of the coefficients of n records, each a row of `features` numbers and a label.

    The prior is N(0, prior_std^2) for each coefficient and N(0, intercept_std^2) for the intercept, which None leaves
    out. Every record counts `data_weight` times (diffused); the prior's variances are multiplied by `prior_divisor`
    (concentrated). Both lie in (0, 1]. The public rule: what is not a finite number counts as 0, a row longer than
    `norm` in L2 is scaled down to it, a label is positive if it equals 1 and negative otherwise.

    `sampler` is decided by public fields alone. "rejection" draws exactly, or is refused where the bound on its work,
    which holds for all data, is too large. "nuts" runs one Markov chain of PyMC for each draw, and the account assumes
    CONVERGED_CHAIN. "auto" takes the first where it can. The account says nothing of the time that a release takes,
    which depends on the data with either: do not let others measure it.
    Source: Gopi, Lee and Liu 2022; Geumlek, Song and Chaudhuri 2017 (data weight and prior divisor); docs/notes/glm.md.
    """

    n: int
    features: int
    norm: float
    prior_std: float
    intercept_std: float | None = None
    data_weight: float = 1.0
    prior_divisor: float = 1.0
    draws: int = 1
    unit: str = "record"
    sampler: Sampler = "auto"

    def __post_init__(self) -> None:
        if self.sampler not in ("auto", "rejection", "nuts"):
            raise ValueError(f"sampler must be 'auto', 'rejection' or 'nuts', got {self.sampler!r}")
        account = self._account
        for name in ("n", "features", "norm", "prior_std", "intercept_std", "data_weight", "prior_divisor", "draws"):
            put(self, **{name: getattr(account, name)})
        holdable(self.draws * (self.features + 1), lower="draws or features")
        if self.sampler == "rejection" and not self.exact:
            raise ValueError(
                f"sampler must be 'nuts' (or 'auto') here: exact rejection may take e^{self._log_work:.1f} visits to a "
                f"record, more than {_WORK:g}; or lower norm, prior_std, data_weight, prior_divisor, draws"
            )

    @property
    def accountant(self) -> Accountant:
        """The account of all draws together, under ReplaceOne(n)."""
        return self._account if self.exact else self._account.assuming(Assumption.CONVERGED_CHAIN)

    @property
    def exact(self) -> bool:
        """Whether draws are exact: by rejection, not from a Markov chain."""
        return self.sampler != "nuts" and bool(self._log_work <= np.log(_WORK))

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Draw from the posterior of `data`, a pair (rows of shape (n, features), labels of shape (n,)).

        Returns: draws "coefficients", shape (draws, features), and "intercept", shape (draws,), unless it is left out.
        Raises: SchemaError, TypeError.
        """
        return self.release_with_notes(data, rng=rng)[0]

    def release_with_notes(self, data: Any, *, rng: np.random.Generator | None = None) -> tuple[Release, CuratorNotes]:
        """`release`, and how the sampler fared: proposals, or R-hat, effective sample size and divergences."""
        source, account = generator(rng), charged(self, rng)
        rows, labels = self._parts(data)
        signs = np.where(labels == 1.0, 1.0, -1.0)
        law = LogisticLaw(rows=self._design(rows) * signs[:, None], weight=self.data_weight)
        drawn, notes = self._exactly(law, source) if self.exact else self._by_chains(law, source)
        drawn = drawn * self._deviations
        draws = {"coefficients": drawn[:, : self.features]}
        if self.intercept_std is not None:
            draws["intercept"] = drawn[:, -1]
        return Release(mechanism=self, draws=draws, account=account), notes

    def validate(self, data: Any) -> CuratorNotes:
        """What the public rule would change in these data, for the curator's eyes. Raises: SchemaError."""
        rows, labels = self._parts(data)
        odd = int((~np.isin(labels, (0.0, 1.0))).sum())
        facts = {reason: count for reason, count in moved_rows(rows, self.norm).items() if count}
        if odd:
            facts["labels that are neither 0 nor 1"] = odd
        return CuratorNotes(
            title=f"{how_many(len(rows), 'row')} of {how_many(self.features, 'number')} with labels", facts=facts
        )

    @classmethod
    def calibrate(
        cls,
        *,
        n: int,
        features: int,
        norm: float,
        prior_std: float,
        target: Target,
        intercept_std: float | None = None,
        draws: int = 1,
        unit: str = "record",
        sampler: Sampler = "auto",
        by: Literal["data_weight", "prior_divisor"] = "data_weight",
    ) -> "LogisticPosterior":
        """The largest data weight (or prior divisor) that meets the target, on the safe side.

        Raises: UnreachableTarget.
        """
        if by not in ("data_weight", "prior_divisor"):
            raise ValueError(f"by must be 'data_weight' or 'prior_divisor', got {by!r}")
        whole = cls(
            n=n,
            features=features,
            norm=norm,
            prior_std=prior_std,
            intercept_std=intercept_std,
            draws=draws,
            unit=unit,
        )

        def build(amount: float) -> LogisticPosterior:
            free: dict[str, Any] = {by: amount}
            return replace(whole, **free)

        found = largest(build, lambda made: made._account, target, most=1.0, advice=_ADVICE)
        return replace(found, sampler=sampler)

    @property
    def _account(self) -> LogisticAccountant:
        return LogisticAccountant(
            n=self.n,
            features=self.features,
            norm=self.norm,
            prior_std=self.prior_std,
            intercept_std=self.intercept_std,
            data_weight=self.data_weight,
            prior_divisor=self.prior_divisor,
            draws=self.draws,
            unit=self.unit,
        )

    @property
    def _deviations(self) -> FloatArray:
        """Of the prior that is drawn from, intercept last; shape (dimension,)."""
        listed = [self.prior_std] * self.features
        if self.intercept_std is not None:
            listed.append(self.intercept_std)
        return np.array(listed) * np.sqrt(self.prior_divisor)

    @property
    def _shells(self) -> Shells:
        return plan(weight=self.n * self.data_weight, reach=self._account.reach, dimension=len(self._deviations))

    @property
    def _log_work(self) -> float:
        """log of the expected visits to a record by rejection, at most."""
        return float(np.log(self.n) + np.log(self.draws)) + self._shells.log_proposals

    def _exactly(self, law: LogisticLaw, source: np.random.Generator) -> tuple[FloatArray, CuratorNotes]:
        drawn, proposals = law.sample(self.draws, self._shells, source)
        return drawn, CuratorNotes(title="exact draws by rejection", facts={"proposals": proposals})

    def _by_chains(self, law: LogisticLaw, source: np.random.Generator) -> tuple[FloatArray, CuratorNotes]:
        """The last state of one chain for each draw: states of one chain would not be independent."""
        words = undisturbed(source, lambda: source.integers(0, 1 << 32, size=8, dtype=np.uint32))
        chains, facts = pymc.logistic_chains(law.rows, law.weight, self.draws, np.random.default_rng(words))
        return chains[: self.draws, -1], CuratorNotes(title="one Markov chain for each draw", facts=facts)

    def _design(self, rows: FloatArray) -> FloatArray:
        """Rows after the public rule in units of the prior, with the intercept's column last; (n, dimension)."""
        columns = within_norm(rows, self.norm)
        if self.intercept_std is not None:
            columns = np.column_stack([columns, np.ones(len(columns))])
        return np.asarray(columns * self._deviations)

    def _parts(self, data: Any) -> tuple[FloatArray, FloatArray]:
        """Rows and labels as floats. Raises: SchemaError."""
        return labelled(data, self.features, self.n)
