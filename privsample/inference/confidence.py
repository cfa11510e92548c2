"""Confidence sets from a private release, without a prior, with exact coverage for any number of records."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from privsample._checks import FloatArray, check_memory, generator, one_of
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.display import account_rows
from privsample.accounting.statement import privacy_statement
from privsample.inference.bisection import one_sided_end
from privsample.inference.confidence_checks import (
    ObservedStatistic,
    checked_level,
    checked_seed,
    checked_simulations,
    observed_statistic,
    simulator_for,
    try_records,
)
from privsample.inference.given_records import Records
from privsample.inference.parameter_box import ParameterBox, parameter_box, range_text
from privsample.inference.projection import ProjectionSearch
from privsample.inference.rank_tests import Evidence, RankTest, rejected_ranks
from privsample.inference.simulated_statistics import BernoulliCounts, CategoryCounts, StatisticSimulator
from privsample.mechanisms.noise.private_statistics import PrivateStatistics
from privsample.mechanisms.release import Release
from privsample.mechanisms.shown import one_line
from privsample.plots import confidence as plots
from privsample.plots.html import card

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Side = Literal["both", "lower", "upper"]
_POINTS, _SIDE = 201, 41  # of a p-value curve, and of one side of a region
_WORDS = 8  # of a seed, 32 bits each


def confidence_set(
    release: Any,
    *,
    parameters: Mapping[str, Any],
    records: Records | None = None,
    level: float = 0.95,
    simulations: int = 999,
    rng: np.random.Generator | None = None,
) -> "ConfidenceSet":
    """The parameter values that a private release does not reject: a confidence set without a prior.

    Each value of the parameters is tested by simulation: `simulations` datasets of n records are drawn from the model,
    clipped as the curator clipped them, and released with the curator's noise. The value is in the set unless the
    released statistic is among the most extreme ones. The true value is in the set with probability at least `level`,
    for any number of records, any noise and any clipping. The set is post-processing: it costs no privacy.

    Parameters
    ----------
    release : PrivateStatistics or Release
        A release of NoisyStatistics, or any object with `model`, `n`, `noise` and `observed`, the noisy copies of the
        statistic, of shape (copies, ...).
    parameters : mapping of str to (float, float) or float
        For each parameter of the records its range (low, high), or a number to fix it. A vector takes one range for all
        of its coordinates, or a list with an entry for each. The names are those of the draws of
        `PrivateStatistics.mcmc`, or the arguments of `records`.
    records : callable, optional
        Function of the parameters, by keyword, that returns the distribution of one record: a frozen distribution of
        SciPy, or any object with `rvs(size=, random_state=)`. None uses the model of the release.
    level : float, default 0.95
        Probability in (0, 1) with which the set contains the true value.
    simulations : int, default 999
        Number of simulated releases for each value, at least 2 / (1 - level) - 1. More make the set depend less on
        chance; the coverage holds for any number.
    rng : numpy.random.Generator, optional
        Random generator. None draws from the system's entropy.

    Returns
    -------
    ConfidenceSet
        The set.

    Raises
    ------
    TypeError, ValueError
        If the release was made by another mechanism, a name or a range is wrong, `records` is not such a function, or
        `level` and `simulations` do not fit. Nothing is simulated then.

    Notes
    -----
    Xie and Wang 2022 (repro samples); Awan and Wang 2024 (private data). Proof: docs/notes/confidence.md, Theorem 1.
    Kind: exact, if the model holds.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=100, scale=2.0)
    >>> release = mechanism.release([1] * 30 + [0] * 70, rng=np.random.default_rng(0))
    >>> share = ps.confidence_set(release, parameters={"theta": (0, 1)}, rng=np.random.default_rng(1))
    >>> low, high = share.interval("theta")
    >>> print(f"{low:.2f} to {high:.2f}")
    0.20 to 0.40
    >>> share.contains(theta=0.3)
    True
    """
    words = generator(rng).integers(2**32, size=_WORDS)
    return ConfidenceSet(
        release=release,
        parameters=parameters,
        records=records,
        level=level,
        simulations=simulations,
        seed=tuple(int(word) for word in words),
    )


@frozen_value
class ConfidenceSet(Memo):
    """The parameter values that a private release does not reject; `confidence_set` makes it.

    Every method is post-processing and costs no privacy. All values are tested with the same random numbers, so equal
    sets give equal answers.

    Parameters
    ----------
    release : PrivateStatistics or Release
        The release, as for `confidence_set`.
    parameters : mapping of str to (float, float) or float
        Ranges and fixed numbers, as for `confidence_set`.
    seed : tuple of int
        Words from 0 to 2^32 - 1 that seed the simulations. They must not depend on the release.
    records : callable, optional
        Function of the parameters that returns the distribution of one record. None uses the model of the release.
    level : float, default 0.95
        Probability in (0, 1) with which the set contains the true value.
    simulations : int, default 999
        Number of simulated releases for each value.

    Raises
    ------
    TypeError, ValueError
        As for `confidence_set`.

    Notes
    -----
    `contains` has the stated coverage, exactly. `interval` is exact for models of one parameter whose statistic rises
    or falls with it, and for proportions of categories; otherwise it is the result of a search, which may miss accepted
    values. An empty set is possible: then no value in the ranges fits the release.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> model = ps.GammaExponential(shape=2, rate=1, upper=3)
    >>> mechanism = ps.NoisyStatistics(model=model, n=50, scale=2.0)
    >>> release = mechanism.release(np.linspace(0.1, 4, 50), rng=np.random.default_rng(0))
    >>> rate = ps.confidence_set(release, parameters={"rate": (0.01, 10)}, rng=np.random.default_rng(1))
    >>> rate.contains(rate=0.4), rate.p_value(rate=2.0)
    (True, 0.002)
    """

    release: Any
    parameters: Mapping[str, Any]
    seed: tuple[int, ...]
    records: Records | None = None
    level: float = 0.95
    simulations: int = 999

    def __post_init__(self) -> None:
        set_fields(self, level=checked_level(self.level), seed=checked_seed(self.seed))
        set_fields(self, simulations=checked_simulations(self.simulations, self.level))
        if isinstance(self.release, Release):
            set_fields(self, release=PrivateStatistics(release=self.release))
        observed = observed_statistic(self.release)
        simulator = simulator_for(observed, self.records, self.parameters)
        set_fields(self, parameters=parameter_box(self.parameters, simulator.parameters).as_given())
        check_memory(self.simulations * observed.copies.size, lower="simulations")
        check_memory(simulator.cells, lower="n: this model simulates single records")
        if self.records is not None:
            try_records(observed, self.records, self._box)

    @cached
    def _observed(self) -> ObservedStatistic:
        return observed_statistic(self.release)

    @cached
    def _simulator(self) -> StatisticSimulator:
        return simulator_for(self._observed, self.records, self.parameters)

    @cached
    def _box(self) -> ParameterBox:
        return parameter_box(self.parameters, self._simulator.parameters)

    @cached
    def _test(self) -> RankTest:
        """The test of all parameters together."""
        size = self._observed.copies.shape[1]
        return self._rank_test(self._simulator, np.eye(size), 0.0, 1.0)

    @cached
    def _search(self) -> ProjectionSearch:
        start = self._simulator.plug_in(self._observed.copies.mean(axis=0))
        return ProjectionSearch(self._test, self._box, start)

    def _rank_test(
        self, simulator: StatisticSimulator, weights: FloatArray, constant: float, factor: float
    ) -> RankTest:
        """A test by the weighted statistic plus a constant, which is `factor` times that of the simulator."""
        copies = self._observed.copies
        return RankTest(
            simulator=simulator,
            observed=copies.sum(axis=0) @ weights + len(copies) * constant,
            noise=self._observed.noise,
            copies=len(copies),
            weights=weights,
            factor=len(copies) * factor,
            simulations=self.simulations,
            rejected=rejected_ranks(self.level, self.simulations),
            seed=self.seed,
        )

    def _share_test(self, category: int) -> RankTest:
        """The test of the proportion of one category by K y_k - sum y + n (docs/notes/confidence.md, section 3)."""
        size, n = len(self._box.labels), self._observed.n
        weights = np.full((size, 1), -1.0)
        weights[category] += size
        return self._rank_test(BernoulliCounts(n=n), weights, float(n), float(size))

    @property
    def account(self) -> Accountant:
        """The account of the release, which is the whole privacy cost. Raises TypeError if the release has none."""
        found = getattr(self.release, "account", None)
        if not isinstance(found, Accountant):
            raise TypeError(f"the release has no account: it is {type(self.release).__name__}, not a PrivateStatistics")
        return found

    @property
    def method(self) -> str:
        """How the set and its intervals are computed, and what is exact."""
        base = f"inverted Monte-Carlo test, {self.simulations:,} simulated releases for each value"
        if self._simulator.direction:
            return f"{base}; equal tails; the ends of the interval are exact"
        if isinstance(self._simulator, CategoryCounts):
            return f"{base}; Mahalanobis distance of all counts; intervals by a contrast of counts, with exact ends"
        kind = "equal tails" if len(self._test.observed) == 1 else "Mahalanobis distance"
        return f"{base}; {kind}; intervals are projections, found by a search"

    def p_value(self, **theta: Any) -> float:
        """The p-value of values of the parameters: the probability of a release at least as extreme.

        Parameters
        ----------
        **theta : float or array
            A value for each parameter, within its range; fixed parameters may be left out.

        Returns
        -------
        float
            The p-value, a multiple of 1 / (simulations + 1). If the values are true it is at most p with probability
            at most p, over records, noise and simulations.

        Raises
        ------
        TypeError, ValueError
            If a name is unknown or missing, or a value lies outside its range.
        """
        return self._evidence(theta).rank / (self.simulations + 1)

    def contains(self, **theta: Any) -> bool:
        """True if values of the parameters are in the set, which the true values are with probability `level` or more.

        Parameters
        ----------
        **theta : float or array
            A value for each parameter, within its range; fixed parameters may be left out.

        Returns
        -------
        bool
            Whether the p-value is above 1 - level.

        Raises
        ------
        TypeError, ValueError
            If a name is unknown or missing, or a value lies outside its range.
        """
        return self._evidence(theta).rank > self._test.rejected

    def _evidence(self, given: Mapping[str, Any]) -> Evidence:
        theta = self._box.theta(self._box.flat(given))
        if isinstance(self._simulator, CategoryCounts) and not abs(theta["theta"].sum() - 1.0) <= 1e-9:
            raise ValueError(f"theta must sum to 1, got a sum of {float(theta['theta'].sum())!r}")
        return self._test.evidence(theta)

    def is_empty(self) -> bool:
        """True if no value in the ranges fits the release, as far as the search finds.

        Returns
        -------
        bool
            Whether the set is empty.
        """
        if self._is_searched:
            return not self._search.accepts(self._search.best())
        return any(self._ends(int(place), "both") is None for place in self._box.free)

    @property
    def _is_searched(self) -> bool:
        """True if intervals are found by a search."""
        return not (self._simulator.direction or isinstance(self._simulator, CategoryCounts))

    def interval(self, name: str, *, side: Side = "both") -> FloatArray:
        """The confidence interval of one parameter.

        For a model of several parameters it is the projection of the set: all intervals together contain the true
        values with probability `level`. Intervals of proportions of categories hold one by one.

        Parameters
        ----------
        name : str
            A parameter, or one coordinate such as "theta[1]".
        side : {"both", "lower", "upper"}, default "both"
            "lower" gives a lower confidence limit, and the interval reaches up to the end of the range; "upper" the
            other way round. Only for models of one parameter and for proportions of categories.

        Returns
        -------
        array of shape (2, ...)
            The ends: `low, high = found.interval("theta")`. Each is a rejected value next to accepted ones, or an end
            of the range. A projection is longer by one percent at either end, where no accepted value was found.

        Raises
        ------
        ValueError
            If the name is unknown, the set is empty, or the model has no one-sided intervals.
        """
        places = self._box.places(name)
        if not one_of(side, get_args(Side)):
            raise ValueError(f"side must be 'both', 'lower' or 'upper', got {side!r}")
        found = []
        for place in places:
            ends = self._ends(int(place), side)
            if ends is None:
                found_by = ", as far as a search finds" if self._is_searched else ""
                raise ValueError(
                    f"the confidence set is empty{found_by}: no value in {self._ranges} fits the release at the level "
                    f"{self.level:g}; check the model, or change the ranges"
                )
            found.append(ends)
        shape = () if name in self._box.labels else self._box.theta(self._box.low)[name].shape
        return np.moveaxis(np.array(found), -1, 0).reshape(2, *shape)

    def _ends(self, place: int, side: Side) -> tuple[float, float] | None:
        """The ends of the interval of one coordinate; None if the set is empty."""
        low, high = float(self._box.low[place]), float(self._box.high[place])
        if low == high:
            return low, high
        if isinstance(self._simulator, CategoryCounts):
            return _equal_tails(self._share_test(place), (low, high), side)
        if self._simulator.direction:
            return _equal_tails(self._test, (low, high), side)
        if side != "both":
            raise ValueError(
                "side must be 'both' for this model: one-sided intervals need a statistic of one parameter"
            )
        return self._search.interval(place)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the set: the p-value curve of one parameter, the region of two, or the intervals of several.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If the set is empty.
        """
        free = [int(place) for place in self._box.free]
        labels = [self._box.labels[place] for place in free]
        ends = [tuple(self.interval(label)) for label in labels]
        limits = [(float(self._box.low[place]), float(self._box.high[place])) for place in free]
        if len(free) == 1:
            values = plots.window(ends[0], limits[0], _POINTS)
            p_values = self._p_values(free, values[:, None])
            return plots.plot_p_values(ax, values, p_values, ends=ends[0], level=self.level, label=labels[0])
        if len(free) == 2 and not isinstance(self._simulator, CategoryCounts):
            first, second = (plots.window(own, limit, _SIDE) for own, limit in zip(ends, limits, strict=True))
            pairs = np.column_stack([grid.ravel() for grid in np.meshgrid(first, second)])
            p_values = self._p_values(free, pairs).reshape(len(second), len(first))
            return plots.plot_region(ax, (first, second), p_values, level=self.level, labels=(labels[0], labels[1]))
        return plots.plot_intervals(ax, np.array(ends), labels=labels, level=self.level)

    def _p_values(self, places: list[int], values: FloatArray) -> FloatArray:
        found = []
        for own in values:
            point = self._box.low.copy()
            point[places] = own
            found.append(self._test.evidence(self._box.theta(point)).rank / (self.simulations + 1))
        return np.array(found)

    def statement(self, delta: float = 1e-6) -> str:
        """What the set guarantees, and the privacy statement of the release behind it.

        Parameters
        ----------
        delta : float, default 1e-6
            The delta in (0, 1) at which epsilon is reported.

        Returns
        -------
        str
            The statement in plain words, with every assumption of the account.
        """
        empty = f"The set is empty: no value in {self._ranges} fits the release. " if self.is_empty() else ""
        return (
            f"{empty}If the model holds and the true parameters lie in the ranges ({self._ranges}), the confidence set "
            f"contains them with probability at least {self.level:g}, over records, noise and simulations, for this "
            f"number of records. Method: {self.method}. The set costs no privacy. "
            f"{privacy_statement(self.account, delta)}"
        )

    @property
    def _ranges(self) -> str:
        free = self._box.free
        return ", ".join(f"{self._box.labels[k]} in {range_text(self._box.low[k], self._box.high[k])}" for k in free)

    def __repr__(self) -> str:
        try:
            return one_line("ConfidenceSet", self._ranges, f"level {self.level:g}", f"{self.simulations:,} simulations")
        except Exception:  # noqa: BLE001 - a repr must not raise
            return "ConfidenceSet(...)"

    def _repr_html_(self) -> str:
        account = getattr(self.release, "account", None)
        rows = [("ranges", self._ranges), ("level", f"{self.level:g}"), ("method", self.method)]
        return card("Confidence set", [*rows, *(account_rows(account, 1e-6) if account is not None else [])])


def _equal_tails(test: RankTest, limits: tuple[float, float], side: Side) -> tuple[float, float] | None:
    """The ends of an interval of a parameter on which the statistic depends monotonically (Theorem 2)."""
    (name, *_), (low, high) = test.simulator.parameters[0], limits
    least = test.rejected // 2 if side == "both" else test.rejected
    rising = test.simulator.direction > 0

    def counts(value: float) -> tuple[int, int]:
        found = test.evidence({name: np.array(value)})
        return (found.larger, found.smaller) if rising else (found.smaller, found.larger)

    lower = low if side == "upper" else one_sided_end(lambda x: counts(x)[0] > least, low, high)
    upper = high if side == "lower" else one_sided_end(lambda x: counts(x)[1] > least, high, low)
    return None if lower is None or upper is None else (lower, upper)
