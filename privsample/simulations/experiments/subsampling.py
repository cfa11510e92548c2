"""Balle, Barthe and Gaboardi's Table 1 and Figure 1 redrawn: what running on a subsample saves.

The paper gives no parameters of its figure: those here are our own. Source: Balle, Barthe and Gaboardi 2018.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.accounting.base import Accountant, Group
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.schemes import WithoutReplacement, WithReplacement
from privsample.relations import ReplaceOne
from privsample.simulations.experiments import subsampling_printed as printed
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.report.figures import BLUE, GREEN, GREY, ORANGE

N, SIZES = 100, (5, 20, 50)
MOST = 1.5  # the largest epsilon of the Laplace figures
FLOOR = 1e-8  # the least delta that is drawn
SIZE = (4.6, 4.2)
COLOURS = (BLUE, ORANGE, GREEN)
_SOLID, _DASHED, _DOTTED = "-", (0, (5, 2)), (0, (1, 1.2))


@value
class Noise:
    """Noise whose sensitivity over scale (Laplace) or standard deviation (Gaussian) is `theta`."""

    name: str
    theta: float

    @property
    def title(self) -> str:
        """Its name and strength."""
        return f"{self.name} noise (Δ/{'b' if self.name == 'Laplace' else 'σ'} = {self.theta:g})"

    @property
    def columns(self) -> dict[str, Any]:
        """What a table says of it, and of the records it is drawn from."""
        return {"noise": self.name, "sensitivity_over_scale": self.theta, "n": N}

    def group(self, size: int) -> printed.Profile:
        """The profile of a group, as printed."""
        made = printed.laplace if self.name == "Laplace" else printed.gauss
        return made(size * self.theta)

    def sampled(self, scheme: WithoutReplacement | WithReplacement, *, known: bool = True) -> Accountant:
        """Our account on the scheme's samples; not `known`: from the profile alone, not what the noise is."""
        relation = ReplaceOne(n=scheme.m)
        base: Accountant = GaussianAccountant(sensitivity=self.theta, noise_std=1.0, relation=relation)
        if self.name == "Laplace":
            base = LaplaceAccountant(sensitivity=self.theta, scale=1.0, relation=relation)
        return SubsampledAccountant(base=base if known else Group(base=base, size=1), scheme=scheme)


LAPLACE, GAUSS = Noise(name="Laplace", theta=0.5), Noise(name="Gaussian", theta=1.0)


@value
class Line:
    """delta at `epsilon`, both (points,), and how it is drawn."""

    label: str
    epsilon: FloatArray
    delta: FloatArray
    colour: str
    dashes: Any = _SOLID


def result(lines: Sequence[Line], sentence: str, *, title: str, log: bool = True, **common: Any) -> Result:
    """The lines as a table and as a picture; common: columns with what all lines share."""
    parts = [common | {"curve": line.label, "epsilon": line.epsilon, "delta": line.delta} for line in lines]
    return Result(columns=stacked(parts), sentence=sentence, plot=lambda figure: _plot(figure, lines, title, log=log))


def _plot(figure: Any, lines: Sequence[Line], title: str, *, log: bool) -> None:
    axes = figure.subplots()
    for line in lines:
        axes.plot(
            line.epsilon,
            np.maximum(line.delta, FLOOR / 10 if log else 0.0),
            color=line.colour,
            linestyle=line.dashes,
            label=line.label,
        )
    axes.set(title=title, xlabel="ε, nats", ylabel="δ(ε)", xlim=(0, max(line.epsilon[-1] for line in lines)))
    if log:
        axes.set(yscale="log", ylim=(FLOOR, None))
    else:
        axes.set_ylim(bottom=0)
    pairs = len(lines) > len(COLOURS)  # solid and not: a column each
    handles = axes.lines[::2] + axes.lines[1::2] if pairs else axes.lines
    figure.legend(handles=handles, loc="outside lower left", ncols=1 + pairs)


def _profiles(level: float = 0.25) -> Result:
    """Figure 1a: mechanisms of one delta at epsilon zero."""
    from scipy.special import ndtri

    honest, theta, mu = (1 + level) / 2, -2 * np.log1p(-level), 2 * ndtri((1 + level) / 2)
    epsilon = np.linspace(0, 2.0, 201)
    lines = [
        Line(label="randomized response", epsilon=epsilon, delta=printed.response(honest)(epsilon), colour=BLUE),
        Line(label="Laplace", epsilon=epsilon, delta=printed.laplace(theta)(epsilon), colour=ORANGE, dashes=_DASHED),
        Line(label="Gaussian", epsilon=epsilon, delta=printed.gauss(mu)(epsilon), colour=GREEN),
    ]
    ends = float(np.log(honest / (1 - honest)))
    return result(
        lines,
        f"Three mechanisms with δ(0) = {level:g}: at ε = 0.5 they leave "
        f"{', '.join(f'{np.interp(0.5, line.epsilon, line.delta):.3f} ({line.label})' for line in lines)}; randomized "
        f"response and Laplace reach zero at ε = {ends:.3f} and {theta:.3f}, the Gaussian never does: as the paper "
        "says, the profile exists for every mechanism, pure ones too, and holds all their guarantees.",
        title=f"Privacy profiles with δ(0) = {level:g}",
        log=False,
    )


