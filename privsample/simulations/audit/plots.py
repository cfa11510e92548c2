"""The plot of an audit as SVG: the claimed privacy curve and confidence bounds. Equal input gives equal bytes."""

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.plots.curves import plot_audit_bounds
from privsample.simulations.audit.verdict import Verdict
from privsample.simulations.report.figures import figure


def plot_audit(account: Accountant, verdict: Verdict) -> bytes:
    """Plot the claimed curve of one draw, half of it, and the confidence intervals of the audit at each epsilon."""
    with figure(height=3.0) as ((axes,), file):
        points = verdict.epsilons
        grid, claim = claimed_curve(account, float(points.max()))
        bounds = {"epsilons": points, "lowers": verdict.lowers, "uppers": verdict.uppers}
        plot_audit_bounds(axes, **bounds, curve=(grid, claim), title="", half=True)
        axes.figure.legend(loc="outside upper left", ncols=1)
    return file.getvalue()


def claimed_curve(account: Accountant, last: float) -> tuple[FloatArray, FloatArray]:
    """Return points (epsilon, delta) of the claim, up to 15 % beyond the last epsilon."""
    grid = np.linspace(0.0, max(last * 1.15, 1e-3), 40)
    return grid, account.delta(grid)
