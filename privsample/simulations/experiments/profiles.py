"""Figures of thesis chapter 7: profile-based privacy compared with local privacy.

Source: Geumlek 2020, section 7.6, Figures 7.2-7.8. The table of profiles behind Figures 7.3
and 7.4 is lost in our copy: three profiles of our own stand in for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from privsample._checks import FloatArray
from privsample.distributions.profile_graph import ProfileGraph
from privsample.mechanisms.profiles.base import ProfileMechanism
from privsample.mechanisms.profiles.responses import LocalResponse, OneBit, SmoothCategorical, SmoothOneBit
from privsample.simulations.experiments import profiles_plots
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.findings import Columns, Finding, Statement, Table, compared, value_at
from privsample.simulations.experiments.profiles_plots import Curves

# Symbols 0 and 1 distinguish the profiles, 2 and 3 hardly, in place of thesis Table 7.1. Each symbol lies 0.15 from
# one quarter in some profile, so that the four curves of the baseline fall together as in Figure 7.3.
STAND_IN = {"P1": (0.40, 0.12, 0.10, 0.38), "P2": (0.27, 0.23, 0.10, 0.40), "P3": (0.11, 0.40, 0.12, 0.37)}
MARK = 0.2  # the privacy level that the thesis marks
EPSILONS = np.sort(np.append(np.geomspace(0.02, 5.0, 40), MARK))
Made = Callable[..., ProfileMechanism]
_COUNTS = (6, 21)
_SOLVED = 1e-7  # to which the mechanisms are solved
_CHAIN_KINDS: tuple[tuple[str, Made], ...] = (
    ("local privacy: randomized response", LocalResponse),
    ("profile-based: Smooth One Bit", SmoothOneBit),
)
_SECOND = np.sort(np.append(np.geomspace(0.03, 4.0, 17), MARK))  # a second grid


def couplet(epsilon: float = 1.0, first: float = 0.05, points: int = 96) -> Curves:
    """Compute Figure 7.2: flipping probability for two Bernoulli profiles against their difference, with Warner's."""
    gaps = np.linspace(0.0, 1.0 - first, points)[1:]
    graphs = [ProfileGraph(profiles={"a": first, "b": first + gap}, edges=[("a", "b")]) for gap in gaps.tolist()]
    columns = [
        [float(made(graph=graph, epsilon=epsilon).largest_change) for graph in graphs]
        for made in (LocalResponse, OneBit, SmoothOneBit)
    ]
    return Curves(
        title=f"two Bernoulli profiles, ε = {epsilon:g}, the first with p = {first:g}",
        names=("difference", "largest_flip"),
        across="difference between the two profiles' parameters",
        along="largest flipping probability",
        x=gaps,
        labels=(
            "randomized response",
            "One Bit: one flip for both profiles",
            "Smooth One Bit: a flip for each profile",
        ),
        values=np.column_stack(columns),
    )


def categorical(made: Made, title: str, epsilons: FloatArray) -> Curves:
    """Figures 7.3 and 7.4: for each symbol the largest change of its probability over the profiles of a chain of three.

    cost_j = max_i |P_i(j) - (P_i A_i)(j)|, thesis (7.9).
    """
    graph = ProfileGraph(profiles=STAND_IN, edges=[("P1", "P2"), ("P2", "P3")])
    costs = [
        np.abs(made(graph=graph, epsilon=e).distributions - graph.distributions).max(axis=0) for e in epsilons.tolist()
    ]
    return Curves(
        title=title,
        names=("epsilon", "largest_change"),
        across="ε, nats",
        along="largest change of a symbol's probability",
        x=epsilons,
        labels=tuple(f"symbol {j}" for j in range(graph.symbols)),
        values=np.array(costs),
    )


def chain(made: Made, count: int, title: str, epsilons: FloatArray) -> Curves:
    """Figures 7.5-7.8: the probability of releasing 1 for each of `count` Bernoulli profiles in a chain on [0, 1]."""
    p = np.linspace(0.0, 1.0, count)
    graph = ProfileGraph(profiles=p, edges=[(k, k + 1) for k in range(count - 1)])
    ones = [made(graph=graph, epsilon=e).distributions[:, 1] for e in epsilons.tolist()]
    return Curves(
        title=title,
        names=("epsilon", "probability_of_one"),
        across="ε, nats",
        along="P(output = 1)",
        x=epsilons,
        labels=tuple(f"p = {share:.3g}" for share in p.tolist()),
        values=np.array(ones),
    )


