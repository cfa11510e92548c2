"""Selection of the best of a random number of runs, or of the first run above a threshold.

The number of runs is never revealed.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from privsample._checks import finite, flag, open_unit_interval, positive_integer
from privsample._data import as_float
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import running_assumptions
from privsample.accounting.base import Accountant
from privsample.accounting.selection.conditional import ConditionalAccountant, Stop
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.exact.categorical import Categorical
from privsample.distributions.repetitions import (
    RepetitionDistribution,
    TruncatedNegativeBinomial,
    check_maximum,
    check_repetition_distribution,
)
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper, account_of
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.noise.additive import GaussianMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.release import Release
from privsample.mechanisms.selection.mutants import SelectionWithCount
from privsample.mechanisms.selection.neighbours import (
    accept_extremes,
    best_of_runs,
    first_accepted,
    low_losses_first,
    neighbours_by_score,
)
from privsample.mechanisms.selection.ranking import FAILED, Rank, rank_of, without_warnings
from privsample.relations import ReplaceOne

Score = str | Callable[[Release], float] | None

_LEAST_MORE, _MOST_MEAN = 1e-9, 1e6
_ADVICE = "one run of the base already exceeds the target; make the base more private"


def _negative_binomial(more: float, fields: Mapping[str, Any]) -> RepetitionDistribution:
    return TruncatedNegativeBinomial.from_mean(mean=1.0 + max(more, _LEAST_MORE), eta=fields["eta"])


def _account_of_one_run(fields: Mapping[str, Any]) -> Accountant:
    return check_mechanism_type(fields["base"]).accountant


@frozen_value
class RepeatedSelection(Wrapper):
    """The best of K runs of `base`, where the random number K has the distribution `repetitions`.

    `release` takes the base's data, which are read once, and draws the base's names. If K is 0, or every run failed, no
    draws are released. Of several runs with the highest score the first is selected. NaN, and a score that raises an
    error, rank below every number; runs that failed numerically rank lowest. The base's account must cover such
    failures. `calibrate` finds the largest mean number of runs for a truncated negative binomial distribution; it also
    accepts that distribution's `eta`, 0 by default.

    Parameters
    ----------
    base : Mechanism
        The inner mechanism, whose data `release` takes.
    repetitions : RepetitionDistribution
        Distribution of the number K of runs, such as `TruncatedNegativeBinomial.logarithmic(mean=10)`. With
        `FixedRepetitions` the account is that of all runs together.
    score : str or function of Release, optional
        What is maximized: the name of a draw that is one number, or a function of the base's Release that is public,
        fixed beforehand, and does not read the data. None uses the only draw. A mechanism with a function cannot be
        saved.
    constant_time : bool, default False
        Whether the largest possible number of runs is always made, of which the first K count. The number of runs then
        reveals nothing, and the account assumes FIXED_WORK in place of TIMING. It needs `repetitions` with a maximum,
        such as `TruncatedRepetitions(distribution=..., maximum=...)`, whose account is that of the truncated
        distribution.

    Raises
    ------
    TypeError
        If the base is not a mechanism, or `repetitions` is a fixed number.
    ValueError
        If `constant_time` is True and the number of runs has no maximum.

    Notes
    -----
    Liu and Talwar 2019; Papernot and Steinke 2022, Theorem 2 and Proposition 17; docs/notes/constant_time.md. Kind:
    upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.GaussianMechanism(sensitivity=1, noise_std=5)
    >>> repetitions = ps.TruncatedNegativeBinomial.logarithmic(mean=10)
    >>> mechanism = ps.RepeatedSelection(base=base, repetitions=repetitions)
    >>> round(float(base.accountant.epsilon(1e-6)), 3), round(float(mechanism.accountant.epsilon(1e-6)), 3)
    (0.834, 1.164)
    >>> mechanism.release(3.0)["statistic"].shape
    (1,)
    """

    base: Mechanism
    repetitions: RepetitionDistribution
    score: Score = None
    constant_time: bool = False
    free_parameters = (
        FreeParameter(
            name="repetitions",
            upper=_MOST_MEAN,
            value=_negative_binomial,
            options={"eta": 0.0},
            limit=_account_of_one_run,
            advice=_ADVICE,
        ),
    )
    _releases_base_draws: ClassVar[bool] = True
    command = CommandLine(
        help={
            "repetitions": 'the distribution of the number of runs, e.g. "truncated-negative-binomial eta=0 gamma=0.2"'
        }
    )

    def __post_init__(self) -> None:
        check_mechanism_type(self.base)
        repetitions = check_repetition_distribution(self.repetitions)
        set_fields(self, repetitions=repetitions, score=_checked_score(self.score))
        set_fields(self, constant_time=flag(constant_time=self.constant_time))
        if self.constant_time:
            check_maximum(repetitions)

    @cached
    def accountant(self) -> SelectionAccountant:
        """The account of the selection, an upper bound derived from the base's account."""
        return SelectionAccountant(
            base=self.base.accountant,
            repetitions=self.repetitions,
            assumptions=running_assumptions(constant_time=self.constant_time),
        )

    @property
    def quantity(self) -> str:
        """The label of the base."""
        return self.base.quantity

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that reveals the number of runs."""
        base = RandomizedResponse(log_odds=1.5, relation=ReplaceOne(n=1))
        repetitions = TruncatedNegativeBinomial.geometric(mean=4)
        mutant, bug = SelectionWithCount(base=base, repetitions=repetitions), "it reveals the number of runs"
        name, example = "repeated-selection", cls(base=base, repetitions=repetitions)
        return (Example(name=name, mechanism=example, mutant=mutant, bug=bug, samples=10_000),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The base's worst neighbours, with the scores that attain most."""
        group = positive_integer(group=group)
        return neighbours_by_score(self, group, low_losses_first, best_of_runs(self.repetitions))

    @property
    def _may_release_nothing(self) -> bool:
        return self.base._may_release_nothing or float(self.repetitions.log_mass(np.zeros(()))) > -np.inf

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        best: tuple[Rank, Draws] = (FAILED, {})
        counted = draw_with_entropy_check(rng, lambda: self.repetitions.sample(rng))
        for place in range(int(self.repetitions.maximum) if self.constant_time else counted):
            found = _one_run(self.base, self.score, statistic, rng)
            if found[0] > best[0] and place < counted:  # constant_time.md, step 1.2: runs beyond K change nothing
                best = found
        return best[1]


