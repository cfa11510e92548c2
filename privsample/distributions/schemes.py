"""Subsampling schemes: which records are sampled, in which order, and how they amplify the privacy of a mechanism."""

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    FloatArray,
    finite,
    listed,
    nonnegative_integer,
    number,
    one_of,
    open_unit_interval,
    positive_integer,
    whole_number,
)
from privsample._logspace import resolved
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.distributions.count_blocks import count_blocks
from privsample.distributions.exact.categorical import Categorical
from privsample.relations import AddRemove, Relation, ReplaceOne

COUPLINGS = ("to_common", "between")  # of the parts of Theorem 2, with the factors 1 - β and β
_BALLE = "Balle, Barthe and Gaboardi 2018"
Indices = NDArray[np.int64]
Conversions = tuple[tuple[Relation, Relation], ...]


@frozen_value
class SamplingPart:
    """One term of the bound that a sampling scheme gives on the privacy curve of the subsampled mechanism.

    The parts of a scheme state that δ'(ε') <= Σ weight rate δ(ε), with e^ε' = 1 + rate (e^ε - 1) in each term, where δ
    is the privacy curve of the base for `group` records (Balle, Barthe and Gaboardi 2018, Theorems 2 and 7). A term
    with a `coupling` has one factor more, 1 - β or β, where β = e^(ε' - ε).

    Parameters
    ----------
    rate : float
        Total variation distance η between the distributions of the samples of two neighbouring datasets, in (0, 1].
    log_weight : float, default 0.0
        Log of the weight of the part, <= 0: the probability of the distance `group`, and of the sizes in `sizes`.
    group : int, optional
        Distance of two coupled samples, >= 1: the base's account for groups of this size is used. None is 1.
    sizes : tuple of (int, int), optional
        Smallest and largest size of the samples of this part. None if the base states the size of every sample.
    coupling : {"to_common", "between"}, optional
        The coupling that the distance is of: of ω1 with ω0, factor 1 - β, or of ω1 with ω1', factor β. None, the
        default, if the distances of both are at most `group` with this weight: the factor is 1.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> ((part,),) = ps.WithoutReplacement(n=10, m=2).parts(ps.ReplaceOne(n=2), ps.ReplaceOne(n=10))
    >>> part.rate, part.log_weight
    (0.2, 0.0)
    """

    rate: float
    log_weight: float = 0.0
    group: int | None = None
    sizes: tuple[int, int] | None = None
    coupling: str | None = None

    def __post_init__(self) -> None:
        set_fields(self, rate=open_unit_interval(rate=self.rate), log_weight=number(log_weight=self.log_weight))
        if not finite(log_weight=self.log_weight) <= 1e-12:
            raise ValueError(f"log_weight must be the log of a probability, <= 0, got {self.log_weight!r}")
        if self.group is not None:
            set_fields(self, group=positive_integer(group=self.group))
        if self.sizes is not None:
            low, high = (nonnegative_integer(sizes=size) for size in _two(self.sizes))
            set_fields(self, sizes=(low, high))
        if self.coupling is not None and not one_of(self.coupling, COUPLINGS):
            raise ValueError(f"coupling must be 'to_common', 'between' or None, got {self.coupling!r}")


@frozen_value
class RecordCopies:
    """Distribution of the number of copies of one record in a sample.

    numbers: the possible numbers, shape (k,). log_masses: their log probabilities, shape (k,). sample_size: the number
    of sampled records, or None if it is random. position: that of the record in the data, or None if all are equal.
    """

    numbers: FloatArray
    log_masses: FloatArray
    sample_size: int | None
    position: int | None = None

    @classmethod
    def once(cls, rate: float, sample_size: int | None, position: int | None = None) -> "RecordCopies":
        """The record is sampled once with probability `rate`, and otherwise not at all."""
        with np.errstate(divide="ignore"):
            logs = np.log([1 - rate, rate])
        return cls(numbers=np.arange(2.0), log_masses=logs, sample_size=sample_size, position=position)


def _two(sizes: object) -> tuple[object, object]:
    if len(found := listed(sizes=sizes)) != 2:
        raise ValueError(f"sizes must be the smallest and the largest size, got {len(found)} numbers")
    return found[0], found[1]


Alternatives = tuple[tuple[SamplingPart, ...], ...]


