"""Tight examples of Papernot and Steinke (2022): fixed numbers of runs (Proposition 17) and Lemma 7 (Appendix D.3)."""

import itertools

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.fixed_repetitions import FixedRepetitions
from privsample.distributions.repetitions import RepetitionDistribution, TruncatedNegativeBinomial
from privsample.relations import ReplaceOne
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.selection_data import MEAN, RHO, Curve
from reproduction.selection_plots import plot_panels
from reproduction.tables import Table

_EPSILON, _ORDER = 0.3, 10.0
RUNS, SECOND_RUNS = np.array([1, 2, 5, 10, 15, 20, 30, 40]), np.array([1, 3, 10, 25, 40])
ORDERS, SECOND_ORDERS = np.array([5.0, 6.0, 8.0, 10.0, 14.0, 20.0, 25.0, 30.0]), np.array([5.0, 10.0, 18.0, 30.0])
_LOGARITHMIC = TruncatedNegativeBinomial.logarithmic(mean=MEAN)
_STARTS = tuple(itertools.product((-3.0, 0.0), (-2.0,), (0.0, 1.0), (-2.0, 2.0)))
_RANKS = 2001  # points of each segment of ranks
EXACT_RUNS, ALL_RUNS = "best of k runs, exact", "account of k runs (composition)"
LOWER, RANDOM = "lower bound of Proposition 17", "account for random K, E K = k"
UPPER, THREE_POINTS = "Lemma 7", "exact value, three points"


def _divergence(p: FloatArray, q: FloatArray, order: float) -> float:
    """The Rényi divergence of two distributions on finitely many points."""
    return float(np.logaddexp.reduce(order * np.log(p) + (1 - order) * np.log(q)) / (order - 1))


def best_run(chances: FloatArray, runs: RepetitionDistribution) -> FloatArray:
    """The distribution of the best run; the first output is the best."""
    better = np.minimum(np.cumsum(chances), 1.0)
    return np.diff(np.exp(runs.log_rank_probability(better)), prepend=0.0)


def randomized_response(number: int) -> float:
    """The exact divergence of the best of this many runs in the example of Proposition 17."""
    chances = np.array([1.0, np.exp(_EPSILON)]) / (1 + np.exp(_EPSILON))
    runs = FixedRepetitions(number=number)
    return _divergence(best_run(chances, runs), best_run(chances[::-1], runs), _ORDER)


def lemma_7(p: FloatArray, q: FloatArray, order: float) -> float:
    """The bound of Lemma 7 for the logarithmic distribution, with the largest term over the ranks of these outputs."""
    share = np.linspace(0.0, 1.0, _RANKS)
    u, v = ((1.0 - np.insert(np.cumsum(chances), 0, 0.0)).clip(0.0, 1.0) for chances in (p, q))
    w, other = (1.0 - np.concatenate([a + share * (b - a) for a, b in itertools.pairwise(ends)]) for ends in (u, v))
    terms = order * _LOGARITHMIC.log_pgf_derivative(w) + (1 - order) * _LOGARITHMIC.log_pgf_derivative(other)
    return _divergence(p, q, order) + float(terms.max()) / (order - 1)


