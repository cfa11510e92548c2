"""Sampling schemes of the user's own: a table of samples, or stated couplings, by advanced joint convexity."""

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from privsample._checks import listed, number, positive_integer, whole_number
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.couplings import (
    Distances,
    Masses,
    Sample,
    compatible_distances,
    distance_under,
    larger_tails,
    sorted_sample,
    whole_masses,
)
from privsample.distributions.exact.categorical import Categorical
from privsample.distributions.schemes import (
    COUPLINGS,
    Alternatives,
    Conversions,
    Indices,
    RecordCopies,
    SamplingPart,
    Scheme,
    unit_of,
)
from privsample.relations import AddRemove, Relation, ReplaceOne

_MOST_SAMPLES = 500  # larger tables take long to couple
_MOST_ALTERNATIVES = 4  # more worst cases are joined into so many, each of which bounds several
_MOST_COUPLED = 24  # the same, where two couplings are kept: all cases are then one pair, whose cost is their number
_SUM_TOLERANCE = 1e-9
_ROUGH = 1e-9  # exceeds the rounding of probabilities that are compared before exact ones
_LEAST = 1e-9  # least positive probability of a sample; couplings count masses below 1e-12 as rounding
_ROUNDING = Fraction(1, 10**12)  # relative difference of two probabilities that stems from rounding
_SOURCE = "Balle, Barthe and Gaboardi 2018, Theorems 2 and 7"

Table = Mapping[Sequence[Hashable], float]
Joint = Mapping[tuple[Sequence[Hashable], Sequence[Hashable]], float]


