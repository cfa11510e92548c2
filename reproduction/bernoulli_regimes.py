"""The three regimes of Imola and Chaudhuri (2021), section 6: what Bernoulli draws cost from small to large epsilon."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.postprocessing.amplification import bernoulli_amplification
from privsample.accounting.postprocessing.bernoulli_bounds import (
    binary_log_odds,
    farthest_renyi,
    majority_renyi,
    symmetric_renyi,
)
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table, largest_at

ORDER, SHARE = 50.0, 0.95  # of the paper's Figure 1; the share of an upper bound that counts as close to it
SETTINGS = ((1, 0.3), (3, 0.1), (15, 0.1))  # number of draws N = dk, and margin
POINTS, SECOND_POINTS = 25, 18
_LOW, _HIGH = 0.01, 100.0
_DENSE = 160  # points of the search for the ends of the regimes


@frozen_value
class Setting:
    """Number N of Bernoulli draws and margin c of one panel."""

    trials: int
    margin: float

    @property
    def title(self) -> str:
        """The parameters."""
        return f"N = dk = {self.trials}, c = {self.margin:g}"

    @property
    def asymptote(self) -> float:
        """The limit N r_a(c) of the cost."""
        return float(farthest_renyi(np.array(ORDER), self.trials, self.margin))

    def lower(self, epsilon: float) -> float:
        """The paper's lower bound (Theorem 4)."""
        return symmetric_renyi(float(binary_log_odds(epsilon, ORDER)), ORDER, self.trials, self.margin)

    def closed_form(self, epsilon: float) -> float:
        """The paper's lower bound in closed form (Theorem 2)."""
        return majority_renyi(epsilon, ORDER, self.trials, self.margin)

    def ends(self) -> list[float]:
        """Epsilons at which a lower bound becomes close to an upper bound, or ceases to be close."""
        differences = (
            lambda e: self.lower(e) / e - SHARE,
            lambda e: self.lower(e) / self.asymptote - SHARE,
            lambda e: self.closed_form(e) / e - SHARE,
        )
        grid, found = np.geomspace(_LOW, _HIGH, _DENSE), []
        for difference in differences:
            signs = np.sign([difference(float(e)) for e in grid])
            for at in np.flatnonzero(signs[1:] != signs[:-1]):
                root = optimize.brentq(difference, float(grid[at]), float(grid[at + 1]), xtol=1e-12, rtol=1e-12)
                # The root itself may lie on either side of the threshold by a rounding error.
                found += [root * (1 - 1e-7), root * (1 + 1e-7)]
        return found

    def curves(self, points: int) -> dict[str, Any]:
        """The columns of this setting, on a grid that contains the ends of the regimes."""
        grid = np.geomspace(_LOW, _HIGH, points)
        largest = largest_at(lambda e: self.lower(e) / e, np.geomspace(_LOW, _HIGH, _DENSE))
        kink = [self.asymptote] if _LOW < self.asymptote < _HIGH else []
        epsilon = np.unique(np.concatenate([grid, self.ends(), [largest], kink]))
        bounds = bernoulli_amplification(epsilon, order=ORDER, margin=self.margin, draws=self.trials, starts=0)
        return {
            "N": self.trials,
            "c": self.margin,
            "epsilon": epsilon,
            "lower": bounds.symmetric,
            "closed_form": bounds.closed_form,
            "upper": bounds.upper,
            "asymptote": self.asymptote,
        }


def regimes(points: int | None = None) -> Result:
    """Compute the bounds and the regimes of every setting."""
    settings = [Setting(trials=trials, margin=margin) for trials, margin in SETTINGS]
    columns = stacked([setting.curves(points or POINTS) for setting in settings])
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, Table(columns=columns)))


def regime_one(rows: Table) -> FloatArray:
    """Epsilons of the rows in regime I: the lower bound is close to epsilon."""
    return np.asarray(rows["epsilon"][rows["lower"] >= SHARE * rows["epsilon"]])


def regime_three(rows: Table) -> FloatArray:
    """Epsilons of the rows in regime III: the lower bound is close to the asymptote."""
    return np.asarray(rows["epsilon"][rows["lower"] >= SHARE * rows["asymptote"]])


