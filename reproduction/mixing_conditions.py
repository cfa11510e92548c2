"""Mixing conditions of random kernels: their implications, and the local differential privacy that each states.

Source: Geumlek 2020, Figures 6.1 and 6.2; Balle, Barthe, Gaboardi and Geumlek 2019, Figure 1 and Table 1.
"""

import itertools
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.postprocessing.mixing import MixingConstants
from privsample.plots.style import BLUE, GREEN, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment
from reproduction.tables import Table, agreement

STATES, KERNELS, EPSILON = 4, 60, 1.0
CONCENTRATIONS = (0.3, 1.0, 5.0, 30.0)
# Kernels that meet a condition with a constant below one, and not the condition that would imply it.
COUNTEREXAMPLES = {
    "Doeblin, not ultra-mixing": [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]],
    "Dobrushin, not Doeblin": [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]],
    "Dobrushin at ε = 1, not at 0": [[0.7, 0.3], [0.3, 0.7]],
}
_CHAIN = ("ultra_mixing", "doeblin", "dobrushin", "dobrushin_at_epsilon")


def kernels(seed: int, count: int) -> list[tuple[str, FloatArray]]:
    """Random kernels with rows from Dirichlet distributions, then the counterexamples, by name."""
    rng = np.random.default_rng(seed)
    found = [
        (f"random, {concentration:g}", rng.dirichlet(np.full(STATES, concentration), STATES))
        for concentration in CONCENTRATIONS
        for _ in range(count)
    ]
    return found + [(name, np.array(rows)) for name, rows in COUNTEREXAMPLES.items()]


def local_privacy(matrix: FloatArray, epsilon: float) -> tuple[float, float]:
    """Local differential privacy of a kernel as a mechanism: delta at epsilon, and the pure epsilon.

    Each pair of rows is a pair of output distributions; nothing of the mixing constants is used.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(matrix)
    pairs = [DiscretePair(log_p=p, log_q=q) for p, q in itertools.permutations(logs, 2)]
    delta = max(float(np.exp(pair.log_delta(np.array([epsilon]))[0])) for pair in pairs)
    return delta, max(pair.max_divergence for pair in pairs)


def _run(seed: int = 6, count: int | None = None) -> Result:
    rows = []
    for name, matrix in kernels(seed, KERNELS if count is None else count):
        constants = MixingConstants(matrix=matrix)
        rows.append(
            {
                "kernel": name,
                "ultra_mixing": constants.ultra_mixing,
                "doeblin": constants.doeblin,
                "dobrushin": constants.dobrushin,
                "dobrushin_at_epsilon": float(constants.hockey_stick(EPSILON)),
                "local_delta_at_0": local_privacy(matrix, 0.0)[0],
                "local_delta_at_epsilon": local_privacy(matrix, EPSILON)[0],
                "local_pure_epsilon": local_privacy(matrix, 0.0)[1],
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    constants = np.array([table[name] for name in _CHAIN], dtype=float)
    gaps = constants[:-1] - constants[1:]
    distances = [
        float(np.abs(table["local_delta_at_0"] - table["dobrushin"]).max()),
        float(np.abs(table["local_delta_at_epsilon"] - table["dobrushin_at_epsilon"]).max()),
        float(np.abs(-np.expm1(-table["local_pure_epsilon"]) - table["ultra_mixing"]).max()),
    ]
    apart = {
        name: tuple(table.select(kernel=name)[each][0] for each in chain)
        for name, chain in zip(COUNTEREXAMPLES, itertools.pairwise(_CHAIN), strict=True)
    }
    first, second, third = apart.values()
    return Statement(
        f"The implications of Figure 6.1 in {len(table):,} kernels: up to rounding, the constants of ultra-mixing, "
        f"Doeblin, Dobrushin and Dobrushin at ε = {EPSILON:g} never increase in this order. None of the implications "
        f"holds in reverse: one kernel has the Doeblin constant {first[1]:.2f} and the ultra-mixing constant "
        f"{first[0]:g}, another the Dobrushin constant {second[1]:.2f} and the Doeblin constant {second[0]:g}, a third "
        f"the constant {third[1]:.2f} at ε = {EPSILON:g} and {third[0]:.2f} at 0. The local differential privacy of "
        f"the kernels, computed from their rows alone, is that of Figure 6.2: δ at ε = 0 is the Dobrushin constant "
        f"({agreement(distances[0])}), δ at ε = {EPSILON:g} is the constant there ({agreement(distances[1])}), and "
        f"1 - e^-ε of the pure ε is the ultra-mixing constant ({agreement(distances[2])}).",
        (
            Finding("smallest difference", float(gaps.min())),
            *(Finding(f"local privacy {k}", distance) for k, distance in enumerate(distances)),
            *(compared(name, pair[0] - pair[1]) for name, pair in apart.items()),
        ),
    )


def _plot(figure: Any, columns: Columns) -> None:
    left, right = figure.subplots(1, 2)
    dobrushin = np.asarray(columns["dobrushin"])
    for name, colour, label in (
        ("ultra_mixing", GREEN, "ultra-mixing"),
        ("doeblin", ORANGE, "Doeblin"),
        ("dobrushin_at_epsilon", BLUE, f"Dobrushin at ε = {EPSILON:g}"),
    ):
        left.plot(dobrushin, columns[name], ".", color=colour, markersize=4, label=label)
    left.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    left.set(xlabel="Dobrushin constant", ylabel="other constants", title="each constant implies those below it")
    left.legend(loc="lower right")
    right.plot(dobrushin, columns["local_delta_at_0"], ".", color=BLUE, markersize=4, label="δ at ε = 0: Dobrushin")
    right.plot(
        columns["dobrushin_at_epsilon"],
        columns["local_delta_at_epsilon"],
        "+",
        color=ORANGE,
        markersize=5,
        label=f"δ at ε = {EPSILON:g}: Dobrushin there",
    )
    shares = -np.expm1(-np.asarray(columns["local_pure_epsilon"]))
    right.plot(
        columns["ultra_mixing"], shares, "x", color=GREEN, markersize=4, label="1 - e^-ε of the pure ε: ultra-mixing"
    )
    right.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    right.set(xlabel="mixing constant", ylabel="local differential privacy", title="from the rows alone")
    right.legend(loc="upper left")


CONDITIONS = Experiment(
    name="geumlek-6.1",
    title="Thesis Figures 6.1 and 6.2: mixing conditions of kernels and their local privacy",
    seconds=0.96,
    run=_run,
    size=(8.8, 3.8),
    second=lambda: _run(seed=7),
)
