"""What two releases cost under profile-based privacy: the four cases of thesis Figure 7.1, by enumeration.

Source: Geumlek 2020, Observations 8 and 9 and Figure 7.1.
"""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.profile_graph import ProfileGraph
from privsample.mechanisms.profiles.responses import SmoothOneBit
from privsample.plots.style import BLUE, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table, agreement

# An edge joins the profiles a and b; c always follows a, and d always follows b, without an edge between them.
PROFILES, EDGE = {"a": 0.9, "b": 0.6, "c": 0.95, "d": 0.1}, ("a", "b")
EPSILONS = np.geomspace(0.02, 2.0, 25)
SHOWN = 0.2
CASES = {
    "independent observations": "sum",
    "independent selections": "largest",
    "one observation twice": "sum",
    "dependent selections": "largest",
}
_TITLES = (
    "two observations",
    "two selections",
    "one observation twice",
    "dependent selections",
)


def loss(first: FloatArray, second: FloatArray) -> float:
    """The largest privacy loss between two positive distributions, in both orders."""
    return float(np.abs(np.log(first) - np.log(second)).max())


def delta(first: FloatArray, second: FloatArray, epsilon: float) -> float:
    """The larger hockey-stick divergence at epsilon of two distributions of pairs of outputs."""
    factor = np.exp(epsilon)
    return float(max(np.maximum(p - factor * q, 0.0).sum() for p, q in ((first, second), (second, first))))


def deltas(epsilon: float) -> dict[str, tuple[float, float, float]]:
    """For each case: the loss of one release, the epsilon that the rule of composition would state, and delta there.

    The distributions of both outputs are enumerated; the rule adds the single losses, or takes the larger.
    """
    made = SmoothOneBit(graph=ProfileGraph(profiles=PROFILES, edges=[EDGE]), epsilon=epsilon)
    a, b, c, d = made.distributions
    shares = np.array([[1 - p, p] for p in PROFILES.values()])
    twice = [np.einsum("x,xy,xz->yz", shares[k], made.matrices[k], made.matrices[k]) for k in (0, 1)]
    one = loss(a, b)
    joint = {
        "independent observations": (np.outer(a, a), np.outer(b, b)),
        "independent selections": (np.outer(a, c), np.outer(b, c)),
        "one observation twice": (twice[0], twice[1]),
        "dependent selections": (np.outer(a, c), np.outer(b, d)),
    }
    stated = {case: 2 * one if rule == "sum" else one for case, rule in CASES.items()}
    return {case: (one, stated[case], delta(*joint[case], stated[case])) for case in CASES}


def _run(epsilons: FloatArray | None = None) -> Result:
    grid = np.sort(np.append(EPSILONS if epsilons is None else epsilons, SHOWN))
    found = [deltas(float(epsilon)) for epsilon in grid]
    parts = []
    for case in CASES:
        one, stated, beyond = np.array([each[case] for each in found]).T
        parts.append({"case": case, "epsilon": grid, "single": one, "stated": stated, "delta": beyond})
    columns = stacked(parts)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    held = {case: float(table.select(case=case)["delta"].max()) for case in CASES}
    at = {case: table.select(case=case, epsilon=SHOWN) for case in CASES}
    stated, beyond = ({case: float(rows[name][0]) for case, rows in at.items()} for name in ("stated", "delta"))
    one, other, again, follows = CASES
    return Statement(
        f"Two releases by Smooth One Bit, by enumeration of both outputs. Two independent observations of one profile "
        f"have no δ above the sum of their losses ({agreement(held[one])}), and two profiles that are chosen "
        f"independently have none above the larger loss ({agreement(held[other])}). The other two cases have no "
        f"account. If one observation is privatised twice at ε = {SHOWN:g}, the sum {stated[again]:.3g} holds only "
        f"with δ = {beyond[again]:.3g}. If the second profile is decided by the first, and no edge joins the two that "
        f"can follow, the larger loss {stated[follows]:.3g} holds only with δ = {beyond[follows]:.3g}.",
        (
            Finding("observations, delta", held[one]),
            Finding("selections, delta", held[other]),
            compared("one observation twice, delta", beyond[again]),
            compared("dependent selections, delta", beyond[follows]),
        ),
    )


def _plot(figure: Any, columns: Columns) -> None:
    table = Table(columns=columns)
    panels = figure.subplots(1, 4, sharey=True)
    for axes, case, title, colour in zip(panels, CASES, _TITLES, (BLUE, BLUE, ORANGE, ORANGE), strict=True):
        rows = table.select(case=case)
        axes.semilogx(rows["epsilon"], rows["delta"], color=colour, marker="o", markersize=3)
        rule = "the sum of both ε" if CASES[case] == "sum" else "the larger ε"
        axes.set(xlabel="ε of each release", title=f"{title}:\nδ at {rule}", ylim=(-0.03, 1.0))
    panels[0].set(ylabel="δ, by enumeration")


COMPOSITION = Experiment(
    name="geumlek-7.1",
    title="Thesis Figure 7.1: two releases under profile-based privacy, with and without a composition result",
    seconds=0.96,
    run=_run,
    size=(12.6, 3.9),
    second=lambda: _run(np.geomspace(0.05, 1.0, 7)),
)
