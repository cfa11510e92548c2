"""Outcomes of calibration by simulation: the p-value of each cell of a table of counts."""

from typing import NamedTuple

from privsample._checks import FloatArray
from privsample.simulations.report.findings import Columns
from reproduction.calibration_uniformity import p_value
from reproduction.tables import Table

LEVEL = 1e-6  # of each cell
PYMC, AWARE, INFER = "PyMC", "noise_aware", "infer"
PLUG_IN, UNBOUNDED, NARROW = "plug-in", "bounds ignored", "noise × 0.8"
TESTED, CONTROLS = (PYMC, AWARE, INFER), (PLUG_IN, UNBOUNDED, NARROW)


class Outcome(NamedTuple):
    """The p-value of a cell, and the counts of its least uniform column."""

    method: str
    model: str
    records: int
    epsilon: float
    clipped: float
    p_value: float
    columns: int
    counts: FloatArray

    @property
    def rejected(self) -> bool:
        """Whether uniform ranks are rejected at LEVEL."""
        return self.p_value <= LEVEL

    @property
    def description(self) -> str:
        """The cell in words."""
        clipped = f", {self.clipped:.0%} clipped" if self.clipped else ""
        return f"{self.method}, {self.model}, n = {self.records:,}, ε = {self.epsilon:g}{clipped}"


def outcomes(columns: Columns) -> list[Outcome]:
    """The outcomes of all cells of a table, in its order."""
    found = []
    for place, cell in Table(columns=columns).groups("method", "model", "records", "epsilon", "clipped"):
        counts = cell["count"]
        value = min(1.0, float(cell["columns"][0]) * p_value(counts))
        method, model, n, epsilon, clipped = place
        found.append(
            Outcome(method, model, int(n), float(epsilon), float(clipped), value, int(cell["columns"][0]), counts)
        )
    return found