class SamplingRule(Memo, ABC):
    """A random choice of the records that a mechanism reads, with the relations for which its account is known.

    Its subclasses are `Scheme`, which draws one subsample, and `RandomAllocation`, which draws those of all steps of an
    epoch.

    Attributes
    ----------
    proved : bool
        True if the library proves the account. False, the default, adds the assumption STATED to it.

    Examples
    --------
    >>> import privsample as ps
    >>> isinstance(ps.PoissonSampling(rate=0.5), ps.SamplingRule)
    True
    """

    __slots__ = ()
    proved: ClassVar[bool] = False

    @abstractmethod
    def conversions(self, base: Relation) -> Conversions:
        """The pairs of relations (of the base, of the subsampled mechanism) for which the account is known.

        Parameters
        ----------
        base : Relation
            The relation of a base, which need not be one of those that match.

        Returns
        -------
        tuple of (Relation, Relation)
            The pairs, with the unit of `base`; the first is used if no relation is requested.
        """

    @property
    @abstractmethod
    def source(self) -> str:
        """Author, year and theorem of the account."""

    def conversion_rule(self, base: Relation) -> str:
        """The pairs of relations in words, for messages.

        Parameters
        ----------
        base : Relation
            The relation of a base, which need not be one of those that match.

        Returns
        -------
        str
            By default, the `conversions` one after the other.
        """
        return " or ".join(f"{_short(one)} to {_short(other)}" for one, other in self.conversions(base))


class Scheme(SamplingRule):
    """A distribution of subsamples. A scheme of your own defines `draw`, `conversions` and `parts`.

    Sampled records are in uniformly random order, so positions carry no information.

    Attributes
    ----------
    proved : bool
        True if the library proves `parts`. False, the default, adds the assumption STATED to the account.
    nested : bool
        True if the sample of the smaller of two datasets is distributed as the part of the larger dataset's samples
        that lack the additional record. Removal and addition then have separate accounts. False by default.

    Examples
    --------
    A scheme that reads all records or, most of the time, none of them:

    >>> from dataclasses import dataclass
    >>> import numpy as np, privsample as ps
    >>> @dataclass(frozen=True, kw_only=True)
    ... class AllOrNothing(ps.Scheme):
    ...     rate: float
    ...
    ...     def draw(self, size, rng):
    ...         return rng.permutation(size) if rng.random() < self.rate else np.arange(0)
    ...
    ...     def conversions(self, base):
    ...         return ((base, base),)
    ...
    ...     def parts(self, base, relation):
    ...         return ((ps.SamplingPart(rate=1.0, log_weight=np.log(self.rate)),),)
    >>> base = ps.LaplaceAccountant(sensitivity=1, scale=1)
    >>> account = ps.SubsampledAccountant(base=base, scheme=AllOrNothing(rate=0.1))
    >>> round(float(account.delta(0.5) / base.delta(0.5)), 9)
    0.1
    """

    __slots__ = ()
    nested: ClassVar[bool] = False

    @abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw one subsample of the records 0, ..., size-1.

        Parameters
        ----------
        size : int
            Number of records in the dataset.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of shape (k,)
            Indices of the sampled records, in uniformly random order.
        """

    @abstractmethod
    def parts(self, base: Relation, relation: Relation) -> Alternatives:
        """The terms of the bound under the relation of the subsampled mechanism.

        Parameters
        ----------
        base : Relation
            The relation of the base, the first of one of the `conversions`.
        relation : Relation
            The relation of the result, the second of the same pair.

        Returns
        -------
        tuple of tuple of SamplingPart
            For each worst case of two neighbouring datasets, in both orders, the parts whose terms are added. The
            account is the maximum over these cases.
        """

    def copies_of_one_record(self) -> RecordCopies | None:
        """How often a record that is sampled most is in the sample; None, the default, if the scheme does not tell.

        Audits of noisy sums use it to compute the privacy loss. If the sample size is random, the number of the other
        sampled records must not depend on it.

        Returns
        -------
        RecordCopies or None
            The distribution of the number of copies.
        """
        return None

    @property
    def source(self) -> str:
        """Author, year and theorem of `parts`."""
        return "Balle, Barthe and Gaboardi 2018, Theorems 2 and 7, with stated couplings"


def _short(relation: Relation) -> str:
    return f"ReplaceOne(n={relation.n})" if isinstance(relation, ReplaceOne) else type(relation).__name__


def unit_of(base: Relation) -> str:
    """The unit of a relation."""
    return base.unit if isinstance(base, (AddRemove, ReplaceOne)) else "record"


@frozen_value
class PoissonSampling(Scheme):
    """Poisson subsampling: each record is included independently with probability `rate`.

    The size of the subsample is random and may be 0.

    Parameters
    ----------
    rate : float
        Inclusion probability, in (0, 1].

    Raises
    ------
    ValueError
        If `rate` is not in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.PoissonSampling(rate=0.5).draw(6, np.random.default_rng(1)).size <= 6
    True
    """

    rate: float
    proved = True
    nested = True

    def __post_init__(self) -> None:
        set_fields(self, rate=open_unit_interval(rate=self.rate))

    def conversions(self, base: Relation) -> Conversions:
        """AddRemove to AddRemove, or ReplaceOne(n) to ReplaceOne(n) for a base that holds for every size."""
        unit, size = unit_of(base), base.n if isinstance(base, ReplaceOne) else 1
        return (AddRemove(unit=unit), AddRemove(unit=unit)), (ReplaceOne(n=size, unit=unit),) * 2

    def conversion_rule(self, base: Relation) -> str:
        """Both pairs of relations, for any n."""
        del base
        return "AddRemove to AddRemove, or ReplaceOne(n) to ReplaceOne(n) with relation=ReplaceOne(n=n)"

    def parts(self, base: Relation, relation: Relation) -> Alternatives:
        """The rate, or given each sample size k under ReplaceOne(n), k/n (subsampling.md)."""
        del base
        if not isinstance(relation, ReplaceOne):
            return ((SamplingPart(rate=resolved(self.rate)),),)
        n = relation.n
        each = count_blocks(n, self.rate)
        return (tuple(SamplingPart(rate=high / n, log_weight=w, sizes=(low, high)) for low, high, w in each),)

    def copies_of_one_record(self) -> RecordCopies:
        """Once with probability `rate`."""
        return RecordCopies.once(self.rate, None)

    @property
    def source(self) -> str:
        """Theorem 8, or Theorem 9 for each sample size."""
        return f"{_BALLE}, Theorem 8, or Theorem 9 for each size (it sharpens their Theorem 14)"

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw for each record exactly whether it is included, by comparing random bits with those of the rate."""
        sampled = np.flatnonzero(self._included.draw(size, rng) == 0)
        return np.asarray(rng.permutation(sampled), dtype=np.int64)

    @cached
    def _included(self) -> Categorical:
        """0 with probability `rate`, else 1."""
        return Categorical.of_weights([Fraction(self.rate), 1 - Fraction(self.rate)])


