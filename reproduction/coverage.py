"""How often 90 % intervals for a share of ones hold it, at each true share: aware of the noise, and plug-in.

A count of n records is released once with discrete Laplace noise of scale 1 / epsilon; the prior is Beta(1, 1). The
share is held fixed, so this is coverage in the frequentist's sense, which Bayesian intervals need not have: it is
drawn, not claimed. Nothing is simulated: probabilities of all noisy counts are summed.
"""

from functools import cache
from typing import Any

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.noise import DiscreteLaplaceNoise
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table, value_at

LEVEL = 0.9
SIZES, EPSILONS = (20, 200, 1000), (0.1, 0.3, 1.0)
SHARES = np.append((np.arange(100) + 0.5) / 100, 0.5)
SHARES.sort()
METHODS = {"noise-aware": BLUE, "plug-in": ORANGE}
MODEL = BetaBernoulli(alpha=1.0, beta=1.0)
_LEFT_OUT = -14.0  # log probability of the noise beyond the noisy counts that are summed


@cache
def intervals(n: int, epsilon: float, method: str) -> tuple[FloatArray, FloatArray]:
    """Noisy counts, shape (outcomes,), and the ends of the central interval after each, shape (outcomes, 2)."""
    noise = DiscreteLaplaceNoise(scale=1 / epsilon)
    reach = np.ceil(noise.quantile_bound(_LEFT_OUT))
    noisy, tails = np.arange(-reach, n + reach + 1), np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])

    def distribution(y: float) -> PosteriorDistribution:
        if method == "plug-in":
            return MODEL.posterior(MODEL.feasible(np.array(y), n), n)
        return MODEL.noise_aware(n, noise, np.array([y])).distribution

    ends = {y: distribution(y).quantile(tails) for y in np.unique(np.clip(noisy, 0, n))} if method == "plug-in" else {}
    return noisy, np.array([ends[min(max(y, 0), n)] if ends else distribution(y).quantile(tails) for y in noisy])


def coverage(n: int, epsilon: float, method: str, shares: FloatArray | None = None) -> FloatArray:
    """P(the interval holds the share) at each share, by default SHARES, at least; it falls short by at most 1e-6."""
    at = SHARES if shares is None else shares
    noise, counts = DiscreteLaplaceNoise(scale=1 / epsilon), np.arange(n + 1.0)
    noisy, ends = intervals(n, epsilon, method)
    by_count = np.exp(noise.log_mass(noisy[:, None] - counts))
    of_noisy = by_count @ stats.binom.pmf(counts[:, None], n, at)
    return np.asarray((of_noisy * ((ends[:, :1] <= at) & (ends[:, 1:] >= at))).sum(axis=0))


def mean_coverage(n: int, epsilon: float, method: str) -> float:
    """The mean of the coverage over all shares in [0, 1], in closed form, at least; it falls short by at most 1e-6.

    The integral of C(n, s) x^s (1 - x)^(n - s) over an interval is that of the density of Beta(s + 1, n - s + 1), over
    n + 1.
    """
    noise, counts = DiscreteLaplaceNoise(scale=1 / epsilon), np.arange(n + 1.0)
    noisy, ends = intervals(n, epsilon, method)
    total = 0.0
    for y, (low, high) in zip(noisy.tolist(), ends.tolist(), strict=True):
        near = counts[np.abs(counts - y) <= np.ceil(noise.quantile_bound(_LEFT_OUT))]
        inside = special.betainc(near + 1, n - near + 1, high) - special.betainc(near + 1, n - near + 1, low)
        total += float(np.exp(noise.log_mass(y - near)) @ inside)
    return total / (n + 1)


def run(shares: FloatArray | None = None) -> Result:
    """All sizes, epsilons and shares."""
    with_shares = SHARES if shares is None else shares
    parts: list[dict[str, Any]] = [
        {
            "records": n,
            "epsilon": epsilon,
            "method": method,
            "share": with_shares,
            "coverage": coverage(n, epsilon, method, with_shares),
            "mean_coverage": mean_coverage(n, epsilon, method),
        }
        for n in SIZES
        for epsilon in EPSILONS
        for method in METHODS
    ]
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, parts))


def _describe(columns: Columns) -> Statement:
    means = {method: np.unique(Table(columns=columns).select(method=method)["mean_coverage"]) for method in METHODS}
    aware, plug_in = means.values()
    settings = [
        (n, epsilon) for n in dict.fromkeys(columns["records"]) for epsilon in dict.fromkeys(columns["epsilon"])
    ]
    n, epsilon = settings[0]
    single = Table(columns=columns).select(records=n, epsilon=epsilon, method="noise-aware")
    share, edge = float(single["share"].min()), float(single["coverage"][single["share"].argmin()])
    middle = value_at(single["share"], single["coverage"], 0.5)
    hold = float(np.abs(aware - LEVEL).max())
    short = compared("level - plug-in, most", LEVEL - float(plug_in.min()))
    return Statement(
        f"A count of n records is released with discrete Laplace noise. Averaged over all shares between 0 and 1, "
        f"{LEVEL:.0%} credible intervals from the noise-aware posterior contain the true share in "
        + (f"{LEVEL:.1%}" if hold < 5e-4 else f"{aware.min():.1%} to {aware.max():.1%}")
        + " of the releases for every n and ε, as they must under the uniform prior; plug-in intervals, which treat "
        f"the noisy count as the true one, in {plug_in.min():.1%} to {plug_in.max():.1%}. For one fixed share "
        f"the coverage can differ: with n = {n:g} and ε = {epsilon:g} the noise-aware intervals contain the share "
        f"{share:g} in {edge:.1%} and the share 0.5 in {middle:.1%}.",
        (
            compared("5e-4 - distance from the level", 5e-4 - hold),
            Finding("plug-in, least", float(plug_in.min())),
            Finding("plug-in, most", float(plug_in.max())),
            Finding("middle", middle),
            short,
            compared("middle - edge", middle - edge),
        ),
    )


# The thin line lies on the thick one, so that both are seen where they coincide.
_LINES = {"noise-aware": {"linewidth": 2.4}, "plug-in": {"linewidth": 1.1}}


def _plot(figure: Any, parts: list[dict[str, Any]]) -> None:
    grid = figure.subplots(len(SIZES), len(EPSILONS), sharex=True, sharey=True)
    for part in parts:
        axes = grid[SIZES.index(part["records"]), EPSILONS.index(part["epsilon"])]
        axes.plot(
            part["share"],
            part["coverage"],
            color=METHODS[part["method"]],
            label=part["method"],
            **_LINES[part["method"]],
        )
        axes.set_title(f"n = {part['records']}, ε = {part['epsilon']:g}")
    for axes in grid.ravel():
        axes.axhline(
            LEVEL, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)), zorder=3, label=f"nominal coverage {LEVEL:.0%}"
        )
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
    figure.supxlabel("true share of ones (fixed)", fontsize=10)
    figure.supylabel(f"coverage of {LEVEL:.0%} intervals", fontsize=10)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


EXPERIMENT = Experiment(
    name="coverage",
    title="Coverage of intervals from noisy counts, at fixed shares",
    run=run,
    size=(6.4, 5.6),
    second=lambda: run(np.array([0.005, 0.1, 0.3, 0.5, 0.7, 0.995])),
)
