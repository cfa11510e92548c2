"""Public steps after private gradient descent: how many are enough, against the number of coefficients d.

Source: Balle, Barthe, Gaboardi and Geumlek 2019, end of section 4.1: for strongly convex losses, Theta(log d) further
iterations on public data give the optimization error of non-private descent up to constant factors, and privacy to all
individuals. The noise is C / sqrt(d) in each coordinate: its mean square, C^2, is the largest of a gradient.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import optimize, special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.sgd import SGDAccountant
from privsample.distributions.steps.losses import LogisticLoss, descent_pass
from privsample.mechanisms.sgd import NoisyProjectedSGD, PublicRecords
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE, SKY
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.findings import Columns, Finding, Statement, Table, compared, join_names
from privsample.simulations.experiments.labels import label_lines

CONVEXITY, RATE, RADIUS = 0.1, 0.5, 1.0
TARGET = 0.5  # largest Rényi divergence of any record divided by the order, in nats
DIMENSIONS = tuple(2**k for k in range(1, 21))
SIZES = (1000, 10_000, 100_000)  # numbers of records for which the step size is chosen
SIMULATED, RECORDS, REPEATS = (2, 16, 128, 1024), 400, 100
SIGNAL, ODDS = 0.6, 4.0
STRONG, PUBLISHED, CONVEX = "strongly convex, our bound", "strongly convex, Theorem 5", "convex, our bound"


@frozen_value
class Descent:
    """Private descent with d coefficients, a strong convexity rho >= 0 and a step size."""

    d: int
    convexity: float = CONVEXITY
    rate: float = RATE

    @property
    def loss(self) -> LogisticLoss:
        """Logistic loss of rows of norm 1 and the penalty."""
        return LogisticLoss(features=self.d, norm=1.0, radius=RADIUS, penalty=self.convexity, intercept=False)

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant C of the penalised loss."""
        return self.loss.max_row_norm + self.convexity * RADIUS

    @property
    def noise_std(self) -> float:
        """Noise of a coordinate, C / sqrt(d)."""
        return float(self.lipschitz / self.d**0.5)

    def cost(self, steps: int) -> float:
        """Rényi divergence of the last private record divided by the order, by the library, after public steps."""
        account = SGDAccountant(
            loss=self.loss,
            n=1,
            rate=self.rate,
            noise_std=self.noise_std,
            public_tail=steps,
            hidden_order=False,
        )
        return float(account.rdp(2.0)) / 2.0

    def published_cost(self, steps: int) -> float:
        """The same by Theorem 5 as published; a record that `steps` iterations follow has index n - steps."""
        beta, rho = self.loss.smoothness, self.convexity
        scale = 2 * (self.lipschitz / self.noise_std) ** 2
        if steps == 0:
            return scale
        return float(scale / steps * (1 - 2 * self.rate * beta * rho / (beta + rho)) ** ((steps + 1) / 2))

    def fewest(self, published: bool = False) -> int:
        """Return the smallest number of public steps whose cost is at most TARGET, by doubling and bisection."""
        cost = self.published_cost if published else self.cost
        if cost(0) <= TARGET:
            return 0
        low, high = 0, 1
        while cost(high) > TARGET:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if cost(middle) <= TARGET else (middle, high)
        return high


def slow_rate(n: int) -> float:
    """Return the step size log(n) / (rho n), at which one pass forgets its start and its error falls as log(n) / n."""
    return float(np.log(n) / (CONVEXITY * n))


