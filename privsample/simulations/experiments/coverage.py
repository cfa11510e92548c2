"""How often 90 % intervals for a share of ones hold it, at each true share: aware of the noise, and plug-in.

A count of n records is released once with discrete Laplace noise of scale 1 / epsilon; the prior is Beta(1, 1). The
share is held fixed, so this is coverage in the frequentist's sense, which Bayesian intervals need not have: it is
drawn, not claimed. Nothing is simulated: probabilities of all noisy counts are summed.
"""

from typing import Any

import numpy as np
from scipy import stats

from privsample._checks import FloatArray
from privsample.distributions.laws.conjugate import Law
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.noise import DiscreteLaplaceNoise
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.report.figures import BLUE, GREY, ORANGE

LEVEL = 0.9
SIZES, EPSILONS = (20, 200, 1000), (0.1, 0.3, 1.0)
SHARES = (np.arange(100) + 0.5) / 100
METHODS = {"noise-aware": BLUE, "plug-in": ORANGE}
MODEL = BetaBernoulli(alpha=1.0, beta=1.0)
_LEFT_OUT = -14.0  # log probability of the noise beyond the noisy counts that are summed


def intervals(n: int, epsilon: float, method: str) -> tuple[FloatArray, FloatArray]:
    """Noisy counts, shape (outcomes,), and the ends of the central interval after each, shape (outcomes, 2)."""
    noise = DiscreteLaplaceNoise(scale=1 / epsilon)
    reach = np.ceil(noise.reach(_LEFT_OUT))
    noisy, tails = np.arange(-reach, n + reach + 1), np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])

    def law(y: float) -> Law:
        if method == "plug-in":
            return MODEL.posterior(MODEL.feasible(np.array(y), n), n)
        return MODEL.noise_aware(n, noise, np.array([y])).law

    ends = {y: law(y).quantile(tails) for y in np.unique(np.clip(noisy, 0, n))} if method == "plug-in" else {}
    return noisy, np.array([ends[min(max(y, 0), n)] if ends else law(y).quantile(tails) for y in noisy])


def coverage(n: int, epsilon: float, method: str) -> FloatArray:
    """P(the interval holds the share) at each of SHARES, at least; it falls short by at most 1e-6."""
    noise, counts = DiscreteLaplaceNoise(scale=1 / epsilon), np.arange(n + 1.0)
    noisy, ends = intervals(n, epsilon, method)
    by_count = np.exp(noise.log_mass(noisy[:, None] - counts))
    of_noisy = by_count @ stats.binom.pmf(counts[:, None], n, SHARES)
    return np.asarray((of_noisy * ((ends[:, :1] <= SHARES) & (ends[:, 1:] >= SHARES))).sum(axis=0))


def run() -> Result:
    """All sizes, epsilons and shares."""
    parts: list[dict[str, Any]] = [
        {
            "records": n,
            "epsilon": epsilon,
            "method": method,
            "share": SHARES,
            "coverage": coverage(n, epsilon, method),
        }
        for n in SIZES
        for epsilon in EPSILONS
        for method in METHODS
    ]
    mean = {method: [float(p["coverage"].mean()) for p in parts if p["method"] == method] for method in METHODS}
    aware = [p for p in parts if p["method"] == "noise-aware"]
    return Result(
        columns=stacked(parts),
        sentence=f"Averaged over the shares, {LEVEL:.0%} intervals that are aware of the noise hold the share in "
        f"{min(mean['noise-aware']):.1%} to {max(mean['noise-aware']):.1%} of all releases, plug-in intervals in "
        f"{min(mean['plug-in']):.1%} to {max(mean['plug-in']):.1%}; at single shares the former hold it in "
        f"{min(p['coverage'].min() for p in aware):.1%} to {max(p['coverage'].max() for p in aware):.1%}.",
        plot=lambda figure: _plot(figure, parts),
    )


def _plot(figure: Any, parts: list[dict[str, Any]]) -> None:
    grid = figure.subplots(len(SIZES), len(EPSILONS), sharex=True, sharey=True)
    for part in parts:
        axes = grid[SIZES.index(part["records"]), EPSILONS.index(part["epsilon"])]
        axes.plot(SHARES, part["coverage"], color=METHODS[part["method"]], linewidth=1.3, label=part["method"])
        axes.set_title(f"n = {part['records']}, ε = {part['epsilon']:g}")
    for axes in grid.ravel():
        axes.axhline(LEVEL, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
    figure.supxlabel("true share of ones", fontsize=10)
    figure.supylabel(f"coverage of {LEVEL:.0%} intervals", fontsize=10)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)


EXPERIMENT = Experiment(
    name="coverage", title="Coverage of intervals from noisy counts, at fixed shares", run=run, size=(6.4, 5.6)
)
