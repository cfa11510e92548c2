"""Which outputs of noise reveal the dataset by their bits, and the epsilon that an audit of bits shows.

Laplace noise of scale 1 is added to a statistic of 0 or of 1. An output reveals that the statistic is 0 if no uniform
number leads to it from 1 (Mironov 2012). Rounding the output makes that rarer; exact noise makes it impossible.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.noise.additive import LaplaceAccountant
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.integer_noise import rounded_laplace
from privsample.mechanisms.neighbours import Neighbours
from privsample.plots.style import BLUE, GREEN, ORANGE
from privsample.simulations.audit.bits import audit_bits
from privsample.simulations.audit.reachable import reached_by_inverse
from privsample.simulations.audit.task import AuditTask
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

DRAWS = 1_000_000
EXPONENTS = (-60, -56, -52, -48, -44, -40, -36)
SAMPLES = (300, 1_000, 3_000, 10_000, 30_000, 100_000)
STEP = 0.25  # of the epsilons, more than the standard error of what an audit shows
EPSILONS = np.arange(0.0, 8.0 + STEP, STEP)
CLAIM = LaplaceAccountant(sensitivity=1, scale=1)
FINE, COARSE = -52, -40  # grids of which the sentence speaks
STYLES = {"textbook": (ORANGE, "-"), "NumPy": (BLUE, "--"), "exact": (GREEN, ":")}

Sampler = Callable[[float, int, np.random.Generator, float], FloatArray]


def textbook(statistic: float, count: int, rng: np.random.Generator, pitch: float) -> FloatArray:
    """Laplace noise by the inverse of its distribution function, added to the statistic and rounded to the pitch."""
    u = rng.random(count) - 0.5
    return np.rint((statistic - np.sign(u) * np.log(1 - 2 * np.abs(u))) / pitch) * pitch


def numpy_noise(statistic: float, count: int, rng: np.random.Generator, pitch: float) -> FloatArray:
    """Laplace noise of NumPy, added to the statistic and rounded to the pitch."""
    return np.rint((statistic + rng.laplace(size=count)) / pitch) * pitch


def exact(statistic: float, count: int, rng: np.random.Generator, pitch: float) -> FloatArray:
    """Exact Laplace noise on the grid, added to the statistic as a whole number of pitches."""
    total = round(statistic / pitch) + rounded_laplace(1, Grid(pitch=pitch), count, rng)
    return np.asarray(total * pitch, dtype=np.float64)


SAMPLERS: dict[str, Sampler] = {"textbook": textbook, "NumPy": numpy_noise, "exact": exact}


def reached(name: str, x: FloatArray, pitch: float) -> NDArray[np.bool_]:
    """Whether noise of this name leads to each output from a statistic of 1: exact noise to all points of its grid."""
    if name == "exact":
        return (x - 1.0) / pitch == np.rint((x - 1.0) / pitch)
    return reached_by_inverse(x, 1.0, 1.0, 53, pitch=pitch)


def run(seed: int = 0) -> Result:
    """Compute the share of revealing outputs at each pitch, and audits of bits with each number of draws."""
    rng = np.random.default_rng(seed)
    parts = []
    for name, sampler in SAMPLERS.items():
        for exponent in EXPONENTS:
            if name == "exact" and exponent < FINE:
                continue  # the outputs would be rounded to doubles again
            pitch = 2.0**exponent
            found = ~reached(name, sampler(0.0, DRAWS, rng, pitch), pitch)
            error = float(found.std() / DRAWS**0.5)
            parts.append(_row("share", name, exponent, float(found.mean()), error))
        parts += [_row("epsilon", name, samples, _shown(sampler, samples, rng), STEP) for samples in SAMPLES]
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, stacked(parts)))


def _row(question: str, noise: str, at: float, value: float, error: float) -> dict[str, Any]:
    return {"question": question, "noise": noise, "at": at, "value": value, "standard_error": error}


def _shown(sampler: Sampler, samples: int, rng: np.random.Generator) -> float:
    """Return the largest epsilon that an audit of bits refutes at delta = 0; outputs on a grid of 2^-52."""
    case = Neighbours(
        account=CLAIM,
        descriptions=("a statistic of 0", "a statistic of 1"),
        datasets=(lambda: 0.0, lambda: 1.0),
        draw=lambda data, count, rng: sampler(data, count, rng, 2.0**FINE if sampler is exact else 2.0**-80),
    )
    claims = np.asarray(CLAIM.delta(EPSILONS))
    task = AuditTask(
        subject=None, claim=CLAIM, cases=(case,), epsilons=EPSILONS, claims=claims, samples=samples, level=1e-6, rng=rng
    )
    return audit_bits(task).epsilon_at(0.0)


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    shares = {name: table.select(question="share", noise=name) for name in SAMPLERS}
    shown = {name: table.select(question="epsilon", noise=name) for name in SAMPLERS}
    fine = {name: shares[name].at("at", FINE, "value") for name in SAMPLERS}
    errors = {name: shares[name].at("at", FINE, "standard_error") for name in SAMPLERS}
    coarse = {name: shares[name].at("at", COARSE, "value") for name in ("textbook", "NumPy")}
    coarse_errors = {name: shares[name].at("at", COARSE, "standard_error") for name in coarse}
    most = int(shown["exact"]["at"].max())
    last = {name: shown[name].at("at", most, "value") for name in SAMPLERS}
    first = {name: _first_refuted(shown[name]) for name in SAMPLERS}
    exact_share = float(shares["exact"]["value"].max())
    refuted = {
        name: compared(f"epsilon shown for {name} noise above the claim", last[name] - 1.0, STEP) for name in SAMPLERS
    }
    words = {name: _refuted_words(name, refuted[name].compared, last[name], first[name]) for name in SAMPLERS}
    return Statement(
        f"Laplace noise of scale 1 on a statistic of 0 or 1 (ε = 1 is claimed). Of the outputs for 0, rounded to "
        f"multiples of 2^{FINE}, {fine['textbook']:.1%} of textbook noise and {fine['NumPy']:.1%} of NumPy's could not "
        f"have come from 1. Rounding to 2^{COARSE} leaves {coarse['textbook']:.0e} and {coarse['NumPy']:.0e}. Of exact "
        f"noise this holds for {exact_share:.0%}, at every pitch. Audits of bits with up to {most:,} draws from each "
        f"dataset: {words['textbook']}; {words['NumPy']}; {words['exact']}.",
        (
            *(Finding(f"share of {name} noise", fine[name], errors[name]) for name in SAMPLERS),
            *(
                compared(
                    f"rounding makes revealing outputs of {name} noise rarer",
                    fine[name] - coarse[name],
                    float(np.hypot(errors[name], coarse_errors[name])),
                )
                for name in coarse
            ),
            *refuted.values(),
        ),
    )


def _first_refuted(rows: Table) -> float:
    """Return the least number of draws at which an epsilon above the claimed 1 is shown; inf if there is none."""
    return float(np.min(rows["at"][rows["value"] > 1.0].astype(np.float64), initial=np.inf))


def _refuted_words(name: str, refuted: bool, epsilon: float, first: float) -> str:
    if refuted:
        return f"{name} noise has at least ε = {epsilon:.3g}, and is refuted from {first:,.0f} draws on"
    return f"{name} noise is not refuted (at least ε = {epsilon:.3g})"


def _plot(figure: Any, columns: Columns) -> None:
    left, right = figure.subplots(2, 1)
    table = Table(columns=columns)
    for name, (colour, style) in STYLES.items():
        share, shown = (table.select(question=question, noise=name) for question in ("share", "epsilon"))
        left.plot(share["at"], share["value"], color=colour, linestyle=style, marker="o", markersize=3, label=name)
        right.semilogx(shown["at"], shown["value"], color=colour, linestyle=style, marker="o", markersize=3)
    left.set_yscale("symlog", linthresh=1e-5)
    left.set(
        title="Outputs that reveal the dataset",
        xlabel="pitch of the grid to which outputs are rounded, log₂",
        ylabel="share of outputs",
    )
    left.set_ylim(bottom=-2e-6)
    left.legend()
    right.axhline(1.0, color="0.5", linewidth=0.8)
    right.annotate("claimed", (SAMPLES[-1], 1.0), xytext=(0, 3), textcoords="offset points", color="0.4", ha="right")
    right.set(title="Audit of bits, level 10⁻⁶", xlabel="draws from each dataset", ylabel="ε at least, at δ = 0 (nats)")


EXPERIMENT = Experiment(
    name="low-bits",
    title="Laplace noise in floating-point numbers: outputs that reveal the dataset, and the audit of bits",
    seconds=7,
    run=run,
    size=(4.8, 6.0),
    second=lambda: run(seed=1),
)
