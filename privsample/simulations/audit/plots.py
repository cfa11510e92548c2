"""The plot of an audit as SVG: the claimed privacy curve and confidence bounds. Equal input gives equal bytes."""

from collections.abc import Sequence

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.plots.curves import plot_audit_bounds
from privsample.simulations.audit.verdict import Verdict
from privsample.simulations.report.figures import figure


def plot_audit(account: Accountant, verdict: Verdict, *, limits: tuple[float, float] | None = None) -> bytes:
    """Plot the claimed curve of one draw, half of it, and the confidence intervals of the audit at each epsilon.

    `limits` are the ends of both axes, (epsilon, delta), for pictures that share their axes; see `audit_limits`.
    """
    with figure(height=3.0) as ((axes,), file):
        points = verdict.epsilons
        grid, claim = claimed_curve(account, float(points.max()))
        bounds = {"epsilons": points, "lowers": verdict.lowers, "uppers": verdict.uppers}
        plot_audit_bounds(axes, **bounds, curve=(grid, claim), title="", half=True)
        last, top = (None, None) if limits is None else limits
        axes.set(xlim=(None if last is None else -0.02 * last, last), ylim=(0.0, top))
        axes.figure.legend(loc="outside upper left", ncols=1)
    return file.getvalue()


def audit_limits(accounts: Sequence[Accountant], verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """Return ends of the epsilon axis and the delta axis that hold the pictures of all these audits."""
    last, top = 0.0, 0.0
    for account, verdict in zip(accounts, verdicts, strict=True):
        grid, claim = claimed_curve(account, float(verdict.epsilons.max()))
        last, top = max(last, float(grid[-1])), max(top, float(claim.max()), float(verdict.uppers.max()))
    return 1.02 * last, 1.05 * top


def claimed_curve(account: Accountant, last: float) -> tuple[FloatArray, FloatArray]:
    """Return points (epsilon, delta) of the claim, up to 15 % beyond the last epsilon."""
    grid = np.linspace(0.0, max(last * 1.15, 1e-3), 40)
    return grid, account.delta(grid)