@frozen_value
class ConditionalSelection(Wrapper):
    """Runs of `base` until one has a score of at least `threshold`, or until a random stop.

    Before each run the mechanism stops with probability `stop_probability` and releases no draws. Thus every round
    stops with at least this probability for all data, the account needs no assumption about the data, and the
    mean number of runs is at most 1/stop_probability. With `stop="after"`, the mechanism runs first, and stops with
    this probability after each run whose score does not reach the threshold: at least one run is made. `release` takes
    the base's data, and draws the base's names. NaN scores and failed runs never reach the threshold. The number of
    runs has no maximum and depends on the data: where running times are observed, use
    `RepeatedSelection(..., constant_time=True)`.

    Parameters
    ----------
    base : Mechanism
        The inner mechanism, whose data `release` takes.
    threshold : float
        The smallest score that is released, finite, in the unit of the score.
    stop_probability : float
        Probability of stopping before, or after, each run, in (0, 1]. It must exceed the base's infinity mass.
    score : str or function of Release, optional
        The score, as for `RepeatedSelection`.
    stop : {"before", "after"}, default "before"
        Whether the random stop is decided before or after each run. Stopping before costs slightly less.

    Raises
    ------
    TypeError
        If the base is not a mechanism.
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Liu and Talwar 2019 (stop after a run); Papernot and Steinke 2022, Appendix C and footnote 11 (stop before a run);
    docs/notes/selection.md, section 5. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.GaussianMechanism(sensitivity=1, noise_std=5)
    >>> mechanism = ps.ConditionalSelection(base=base, threshold=2.0, stop_probability=0.1)
    >>> round(float(base.accountant.epsilon(1e-6)), 3), round(float(mechanism.accountant.epsilon(1e-6)), 3)
    (0.834, 1.107)
    """

    base: Mechanism
    threshold: float
    stop_probability: float
    score: Score = None
    stop: Stop = "before"
    _releases_base_draws: ClassVar[bool] = True
    command = CommandLine(
        help={
            "threshold": "the smallest score that is released",
            "stop_probability": "the probability to stop before, or after, each run",
            "stop": "whether to stop before or after a run (default: before)",
        }
    )

    def __post_init__(self) -> None:
        check_mechanism_type(self.base)
        set_fields(
            self,
            threshold=finite(threshold=self.threshold),
            stop_probability=open_unit_interval(stop_probability=self.stop_probability),
            score=_checked_score(self.score),
        )
        self.accountant  # noqa: B018 - building it checks the stop probability against the base

    @cached
    def accountant(self) -> ConditionalAccountant:
        """The account of one round, given that the round stops: an upper bound derived from the base's account."""
        return ConditionalAccountant(
            base=self.base.accountant,
            event_probability=self.stop_probability,
            geometric_stopping=True,
            stop=self.stop,
        )

    @cached
    def _stops(self) -> Categorical:
        """0 with the stop probability, else 1."""
        return Categorical.of_weights([Fraction(self.stop_probability), 1 - Fraction(self.stop_probability)])

    @property
    def quantity(self) -> str:
        """The label of the base."""
        return self.base.quantity

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Both times of stopping, each with a mutant whose runs add too little noise."""
        quiet = GaussianMechanism(sensitivity=1, noise_std=1)
        bug = "the noise of a run is smaller than stated"
        named: dict[str, Stop] = {"conditional-selection": "before", "selection-stopped-after-runs": "after"}
        return tuple(
            Example.with_wrong_fields(
                name,
                cls(base=GaussianMechanism(sensitivity=1, noise_std=4), threshold=0.0, stop_probability=0.5, stop=stop),
                base=quiet,
                bug=bug,
                samples=5_000 if stop == "before" else 2_500,
            )
            for name, stop in named.items()
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The base's worst neighbours, with the scores that attain most."""
        group = positive_integer(group=group)
        places = accept_extremes(self.threshold)
        chosen = first_accepted(self.threshold, self.stop_probability, after=self.stop == "after")
        return neighbours_by_score(self, group, places, chosen)

    @property
    def _may_release_nothing(self) -> bool:
        return True

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        first = self.stop == "after"  # the first run is made without a stop before it
        while first or draw_with_entropy_check(rng, lambda: self._stops.draw(1, rng))[0] == 1:
            first = False
            rank, found = _one_run(self.base, self.score, statistic, rng)
            if rank >= rank_of(self.threshold):
                return found
        return {}


