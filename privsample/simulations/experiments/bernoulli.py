"""Imola and Chaudhuri's Figures 1 to 3 redrawn without a gap, and a search that tries to beat their conjecture."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.accounting.bernoulli import BernoulliAccountant
from privsample.accounting.bernoulli_bounds import binary_log_odds, symmetric_renyi
from privsample.accounting.bernoulli_search import corner_renyi
from privsample.accounting.guarantees import ZCDPAccountant
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.bernoulli_search import Corners
from privsample.simulations.figures import BLUE, GREEN, GREY, ORANGE

EPSILONS = np.geomspace(1e-3, 60.0, 49)
MARGINS, DIMENSIONS = (0.01, 0.1, 0.3), (1, 2, 3, 5, 15)


@value
class Panel:
    """Curves over EPSILONS: the conjectured value, our proven upper bound, and the paper's two."""

    order: float
    margin: float
    dimension: int
    draws: int

    @property
    def title(self) -> str:
        """The parameters that differ between panels."""
        drawn = f", k = {self.draws}" if self.draws > 1 else ""
        return f"d = {self.dimension}{drawn}, c = {self.margin:g}"

    def curves(self) -> dict[str, FloatArray]:
        """Each of shape (epsilons,); for one coin the exact value too."""
        coins = self.dimension * self.draws
        odds = binary_log_odds(EPSILONS, self.order)
        accounts = [self._account(float(e)) for e in EPSILONS]
        found = {
            "post-processing bound": EPSILONS,
            "asymptote": np.full(EPSILONS.shape, accounts[0].asymptote(self.order)),
            "proven upper bound": np.array([float(account.rdp(self.order)) for account in accounts]),
            "lower bound (conjectured value)": np.array(
                [symmetric_renyi(float(u), self.order, coins, self.margin) for u in odds]
            ),
        }
        if self.dimension == 1:
            exact = [corner_renyi(float(e), self.order, coins, self.margin).high for e in EPSILONS]
            found["Algorithm 2"] = np.array(exact)
        return found

    def _account(self, epsilon: float) -> BernoulliAccountant:
        """Over a base whose curve passes through epsilon at this order."""
        base = ZCDPAccountant(rho=epsilon / self.order)
        return BernoulliAccountant(base=base, margin=self.margin, draws=self.draws, dimension=self.dimension)


def _figure(panels: Sequence[Panel], columns: int, words: str) -> Result:
    drawn = [(panel, panel.curves()) for panel in panels]
    parts = [
        {"order": p.order, "d": p.dimension, "k": p.draws, "c": p.margin, "curve": name, "epsilon": EPSILONS, "y": y}
        for p, curves in drawn
        for name, y in curves.items()
    ]
    gaps = [np.max(c["proven upper bound"] - c["lower bound (conjectured value)"]) for _, c in drawn]
    least = [np.max(c["proven upper bound"] / EPSILONS) for _, c in drawn]
    kept = min(zip(least, (p.title for p in panels), strict=True))
    return Result(
        columns=stacked(parts),
        sentence=f"{words} The proven upper bound lies at most {max(gaps):.2f} nats above the lower bound, over all "
        f"panels and ε from {EPSILONS[0]:g} to {EPSILONS[-1]:g}; the most is gained at {kept[1]}, where at most "
        f"{kept[0]:.0%} of ε is left at any ε. No curve breaks off.",
        paint=lambda figure: _paint(figure, drawn, columns),
    )


_LINES: dict[str, dict[str, Any]] = {
    "post-processing bound": {"color": GREY, "linestyle": (0, (1, 1.2)), "linewidth": 1.3},
    "asymptote": {"color": GREY, "linestyle": (0, (5, 2)), "linewidth": 1.3},
    "proven upper bound": {"color": ORANGE, "linewidth": 4.0},
    "lower bound (conjectured value)": {"color": BLUE},
    "Algorithm 2": {"color": GREEN, "linestyle": (0, (3, 3)), "linewidth": 2.4},
}