def table(panels: Sequence[Curves]) -> dict[str, list[Any]]:
    """The numbers of all panels, one line a point."""
    return stacked(
        [
            {"panel": panel.title, "curve": label, panel.names[0]: panel.x, panel.names[1]: values}
            for panel in panels
            for label, values in zip(panel.labels, panel.values.T, strict=True)
        ]
    )


def _couplet(points: int = 96) -> Result:
    panel = couplet(points=points)
    return Result(
        columns=table([panel]), describe=_of_couplet, plot=lambda figure: profiles_plots.lines(figure, [panel])
    )


def _of_couplet(columns: Columns) -> Statement:
    curves = list(dict.fromkeys(columns["curve"]))
    local, one, smooth = (Table(columns=columns).select(curve=name)["largest_flip"] for name in curves)
    gaps = Table(columns=columns).select(curve=curves[0])["difference"]
    falls = max(0.0, *(-float(np.diff(flips).min()) for flips in (one, smooth)))
    trend = "grows" if falls < 1e-9 else f"grows, but for falls of up to {falls:.1g},"
    below = compared("local - ours, least", float((local - np.maximum(one, smooth)).min()))
    verdict = (
        f"is below the {local[0]:.3f} of randomized response at every difference, by at least {below.value:.3f}"
        if below.compared
        else f"is not always below the {local[0]:.3f} of randomized response"
    )
    return Statement(
        "To hide which of two Bernoulli profiles a bit was drawn from, each mechanism flips the bit. Its largest "
        f"flipping probability {trend} with the difference between the profiles, to {one[-1]:.4f} (One Bit) and "
        f"{smooth[-1]:.4f} (Smooth One Bit) at the difference {gaps[-1]:.2f}, and {verdict}. Both as the thesis says.",
        (
            Finding("One Bit at the end", float(one[-1])),
            Finding("Smooth One Bit at the end", float(smooth[-1])),
            below,
            compared("growth, One Bit", float(one[-1] - one[0])),
            compared("growth, Smooth One Bit", float(smooth[-1] - smooth[0])),
        ),
    )


def _categorical(epsilons: FloatArray | None = None) -> Result:
    points = EPSILONS if epsilons is None else epsilons

    def behind(log_epsilon: float) -> float:
        """By how much our worst symbol changes more than the baseline's."""
        at = np.exp([log_epsilon])
        return float(
            np.subtract(*(categorical(made, "", at).values.max() for made in (SmoothCategorical, LocalResponse)))
        )

    gaps = np.array([behind(x) for x in np.log(points)])
    crossed = np.nonzero((gaps[:-1] > 0) & (gaps[1:] <= 0))[0]
    roots = [np.exp(optimize.brentq(behind, *np.log(points[k : k + 2]), xtol=1e-10)) for k in crossed]
    points = np.unique(np.append(points, roots))
    local = categorical(LocalResponse, "local privacy: K-ary response", points)
    ours = categorical(SmoothCategorical, "profile-based: Smooth Categorical", points)
    return Result(
        columns=table([local, ours]),
        describe=_of_categorical,
        plot=lambda figure: profiles_plots.beside_one(figure, ours, local),
    )


