"""Accounts of mechanisms that run on a random subsample of the records."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import nonnegative_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Group
from privsample.accounting.engine.bounds import Directions, PrivacyBounds, View
from privsample.accounting.engine.envelope import direction_pairs
from privsample.accounting.guarantees import ApproximateAccountant, PureAccountant
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.subsampling.allocation_bounds import allocation_bounds
from privsample.accounting.subsampling.coupled import CoupledPair, CoupledTerm
from privsample.accounting.subsampling.pairs import mixture_pair, poisson_pair, replaced_record_pair
from privsample.accounting.subsampling.sizes import SizeMixturePair
from privsample.distributions.allocation import RandomAllocation
from privsample.distributions.own_schemes import CoupledScheme, few_alternatives, merged_couplings
from privsample.distributions.scheme_checks import checked_conversions, checked_parts
from privsample.distributions.schemes import Alternatives, PoissonSampling, SamplingPart, SamplingRule, Scheme, unit_of
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove, Relation, ReplaceOne, related

_VALUES = 60  # approximate number of curve values in a search for epsilon

Member = tuple[Accountant, float, float]  # account on the subsample, log weight, rate


@frozen_value
class SubsampledAccountant(Accountant):
    """A mechanism that runs on a random subsample of the records (privacy amplification by subsampling).

    The scheme determines the relation of the base and that of the result:

    - PoissonSampling, base under AddRemove: AddRemove (Theorem 8), exact if the base is exact and attained with no
      other records.
    - WithoutReplacement(n, m), base under ReplaceOne(m): ReplaceOne(n) (Theorem 9).
    - WithReplacement(n, m), base under ReplaceOne(m): ReplaceOne(n) (Theorem 10), or AddRemove if `relation` says so
      (Theorem 11); n is then a public lower bound on the size of the larger dataset.
    - StratifiedSampling(sizes, samples), base under ReplaceOne(m), m the sum of `samples`: ReplaceOne(n), n the sum of
      `sizes`. A replaced record stays in its stratum, and the stratum with the largest sampling fraction counts.
    - RandomAllocation, base under AddRemove: AddRemove, for all steps of an epoch together (allocation.md); exact for
      `times=1`, up to the error of a lattice that is rounded up, about 1e-6 of epsilon.
    - TableSampling and a Scheme of your own: the relations that it states as `conversions`.
    - PoissonSampling, base under ReplaceOne(n), with `relation`: ReplaceOne(n), as a mixture over sample sizes. Given
      the size, Theorem 9 applies; the bound is never above Theorem 14. The base must hold for samples of every size,
      which is not true of the sensitivity of a mean.

    Parameters
    ----------
    base : Accountant
        The account of the mechanism on a sample, for one record.
    scheme : SamplingRule
        `PoissonSampling(...)`, `WithoutReplacement(...)`, `WithReplacement(...)`, another `Scheme`, or
        `RandomAllocation(...)`.
    relation : Relation, optional
        Relation of the result where the scheme allows several; otherwise it is determined.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account, if `scheme` is not a sampling scheme, or if the base does not hold for other sizes.
    RelationMismatch
        If the relations do not match the scheme; the message names those that do.
    ValueError
        If `scheme` is RandomAllocation and the base has no privacy curve.

    Notes
    -----
    Source: Balle, Barthe and Gaboardi 2018, Theorems 8 to 11 and 14; docs/notes/subsampling.md.

    Kind: exact for PoissonSampling under AddRemove if the base is exact and attained with no other records; otherwise
    upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> step = ps.SubsampledAccountant(
    ...     base=ps.GaussianAccountant(sensitivity=1, noise_std=1), scheme=ps.PoissonSampling(rate=0.01)
    ... )
    >>> round(float((1000 * step).epsilon(1e-6)), 3)
    2.125
    """

    base: Accountant
    scheme: SamplingRule
    relation: Relation | None = None  # type: ignore[assignment]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(f"base must be an account, got {type(self.base).__name__}")
        relation = subsampled_relation(self.scheme, self.base.relation, self.relation)
        stated = frozenset() if self.scheme.proved else {Assumption.STATED}
        set_fields(self, relation=relation, assumptions=self.assumptions | self.base.assumptions | stated)
        self.bounds  # noqa: B018 - raises an error if the base does not hold for other sizes

    @property
    def source(self) -> str:
        """The theorem, and the source of the base."""
        return f"{self.scheme.source}; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """One pair for removal and one for addition; under ReplaceOne one pair that is its own reverse.

        If the base has an infinity mass, the Rényi curve and the pure epsilon are those of the subsampled pure
        guarantee of the base, conditional on a finite loss (subsampling.md, "Infinity mass").
        """
        if isinstance(self.scheme, RandomAllocation):
            return allocation_bounds(self.base.bounds, self.scheme.steps, self.scheme.times)
        exact = self._exact
        if self.base.infinity_mass == 0.0:
            largest = max(pair.max_divergence for group in self._directions for pair in group)
            # the largest loss of a table is rounded to nearest, so the pure epsilon is rounded up
            pure_epsilon = largest * (1.0 + 4 * float(np.finfo(np.float64).eps))
            return PrivacyBounds.from_pairs(*self._directions, pure_epsilon=pure_epsilon, exact=exact)
        known: dict[str, Any] = {"infinity_mass": self._infinity_mass, "exact": exact}
        if np.isfinite(self.base.pure_epsilon):
            pure = PureAccountant(stated_epsilon=self.base.pure_epsilon, relation=self.base.relation)
            given_finite = replace(self, base=pure).bounds
            known |= {"renyi": given_finite.renyi, "order_limit": np.inf, "pure_epsilon": given_finite.pure_epsilon}
        else:
            known |= {"renyi": lambda a: np.full(a.shape, np.inf), "order_limit": 1.0, "pure_epsilon": np.inf}
        return PrivacyBounds.from_pairs(*self._directions, **known)

    @cached
    def _alternatives(self) -> Alternatives:
        """The parts of the scheme's bound, for each worst case of two neighbouring datasets."""
        assert self.relation is not None
        assert isinstance(self.scheme, Scheme)
        found = checked_parts(self.scheme, self.base.relation, self.relation)
        if self._nested or self.base.infinity_mass > 0.0:  # the proof of the infinity mass has one coupling
            found = few_alternatives(tuple(merged_couplings(parts) for parts in found))
        return found

    def _members(self, base: Accountant, parts: tuple[SamplingPart, ...]) -> list[Member]:
        """Members (account, log weight, rate) of the subsampled curve.

        At e >= 0 the curve is sum_i weight_i rate_i delta_i(e_i), exp(e) = 1 + rate_i (exp(e_i) - 1).
        """
        return [_member(base, part) for part in parts]

    @cached
    def _directions(self) -> Directions:
        """The dominating pairs of each direction of the relation, one for each worst case.

        The cases of a scheme that is given by its couplings are one pair: a case is about one order of two datasets.
        """
        coupled = isinstance(self.scheme, CoupledScheme) and len(self._alternatives) > 1
        if not self._nested and (coupled or any(part.coupling for parts in self._alternatives for part in parts)):
            merged = few_alternatives(tuple(merged_couplings(parts) for parts in self._alternatives))
            cases, larger = (tuple(map(self._terms, each)) for each in (self._alternatives, merged))
            return ((CoupledPair(cases=cases, merged=larger),),)
        found = [self._pairs(parts) for parts in self._alternatives]
        return tuple(tuple(dict.fromkeys(pairs)) for pairs in zip(*found, strict=True))

    def _terms(self, parts: tuple[SamplingPart, ...]) -> tuple[CoupledTerm, ...]:
        """The terms of one case, with the pair that dominates both orders of two samples."""
        both_orders = isinstance(self.base.relation, AddRemove)
        terms = []
        for part, (account, weight, rate) in zip(parts, self._members(self.base, parts), strict=True):
            pair, _ = direction_pairs(account.bounds, len(parts), both_orders=both_orders)
            terms.append(CoupledTerm(base=pair, rate=rate, log_weight=weight, coupling=part.coupling))
        return tuple(terms)

    def _pairs(self, parts: tuple[SamplingPart, ...]) -> tuple[LossPair, ...]:
        """The dominating pair of each direction in one worst case."""
        if (by_size := self._by_size(parts)) is not None:
            return (by_size,)
        grouped: dict[tuple[LossPair, LossPair], list[tuple[float, float]]] = {}
        members = self._members(self.base, parts)
        both_orders = isinstance(self.base.relation, AddRemove) and not self._nested
        for account, weight, rate in members:
            pairs = direction_pairs(account.bounds, _VALUES * len(members), both_orders=both_orders)
            grouped.setdefault(pairs, []).append((rate, weight))
        if self._nested:
            each = [(pairs, rate, weight) for pairs, found in grouped.items() for rate, weight in found]
            removal = mixture_pair([(poisson_pair(pairs[0], rate, removed=True), w) for pairs, rate, w in each])
            addition = mixture_pair([(poisson_pair(pairs[1], rate, removed=False), w) for pairs, rate, w in each])
            return removal, addition
        mixture = []
        for (pair, _), found in grouped.items():
            rates, weights = (np.array(column) for column in zip(*found, strict=True))
            total = float(np.logaddexp.reduce(weights))
            mixture.append((replaced_record_pair(pair, rates, weights - total), total))
        return (mixture_pair(mixture),)

    def _by_size(self, parts: tuple[SamplingPart, ...]) -> SizeMixturePair | None:
        """The pair of parts that differ in the size of the sample, if the base evaluates its sizes together."""
        sizes = [part.sizes for part in parts if part.sizes is not None and part.group is None]
        if len(sizes) < max(len(parts), 2) or sorted(sizes) != sizes:
            return None
        rates, weights = (
            np.array(column) for column in zip(*[(part.rate, part.log_weight) for part in parts], strict=True)
        )
        curves = self.base._curves_for_sizes(tuple(sizes)) if (np.diff(rates) >= 0.0).all() else None
        return None if curves is None else SizeMixturePair(curves=curves, rates=rates, log_weights=weights)

    @property
    def _nested(self) -> bool:
        """True if removal and addition have separate pairs."""
        return isinstance(self.scheme, Scheme) and self.scheme.nested and isinstance(self.relation, AddRemove)

    @property
    def _infinity_mass(self) -> float:
        """The infinity mass of the base times the probability that the record is sampled."""
        base = self.base
        if np.isfinite(
            base.pure_epsilon
        ):  # groups of such a base have a larger delta and remain pure conditional on a finite loss
            base = ApproximateAccountant(
                stated_epsilon=base.pure_epsilon, stated_delta=base.infinity_mass, relation=base.relation
            )
        lost = max(
            sum(np.exp(weight) * rate * account.infinity_mass for account, weight, rate in self._members(base, parts))
            for parts in self._alternatives
        )
        return float(np.clip(lost, np.finfo(np.float64).smallest_subnormal, 1 - 2.0**-53))

    @property
    def _exact(self) -> frozenset[View]:
        """The views that are exact: those of the base for Poisson sampling under AddRemove."""
        known = self.base.bounds.single_pairs is not None
        theorem_8 = isinstance(self.scheme, PoissonSampling) and isinstance(self.relation, AddRemove)
        return self.base.bounds.exact if theorem_8 and known else frozenset()

    def check_sample_size(self, size: int) -> None:
        """Raise ValueError if the account does not cover samples of this size, which a scheme of the user's own drew.

        An empty sample needs no account, since it does not depend on the records.

        Parameters
        ----------
        size : int
            Number of records in the sample, >= 0.
        """
        size = nonnegative_integer(size=size)
        if size == 0 or not isinstance(self.base.relation, ReplaceOne):
            return
        sizes = {part.sizes for parts in self._alternatives for part in parts}
        stated = {(self.base.relation.n,) * 2 if found is None else found for found in sizes}
        if not any(low <= size <= high for low, high in stated):
            known = " or ".join(str(low) if low == high else f"{low} to {high}" for low, high in sorted(stated))
            raise ValueError(
                f"{type(self.scheme).__name__}.draw must return {known} positions, for which the base has an account, "
                f"got {size}; state the sizes of samples in the parts of the scheme"
            )

    def with_relation(self, relation: Relation) -> Group:
        """The same curves under another relation, which is not validated; the scheme is unchanged."""
        return Group(base=self, size=1, relation=relation)