def _paint(figure: Any, drawn: Sequence[tuple[Panel, dict[str, FloatArray]]], columns: int) -> None:
    grid = figure.subplots(-(-len(drawn) // columns), columns, squeeze=False, sharex=True)
    handles: dict[str, Any] = {}
    for axes, (panel, curves) in zip(grid.flat, drawn, strict=True):
        for name, y in curves.items():
            (handles[name],) = axes.loglog(EPSILONS, y, label=name, **_LINES[name])
        top = float(curves["asymptote"][0])
        axes.set_title(panel.title)
        axes.set_xticks([1e-3, 1e-2, 0.1, 1, 10], ["0.001", "0.01", "0.1", "1", "10"])
        axes.set_yticks([1e-3, 1e-2, 0.1, 1, 10, 100], ["0.001", "0.01", "0.1", "1", "10", "100"])
        axes.set_ylim(3e-4, min(3 * top, 100.0))
        axes.minorticks_off()
    for axes in grid[-1]:
        axes.set_xlabel("ε of the chances")
    for axes in grid[:, 0]:
        axes.set_ylabel("ε of the draws")
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=3)


def _grid(order: float) -> list[Panel]:
    return [Panel(order=order, margin=c, dimension=d, draws=1) for d in DIMENSIONS for c in MARGINS]


def _figure_1() -> Result:
    return _figure(_grid(50.0), 3, "One draw at α = 50.")


def _figure_2() -> Result:
    return _figure(_grid(5.0), 3, "One draw at α = 5.")


def _figure_3() -> Result:
    panels = [Panel(order=50.0, margin=0.1, dimension=d, draws=k) for d in (1, 3, 5) for k in (1, 2, 4)]
    return _figure(panels, 3, "k draws at α = 50.")


def conjecture(cases: int = 18, starts: int = 2) -> Result:
    """Random parameters, and the best laws that a search finds, beside the conjectured value."""
    rng = np.random.default_rng(20200615)
    found: dict[str, list[float]] = {name: [] for name in ("d", "k", "c", "order", "epsilon", "conjectured", "found")}
    for case in range(cases):
        d, k = 1 + case % 3, 1 + (case // 3) % 2
        c, order = float(rng.uniform(0.02, 0.45)), float(1 + np.exp(rng.uniform(-1.0, 3.0)))
        epsilon = float(np.exp(rng.uniform(-3.0, 1.5)))
        value_ = symmetric_renyi(float(binary_log_odds(epsilon, order)), order, d * k, c)
        best = Corners(order=order, epsilon=epsilon, dimension=d, draws=k, margin=c).best(rng, starts)
        for name, entry in zip(found, (d, k, c, order, epsilon, value_, best), strict=True):
            found[name].append(entry)
    ratio = np.array(found["found"]) / np.array(found["conjectured"])
    return Result(
        columns=found,
        sentence=f"In {cases} random cases, d up to 3 and k up to 2, the best laws on corners that {starts} searches "
        f"each found reach {ratio.min():.6f} to {ratio.max():.6f} of the conjectured value: "
        + ("the conjecture is refuted." if ratio.max() > 1 + 1e-6 else "none beats it, which proves nothing."),
        paint=lambda figure: _paint_search(figure, found, ratio),
    )


def _paint_search(figure: Any, found: dict[str, list[float]], ratio: FloatArray) -> None:
    axes = figure.subplots()
    for d, colour in ((1, BLUE), (2, ORANGE), (3, GREEN)):
        mine = np.array(found["d"]) == d
        axes.plot(np.array(found["epsilon"])[mine], ratio[mine], "o", color=colour, label=f"d = {d}")
    axes.axhline(1.0, color=GREY, linewidth=1.0)
    axes.set(xscale="log", xlabel="ε of the chances", ylabel="best found / conjectured")
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.legend()


FIGURE_1 = Experiment(
    name="b-1",
    title="Imola and Chaudhuri, Figure 1: what one draw of coins costs, order 50",
    run=_figure_1,
    size=(8.8, 11.0),
)
FIGURE_2 = Experiment(
    name="b-2",
    title="Imola and Chaudhuri, Figure 2: what one draw of coins costs, order 5",
    run=_figure_2,
    size=(8.8, 11.0),
)
FIGURE_3 = Experiment(
    name="b-3", title="Imola and Chaudhuri, Figure 3: what k draws of coins cost", run=_figure_3, size=(8.8, 7.2)
)
SEARCH = Experiment(
    name="b-conjecture",
    title="a search for laws that beat Imola and Chaudhuri's conjecture",
    run=conjecture,
    size=(5.2, 3.4),
)
