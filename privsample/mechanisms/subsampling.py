"""A mechanism that runs on a random subsample of the records."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import positive_integer
from privsample._data import chunks
from privsample._entropy import draw_with_entropy_check
from privsample._value import frozen_value, set_fields
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.schemes import PoissonSampling, Scheme, WithoutReplacement, WithReplacement
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import one_by_one, one_draw
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours, public_size
from privsample.mechanisms.noise.sums import ClippedSum, GaussianSum, LaplaceSum, NoisySum
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.subsampled_neighbours import count_codes, searched_neighbours, sum_neighbours
from privsample.relations import AddRemove, Relation, ReplaceOne


def _poisson(rate: float, _: Mapping[str, Any]) -> Scheme:
    return PoissonSampling(rate=rate)


@frozen_value
class Subsampled(Wrapper):
    """A mechanism that runs on a random sample of the records (privacy amplification by subsampling).

    `release` takes all records, draws a sample by `scheme`, and releases what `base` draws from it, under the base's
    names. The sample itself stays secret. `SubsampledAccountant` documents the combinations of relation and scheme that
    have an account. A posterior on a Poisson sample, for instance, needs a public number of records:
    `Subsampled(base=DirectPosterior(model=..., n=9), scheme=PoissonSampling(rate=0.1), relation=ReplaceOne(n=9))`. If
    the base needs a record and the sample is empty, the base gets one missing record, which its public rule replaces.

    Parameters
    ----------
    base : Mechanism
        The mechanism that runs on the sample.
    scheme : Scheme
        The sampling scheme: `PoissonSampling`, `WithoutReplacement` or `WithReplacement`.
    relation : Relation, optional
        The neighbouring relation of all records. None derives it from the base and the scheme.

    Raises
    ------
    TypeError
        If the base is not a mechanism, or does not take records.
    ValueError
        If base, scheme and relation do not match.

    Notes
    -----
    Balle, Barthe and Gaboardi 2018; Zhu, Dong and Wang 2022 (dominating pairs).
    Kind: exact or upper bound, as `SubsampledAccountant` documents for each scheme.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.ClippedSum(norm=1, noise_std=2, width=2)
    >>> mechanism = ps.Subsampled(base=base, scheme=ps.PoissonSampling(rate=0.1))
    >>> round(float(base.accountant.epsilon(1e-5)), 3), round(float(mechanism.accountant.epsilon(1e-5)), 3)
    (1.993, 0.369)
    >>> mechanism.release([[0.5, 0.5], [1.0, 0.0]])["sum"].shape
    (1, 2)
    """

    base: Mechanism
    scheme: Scheme
    relation: Relation | None = None
    free_parameters = (
        FreeParameter(name="rate", decides="scheme", value=_poisson, advice="the base itself must cost less"),
    )
    _account: SubsampledAccountant = field(init=False, repr=False, compare=False)
    command = CommandLine(
        help={
            "base": 'the mechanism that runs on the sample, e.g. "gaussian-sum noise-std=2 bounds=0,1"',
            "scheme": 'the sampling scheme, e.g. "poisson-sampling rate=0.1"',
        }
    )

    def __post_init__(self) -> None:
        if not isinstance(self.base, Mechanism):
            raise TypeError(f"base must be a mechanism, got {type(self.base).__name__}")
        own = self.base.accountant
        set_fields(self, _account=SubsampledAccountant(base=own, scheme=self.scheme, relation=self.relation))
        set_fields(self, relation=self._account.relation)
        size = own.relation.n if isinstance(own.relation, ReplaceOne) else 1
        self.base.for_size(size)  # raises TypeError if the base takes no records

    @property
    def accountant(self) -> SubsampledAccountant:
        """The account of the subsampled mechanism, derived from the base's account."""
        return self._account

    def for_size(self, size: int) -> "Subsampled":
        """The mechanism itself: the accounts of nested samples accept only sizes that fit."""
        del size
        return self

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Each sampling scheme, with a mutant that reads all records in place of a sample."""
        few = GaussianSum(bounds=(-1, 2), noise_std=3, relation=ReplaceOne(n=3))
        bases: dict[str, tuple[Mechanism, Scheme, Scheme]] = {
            "poisson-sample": (
                ClippedSum(norm=1, noise_std=1, width=2),
                PoissonSampling(rate=0.3),
                PoissonSampling(rate=1),
            ),
            "sample-without-replacement": (few, WithoutReplacement(n=9, m=3), WithoutReplacement(n=3, m=3)),
            "sample-with-replacement": (
                LaplaceSum(bounds=(0, 1), scale=1, relation=ReplaceOne(n=3)),
                WithReplacement(n=9, m=3),
                WithoutReplacement(n=3, m=3),
            ),
        }
        return tuple(
            Example(
                name=name,
                mechanism=cls(base=base, scheme=scheme),
                mutant=cls(base=base, scheme=whole),
                bug="it forgets to subsample",
                samples=2_000,
            )
            for name, (base, scheme, whole) in bases.items()
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The base's worst pair of records; the loss depends on whether the differing record is sampled."""
        group = positive_integer(group=group)
        one = replace(self, base=_with_one_draw(self.base))
        base, size = one.base, public_size(one.relation)
        if isinstance(base, NoisySum):
            return (
                sum_neighbours(
                    extremes=base._extremes,
                    least=base._least_record,
                    noise=base._noise_distribution,
                    scheme=one.scheme,
                    size=size,
                    group=group,
                    account=one.accountant,
                    draw=one_by_one(one),
                ),
            )
        inner = _innermost(base)
        if size is None or isinstance(inner, RandomizedResponse):
            return one._searched(inner, size, group)
        return tuple(
            Neighbours(
                account=one.accountant,
                descriptions=case.descriptions,
                datasets=case.datasets,
                draw=one_by_one(one),
                width=case.width + 1,
            )
            for case in inner.for_size(size).worst_neighbours(group)
        )

    def _searched(self, inner: Mechanism, size: int | None, group: int) -> tuple[Neighbours, ...]:
        """Candidate pairs for an audit; shuffled answers are reduced to the count of each answer."""
        if isinstance(inner, RandomizedResponse):
            draw, width = count_codes(self, "answers", inner.categories), inner.categories
        else:
            draw, width = one_by_one(self), 1 + inner.worst_neighbours()[0].width
        return searched_neighbours(
            inner.extreme_records(),
            account=self.accountant,
            size=None if size else max(getattr(self.scheme, "n", group), group),
            group=group,
            draw=draw,
            width=width,
        )

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
        """Count what the base's public rule would change in all records, for the curator only. Raises SchemaError."""
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


def _with_one_draw(base: Mechanism) -> Mechanism:
    return replace(base, base=_with_one_draw(base.base)) if isinstance(base, Subsampled) else one_draw(base)