def _of_categorical(columns: Columns) -> Statement:
    panels = list(dict.fromkeys(columns["panel"]))
    symbols = list(dict.fromkeys(columns["curve"]))
    parts = [[Table(columns=columns).select(panel=panel, curve=symbol) for symbol in symbols] for panel in panels]
    epsilons = parts[0][0]["epsilon"]
    local, ours = (np.array([part["largest_change"] for part in each]) for each in parts)
    base = [value_at(epsilons, values, MARK) for values in local]
    costs = [value_at(epsilons, values, MARK) for values in ours]
    dearer = epsilons[ours.max(axis=0) > local.max(axis=0) + _SOLVED]
    above = epsilons[epsilons > dearer.max()] if dearer.size else epsilons
    until = f"up to ε = {above.min():.2g} the worst symbol of Smooth Categorical changes more" if dearer.size else ""
    telling = compared("informative - other symbols", min(costs[:2]) - max(costs[2:]))
    better = compared("baseline - our worst symbol", max(base) - max(costs))
    return Statement(
        f"Largest change of a symbol's probability over three profiles, at ε = {MARK:g}: local privacy changes all "
        f"four symbols by {max(base):.3f}, Smooth Categorical the two that distinguish the profiles by {costs[0]:.3f} "
        f"and {costs[1]:.3f} and the two others by {'only ' if telling.compared else ''}{costs[2]:.3f} and "
        f"{costs[3]:.3f}. According to the thesis less informative symbols change less, and the baseline is worse"
        + (f"; here {until}" if until else "; so it is here at every ε drawn" if better.compared else "")
        + ". The profiles are our own, because Table 7.1 of the thesis was not available.",
        (
            *(Finding(f"symbol {k}", cost) for k, cost in enumerate(costs)),
            Finding("baseline", max(base)),
            telling,
            better,
            *((Finding("crossing", float(above.min())),) if dearer.size else ()),
        ),
    )


def _chains(epsilons: FloatArray | None = None) -> Result:
    points = EPSILONS if epsilons is None else epsilons
    panels = [
        chain(made, count, f"{words}, {count} profiles", points) for words, made in _CHAIN_KINDS for count in _COUNTS
    ]
    return Result(
        columns=table(panels), describe=_of_chains, plot=lambda figure: profiles_plots.spread(figure, panels, MARK)
    )


def _of_chains(columns: Columns) -> Statement:
    found: dict[tuple[str, int], tuple[float, FloatArray]] = {}
    for words, _ in _CHAIN_KINDS:
        for count in _COUNTS:
            part = Table(columns=columns).select(panel=f"{words}, {count} profiles")
            epsilons = np.unique(part["epsilon"])
            wide = np.array([np.ptp(part["probability_of_one"][part["epsilon"] == e]) for e in epsilons])
            found[words, count] = value_at(epsilons, wide, MARK), wide
    (local, _), (ours, _) = _CHAIN_KINDS
    few, many = _COUNTS
    wider = [
        compared(
            f"ours - local, {count} profiles, least", float((found[ours, count][1] - found[local, count][1]).min())
        )
        for count in _COUNTS
    ]
    verdict = (
        "Smooth One Bit has the wider range at every ε drawn, as the thesis says"
        if all(each.compared for each in wider)
        else "Smooth One Bit does not have the wider range at every ε drawn; the thesis says that it does"
    )
    return Statement(
        "The profiles cover the probabilities of a 1 from 0 to 1; the less a mechanism distorts, the more of that "
        f"range its released probabilities keep. At ε = {MARK:g} Smooth One Bit keeps {found[ours, few][0]:.3f} of "
        f"it with {few} profiles and {found[ours, many][0]:.3f} with {many}, randomized response "
        f"{found[local, few][0]:.3f} and {found[local, many][0]:.3f}. {verdict}.",
        (
            *(Finding(f"{words}, {count}", each[0]) for (words, count), each in found.items()),
            *wider,
        ),
    )


COUPLET = Experiment(
    name="geumlek-7.2",
    title="Thesis Figure 7.2: the flip that hides which of two Bernoulli profiles it was",
    run=_couplet,
    size=(5.2, 3.4),
    second=lambda: _couplet(points=62),
)
CATEGORICAL = Experiment(
    name="geumlek-7.3",
    title="Thesis Figures 7.3 and 7.4: what three categorical profiles cost, symbol by symbol",
    run=_categorical,
    size=(8.8, 4.3),
    second=lambda: _categorical(_SECOND),
)
CHAINS = Experiment(
    name="geumlek-7.5",
    title="Thesis Figures 7.5 to 7.8: how far chains of Bernoulli profiles are drawn together",
    run=_chains,
    size=(8.8, 6.6),
    second=lambda: _chains(_SECOND),
)
