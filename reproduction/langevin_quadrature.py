"""Langevin accounts against the exact distribution of the last state of one coefficient, by quadrature."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy import interpolate

from privsample._checks import FloatArray
from privsample.distributions.likelihoods.base import RegressionLikelihood
from privsample.distributions.likelihoods.logistic import LogisticLikelihood
from privsample.distributions.likelihoods.normal import HuberLikelihood, NormalLikelihood
from privsample.distributions.likelihoods.ordinal import OrdinalLikelihood
from privsample.distributions.likelihoods.poisson import PoissonLikelihood
from privsample.distributions.likelihoods.probit import ProbitLikelihood
from privsample.mechanisms.posterior.langevin import LangevinPosterior
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.relations import AddRemove, ReplaceOne
from privsample.simulations.report.findings import Columns, Finding, Statement
from privsample.simulations.report.results import Result
from reproduction.base import Experiment
from reproduction.tables import Table

STEPS = (1, 2, 5, 30)
FRACTIONS = (0.1, 0.5, 0.95)  # of the largest step size 2/M
SIZES, NORMS, FURTHER_SIZES = (1, 3, 10), (0.7, 2.0), (3,)  # numbers of records, for other likelihoods the last
SECOND = (2, 5, 8), (0.8, 1.8), (4,)
SHIFTS = (0.0, 0.25, 0.5, 1.0, 2.0)  # epsilon in units of mu
LIKELIHOODS: dict[str, RegressionLikelihood] = {
    "logistic": LogisticLikelihood(),
    "logistic, clipped": LogisticLikelihood(clip=0.3),
    "probit": ProbitLikelihood(clip=1.0),
    "ordinal": OrdinalLikelihood(cutpoints=(-1.0, 1.0)),
    "Huber": HuberLikelihood(threshold=1.0),
    "normal": NormalLikelihood(noise_std=1.0, clip=1.0),
    "Poisson": PoissonLikelihood(max_count=3.0, clip=2.0),
}
_PER_DEVIATION = 6  # grid points in one standard deviation of the noise of a step
_FINE = 12_001
_ROUNDING = 3e-6  # of the quadrature, relative to delta
Records = tuple[FloatArray, FloatArray]


def mechanisms(names: tuple[str, ...], sizes: tuple[int, ...], norms: tuple[float, ...]) -> Iterator[LangevinPosterior]:
    """Mechanisms with one coefficient: all combinations of likelihoods, relations, numbers of records and row norms."""
    for name, size, norm, weight, hidden in product(names, sizes, norms, (0.3, 1.0), (False, True)):
        relation: AddRemove | ReplaceOne = AddRemove() if hidden else ReplaceOne(size)
        yield LangevinPosterior(
            likelihood=LIKELIHOODS[name],
            features=1,
            norm=norm,
            relation=relation,
            max_records=size if hidden else None,
            data_weight=weight,
            steps=1,
        )


def neighbours(mechanism: LangevinPosterior) -> Iterator[tuple[Records, Records]]:
    """The longest row with either extreme target, or with it and without it; the other rows push the state either way.

    A state far from 0 makes the gradient of the differing record largest.
    """
    size, ends = mechanism._most_records, mechanism.likelihood.extreme_targets
    for target, other in (ends, ends[::-1]):
        rows, targets = np.full((size, 1), mechanism.norm), np.full(size, other)
        changed = np.append(targets[:-1], target)
        hidden = isinstance(mechanism.relation, AddRemove)
        yield (rows, changed), ((rows[:-1], changed[:-1]) if hidden else (rows, targets))


def log_densities(
    mechanism: LangevinPosterior, records: Records, step_size: float, grid: FloatArray, steps: tuple[int, ...]
) -> dict[int, FloatArray]:
    """Log densities of the last state on an evenly spaced grid, after each of these numbers of steps.

    The trapezoidal rule integrates the normal density of a step with an error below 1e-50 on grids with six points in
    a standard deviation.
    """
    gradient = mechanism._statistic(records).gradient
    deviation, cell = np.sqrt(2.0 * step_size), grid[1] - grid[0]
    points = np.append(0.0, grid)
    means = points - step_size * gradient(points[:, None, None])[:, 0, 0]
    table = np.exp(-0.5 * ((grid - means[:, None]) / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))
    density, found = table[0], {}
    for step in range(1, max(steps) + 1):
        if step > 1:
            density = cell * (density @ table[1:])
        if step in steps:
            with np.errstate(divide="ignore"):
                found[step] = np.log(density)
    return found


def states(mechanism: LangevinPosterior, pair: tuple[Records, Records], step_size: float) -> FloatArray:
    """A grid that holds the states of both chains, up to a probability of 1e-16."""
    modes, top = [], mechanism.bias.smoothness
    for records in pair:
        gradient, state = mechanism._statistic(records).gradient, np.zeros((1, 1, 1))
        for _ in range(500):
            state = state - gradient(state) / top
        modes.append(float(state[0, 0, 0]))
    spread = 9.5 * max(1.0, float((top * (1.0 - step_size * top / 2.0)) ** -0.5))
    reach = max(map(abs, modes)) + spread
    deviation = np.sqrt(2.0 * step_size)
    return np.linspace(-reach, reach, int(2 * reach / deviation * _PER_DEVIATION) + 2)


def curve(grid: FloatArray, first: FloatArray, second: FloatArray, epsilons: FloatArray) -> FloatArray:
    """The hockey-stick divergences in the worse direction, from log densities on a grid."""
    kept = np.flatnonzero((first > -80.0) & (second > -80.0))
    grid, first, second = (array[kept[0] : kept[-1] + 1] for array in (grid, first, second))
    fine = np.linspace(grid[0], grid[-1], _FINE)
    p, q = (interpolate.CubicSpline(grid, logs)(fine) for logs in (first, second))
    sides = [np.exp(x) * -np.expm1(np.minimum(epsilons[:, None] + y - x, 0.0)) for x, y in ((p, q), (q, p))]
    return np.asarray((fine[1] - fine[0]) * np.maximum(*(side.sum(axis=1) for side in sides)))


def ratios(
    mechanism: LangevinPosterior, fractions: tuple[float, ...], steps: tuple[int, ...]
) -> Iterator[dict[str, float]]:
    """The largest ratio of the true delta to that of the account, for each step size and number of steps."""
    for fraction in fractions:
        step_size = fraction * 2.0 / mechanism.bias.smoothness
        curves: dict[int, list[FloatArray]] = {count: [] for count in steps}
        accounts = {count: replace(mechanism, steps=count, step_size=step_size).accountant for count in steps}
        for pair in neighbours(mechanism):
            grid = states(mechanism, pair, step_size)
            one, other = (log_densities(mechanism, records, step_size, grid, steps) for records in pair)
            for count in steps:
                epsilons = accounts[count].shift * np.array(SHIFTS)
                curves[count].append(curve(grid, one[count], other[count], epsilons))
        for count in steps:
            stated = np.array([float(accounts[count].delta(e)) for e in accounts[count].shift * np.array(SHIFTS)])
            yield {
                "step_size": step_size,
                "steps": count,
                "mu": accounts[count].shift,
                "ratio": float((np.array(curves[count]) / stated).max()),
            }


def _run() -> Result:
    return _measured(SIZES, NORMS, FURTHER_SIZES)


def _measured(sizes: tuple[int, ...], norms: tuple[float, ...], further: tuple[int, ...]) -> Result:
    columns: dict[str, list[Any]] = {
        name: [] for name in ("likelihood", "relation", "records", "norm", "step_size", "steps", "mu", "ratio")
    }
    logistic = tuple(name for name in LIKELIHOODS if name.startswith("logistic"))
    others = tuple(name for name in LIKELIHOODS if name not in logistic)
    listed = [*mechanisms(logistic, sizes, norms), *mechanisms(others, further, norms)]
    for mechanism in listed:
        name = next(name for name, one in LIKELIHOODS.items() if one == mechanism.likelihood)
        for row in ratios(mechanism, FRACTIONS, STEPS):
            hidden = isinstance(mechanism.relation, AddRemove)
            row |= {"records": mechanism._most_records, "norm": mechanism.norm}
            for key, item in (
                row | {"likelihood": name, "relation": "add/remove" if hidden else "replace-one"}
            ).items():
                columns[key].append(item)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    own = table["ratio"][np.char.startswith(table["likelihood"].astype(str), "logistic")]
    largest = float(table["ratio"].max())
    never = "never" if largest <= 1.0 + _ROUNDING else "not always"
    return Statement(
        f"The true δ of the last state of Langevin chains with one coefficient, by quadrature, relative to that of "
        f"the account, in {len(table):,} settings of likelihood, relation, number of records, weight, step size and "
        f"number of steps. It is {never} above the account's. The largest ratio is {largest:.4f}, and "
        f"{float(own.max()):.4f} in the {len(own)} settings of logistic regressions.",
        (Finding("largest ratio", largest),),
    )


def _plot(figure: Any, columns: Columns) -> None:
    axes, table = figure.subplots(), Table(columns=columns)
    for likelihood, colour in (("logistic", BLUE), ("others", ORANGE)):
        kept = np.char.startswith(table["likelihood"].astype(str), "logistic") == (likelihood == "logistic")
        axes.plot(table["mu"][kept], table["ratio"][kept], ".", color=colour, markersize=3, label=likelihood)
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.set(xscale="log", xlabel="μ of the account", ylabel="largest ratio of the true δ to the account's")
    axes.legend()


QUADRATURE = Experiment(
    name="langevin-quadrature",
    title="Langevin accounts against the exact distribution of the last state",
    seconds=37,
    run=_run,
    second=lambda: _measured(*SECOND),
)