@frozen_value
class WithoutReplacement(Scheme):
    """Subsampling without replacement: a uniformly random set of `m` of the `n` records.

    Parameters
    ----------
    n : int
        Number of records in the dataset, >= 1.
    m : int
        Number of records in the subsample, 1 <= m <= n.

    Raises
    ------
    ValueError
        If `n` or `m` is not a whole number >= 1, or if `m` exceeds `n`.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> len(set(ps.WithoutReplacement(n=6, m=3).draw(6, np.random.default_rng(1)).tolist()))
    3
    """

    n: int
    m: int
    proved = True

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), m=positive_integer(m=self.m))
        if not self.m <= self.n:
            raise ValueError(f"m must be at most n = {self.n}, got {self.m}: a record is drawn once at most")

    def conversions(self, base: Relation) -> Conversions:
        """ReplaceOne(m) to ReplaceOne(n)."""
        unit = unit_of(base)
        return ((ReplaceOne(n=self.m, unit=unit), ReplaceOne(n=self.n, unit=unit)),)

    def parts(self, base: Relation, relation: Relation) -> Alternatives:
        """The sampling fraction m/n."""
        del base, relation
        return ((SamplingPart(rate=self.m / self.n),),)

    def copies_of_one_record(self) -> RecordCopies:
        """Once with probability m/n."""
        return RecordCopies.once(self.m / self.n, self.m)

    @property
    def source(self) -> str:
        """Theorem 9."""
        return f"{_BALLE}, Theorem 9"

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw `m` distinct indices."""
        return np.asarray(rng.choice(size, self.m, replace=False), dtype=np.int64)


@frozen_value
class WithReplacement(Scheme):
    """Subsampling with replacement: `m` independent uniform draws from the `n` records.

    A record may be drawn several times.

    Parameters
    ----------
    n : int
        Number of records in the dataset, >= 1.
    m : int
        Number of draws, >= 1.

    Raises
    ------
    ValueError
        If `n` or `m` is not a whole number >= 1.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.WithReplacement(n=3, m=5).draw(3, np.random.default_rng(1)).size
    5
    """

    n: int
    m: int
    proved = True
    nested = True

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), m=positive_integer(m=self.m))

    def conversions(self, base: Relation) -> Conversions:
        """ReplaceOne(m) to ReplaceOne(n), or to AddRemove if n > 1."""
        unit = unit_of(base)
        own = ReplaceOne(n=self.m, unit=unit)
        replaced: Conversions = ((own, ReplaceOne(n=self.n, unit=unit)),)
        return replaced if self.n == 1 else (*replaced, (own, AddRemove(unit=unit)))

    def conversion_rule(self, base: Relation) -> str:
        """Both pairs of relations; AddRemove must be requested."""
        del base
        return f"ReplaceOne(n={self.m}) to ReplaceOne(n={self.n}), or to AddRemove with relation=AddRemove() and n > 1"

    def parts(self, base: Relation, relation: Relation) -> Alternatives:
        """One part for each number k of copies of the record, given at least one."""
        del base, relation
        n, m = self.n, self.m
        share = float(-np.expm1(m * np.log1p(-1.0 / n))) if n > 1 else 1.0
        each = count_blocks(m, 1.0 / n)
        return (tuple(SamplingPart(rate=share, log_weight=w - np.log(share), group=k) for _, k, w in each),)

    def copies_of_one_record(self) -> RecordCopies:
        """A binomial number of copies, of m trials with probability 1/n."""
        from scipy import stats

        numbers = np.arange(self.m + 1.0)
        logs = np.asarray(stats.binom.logpmf(numbers, self.m, 1 / self.n))
        return RecordCopies(numbers=numbers, log_masses=logs, sample_size=self.m)

    @property
    def source(self) -> str:
        """Theorem 10, or Theorem 11 under AddRemove."""
        return f"{_BALLE}, Theorem 10, or Theorem 11 under AddRemove"

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw `m` independent uniform indices."""
        return np.asarray(rng.integers(0, size, self.m), dtype=np.int64)


