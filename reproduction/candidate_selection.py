"""Loss of utility of private selections at equal cost: exponential mechanism, permute-and-flip, best of random runs.

The candidates are bins of the body mass index of 442 patients, and the utility of a bin is its count. The best of K
runs is that of Papernot and Steinke 2022, Appendix D.4: a run draws a candidate uniformly and adds Laplace noise to its
utility. All expected losses are computed, not simulated.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import optimize

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import LaplaceAccountant
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.repetitions import TruncatedNegativeBinomial
from privsample.mechanisms.selection.exponential import ExponentialMechanism, PermuteAndFlip
from privsample.mechanisms.selection.utilities import CountUtility
from privsample.plots.style import BLUE, GREEN, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

BINS = np.arange(17.0, 44.0, 1.5)
SELECTIONS, DELTA = 20, 1e-6
RUNS = 500.0  # mean number of runs of the best of K runs
NOISE = (0.02, 0.035, 0.065, 0.1, 0.17, 0.27, 0.4, 0.6)  # 1/scale of the Laplace noise, each one value of epsilon
SECOND_NOISE = (0.025, 0.05, 0.17, 0.35, 0.55)
TOTALS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)  # epsilon of all selections together
SECOND_TOTALS = (0.7, 2.5, 5.0, 10.0)
_COMPARED_NOISE, _COMPARED_TOTAL = 0.17, 5.0  # where the sentence compares; they lie on both grids
EXPONENTIAL, FLIP, BEST = "exponential mechanism", "permute-and-flip", "best of K noisy runs"
_COLOURS = {EXPONENTIAL: BLUE, FLIP: ORANGE, BEST: GREEN}
_ONE, _MANY = "one selection", "composed"
_CLASSES: dict[str, Any] = {EXPONENTIAL: ExponentialMechanism, FLIP: PermuteAndFlip}


def counts() -> FloatArray:
    """The number of patients in each bin."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(scaled=False)
    index = table.data[:, table.feature_names.index("bmi")]
    return np.histogram(index, BINS)[0].astype(np.float64)


def mechanism(name: str, rate: float) -> Any:
    """The selection of a bin at this rate, whose pure epsilon is the rate: a record changes one count by one."""
    return _CLASSES[name](candidates=BINS[:-1], rate=rate, utility=CountUtility())


def loss(name: str, rate: float, utilities: FloatArray) -> float:
    """The largest utility minus the expected utility of the selected bin."""
    return float(mechanism(name, rate).probabilities(utilities) @ (utilities.max() - utilities))


def loss_of_best(inverse_scale: float, utilities: FloatArray) -> float:
    """The same for the best of K runs, by quadrature over the noisy utility of the best run."""
    middle, ends = np.unique(utilities), 45.0 / inverse_scale
    edges = np.concatenate([[middle[0] - ends], middle, [middle[-1] + ends]])
    parts = [np.linspace(low, high, 2001) for low, high in pairwise(edges)]
    total, weight = 0.0, 0.0
    for y in parts:
        away = inverse_scale * (y[:, None] - utilities)
        tail = np.where(away > 0, np.exp(-np.abs(away)) / 2, 1.0 - np.exp(-np.abs(away)) / 2)
        density = inverse_scale * np.exp(-np.abs(away)) / 2
        rank = np.exp(_repetitions().log_pgf_derivative(np.minimum(tail.mean(axis=1), 1.0)))
        weight += float(np.trapezoid(rank * density.mean(axis=1), y))
        total += float(np.trapezoid(rank * (density @ (utilities.max() - utilities)) / len(utilities), y))
    return total / weight


def account_of_best(inverse_scale: float) -> Accountant:
    """The account of the best of K runs."""
    run = LaplaceAccountant(sensitivity=1.0, scale=1.0 / inverse_scale)
    return SelectionAccountant(base=run, repetitions=_repetitions())


def _repetitions() -> TruncatedNegativeBinomial:
    return TruncatedNegativeBinomial.geometric(mean=RUNS)


def rate_for(name: str, total: float) -> float:
    """The rate at which all selections together cost `total` at DELTA."""

    def excess(log_rate: float) -> float:
        account = SELECTIONS * mechanism(name, float(np.exp(log_rate))).accountant
        return float(account.epsilon(DELTA)) - total

    return float(np.exp(optimize.brentq(excess, np.log(1e-3), np.log(total), xtol=1e-7)))


