"""Table 1 and Figure 1 of Balle, Barthe and Gaboardi (2018): privacy amplification by subsampling.

The paper gives no parameters of its figure: those here are our own. Source: Balle, Barthe and Gaboardi 2018.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.base import Accountant, Group
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.schemes import WithoutReplacement, WithReplacement
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.relations import ReplaceOne
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction import subsampling_published as published
from reproduction.base import Experiment
from reproduction.tables import AGREEMENT, Table, agreement

N, SIZES = 100, (5, 20, 50)
MOST = 1.5  # the largest epsilon of the Laplace figures
POINTS, SECOND = 201, 94  # of the epsilons, and of a second grid
FLOOR = 1e-8  # the least delta that is drawn
SIZE = (4.6, 4.2)
COLOURS = (BLUE, ORANGE, GREEN)
_SOLID, _DASHED, _DOTTED = "-", (0, (5, 2)), (0, (1, 1.2))


@frozen_value
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

    def group(self, size: int) -> published.Profile:
        """The profile of a group, as published."""
        made = published.laplace if self.name == "Laplace" else published.gauss
        return made(size * self.theta)

    def sampled(self, scheme: WithoutReplacement | WithReplacement, *, known: bool = True) -> Accountant:
        """Our account on the scheme's samples; not `known`: from the profile alone, not what the noise is."""
        relation = ReplaceOne(n=scheme.m)
        base: Accountant = GaussianAccountant(sensitivity=self.theta, noise_std=1.0, relation=relation)
        if self.name == "Laplace":
            base = LaplaceAccountant(sensitivity=self.theta, scale=1.0, relation=relation)
        return SubsampledAccountant(base=base if known else Group(base=base, size=1), scheme=scheme)


LAPLACE, GAUSS = Noise(name="Laplace", theta=0.5), Noise(name="Gaussian", theta=1.0)


@frozen_value
class Line:
    """delta at `epsilon`, both (points,), and how it is drawn."""

    label: str
    epsilon: FloatArray
    delta: FloatArray
    colour: str
    dashes: Any = _SOLID
    published: FloatArray | None = (
        None  # the paper's bound at the same points, where the line is the account of privsample
    )


def result(
    lines: Sequence[Line], describe: Callable[[Columns], Statement], *, title: str, log: bool = True, **common: Any
) -> Result:
    """The lines as a table and as a picture; common: columns with what all lines share."""
    parts = []
    for line in lines:
        part = common | {"curve": line.label, "epsilon": line.epsilon, "delta": line.delta}
        parts.append(part if line.published is None else part | {"delta_published": line.published})
    return Result(columns=stacked(parts), describe=describe, plot=lambda figure: _plot(figure, lines, title, log=log))


def _squares(most: float, count: int, *points: float) -> FloatArray:
    """So many epsilons up to `most`, dense near 0, and these points."""
    return np.unique(np.append(most * np.linspace(0, 1, count) ** 2, points))


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
    axes.set(title=title, xlabel="ε (nats)", ylabel="δ(ε)", xlim=(0, max(line.epsilon[-1] for line in lines)))
    if log:
        axes.set(yscale="log", ylim=(FLOOR, None))
    else:
        axes.set_ylim(bottom=0)
    pairs = len(lines) > len(COLOURS)  # solid and not: a column each
    handles = axes.lines[::2] + axes.lines[1::2] if pairs else axes.lines
    if pairs or log:
        figure.legend(handles=handles, loc="outside upper left", ncols=1 + pairs)
    else:
        axes.legend(loc="upper right")


RESPONSE, AT = "randomized response", 0.5  # AT: the epsilon at which sentences compare
_HOW = ("without", "with")