def subsampled_relation(scheme: SamplingRule, base: Relation, asked: Relation | None) -> Relation:
    """The relation of a mechanism under `base` on the subsamples of a scheme; `asked` chooses among several.

    Raises RelationMismatch; the message names the relations that match.
    """
    if asked is not None:
        related(asked)
    if isinstance(base, (AddRemove, ReplaceOne)) and base.members > 1:
        raise RelationMismatch(
            f"base must be about one record, got a base under {base}; subsample the account of one record, then use "
            f".group"
        )
    if not isinstance(scheme, SamplingRule):
        raise TypeError(
            "scheme must be PoissonSampling, WithoutReplacement, WithReplacement or another Scheme, got "
            f"{type(scheme).__name__}"
        )
    ways = checked_conversions(scheme, base)
    natural, rule = ways[0][1], scheme.conversion_rule(base)
    result = natural if asked is None else asked
    if (base, result) not in ways:
        found = f"got a base under {base} and relation {result}"
        advice = f"; pass relation={_short(base)} to Subsampled" if (base, base) in ways and asked is None else ""
        raise RelationMismatch(f"{type(scheme).__name__} converts {rule}, with one unit; {found}{advice}")
    return result


def _short(relation: Relation) -> str:
    """A relation about one record, with the unit if it is not "record"."""
    unit = "" if (word := unit_of(relation)) == "record" else f"unit={word!r}"
    size = f"n={relation.n}" if isinstance(relation, ReplaceOne) else ""
    return f"{type(relation).__name__}({', '.join(filter(None, (size, unit)))})"


def _member(base: Accountant, part: SamplingPart) -> Member:
    """The account of the base for the sizes and the group of a part, with the log weight and the rate of the part."""
    sized = base if part.sizes is None else base.for_sizes(*part.sizes)
    account, weight = (sized, part.log_weight) if part.group is None else _group(sized, part.group, part.log_weight)
    return account, weight, part.rate


def _group(base: Accountant, size: int, log_weight: float) -> tuple[Accountant, float]:
    """The base for a group, and its log weight; an account without a guarantee if the group's delta would reach 1."""
    try:
        return base.group(size), log_weight
    except ValueError:
        no_guarantee = ApproximateAccountant(stated_epsilon=0.0, stated_delta=1 - 2.0**-53, relation=base.relation)
        return no_guarantee, log_weight + 2.0**-52