@frozen_value
class TableSampling(Scheme):
    """A scheme of your own: a finite distribution of samples of the positions 0, ..., n-1.

    A sample is a list of positions, in which a position may occur several times. The records at these positions are
    drawn in uniformly random order. The distribution does not depend on the records, so the library derives the account
    by itself: for each position, the probability that it is sampled, and couplings of the samples that hold it with
    those that do not. Probabilities count as real numbers that were rounded. The base is under ReplaceOne(m), m the
    size of the largest sample, and must hold for the other sizes that occur; or it is under AddRemove. The result is
    under ReplaceOne(n).

    Parameters
    ----------
    n : int
        Number of records in the dataset, >= 1.
    samples : sequence of sequences of int
        The possible samples, at most 500, each a list of positions from 0 to n-1. An empty list is an empty sample.
    probabilities : sequence of float, optional
        The probability of each sample, finite, >= 0, with sum 1 up to 1e-9. By default, all samples are equally likely.

    Raises
    ------
    ValueError
        If a position or a probability is out of range, or the probabilities do not sum to 1.

    Notes
    -----
    Balle, Barthe and Gaboardi 2018, Theorems 2 and 7; docs/notes/subsampling.md, "Schemes of your own".

    Examples
    --------
    Two of four records, always neighbours in the list:

    >>> import privsample as ps
    >>> scheme = ps.TableSampling(n=4, samples=[(0, 1), (1, 2), (2, 3)])
    >>> base = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=ps.ReplaceOne(n=2))
    >>> round(float(ps.SubsampledAccountant(base=base, scheme=scheme).pure_epsilon), 4)
    1.66
    """

    n: int
    samples: tuple[tuple[int, ...], ...]
    probabilities: tuple[float, ...] | None = None
    proved = True

    def __post_init__(self) -> None:
        n = positive_integer(n=self.n)
        samples = tuple(
            tuple(whole_number(**{f"samples[{at}]": place}) for place in listed(**{f"samples[{at}]": sample}))
            for at, sample in enumerate(listed(samples=self.samples))
        )
        if not 0 < len(samples) <= _MOST_SAMPLES:
            raise ValueError(f"samples must hold between 1 and {_MOST_SAMPLES} samples, got {len(samples)}")
        for at, sample in enumerate(samples):
            if not all(0 <= place < n for place in sample):
                raise ValueError(f"samples[{at}] must hold positions from 0 to n - 1 = {n - 1}, got {sample}")
        if not any(samples):
            raise ValueError("samples must hold at least one sample that is not empty")
        set_fields(self, n=n, samples=samples)
        if self.probabilities is not None:
            given = tuple(listed(probabilities=self.probabilities))
            if len(given) != len(samples):
                raise ValueError(
                    f"probabilities must hold one number for each sample, {len(samples)}, got {len(given)}"
                )
            set_fields(self, probabilities=_checked(dict(enumerate(given)), "probabilities"))

    @cached
    def _masses(self) -> Masses:
        """The multisets of positions with whole masses."""
        chances = (1.0,) * len(self.samples) if self.probabilities is None else self.probabilities
        found: dict[Sample, Fraction] = defaultdict(Fraction)
        for sample, p in zip(self.samples, chances, strict=True):
            found[sorted_sample(sample)] += Fraction(p)
        return whole_masses(found)

    @cached
    def _largest(self) -> int:
        return max(len(sample) for sample in self._masses)

    def conversions(self, base: Relation) -> Conversions:
        """ReplaceOne(m) to ReplaceOne(n), m the size of the largest sample, or AddRemove to ReplaceOne(n)."""
        unit = unit_of(base)
        whole = ReplaceOne(n=self.n, unit=unit)
        added = (AddRemove(unit=unit), whole)
        return ((ReplaceOne(n=self._largest, unit=unit), whole), added) if self._largest else (added,)

    def parts(self, base: Relation, relation: Relation) -> Alternatives:
        """For each position, the parts of the couplings, given the size of the sample under ReplaceOne."""
        del relation
        by_size: dict[int | None, Masses] = defaultdict(dict)
        for sample, mass in self._masses.items():
            by_size[len(sample) if isinstance(base, ReplaceOne) else None][sample] = mass
        total = sum(self._masses.values())
        groups = [
            (size, masses, Fraction(sum(masses.values()), total)) for size, masses in by_size.items() if size != 0
        ]
        places = sorted({place for sample in self.samples for place in sample})
        cases = {
            tuple((size, weight, *_replaced(masses, place, base)) for size, masses, weight in groups)
            for place in places
        }
        sized = len(groups) > 1
        return tuple(_as_parts(case, sized=sized) for case in _few_cases(cases))

    def copies_of_one_record(self) -> RecordCopies | None:
        """The distribution of the number of copies of a position that is sampled most; None if sizes differ."""
        if len({len(sample) for sample in self._masses}) > 1:
            return None
        total, counts = sum(self._masses.values()), Counter[int]()
        for sample, mass in self._masses.items():
            for place in set(sample):
                counts[place] += mass  # type: ignore[index]
        worst, _ = max(counts.items(), key=lambda item: (item[1], -item[0]))
        copies = Counter[int]()
        for sample, mass in self._masses.items():
            copies[sample.count(worst)] += mass
        numbers = np.array(sorted(copies), dtype=np.float64)
        return RecordCopies(
            numbers=numbers,
            log_masses=np.log([float(Fraction(copies[int(k)], total)) for k in numbers]),
            sample_size=self._largest,
            position=worst,
        )

    @property
    def source(self) -> str:
        """Theorems 2 and 7, with couplings found by a maximum flow."""
        return f"{_SOURCE}; docs/notes/subsampling.md"

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw one of the samples exactly, in uniformly random order.

        The probabilities are divided by their sum as rational numbers, as in the account.
        """
        del size
        return rng.permutation(np.array(self.samples[int(self._table.draw(1, rng)[0])], dtype=np.int64))

    @cached
    def _table(self) -> Categorical:
        return Categorical.of_weights(self.probabilities or (1.0,) * len(self.samples))


Weighted = tuple[tuple[int, Fraction], ...]  # distances with their probabilities
Case = tuple[tuple[int | None, Fraction, Fraction, tuple[Weighted, Weighted]], ...]


def _replaced(masses: Masses, place: int, base: Relation) -> tuple[Fraction, tuple[Weighted, Weighted]]:
    """The probability that a position is sampled, and the distances of both couplings if its record is replaced."""
    held = {sample: mass for sample, mass in masses.items() if place in sample}
    if not held:
        return Fraction(0), ((), ())
    rest = {sample: mass for sample, mass in masses.items() if place not in sample}
    steps = 2 if isinstance(base, AddRemove) else 1  # under AddRemove a replacement is a removal and an addition
    own, kept = Counter[int](), sum(held.values())
    for sample, mass in held.items():
        own[steps * sample.count(place)] += mass
    between = {d: Fraction(mass, kept) for d, mass in own.items()}
    to_common = compatible_distances(held, rest, distance_under(base))[0] if rest else between
    return Fraction(kept, kept + sum(rest.values())), (_weighted(to_common), _weighted(between))


def _weighted(distances: Distances) -> Weighted:
    return tuple(sorted(distances.items()))


def _few_cases(cases: set[Case]) -> list[Case]:
    """Cases whose largest bound is that of all cases, or larger where more than a few remain."""
    ordered = sorted(cases, key=lambda case: ([rate for _, _, rate, _ in case], repr(case)), reverse=True)
    steps = sorted({d for case in ordered for *_, both in case for distances in both for d, _ in distances})
    rough = np.array([_rough_bounds(case, steps) for case in ordered])  # spares most exact comparisons
    kept_at: list[int] = []
    for at, case in enumerate(ordered):
        above = [k for k in kept_at if (rough[k] >= rough[at] - _ROUGH).all()]
        if not any(_dominates(ordered[k], case) for k in above):
            below = [k for k in kept_at if (rough[at] >= rough[k] - _ROUGH).all()]
            dropped = {k for k in below if _dominates(case, ordered[k])}
            kept_at = [k for k in kept_at if k not in dropped] + [at]
    kept = [ordered[k] for k in kept_at]
    coupled = any(first != second for case in kept for *_, (first, second) in case)
    most = _MOST_COUPLED if coupled else _MOST_ALTERNATIVES
    if len(kept) <= most:
        return kept
    return [_common_bound(cases) for cases in _runs(kept, most)]


def _runs(values: list[Any], most: int) -> list[list[Any]]:
    """So many runs of neighbours: in the order of their rates, their bounds are similar."""
    ends = np.linspace(0, len(values), most + 1).round().astype(int)
    return [values[low:high] for low, high in pairwise(ends)]


def _rough_bounds(case: Case, steps: list[int]) -> list[float]:
    """The rates and the tails of both distances, as floats; those of a dominating case are at least as large."""
    found = []
    for _, _, rate, both in case:
        found.append(float(rate))
        found += [float(sum(p for d, p in distances if d >= k)) for distances in both for k in steps]
    return found


def _dominates(larger: Case, smaller: Case) -> bool:
    """Whether the bound of the first case is at least that of the second, for every base, by a sufficient condition.

    Its distances are at least as large, for both couplings, and its rates are equal; or its rates are at least as large
    and the distances of its second coupling are at least those of its first, since the bound then increases with the
    rate (docs/notes/subsampling.md, "Both terms").
    """
    return all(
        _has_larger_tails(first, other_first)
        and _has_larger_tails(second, other_second)
        and (rate == other_rate or (rate > other_rate and _has_larger_tails(second, first)))
        for (*_, rate, (first, second)), (*_, other_rate, (other_first, other_second)) in zip(
            larger, smaller, strict=True
        )
    )


def _has_larger_tails(one: Weighted, other: Weighted) -> bool:
    """Whether P(d >= k) is at least as large under the first distribution of distances, at each k."""
    steps = {d for d, _ in (*one, *other)}
    return all(sum(p for d, p in one if d >= k) >= sum(p for d, p in other if d >= k) for k in steps)


def _common_bound(cases: list[Case]) -> Case:
    """One case whose bound is no smaller than those of all: the largest rates and the largest tails for each size.

    The bound increases with the distances in distribution, and with the rate if the distances of the second coupling
    are at least those of the first.
    """
    found = []
    for at, (size, weight, *_) in enumerate(cases[0]):
        first, second = ([dict(case[at][3][side]) for case in cases] for side in (0, 1))
        tails = larger_tails(first), larger_tails([*first, *second])
        found.append((size, weight, max(case[at][2] for case in cases), (_weighted(tails[0]), _weighted(tails[1]))))
    return tuple(found)


def _as_parts(case: Case, *, sized: bool) -> tuple[SamplingPart, ...]:
    """The parts of both couplings, or of one if both have equal distances."""
    return tuple(
        SamplingPart(
            rate=float(rate),
            log_weight=float(np.log(float(weight * p))) if weight * p != 1 else 0.0,
            group=None if d == 1 else d,
            sizes=(size, size) if sized and size is not None else None,
            coupling=coupling,
        )
        for size, weight, rate, both in case
        for coupling, distances in ([(None, both[0])] if both[0] == both[1] else zip(COUPLINGS, both, strict=True))
        for d, p in distances
        if d
    )


def merged_couplings(parts: tuple[SamplingPart, ...]) -> tuple[SamplingPart, ...]:
    """Parts without couplings whose bound is no smaller: of each rate and size, the largest tails of both couplings."""
    return _joined((part, (part.rate, part.coupling)) for part in parts) if any(p.coupling for p in parts) else parts


def few_alternatives(alternatives: Alternatives) -> Alternatives:
    """At most a few alternatives of parts without couplings, some of which bound several of the given ones."""
    distinct = list(dict.fromkeys(alternatives))
    if len(distinct) <= _MOST_ALTERNATIVES:
        return tuple(distinct)
    distinct.sort(key=lambda parts: max(part.rate for part in parts))
    return tuple(
        _joined((part, at) for at, parts in enumerate(run) for part in parts)
        for run in _runs(distinct, _MOST_ALTERNATIVES)
    )


def _joined(parts: Iterable[tuple[SamplingPart, Hashable]]) -> tuple[SamplingPart, ...]:
    """For each size, the largest rate and the largest tails over the groups of parts, which are named by the labels."""
    rates: dict[tuple[int, int] | None, float] = defaultdict(float)
    weights: dict[tuple[int, int] | None, dict[Hashable, dict[int, float]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(float))
    )
    for part, label in parts:
        rates[part.sizes] = max(rates[part.sizes], part.rate)
        weights[part.sizes][label][part.group or 1] += float(np.exp(part.log_weight))
    found = []
    for sizes, rate in rates.items():
        tails = larger_tails([{d: Fraction(p) for d, p in own.items()} for own in weights[sizes].values()])
        for d, p in tails.items():
            weight = min(float(np.log(float(p))), 0.0)
            found.append(SamplingPart(rate=rate, log_weight=weight, group=None if d == 1 else d, sizes=sizes))
    return tuple(found)


def _checked(given: Mapping[Any, Any], name: str) -> tuple[float, ...]:
    """Probabilities that are 0 or at least _LEAST, finite, and sum to 1. Raises TypeError or ValueError."""
    found = tuple(number(**{f"{name}[{key!r}]": p}) for key, p in given.items())
    for key, p in zip(given, found, strict=True):
        if not 0.0 <= p < np.inf:
            raise ValueError(f"{name} must be finite and >= 0, got {p!r} for {key!r}")
        if 0.0 < p < _LEAST:
            raise ValueError(f"{name} must be 0 or at least {_LEAST:g}, got {p!r} for {key!r}; leave this sample out")
    if not abs(sum(found) - 1.0) <= _SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1, got a sum of {sum(found):.12g}")
    return found


@frozen_value
class SampleCoupling:
    """The distributions of the samples of two neighbouring datasets, and couplings of their parts.

    ω and ω' are the distributions of the samples of the two datasets, η their total variation distance. Then
    ω = (1-η) ω0 + η ω1 and ω' = (1-η) ω0 + η ω1', and the account needs the distances of a coupling of ω1 with ω0 and
    of one of ω1 with ω1'. By default, the library finds couplings: distance-compatible ones if there are any. Records
    are named by any values, such as letters; a record that was replaced has another name. A sample is a multiset.

    Parameters
    ----------
    first : mapping of sample to float
        The probabilities of the samples of one dataset, each a sequence of names of records, with sum 1 up to 1e-9.
    second : mapping of sample to float
        The same for the neighbouring dataset.
    to_common : mapping of (sample, sample) to float, optional
        A coupling of ω1 with ω0: the joint probabilities. None finds one.
    between : mapping of (sample, sample) to float, optional
        A coupling of ω1 with ω1'. None finds one.

    Raises
    ------
    ValueError
        If probabilities are negative or do not sum to 1, or a coupling has other marginals than its two distributions.

    Notes
    -----
    Balle, Barthe and Gaboardi 2018, Theorems 2 and 7; docs/notes/subsampling.md, "Schemes of your own".

    Examples
    --------
    One of two records, of which the second is replaced:

    >>> import privsample as ps
    >>> coupling = ps.SampleCoupling(first={"a": 0.5, "b": 0.5}, second={"a": 0.5, "x": 0.5})
    >>> coupling.total_variation, coupling.distances(ps.ReplaceOne(n=1))
    (0.5, {1: 1.0})
    """

    first: Table
    second: Table
    to_common: Joint | None = None
    between: Joint | None = None

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            set_fields(self, **{name: _distribution(getattr(self, name), name)})
        for name in ("to_common", "between"):
            if (joint := getattr(self, name)) is not None:
                set_fields(self, **{name: _joint_distribution(joint, name)})
                self._check_marginals(name)

    @property
    def _split(self) -> tuple[Fraction, Masses, Masses, Masses]:
        """η, and the masses of ω0, ω1 and ω1'."""
        one, other = (_normalized(getattr(self, name)) for name in ("first", "second"))
        samples = [*one, *(sample for sample in other if sample not in one)]
        zero = Fraction(0)
        common = {sample: min(one.get(sample, zero), other.get(sample, zero)) for sample in samples}
        here, there = (
            {s: p - common[s] for s, p in each.items() if p - common[s] > p * _ROUNDING} for each in (one, other)
        )
        return sum(here.values(), zero), whole_masses(common), whole_masses(here), whole_masses(there)

    def _check_marginals(self, name: str) -> None:
        """Raise ValueError unless a given coupling has ω1, and ω0 or ω1', as its marginals."""
        _, common, here, there = self._split
        given: Mapping[tuple[Sample, Sample], float] = getattr(self, name)
        sides = ((0, here, "ω1"), (1, common, "ω0") if name == "to_common" else (1, there, "ω1'"))
        for side, masses, symbol in sides:
            total, marginal = sum(masses.values()), Counter[Sample]()
            for pair, p in given.items():
                marginal[pair[side]] += p  # type: ignore[assignment]
            for sample in dict.fromkeys([*masses, *marginal]):
                expected = masses.get(sample, 0) / total if total else 0.0
                if not abs(marginal[sample] - expected) <= _SUM_TOLERANCE:
                    raise ValueError(
                        f"{name} must be a coupling of ω1 with {sides[1][2]}: the sample {sample} must have the "
                        f"probability {expected:.9g} under {symbol}, and the coupling gives it {marginal[sample]:.9g}"
                    )

    @property
    def total_variation(self) -> float:
        """η, the total variation distance of the distributions of samples."""
        return float(self._split[0])

    def distances(self, base: Relation) -> dict[int, float]:
        """Distribution of the distances of both couplings, in steps of a relation.

        Parameters
        ----------
        base : Relation
            The relation of the base, AddRemove or ReplaceOne.

        Returns
        -------
        dict of int to float
            The probability of each distance. If the couplings differ, the upper tails are the larger ones.

        Raises
        ------
        ValueError
            If samples have different sizes under ReplaceOne.
        """
        return {d: float(p) for d, p in sorted(self._distances(base).items())}

    def _distances(self, base: Relation) -> Distances:
        return larger_tails(self._both_distances(base))

    def _both_distances(self, base: Relation) -> tuple[Distances, Distances]:
        """The distances of the coupling of ω1 with ω0, and of ω1 with ω1'; both are those of the other if ω0 is 0."""
        _, common, here, there = self._split
        distance, found = distance_under(base), []
        for joint, other in ((self.to_common, common), (self.between, there)):
            if joint is not None:
                each: Distances = defaultdict(Fraction)
                total = sum(Fraction(p) for p in joint.values())
                for (one, another), p in joint.items():
                    each[distance(one, another)] += Fraction(p) / total  # type: ignore[arg-type]
                found.append(each)
            elif here and other:
                found.append(compatible_distances(here, other, distance)[0])
        return (found[0], found[-1]) if found else ({}, {})

    @property
    def swapped(self) -> "SampleCoupling":
        """The same two distributions in the other order, with couplings that the library finds."""
        return SampleCoupling(first=self.second, second=self.first)

    @property
    def is_nested(self) -> bool:
        """True if ω' = ω0: the samples of the second dataset are those of the first that lack its additional record."""
        eta, common, _, there = self._split
        one, other = (_normalized(dict(masses)) for masses in (common, there))
        zero = Fraction(0)
        apart = (abs(one.get(s, zero) - other.get(s, zero)) > _ROUNDING for s in {*one, *other})
        return eta == 0 or not any(apart)

    def parts(self, base: Relation) -> tuple[SamplingPart, ...]:
        """The terms of the bound for this order of the two datasets.

        Parameters
        ----------
        base : Relation
            The relation of the base.

        Returns
        -------
        tuple of SamplingPart
            One for each distance.
        """
        eta = self._split[0]
        both = (self._distances(base),) * 2 if self.is_nested else self._both_distances(base)
        case: Case = ((None, Fraction(1), eta, (_weighted(both[0]), _weighted(both[1]))),)
        return _as_parts(case, sized=False) if eta else ()