def run(noise: tuple[float, ...] | None = None, totals: tuple[float, ...] | None = None) -> Result:
    """All losses on a grid of noise and on a grid of total costs."""
    utilities, parts = counts(), []
    for inverse_scale in NOISE if noise is None else noise:
        epsilon = account_of_best(inverse_scale).pure_epsilon
        losses = {name: loss(name, epsilon, utilities) for name in _CLASSES}
        losses[BEST] = loss_of_best(inverse_scale, utilities)
        parts += [_row(_ONE, name, inverse_scale, epsilon, found) for name, found in losses.items()]
    for total in TOTALS if totals is None else totals:
        for name in _CLASSES:
            found = loss(name, rate_for(name, total), utilities)
            parts.append(_row(_MANY, name, np.nan, total, found))
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, stacked(parts)))


def _row(panel: str, name: str, inverse_scale: float, epsilon: float, found: float) -> dict[str, Any]:
    return {"panel": panel, "mechanism": name, "inverse_scale": inverse_scale, "epsilon": epsilon, "loss": found}


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    one = {name: table.select(panel=_ONE, mechanism=name) for name in _COLOURS}
    many = {name: table.select(panel=_MANY, mechanism=name) for name in _CLASSES}
    epsilon = one[BEST].at("inverse_scale", _COMPARED_NOISE, "epsilon")
    alone = {name: one[name].at("inverse_scale", _COMPARED_NOISE, "loss") for name in _COLOURS}
    together = {name: many[name].at("epsilon", _COMPARED_TOTAL, "loss") for name in _CLASSES}
    better = float((one[EXPONENTIAL]["loss"] - one[FLIP]["loss"]).min())
    worse = float((many[FLIP]["loss"] - many[EXPONENTIAL]["loss"]).min())
    best = float((one[BEST]["loss"] - one[EXPONENTIAL]["loss"]).min())
    found = (
        compared("exponential - flip, least", better),
        compared("best - exponential, least", best),
        compared("composed flip - exponential, least", worse),
    )
    order = ", in this order at every ε shown"
    alone_order = order if found[0].compared and found[1].compared else ""
    composed_order = ", whose bounded range composes better" if found[2].compared else ""
    sentence = (
        f"One selection of the fullest bin, at pure ε = {epsilon:.2f}: the count of the selected bin lies below the "
        f"largest by {alone[FLIP]:.2f} records on average for permute-and-flip, by {alone[EXPONENTIAL]:.2f} for the "
        f"exponential mechanism, and by {alone[BEST]:.2f} for the best of K runs with K geometric and E K = {RUNS:g}"
        f"{alone_order}. {SELECTIONS} selections that cost ε = {_COMPARED_TOTAL:g} at δ = {DELTA:g} "
        f"together: {together[EXPONENTIAL]:.2f} records for the exponential mechanism{composed_order}, and "
        f"{together[FLIP]:.2f} for permute-and-flip{order if composed_order else ''}."
    )
    return Statement(
        sentence,
        (
            Finding("pure epsilon", epsilon),
            *(Finding(f"one, {name}", found) for name, found in alone.items()),
            *(Finding(f"composed, {name}", found) for name, found in together.items()),
            *found,
        ),
    )


def _plot(figure: Any, columns: Columns) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    table = Table(columns=columns)
    for axes, panel, label in (
        (left, _ONE, "pure ε of one selection (nats)"),
        (right, _MANY, f"ε of {SELECTIONS} selections at δ = 10⁻⁶ (nats)"),
    ):
        for (name,), part in table.select(panel=panel).groups("mechanism"):
            axes.plot(part["epsilon"], part["loss"], "o-", markersize=3.5, color=_COLOURS[name], label=name)
        axes.set(xscale="log", yscale="log", xlabel=label)
    left.set_title("One selection, pure ε")
    right.set_title(f"{SELECTIONS} selections")
    left.set_ylabel("expected loss of utility, records")
    left.legend()


EXPERIMENT = Experiment(
    name="candidate-selection",
    title="Private selections of the fullest bin: loss of utility at equal cost",
    seconds=7.5,
    run=run,
    size=(8.0, 3.8),
    second=lambda: run(SECOND_NOISE, SECOND_TOTALS),
)
