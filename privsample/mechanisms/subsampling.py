"""A mechanism that runs on a subsample of the records, drawn from the same entropy."""

from dataclasses import field, replace
from functools import singledispatch
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import generator
from privsample._data import chunks
from privsample._entropy import undisturbed
from privsample._value import put, value
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.accounting.targets import Target, largest
from privsample.distributions.schemes import PoissonSampling, Scheme
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism, charged
from privsample.mechanisms.noise.sums import NoisySum
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.conjugate import PosteriorMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.release import Release
from privsample.relations import AddRemove, Relation, ReplaceOne


@value
class Subsampled(Mechanism):
    """`base` run on the records that `scheme` draws; which relations go together: `SubsampledAccountant`.

    A posterior on a Poisson sample, for instance, needs a public number of records:
    `Subsampled(base=DirectPosterior(model=..., n=9), scheme=PoissonSampling(rate=0.1), relation=ReplaceOne(n=9))`.
    Nothing of the subsample is released beyond what the base draws from it. Where the base needs a record and none is
    drawn, it gets one missing record, which its public rule replaces by a default.
    """

    base: Mechanism
    scheme: Scheme
    relation: Relation | None = None
    _account: SubsampledAccountant = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.base, Mechanism):
            raise TypeError(f"base must be a mechanism, got {type(self.base).__name__}")
        own = self.base.accountant
        put(self, _account=SubsampledAccountant(base=own, scheme=self.scheme, relation=self.relation))
        put(self, relation=self._account.relation)
        size = own.relation.n if isinstance(own.relation, ReplaceOne) else 1
        for_size(self.base, size)  # refuses what has no records

    @property
    def accountant(self) -> SubsampledAccountant:
        """The account of the subsampled mechanism, made from the base's."""
        return self._account

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Draw the subsample, then from the base. Returns: the base's draws. Raises: SchemaError, TypeError."""
        source, account = generator(rng), charged(self, rng)
        records = self._checked(data)
        chosen = undisturbed(source, lambda: self.scheme.draw(len(records), source))
        return Release(mechanism=self, draws=self._run(records[chosen], source).draws, account=account)

    def _run(self, sample: NDArray[Any], source: np.random.Generator) -> Release:
        if isinstance(self.base.accountant.relation, AddRemove):
            return self.base.release(sample, rng=source)
        if len(sample) == 0:
            sample = np.full((1, *sample.shape[1:]), np.nan)
        return for_size(self.base, len(sample)).release(sample, rng=source)

    def validate(self, data: Any) -> CuratorNotes:
        """What the base's public rule would change in all the records, for the curator's eyes. Raises: SchemaError."""
        records, inner = self._checked(data), _innermost(self.base)
        return for_size(inner, len(records)).validate(records)

    def _checked(self, data: Any) -> NDArray[Any]:
        inner = _innermost(self.base)
        rows = inner.records(data) if isinstance(inner, NoisySum) else None
        records = np.concatenate([np.empty(0), *chunks(data)]) if rows is None else rows
        least = getattr(self.scheme, "n", 1) - 1
        match self.relation:
            case ReplaceOne(n=n) if len(records) != n:
                raise SchemaError(f"n = {n} records were declared, the data hold {len(records)}")
            case AddRemove() if len(records) < least:
                raise SchemaError(f"at least {least} records were declared, the data hold {len(records)}")
        return records

    @classmethod
    def calibrate(cls, *, base: Mechanism, target: Target, relation: Relation | None = None) -> Self:
        """The highest rate of Poisson sampling that meets the target, on the safe side. Raises: UnreachableTarget."""
        return largest(
            lambda rate: cls(base=base, scheme=PoissonSampling(rate=rate), relation=relation),
            lambda made: made.accountant,
            target,
            most=1.0,
            advice="the base itself must cost less",
        )


def _innermost(mechanism: Mechanism) -> Mechanism:
    return _innermost(mechanism.base) if isinstance(mechanism, Subsampled) else mechanism


@singledispatch
def for_size(mechanism: Mechanism, size: int) -> Mechanism:
    """The same mechanism for `size` records, at least one. Raises: TypeError, where it does not take records."""
    del size
    raise TypeError(
        f"{type(mechanism).__name__} does not take records that could be sampled; "
        "for noise on a sum use GaussianSum, LaplaceSum or ClippedSum"
    )


@for_size.register
def _(mechanism: PosteriorMechanism, size: int) -> Mechanism:
    return replace(mechanism, n=size)  # type: ignore[type-var]


@for_size.register
def _(mechanism: NoisySum, size: int) -> Mechanism:
    return replace(mechanism, relation=_resized(mechanism.relation, size))  # type: ignore[type-var]


@for_size.register
def _(mechanism: RandomizedResponse, size: int) -> Mechanism:
    if isinstance(mechanism.relation, AddRemove):
        return mechanism
    return replace(mechanism, relation=_resized(mechanism.relation, size), slots=None)


@for_size.register
def _(mechanism: Subsampled, size: int) -> Mechanism:
    del size  # samples of a sample: the accounts accept only sizes that fit
    return mechanism


def _resized(relation: Relation, size: int) -> Relation:
    return replace(relation, n=size) if isinstance(relation, ReplaceOne) else relation
