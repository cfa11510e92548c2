"""Draws from the posterior of a logistic regression, its data weighted down or its prior narrowed."""

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from privsample._checks import FloatArray, check_memory, count_noun, one_of, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.glm import LogisticAccountant
from privsample.distributions.models.glm import LogisticPosteriorDensity
from privsample.distributions.models.shells import RejectionEnvelope, plan
from privsample.distributions.rows import count_clipped_rows, labelled, within_norm
from privsample.interop import pymc
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import DrawsWithNotes, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.glm_neighbours import logistic_neighbours, rows_drawn
from privsample.mechanisms.release import Release

Sampler = Literal["auto", "rejection", "nuts"]
_WORK = 1e9  # visits to a record: some 20 ns each
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee"


def _free(name: str) -> FreeParameter:
    """Searched by the account of exact draws: the sampler changes nothing but the assumptions, and takes time."""
    return FreeParameter(
        name=name, trial={"sampler": "auto"}, account=lambda made: made._account_of_exact_draws, advice=_ADVICE
    )


@frozen_value
class LogisticPosterior(Mechanism):
    """`draws` independent draws of the coefficients of n records, each a row of `features` numbers and a label.

    The prior is N(0, prior_std^2) for each coefficient and N(0, intercept_std^2) for the intercept, which None leaves
    out. Every record counts `data_weight` times (diffused); the prior's variances are multiplied by `prior_divisor`
    (concentrated). Both lie in (0, 1]. The public rule: what is not a finite number counts as 0, a row longer than
    `norm` in L2 is scaled down to it, a label is positive if it equals 1 and negative otherwise.

    `release` takes a pair (rows of shape (n, features), labels of shape (n,)), and draws "coefficients", shape
    (draws, features), and "intercept", shape (draws,), unless it is left out.

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
    free_parameters = (_free("data_weight"), _free("prior_divisor"))
    _checks_entropy: ClassVar[bool] = True
    command = CommandLine(
        name="logistic",
        data=("labelled rows",),
        help={
            "prior_std": "the prior's standard deviation of each coefficient",
            "intercept_std": "the prior's standard deviation of the intercept (default: no intercept)",
            "sampler": "how to draw: exactly, or by Markov chains (default: auto, exactly where that is quick)",
        },
    )

    def __post_init__(self) -> None:
        if not one_of(self.sampler, ("auto", "rejection", "nuts")):
            raise ValueError(f"sampler must be 'auto', 'rejection' or 'nuts', got {self.sampler!r}")
        account = self._account_of_exact_draws
        for name in ("n", "features", "norm", "prior_std", "intercept_std", "data_weight", "prior_divisor", "draws"):
            set_fields(self, **{name: getattr(account, name)})
        check_memory(self.draws * (self.features + 1), lower="draws or features")
        if self.sampler == "rejection" and not self.exact:
            raise ValueError(
                f"sampler must be 'nuts' (or 'auto') here: exact rejection may take e^{self._log_work:.1f} visits to a "
                f"record, more than {_WORK:g}; or lower norm, prior_std, data_weight, prior_divisor, draws"
            )

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws together, under ReplaceOne(n)."""
        return (
            self._account_of_exact_draws
            if self.exact
            else self._account_of_exact_draws.assuming(Assumption.CONVERGED_CHAIN)
        )

    @property
    def exact(self) -> bool:
        """Whether draws are exact: by rejection, not from a Markov chain."""
        return self.sampler != "nuts" and bool(self._log_work <= np.log(_WORK))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A prior that is wider than it is said to be."""
        example = cls(n=1, features=1, norm=1, prior_std=1)
        return (
            Example.with_wrong_fields(
                "logistic-posterior", example, prior_std=2, bug="a prior twice as wide", samples=20_000
            ),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Extreme rows that mirror each other, found by quadrature."""
        group = positive_integer(group=group)
        return logistic_neighbours(self, group)

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        return partial(rows_drawn, self) if outer is self and self.draws == 1 else None

    def release_with_notes(self, data: Any, *, rng: np.random.Generator | None = None) -> tuple[Release, CuratorNotes]:
        """`release`, and how the sampler fared: proposals, or R-hat, effective sample size and divergences."""
        return self._release_with_notes(data, rng)

    def _statistic(self, data: Any) -> LogisticPosteriorDensity:
        rows, labels = self._parts(data)
        signs = np.where(labels == 1.0, 1.0, -1.0)
        return LogisticPosteriorDensity(rows=self._design(rows) * signs[:, None], weight=self.data_weight)

    def _draw(self, statistic: LogisticPosteriorDensity, rng: np.random.Generator) -> DrawsWithNotes:
        states, notes = self._exactly(statistic, rng) if self.exact else self._by_chains(statistic, rng)
        states = states * self._deviations
        draws = {"coefficients": states[:, : self.features]}
        if self.intercept_std is not None:
            draws["intercept"] = states[:, -1]
        return DrawsWithNotes(draws=draws, notes=notes)

    def validate(self, data: Any) -> CuratorNotes:
        """What the public rule would change in these data, for the curator's eyes. Raises: SchemaError."""
        rows, labels = self._parts(data)
        odd = int((~np.isin(labels, (0.0, 1.0))).sum())
        facts = {reason: count for reason, count in count_clipped_rows(rows, self.norm).items() if count}
        if odd:
            facts["labels that are neither 0 nor 1"] = odd
        return CuratorNotes(
            title=f"{count_noun(len(rows), 'row')} of {count_noun(self.features, 'number')} with labels", facts=facts
        )

    @cached
    def _account_of_exact_draws(self) -> LogisticAccountant:
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

    @cached
    def _deviations(self) -> FloatArray:
        """Of the prior that is drawn from, intercept last; shape (dimension,)."""
        listed = [self.prior_std] * self.features
        if self.intercept_std is not None:
            listed.append(self.intercept_std)
        return np.array(listed) * np.sqrt(self.prior_divisor)

    @cached
    def _shells(self) -> RejectionEnvelope:
        return plan(
            weight=self.n * self.data_weight, reach=self._account_of_exact_draws.reach, dimension=len(self._deviations)
        )

    @cached
    def _log_work(self) -> float:
        """log of the expected visits to a record by rejection, at most."""
        return float(np.log(self.n) + np.log(self.draws)) + self._shells.log_proposals

    def _exactly(
        self, distribution: LogisticPosteriorDensity, source: np.random.Generator
    ) -> tuple[FloatArray, CuratorNotes]:
        drawn, proposals = distribution.sample(self.draws, self._shells, source)
        return drawn, CuratorNotes(title="exact draws by rejection", facts={"proposals": proposals})

    def _by_chains(
        self, distribution: LogisticPosteriorDensity, source: np.random.Generator
    ) -> tuple[FloatArray, CuratorNotes]:
        """The last state of one chain for each draw: states of one chain would not be independent."""
        words = draw_with_entropy_check(source, lambda: source.integers(0, 1 << 32, size=8, dtype=np.uint32))
        chains, facts = pymc.logistic_chains(
            distribution.rows, distribution.weight, self.draws, np.random.default_rng(words)
        )
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