def records(d: int, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Rows on the unit sphere, (count, d), and labels (count,) that depend on the first coordinate alone."""
    side = rng.choice([-1.0, 1.0], count)
    others = rng.standard_normal((count, d - 1))
    others *= (1 - SIGNAL**2) ** 0.5 / np.linalg.norm(others, axis=1, keepdims=True)
    labels = rng.random(count) < special.expit(ODDS * SIGNAL * side)
    return np.column_stack([SIGNAL * side, others]), labels.astype(np.float64)


def excess(w: FloatArray) -> float:
    """Return the mean penalised loss over the distribution of records, above its minimum."""
    spread = (1 - SIGNAL**2) ** 0.5 * float(np.linalg.norm(w[1:]))
    return _mean_loss(float(w[0]), spread, len(w) - 1) + CONVEXITY * float(w @ w) / 2 - least_loss()


@cache
def _projections(width: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Gegenbauer nodes and masses of one coordinate of a uniform unit vector of this many coordinates."""
    if width == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    nodes, masses = special.roots_gegenbauer(40, width / 2 - 1)
    return nodes, masses / masses.sum()


def _mean_loss(first: float, spread: float, width: int) -> float:
    """Mean logistic loss, given the first coefficient and the largest score of the other coordinates."""
    nodes, masses = _projections(width)
    right = special.expit(ODDS * SIGNAL)  # probability of the label that the first coordinate suggests
    scores = SIGNAL * first + spread * nodes
    return float(masses @ (right * np.logaddexp(0.0, -scores) + (1 - right) * np.logaddexp(0.0, scores)))


@cache
def least_loss() -> float:
    """Return the smallest mean penalised loss, at coefficients that are 0 but for the first, inside the ball."""
    found = optimize.minimize_scalar(
        lambda first: _mean_loss(first, 0.0, 1) + CONVEXITY * first * first / 2,
        bounds=(0.0, RADIUS),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.fun)


def simulated(d: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Excess losses of non-private and private descent with the fewest public steps, each of shape (REPEATS,)."""
    descent = Descent(d=d)
    steps = descent.fewest()
    found = np.empty((2, REPEATS))
    for k in range(REPEATS):
        rows, labels = records(d, RECORDS, rng)
        public = PublicRecords(**dict(zip(("rows", "targets"), records(d, steps, rng), strict=True)))
        silent = np.zeros((RECORDS, d))
        free = descent_pass(descent.loss, np.zeros(d), rows, labels, rate=RATE, noise=silent, batch=1)
        private = NoisyProjectedSGD(
            loss=descent.loss,
            n=RECORDS,
            rate=RATE,
            noise_std=descent.noise_std,
            hidden_order=False,
            public_tail=steps,
            public=public,
        ).release((rows, labels), rng=rng)
        found[:, k] = excess(free), excess(private["coefficients"][0])
    return found[0], found[1]


def _run(seed: int = 51, dimensions: Sequence[int] | None = None) -> Result:
    dimensions = DIMENSIONS if dimensions is None else dimensions
    rng = np.random.default_rng(seed)
    counts = {
        STRONG: [Descent(d=d).fewest() for d in dimensions],
        PUBLISHED: [Descent(d=d).fewest(published=True) for d in dimensions],
        CONVEX: [Descent(d=d, convexity=0.0).fewest() for d in dimensions],
    }
    for n in SIZES:
        counts[_slow(n)] = [Descent(d=d, rate=slow_rate(n)).fewest() for d in dimensions]
    parts: list[dict[str, Any]] = [
        {"quantity": name, "d": np.array(dimensions), "value": np.array(steps, dtype=float), "standard_error": 0.0}
        for name, steps in counts.items()
    ]
    for d in SIMULATED:
        for name, values in zip(("excess loss, not private", "excess loss, private"), simulated(d, rng), strict=True):
            error = values.std(ddof=1) / len(values) ** 0.5
            parts.append({"quantity": name, "d": np.array([d]), "value": values.mean(), "standard_error": error})
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, stacked(parts)))


def _slow(n: int) -> str:
    return f"strongly convex, step size for n = {n}"


def _ratios(table: Table) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Dimensions, ratios of the private to the non-private excess loss, and their standard errors."""
    free, private = (table.select(quantity=f"excess loss, {name}") for name in ("not private", "private"))
    ratio = private["value"] / free["value"]
    error = ratio * np.hypot(private["standard_error"] / private["value"], free["standard_error"] / free["value"])
    return private["d"], ratio, error


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    middle, last = 2**10, 2**20
    steps = {
        (name, d): table.select(quantity=name).at("d", d, "value")
        for name in (STRONG, PUBLISHED, CONVEX, *map(_slow, SIZES))
        for d in (middle, last)
    }
    growth = {name: (steps[name, last] - steps[name, middle]) / 10 for name in (STRONG, PUBLISHED)}
    factor = (steps[CONVEX, last] / steps[CONVEX, middle]) ** 0.1
    limit = float(np.log(2) / (-2 * np.log(Descent(d=2).loss.contraction(RATE))))
    slow = join_names([f"{steps[_slow(n), last]:,.0f} for n = {n:,}" for n in SIZES])
    d, ratio, error = _ratios(table)
    sentence = (
        f"Fewest noisy steps on public records after which the Rényi divergence of every private record is at most "
        f"{TARGET:g} times the order, if the noise of a coordinate is C/√d. With a {CONVEXITY:g}-strongly convex loss "
        f"and step size {RATE:g}, our bound needs {steps[STRONG, middle]:.0f} steps at d = {middle:,} and "
        f"{steps[STRONG, last]:.0f} at d = {last:,}, {growth[STRONG]:.1f} for each doubling of d (limit {limit:.2f}); "
        f"Theorem 5 needs {steps[PUBLISHED, middle]:.0f} and {steps[PUBLISHED, last]:.0f}. With a convex loss our "
        f"bound needs {steps[CONVEX, middle]:,.0f} and {steps[CONVEX, last]:,.0f}, and a doubling of d multiplies the "
        f"number by {factor:.2f}. The Θ(log d) of the paper holds at a fixed step size. At the step size "
        f"log(n)/({CONVEXITY:g} n), whose error falls with the number n of private records, d = {last:,} needs {slow}. "
        f"Over {RECORDS} simulated records and the public steps, the excess loss of private descent divided by that of "
        f"non-private descent is {ratio[0]:.2f} ± {2 * error[0]:.2f} at d = {d[0]:g} and {ratio[-1]:.2f} ± "
        f"{2 * error[-1]:.2f} at d = {d[-1]:,.0f} (± two standard errors): while d grows {d[-1] / d[0]:g} times, the "
        f"factor changes by {ratio[-1] - ratio[0]:+.2f} ± {2 * np.hypot(error[0], error[-1]):.2f}."
    )
    return Statement(
        sentence,
        (
            *(Finding(f"{name}, {d}", count) for (name, d), count in steps.items()),
            *(Finding(f"{name}, each doubling", more) for name, more in growth.items()),
            Finding("convex, each doubling", factor),
            *(Finding(f"ratio at {d[k]:g}", float(ratio[k]), float(error[k])) for k in (0, -1)),
            compared("convex - strongly convex", steps[CONVEX, last] - steps[STRONG, last]),
        ),
    )


def _plot(figure: Any, columns: Columns) -> None:
    table = Table(columns=columns)
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    lines = [(CONVEX, "convex", GREY), (PUBLISHED, f"step {RATE:g}, Theorem 5", ORANGE)]
    lines += [(STRONG, f"step {RATE:g}", BLUE)] + [(_slow(n), f"step for n = {n:,}", SKY) for n in SIZES]
    for name, label, colour in lines:
        part = table.select(quantity=name)
        left.plot(part["d"], part["value"], color=colour, label=label, linestyle="--" if name == PUBLISHED else "-")
    left.set(xscale="log", yscale="log", xlabel="number of coefficients d", ylabel="fewest public steps")
    left.set_xlim(right=table["d"].max())
    left.set_title(f"Rényi divergence of each record ≤ {TARGET:g} · order (nats)")
    d, ratio, error = _ratios(table)
    right.errorbar(d, ratio, yerr=2 * error, fmt="o-", markersize=4, capsize=3, linewidth=1.2, color=GREEN)
    right.axhline(1.0, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)))
    right.set(
        xscale="log", ylim=(0, None), xlabel="number of coefficients d", ylabel="excess loss, private / not private"
    )
    right.set_title(f"{RECORDS} private records, step {RATE:g}")
    for axes in (left, right):
        axes.minorticks_off()
    label_lines(left)


PUBLIC_STEPS = Experiment(
    name="balle-diffusion-public",
    title="Balle et al. 2019, section 4.1: public steps that private descent needs, against the dimension",
    run=_run,
    size=(9.2, 4.0),
    second=lambda: _run(seed=52, dimensions=(4, 64, 2**10, 2**20)),
)
