"""Private selection of a candidate of high utility: exponential mechanism, report-noisy-max, permute-and-flip."""

from abc import abstractmethod
from collections.abc import KeysView, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    FloatArray,
    check_memory,
    flag,
    holds_text,
    is_encodable,
    listed,
    number,
    one_of,
    positive,
    positive_integer,
)
from privsample._logspace import product_up, ratio_up
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import drawing_assumptions
from privsample.accounting.base import Accountant
from privsample.accounting.guarantees import BoundedRangeAccountant
from privsample.accounting.loss.bounded_range import MOST_DRAWS
from privsample.accounting.selection.exponential import PermuteAndFlipAccountant
from privsample.distributions.exact.exponential_weights import ExponentialWeights
from privsample.distributions.record_format import RecordFormat
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper, compose_draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release
from privsample.mechanisms.selection.candidate_neighbours import candidate_neighbours
from privsample.mechanisms.selection.chances import exponential_chances, permute_and_flip_chances
from privsample.mechanisms.selection.utilities import (
    Candidates,
    ExactTotals,
    StatedUtility,
    SummedUtility,
    Utility,
    check_count,
)
from privsample.relations import AddRemove, Relation, ReplaceOne, check_single_record_relation

_MOST_RANGE = 500.0  # largest loss range that a calibration tries
_BLOCK = 1 << 20  # noise values that are held at once
_ADVICE = "ask for epsilon > 0 or delta > 0"
_CANDIDATES = (1.0, 2.0, 3.0)
_UNCLIPPED = "ratings beyond the bounds count in full, up to twice the upper bound"
_FACTOR_TWO = "the factor 2 is forgotten: the rate is that of utilities that only rise"
_TOO_LITTLE = "the noise is smaller than stated"
_COMMAND = CommandLine(
    data=("rows", "column", "statistic"),
    help={
        "candidates": "the candidates, different numbers or names with commas between them",
        "utility": 'how records rate candidates, e.g. "summed-utility bounds=0,1" or "quantile-utility"',
    },
)


def _checked_utility(fields: Mapping[str, Any]) -> Utility:
    utility = fields["utility"]
    if not isinstance(utility, Utility):
        raise TypeError(f"utility must be a Utility, such as SummedUtility(), got {type(utility).__name__}")
    return utility


def _rate(loss_range: float, fields: Mapping[str, Any]) -> float:
    change = _checked_utility(fields).change_range(fields["relation"])
    return loss_range / float(np.nextafter(change, np.inf))


def _scale(ratio: float, fields: Mapping[str, Any]) -> float:
    return ratio * _checked_utility(fields).change_range(fields["relation"])