class CoupledScheme(Scheme):
    """Base class of a scheme of your own whose account follows from couplings of its samples.

    A subclass is a frozen dataclass that defines `draw`, `conversions` and `couplings`. The library checks that the
    couplings are couplings, and computes the bound; that they describe `draw` on the worst neighbouring datasets is
    stated by the class, and the account assumes STATED.

    Examples
    --------
    A Poisson sample, whose worst datasets differ in the record "v":

    >>> from dataclasses import dataclass
    >>> import numpy as np, privsample as ps
    >>> @dataclass(frozen=True, kw_only=True)
    ... class OwnPoisson(ps.CoupledScheme):
    ...     rate: float
    ...
    ...     def draw(self, size, rng):
    ...         return rng.permutation(np.flatnonzero(rng.random(size) < self.rate))
    ...
    ...     def conversions(self, base):
    ...         return ((ps.AddRemove(), ps.AddRemove()),)
    ...
    ...     def couplings(self, relation):
    ...         return (ps.SampleCoupling(first={"": 1 - self.rate, "v": self.rate}, second={"": 1.0}),)
    >>> base = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    >>> own, built_in = OwnPoisson(rate=0.1), ps.PoissonSampling(rate=0.1)
    >>> [round(float(ps.SubsampledAccountant(base=base, scheme=s).epsilon(1e-6)), 9) for s in (own, built_in)]
    [2.181694109, 2.181694109]
    """

    __slots__ = ()

    @abstractmethod
    def couplings(self, relation: Relation) -> Sequence[SampleCoupling]:
        """The couplings for all worst pairs of neighbouring datasets, in either order.

        Parameters
        ----------
        relation : Relation
            The relation of the result.

        Returns
        -------
        sequence of SampleCoupling
            One for each pair. Under AddRemove the first dataset is the larger one.
        """

    def parts(self, base: Relation, relation: Relation) -> Alternatives:
        """The parts of each coupling in both orders, or in the order given if all of them are nested."""
        found = self.couplings(relation)
        for coupling in found:
            if not isinstance(coupling, SampleCoupling):
                raise TypeError(f"couplings must return SampleCoupling objects, got {type(coupling).__name__}")
        if not (isinstance(relation, AddRemove) and self.nested):
            found = [one for coupling in found for one in (coupling, coupling.swapped)]
        parts = tuple(dict.fromkeys(each for coupling in found if (each := coupling.parts(base))))
        if not parts:
            raise ValueError("couplings must hold two datasets whose samples differ in distribution, got none")
        return parts

    @property
    def nested(self) -> bool:  # type: ignore[override]
        """True if every coupling under AddRemove is nested; removal and addition then have separate accounts."""
        return all(coupling.is_nested for coupling in self.couplings(AddRemove()))


def _distribution(given: Table, name: str) -> dict[Sample, float]:
    """The probabilities of multisets. Raises TypeError or ValueError."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must map samples to probabilities, got {type(given).__name__}")
    found: dict[Sample, float] = defaultdict(float)
    for sample, p in zip(given, _checked(given, name), strict=True):
        found[sorted_sample(sample)] += p
    return dict(found)


def _joint_distribution(given: Any, name: str) -> dict[tuple[Sample, Sample], float]:
    """The joint probabilities of pairs of multisets. Raises TypeError or ValueError."""
    if not (isinstance(given, Mapping) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in given)):
        raise TypeError(f"{name} must map pairs (sample, sample) to probabilities, got {type(given).__name__}")
    found: dict[tuple[Sample, Sample], float] = defaultdict(float)
    for (one, other), p in zip(given, _checked(given, name), strict=True):
        found[sorted_sample(one), sorted_sample(other)] += p
    return dict(found)


def _normalized(probabilities: Mapping[Sample, float]) -> dict[Sample, Fraction]:
    exact = {sample: Fraction(p) for sample, p in probabilities.items()}
    total = sum(exact.values(), Fraction(0)) or Fraction(1)
    return {sample: p / total for sample, p in exact.items() if p}
