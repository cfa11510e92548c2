"""Figures 2, 3, 4 and 8 of Papernot and Steinke (2022): privacy cost of the best of K runs, for a random number K."""

from dataclasses import replace
from typing import Any

from privsample._checks import FloatArray
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result
from reproduction import selection_data as data
from reproduction.base import Experiment
from reproduction.selection_data import MEAN
from reproduction.selection_plots import SIZE, plot_panels, result
from reproduction.tables import Table

_RENYI: dict[str, Any] = {"xlabel": "order α", "ylabel": "Rényi divergence ε(α) (nats)", "ylim": (0, 7)}
_ORDERS: dict[str, Any] = _RENYI | {"xlim": (1, 20), "xticks": (1, 5, 10, 15, 20)}
_COLUMNS = ("order", "renyi_divergence")
_LOGARITHMIC = "logarithmic (η = 0)"


_BOUNDS = ("library", "published")
_COMPARED = 10.0  # the order at which sentences compare


def _values(columns: Columns) -> dict[tuple[str, str], float]:
    """The Rényi divergence at the order _COMPARED, by curve label and by the origin of the bound."""
    x, y = _COLUMNS
    return {key: curve.at(x, _COMPARED, y) for key, curve in Table(columns=columns).groups("curve", "bound")}


def _describe_figure_2(columns: Columns) -> Statement:
    at = _values(columns)
    library, published, naive = at["E K = 10", "library"], at["E K = 10", "published"], at["10 runs composed", "naive"]
    sentence = (
        f"Releasing the best of K runs, with E K = 10, costs {library:.2f} nats at order {_COMPARED:g} by the "
        "account of privsample "
        f"for runs with Gaussian noise, and {published:.2f} nats by the paper's Corollary 4 for any 0.1-zCDP run. The "
        f"composition of 10 runs costs {naive:.2f} nats, {naive / published:.1f} times the paper's bound (the paper: a "
        "clear improvement)."
    )
    return Statement(sentence, _cost_findings(library, published, naive))


def _cost_findings(library: float, published: float, composed: float) -> tuple[Finding, ...]:
    return (
        Finding("library", library),
        Finding("published", published),
        Finding("composed", composed),
        compared("composed - published", composed - published),
        compared("published - library", published - library),
    )


def _figure_2(orders: FloatArray | None = None) -> Result:
    return result(
        data.figure_2(data.ORDERS if orders is None else orders),
        _describe_figure_2,
        title="Best of K runs, K logarithmic with mean E K",
        names=_COLUMNS,
        **_ORDERS,
    )


def _describe_figure_3(columns: Columns) -> Statement:
    at = _values(columns)
    costs = join_names(
        [f"{at[label, 'library']:.2f} ({at[label, 'published']:.2f}) for {label}" for label in data.FAMILIES]
    )
    composed = at["10 runs composed", "naive"]
    better = sum(at[label, "published"] < composed for label in data.FAMILIES)
    sentence = (
        f"Cost of releasing the best of K runs, with E K = 10, in nats at order {_COMPARED:g}, by the account of "
        "privsample for runs "
        f"with Gaussian noise (in brackets: by the paper's bounds for any 0.1-zCDP run): {costs}. The composition of "
        f"10 runs costs {composed:.2f}, more than the paper's bound for {better} of the {len(data.FAMILIES)} "
        "distributions of K."
    )
    return Statement(
        sentence,
        (
            Finding("composed", composed),
            *(Finding(f"{bound}, {label}", at[label, bound]) for label in data.FAMILIES for bound in _BOUNDS),
            *(compared(f"composed - published, {label}", composed - at[label, "published"]) for label in data.FAMILIES),
        ),
    )


def _figure_3(orders: FloatArray | None = None) -> Result:
    return result(
        data.figure_3(data.ORDERS if orders is None else orders),
        _describe_figure_3,
        title="Best of K runs, E K = 10,\nby the distribution of K",
        names=_COLUMNS,
        **_ORDERS,
    )