class CandidateSelection(Mechanism):
    """Base class: `draws` independent choices among public candidates, by their utilities for the data."""

    __slots__ = ()
    candidates: Candidates
    utility: Utility
    relation: Relation
    draws: int
    exact: bool
    command = _COMMAND

    @property
    @abstractmethod
    def loss_range(self) -> float:
        """Rate times the largest difference of the changes of two candidates' utilities: the pure epsilon of a draw."""

    @property
    @abstractmethod
    def _unit(self) -> float:
        """The difference of utilities, in their own unit, that changes odds by a factor of e."""

    @property
    @abstractmethod
    def _exact_rate(self) -> Fraction:
        """The factor of the utilities in the exponent."""

    @property
    @abstractmethod
    def _flips(self) -> bool:
        """Whether the noise is exponential, as that of permute-and-flip, and not Gumbel noise."""

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws."""
        assumptions = self.utility.assumptions | drawing_assumptions(exact=self.exact)
        if self._flips:
            flip = PermuteAndFlipAccountant(loss_range=self.loss_range, relation=self.relation, assumptions=assumptions)
            return compose_draws(flip, self.draws)
        one = BoundedRangeAccountant(loss_range=self.loss_range, relation=self.relation, assumptions=assumptions)
        return replace(one, draws=self.draws) if self.draws <= MOST_DRAWS else compose_draws(one, self.draws)

    @property
    def quantity(self) -> str:
        """The fixed text "selected candidate"."""
        return "selected candidate"

    @property
    def description(self) -> str:
        """How candidates are selected, in one sentence."""
        return (
            f"One of {len(self.candidates)} public candidates was selected at random, better ones more often; one "
            f"record changes the probability of a candidate by a factor of at most e^{self.loss_range:.4g}."
        )

    def probabilities(self, utilities: FloatArray) -> FloatArray:
        """The probability of each candidate, given utilities.

        Parameters
        ----------
        utilities : array, shape (candidates,)
            Finite utilities, such as those of simulated data. The result depends on them and is not private.

        Returns
        -------
        numpy.ndarray of float
            Probabilities, shape (candidates,), which add up to 1.

        Raises
        ------
        TypeError
            If the utilities are not numbers.
        ValueError
            If the utilities are not finite or have another shape.
        """
        try:
            given = np.asarray(utilities, dtype=object)
            text = holds_text(given)
            given = given if text else np.asarray(utilities, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"utilities must be numbers, got {type(utilities).__name__}") from None
        if text:
            raise TypeError("utilities must be numbers, got text")
        rule = f"utilities must be {len(self.candidates)} finite numbers, one for each candidate"
        if given.shape != (len(self.candidates),):
            raise ValueError(f"{rule}, got an array of shape {given.shape}")
        if not (finite := np.isfinite(given)).all():
            at = int(np.argmin(finite))
            raise ValueError(f"{rule}, got {given[at]} for candidate {at}")
        return (permute_and_flip_chances if self._flips else exponential_chances)(self._scores(given))

    def selected(self, release: Release) -> tuple[Any, ...]:
        """The candidates that a release selected, in place of their positions. This costs no privacy.

        Parameters
        ----------
        release : Release
            A release of this mechanism.

        Returns
        -------
        tuple
            One candidate for each draw.

        Raises
        ------
        TypeError
            If `release` is not a Release.
        ValueError
            If it is a release of another mechanism, which does not wrap this one.
        """
        if not isinstance(release, Release):
            raise TypeError(f"selected takes a Release of this mechanism, got {type(release).__name__}")
        inner = release.mechanism
        while inner != self and isinstance(inner, Wrapper):
            inner = inner.base
        if inner != self:
            fields = " with other fields" if type(inner) is type(self) else ""
            raise ValueError(f"the release must be one of this mechanism, got one of {type(inner).__name__}{fields}")
        return tuple(self.candidates[place] for place in release["selected"])

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        self._statistic(data)
        problems = self.utility.problems(data, self.candidates)
        return CuratorNotes(
            title=f"utilities of {len(self.candidates)} candidates",
            facts={reason: count for reason, count in problems.items() if count},
        )

    @property
    def record_format(self) -> RecordFormat | None:  # type: ignore[override]
        """The format of the records that rate the candidates; None if the utility is not computed from records."""
        return self.utility.record_format(self.candidates)

    def for_size(self, size: int) -> "CandidateSelection":
        """Under ReplaceOne, the same selection from `size` records; under AddRemove, the mechanism itself."""
        if self.record_format is None:
            raise TypeError(f"{type(self.utility).__name__} takes utilities, and no records that could be sampled")
        if not isinstance(self.relation, ReplaceOne):
            return self
        return replace(self, relation=replace(self.relation, n=size))  # type: ignore[type-var]

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Neighbours whose privacy curves nearly attain the account's, each near another epsilon."""
        return candidate_neighbours(self, positive_integer(group=group))

    def extreme_records(self) -> NDArray[Any]:
        """The records that move the utilities most."""
        found, read = self.utility.extreme_records(self.candidates), self.record_format
        if found is None or read is None:
            return super().extreme_records()
        return read.read(self.utility.dataset(found, self.candidates))

    def _many_draws(self, outer: Mechanism) -> Draw:
        return many_draws(self, "selected", outer)

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        del data
        return {"category": tuple(str(candidate).removesuffix(".0") for candidate in self.candidates)}

    def _statistic(self, data: Any) -> ExactTotals:
        if self.exact:
            return self.utility.exact_totals(data, self.candidates, self.relation)
        return ExactTotals(self.utility.totals(data, self.candidates, self.relation), Fraction(1))

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        if not self.exact:
            raise TypeError(self._why_no_tally)
        sums, count = self.utility._integers(data, self.candidates)
        return tuple(sums.tolist()), count

    @property
    def _tally_width(self) -> int:
        return self.utility._sums_for_each * len(self.candidates)

    def _from_integers(self, sums: tuple[int, ...], count: int) -> ExactTotals:
        if not self.exact:
            raise TypeError(self._why_no_tally)
        check_count(count, self.relation)
        return self.utility._from_integers(np.array(sums, dtype=np.int64))

    def _draw(self, statistic: ExactTotals, rng: np.random.Generator) -> Draws:
        if self.exact:
            weights = ExponentialWeights(statistic.numbers, self._exact_rate * statistic.unit)
            return {"selected": (weights.permute_and_flip if self._flips else weights.choose)(self.draws, rng)}
        scores = self._scores(statistic.numbers)
        parts = np.array_split(np.empty(self.draws), self.draws * len(scores) // _BLOCK + 1)
        return {"selected": np.concatenate([self._noisy_maximum(scores, len(part), rng) for part in parts])}

    def _noisy_maximum(self, scores: FloatArray, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The places of the largest scores with noise, in floating-point numbers, shape (count,)."""
        noise = rng.standard_exponential((count, len(scores)))
        if not self._flips:
            with np.errstate(divide="ignore"):
                noise = -np.log(noise)  # Gumbel noise
        return np.asarray((scores + noise).argmax(axis=1), dtype=np.int64)

    def _scores(self, utilities: FloatArray) -> FloatArray:
        """Utilities in units of the noise, less the largest, so that the best candidates keep all digits."""
        with np.errstate(over="ignore"):
            return (utilities - utilities.max()) / self._unit


def _normalize(self: Any) -> None:
    """Check and store the fields that all selections have."""
    candidates = _checked_candidates(self.candidates)
    _checked_utility({"utility": self.utility}).check(candidates)
    set_fields(
        self,
        candidates=candidates,
        relation=check_single_record_relation(self.relation),
        draws=positive_integer(draws=self.draws),
        exact=flag(exact=self.exact),
    )
    check_memory(self.draws, lower="draws")
    check_memory(len(candidates), lower="the number of candidates")
    self.accountant  # noqa: B018 - building it checks the loss range


def _checked_candidates(given: Any) -> Candidates:
    """Two or more different candidates: finite numbers, or texts."""
    if isinstance(given, AbstractSet) and not isinstance(given, KeysView):  # the keys of a dict have a fixed order
        raise TypeError(
            f"candidates must be a list in a fixed order, got a {type(given).__name__}, whose order differs between "
            "runs; pass sorted(...)"
        )
    found = listed(candidates=given)
    if len(found) < 2:
        raise ValueError(f"candidates must be at least two, got {len(found)}")
    if all(isinstance(one, str) for one in found):
        if not all(one.strip() and is_encodable(one) for one in found):
            raise ValueError("candidates must be strings that are not empty and that UTF-8 can encode")
        named: Candidates = tuple(map(str, found))
    elif any(isinstance(one, str) for one in found):
        raise TypeError("candidates must be all numbers or all text, got both")
    else:
        named = tuple([number(**{f"candidates[{place}]": one}) for place, one in enumerate(found)])
        if not np.isfinite(np.array(named, dtype=np.float64)).all():
            raise ValueError("candidates must be finite, got infinity or NaN: fix a finite public list")
    if len(set(named)) < len(named):
        raise ValueError("candidates must be different, got one of them twice")
    return named


class RatedSelection(CandidateSelection):
    """Base class: selections whose probabilities depend on e^(rate u), u the utilities."""

    __slots__ = ()
    rate: float
    free_parameters = (FreeParameter(name="rate", upper=_MOST_RANGE, value=_rate, advice=_ADVICE),)

    def __post_init__(self) -> None:
        set_fields(self, rate=positive(rate=self.rate))
        _normalize(self)

    @property
    def loss_range(self) -> float:
        """Rate times the largest difference of the changes of two candidates' utilities, in nats."""
        return float(product_up(self.rate, self.utility.change_range(self.relation)))

    @property
    def _unit(self) -> float:
        return 1.0 / self.rate

    @property
    def _exact_rate(self) -> Fraction:
        return Fraction(self.rate)


def _examples(cls: Any, name: str) -> tuple[Example, ...]:
    """The examples of a class with a rate."""
    stated = cls(candidates=_CANDIDATES, rate=1.0, utility=StatedUtility(sensitivity=0.5))
    summed = cls(candidates=("a", "b", "c"), rate=0.5, relation=ReplaceOne(n=60))
    unclipped = SummedUtility(bounds=(0.0, 2.0))
    return (
        Example.with_wrong_fields(name, stated, rate=2.0, bug=_FACTOR_TWO, samples=9_000),
        Example.with_wrong_fields(f"{name}-ratings", summed, utility=unclipped, bug=_UNCLIPPED, samples=9_000),
    )


@frozen_value
class ExponentialMechanism(RatedSelection):
    """A public candidate, selected with probability proportional to e^(rate u), u its utility for the data.

    `release` takes what the utility takes, and releases "selected", the positions of the selected candidates, whole
    numbers of shape (draws,). `selected(release)` names them.

    Parameters
    ----------
    candidates : tuple of float or of str
        At least two different candidates: finite numbers, or names. They must be fixed without looking at the data.
    rate : float
        Factor of the utility in the exponent, finite and > 0, in nats per unit of the utility.
    utility : Utility, default SummedUtility()
        How records rate candidates: `SummedUtility`, `StatedUtility`, `QuantileUtility` or `CountUtility`.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        Whether the choice is made exactly, from random bits and without rounding. False makes it with floating-point
        numbers, and the account then assumes IDEAL_REALS.

    Raises
    ------
    TypeError
        If `utility` is no utility, or does not suit the candidates.
    ValueError
        If a field lies outside its range.

    Notes
    -----
    McSherry and Talwar 2007, Theorem 6; Durfee and Rogers 2019; Dong, Durfee and Rogers 2020 (bounded range). Kind:
    exact, up to 128 draws.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.ExponentialMechanism(candidates=("red", "green", "blue"), rate=1, utility=ps.CountUtility())
    >>> mechanism.accountant.pure_epsilon
    1.0
    >>> release = mechanism.release(["red", "red", "blue"])
    >>> mechanism.selected(release)[0] in mechanism.candidates
    True
    """

    candidates: Candidates
    rate: float
    utility: Utility = SummedUtility()
    relation: Relation = AddRemove()
    draws: int = 1
    exact: bool = True

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Examples of stated and of summed utilities; a mutant forgets the factor 2, and one does not clip."""
        return _examples(cls, "exponential")

    @property
    def _flips(self) -> bool:
        return False


@frozen_value
class PermuteAndFlip(RatedSelection):
    """A public candidate, selected by permute-and-flip.

    The candidates are visited in random order, and each is accepted with probability e^(rate (u - max u)), u its
    utility for the data; the first accepted one is selected. The expected utility is at least that of
    `ExponentialMechanism` with the same rate, which has the same pure epsilon. Under composition the exponential
    mechanism costs less. `release` takes what the utility takes, and releases "selected", the positions of the selected
    candidates, whole numbers of shape (draws,).

    Parameters
    ----------
    candidates : tuple of float or of str
        At least two different candidates: finite numbers, or names. They must be fixed without looking at the data.
    rate : float
        Factor of the utility in the exponent, finite and > 0, in nats per unit of the utility.
    utility : Utility, default SummedUtility()
        How records rate candidates: `SummedUtility`, `StatedUtility`, `QuantileUtility` or `CountUtility`.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        Whether the choice is made exactly, from random bits and without rounding. False makes it with floating-point
        numbers, and the account then assumes IDEAL_REALS.

    Raises
    ------
    TypeError
        If `utility` is no utility, or does not suit the candidates.
    ValueError
        If a field lies outside its range.

    Notes
    -----
    McKenna and Sheldon 2020, Algorithm 1; Ding, Kifer, Steinke, Wang, Xiao and Zhang 2021 (exponential noise);
    docs/notes/exponential.md, section 4. Kind: exact for the privacy curve of one draw, else upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.PermuteAndFlip(candidates=(1, 2, 3), rate=1, utility=ps.QuantileUtility())
    >>> mechanism.accountant.pure_epsilon
    1.0
    >>> mechanism.release([1.5, 2.0, 2.5])["selected"].shape
    (1,)
    """

    candidates: Candidates
    rate: float
    utility: Utility = SummedUtility()
    relation: Relation = AddRemove()
    draws: int = 1
    exact: bool = True

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Examples of stated and of summed utilities; a mutant forgets the factor 2, and one does not clip."""
        return _examples(cls, "permute-and-flip")

    @property
    def _flips(self) -> bool:
        return True


@frozen_value
class ReportNoisyMax(CandidateSelection):
    """The public candidate whose utility with noise is largest; the noise is one-sided exponential, or Gumbel noise.

    Only the candidate is released, not its noisy utility, so that an exact choice needs no noise: it is drawn from the
    same distribution. With Gumbel noise this is `ExponentialMechanism` of the rate
    1/scale, with exponential noise `PermuteAndFlip` of that rate. `release` takes what the utility takes, and releases
    "selected", the positions of the selected candidates, whole numbers of shape (draws,).

    Parameters
    ----------
    candidates : tuple of float or of str
        At least two different candidates: finite numbers, or names. They must be fixed without looking at the data.
    scale : float
        Scale of the noise, finite and > 0, in units of the utility.
    utility : Utility, default SummedUtility()
        How records rate candidates: `SummedUtility`, `StatedUtility`, `QuantileUtility` or `CountUtility`.
    noise : {"exponential", "gumbel"}, default "exponential"
        Distribution of the noise on each utility.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        Whether the choice is made exactly, from random bits and without rounding. False makes it with floating-point
        numbers, and the account then assumes IDEAL_REALS.

    Raises
    ------
    TypeError
        If `utility` is no utility, or does not suit the candidates.
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Ding, Kifer, Steinke, Wang, Xiao and Zhang 2021 (exponential noise); Durfee and Rogers 2019, Lemma 4.2 (Gumbel
    noise). Kind: as for `PermuteAndFlip` and `ExponentialMechanism`.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.ReportNoisyMax(candidates=("a", "b"), scale=2, utility=ps.StatedUtility(sensitivity=1))
    >>> mechanism.accountant.pure_epsilon
    1.0
    >>> mechanism.release([10.0, 12.5])["selected"].shape
    (1,)
    """

    candidates: Candidates
    scale: float
    utility: Utility = SummedUtility()
    noise: Literal["exponential", "gumbel"] = "exponential"
    relation: Relation = AddRemove()
    draws: int = 1
    exact: bool = True
    free_parameters = (FreeParameter(name="scale", direction="smallest", value=_scale, advice=_ADVICE),)

    def __post_init__(self) -> None:
        if not one_of(self.noise, ("exponential", "gumbel")):
            raise ValueError(f"noise must be 'exponential' or 'gumbel', got {self.noise!r}")
        set_fields(self, scale=positive(scale=self.scale))
        _normalize(self)

    @property
    def loss_range(self) -> float:
        """The largest difference of the changes of two candidates' utilities, in units of the scale."""
        return ratio_up(self.utility.change_range(self.relation), self.scale)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example of either noise, and a mutant whose noise is too small."""
        example = cls(candidates=_CANDIDATES, scale=1.0)
        gumbel = replace(example, noise="gumbel")
        return (
            Example.with_wrong_fields("report-noisy-max", example, scale=0.5, bug=_TOO_LITTLE, samples=9_000),
            Example.with_wrong_fields("report-noisy-max-gumbel", gumbel, scale=0.5, bug=_TOO_LITTLE, samples=9_000),
        )

    @property
    def _unit(self) -> float:
        return self.scale

    @property
    def _exact_rate(self) -> Fraction:
        return 1 / Fraction(self.scale)

    @property
    def _flips(self) -> bool:
        return self.noise == "exponential"
