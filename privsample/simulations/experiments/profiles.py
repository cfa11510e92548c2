"""The figures of thesis chapter 7 redrawn: what hiding profiles costs beside hiding every observation.

Source: Geumlek 2020, section 7.6, Figures 7.2-7.8. The table of profiles behind Figures 7.3
and 7.4 is lost in our copy: three profiles of our own stand in for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.profile_graph import ProfileGraph
from privsample.mechanisms.profiles.base import ProfileMechanism
from privsample.mechanisms.profiles.responses import LocalResponse, OneBit, SmoothCategorical, SmoothOneBit
from privsample.simulations.experiments import profiles_plots
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.profiles_plots import Curves

# Symbols 0 and 1 tell the profiles apart, 2 and 3 hardly: a stand-in for thesis Table 7.1. Each symbol lies 0.15 from
# one quarter in some profile, so that the four curves of the baseline fall together as in Figure 7.3.
STAND_IN = {"P1": (0.40, 0.12, 0.10, 0.38), "P2": (0.27, 0.23, 0.10, 0.40), "P3": (0.11, 0.40, 0.12, 0.37)}
MARK = 0.2  # the privacy level that the thesis marks
EPSILONS = np.sort(np.append(np.geomspace(0.02, 5.0, 40), MARK))
Made = Callable[..., ProfileMechanism]


def couplet(epsilon: float = 1.0, first: float = 0.05) -> Curves:
    """Figure 7.2: the flip that two Bernoulli profiles need against how far apart they are, beside Warner's."""
    gaps = np.linspace(0.0, 1.0 - first, 96)[1:]
    graphs = [ProfileGraph(profiles={"a": first, "b": first + gap}, edges=[("a", "b")]) for gap in gaps.tolist()]
    columns = [
        [float(made(graph=graph, epsilon=epsilon).largest_change) for graph in graphs]
        for made in (LocalResponse, OneBit, SmoothOneBit)
    ]
    return Curves(
        title=f"Bernoulli-Couplet, ε = {epsilon:g}, first profile p = {first:g}",
        names=("difference", "largest_flip"),
        across="difference between the two profiles' parameters",
        along="largest flipping probability",
        x=gaps,
        labels=("local privacy (Warner)", "One Bit: one flip for both", "Smooth One Bit: a flip for each"),
        values=np.column_stack(columns),
    )


def categorical(made: Made, title: str, epsilons: FloatArray) -> Curves:
    """Figures 7.3 and 7.4: for each symbol the largest change of its probability over the profiles of a chain of three.

    cost_j = max_i |P_i(j) - (P_i A_i)(j)|, thesis (7.9).
    """
    graph = ProfileGraph(profiles=STAND_IN, edges=[("P1", "P2"), ("P2", "P3")])
    costs = [np.abs(made(graph=graph, epsilon=e).laws - graph.laws).max(axis=0) for e in epsilons.tolist()]
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
    ones = [made(graph=graph, epsilon=e).laws[:, 1] for e in epsilons.tolist()]
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


def _couplet() -> Result:
    panel = couplet()
    local, one, smooth = panel.values.T
    falls = max(0.0, -float(np.diff(panel.values[:, 1:], axis=0).min()))
    trend = "never falls" if falls < 1e-9 else f"falls by up to {falls:.1g}"
    return Result(
        columns=table([panel]),
        sentence=f"As two profiles move apart the flip that hides which it was grows to {one[-1]:.3f} (One Bit) and "
        f"{smooth[-1]:.3f} (Smooth One Bit) and stays at least {(local - one).min():.3f} below the {local[0]:.3f} of "
        f"local privacy; from point to point it {trend}. The thesis says that it grows with the "
        "difference and is below that line in all cases.",
        plot=lambda figure: profiles_plots.lines(figure, [panel]),
    )


def _categorical() -> Result:
    local = categorical(LocalResponse, "local privacy: K-ary response (stand-in profiles)", EPSILONS)
    ours = categorical(SmoothCategorical, "profile-based: Smooth Categorical (stand-in profiles)", EPSILONS)
    base, costs = (panel.values[np.abs(panel.x - MARK).argmin()] for panel in (local, ours))
    dearer = EPSILONS[ours.values.max(axis=1) > local.values.max(axis=1)]
    until = f"up to ε = {dearer.max():.2g}" if dearer.size else "at no ε drawn"
    return Result(
        columns=table([local, ours]),
        sentence=f"At ε = {MARK:g} local privacy changes every symbol's probability by {base.max():.3f}, Smooth "
        f"Categorical the two telling ones by {costs[0]:.3f} and {costs[1]:.3f} and the others by {costs[2]:.3f} and "
        f"{costs[3]:.3f}. The thesis says that categories that tell less cost less, and that the baseline is worse; "
        "with our stand-in for its Table 7.1, lost in our copy, the baseline's worst symbol is the better one "
        f"{until}.",
        plot=lambda figure: profiles_plots.lines(figure, [local, ours]),
    )


def _chains() -> Result:
    kinds: tuple[tuple[str, Made], ...] = (("local privacy", LocalResponse), ("profile-based", SmoothOneBit))
    panels = [
        chain(made, count, f"{words}, Bernoulli-Chain-{count}", EPSILONS) for words, made in kinds for count in (6, 21)
    ]
    at = np.abs(EPSILONS - MARK).argmin()
    few, many, our_few, our_many = (float(np.ptp(panel.values[at])) for panel in panels)
    return Result(
        columns=table(panels),
        sentence=f"At ε = {MARK:g} the probabilities of releasing 1 spread over {our_few:.3f} of the unit interval for "
        f"a chain of 6 profiles and {our_many:.3f} for 21, under local privacy over {few:.3f} and {many:.3f}; the "
        "thesis says that Smooth One Bit distorts less in both cases.",
        plot=lambda figure: profiles_plots.spread(figure, panels, MARK),
    )


COUPLET = Experiment(
    name="t-7.2",
    title="Thesis Figure 7.2: the flip that hides which of two Bernoulli profiles it was",
    run=_couplet,
    size=(5.2, 3.4),
)
CATEGORICAL = Experiment(
    name="t-7.3",
    title="Thesis Figures 7.3 and 7.4: what three categorical profiles cost, symbol by symbol",
    run=_categorical,
    size=(8.8, 3.4),
)
CHAINS = Experiment(
    name="t-7.5",
    title="Thesis Figures 7.5 to 7.8: how far chains of Bernoulli profiles are drawn together",
    run=_chains,
    size=(8.8, 6.6),
)
