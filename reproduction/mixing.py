"""Privacy amplification by a Markov kernel after a release, and by the noisy steps of a training run.

Source: Balle, Barthe, Gaboardi and Geumlek 2019, Theorems 1 and 5. Bounds of the library:
docs/notes/kernels.md, contraction.md.
"""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.postprocessing.contraction import noise_of_equal_steps
from privsample.accounting.postprocessing.kernels import KernelAccountant
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.distributions.steps.kernels import kernel_power
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.relations import ReplaceOne
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment
from reproduction.tables import value_at

STATES, LOG_ODDS, DELTA = 9, 3.0, 1e-6
STEPS = np.unique(np.round(np.geomspace(1.0, 60.0, 20)))
_BOUNDS = ("Dobrushin", "Doeblin", "ultra-mixing", "contracted")
LIPSCHITZ, NOISE_STD, RATE, SMOOTH = 1.0, 4.0, 0.5, 1.0
CONVEXITY = (0.0, 0.2)
AFTER = np.arange(0.0, 101.0)


def walk(states: int = STATES) -> FloatArray:
    """A lazy walk on a ring: to either neighbour with probability 1/4."""
    here = np.eye(states)
    return here / 2 + (np.roll(here, 1, axis=1) + np.roll(here, -1, axis=1)) / 4


@frozen_value
class Mixing:
    """By number of steps: constants of the kernel, and epsilon at DELTA behind it."""

    steps: FloatArray
    dobrushin: FloatArray
    doeblin: FloatArray
    ultra_mixing: FloatArray
    exact: FloatArray
    bound: FloatArray
    published: FloatArray
    alone: float


def mixing(steps: FloatArray) -> Mixing:
    """Randomized response on a ring, and a walk after it."""
    base = RandomizedResponseAccountant(log_odds=LOG_ODDS, categories=STATES, relation=ReplaceOne(n=1))
    rows = []
    for count in steps.tolist():
        account = KernelAccountant(base=base, matrix=kernel_power(walk(), round(count)))
        constants, routes = account.constants, account.explain(DELTA)
        bounds = [route.epsilon for route in routes if any(word in route.name for word in _BOUNDS)]
        rows.append(
            (
                constants.dobrushin,
                constants.doeblin,
                constants.ultra_mixing,
                float(account.epsilon(DELTA)),
                min(bounds),
                _published_bound(base, account),
            )
        )
    names = ("dobrushin", "doeblin", "ultra_mixing", "exact", "bound", "published")
    columns = dict(zip(names, np.array(rows).T, strict=True))
    return Mixing(steps=steps, alone=float(base.epsilon(DELTA)), **columns)


def _published_bound(base: RandomizedResponseAccountant, account: KernelAccountant) -> float:
    """The better of Theorem 1, parts 1 and 4, as published."""
    constants = account.constants
    by_dobrushin = float(base.epsilon(min(DELTA / constants.dobrushin, 0.999)))
    by_ultra_mixing = float(np.log1p(constants.ultra_mixing * np.expm1(LOG_ODDS)))
    return min(by_dobrushin, by_ultra_mixing)


def _mixing(steps: FloatArray | None = None) -> Result:
    found = mixing(STEPS if steps is None else steps)
    columns = {
        "steps": found.steps.tolist(),
        "dobrushin": found.dobrushin.tolist(),
        "doeblin": found.doeblin.tolist(),
        "ultra_mixing": found.ultra_mixing.tolist(),
        "epsilon_exact": found.exact.tolist(),
        "epsilon_bound": found.bound.tolist(),
        "epsilon_published": found.published.tolist(),
        "epsilon_without_steps": [found.alone] * len(found.steps),
    }
    return Result(columns=columns, describe=_describe_mixing, plot=lambda figure: _plot_mixing(figure, found))


