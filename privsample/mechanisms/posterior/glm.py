"""Draws from the posterior of a logistic regression with down-weighted data or a narrowed prior."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from privsample._checks import FloatArray, check_memory, count_noun, flag, number, one_of, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.glm import LogisticAccountant
from privsample.distributions.exact.grid import Grid
from privsample.distributions.likelihoods.classes import count_class_problems
from privsample.distributions.models.glm import CONSTANT_STEPS, LogisticPosteriorDensity
from privsample.distributions.models.glm_exact import ExactEnvelope, ExactLogistic, exact_draws
from privsample.distributions.models.rejection_envelope import RejectionEnvelope, plan
from privsample.distributions.record_format import LabelledFormat
from privsample.distributions.rows import count_clipped_rows, labelled, within_norm
from privsample.interop import pymc
from privsample.interop.pymc_sampling import libraries
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import DrawsWithNotes, Mechanism
from privsample.mechanisms.calibration import Fields, FreeParameter, amount_itself, inverse
from privsample.mechanisms.examples import Example
from privsample.mechanisms.intervals import column_names
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.glm_neighbours import logistic_neighbours, rows_of_draws
from privsample.mechanisms.release import Release

Sampler = Literal["auto", "rejection", "nuts"]
_WORK = 1e9  # record visits in expectation, about 20 ns each
_CONSTANT_WORK = 1e10  # record visits that are always made in constant time
_EXACT_WORK = 5e5  # record visits for one exact draw in expectation, about 3 us each; 35 times that in constant time
_EXACT_DIMENSION = 100
_ADVICE = "ask for a delta above failure_probability (1e-15 by default), or pass constant_time=False"


def _free(name: str, value: Callable[[float, Fields], Any] = amount_itself) -> FreeParameter:
    """A search that reads the account of exact draws; the sampler affects only the assumptions and the run time."""
    return FreeParameter(
        name=name,
        value=value,
        trial={"sampler": "auto", "exact": False, "grid": None},
        account=lambda made: made._account_of_rejection,
        advice=_ADVICE,
    )


@frozen_value
class LogisticPosterior(Mechanism):
    """Independent draws of the coefficients of a logistic regression, under ReplaceOne(n).

    The prior is N(0, prior_std^2) for each coefficient and N(0, intercept_std^2) for the intercept. `release` takes a
    pair (rows of shape (n, features), labels of shape (n,)), and releases "coefficients", shape (draws, features), and
    "intercept", shape (draws,), unless it is left out. An entry that is not a finite number counts as 0, a row longer
    than `norm` in L2 is scaled down to it, and a label is positive if it equals 1 and negative otherwise.

    A release makes a public number of proposals and visits every record equally often, whatever the data. The draws
    are then not from the posterior with at most `failure_probability`, which the account includes as an infinity mass:
    its Rényi curve and zCDP are +inf. With constant_time=False the sampler makes proposals until enough are accepted.
    The account is then that of the posterior alone, and assumes TIMING: others must not measure the running time.

    Parameters
    ----------
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
    features : int
        Number of features of a record, >= 1.
    norm : float
        Largest L2 norm of a row, finite and > 0. Longer rows are scaled down to it.
    prior_std : float
        Prior standard deviation of each coefficient, finite and > 0.
    intercept_std : float, optional
        Prior standard deviation of the intercept, finite and > 0. None leaves the intercept out.
    data_weight : float, default 1.0
        Weight of each record's log likelihood, in (0, 1] (power posterior).
    prior_weight : float, default 1.0
        The number by which the prior's variances are divided, finite and >= 1; the log prior density is multiplied by
        it.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    sampler : {"auto", "rejection", "nuts"}, default "auto"
        "rejection" draws exactly, and is refused if the bound on its work is too large; the bound holds for all data.
        "nuts" runs one Markov chain of PyMC for each draw, and the account assumes CONVERGED_CHAIN. "auto" uses
        rejection where the bound permits. The choice depends on public fields alone.
    constant_time : bool, default True
        Whether rejection makes a public number of proposals, about 35 times the expected number for one draw and hardly
        more than the expected number for thousands. Markov chains always assume TIMING.
    failure_probability : float, default 1e-15
        Largest probability, in (0, 1), that fewer than `draws` of the public number of proposals are accepted; then the
        missing draws come from the prior. It is for all draws of one release together, and must be below the delta of a
        guarantee. Not used with constant_time=False.
    exact : bool, default False
        Whether the draws are rounded from exact real numbers to a public grid, by rejection that is decided in ball
        arithmetic; the account then does not assume IDEAL_REALS. A proposal takes some 0.3 ms and 3 microseconds for
        each record, so that only fields with few records and proposals are accepted.
    grid : float, optional
        Pitch of the grid of exact draws, a power of two in units of the coefficients. None: for each coefficient the
        power of two at or below its prior standard deviation, times 2^-40. Not used with exact=False.

    Raises
    ------
    ValueError
        If a field lies outside its range, or "rejection" or exact draws may take too long.

    Notes
    -----
    Gopi, Lee and Liu 2022; Geumlek, Song and Chaudhuri 2017 (data weight and prior weight); docs/notes/glm.md.
    What a processor's caches and the precision steps of exact draws reveal is not covered by constant time.
    Kind: upper bound.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> mechanism = ps.LogisticPosterior(n=4, features=2, norm=1, prior_std=0.5)
    >>> mechanism.uses_rejection, round(float(mechanism.accountant.epsilon(1e-6)), 3)
    (True, 4.887)
    >>> mechanism.release((np.eye(4, 2), np.array([0, 1, 1, 0])))["coefficients"].shape
    (1, 2)
    """

    n: int
    features: int
    norm: float
    prior_std: float
    intercept_std: float | None = None
    data_weight: float = 1.0
    prior_weight: float = 1.0
    draws: int = 1
    unit: str = "record"
    sampler: Sampler = "auto"
    constant_time: bool = True
    failure_probability: float = 1e-15
    exact: bool = False
    grid: float | None = None
    free_parameters = (_free("data_weight"), _free("prior_weight", inverse))
    _checks_entropy: ClassVar[bool] = True
    command = CommandLine(
        name="logistic",
        data=("labelled rows",),
        help={
            "prior_std": "the prior's standard deviation of each coefficient",
            "intercept_std": "the prior's standard deviation of the intercept (default: no intercept)",
            "sampler": "rejection, or Markov chains (default: auto, rejection if the bound on the work permits)",
            "constant_time": "whether the number of proposals is public (default: yes)",
            "failure_probability": "the probability that too few proposals are accepted (default: 1e-15)",
            "exact": "whether draws are rounded from exact real numbers (default: no)",
            "grid": "the pitch of the grid of exact draws, a power of two",
        },
    )

    def __post_init__(self) -> None:
        if not one_of(self.sampler, ("auto", "rejection", "nuts")):
            raise ValueError(f"sampler must be 'auto', 'rejection' or 'nuts', got {self.sampler!r}")
        set_fields(self, constant_time=flag(constant_time=self.constant_time))
        failure = number(failure_probability=self.failure_probability)
        if not 0.0 < failure < 1.0:
            raise ValueError(f"failure_probability must lie in (0, 1), got {self.failure_probability!r}")
        set_fields(self, failure_probability=failure)
        set_fields(self, exact=flag(exact=self.exact))
        account = self._account_of_rejection
        for name in ("n", "features", "norm", "prior_std", "intercept_std", "data_weight", "prior_weight", "draws"):
            set_fields(self, **{name: getattr(account, name)})
        check_memory(self.draws * (self.features + 1), lower="draws or features")
        if self.sampler == "rejection" and not self.uses_rejection:
            takes = (
                f"may take e^{self._log_work:.1f} visits to a record, more than {_WORK:g}; or"
                if self._log_work > np.log(_WORK)
                else f"in constant time always takes {self._constant_work:.2g} visits to a record, more than "
                f"{_CONSTANT_WORK:g}; or pass constant_time=False,"
            )
            raise ValueError(
                f"sampler must be 'nuts' (or 'auto') here: rejection {takes} lower norm, prior_std, data_weight or "
                "draws, or raise prior_weight"
            )
        self._check_exact()

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws under ReplaceOne(n), with CONVERGED_CHAIN if draws come from Markov chains."""
        if self.uses_rejection:
            return self._account_of_rejection
        account = replace(self._account_of_rejection, failure_probability=0.0)
        return account.assuming(Assumption.CONVERGED_CHAIN).assuming(Assumption.TIMING)

    def _check_exact(self) -> None:
        """Check the fields of exact draws. Raises ValueError if they would take too long, or the grid is too fine."""
        if not self.exact:
            if self.grid is not None:
                raise ValueError(
                    f"grid must be None with exact=False: only exact draws are rounded to a grid, got {self.grid!r}"
                )
            return
        work = float(np.log(self.n)) + self._envelope.log_proposals
        if not self.uses_rejection or work > np.log(_EXACT_WORK) or self._dimension > _EXACT_DIMENSION:
            raise ValueError(
                f"exact must be False here: exact draws need rejection, at most {_EXACT_DIMENSION} coefficients, and "
                f"at most {_EXACT_WORK:g} expected visits to a record for one draw, got e^{work:.1f}; or lower n, "
                "norm, prior_std or data_weight"
            )
        set_fields(self, grid=None if self.grid is None else Grid(pitch=self.grid).pitch)
        self._grids  # noqa: B018 - building the grids checks the pitch

    @property
    def _dimension(self) -> int:
        """Number of coefficients, with the intercept."""
        return self.features + (self.intercept_std is not None)

    @cached
    def _grids(self) -> tuple[Grid, ...]:
        """The grid of each coefficient of exact draws, the intercept last."""
        return tuple(Grid.of_scale(float(scale), grid=self.grid) for scale in self._deviations)

    @property
    def _grid(self) -> Mapping[str, float] | None:
        """The pitch of the grid of each array of draws by name; None if the draws are not on a grid."""
        if not self.exact:
            return None
        ends = {"coefficients": self._grids[0].pitch}
        return ends if self.intercept_std is None else ends | {"intercept": self._grids[-1].pitch}

    @property
    def uses_rejection(self) -> bool:
        """True if the draws come from the posterior itself by rejection, False if they come from Markov chains."""
        return self.sampler != "nuts" and self._is_feasible

    @cached
    def _is_feasible(self) -> bool:
        """Whether public bounds on the work of rejection hold."""
        return self._log_work <= float(np.log(_WORK)) and (
            not self.constant_time or self._constant_work <= _CONSTANT_WORK
        )

    @property
    def _constant_work(self) -> float:
        """Record visits of rejection in constant time."""
        return float(self.n) * self._envelope.proposals(self.draws, self.failure_probability)

    @property
    def record_format(self) -> LabelledFormat:  # type: ignore[override]
        """Rows of features with their labels."""
        return LabelledFormat(features=self.features)

    @property
    def quantity(self) -> str:
        """The label "coefficient"."""
        return "coefficient"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant whose prior is wider than stated."""
        example = cls(n=1, features=1, norm=1, prior_std=1)
        return (
            Example.with_wrong_fields(
                "logistic-posterior", example, prior_std=2, bug="a prior twice as wide", samples=20_000
            ),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Extreme rows that are mirror images of each other, found by quadrature."""
        group = positive_integer(group=group)
        return logistic_neighbours(self, group)

    def extreme_records(self) -> FloatArray:
        """The longest rows in opposite directions, and a row of zeros, all with label 1."""
        records = np.zeros((3, self.features + 1))
        records[:2, 0], records[:, -1] = (self.norm, -self.norm), 1.0
        return records

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        return partial(rows_of_draws, self) if outer is self and self.draws == 1 else None

    def release_with_notes(self, data: Any, *, rng: np.random.Generator | None = None) -> tuple[Release, CuratorNotes]:
        """`release`, and diagnostics of the sampler.

        Parameters
        ----------
        data : tuple of (array, array)
            Rows of shape (n, features) and labels of shape (n,), as for `release`.
        rng : numpy.random.Generator, optional
            Random generator, for simulations: the account then assumes RNG_FRESH. None draws from the system's entropy.

        Returns
        -------
        tuple of (Release, CuratorNotes)
            The release, and notes for the curator only: the number of proposals, or R-hat, effective sample size and
            divergences. They depend on the data.
        """
        return self._release_with_notes(data, rng)

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return {"coefficients": ("feature",)}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        names = column_names(data[0])
        return {"feature": names} if len(names) == self.features else {}

    def _statistic(self, data: Any) -> FloatArray:
        """Rows after the public rule, the intercept's column last, with the signs of the labels, shape (n, dimension).

        No row of features is longer than `norm`, not even by an ulp.
        """
        rows, labels = self._parts(data)
        columns = within_norm(rows, self.norm)
        if self.intercept_std is not None:
            columns = np.column_stack([columns, np.ones(len(columns))])
        return np.asarray(columns * np.where(labels == 1.0, 1.0, -1.0)[:, None])

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> DrawsWithNotes:
        density = LogisticPosteriorDensity(rows=statistic * self._deviations, weight=self.data_weight)
        if self.exact:
            states, notes = self._exactly(statistic, density, rng)
        else:
            states, notes = self._by_rejection(density, rng) if self.uses_rejection else self._by_chains(density, rng)
            states = states * self._deviations
        draws = {"coefficients": states[:, : self.features]}
        if self.intercept_std is not None:
            draws["intercept"] = states[:, -1]
        return DrawsWithNotes(draws=draws, notes=notes)

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        rows, labels = self._parts(data)
        problems = count_clipped_rows(rows, self.norm) | count_class_problems(labels, 2)
        facts = {reason: count for reason, count in problems.items() if count}
        return CuratorNotes(
            title=f"{count_noun(len(rows), 'row')} of {count_noun(self.features, 'number')} with labels", facts=facts
        )

    @cached
    def _account_of_rejection(self) -> LogisticAccountant:
        """The account of rejection; of Markov chains before their assumptions."""
        constant = self.constant_time and self.sampler != "nuts"
        assumed = (set() if self.exact else {Assumption.IDEAL_REALS}) | (set() if constant else {Assumption.TIMING})
        return LogisticAccountant(
            n=self.n,
            features=self.features,
            norm=self.norm,
            prior_std=self.prior_std,
            intercept_std=self.intercept_std,
            data_weight=self.data_weight,
            prior_weight=self.prior_weight,
            draws=self.draws,
            unit=self.unit,
            assumptions=frozenset(assumed),
            failure_probability=self.failure_probability if constant else 0.0,
        )

    @cached
    def _deviations(self) -> FloatArray:
        """Standard deviations of the prior that is drawn from, the intercept last, shape (dimension,)."""
        return np.array([float(std) for std in self._stds]) / np.sqrt(self.prior_weight)

    @cached
    def _stds(self) -> tuple[Fraction, ...]:
        """Standard deviations of the prior before the prior weight, exactly, the intercept last."""
        intercept = () if self.intercept_std is None else (Fraction(self.intercept_std),)
        return (Fraction(self.prior_std),) * self.features + intercept

    @cached
    def _envelope(self) -> RejectionEnvelope:
        return plan(
            weight=self.n * self.data_weight,
            reach=self._account_of_rejection.scaled_row_norm,
            dimension=len(self._deviations),
        )

    @cached
    def _log_work(self) -> float:
        """Upper bound on the log of the expected number of record visits by rejection."""
        return float(np.log(self.n) + np.log(self.draws)) + self._envelope.log_proposals

    def _by_rejection(
        self, distribution: LogisticPosteriorDensity, source: np.random.Generator
    ) -> tuple[FloatArray, CuratorNotes]:
        if self.constant_time:
            proposals = self._envelope.proposals(self.draws, self.failure_probability)
            drawn, accepted = distribution.sample_in_constant_time(self.draws, proposals, self._envelope, source)
            facts = {"proposals": proposals, "accepted": accepted}
        else:
            drawn, proposals = distribution.sample(self.draws, self._envelope, source)
            facts = {"proposals": proposals}
        return drawn, CuratorNotes(title="draws by rejection", facts=facts)

    def _exactly(
        self, rows: FloatArray, density: LogisticPosteriorDensity, source: np.random.Generator
    ) -> tuple[FloatArray, CuratorNotes]:
        """Draws in units of the coefficients (glm.md, section 6)."""
        stds, weight = self._stds, Fraction(self.prior_weight)
        exact = ExactLogistic(rows=rows, stds=stds, prior_weight=weight, weight=Fraction(self.data_weight))
        reach = (Fraction(self.norm) * stds[0]) ** 2 + (Fraction(self.intercept_std or 0.0)) ** 2
        steps = CONSTANT_STEPS if self.constant_time else 0
        centre = density.near_mode(tolerance=self._envelope.gradient_tolerance, least_steps=steps)
        envelope = ExactEnvelope(exact, centre * self._deviations, self._envelope, reach / weight)
        proposals = None
        if self.constant_time and envelope.gradient_norm <= self._envelope.gradient_tolerance:
            proposals = self._envelope.proposals(self.draws, self.failure_probability)
        drawn, made, accepted = draw_with_entropy_check(
            source, lambda: exact_draws(envelope, self.draws, proposals, self._grids, source)
        )
        facts = {"proposals": made, "accepted": accepted}
        return drawn, CuratorNotes(title="exact draws by rejection", facts=facts)

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        del rng
        if not self.uses_rejection:
            libraries("sampling by NUTS")

    def _by_chains(
        self, distribution: LogisticPosteriorDensity, source: np.random.Generator
    ) -> tuple[FloatArray, CuratorNotes]:
        """The last state of one chain for each draw; states of the same chain would be dependent."""
        words = draw_with_entropy_check(source, lambda: source.integers(0, 1 << 32, size=8, dtype=np.uint32))
        chains, facts = pymc.logistic_chains(
            distribution.rows, distribution.weight, self.draws, np.random.default_rng(words)
        )
        return chains[: self.draws, -1], CuratorNotes(title="one Markov chain for each draw", facts=facts)

    def _parts(self, data: Any) -> tuple[FloatArray, FloatArray]:
        """Rows and labels as floats. Raises SchemaError."""
        return labelled(data, self.features, self.n)
