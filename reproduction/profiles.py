"""Figures of thesis chapter 7: profile-based privacy compared with local privacy.

Source: Geumlek 2020, section 7.6, Figures 7.2-7.8. The profiles of Figures 7.3 and 7.4
(Table 7.1) were not available; three other profiles replace them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from privsample._checks import FloatArray
from privsample.distributions.profile_graph import ProfileGraph
from privsample.mechanisms.profiles.base import ProfileMechanism
from privsample.mechanisms.profiles.responses import LocalResponse, OneBit, SmoothCategorical, SmoothOneBit
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction import profiles_plots
from reproduction.base import Experiment
from reproduction.profiles_plots import Curves
from reproduction.tables import Table, value_at

# They replace thesis Table 7.1. The probabilities of symbols 0 and 1 differ much between the profiles, those of symbols
# 2 and 3 little. Each symbol has probability 0.25 +- 0.15 in some profile, so that the four curves of the baseline
# coincide as in Figure 7.3.
PROFILES = {"P1": (0.40, 0.12, 0.10, 0.38), "P2": (0.27, 0.23, 0.10, 0.40), "P3": (0.11, 0.40, 0.12, 0.37)}
MARK = 0.2  # the epsilon that is marked in the figures of the thesis
EPSILONS = np.sort(np.append(np.geomspace(0.02, 5.0, 40), MARK))
MechanismClass = Callable[..., ProfileMechanism]
_CHAIN_LENGTHS = (6, 21)
_SOLVER_TOLERANCE = 1e-7  # tolerance of the optimization that determines the mechanisms
_CHAIN_KINDS: tuple[tuple[str, MechanismClass], ...] = (
    ("local privacy: randomized response", LocalResponse),
    ("profile-based: Smooth One Bit", SmoothOneBit),
)
# a second grid, on which the sentences must hold too
_SECOND_GRID = np.sort(np.append(np.geomspace(0.03, 4.0, 17), MARK))


def two_profiles(epsilon: float = 1.0, first: float = 0.05, points: int = 96) -> Curves:
    """Compute Figure 7.2: the largest flipping probability against the difference of two Bernoulli profiles."""
    gaps = np.linspace(0.0, 1.0 - first, points)[1:]
    graphs = [ProfileGraph(profiles={"a": first, "b": first + gap}, edges=[("a", "b")]) for gap in gaps.tolist()]
    columns = [
        [float(mechanism_class(graph=graph, epsilon=epsilon).largest_change) for graph in graphs]
        for mechanism_class in (LocalResponse, OneBit, SmoothOneBit)
    ]
    return Curves(
        title=f"two Bernoulli profiles, ε = {epsilon:g}, the first with p = {first:g}",
        names=("difference", "largest_flip"),
        x_label="difference between the two profiles' parameters",
        y_label="largest flipping probability",
        x=gaps,
        labels=(
            "randomized response",
            "One Bit: one flip for both profiles",
            "Smooth One Bit: a flip for each profile",
        ),
        values=np.column_stack(columns),
    )


def categorical(mechanism_class: MechanismClass, title: str, epsilons: FloatArray) -> Curves:
    """Compute Figures 7.3 and 7.4: the largest change of each symbol's probability over three profiles in a chain.

    The change of symbol j is max_i |P_i(j) - (P_i A_i)(j)|, thesis (7.9).
    """
    graph = ProfileGraph(profiles=PROFILES, edges=[("P1", "P2"), ("P2", "P3")])
    costs = [
        np.abs(mechanism_class(graph=graph, epsilon=e).distributions - graph.distributions).max(axis=0)
        for e in epsilons.tolist()
    ]
    return Curves(
        title=title,
        names=("epsilon", "largest_change"),
        x_label="ε (nats)",
        y_label="largest change of a symbol's probability",
        x=epsilons,
        labels=tuple(f"symbol {j}" for j in range(graph.symbols)),
        values=np.array(costs),
    )


def chain(mechanism_class: MechanismClass, count: int, title: str, epsilons: FloatArray) -> Curves:
    """Compute Figures 7.5-7.8: the probability of a released 1 for each Bernoulli profile of a chain on [0, 1]."""
    p = np.linspace(0.0, 1.0, count)
    graph = ProfileGraph(profiles=p, edges=[(k, k + 1) for k in range(count - 1)])
    ones = [mechanism_class(graph=graph, epsilon=e).distributions[:, 1] for e in epsilons.tolist()]
    return Curves(
        title=title,
        names=("epsilon", "probability_of_one"),
        x_label="ε (nats)",
        y_label="P(output = 1)",
        x=epsilons,
        labels=tuple(f"p = {share:.3g}" for share in p.tolist()),
        values=np.array(ones),
    )


def table(panels: Sequence[Curves]) -> dict[str, list[Any]]:
    """The values of all panels as a table with one row for each point."""
    return stacked(
        [
            {"panel": panel.title, "curve": label, panel.names[0]: panel.x, panel.names[1]: values}
            for panel in panels
            for label, values in zip(panel.labels, panel.values.T, strict=True)
        ]
    )


def _two_profiles(points: int = 96) -> Result:
    panel = two_profiles(points=points)
    return Result(
        columns=table([panel]),
        describe=_describe_two_profiles,
        plot=lambda figure: profiles_plots.lines(figure, [panel]),
    )


def _describe_two_profiles(columns: Columns) -> Statement:
    curves = list(dict.fromkeys(columns["curve"]))
    local, one, smooth = (Table(columns=columns).select(curve=name)["largest_flip"] for name in curves)
    gaps = Table(columns=columns).select(curve=curves[0])["difference"]
    falls = max(0.0, *(-float(np.diff(flips).min()) for flips in (one, smooth)))
    trend = "grows" if falls < 1e-9 else f"grows, except for decreases of up to {falls:.1g},"
    below = compared("local - profile-based, least", float((local - np.maximum(one, smooth)).min()))
    verdict = (
        f"is below the {local[0]:.3f} of randomized response at every difference, by at least {below.value:.3f}"
        if below.compared
        else f"is not always below the {local[0]:.3f} of randomized response"
    )
    return Statement(
        "Each mechanism flips a bit at random, to hide from which of two Bernoulli profiles it was drawn. The largest "
        f"flipping probability {trend} with the difference between the profiles, to {one[-1]:.4f} (One Bit) and "
        f"{smooth[-1]:.4f} (Smooth One Bit) at the difference {gaps[-1]:.2f}, and {verdict}. According to the thesis "
        "it grows, and is below that of randomized response.",
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

    def excess(log_epsilon: float) -> float:
        """Largest change of a symbol by Smooth Categorical minus that by the baseline."""
        at = np.exp([log_epsilon])
        return float(
            np.subtract(
                *(
                    categorical(mechanism_class, "", at).values.max()
                    for mechanism_class in (SmoothCategorical, LocalResponse)
                )
            )
        )

    gaps = np.array([excess(x) for x in np.log(points)])
    crossed = np.nonzero((gaps[:-1] > 0) & (gaps[1:] <= 0))[0]
    roots = [np.exp(optimize.brentq(excess, *np.log(points[k : k + 2]), xtol=1e-10)) for k in crossed]
    points = np.unique(np.append(points, roots))
    local = categorical(LocalResponse, "local privacy: K-ary response", points)
    smooth = categorical(SmoothCategorical, "profile-based: Smooth Categorical", points)
    return Result(
        columns=table([local, smooth]),
        describe=_describe_categorical,
        plot=lambda figure: profiles_plots.symbol_changes(figure, smooth, local),
    )


def _describe_categorical(columns: Columns) -> Statement:
    panels = list(dict.fromkeys(columns["panel"]))
    symbols = list(dict.fromkeys(columns["curve"]))
    parts = [[Table(columns=columns).select(panel=panel, curve=symbol) for symbol in symbols] for panel in panels]
    epsilons = parts[0][0]["epsilon"]
    local, smooth = (np.array([part["largest_change"] for part in each]) for each in parts)
    base = [value_at(epsilons, values, MARK) for values in local]
    costs = [value_at(epsilons, values, MARK) for values in smooth]
    worse = epsilons[smooth.max(axis=0) > local.max(axis=0) + _SOLVER_TOLERANCE]
    above = epsilons[epsilons > worse.max()] if worse.size else epsilons
    until = f"up to ε = {above.min():.2g} the worst symbol of Smooth Categorical changes more" if worse.size else ""
    informative = compared("informative - other symbols", min(costs[:2]) - max(costs[2:]))
    better = compared("baseline - worst symbol of Smooth Categorical", max(base) - max(costs))
    return Statement(
        f"Largest change of a symbol's probability over three profiles, at ε = {MARK:g}: local privacy changes all "
        f"four symbols by {max(base):.3f}. Smooth Categorical changes the two symbols that distinguish the profiles by "
        f"{costs[0]:.3f} and {costs[1]:.3f}, and the two others by {'only ' if informative.compared else ''}"
        f"{costs[2]:.3f} and {costs[3]:.3f}. According to the thesis, less informative symbols change less, and local "
        "privacy changes its symbols more"
        + (f"; here {until}" if until else "; this holds here at every ε of the figure" if better.compared else "")
        + ". These are not the profiles of the thesis, whose Table 7.1 was not available.",
        (
            *(Finding(f"symbol {k}", cost) for k, cost in enumerate(costs)),
            Finding("baseline", max(base)),
            informative,
            better,
            *((Finding("crossing", float(above.min())),) if worse.size else ()),
        ),
    )


def _chains(epsilons: FloatArray | None = None) -> Result:
    points = EPSILONS if epsilons is None else epsilons
    panels = [
        chain(mechanism_class, count, f"{words}, {count} profiles", points)
        for words, mechanism_class in _CHAIN_KINDS
        for count in _CHAIN_LENGTHS
    ]
    return Result(
        columns=table(panels),
        describe=_describe_chains,
        plot=lambda figure: profiles_plots.chain_curves(figure, panels, MARK),
    )


def _describe_chains(columns: Columns) -> Statement:
    found: dict[tuple[str, int], tuple[float, FloatArray]] = {}
    for words, _ in _CHAIN_KINDS:
        for count in _CHAIN_LENGTHS:
            part = Table(columns=columns).select(panel=f"{words}, {count} profiles")
            epsilons = np.unique(part["epsilon"])
            wide = np.array([np.ptp(part["probability_of_one"][part["epsilon"] == e]) for e in epsilons])
            found[words, count] = value_at(epsilons, wide, MARK), wide
    (local, _), (smooth, _) = _CHAIN_KINDS
    few, many = _CHAIN_LENGTHS
    wider = [
        compared(
            f"profile-based - local, {count} profiles, least",
            float((found[smooth, count][1] - found[local, count][1]).min()),
        )
        for count in _CHAIN_LENGTHS
    ]
    verdict = (
        "Smooth One Bit has the wider range at every ε of the figure, as the thesis says"
        if all(each.compared for each in wider)
        else "Smooth One Bit does not have the wider range at every ε of the figure; the thesis says that it does"
    )
    return Statement(
        "The probability of a 1 in the profiles ranges from 0 to 1. A mechanism that changes observations less has a "
        f"wider range of output probabilities. At ε = {MARK:g} the range of Smooth One Bit has the width "
        f"{found[smooth, few][0]:.3f} with {few} profiles and {found[smooth, many][0]:.3f} with {many}, that of "
        f"randomized response {found[local, few][0]:.3f} and {found[local, many][0]:.3f}. {verdict}.",
        (
            *(Finding(f"{words}, {count}", each[0]) for (words, count), each in found.items()),
            *wider,
        ),
    )


TWO_PROFILES = Experiment(
    name="geumlek-7.2",
    title="Thesis Figure 7.2: flipping probability that hides which of two Bernoulli profiles was observed",
    seconds=1.1,
    run=_two_profiles,
    size=(5.2, 3.4),
    second=lambda: _two_profiles(points=62),
)
CATEGORICAL = Experiment(
    name="geumlek-7.3",
    title="Thesis Figures 7.3 and 7.4: change of each symbol's probability over three categorical profiles",
    seconds=1.7,
    run=_categorical,
    size=(8.8, 4.3),
    second=lambda: _categorical(_SECOND_GRID),
)
CHAINS = Experiment(
    name="geumlek-7.5",
    title="Thesis Figures 7.5 to 7.8: output probabilities of chains of Bernoulli profiles",
    seconds=1.6,
    run=_chains,
    size=(8.8, 6.6),
    second=lambda: _chains(_SECOND_GRID),
)