def _describe_mixing(columns: Columns) -> Statement:
    rows = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
    exact, bound, published = (rows[f"epsilon_{name}"] for name in ("exact", "bound", "published"))
    last, before = rows["steps"][-1], rows["steps"][-2]
    factors = [
        float((curve[-1] / curve[-2]) ** (1 / (last - before)))
        for curve in (rows["dobrushin"], exact, bound, published)
    ]
    second = float(np.sort(np.linalg.eigvalsh(walk()))[-2])
    alone = float(rows["epsilon_without_steps"][0])
    return Statement(
        f"Randomized response over {STATES} values with log odds {LOG_ODDS:g} costs ε = {alone:.3g} at δ = "
        f"{DELTA:g}. Followed by {last:g} steps of a lazy walk on a ring it costs {exact[-1]:.3g}, computed from its "
        "output distributions. From the contraction coefficients of the walk alone, the upper bound of privsample "
        "gives "
        f"{bound[-1]:.3g} and Theorem 1 as published {published[-1]:.3g}. From step {before:g} to {last:g} each step "
        f"multiplies the exact ε by {factors[1]:.3f}, the bound of privsample by {factors[2]:.3f}, Theorem 1's by "
        f"{factors[3]:.3f} "
        f"and Dobrushin's coefficient by {factors[0]:.3f}; the second eigenvalue of the walk is {second:.3f}.",
        (
            Finding("alone", alone),
            Finding("exact", float(exact[-1])),
            Finding("bound of privsample", float(bound[-1])),
            Finding("Theorem 1", float(published[-1])),
            *(Finding(f"factor {k}", factor) for k, factor in enumerate(factors)),
            compared("Theorem 1 / bound of privsample - 1", float(published[-1] / bound[-1]) - 1),
            compared("alone / exact - 1", float(alone / exact[-1]) - 1),
        ),
    )


def _plot_mixing(figure: Any, found: Mixing) -> None:
    left, right = figure.subplots(1, 2)
    left.semilogy(found.steps, found.ultra_mixing, color=GREEN, linestyle=":", label="ultra-mixing")
    left.semilogy(found.steps, found.doeblin, color=ORANGE, linestyle="--", label="Doeblin")
    left.semilogy(found.steps, found.dobrushin, color=BLUE, label="Dobrushin")
    left.set(
        xlabel="steps",
        ylabel="contraction coefficient",
        ylim=(3e-4, 1.5),
        title=f"lazy random walk on a ring of {STATES} values",
    )
    left.legend(loc="lower left")
    right.axhline(found.alone, color=GREY, linewidth=1.0, label="randomized response alone")
    right.semilogy(found.steps, found.published, color=ORANGE, linestyle="--", label="Theorem 1 as published")
    right.semilogy(
        found.steps, found.bound, "o", color=GREEN, markersize=4, label="bound of privsample from the coefficients"
    )
    right.semilogy(found.steps, found.exact, color=BLUE, label="exact")
    right.set(
        xlabel="steps",
        ylabel="ε at δ = 10⁻⁶ (nats)",
        ylim=(3e-4, 6),
        title=f"randomized response (log odds {LOG_ODDS:g}), then the walk",
    )
    right.legend(loc="lower left")


def iteration(convexity: float, after: FloatArray = AFTER) -> tuple[FloatArray, FloatArray]:
    """Bounds on rdp(a)/a of a record used `after` steps before the end, (steps,): the library's and Theorem 5's."""
    factor = max(abs(1 - RATE * convexity), abs(1 - RATE * SMOOTH))
    library = (2 * LIPSCHITZ * RATE / noise_of_equal_steps(RATE * NOISE_STD, factor, after)) ** 2 / 2
    squared = 1 - 2 * RATE * SMOOTH * convexity / (SMOOTH + convexity)
    first = 2 * LIPSCHITZ**2 / NOISE_STD**2
    published = first / np.maximum(after, 1) * squared ** ((after + 1) / 2)
    return library, np.where(after == 0, first, published)


def _iteration(after: FloatArray = AFTER) -> Result:
    curves = {convexity: iteration(convexity, after) for convexity in CONVEXITY}
    columns: dict[str, Any] = {"steps_after": after.tolist()}
    for convexity, (library, published) in curves.items():
        columns |= {f"library_{convexity:g}": library.tolist(), f"theorem_5_{convexity:g}": published.tolist()}
    return Result(
        columns=columns, describe=_describe_iteration, plot=lambda figure: _plot_iteration(figure, after, curves)
    )


