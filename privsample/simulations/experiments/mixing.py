"""What random steps after a release gain: a kernel's steps, and the noisy steps of a training run.

Source: Balle, Barthe, Gaboardi and Geumlek 2019, Theorems 1 and 5; ours: docs/notes/kernels.md, contraction.md.
"""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.accounting.postprocessing.contraction import noise_of_equal_steps
from privsample.accounting.postprocessing.kernels import KernelAccountant
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.distributions.steps.kernels import iterated
from privsample.relations import ReplaceOne
from privsample.simulations.experiments.base import Experiment, Result
from privsample.simulations.report.figures import BLUE, GREEN, GREY, ORANGE

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


@value
class Mixing:
    """By number of steps: constants of the kernel, and epsilon at DELTA behind it."""

    steps: FloatArray
    dobrushin: FloatArray
    doeblin: FloatArray
    ultra_mixing: FloatArray
    exact: FloatArray
    bound: FloatArray
    printed: FloatArray
    alone: float


def mixing(steps: FloatArray) -> Mixing:
    """Randomized response on a ring, and a walk after it."""
    base = RandomizedResponseAccountant(log_odds=LOG_ODDS, categories=STATES, relation=ReplaceOne(n=1))
    rows = []
    for count in steps.tolist():
        account = KernelAccountant(base=base, matrix=iterated(walk(), round(count)))
        constants, routes = account.constants, account.explain(DELTA)
        bounds = [route.epsilon for route in routes if any(word in route.name for word in _BOUNDS)]
        rows.append(
            (
                constants.dobrushin,
                constants.doeblin,
                constants.ultra_mixing,
                float(account.epsilon(DELTA)),
                min(bounds),
                _printed(base, account),
            )
        )
    names = ("dobrushin", "doeblin", "ultra_mixing", "exact", "bound", "printed")
    columns = dict(zip(names, np.array(rows).T, strict=True))
    return Mixing(steps=steps, alone=float(base.epsilon(DELTA)), **columns)


def _printed(base: RandomizedResponseAccountant, account: KernelAccountant) -> float:
    """The better of Theorem 1, parts 1 and 4, as printed."""
    constants = account.constants
    by_dobrushin = float(base.epsilon(min(DELTA / constants.dobrushin, 0.999)))
    by_ultra_mixing = float(np.log1p(constants.ultra_mixing * np.expm1(LOG_ODDS)))
    return min(by_dobrushin, by_ultra_mixing)


def _mixing() -> Result:
    found = mixing(STEPS)
    last = int(found.steps[-1])
    gap = found.steps[-1] - found.steps[-2]
    factors = [(curve[-1] / curve[-2]) ** (1 / gap) for curve in (found.dobrushin, found.exact, found.printed)]
    second = float(np.sort(np.linalg.eigvalsh(walk()))[-2])
    return Result(
        columns={
            "steps": found.steps.tolist(),
            "dobrushin": found.dobrushin.tolist(),
            "doeblin": found.doeblin.tolist(),
            "ultra_mixing": found.ultra_mixing.tolist(),
            "epsilon_exact": found.exact.tolist(),
            "epsilon_bound": found.bound.tolist(),
            "epsilon_printed": found.printed.tolist(),
        },
        sentence=f"Behind {last} steps of a lazy walk on a ring of {STATES}, randomized response of log odds "
        f"{LOG_ODDS:g} costs ε = {found.exact[-1]:.3g} at δ = {DELTA:g} in place of {found.alone:.3g}; without its "
        f"output laws our bounds give {found.bound[-1]:.3g} and Theorem 1 as printed {found.printed[-1]:.3g}. "
        f"By then a step multiplies Dobrushin's constant, the exact ε and the printed one by {factors[0]:.3f}, "
        f"{factors[1]:.3f} and {factors[2]:.3f}; {second:.3f} is the walk's second eigenvalue, at which it mixes.",
        plot=lambda figure: _plot_mixing(figure, found),
    )