def three_points(order: float) -> tuple[FloatArray, FloatArray]:
    """The distributions on three outputs whose best run costs most, with both divergences of a run at most RHO order.

    The paper gives the form of the example but no numbers; a local search finds them, from fixed starting points.
    """
    from scipy.optimize import minimize

    def distributions(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        logs = np.insert(x.reshape(2, 2), 2, 0.0, axis=1)
        p, q = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
        return p, q

    def gain(x: FloatArray) -> float:
        p, q = distributions(x)
        return -_divergence(best_run(p, _LOGARITHMIC), best_run(q, _LOGARITHMIC), order)

    def room(x: FloatArray) -> list[float]:
        p, q = distributions(x)
        return [RHO * order - _divergence(p, q, order), RHO * order - _divergence(q, p, order)]

    found = [
        minimize(
            gain,
            start,
            method="SLSQP",
            bounds=[(-16.0, 16.0)] * 4,
            constraints={"type": "ineq", "fun": room},
            options={"maxiter": 400, "ftol": 1e-13},
        ).x
        for start in map(np.array, _STARTS)
    ]
    return distributions(min((x for x in found if min(room(x)) > -1e-9), key=gain))


def _curves(runs: FloatArray, orders: FloatArray) -> tuple[list[Curve], list[Curve]]:
    run = RandomizedResponseAccountant(log_odds=_EPSILON, categories=2, relation=ReplaceOne(n=1))

    def account(distribution: RepetitionDistribution) -> float:
        return float(SelectionAccountant(base=run, repetitions=distribution).rdp(_ORDER))

    lower = runs * (_EPSILON - np.log1p(np.exp(-_EPSILON)) / (_ORDER - 1))
    fixed = [account(FixedRepetitions(number=int(k))) for k in runs]
    mean = np.maximum(runs, 1.001)
    random = [account(TruncatedNegativeBinomial.logarithmic(mean=float(k))) for k in mean]
    made = [three_points(float(order)) for order in orders]
    upper = [lemma_7(p, q, a) for (p, q), a in zip(made, orders.tolist(), strict=True)]
    exact = [
        _divergence(best_run(p, _LOGARITHMIC), best_run(q, _LOGARITHMIC), a)
        for (p, q), a in zip(made, orders.tolist(), strict=True)
    ]
    at_order, at_runs = {"order": np.full(len(runs), _ORDER)}, {"order": orders}
    return [
        Curve(label=ALL_RUNS, bound="naive", x=runs, y=np.array(fixed), more=at_order),
        Curve(
            label=EXACT_RUNS,
            bound="floor",
            x=runs,
            y=np.array([randomized_response(int(k)) for k in runs]),
            more=at_order,
        ),
        Curve(label=LOWER, bound="published", x=runs, y=lower, more=at_order),
        Curve(label=RANDOM, bound="library", x=mean, y=np.array(random), more=at_order),
    ], [
        Curve(label=UPPER, bound="published", x=orders, y=np.array(upper), more=at_runs),
        Curve(label=THREE_POINTS, bound="floor", x=orders, y=np.array(exact), more=at_runs),
        Curve(label="one run", bound="base", x=orders, y=RHO * orders, more=at_runs),
    ]


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    y = "renyi_divergence"
    fixed, exact, lower, random = (
        table.select(curve=name).at("runs", 10.0, y) for name in (ALL_RUNS, EXACT_RUNS, LOWER, RANDOM)
    )
    upper, three = (table.select(curve=name).at("order", _ORDER, y) for name in (UPPER, THREE_POINTS))
    sentence = (
        f"Left: the best of a fixed number of runs of randomized response with ε = {_EPSILON}. At order {_ORDER:g} the "
        f"best of 10 runs costs {exact:.4f} nats (Proposition 17: at least {lower:.4f}) and all 10 runs "
        f"together {fixed:.4f}. A random number K with E K = 10 costs at most {random:.4f}. Right, Appendix D.3: three "
        f"outputs for which Lemma 7 is nearly attained, for each order with divergences 0.1 α of a run and K "
        f"logarithmic with E K = {MEAN}. At order {_ORDER:g} the best run costs {three:.4f} nats, and Lemma 7 gives "
        f"{upper:.4f} (the paper: tight up to low order terms)."
    )
    return Statement(
        sentence,
        (
            *(Finding(name, value) for name, value in (("fixed", fixed), ("exact", exact), ("random", random))),
            *(Finding(name, value) for name, value in (("Lemma 7", upper), ("three points", three))),
            compared("all runs - exact", fixed - exact),
            compared("exact - lower bound", exact - lower),
            compared("exact - random", exact - random),
            compared("Lemma 7 - three points", upper - three),
        ),
    )


def _run(runs: FloatArray | None = None, orders: FloatArray | None = None) -> Result:
    panels = _curves(RUNS if runs is None else runs, ORDERS if orders is None else orders)
    columns = []
    for panel, name in zip(panels, ("runs", "order"), strict=True):
        for curve in panel:
            given = {"runs": np.full(len(curve.x), float(MEAN)), **dict(curve.more or {}), name: curve.x}
            columns.append({"curve": curve.label, "bound": curve.bound, **given, "renyi_divergence": curve.y})
    return Result(
        columns=stacked(columns), describe=_describe, plot=lambda figure: plot_panels(figure, panels, _PANELS)
    )


_PANELS = (
    {
        "title": f"Best of k runs of randomized response,\nε = {_EPSILON}, order {_ORDER:g}",
        "xlabel": "number of runs k",
        "ylabel": "Rényi divergence (nats)",
        "xlim": (1, 40),
        "ylim": (0, 14),
    },
    {
        "title": f"Three outputs for each order,\nK logarithmic, E K = {MEAN}",
        "xlabel": "order α",
        "ylabel": "Rényi divergence ε(α) (nats)",
        "xlim": (5, 30),
        "ylim": (0, 7),
    },
)

EXPERIMENT = Experiment(
    name="papernot-tight",
    title="Papernot and Steinke, Proposition 17 and Appendix D.3: a fixed number of runs, and Lemma 7 nearly attained",
    seconds=6.6,
    run=_run,
    size=(8.8, 3.8),
    second=lambda: _run(SECOND_RUNS, SECOND_ORDERS),
)
