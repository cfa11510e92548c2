"""Thesis Figures 4.1 and 4.2: a draw from a tempered posterior compared with noise on the statistic.

Source: Geumlek 2020, section 4.3. It adds Laplace noise of scale 2/epsilon to both counts; if n is public, noise of
scale 1/epsilon on one count is sufficient. Where the thesis simulates, expectations over the noise are summed or
integrated here, except for the noise on both counts in Figure 4.2.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.noise import DiscreteLaplaceNoise
from privsample.mechanisms.posterior.tempered import TemperedPosterior
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

MODEL = BetaBernoulli(alpha=1, beta=1)
N, ONES, LOW, EPSILON = 20, 6, 0.2, 1.0  # of Figure 4.1
POINTS = 1000
SHARE, LOW_2, EPSILON_2 = 0.1, 0.05, 0.1  # of Figure 4.2
DELTA = 1e-6
SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
REPEATS = 100_000  # of noise on both counts
_LOST, _LEFT_OUT = -30.0, 1e-20  # omitted: noise of smaller log probability, and counts of smaller probability
_PANELS = np.append(0.0, np.geomspace(0.01, 40.0, 24))  # of a quadrature over Laplace noise, in scales


def posteriors(points: int = POINTS, seed: int = 41) -> Result:
    """Compute Figure 4.1: epsilon 1, 6 ones in 20 records, truncation 0.2, and 30 realizations of the noise."""
    rng, x = np.random.default_rng(seed), (np.arange(points) + 0.5) / points
    made = TemperedPosterior.calibrate(model=MODEL, n=N, truncation=LOW, target=DP(epsilon=EPSILON))
    noise = DiscreteLaplaceNoise(scale=1 / EPSILON)
    one = np.clip(ONES + noise.sample((30,), rng), 0, N)
    both = np.maximum(np.array([[ONES], [N - ONES]]) + rng.laplace(0, 2 / EPSILON, (2, 30)), 0.0)
    tempered = ONES / made.temperature, (N - ONES) / made.temperature
    inside = np.diff(special.betainc(1 + tempered[0], 1 + tempered[1], [LOW, 1 - LOW]))
    curves = {
        "posterior": stats.beta.pdf(x, 1 + ONES, 1 + N - ONES),
        "tempered": np.where(
            (x >= LOW) & (x <= 1 - LOW), stats.beta.pdf(x, 1 + tempered[0], 1 + tempered[1]) / inside, 0
        ),
        "both counts, average": _average_both(x),
        "one count, average": _average_one(x, noise),
    }
    curves |= {f"both counts, draw {k + 1}": stats.beta.pdf(x, 1 + s, 1 + f) for k, (s, f) in enumerate(both.T)}
    curves |= {f"one count, draw {k + 1}": stats.beta.pdf(x, 1 + s, 1 + N - s) for k, s in enumerate(one)}
    parts = [
        {"curve": name, "share": x, "density": y, "temperature": made.temperature if name == "tempered" else 1.0}
        for name, y in curves.items()
    ]
    return Result(
        columns=stacked(parts), describe=_describe_posteriors, plot=lambda figure: _plot_posteriors(figure, x, curves)
    )


def _average_one(x: FloatArray, noise: DiscreteLaplaceNoise) -> FloatArray:
    """Return the density of a posterior draw given one noisy count, averaged over the noise."""
    reach = np.ceil(noise.quantile_bound(_LOST))
    shifts = np.arange(-reach, reach + 1)
    counts = np.clip(ONES + shifts, 0, N)[:, None]
    return np.asarray(np.exp(noise.log_mass(shifts)) @ stats.beta.pdf(x, 1 + counts, 1 + N - counts))


def _average_both(x: FloatArray) -> FloatArray:
    """Return the density of a posterior draw given two noisy counts, averaged over the noise."""
    (s, p), (f, q) = (_noisy_count(count, 2 / EPSILON) for count in (ONES, N - ONES))
    log_norm = special.betaln(1 + s[:, None], 1 + f)
    ones, zeros = np.exp(np.outer(s, np.log(x))), np.exp(np.outer(f, np.log1p(-x)))
    return np.asarray(np.einsum("ij,ix,jx->x", p[:, None] * q * np.exp(-log_norm), ones, zeros, optimize=True))


def _noisy_count(count: float, scale: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of a quadrature over max(count + Laplace(scale), 0), including the atom at 0."""
    nodes, masses = np.polynomial.legendre.leggauss(6)
    above = scale * _PANELS
    panels = np.concatenate([-np.minimum(above, count)[::-1], above[1:]])
    widths = np.diff(panels)
    shifts = (panels[:-1, None] + widths[:, None] * (nodes + 1) / 2).ravel()
    weights = (widths[:, None] * masses / 2).ravel() * np.exp(-np.abs(shifts) / scale) / (2 * scale)
    used = weights > 0
    return np.append(count + shifts[used], 0.0), np.append(weights[used], np.exp(-count / scale) / 2)


