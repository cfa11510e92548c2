"""A mechanism that runs on a random subsample of the records."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privsample._checks import positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._value import frozen_value, set_fields
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.allocation import RandomAllocation
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.own_schemes import TableSampling
from privsample.distributions.record_format import ColumnFormat, RecordFormat
from privsample.distributions.scheme_checks import checked_positions
from privsample.distributions.schemes import (
    PoissonSampling,
    SamplingRule,
    Scheme,
    StratifiedSampling,
    WithoutReplacement,
    WithReplacement,
)
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import first_numbers, one_by_one, one_draw
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours, public_size
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.noise.sums import ClippedSum, GaussianSum, LaplaceSum
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.mechanisms.posterior.glm import LogisticPosterior
from privsample.mechanisms.posterior.tempered import TemperedPosterior
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.subsampled_neighbours import (
    allocated_neighbours,
    count_codes,
    searched_neighbours,
    sum_neighbours,
)
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
    `calibrate(base=..., target=...)` keeps the base, and chooses the largest `rate` of `PoissonSampling` that meets the
    target. To keep a scheme, search for the base's parameter by the account of the subsampled mechanism, as
    docs/mechanisms/Subsampled.md shows.

    Parameters
    ----------
    base : Mechanism
        The mechanism that runs on the sample.
    scheme : SamplingRule
        The sampling scheme: `PoissonSampling`, `WithoutReplacement`, `WithReplacement`, `StratifiedSampling`,
        `TableSampling`, a `Scheme` of your own, or `RandomAllocation`, with which one release makes all steps of an
        epoch: the draws of the base for each step, one after the other.
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
    scheme: SamplingRule
    relation: Relation | None = None
    free_parameters = (
        FreeParameter(
            name="rate",
            decides="scheme",
            value=_poisson,
            advice="the base itself must cost less",
            if_given=(
                "calibrate keeps the base and chooses the scheme, PoissonSampling with the largest rate that meets the "
                "target; to keep the scheme, search for the base's parameter, as docs/mechanisms/Subsampled.md shows"
            ),
        ),
    )
    _releases_base_draws: ClassVar[bool] = True
    _kernel_advice: ClassVar[str] = (
        "as it samples records, apply the kernel inside: Subsampled(base=MarkovKernel(...), ...)"
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
        self._check_strata()
        if isinstance(self.scheme, RandomAllocation) and self.base._may_release_nothing:
            raise TypeError(
                f"base must release draws in every step, and {type(self.base).__name__} may release none; repeat it a "
                "number of times that is at least 1, such as TruncatedNegativeBinomial"
            )

    def _check_strata(self) -> None:
        """Raise ValueError unless the scheme samples the base's strata separately, if the base has any."""
        strata = self.base.record_strata
        drawn = self.scheme.samples if isinstance(self.scheme, StratifiedSampling) else None
        if strata is not None and drawn != strata:
            raise ValueError(
                f"scheme must be StratifiedSampling(sizes=..., samples={strata}), since the base's records belong to "
                f"public strata of these sizes, got {self.scheme!r}"
            )

    @property
    def record_format(self) -> RecordFormat:  # type: ignore[override]
        """The format of the base's records: by default, one column."""
        return self.base.record_format or ColumnFormat()

    @property
    def record_strata(self) -> tuple[int, ...] | None:  # type: ignore[override]
        """The sizes of the strata before sampling, if the base has strata."""
        sampled = isinstance(self.scheme, StratifiedSampling) and self.base.record_strata is not None
        return self.scheme.sizes if sampled else None  # type: ignore[attr-defined]

    @property
    def accountant(self) -> SubsampledAccountant:
        """The account of the subsampled mechanism, derived from the base's account."""
        return self._account

    def for_size(self, size: int) -> "Subsampled":
        """The mechanism itself: the accounts of nested samples accept only sizes that fit."""
        del size
        return self

    @property
    def quantity(self) -> str:
        """The label of the base."""
        return self.base.quantity

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Each sampling scheme and kind of base, with a mutant that reads all records in place of a sample."""
        few = GaussianSum(bounds=(-1, 2), noise_std=3, relation=ReplaceOne(n=3))
        model, one, whole = BetaBernoulli(alpha=1, beta=1), WithoutReplacement(n=8, m=1), WithoutReplacement(n=1, m=1)
        named: dict[str, tuple[Mechanism, SamplingRule, SamplingRule]] = {
            "random-allocation": (
                ClippedSum(norm=1, noise_std=0.7, width=1),
                RandomAllocation(steps=4),
                RandomAllocation(steps=4, times=4),
            ),
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
            "sampled-statistics": (
                NoisyStatistics(model=model, n=2, scale=0.5),
                StratifiedSampling(sizes=(5, 5), samples=(1, 1)),
                StratifiedSampling(sizes=(1, 1), samples=(1, 1)),
            ),
            "sample-from-a-table": (
                GaussianSum(bounds=(0, 1), noise_std=0.5, relation=ReplaceOne(n=1)),
                TableSampling(n=5, samples=((0,), (1,), (2,), (3,), (4,)), probabilities=(0.1, 0.3, 0.25, 0.2, 0.15)),
                TableSampling(n=1, samples=((0,),)),
            ),
            "sampled-tempered-posterior": (
                TemperedPosterior(model=model, n=1, temperature=1.0, truncation=0.01),
                one,
                whole,
            ),
            "sampled-logistic-posterior": (
                LogisticPosterior(n=1, features=1, norm=6, prior_std=3, constant_time=False),
                one,
                whole,
            ),
            "sampled-gibbs-histograms": (
                PrivateGibbsHMM(states=1, categories=(2,), entries=(1,), scale=0.3, sweeps=1, released_sweeps=1),
                one,
                whole,
            ),
        }
        return tuple(
            Example(
                name=name,
                mechanism=cls(base=base, scheme=scheme),
                mutant=cls(base=base, scheme=everything),
                bug="it forgets to subsample",
                samples=1_000 if everything is whole else 1_500,
            )
            for name, (base, scheme, everything) in named.items()
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The base's worst pair of records; the loss depends on whether the differing record is sampled."""
        group = positive_integer(group=group)
        one = replace(self, base=_with_one_draw(self.base))
        base, size = one.base, public_size(one.relation)
        if sums := base._sum_records(random_size=isinstance(one.scheme, PoissonSampling | RandomAllocation)):
            noise = base._noise_distribution
            assert noise is not None
            if isinstance(one.scheme, RandomAllocation):
                return tuple(
                    allocated_neighbours(
                        worst,
                        self.record_format,
                        noise=noise,
                        scheme=one.scheme,
                        group=group,
                        account=one.accountant,
                        draw=one_by_one(one),
                    )
                    for worst in sums
                )
            assert isinstance(one.scheme, Scheme)
            return tuple(
                sum_neighbours(
                    worst,
                    self.record_format,
                    noise=noise,
                    scheme=one.scheme,
                    size=size,
                    group=group,
                    account=one.accountant,
                    draw=one_by_one(one),
                )
                for worst in sums
            )
        inner = _innermost(base)
        if size is None or isinstance(inner, RandomizedResponse):
            return one._searched(inner, size, group)
        return tuple(
            Neighbours(
                account=one.accountant,
                descriptions=case.descriptions,
                datasets=case.datasets,
                draw=first_numbers(one, case.width),
                width=case.width,
            )
            for case in _for_size(inner, size, one.record_strata).worst_neighbours(group)
        )

    def _searched(self, inner: Mechanism, size: int | None, group: int) -> tuple[Neighbours, ...]:
        """Candidate pairs for an audit; shuffled answers are reduced to the count of each answer."""
        if isinstance(inner, RandomizedResponse):
            draw, width = count_codes(self, "answers", inner.categories), inner.categories
        else:
            width = inner.worst_neighbours()[0].width * getattr(self.scheme, "steps", 1)
            draw = first_numbers(self, width)
        return searched_neighbours(
            inner.extreme_records(),
            self.record_format,
            account=self.accountant,
            size=None if size else max(getattr(self.scheme, "n", group), group),
            group=group,
            draw=draw,
            width=width,
        )

    def _statistic(self, data: Any) -> NDArray[Any]:
        return self._checked(data)

    def _draw(self, statistic: NDArray[Any], rng: np.random.Generator) -> Draws:
        if isinstance(self.scheme, RandomAllocation):
            return self._draw_epoch(statistic, self.scheme, rng)
        assert isinstance(self.scheme, Scheme)
        scheme = self.scheme
        chosen = draw_with_entropy_check(rng, lambda: checked_positions(scheme, len(statistic), rng))
        sample, base = statistic[chosen], self.base
        under = base._own_account.relation
        if isinstance(under, ReplaceOne):
            self._account.check_sample_size(len(sample))
            if len(sample) == 0:
                sample = np.full((1, *sample.shape[1:]), np.nan)
            base = base if len(sample) == under.n else base.for_size(len(sample))
        return base._draw_checked(base._statistic(self.record_format.to_data(sample)), rng).draws

    def _draw_epoch(self, records: NDArray[Any], scheme: RandomAllocation, rng: np.random.Generator) -> Draws:
        """The draws of the base in each step, one after the other. A base under AddRemove takes any sample."""
        samples = draw_with_entropy_check(rng, lambda: scheme.draw_steps(len(records), rng))
        base, read = self.base, self.record_format.to_data
        steps = [base._draw_checked(base._statistic(read(records[chosen])), rng).draws for chosen in samples]
        return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}

    def validate(self, data: Any) -> CuratorNotes:
        """Count what the base's public rule would change in all records, for the curator only. Raises SchemaError."""
        records, inner = self._checked(data), _innermost(self.base)
        return _for_size(inner, len(records), self.record_strata).validate(self.record_format.to_data(records))

    def _checked(self, data: Any) -> NDArray[Any]:
        records = self.record_format.read(data)
        least = getattr(self.scheme, "n", 1) - 1
        match self.relation:
            case ReplaceOne(n=n) if len(records) != n:
                raise SchemaError(f"n = {n} records were declared, the data hold {len(records)}")
            case AddRemove() if len(records) < least:
                raise SchemaError(f"at least {least} records were declared, the data hold {len(records)}")
        return records


def _innermost(mechanism: Mechanism) -> Mechanism:
    return _innermost(mechanism.base) if isinstance(mechanism, Subsampled) else mechanism


def _for_size(mechanism: Mechanism, size: int, strata: tuple[int, ...] | None) -> Mechanism:
    """The mechanism for all records, of these strata if it has any."""
    return mechanism.for_size(size) if strata is None else mechanism.for_strata(strata)


def _with_one_draw(base: Mechanism) -> Mechanism:
    return replace(base, base=_with_one_draw(base.base)) if isinstance(base, Subsampled) else one_draw(base)