def _describe(columns: Columns) -> Statement:
    parts, findings = [], []
    for (trials, margin), rows in Table(columns=columns).groups("N", "c"):
        name = f"N = {trials:g}, c = {margin:g}"
        first, third = regime_one(rows), regime_three(rows)
        starts = float(third.min())
        words = f"For {name} "
        if len(first):
            begins = f"begins at ε = {first.min():.2g} and " if first.min() > rows["epsilon"].min() else ""
            words += f"regime I {begins}ends at ε = {first.max():.3g}, and regime III begins at ε = {starts:.3g}"
            words += ", so that both overlap" if starts < first.max() else ""
            findings += [Finding(f"end of regime I, {name}", float(first.max()))]
        else:
            least = float((rows["upper"] / rows["epsilon"]).max())
            why = "since the draws" if least < SHARE else "and the draws"
            words += f"there is no regime I, {why} cost at most {least:.1%} of ε, and regime III begins at "
            words += f"ε = {starts:.3g}"
            findings += [Finding(f"largest share, {name}", least)]
        proved = rows["epsilon"][rows["closed_form"] >= SHARE * rows["epsilon"]]
        if len(proved):
            words += f" (Theorem 2 alone proves regime I from ε = {proved.min():.2g} to {proved.max():.2g})"
            findings += [Finding(f"Theorem 2 ends, {name}", float(proved.max()))]
        parts.append(words)
        findings += [Finding(f"start of regime III, {name}", starts)]
    sentence = (
        f"Cost of N Bernoulli draws with probabilities in [c, 1 − c], Rényi divergences of order {ORDER:g}. In "
        f"regime I the lower bound of Theorem 4 is at least {SHARE:.0%} of ε, in regime III at least {SHARE:.0%} of "
        f"the asymptote N r(c); regime II is the rest. {'. '.join(parts)}. All bounds are computed; the cost of the "
        "worst mechanism lies between the lower and the upper bound, so that its regimes I and III may be larger."
    )
    return Statement(sentence, tuple(findings))


def _plot(figure: Any, table: Table) -> None:
    """Plot the bounds as shares of the smaller of epsilon and the asymptote, with the regimes shaded."""
    panels: Sequence[Any] = figure.subplots(1, len(SETTINGS), sharey=True)
    for axes, ((trials, margin), rows) in zip(panels, table.groups("N", "c"), strict=True):
        epsilon, most = rows["epsilon"], np.minimum(rows["epsilon"], rows["asymptote"])
        first, third = regime_one(rows), regime_three(rows)
        spans = [("I", first.min(), first.max(), BLUE)] if len(first) else []
        for name, start, end, colour in [*spans, ("III", third.min(), _HIGH, ORANGE)]:
            axes.axvspan(start, end, color=colour, alpha=0.10, linewidth=0)
            axes.annotate(name, (np.sqrt(start * end), 0.02), ha="center", fontsize=11)
        axes.axvline(rows["asymptote"][0], color=GREY, linestyle=":", label="ε = asymptote")
        axes.fill_between(epsilon, rows["lower"] / most, rows["upper"] / most, color=GREY, alpha=0.35, linewidth=0)
        axes.plot(epsilon, rows["upper"] / most, color=ORANGE, label="the proven upper bound of privsample")
        axes.plot(epsilon, rows["lower"] / most, color=BLUE, label="lower bound (Theorem 4)")
        closed = np.where(rows["closed_form"] > 0.0, rows["closed_form"] / most, np.nan)
        axes.plot(epsilon, closed, color=GREEN, linestyle="-.", label="lower bound (Theorem 2)")
        axes.set(xscale="log", xlim=(_LOW, _HIGH), ylim=(0, 1.04), xlabel="ε of the parameter (nats)")
        axes.set_title(Setting(trials=int(trials), margin=float(margin)).title)
        axes.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
        axes.minorticks_off()
    panels[0].set_ylabel("ε of the draws / smaller of\nε of the parameter and asymptote")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=4, columnspacing=1.2)


REGIMES = Experiment(
    name="imola-regimes",
    title="Imola and Chaudhuri, section 6: the three regimes of the cost of Bernoulli draws",
    seconds=15,
    run=regimes,
    size=(9.6, 3.9),
    second=lambda: regimes(SECOND_POINTS),
)
