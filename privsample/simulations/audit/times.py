"""The audit of times: events in the output and the wall time of a release, chosen on draws of their own.

Each release is made on one of the two datasets, which a fair coin chooses. Given all that was before, including the
state of the machine, its output and its time must satisfy the claim. The test multiplies factors with mean at most 1
under the claim, so that neither drift nor dependence between releases can cause a false alarm
(docs/notes/constant_time.md, section 3).
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, renyi_orders
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.draws import check_widths
from privsample.simulations.audit.evaluation import ORDERS
from privsample.simulations.audit.renyi import renyi_from_curves
from privsample.simulations.audit.scores import learn_scores, score_values
from privsample.simulations.audit.task import AuditTask
from privsample.simulations.audit.verdict import Verdict

Clock = Callable[[], float]
CLOCK: Clock = time.perf_counter

_LEARNING, _CHOOSING = 0.25, 0.25
_WINDOW = 101  # releases before each one, whose geometric mean time is the unit of its time
_OUTPUT_CELLS = 8
_TIME_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
_LARGEST_BET = 0.999
_PARTS = (1.0, 0.6, 0.3, 0.1)  # of a bet's size, which share the wealth: fewer draws chose the size than test it
_BETS = 1.0 - np.geomspace(_LARGEST_BET, 1.0 - _LARGEST_BET, 40)  # tried parts of the largest permitted bet


@dataclass(frozen=True, kw_only=True)
class _TimedReleases:
    """Outputs, times in units of the recent mean, and the datasets of releases in the order in which they ran."""

    outputs: FloatArray
    times: FloatArray
    seconds: FloatArray
    second: NDArray[np.bool_]

    def part(self, start: int, stop: int) -> "_TimedReleases":
        """Return the releases from `start` up to but excluding `stop`."""
        chosen = slice(start, stop)
        return _TimedReleases(
            outputs=self.outputs[chosen],
            times=self.times[chosen],
            seconds=self.seconds[chosen],
            second=self.second[chosen],
        )


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """Cells of outputs and times, and the cells in the order of decreasing ratio of their two probabilities."""

    score: Callable[[FloatArray], FloatArray]
    score_ends: FloatArray
    time_ends: FloatArray
    order: NDArray[np.int64]

    def counts(self, releases: _TimedReleases) -> NDArray[np.int64]:
        """Count the releases in each cell, shape (2, cells): on the first and on the second dataset."""
        scores = np.searchsorted(self.score_ends, score_values(self.score, releases.outputs), side="right")
        cells = scores * (len(self.time_ends) + 1) + np.searchsorted(self.time_ends, releases.times, side="right")
        return np.stack([np.bincount(cells[releases.second == side], minlength=len(self.order)) for side in (0, 1)])


@dataclass(frozen=True, kw_only=True)
class _Bet:
    """An event and the bet on it: its cells, whether the second dataset makes it likelier, and the bet's size."""

    at: int
    cells: NDArray[np.int64]
    swapped: bool
    size: float
    strength: float

    def hits(self, counts: NDArray[np.int64]) -> tuple[int, int, int]:
        """Count the releases in the event, on its own dataset and on the other one, and all releases outside."""
        own, other = (int(side[self.cells].sum()) for side in (counts[::-1] if self.swapped else counts))
        return own, other, int(counts.sum()) - own - other