def _describe_profiles(columns: Columns) -> Statement:
    curves = {label: curve for (label,), curve in Table(columns=columns).groups("curve")}
    ends = {label: curve["epsilon"][curve["delta"] > AGREEMENT].max() for label, curve in curves.items()}
    last = max(curve["epsilon"].max() for curve in curves.values())
    found = {label: curve.at("epsilon", AT, "delta") for label, curve in curves.items()}
    at = join_names([f"{delta:.3f} ({label})" for label, delta in found.items()])
    start, end = curves[RESPONSE].at("epsilon", 0.0, "delta"), curves["Gaussian"].at("epsilon", last, "delta")
    sentence = (
        f"Three mechanisms with the same δ at ε = 0 ({start:g}) have different "
        f"privacy curves (privacy profiles): at ε = {AT:g} δ is {at}. It is zero from ε = {ends[RESPONSE]:.3f} on for "
        f"{RESPONSE} and from ε = {ends['Laplace']:.3f} on for Laplace noise; for Gaussian noise it is still "
        f"{end:.1e} at ε = {last:g}. The curve exists "
        "for mechanisms with and without a pure guarantee, as the paper says."
    )
    return Statement(
        sentence,
        (
            *(Finding(f"{label} at {AT:g}", delta) for label, delta in found.items()),
            *(Finding(f"{label}, zero from", ends[label]) for label in (RESPONSE, "Laplace")),
            Finding("all at 0", start),
            *(
                compared(f"all at 0 - {label}", AGREEMENT - abs(curve.at("epsilon", 0.0, "delta") - start))
                for label, curve in curves.items()
            ),
            compared("Gaussian at the end", end),
        ),
    )


def _profiles(points: int = POINTS, level: float = 0.25) -> Result:
    """Figure 1a: mechanisms of one delta at epsilon zero."""
    from scipy.special import ndtri

    honest, theta, mu = (1 + level) / 2, -2 * np.log1p(-level), 2 * ndtri((1 + level) / 2)
    ends = np.array([np.log(honest / (1 - honest)), theta])
    epsilon = np.unique(np.concatenate([np.linspace(0, 2.0, points), [AT], ends, ends * (1 - 1e-6)]))
    lines = [
        Line(label=RESPONSE, epsilon=epsilon, delta=published.response(honest)(epsilon), colour=BLUE),
        Line(label="Laplace", epsilon=epsilon, delta=published.laplace(theta)(epsilon), colour=ORANGE, dashes=_DASHED),
        Line(label="Gaussian", epsilon=epsilon, delta=published.gauss(mu)(epsilon), colour=GREEN),
    ]
    return result(lines, _describe_profiles, title=f"Privacy curves δ(ε) with δ(0) = {level:g}", log=False)


def _describe_comparison(columns: Columns) -> Statement:
    table, crossings = Table(columns=columns), []
    findings: list[Finding] = []
    at_zero: tuple[float, ...] = ()
    for m in SIZES:
        once, repeated = (table.select(curve=f"m = {m} {how} replacement") for how in _HOW)
        at_zero = tuple(one.at("epsilon", 0.0, "delta") for one in (once, repeated))
        higher = repeated["delta"] > once["delta"]
        first = int(np.argmax(higher))
        single = first > 0 and (repeated["delta"][first:] >= once["delta"][first:]).all()
        crossings.append(f"{once['epsilon'][first - 1]:.2g} for {m}" if single else f"no single value for {m}")
        findings.append(compared(f"without - with replacement, {m} at 0", at_zero[0] - at_zero[1]))
        if single:
            findings.append(Finding(f"crossing, {m}", float(once["epsilon"][first - 1])))
            excess = float((repeated["delta"] - once["delta"])[first:].max())
            findings.append(compared(f"with - without replacement, {m}, above the crossing", excess))
    off = float(np.abs(table["delta"] - table["delta_published"]).max())
    sentence = (
        "Sampling with replacement includes a given record in fewer samples, but may include it more than once. At ε = "
        f"0 it has the smaller δ ({at_zero[1]:.3f} instead of "
        f"{at_zero[0]:.3f} without replacement, {SIZES[-1]} of {N} records); above ε = "
        f"{join_names(crossings)} records it has the larger one. Our account agrees with "
        f"Theorems 9 and 10 of the paper {agreement(off)}."
    )
    findings += [Finding(f"{how} replacement at 0", delta) for how, delta in zip(_HOW, at_zero, strict=True)]
    return Statement(sentence, (*findings, Finding("apart from the paper", off)))