def _plot_mixing(figure: Any, found: Mixing) -> None:
    left, right = figure.subplots(1, 2)
    left.semilogy(found.steps, found.ultra_mixing, color=GREEN, linestyle=":", label="ultra-mixing")
    left.semilogy(found.steps, found.doeblin, color=ORANGE, linestyle="--", label="Doeblin")
    left.semilogy(found.steps, found.dobrushin, color=BLUE, label="Dobrushin")
    left.set(xlabel="steps", ylabel="constant", ylim=(3e-4, 1.5), title=f"Lazy walk on a ring of {STATES}")
    left.legend(loc="lower left")
    right.axhline(found.alone, color=GREY, linewidth=1.0, label="no step")
    right.semilogy(found.steps, found.printed, color=ORANGE, linestyle="--", label="Theorem 1 as printed")
    right.semilogy(found.steps, found.bound, "o", color=GREEN, markersize=4, label="our bounds")
    right.semilogy(found.steps, found.exact, color=BLUE, label="exact, from the output laws")
    right.set(xlabel="steps", ylabel="ε at δ = 10⁻⁶", ylim=(3e-4, 6), title="Randomized response behind it")
    right.legend(loc="lower left")


def iteration(convexity: float, after: FloatArray = AFTER) -> tuple[FloatArray, FloatArray]:
    """rdp(a)/a of a record that was used `after` steps before the end: ours, and Theorem 5's; (steps,) each."""
    factor = max(abs(1 - RATE * convexity), abs(1 - RATE * SMOOTH))
    ours = (2 * LIPSCHITZ * RATE / noise_of_equal_steps(RATE * NOISE_STD, factor, after)) ** 2 / 2
    squared = 1 - 2 * RATE * SMOOTH * convexity / (SMOOTH + convexity)
    first = 2 * LIPSCHITZ**2 / NOISE_STD**2
    printed = first / np.maximum(after, 1) * squared ** ((after + 1) / 2)
    return ours, np.where(after == 0, first, printed)


def _iteration() -> Result:
    curves = {convexity: iteration(convexity) for convexity in CONVEXITY}
    columns: dict[str, Any] = {"steps_after": AFTER.tolist()}
    for convexity, (ours, printed) in curves.items():
        columns |= {f"ours_{convexity:g}": ours.tolist(), f"theorem_5_{convexity:g}": printed.tolist()}
    convex, strong = ((printed / ours)[1:] for ours, printed in curves.values())
    fall = [(curve[-1] / curve[-11]) ** 0.1 for curve in curves[CONVEXITY[1]]]
    slow = curves[CONVEXITY[0]][0][-11] / curves[CONVEXITY[0]][0][-1]
    return Result(
        columns=columns,
        sentence=f"After 1 and after {AFTER[-1]:g} later noisy steps a record costs {convex[0]:.3g} and "
        f"{convex[-1]:.3g} times less than Theorem 5 says for a convex loss, {strong[0]:.3g} and {strong[-1]:.3g} "
        f"times less for a {CONVEXITY[1]:g}-strongly convex one. For that one the paper promises an exponential "
        f"improvement: each of the last ten steps multiplies our bound by {fall[0]:.3f} and Theorem 5's by "
        f"{fall[1]:.3f}; for a convex loss the last ten together divide ours by {slow:.2f}.",
        plot=lambda figure: _plot_iteration(figure, curves),
    )


def _plot_iteration(figure: Any, curves: dict[float, tuple[FloatArray, FloatArray]]) -> None:
    first = 2 * LIPSCHITZ**2 / NOISE_STD**2
    for axes, (convexity, (ours, printed)) in zip(figure.subplots(1, 2), curves.items(), strict=True):
        axes.axhline(first, color=GREY, linewidth=1.0, label="without amplification")
        axes.semilogy(AFTER, printed, color=ORANGE, linestyle="--", label="Theorem 5 as printed")
        axes.semilogy(AFTER, ours, color=BLUE, label="ours, best path")
        title = f"{convexity:g}-strongly convex loss" if convexity else "convex loss"
        axes.set(xlabel="noisy steps after the record's own", ylabel="Rényi divergence / order, nats", title=title)
        axes.legend()


DECAY = Experiment(
    name="d-mixing", title="How a kernel's steps after randomized response gain privacy", run=_mixing, size=(8.8, 3.6)
)
ITERATION = Experiment(
    name="d-iteration",
    title="Amplification by iteration: ours beside Theorem 5 and beside none",
    run=_iteration,
    size=(8.8, 3.6),
)