def _describe_posteriors(columns: Columns) -> Statement:
    widths = {}
    for name in ("posterior", "tempered", "both counts, average", "one count, average"):
        rows = Table(columns=columns).select(curve=name)
        widths[name] = _deviation(rows["share"], rows["density"])
    temperature = float(Table(columns=columns).select(curve="tempered")["temperature"][0])
    kept, tempered, both, one = widths.values()
    wider = compared("both counts - tempered", both - tempered)
    order = "wider than the tempered draw" if wider.compared else "no wider than the tempered draw"
    return Statement(
        f"With {ONES} ones in {N} records and ε = {EPSILON:g}, a draw from the posterior truncated to [{LOW:g}, "
        f"{1 - LOW:g}] needs the temperature T = {temperature:.4f} (2.7 in the thesis): the likelihood is raised to "
        "the power 1/T. The standard deviation of one released draw is "
        f"{tempered:.3f} for the tempered posterior, {both:.3f} for the posterior of both noisy counts as in the "
        f"thesis ({order}), and {one:.3f} for the posterior of one noisy count, which is sufficient if n is public; "
        f"without privacy it is {kept:.3f}. The standard deviations include the variation of the noise; the orange "
        "curves show the posteriors for 30 realizations of the noise.",
        (
            Finding("temperature", temperature),
            Finding("posterior", kept),
            Finding("tempered", tempered),
            Finding("both counts", both),
            Finding("one count", one),
            wider,
            compared("both counts - one count", both - one),
        ),
    )


def _deviation(x: FloatArray, density: FloatArray) -> float:
    """Return the standard deviation of a distribution from its density on a regular grid."""
    mass = density / density.sum()
    return float(np.sqrt(mass @ x**2 - (mass @ x) ** 2))


def _plot_posteriors(figure: Any, x: FloatArray, curves: Mapping[str, FloatArray]) -> None:
    grid = figure.subplots(1, 3, sharey=True)
    for axes in grid:
        axes.fill_between(
            x, curves["posterior"], color=GREY, alpha=0.35, linewidth=0, label="posterior without privacy"
        )
        axes.axvline(ONES / N, color=GREY, linewidth=1, linestyle=":", label=f"share of ones, {ONES / N:g}")
        axes.set(xlabel="share of ones", xlim=(0, 1))
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1], ["0", "0.2", "0.4", "0.6", "0.8", "1"])
    grid[0].plot(x, curves["tempered"], color=BLUE, label="distribution of one released draw")
    for axes, way in zip(grid[1:], ("both counts", "one count"), strict=True):
        drawn = [y for name, y in curves.items() if name.startswith(f"{way}, draw")]
        for k, density in enumerate(drawn):
            axes.plot(
                x, density, color=ORANGE, linewidth=0.7, alpha=0.35, label="" if k else "posteriors of noisy counts"
            )
        axes.plot(x, curves[f"{way}, average"], color=BLUE)
    grid[0].set(title=f"tempered, truncated to [{LOW:g}, {1 - LOW:g}]", ylabel="density", ylim=(0, None))
    grid[1].set(title="Laplace noise on both counts (thesis)")
    grid[2].set(title="discrete Laplace noise on one count")
    title = f"uniform prior, {ONES} ones in n = {N} records, ε = {EPSILON:g}"
    keys = {label: line for axes in grid[:2] for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        keys.values(), keys.keys(), loc="outside upper left", ncols=4, title=title, alignment="left", columnspacing=1.2
    )