def _describe_figure_4(columns: Columns) -> Statement:
    cost = {
        key: curve.at("expected_runs", float(MEAN), "epsilon")
        for key, curve in Table(columns=columns).groups("curve", "bound")
    }
    library, published = (cost[_LOGARITHMIC, bound] for bound in _BOUNDS)
    composed = cost["all runs composed", "naive"]
    sentence = (
        f"At δ = {data.DELTA:g}, releasing the best of K runs, with K logarithmic and E K = {MEAN}, costs ε = "
        f"{library:.2f} by the account of privsample for runs with Gaussian noise and ε = {published:.2f} by the "
        "paper's bound for "
        f"any 0.1-zCDP run. The composition of {MEAN} such runs costs ε = {composed:.2f} by the same conversion, "
        f"{composed / published:.2f} times the paper's bound (the paper: a clear improvement)."
    )
    return Statement(sentence, _cost_findings(library, published, composed))


def _figure_4(means: FloatArray | None = None) -> Result:
    return result(
        data.figure_4(data.costs(data.MEANS if means is None else means)),
        _describe_figure_4,
        title="Cost of releasing the best run",
        names=("epsilon", "expected_runs"),
        xlabel="ε at δ = 10⁻⁶ (nats)",
        ylabel="expected number of runs",
        yscale="log",
        xlim=(1.5, 8),
        ylim=(1, 1000),
        yticks=(1, 10, 100, 1000),
        yticklabels=("1", "10", "100", "1000"),
    )


def _describe_figure_8(columns: Columns) -> Statement:
    table = Table(columns=columns)
    x, y = _COLUMNS
    upper, exact = (table.select(curve=name) for name in (data.ANY_PAIR, data.THREE_POINTS))
    ratio = upper[y] / exact[y]
    low, high = upper[x][[0, -1]]
    published, library = (
        table.select(curve=name).at(x, _COMPARED, y) for name in (data.FIXED_FLOOR, data.GAUSSIAN_ACCOUNT)
    )
    sentence = (
        f"Left, as in the paper: for each order its own pair of distributions on three points. The upper bound of "
        f"Corollary 16 is {ratio[0]:.2f} times the exact divergence at order {low:g} and {ratio[-1]:.2f} times at "
        f"order {high:g} (the paper: tight up to small factors). Right, one mechanism for all orders: Gaussian "
        f"noise, conditional on a set of outputs of probability at least {data.ACCEPTED:g} (rejection sampling). At "
        f"order {_COMPARED:g} this costs {library:.2f} nats by the account of privsample and {published:.2f} nats by "
        "Corollary 16."
    )
    return Statement(
        sentence,
        (
            Finding("ratio at the start", float(ratio[0])),
            Finding("ratio at the end", float(ratio[-1])),
            Finding("published", published),
            Finding("library", library),
            compared("upper bound - exact, least", float((upper[y] - exact[y]).min())),
            compared("published - library", published - library),
        ),
    )


def _figure_8(orders: FloatArray | None = None) -> Result:
    curves = data.figure_8(data.EXAMPLE_ORDERS if orders is None else orders)
    made = result(curves, _describe_figure_8, names=_COLUMNS)
    return replace(made, plot=lambda figure: plot_panels(figure, (curves[:2], curves[2:]), _PANELS))


_PANELS = (
    {"title": "For each order its own pair of distributions,\nboth divergences 0.1 α", "xlim": (2, 30), **_RENYI},
    {
        "title": f"One mechanism: Gaussian noise (0.1-zCDP),\naccepted with probability ≥ {data.ACCEPTED:g}",
        "xlim": (2, 30),
        **_RENYI,
    },
)

FIGURE_2 = Experiment(
    name="papernot-2",
    title="Papernot and Steinke, Figure 2: the best of K runs, by the mean of K",
    seconds=0.82,
    run=_figure_2,
    size=SIZE,
    second=lambda: _figure_2(data.SECOND_ORDERS),
)
FIGURE_3 = Experiment(
    name="papernot-3",
    title="Papernot and Steinke, Figure 3: the best of K runs, by the distribution of K",
    seconds=0.96,
    run=_figure_3,
    size=SIZE,
    second=lambda: _figure_3(data.SECOND_ORDERS),
)
FIGURE_4 = Experiment(
    name="papernot-4",
    title="Papernot and Steinke, Figure 4: the best of K runs, epsilon by the mean of K",
    seconds=25,
    run=_figure_4,
    size=SIZE,
    second=lambda: _figure_4(data.SECOND_MEANS),
)
FIGURE_8 = Experiment(
    name="papernot-8",
    title="Papernot and Steinke, Figure 8: rejection sampling until an output is accepted",
    seconds=0.58,
    run=_figure_8,
    size=(8.8, 3.8),
    second=lambda: _figure_8(data.SECOND_EXAMPLE_ORDERS),
)