@frozen_value
class StratifiedSampling(Scheme):
    """Subsampling without replacement within public strata: uniformly random `samples[s]` of the `sizes[s]` records.

    The strata are blocks of consecutive positions: the first `sizes[0]` records, the next `sizes[1]`, and so on, such
    as the time steps of `PrivateGibbsHMM`. A record stays in its stratum when it is replaced. The sample holds the
    strata in the same order.

    Parameters
    ----------
    sizes : tuple of int
        Public number of records of each stratum, >= 0.
    samples : tuple of int
        Number of sampled records of each stratum, from 0 to its size; at least one is > 0.

    Raises
    ------
    ValueError
        If the numbers of strata differ, or a stratum has fewer records than are sampled from it.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> scheme = ps.StratifiedSampling(sizes=(6, 4), samples=(2, 1))
    >>> drawn = scheme.draw(10, np.random.default_rng(1))
    >>> bool((drawn[:2] < 6).all()), bool(6 <= drawn[2] < 10)
    (True, True)
    """

    sizes: tuple[int, ...]
    samples: tuple[int, ...]
    proved = True

    def __post_init__(self) -> None:
        for name in ("sizes", "samples"):
            counts = tuple(listed(**{name: getattr(self, name)}))
            set_fields(self, **{name: tuple(whole_number(**{f"{name}[{at}]": k}) for at, k in enumerate(counts))})
        if len(self.sizes) != len(self.samples):
            raise ValueError(
                f"samples must hold one number for each of the {len(self.sizes)} strata, got {len(self.samples)}"
            )
        for at, (size, sampled) in enumerate(zip(self.sizes, self.samples, strict=True)):
            if not 0 <= sampled <= size:
                raise ValueError(f"samples[{at}] must lie between 0 and sizes[{at}] = {size}, got {sampled}")
        if not any(self.samples):
            raise ValueError("samples must hold a number > 0: no record would be drawn")

    @property
    def n(self) -> int:
        """Number of records in the dataset."""
        return sum(self.sizes)

    @property
    def m(self) -> int:
        """Number of records in the subsample."""
        return sum(self.samples)

    def conversions(self, base: Relation) -> Conversions:
        """ReplaceOne(m) to ReplaceOne(n), for the total numbers of records."""
        unit = unit_of(base)
        return ((ReplaceOne(n=self.m, unit=unit), ReplaceOne(n=self.n, unit=unit)),)

    def parts(self, base: Relation, relation: Relation) -> Alternatives:
        """The largest sampling fraction of a stratum, which costs most (subsampling.md, "Strata")."""
        del base, relation
        rates = (sampled / size for size, sampled in zip(self.sizes, self.samples, strict=True) if size)
        return ((SamplingPart(rate=max(rates)),),)

    def copies_of_one_record(self) -> RecordCopies:
        """Once, in the stratum with the largest sampling fraction."""
        rates = [sampled / size if size else 0.0 for size, sampled in zip(self.sizes, self.samples, strict=True)]
        worst = int(np.argmax(rates))
        return RecordCopies.once(rates[worst], self.m, position=sum(self.sizes[:worst]))

    @property
    def source(self) -> str:
        """Theorem 9 for each stratum."""
        return f"{_BALLE}, Theorem 9 for each stratum; docs/notes/subsampling.md"

    def draw(self, size: int, rng: np.random.Generator) -> Indices:
        """Draw distinct indices of each stratum, in uniformly random order within the stratum."""
        del size
        starts = np.cumsum((0, *self.sizes[:-1]))
        each = [
            start + rng.choice(count, sampled, replace=False)
            for start, count, sampled in zip(starts, self.sizes, self.samples, strict=True)
            if sampled
        ]
        return np.concatenate(each).astype(np.int64)
