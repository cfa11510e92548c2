"""The plot of an audit as SVG: the claimed privacy curve and confidence bounds. Equal input gives equal bytes."""

from collections.abc import Sequence

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.simulations.audit.verdict import Verdict
from privsample.simulations.report.figures import BLUE, GREY, ORANGE, figure


def plot_audit(account: Accountant, verdict: Verdict, *, limits: tuple[float, float] | None = None) -> bytes:
    """Plot the claimed curve of one draw, half of it, and the confidence intervals of the audit at each epsilon.

    `limits` are the ends of both axes, (epsilon, delta), for pictures that share their axes; see `audit_limits`.
    """
    with figure(height=3.0) as ((axes,), file):
        points = verdict.epsilons
        grid, claim = claimed_curve(account, float(points.max()))
        axes.plot(grid, claim, color=BLUE, label="claimed δ(ε), one draw")
        axes.plot(
            grid, claim / 2, color=GREY, linestyle=(0, (2, 2)), linewidth=1.3, label="half of the claim, for comparison"
        )
        middle, reach = (verdict.lowers + verdict.uppers) / 2, (verdict.uppers - verdict.lowers) / 2
        style = {"fmt": "none", "ecolor": ORANGE, "elinewidth": 2, "capsize": 4, "capthick": 2}
        axes.errorbar(points, middle, yerr=reach, label="confidence intervals of the audit", **style)
        last, top = (None, None) if limits is None else limits
        axes.set(xlabel="ε, nats", ylabel="δ", xlim=(None if last is None else -0.02 * last, last), ylim=(0.0, top))
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