def audit_times(task: AuditTask, *, clock: Clock | None = None) -> Verdict:
    """Audit what output and wall time of a release reveal together. Raises: the errors of `audit`.

    clock: returns the time in seconds; by default `time.perf_counter`. `task.samples` releases are timed for each
    dataset on average. The verdict is not reproducible, because wall times are not.
    """
    read = CLOCK if clock is None else clock
    check_memory(2 * task.samples * max(case.width for case in task.cases), lower="samples")
    case = task.cases[0]
    if len(task.cases) > 1:
        few = max(task.samples // (2 * len(task.cases)), 200)
        case = max(task.cases, key=lambda one: _search(task, one, few, read)[2][0].strength)
    cells, chosen, bets = _search(task, case, task.samples, read)
    releases, start, _ = chosen
    counts = cells.counts(releases.part(start, len(releases.times)))
    return _verdict(task, case, cells, bets, counts, overhead=len(releases.times) / max(len(releases.times) - start, 1))


def _search(
    task: AuditTask, case: Neighbours, samples: int, clock: Clock
) -> tuple[_Cells, tuple[_TimedReleases, int, NDArray[np.int64]], tuple[_Bet, ...]]:
    """Time the releases, learn cells on the first part of them and choose events and bets on the second part.

    Returns the cells, the releases with the start of their evaluation part, and the bets: the tested one first, then
    the most informative ones at each epsilon, in both directions.
    """
    total = max(2 * samples, 80)
    releases = _timed_releases(case, total, task.rng, clock)
    learned, start = round(total * _LEARNING), round(total * (_LEARNING + _CHOOSING))
    cells = _learn_cells(case, releases.part(0, learned))
    choosing = cells.counts(releases.part(learned, start))
    growth = (total - start) / max(start - learned, 1)
    found = [
        _choose(task, cells, choosing, growth, at, swapped)
        for swapped in (False, True)
        for at in range(len(task.epsilons))
    ]
    best = max((tested for tested, _ in found), key=lambda bet: bet.strength)
    return cells, (releases, start, choosing), (best, *(informative for _, informative in found))


def _timed_releases(case: Neighbours, count: int, rng: np.random.Generator, clock: Clock) -> _TimedReleases:
    """Make releases one after the other, each on the dataset that a fair coin chooses, and time each of them."""
    data = [build() for build in case.datasets]
    second = rng.integers(0, 2, size=count + _WINDOW) == 1
    seconds, rows = np.empty(len(second)), []
    with _no_garbage_collection():
        for at, side in enumerate(second.tolist()):
            began = clock()
            row = case.draw(data[side], 1, rng)
            seconds[at] = clock() - began
            rows.append(np.ravel(row))
    check_widths({len(row) for row in rows})
    outputs = np.array(rows[_WINDOW:], dtype=np.float64)
    if not np.isfinite(outputs).all():
        raise ValueError("the mechanism's outputs must be finite numbers, got NaN or infinity")
    positive = np.maximum(seconds, np.finfo(np.float64).tiny)
    return _TimedReleases(
        outputs=outputs,
        times=positive[_WINDOW:] / _means_before(positive),
        seconds=seconds[_WINDOW:],
        second=second[_WINDOW:],
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off, whose runs would be timed with releases that did not cause them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _means_before(seconds: FloatArray) -> FloatArray:
    """Return for each time but the first 101 the geometric mean of the 101 times before it: a unit that follows drift.

    A median would jump where a release has two typical times that are equally likely.
    """
    sums = np.append(0.0, np.cumsum(np.log(seconds)))
    return np.exp((sums[_WINDOW:-1] - sums[: -_WINDOW - 1]) / _WINDOW)


def _learn_cells(case: Neighbours, releases: _TimedReleases) -> _Cells:
    """Divide outputs by a score and times by quantiles into cells, and order the cells by their estimated ratio."""
    first, second = (releases.outputs[releases.second == side] for side in (0, 1))
    score = case.loss if case.loss is not None else learn_scores(first, second)[0]
    scores = score_values(score, releases.outputs)
    values = np.unique(scores)
    shares = np.arange(1, _OUTPUT_CELLS) / _OUTPUT_CELLS
    ends = values[1:] if len(values) <= _OUTPUT_CELLS else np.unique(np.quantile(scores, shares))
    times = np.unique(np.quantile(releases.times, _TIME_SHARES))
    cells = _Cells(
        score=score,
        score_ends=ends,
        time_ends=times,
        order=np.arange((len(ends) + 1) * (len(times) + 1)),
    )
    here, there = np.log(cells.counts(releases) + 0.5)
    return _Cells(score=score, score_ends=ends, time_ends=times, order=np.argsort(there - here, kind="stable"))


def _choose(
    task: AuditTask, cells: _Cells, counts: NDArray[np.int64], growth: float, at: int, swapped: bool
) -> tuple[_Bet, _Bet]:
    """Choose the event and the bet that refute the claim most, and those with the largest lower bound."""
    factor, claim = float(np.exp(task.epsilons[at])), float(task.claims[at])
    order = cells.order[::-1] if swapped else cells.order
    own, other = (np.cumsum(side[order]) for side in (counts[::-1] if swapped else counts))
    total = int(counts.sum())
    excess = 2.0 * (own - factor * other) / total
    error = 2.0 * np.sqrt(own + factor**2 * other + 1.0) / total
    strongest, largest = int(np.argmax((excess - claim) / error)), int(np.argmax(excess - 3.0 * error))

    def bet(last: int, delta: float) -> _Bet:
        cells_in = order[: last + 1]
        hits = (growth * own[last], growth * other[last], growth * (total - own[last] - other[last]))
        sizes = _BETS / (factor + delta / 2.0)  # factors stay positive
        logs = [_log_product(hits, factor, delta, float(size)) for size in sizes]
        most = int(np.argmax(logs))
        return _Bet(at=at, cells=cells_in, swapped=swapped, size=float(sizes[most]), strength=logs[most])

    # a bound is sharpest for a bet against a delta somewhat below the one that is seen
    near = float(np.clip(excess[largest] - 4.0 * error[largest], 0.0, 1.0))
    return bet(strongest, claim), bet(largest, near)


def _log_product(hits: tuple[float, float, float], factor: float, delta: float, size: float) -> float:
    """Return the log of the product of 1 + size (Z - delta/2), Z = 1, -factor or 0 (constant_time.md, step 3.2)."""
    own, other, outside = hits
    gains = np.array([size * (1.0 - delta / 2.0), -size * (factor + delta / 2.0), -size * delta / 2.0])
    if gains[1] <= -1.0:  # a factor of 0 or below, so that the product is no test, even if the factor never occurred
        return -np.inf
    return float(np.array([own, other, outside]) @ np.log1p(gains))


def _log_wealth(hits: tuple[float, float, float], factor: float, delta: float, size: float) -> float:
    """Return the log of the mean of the products with several parts of the size."""
    logs = [_log_product(hits, factor, delta, part * size) for part in _PARTS]
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def _lower(bet: _Bet, counts: NDArray[np.int64], factor: float, level: float) -> float:
    """Return a lower confidence bound on delta: the largest delta at which the wealth exceeds 1/level.

    The size of the bet is lowered to one that is permitted at every delta up to 1 (constant_time.md, step 3.3).
    """
    size = min(bet.size, _LARGEST_BET / (factor + 0.5))

    def refuted(delta: float) -> bool:
        return _log_wealth(bet.hits(counts), factor, delta, size) >= -np.log(level)

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):  # the wealth decreases in delta
        middle = (low + high) / 2.0
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _upper(bet: _Bet, counts: NDArray[np.int64], factor: float, level: float) -> float:
    """Return an upper confidence bound on the mean excess of the event (Azuma 1967)."""
    own, other, outside = bet.hits(counts)
    total = own + other + outside
    excess = 2.0 * (own - factor * other) / total
    return float(np.clip(excess + 2.0 * (1.0 + factor) * np.sqrt(-np.log(level) / (2.0 * total)), 0.0, 1.0))


def _verdict(
    task: AuditTask, case: Neighbours, cells: _Cells, bets: tuple[_Bet, ...], counts: NDArray[np.int64], overhead: float
) -> Verdict:
    """Return the verdict of the evaluation part of the releases, whose counts are given."""
    tested, informative = bets[0], bets[1:]
    epsilons, claims, points = task.epsilons, task.claims, len(task.epsilons)
    factors = np.exp(epsilons)
    epsilon, claim, factor = float(epsilons[tested.at]), float(claims[tested.at]), float(factors[tested.at])
    p_value = min(float(np.exp(-_log_wealth(tested.hits(counts), factor, claim, tested.size))), 1.0)
    each = task.level / (4 * points)  # two directions with two bounds each at every epsilon
    lowers = np.array([_lower(bet, counts, float(factors[bet.at]), each) for bet in informative]).reshape(2, points)
    uppers = np.array([_upper(bet, counts, float(factors[bet.at]), each) for bet in informative]).reshape(2, points)
    lower = _lower(tested, counts, factor, task.level)
    best_factor = np.log1p((1.0 - claim / 2.0) / (factor + claim / 2.0))
    here, there = case.descriptions
    return Verdict(
        pair=f"{there}, against {here}" if tested.swapped else f"{here}, against {there}",
        epsilon=epsilon,
        claim=claim,
        p_value=p_value,
        lower=max(lower, claim) if p_value <= task.level else lower,
        samples=max(int(counts.sum()) // 2, 1),
        needed=float(np.ceil(-np.log(task.level) / best_factor / 2.0)) if claim < 1.0 else np.inf,
        overhead=overhead,
        level=task.level,
        epsilons=epsilons,
        claims=claims,
        lowers=lowers.max(axis=0),
        uppers=uppers.max(axis=0),
        orders=renyi_orders(ORDERS),
        renyi=np.array(
            [max(renyi_from_curves(order, epsilons, *both) for both in (lowers, lowers[::-1])) for order in ORDERS]
        ),
        event=_describe(cells, tested, counts),
    )


def _describe(cells: _Cells, bet: _Bet, counts: NDArray[np.int64]) -> str:
    """Describe the tested event in plain words, with its frequencies."""
    width = len(cells.time_ends) + 1
    lengths = np.concatenate([[0.0], cells.time_ends, [np.inf]])
    low, high = lengths[bet.cells[0] % width], lengths[bet.cells[0] % width + 1]
    span = (
        f"at least {low:.3g}" if np.isinf(high) else f"at most {high:.3g}" if low == 0.0 else f"{low:.3g} to {high:.3g}"
    )
    own, other = (
        int(side[bet.cells].sum()) / max(int(side.sum()), 1) for side in (counts[::-1] if bet.swapped else counts)
    )
    classes = len(cells.score_ends) + 1
    output = f" and an output of class {bet.cells[0] // width + 1} of {classes}" if classes > 1 else ""
    return (
        f"The event was chosen by looking at the output and the wall time of each release together: {len(bet.cells):,} "
        f"of {len(cells.order):,} cells, the first of them a time of {span} times the mean of the releases just "
        f"before{output}. It occurred in {own:.3%} of the releases on the dataset named first and in {other:.3%} of "
        "those on the other."
    )
