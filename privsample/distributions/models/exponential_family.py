"""A model of the user's own: an exponential family, stated by its statistic and log normalizer."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from privsample._checks import (
    FloatArray,
    flag,
    function,
    generator,
    nonnegative_integer,
    number,
    positive,
    positive_integer,
    prior_factor,
    real_array,
)
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.truncation import LogRatio
from privsample.distributions.parametric.family_truncation import FamilyTruncation, TruncatedNatural
from privsample.distributions.parametric.natural import LogNormalizer, NaturalDistribution
from privsample.distributions.parametric.truncated import TruncatedDistribution
from privsample.distributions.posterior_shifts import NaturalShifts
from privsample.distributions.record_sensitivity import RecordSensitivity

_MOST_VALUES = 1 << 12  # a domain with at most this many whole numbers is tabulated
_PLACES = 257  # places between the bounds at which contributions are evaluated
_OUTSIDE = 1e-7  # distance from the convex hull, relative to its width, that is attributed to rounding
_AFFINE = 1e-9  # deviation from a straight line, relative to its length, that is attributed to rounding
_SIZES = (0.0, 0.3, 1.0, 10.0, 300.0)  # numbers of records in the posteriors at which derivatives are checked
_POINTS = 4  # posteriors of each size
_FEWEST_SAMPLES = 2000  # fewer draws of a skewed statistic are too far from the normal approximation
_FALSE_ALARM = 1e-7
_RANGE_UP = 1.0 + 2.0**-40  # bounds the relative rounding error of differences of contributions and of their products


@frozen_value
class ExponentialFamily(Model):
    """A model with a conjugate exponential family of your own, given by its statistic and its log normalizer.

    The density of the parameter theta is e^(T(theta) . eta - C(eta)) with respect to a fixed base measure. Every record
    x adds its contribution S(x) to the natural parameter eta: the posterior of n records has the natural parameter
    `prior_weight` times `prior_parameter`, plus `data_weight` times the sum of their contributions. The number of
    records is a coordinate of S that is constant. The functions and the sampler are not validated beyond the checks
    below, so that accounts of this model have the assumption STATED_FAMILY. A model that holds functions cannot be
    saved, and a ledger cannot record its account; a subclass of `FamilyModel` can be saved.

    Parameters
    ----------
    prior_parameter : array of shape (k,)
        Natural parameter of the prior, finite.
    records : Domain
        The valid records, and the public rule for all other values.
    contribution : callable
        S: maps records of shape (rows,) to contributions of shape (rows, k). It is called at public values only, unless
        `vertices` is given.
    normalizer : LogNormalizer
        The log normalizer C with its derivatives. They are compared with finite differences at natural parameters of
        posteriors.
    sampler : callable
        Maps (natural parameter of shape (k,), size, generator) to independent draws of theta, shape (size,) or
        (size, length).
    parameter_statistic : callable
        T: maps draws, shape (size,) or (size, length), to their statistics, shape (size, k). Audits use it.
    length : int, default 0
        Length of theta; 0 if theta is a number.
    vertices : array of shape (vertices, k), optional
        Contributions whose convex hull contains that of every record. By default they are derived: from all records if
        these are at most 4096 whole numbers, or from both bounds if S is a straight line between them.
    hessian_bound : float or callable, optional
        Upper bound on the largest eigenvalue of the Hessian of C: a number, for all natural parameters, or a function
        that maps points of shape (rows, k) to a bound over their convex hull. The account is then that of Lemma 17,
        which needs no convexity.
    convexity_stated : bool, default False
        True if you state that the family meets the convexity condition of Theorem 10; accounts then have the assumption
        STATED_CONVEXITY. By default, every account checks the condition on many lines through its posteriors.
    log_tails : callable, optional
        Maps (natural parameter (k,), direction (k,), y of shape (rows,)) to the logarithms of the probabilities that
        direction . T(theta) is at most y, and that it is greater. The direction is a difference of two vertices, which
        are in lexicographic order, the greater minus the smaller. With it, accounts have a privacy curve, and compare
        the tails with the log normalizer, also far from the mean. For n > 1 the curve rests on your statement that the
        worst neighbours of the Rényi curve are the worst at every epsilon, and accounts have the assumption
        STATED_NEIGHBOURS. By default, epsilon and delta are converted from the Rényi curve.
    truncation : FamilyTruncation, optional
        How a tempered posterior is drawn between public bounds of theta, for `TemperedPosterior`.
    name : str, default "theta"
        Name under which draws are released.

    Raises
    ------
    TypeError
        If a field has the wrong type, or a function returns an array of a wrong shape.
    ValueError
        If a function returns a value that is not finite, if a derivative disagrees with the log normalizer, if a
        natural parameter is not normalizable, or if `vertices` are needed or do not contain a contribution.

    Notes
    -----
    Geumlek, Song and Chaudhuri 2017; Geumlek 2020, section 5.2, Theorem 10 and Lemma 17; docs/notes/families.md.

    Examples
    --------
    Waiting times with a Gamma prior on their rate, T(theta) = (log(theta), -theta) and C = log Gamma(a) - a log(b):

    >>> import numpy as np
    >>> from scipy import special
    >>> import privsample as ps
    >>> def hessian(eta):
    ...     a, b = eta.T
    ...     return np.moveaxis(np.array([[special.polygamma(1, a), -1 / b], [-1 / b, a / b**2]]), 2, 0)
    >>> gamma = ps.LogNormalizer(
    ...     value=lambda eta: special.gammaln(eta[:, 0]) - eta[:, 0] * np.log(eta[:, 1]),
    ...     gradient=lambda eta: np.column_stack(
    ...         [special.digamma(eta[:, 0]) - np.log(eta[:, 1]), -eta[:, 0] / eta[:, 1]]
    ...     ),
    ...     hessian=hessian,
    ...     normalizable=lambda eta: (eta > 0).all(axis=1),
    ... )
    >>> times = ps.ExponentialFamily(
    ...     prior_parameter=[5.0, 3.0],
    ...     records=ps.Domain(low=0.0, high=4.0, missing=0.0),
    ...     contribution=lambda x: np.column_stack([np.ones(len(x)), x]),
    ...     normalizer=gamma,
    ...     sampler=lambda eta, size, rng: rng.gamma(eta[0], 1 / eta[1], size),
    ...     parameter_statistic=lambda theta: np.column_stack([np.log(theta), -theta]),
    ... )
    >>> account = ps.DiffusedPosterior(model=times, n=20, data_weight=0.2).accountant
    >>> builtin = ps.GammaExponential(shape=5, rate=3, upper=4)
    >>> same = ps.DiffusedPosterior(model=builtin, n=20, data_weight=0.2).accountant
    >>> round(float(account.rdp(2.0)), 6), round(float(same.rdp(2.0)), 6)
    (0.663895, 0.663895)
    """

    prior_parameters = ("prior_parameter",)
    _why_not_saved: ClassVar[str] = (
        "a model that holds functions cannot be saved: write a registered subclass of FamilyModel "
        "(docs/guides/extend.md)"
    )

    prior_parameter: FloatArray
    records: Domain
    contribution: Callable[[FloatArray], Any]
    normalizer: LogNormalizer
    sampler: Callable[[FloatArray, int, np.random.Generator], Any]
    parameter_statistic: Callable[[FloatArray], Any]
    length: int = 0
    vertices: FloatArray | None = None
    hessian_bound: float | Callable[[FloatArray], float] | None = None
    convexity_stated: bool = False
    log_tails: Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]] | None = None
    truncation: FamilyTruncation | None = None
    name: str = "theta"

    def __post_init__(self) -> None:
        if not isinstance(self.records, Domain):
            raise TypeError(f"records must be a Domain, got {type(self.records).__name__}")
        for bound in ("low", "high"):
            if not np.isfinite(found := number(**{f"records.{bound}": getattr(self.records, bound)})):
                raise ValueError(f"records must have finite bounds, got {bound} = {found}")
        if not isinstance(self.normalizer, LogNormalizer):
            raise TypeError(f"normalizer must be a LogNormalizer, got {type(self.normalizer).__name__}")
        if not (self.truncation is None or isinstance(self.truncation, FamilyTruncation)):
            raise TypeError(f"truncation must be a FamilyTruncation, got {type(self.truncation).__name__}")
        name: object = self.name
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"name must be an identifier, got {name!r}")
        function(contribution=self.contribution), function(sampler=self.sampler)
        function(parameter_statistic=self.parameter_statistic)
        set_fields(self, length=nonnegative_integer(length=self.length))
        set_fields(self, convexity_stated=flag(convexity_stated=self.convexity_stated))
        set_fields(self, prior_parameter=_frozen(real_array(prior_parameter=self.prior_parameter)))
        if self.prior_parameter.ndim != 1 or not self.prior_parameter.size:
            raise ValueError(f"prior_parameter must have shape (k,), got {self.prior_parameter.shape}")
        if self.vertices is not None:
            set_fields(self, vertices=_frozen(real_array(vertices=self.vertices)))
        if self.hessian_bound is not None and not callable(self.hessian_bound):
            set_fields(self, hessian_bound=positive(hessian_bound=self.hessian_bound))
        self.neighbouring_posteriors  # noqa: B018 - building it checks the contributions and their vertices
        self.normalizer.check(self._posteriors_to_check())

    def _posteriors_to_check(self) -> FloatArray:
        """Natural parameters of the prior and of posteriors of few and of many records, shape (points, k)."""
        (shifts,) = self.neighbouring_posteriors
        rng = np.random.default_rng(0)  # public points only
        shares = rng.dirichlet(np.ones(len(shifts.vertices)), len(_SIZES) * _POINTS)
        sizes = np.repeat(_SIZES, _POINTS)[:, None]
        return np.unique(self.prior_parameter + sizes * (shares @ shifts.vertices), axis=0)

    # Records and their contributions

    @property
    def domain(self) -> Domain:
        """The valid records, and the public rule that maps every other value to a valid one."""
        return self.records

    @property
    def parameter(self) -> str:
        """The name under which draws are released."""
        return self.name

    @property
    def empty(self) -> FloatArray:
        """The statistic of an empty dataset: zeros of shape (k,)."""
        return np.zeros(self.prior_parameter.size)

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """The shape of one draw: () for a number, otherwise (length,)."""
        return (self.length,) if self.length else ()

    def _contributions(self, records: FloatArray) -> FloatArray:
        """The contributions of records, shape (rows, k), with the shape checked. Raises TypeError."""
        with np.errstate(all="ignore"):
            found = np.asarray(self.contribution(records), dtype=np.float64)
        if found.shape != (len(records), self.prior_parameter.size):
            raise TypeError(
                f"contribution must map records of shape {records.shape} to shape "
                f"{(len(records), self.prior_parameter.size)}, got {found.shape}"
            )
        return found

    @cached
    def _public_records(self) -> FloatArray:
        """All records if they are few whole numbers; otherwise places from one bound to the other."""
        low, high = self.records.low, self.records.high
        if self.records.integer_valued and high - low < _MOST_VALUES:
            return np.arange(low, high + 1.0)
        places = np.linspace(low, high, _PLACES)
        return np.unique(np.rint(places)) if self.records.integer_valued else places

    @cached
    def _table(self) -> FloatArray:
        """The contributions of the public records, shape (records, k). Raises ValueError if one is not finite."""
        found = self._contributions(self._public_records)
        wrong = ~np.isfinite(found).all(axis=1)
        if wrong.any():
            raise ValueError(
                f"contribution must be finite for every record, but is not at {self._public_records[wrong][0]:g}; "
                "correct contribution, or the bounds of records"
            )
        return found

    @cached
    def _line(self) -> bool:
        """True if contributions lie on the straight line between those of both bounds, in proportion to the record."""
        records, table = self._public_records, self._table
        shares = ((records - records[0]) / (records[-1] - records[0]))[:, None]
        along = table[0] + shares * (table[-1] - table[0])
        return bool((np.abs(table - along) <= _AFFINE * np.abs(table[-1] - table[0]).max()).all())

    @cached
    def _enumerated(self) -> bool:
        """True if the public records are all records."""
        return self.records.integer_valued and self.records.high - self.records.low < _MOST_VALUES

    def statistic(self, chunk: NDArray[Any]) -> FloatArray:
        """Sum of the contributions of a chunk of records, after the public rule of `records`: shape (k,)."""
        records = np.asarray(self.records.clean(chunk), dtype=np.float64)
        if not len(records):
            return self.empty
        if self._line:
            first, last = self._table[0], self._table[-1]
            shares = (records - self.records.low) / (self.records.high - self.records.low)
            return np.asarray(len(records) * first + shares.sum() * (last - first))
        if self._enumerated:
            return np.asarray(self._table[(records - self.records.low).astype(np.intp)].sum(axis=0))
        return np.asarray(self._bounded(records).sum(axis=0))

    def _bounded(self, records: FloatArray) -> FloatArray:
        """Contributions within the smallest box around the vertices, shape (rows, k).

        A record counts as missing if its contribution is not finite or the user's function fails. So the public rule
        maps every record, whatever the function does.
        """
        low, high = self._hull.min(axis=0), self._hull.max(axis=0)
        missing = self._contributions(np.array([self.records.missing]))
        try:
            found = self._contributions(records)
        except Exception:  # noqa: BLE001 - the message could show a record
            if len(records) == 1:
                return np.clip(missing, low, high)
            return np.concatenate([self._bounded(record) for record in records[:, None]])
        finite = np.isfinite(found).all(axis=1, keepdims=True)
        return np.clip(np.where(finite, found, missing), low, high)

    @cached
    def _hull(self) -> FloatArray:
        """The vertices, given or derived, shape (vertices, k). Raises ValueError if they cannot be derived."""
        if self.vertices is not None:
            self._check_vertices(self.vertices)
            return self.vertices
        if self._line:
            return self._table[[0, -1]]
        if self._enumerated:
            return np.unique(self._table, axis=0)
        raise ValueError(
            "vertices must be given, because contribution is not a straight line between the bounds of records: state "
            "contributions whose convex hull contains that of every record"
        )

    def _check_vertices(self, vertices: FloatArray) -> None:
        """Check that the convex hull of the vertices contains the contributions of the public records."""
        if vertices.ndim != 2 or vertices.shape[1] != self.prior_parameter.size or not np.isfinite(vertices).all():
            raise ValueError(f"vertices must be finite, of shape (vertices, {self.prior_parameter.size})")
        width = np.ptp(vertices, axis=0)
        scale = np.maximum(width, 1e-9 * np.maximum(np.abs(vertices).max(axis=0), 1.0))
        rows = np.vstack([((vertices - vertices[0]) / scale).T, np.ones(len(vertices))])  # shares add up to one
        for record, contribution in zip(self._public_records, self._table, strict=True):
            _, distance = optimize.nnls(rows, np.append((contribution - vertices[0]) / scale, 1.0))
            if not distance <= _OUTSIDE:
                raise ValueError(
                    f"vertices must contain the contribution of every record in their convex hull, but not that of "
                    f"{record:g}, which is {contribution.tolist()}; add vertices"
                )

    @cached
    def record_sensitivity(self) -> RecordSensitivity:
        """The largest changes of the statistic by one replaced record: the differences of the vertices."""
        first, second = np.triu_indices(len(self._hull), 1)
        return RecordSensitivity(differences=self._hull[first] - self._hull[second], tight=self.vertices is None)

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """The nearest statistic in the smallest box that contains those of n records."""
        return np.clip(statistic, n * self._hull.min(axis=0), n * self._hull.max(axis=0))

    # Prior and posterior

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> NaturalDistribution:
        """The posterior with natural parameter w prior + r statistic, for data weight r and prior weight w."""
        del n
        return NaturalDistribution(
            natural=prior_factor(prior_weight=prior_weight) * self.prior_parameter + data_weight * statistic,
            normalizer=self.normalizer,
            sampler=self.sampler,
            parameter_statistic=self.parameter_statistic,
        )

    def update_prior(self, statistic: FloatArray, n: int) -> Self:
        """The model whose prior is the posterior: the statistic is added to `prior_parameter`."""
        del n
        return replace(self, prior_parameter=self.prior_parameter + statistic)

    def check_sampler(self, *, samples: int = 10_000, rng: np.random.Generator | None = None) -> None:
        """Compare draws of the sampler with the mean and the variance of T(theta) that the log normalizer states.

        The draws are from the prior and from public posteriors of up to 300 records. The level of the whole check is
        1e-7, by the normal approximation of means and variances. The check does not prove that the sampler is correct,
        and reads no private record.

        Parameters
        ----------
        samples : int, default 10000
            Number of draws from each distribution, >= 2000.
        rng : numpy.random.Generator, optional
            Source of randomness; by default, the system's entropy.

        Raises
        ------
        ValueError
            If means or variances disagree, with the natural parameter and the coordinate.
        """
        count, source = positive_integer(samples=samples), generator(rng)
        if count < _FEWEST_SAMPLES:
            raise ValueError(f"samples must be at least {_FEWEST_SAMPLES}, got {count}")
        points = self._posteriors_to_check()
        limit = float(special.ndtri(1 - _FALSE_ALARM / (4 * points.size)))
        for natural in points:
            distribution = self.posterior(natural - self.prior_parameter, 0)
            drawn = np.asarray(self.parameter_statistic(distribution.sample(count, source)), dtype=np.float64)
            means, variances = distribution.statistic_mean, np.diagonal(distribution.statistic_variance)
            squares = (drawn - means) ** 2
            for name, found, stated, spread in (
                ("mean", drawn.mean(axis=0), means, np.sqrt(variances)),
                ("variance", squares.mean(axis=0), variances, squares.std(axis=0, ddof=1)),
            ):
                allowed = limit * spread / count**0.5 + _AFFINE * np.abs(stated)
                if (wrong := ~(np.abs(found - stated) <= allowed)).any():
                    j = int(np.argmax(wrong))
                    raise ValueError(
                        f"sampler disagrees with the log normalizer at the natural parameter {natural.tolist()}: "
                        f"coordinate {j} of T(theta) has the {name} {found[j]:.6g} in {count:,} draws, and "
                        f"{stated[j]:.6g} is stated; correct sampler, parameter_statistic or normalizer"
                    )

    # Neighbouring datasets

    @cached
    def neighbouring_posteriors(self) -> tuple[NaturalShifts, ...]:
        """All pairs of posteriors whose natural parameters differ by two contributions."""
        return (
            NaturalShifts(
                normalizer=self.normalizer,
                prior=self.prior_parameter,
                vertices=self._hull,
                attained=self.vertices is None,
                hessian_bound=self.hessian_bound,
                convexity_stated=self.convexity_stated,
                log_tails=self.log_tails,
            ),
        )

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Range of the log likelihood ratio, from the stated bounds of T(theta): the largest sum |d_j| width_j.

        d runs through the differences of two vertices (docs/notes/tempered.md, section 7).
        """
        if self.truncation is None:
            return Model.log_ratio(self, n, temperature, bounds)
        widths = self.truncation.widths(*bounds, self.prior_parameter.size)
        first, second = np.triu_indices(len(self._hull), 1)
        ranges = np.abs(self._hull[first] - self._hull[second]) @ widths
        return LogRatio.of_range(float(ranges.max()) * _RANGE_UP)

    def tempered_posterior(
        self, statistic: FloatArray, n: int, temperature: float, bounds: tuple[float, float]
    ) -> TruncatedDistribution:
        """The member of the natural parameter eta / temperature between the bounds, by the stated sampler."""
        if self.truncation is None:
            return Model.tempered_posterior(self, statistic, n, temperature, bounds)
        low, high = bounds
        return TruncatedNatural(
            natural=_frozen((self.prior_parameter + statistic) / temperature),
            low=low,
            high=high,
            truncation=self.truncation,
            parameter_statistic=self.parameter_statistic,
        )

    def supports_groups(self, prior_weight: float) -> bool:
        """True if there are two vertices: all k records then change from one to the other (docs/notes/families.md)."""
        del prior_weight
        return len(self._hull) == 2

    @cached
    def extreme_records(self) -> tuple[Records, ...]:
        """Records of the two most different posteriors of two records, in (record of the others, x, x').

        Raises TypeError if `vertices` are given, because they need not belong to records.
        """
        if self.vertices is not None:
            raise TypeError("vertices are stated, and need not belong to records: pass datasets=(first, second)")
        if self._line:
            low, high = self.records.low, self.records.high
            return (low, low, high), (high, high, low)
        _, places = np.unique(self._table, axis=0, return_index=True)
        records, table = self._public_records[places], self._table[places]
        size = len(records)
        common, i, j = (axis.ravel() for axis in np.indices((size, size, size)))
        common, i, j = (axis[i != j] for axis in (common, i, j))
        second = self.prior_parameter + table[common] + table[j]
        step = table[i] - table[j]
        reach = self.normalizer.distances_to_boundary(second + step, step)
        s = min(1.0, float(reach.min()) / 2)
        logs = [self.normalizer.values(second + t * step) for t in (1.0 + s, 1.0, 0.0)]
        worst = int(np.argmax((logs[0] - (1 + s) * logs[1]) / s + logs[2]))
        return ((float(records[common[worst]]), float(records[i[worst]]), float(records[j[worst]])),)


def _frozen(array: ArrayLike) -> FloatArray:
    """A read-only copy."""
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy
