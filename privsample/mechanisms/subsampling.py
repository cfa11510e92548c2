"""A mechanism that runs on a subsample of the records, drawn from the same entropy."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._data import chunks
from privsample._entropy import draw_with_entropy_check
from privsample._value import put, value
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.schemes import PoissonSampling, Scheme
from privsample.errors import SchemaError
from privsample.mechanisms.base import Draws, Mechanism, Wrapper
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.noise.sums import NoisySum
from privsample.mechanisms.notes import CuratorNotes
from privsample.relations import AddRemove, Relation, ReplaceOne


def _poisson(rate: float, _: Mapping[str, Any]) -> Scheme:
    return PoissonSampling(rate=rate)


@value
class Subsampled(Wrapper):
    """`base` run on the records that `scheme` draws; which relations go together: `SubsampledAccountant`.

    A posterior on a Poisson sample, for instance, needs a public number of records:
    `Subsampled(base=DirectPosterior(model=..., n=9), scheme=PoissonSampling(rate=0.1), relation=ReplaceOne(n=9))`.
    Nothing of the subsample is released beyond what the base draws from it. Where the base needs a record and none is
    drawn, it gets one missing record, which its public rule replaces by a default. `release` takes the records, and
    draws the base's names.
    """

    base: Mechanism
    scheme: Scheme
    relation: Relation | None = None
    free_parameters = (
        FreeParameter(name="rate", decides="scheme", value=_poisson, advice="the base itself must cost less"),
    )
    _account: SubsampledAccountant = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.base, Mechanism):
            raise TypeError(f"base must be a mechanism, got {type(self.base).__name__}")
        own = self.base.accountant
        put(self, _account=SubsampledAccountant(base=own, scheme=self.scheme, relation=self.relation))
        put(self, relation=self._account.relation)
        size = own.relation.n if isinstance(own.relation, ReplaceOne) else 1
        self.base.for_size(size)  # refuses what has no records

    @property
    def accountant(self) -> SubsampledAccountant:
        """The account of the subsampled mechanism, made from the base's."""
        return self._account

    def for_size(self, size: int) -> "Subsampled":
        """Itself: of samples of a sample, the accounts accept only sizes that fit."""
        del size
        return self

    def _statistic(self, data: Any) -> NDArray[Any]:
        return self._checked(data)

    def _draw(self, statistic: NDArray[Any], rng: np.random.Generator) -> Draws:
        chosen = draw_with_entropy_check(rng, lambda: self.scheme.draw(len(statistic), rng))
        sample, base = statistic[chosen], self.base
        if not isinstance(base.accountant.relation, AddRemove):
            if len(sample) == 0:
                sample = np.full((1, *sample.shape[1:]), np.nan)
            base = base.for_size(len(sample))
        return base._draw_checked(base._statistic(sample), rng).draws

    def validate(self, data: Any) -> CuratorNotes:
        """What the base's public rule would change in all the records, for the curator's eyes. Raises: SchemaError."""
        records, inner = self._checked(data), _innermost(self.base)
        return inner.for_size(len(records)).validate(records)

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


def _innermost(mechanism: Mechanism) -> Mechanism:
    return _innermost(mechanism.base) if isinstance(mechanism, Subsampled) else mechanism