def _comparison(noise: Noise, most: float) -> Result:
    """Figures 1b and 1c: as many records drawn without and with replacement."""
    epsilon = most * np.linspace(0, 1, 201) ** 2
    lines, ahead, off = [], [], 0.0
    for m, colour in zip(SIZES, COLOURS, strict=True):
        once, repeated = noise.sampled(WithoutReplacement(n=N, m=m)), noise.sampled(WithReplacement(n=N, m=m))
        ours = once.delta(epsilon), repeated.delta(epsilon)
        paper = printed.once(noise.group(1), m / N)(epsilon), printed.repeated(noise.group, N, m)(epsilon)
        off = max(off, float(np.abs(np.array(ours) - paper).max()))
        ahead.append(float(epsilon[np.argmax(ours[1] > ours[0])]))
        lines += [
            Line(label=f"{m} without replacement", epsilon=epsilon, delta=ours[0], colour=colour),
            Line(label=f"{m} with replacement", epsilon=epsilon, delta=ours[1], colour=colour, dashes=_DASHED),
        ]
    return result(
        lines,
        f"With replacement a record is in fewer samples but may be in one more than once: δ at ε = 0 is "
        f"{lines[-1].delta[0]:.3f} in place of {lines[-2].delta[0]:.3f} for {SIZES[-1]} of {N} records, and higher "
        f"from ε = {', '.join(f'{e:.2g}' for e in ahead)} on for {', '.join(map(str, SIZES))}; the paper compares them "
        f"in the picture alone, and our account and its Theorems 9 and 10 differ by at most {off:.0e}.",
        title=f"{noise.title}\non m of {N} records",
        **noise.columns,
    )


def _copies() -> Result:
    """Figure 1d: what it costs that a record may be drawn more than once."""
    epsilon = MOST * np.linspace(0, 1, 201) ** 2
    lines, factors = [], []
    for m, colour in zip(SIZES, COLOURS, strict=True):
        whole = LAPLACE.sampled(WithReplacement(n=N, m=m)).delta(epsilon)
        alone = printed.once(LAPLACE.group(1), printed.touched(N, m))(epsilon)
        factors.append(whole[0] / alone[0])
        lines += [
            Line(label=f"{m} draws", epsilon=epsilon, delta=whole, colour=colour),
            Line(label=f"{m}, copies not counted", epsilon=epsilon, delta=alone, colour=colour, dashes=_DOTTED),
        ]
    ends = [float(np.log1p(printed.touched(N, m) * np.expm1(LAPLACE.theta))) for m in SIZES]
    return result(
        lines,
        f"If a record counted once however often it is drawn, δ would be zero from ε = "
        f"{', '.join(f'{end:.2f}' for end in ends)} on for {', '.join(map(str, SIZES))} draws from {N} records; with "
        f"the groups of the paper's Theorem 10 it is {', '.join(f'{f:.3f}' for f in factors)} times as large at ε = 0 "
        "and falls in steps instead, one for each further copy: the impact that the paper's caption speaks of.",
        title=f"{LAPLACE.title}\non m draws from {N} records",
        **LAPLACE.columns,
    )


def _boxes(m: int = 20) -> Result:
    """Figure 1e: groups of a known mechanism, and of one known by its profile alone."""
    epsilon = MOST * np.linspace(0, 1, 201) ** 2
    scheme = WithReplacement(n=N, m=m)
    white, black = (made.delta(epsilon) for made in (LAPLACE.sampled(scheme), LAPLACE.sampled(scheme, known=False)))
    paper = printed.repeated(printed.black_box(LAPLACE.group(1)), N, m)(epsilon)
    at = int(np.argmin(np.abs(epsilon - 0.5)))
    return result(
        [
            Line(label="white box", epsilon=epsilon, delta=white, colour=BLUE),
            Line(label="black box, ours", epsilon=epsilon, delta=black, colour=ORANGE),
            Line(label="black box, as printed", epsilon=epsilon, delta=paper, colour=GREY, dashes=_DASHED),
        ],
        f"At ε = {epsilon[at]:.2g} the groups of a mechanism known by its profile alone give "
        f"{paper[at] / white[at]:.2f} times the δ of Laplace's own by the paper's rule and "
        f"{black[at] / white[at]:.2f} times by ours, which also uses that the profile ends; at ε = 0 the factors are "
        f"{paper[0] / white[0]:.3f} and {black[0] / white[0]:.3f}: the impact of the black box, of which "
        "the paper's caption speaks.",
        title=f"{LAPLACE.title}\non {m} draws from {N} records",
        m=m,
        **LAPLACE.columns,
    )


PROFILES = Experiment(
    name="s-1a", title="Balle, Barthe and Gaboardi, Figure 1a: profiles with one δ at ε = 0", run=_profiles, size=SIZE
)
GAUSS_SAMPLED = Experiment(
    name="s-1b",
    title="Balle, Barthe and Gaboardi, Figure 1b: Gaussian noise on samples with and without replacement",
    run=lambda: _comparison(GAUSS, 2.5),
    size=SIZE,
)
LAPLACE_SAMPLED = Experiment(
    name="s-1c",
    title="Balle, Barthe and Gaboardi, Figure 1c: Laplace noise on samples with and without replacement",
    run=lambda: _comparison(LAPLACE, MOST),
    size=SIZE,
)
COPIES = Experiment(
    name="s-1d",
    title="Balle, Barthe and Gaboardi, Figure 1d: what a record costs that is drawn more than once",
    run=_copies,
    size=SIZE,
)
BOXES = Experiment(
    name="s-1e",
    title="Balle, Barthe and Gaboardi, Figure 1e: groups of a known mechanism and of a black box",
    run=_boxes,
    size=SIZE,
)