def _one_run(base: Mechanism, score: Score, statistic: Any, rng: np.random.Generator) -> tuple[Rank, Draws]:
    """The rank of one run, and its draws."""
    with without_warnings():
        try:
            draws = base._draw_checked(statistic, rng).draws
        except (ArithmeticError, np.linalg.LinAlgError):
            return FAILED, {}
        if not draws:
            return FAILED, {}
        release = Release(mechanism=base, draws=draws, account=account_of(base, None))
        number = _score_of(release, score)
    return rank_of(number), release.draws


def _score_of(release: Release, score: Score) -> float:
    """The score; NaN if a function returns no number. Raises ValueError if the draw is not one number."""
    if callable(score):
        try:
            return as_float(score(release))
        except Exception:  # noqa: BLE001 - an error would show something of a run that may not win
            return float("nan")
    names = sorted(release.draws)
    name = names[0] if score is None and len(names) == 1 else score or ""
    if name not in release.draws or release.draws[name].size != 1:
        shapes = {known: release.draws[known].shape for known in names}
        raise ValueError(
            f"score must name a draw that is one number, got {score!r}; the base releases draws of shapes {shapes}. "
            "Pass a function of the Release to rank anything else"
        )
    return float(release.draws[name].item())


def check_mechanism_type(base: Any) -> Mechanism:
    """The base, if it is a mechanism. Raises TypeError."""
    if not isinstance(base, Mechanism):
        raise TypeError(
            f"base must be a mechanism, whose accountant is that of one run, got {type(base).__name__}; what has "
            "no account cannot be repeated privately"
        )
    return base


def _checked_score(score: Any) -> Score:
    if score is None or callable(score) or (isinstance(score, str) and score):
        return score
    raise TypeError(f"score must be the name of a draw, a function of the base's Release, or None, got {score!r}")