def _comparison(noise: Noise, most: float, points: int = POINTS) -> Result:
    """Figures 1b and 1c: as many records drawn without and with replacement."""
    lines = []
    for m, colour in zip(SIZES, COLOURS, strict=True):
        once, repeated = noise.sampled(WithoutReplacement(n=N, m=m)), noise.sampled(WithReplacement(n=N, m=m))
        epsilon = _squares(most, points, _crossing(once, repeated, most, points))
        lines += [
            Line(
                label=f"m = {m} without replacement",
                epsilon=epsilon,
                delta=once.delta(epsilon),
                colour=colour,
                published=published.once(noise.group(1), m / N)(epsilon),
            ),
            Line(
                label=f"m = {m} with replacement",
                epsilon=epsilon,
                delta=repeated.delta(epsilon),
                colour=colour,
                dashes=_DASHED,
                published=published.repeated(noise.group, N, m)(epsilon),
            ),
        ]
    return result(
        lines,
        _describe_comparison,
        title=f"{noise.title}\non a sample of m of n = {N} records",
        **noise.columns,
    )


def _crossing(once: Accountant, repeated: Accountant, most: float, points: int) -> float:
    """The epsilon from which on sampling with replacement has the larger delta; `most` where there is none."""
    grid = _squares(most, points)
    first = int(np.argmax(repeated.delta(grid) > once.delta(grid)))
    if first == 0:
        return most
    low, high = float(grid[first - 1]), float(grid[first])
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if repeated.delta(middle) > once.delta(middle) else (middle, high)
    return low


def _describe_copies(columns: Columns) -> Statement:
    table, ends, factors = Table(columns=columns), [], []
    for m in SIZES:
        whole, alone = (table.select(curve=label) for label in (f"m = {m}", f"m = {m}, repeats ignored"))
        ends.append(float(alone["epsilon"][alone["delta"] > AGREEMENT].max()))
        factors.append(whole.at("epsilon", 0.0, "delta") / alone.at("epsilon", 0.0, "delta"))
    sentence = (
        f"Draws with replacement may include a record several times. If the repeats were ignored, δ would be zero from "
        f"ε = {join_names([f'{end:.2f}' for end in ends])} on, for {join_names([str(m) for m in SIZES])} draws from "
        f"{N} records. With repeats (the "
        f"paper's Theorem 10) δ is {join_names([f'{factor:.3f}' for factor in factors])} times as large at ε = 0, and "
        "it falls in steps, one for each further repeat. This is the effect that the caption in the paper mentions."
    )
    return Statement(
        sentence,
        (
            *(Finding(f"zero from, {m} draws", end) for m, end in zip(SIZES, ends, strict=True)),
            *(Finding(f"factor, {m} draws", factor) for m, factor in zip(SIZES, factors, strict=True)),
            *(compared(f"cost of repeats, {m} draws", factor - 1) for m, factor in zip(SIZES, factors, strict=True)),
        ),
    )


def _copies(points: int = POINTS) -> Result:
    """Compute Figure 1d: the privacy cost of repeated records in draws with replacement."""
    ends = [float(np.log1p(published.touched(N, m) * np.expm1(LAPLACE.theta))) for m in SIZES]
    epsilon = _squares(MOST, points, *ends, *(end * (1 - 1e-6) for end in ends))
    lines = []
    for m, colour in zip(SIZES, COLOURS, strict=True):
        whole = LAPLACE.sampled(WithReplacement(n=N, m=m)).delta(epsilon)
        alone = published.once(LAPLACE.group(1), published.touched(N, m))(epsilon)
        lines += [
            Line(label=f"m = {m}", epsilon=epsilon, delta=whole, colour=colour),
            Line(label=f"m = {m}, repeats ignored", epsilon=epsilon, delta=alone, colour=colour, dashes=_DOTTED),
        ]
    return result(
        lines,
        _describe_copies,
        title=f"{LAPLACE.title}\non m draws with replacement from n = {N} records",
        **LAPLACE.columns,
    )