def beta_error(a: FloatArray, b: FloatArray, low: float = 0.0) -> FloatArray:
    """Return E|theta - SHARE| of Beta(a, b) truncated to [low, 1 - low], elementwise."""
    edges = [low, SHARE, 1 - low]
    mass = np.array([special.betainc(a, b, edge) for edge in edges])
    first = a / (a + b) * np.array([special.betainc(a + 1, b, edge) for edge in edges])
    below, above = np.diff(mass, axis=0)
    below_first, above_first = np.diff(first, axis=0)
    return np.asarray((SHARE * (below - above) + above_first - below_first) / (below + above))


def errors(sizes: tuple[int, ...] | None = None, repeats: int | None = None, seed: int = 42) -> Result:
    """Compute Figure 4.2: E|draw - share| against the number of records; share 0.1, truncation 0.05, epsilon 0.1."""
    rng = np.random.default_rng(seed)
    pure = TemperedPosterior.calibrate(model=MODEL, n=1, truncation=LOW_2, target=DP(epsilon=EPSILON_2)).temperature
    rows = [_errors_at(n, pure, repeats or REPEATS, rng) for n in sizes or SIZES]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Result(columns=columns, describe=_describe_errors, plot=lambda figure: _plot_errors(figure, columns))


def _errors_at(n: int, pure: float, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the mean absolute error of a draw by each method: exact sums over data and noise, simulated for `both`."""
    every = np.arange(n + 1.0)
    distribution = stats.binom.pmf(every, n, SHARE)
    counts, mass = every[distribution > _LEFT_OUT], distribution[distribution > _LEFT_OUT]
    target = DP(epsilon=EPSILON_2, delta=DELTA)
    loose = TemperedPosterior.calibrate(model=MODEL, n=n, truncation=LOW_2, target=target).temperature
    noise = DiscreteLaplaceNoise(scale=1 / EPSILON_2)
    reach = np.ceil(noise.quantile_bound(_LOST))
    noisy = np.convolve(distribution, np.exp(noise.log_mass(np.arange(-reach, reach + 1))))
    by_noisy = beta_error(1 + every, 1 + n - every)[np.clip(np.arange(-reach, n + reach + 1), 0, n).astype(np.intp)]
    ones = rng.binomial(n, SHARE, repeats)
    both = np.maximum(np.array([ones, n - ones]) + rng.laplace(0, 2 / EPSILON_2, (2, repeats)), 0.0)
    simulated = beta_error(1 + both[0], 1 + both[1])
    return {
        "records": n,
        "posterior": float(mass @ beta_error(1 + counts, 1 + n - counts)),
        "both": float(simulated.mean()),
        "both_standard_error": float(simulated.std(ddof=1) / repeats**0.5),
        "one": float(noisy @ by_noisy / noisy.sum()),
        "tempered": float(mass @ beta_error(1 + counts / pure, 1 + (n - counts) / pure, LOW_2)),
        "approximate": float(mass @ beta_error(1 + counts / loose, 1 + (n - counts) / loose, LOW_2)),
        "temperature": pure,
        "temperature_at_delta": loose,
    }


def _describe_errors(columns: Columns) -> Statement:
    rows = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
    sizes, own = rows["records"], rows["both_standard_error"]
    ahead = [
        compared(f"both - tempered at {n:g}", gap, error)
        for n, gap, error in zip(sizes, rows["both"] - rows["tempered"], own, strict=True)
    ]
    behind = [
        compared(f"tempered - both at {n:g}", gap, error)
        for n, gap, error in zip(sizes, rows["tempered"] - rows["both"], own, strict=True)
    ]
    better = [f"{n:g}" for n, found in zip(sizes, ahead, strict=True) if found.compared]
    worse = [f"{n:g}" for n, found in zip(sizes, behind, strict=True) if found.compared]
    unclear = [f"{n:g}" for n in sizes if f"{n:g}" not in better + worse]
    verdict = f"smaller with {join_names(better)} records" if better else "smaller for none of these numbers of records"
    verdict += f" and larger with {join_names(worse)}" if worse else ""
    verdict += f"; with {join_names(unclear)} the simulation shows no clear difference" if unclear else ""
    last = {name: float(column[-1]) for name, column in rows.items()}
    return Statement(
        "Mean absolute error of one released draw. According to the thesis a tempered draw has a smaller error than a "
        f"posterior draw from two noisy counts only for about 10 records. Here its error is {verdict}. With "
        f"{last['records']:g} records and ε = {EPSILON_2:g} the error is {last['posterior']:.4f} without privacy, "
        f"{last['one']:.4f} with noise on one count, {last['both']:.4f} with noise on both, and {last['tempered']:.4f} "
        f"at the fixed temperature {last['temperature']:.1f}. Allowing δ = {DELTA:g} lowers the temperature to "
        f"{last['temperature_at_delta']:.1f} and the error to {last['approximate']:.4f}. The error with noise on both "
        f"counts is the mean of {REPEATS:,} simulations; the other errors are computed exactly.",
        (
            *(found for found in ahead + behind if found.compared),
            *(Finding(f"{name} at the end", last[name]) for name in ("posterior", "one", "tempered", "approximate")),
            Finding("both at the end", last["both"], last["both_standard_error"]),
            Finding("temperature at delta", last["temperature_at_delta"]),
        ),
    )


def _plot_errors(figure: Any, columns: Mapping[str, list[float]]) -> None:
    styles = {
        "posterior": (GREY, ":", "posterior without privacy"),
        "both": (ORANGE, "--", "Laplace noise on both counts (thesis)"),
        "one": (ORANGE, "-", "discrete Laplace noise on one count"),
        "tempered": (BLUE, "--", f"tempered, δ = 0: temperature {columns['temperature'][0]:.1f} (thesis)"),
        "approximate": (BLUE, "-", "tempered, δ = 10⁻⁶"),
    }
    axes = figure.subplots()
    for name, (colour, dashes, label) in styles.items():
        axes.plot(columns["records"], columns[name], color=colour, linestyle=dashes, label=label, marker="o", ms=3.5)
    axes.set(xscale="log", yscale="log")
    axes.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3], ["0.003", "0.01", "0.03", "0.1", "0.3"])
    axes.set_xticks([10, 100, 1000, 10_000], ["10", "100", "1000", "10,000"])
    axes.minorticks_off()
    axes.set(
        xlabel="number of records n",
        ylabel="mean absolute error of one draw",
        title=f"uniform prior, true share of ones {SHARE:g}, ε = {EPSILON_2:g}",
    )
    axes.legend(loc="lower left")


POSTERIORS = Experiment(
    name="geumlek-4.1",
    title="Thesis Figure 4.1: a tempered posterior and posteriors from noisy counts",
    seconds=1.1,
    run=posteriors,
    size=(9.6, 3.5),
    second=lambda: posteriors(5 * POINTS // 2, seed=141),
)
ERRORS = Experiment(
    name="geumlek-4.2",
    title="Thesis Figure 4.2: error of private draws against the number of records",
    seconds=5,
    run=errors,
    size=(5.2, 5.2),
    second=lambda: errors(seed=142),
)