def _describe_iteration(columns: Columns) -> Statement:
    rows = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
    steps = rows["steps_after"]
    last, before = float(steps[-1]), float(steps[-1]) - 10

    def value(name: str, step: float) -> float:
        return value_at(steps, rows[name], step)

    convex, strong = (f"{convexity:g}" for convexity in CONVEXITY)
    less = {
        (kind, step): value(f"theorem_5_{kind}", step) / value(f"library_{kind}", step)
        for kind in (convex, strong)
        for step in (1.0, last)
    }
    fall = [
        (value(f"{curve}_{strong}", last) / value(f"{curve}_{strong}", before)) ** 0.1
        for curve in ("library", "theorem_5")
    ]
    slow = value(f"library_{convex}", before) / value(f"library_{convex}", last)
    return Statement(
        "Bounds on the Rényi divergence for a record that is used some noisy gradient steps before the end. Theorem 5 "
        f"as published, divided by that of privsample: for a convex loss the ratio is {less[convex, 1.0]:.3g} after "
        "1 further "
        f"step and {less[convex, last]:.3g} after {last:g}; for a {strong}-strongly convex loss "
        f"{less[strong, 1.0]:.3g} and {less[strong, last]:.3g}. For strongly convex losses the paper proves an "
        f"exponential decrease: from step {before:g} to {last:g} each step multiplies the bound of privsample by "
        f"{fall[0]:.3f} and "
        f"Theorem 5's by {fall[1]:.3f}. For the convex loss these ten steps together divide the bound of privsample "
        f"by {slow:.2f}.",
        (
            *(Finding(f"ratio {kind}, {step:g}", ratio) for (kind, step), ratio in less.items()),
            *(compared(f"ratio {kind}, {step:g}, - 1", ratio - 1) for (kind, step), ratio in less.items()),
            Finding("factor of a step, library", fall[0]),
            Finding("factor of a step, Theorem 5", fall[1]),
            Finding("convex over ten steps", slow),
        ),
    )


def _plot_iteration(figure: Any, after: FloatArray, curves: dict[float, tuple[FloatArray, FloatArray]]) -> None:
    first = 2 * LIPSCHITZ**2 / NOISE_STD**2
    for axes, (convexity, (library, published)) in zip(figure.subplots(1, 2), curves.items(), strict=True):
        axes.axhline(first, color=GREY, linewidth=1.0, label="without further steps")
        # The dashes lie above the bound of privsample, so that both are seen where they nearly coincide.
        axes.semilogy(
            after, published, color=ORANGE, linestyle="--", linewidth=1.6, zorder=3, label="Theorem 5 as published"
        )
        axes.semilogy(after, library, color=BLUE, linewidth=2.4, label="bound of privsample")
        title = f"{convexity:g}-strongly convex loss" if convexity else "convex loss"
        later = after >= 1
        if np.allclose(first / library[later] - first / published[later], 1.0, rtol=1e-6):
            title += ": Theorem 5 lags by one step"
        axes.set(
            xlabel="noisy gradient steps after the record is used",
            ylabel="Rényi divergence / order (nats)",
            title=title,
        )
        axes.legend()


DECAY = Experiment(
    name="balle-diffusion-mixing",
    title="How a kernel's steps after randomized response gain privacy",
    seconds=1.5,
    run=_mixing,
    size=(8.8, 3.6),
    second=lambda: _mixing(np.array([1.0, 10.0, 48.0, 60.0])),
)
ITERATION = Experiment(
    name="balle-diffusion-iteration",
    title="Amplification by iteration: the bound of the library, Theorem 5, and no amplification",
    seconds=0.78,
    run=_iteration,
    size=(8.8, 3.6),
    second=lambda: _iteration(np.array([0.0, 1.0, 7.0, 50.0, 90.0, 100.0])),
)