_BOXES = (
    "Laplace noise known",
    "only its privacy curve known: account of privsample",
    "only its privacy curve known: the paper",
)


def _describe_boxes(columns: Columns) -> Statement:
    table = Table(columns=columns)

    def factors(epsilon: float) -> tuple[float, float]:
        white, library, paper = (table.select(curve=name).at("epsilon", epsilon, "delta") for name in _BOXES)
        return paper / white, library / white

    (paper, library), (paper_0, library_0) = factors(AT), factors(0.0)
    sentence = (
        f"If only the privacy curve of the noise is known (black box), and not that it is Laplace noise (white box), δ "
        f"at ε = {AT:g} is {paper:.2f} times as large by the bound of the paper and {library:.2f} times by the account "
        "of privsample, which also uses the ε from which on the curve is zero. At ε = 0 the factors are "
        f"{paper_0:.3f} and {library_0:.3f}. This is the effect that the caption in the paper mentions."
    )
    return Statement(
        sentence,
        (
            *(Finding(name, factor) for name, factor in zip(_BOXES[1:], (library, paper), strict=True)),
            *(Finding(f"{name}, at 0", factor) for name, factor in zip(_BOXES[1:], (library_0, paper_0), strict=True)),
            compared("the paper's bound - account of privsample", paper - library),
            compared("account of privsample - white box", library - 1),
        ),
    )


def _boxes(points: int = POINTS, m: int = 20) -> Result:
    """Figure 1e: groups of a known mechanism, and of one known by its profile alone."""
    epsilon = _squares(MOST, points, AT)
    scheme = WithReplacement(n=N, m=m)
    white, black = (made.delta(epsilon) for made in (LAPLACE.sampled(scheme), LAPLACE.sampled(scheme, known=False)))
    paper = published.repeated(published.black_box(LAPLACE.group(1)), N, m)(epsilon)
    return result(
        [
            Line(label=_BOXES[0], epsilon=epsilon, delta=white, colour=BLUE),
            Line(label=_BOXES[1], epsilon=epsilon, delta=black, colour=ORANGE),
            Line(label=_BOXES[2], epsilon=epsilon, delta=paper, colour=GREY, dashes=_DASHED),
        ],
        _describe_boxes,
        title=f"{LAPLACE.title}\non {m} draws with replacement from n = {N} records",
        m=m,
        **LAPLACE.columns,
    )


PROFILES = Experiment(
    name="balle-1a",
    title="Balle, Barthe and Gaboardi, Figure 1a: profiles with one δ at ε = 0",
    seconds=0.5,
    run=_profiles,
    size=SIZE,
    second=lambda: _profiles(SECOND),
)
GAUSS_SAMPLED = Experiment(
    name="balle-1b",
    title="Balle, Barthe and Gaboardi, Figure 1b: Gaussian noise on samples with and without replacement",
    seconds=0.76,
    run=lambda: _comparison(GAUSS, 2.5),
    size=SIZE,
    second=lambda: _comparison(GAUSS, 2.5, SECOND),
)
LAPLACE_SAMPLED = Experiment(
    name="balle-1c",
    title="Balle, Barthe and Gaboardi, Figure 1c: Laplace noise on samples with and without replacement",
    seconds=0.66,
    run=lambda: _comparison(LAPLACE, MOST),
    size=SIZE,
    second=lambda: _comparison(LAPLACE, MOST, SECOND),
)
COPIES = Experiment(
    name="balle-1d",
    title="Balle, Barthe and Gaboardi, Figure 1d: the cost of drawing a record more than once",
    seconds=0.5,
    run=_copies,
    size=SIZE,
    second=lambda: _copies(SECOND),
)
BOXES = Experiment(
    name="balle-1e",
    title="Balle, Barthe and Gaboardi, Figure 1e: groups of a known mechanism and of a black box",
    seconds=0.63,
    run=_boxes,
    size=SIZE,
    second=lambda: _boxes(SECOND),
)
