"""Thesis Figures 4.1 and 4.2 redrawn: one draw at a temperature beside noise on the statistic.

Source: Geumlek 2020, section 4.3. Its noise goes on both counts, Laplace of scale 2/epsilon; with n public one count is
enough, at 1/epsilon. Where the thesis repeats, the expectation over the noise is summed or integrated here; noise on
both counts of Figure 4.2 alone is simulated.
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
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.findings import Columns, Finding, Statement, Table, compared, in_words
from privsample.simulations.report.figures import BLUE, GREY, ORANGE

MODEL = BetaBernoulli(alpha=1, beta=1)
N, ONES, LOW, EPSILON = 20, 6, 0.2, 1.0  # of Figure 4.1
POINTS = 1000
SHARE, LOW_2, EPSILON_2 = 0.1, 0.05, 0.1  # of Figure 4.2
DELTA = 1e-6
SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
REPEATS = 100_000  # of noise on both counts
_LOST, _LEFT_OUT = -30.0, 1e-20  # log probability of noise, and probability of a count, that are left out
_PANELS = np.append(0.0, np.geomspace(0.01, 40.0, 24))  # of a quadrature over Laplace noise, in scales


def posteriors(points: int = POINTS, seed: int = 41) -> Result:
    """Figure 4.1: epsilon 1, true share 0.3, truncation 0.2, 20 observations of which 6 are ones; 30 noisy counts."""
    rng, x = np.random.default_rng(seed), (np.arange(points) + 0.5) / points
    made = TemperedPosterior.calibrate(model=MODEL, n=N, truncation=LOW, target=DP(epsilon=EPSILON))
    noise = DiscreteLaplaceNoise(scale=1 / EPSILON)
    one = np.clip(ONES + noise.sample((30,), rng), 0, N)
    both = np.maximum(np.array([[ONES], [N - ONES]]) + rng.laplace(0, 2 / EPSILON, (2, 30)), 0.0)
    heated = ONES / made.temperature, (N - ONES) / made.temperature
    inside = np.diff(special.betainc(1 + heated[0], 1 + heated[1], [LOW, 1 - LOW]))
    curves = {
        "posterior": stats.beta.pdf(x, 1 + ONES, 1 + N - ONES),
        "tempered": np.where((x >= LOW) & (x <= 1 - LOW), stats.beta.pdf(x, 1 + heated[0], 1 + heated[1]) / inside, 0),
        "both counts, average": _average_of_both(x),
        "one count, average": _average_of_one(x, noise),
    }
    curves |= {f"both counts, draw {k + 1}": stats.beta.pdf(x, 1 + s, 1 + f) for k, (s, f) in enumerate(both.T)}
    curves |= {f"one count, draw {k + 1}": stats.beta.pdf(x, 1 + s, 1 + N - s) for k, s in enumerate(one)}
    parts = [
        {"curve": name, "share": x, "density": y, "temperature": made.temperature if name == "tempered" else 1.0}
        for name, y in curves.items()
    ]
    return Result(
        columns=stacked(parts), describe=_of_posteriors, plot=lambda figure: _plot_posteriors(figure, x, curves)
    )


def _average_of_one(x: FloatArray, noise: DiscreteLaplaceNoise) -> FloatArray:
    """The density of a draw from the posterior of one noisy count, over the noise."""
    reach = np.ceil(noise.reach(_LOST))
    shifts = np.arange(-reach, reach + 1)
    counts = np.clip(ONES + shifts, 0, N)[:, None]
    return np.asarray(np.exp(noise.log_mass(shifts)) @ stats.beta.pdf(x, 1 + counts, 1 + N - counts))


def _average_of_both(x: FloatArray) -> FloatArray:
    """The density of a draw from the posterior of two noisy counts, over the noise."""
    (s, p), (f, q) = (_noisy_count(count, 2 / EPSILON) for count in (ONES, N - ONES))
    log_norm = special.betaln(1 + s[:, None], 1 + f)
    ones, zeros = np.exp(np.outer(s, np.log(x))), np.exp(np.outer(f, np.log1p(-x)))
    return np.asarray(np.einsum("ij,ix,jx->x", p[:, None] * q * np.exp(-log_norm), ones, zeros, optimize=True))


def _noisy_count(count: float, scale: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and masses of max(count + Laplace(scale), 0): Gauss-Legendre in panels, and what is taken to zero."""
    nodes, masses = np.polynomial.legendre.leggauss(6)
    above = scale * _PANELS
    panels = np.concatenate([-np.minimum(above, count)[::-1], above[1:]])
    widths = np.diff(panels)
    shifts = (panels[:-1, None] + widths[:, None] * (nodes + 1) / 2).ravel()
    weights = (widths[:, None] * masses / 2).ravel() * np.exp(-np.abs(shifts) / scale) / (2 * scale)
    used = weights > 0
    return np.append(count + shifts[used], 0.0), np.append(weights[used], np.exp(-count / scale) / 2)


def _of_posteriors(columns: Columns) -> Statement:
    widths = {}
    for name in ("posterior", "tempered", "both counts, average", "one count, average"):
        rows = Table(columns=columns).select(curve=name)
        widths[name] = _deviation(rows["share"], rows["density"])
    temperature = float(Table(columns=columns).select(curve="tempered")["temperature"][0])
    kept, tempered, both, one = widths.values()
    wider = compared("both counts - tempered", both - tempered)
    order = "wider than the tempered draw" if wider.compared else "no wider than the tempered draw"
    return Statement(
        f"At ε = {EPSILON:g} and {ONES} ones in {N} records, a draw held in [{LOW:g}, {1 - LOW:g}] needs the "
        f"temperature T = {temperature:.4f} (the thesis prints 2.7). The standard deviation of one released draw is "
        f"{tempered:.3f} for the tempered posterior, {both:.3f} for the posterior of both noisy counts as in the "
        f"thesis ({order}), and {one:.3f} for the posterior of one noisy count, which is enough where n is public; "
        f"without privacy it is {kept:.3f}. These numbers include the noise; the orange curves are 30 examples of it.",
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
    """The standard deviation of a distribution from its density on an even grid."""
    mass = density / density.sum()
    return float(np.sqrt(mass @ x**2 - (mass @ x) ** 2))


def _plot_posteriors(figure: Any, x: FloatArray, curves: Mapping[str, FloatArray]) -> None:
    grid = figure.subplots(1, 3, sharey=True)
    for axes in grid:
        axes.fill_between(
            x, curves["posterior"], color=GREY, alpha=0.35, linewidth=0, label="posterior without privacy"
        )
        axes.axvline(ONES / N, color=GREY, linewidth=1, linestyle=":", label="true share of ones, 0.3")
        axes.set(xlabel="share of ones", xlim=(0, 1))
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1], ["0", "0.2", "0.4", "0.6", "0.8", "1"])
    grid[0].plot(x, curves["tempered"], color=BLUE, label="distribution of one released draw")
    for axes, way in zip(grid[1:], ("both counts", "one count"), strict=True):
        drawn = [y for name, y in curves.items() if name.startswith(f"{way}, draw")]
        for k, density in enumerate(drawn):
            axes.plot(
                x, density, color=ORANGE, linewidth=0.7, alpha=0.35, label="" if k else "posteriors of 30 noisy counts"
            )
        axes.plot(x, curves[f"{way}, average"], color=BLUE)
    grid[0].set(title="tempered posterior", ylabel="density", ylim=(0, None))
    grid[1].set(title="Laplace noise on both counts (thesis)")
    grid[2].set(title="discrete Laplace noise on one count")
    keys = {label: line for axes in grid[:2] for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=4)


def error_of_beta(a: FloatArray, b: FloatArray, low: float = 0.0) -> FloatArray:
    """E|theta - SHARE| of Beta(a, b) held in [low, 1 - low], elementwise."""
    edges = [low, SHARE, 1 - low]
    mass = np.array([special.betainc(a, b, edge) for edge in edges])
    first = a / (a + b) * np.array([special.betainc(a + 1, b, edge) for edge in edges])
    below, above = np.diff(mass, axis=0)
    below_first, above_first = np.diff(first, axis=0)
    return np.asarray((SHARE * (below - above) + above_first - below_first) / (below + above))


def errors(sizes: tuple[int, ...] | None = None, repeats: int | None = None, seed: int = 42) -> Result:
    """Figure 4.2: E|draw - share| against the number of records; share 0.1, truncation 0.05, epsilon 0.1."""
    rng = np.random.default_rng(seed)
    pure = TemperedPosterior.calibrate(model=MODEL, n=1, truncation=LOW_2, target=DP(epsilon=EPSILON_2)).temperature
    rows = [_errors_at(n, pure, repeats or REPEATS, rng) for n in sizes or SIZES]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Result(columns=columns, describe=_of_errors, plot=lambda figure: _plot_errors(figure, columns))


def _errors_at(n: int, pure: float, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    """Of each way the mean absolute error of a draw from n records: summed over data and noise, but for `both`."""
    every = np.arange(n + 1.0)
    distribution = stats.binom.pmf(every, n, SHARE)
    counts, mass = every[distribution > _LEFT_OUT], distribution[distribution > _LEFT_OUT]
    target = DP(epsilon=EPSILON_2, delta=DELTA)
    loose = TemperedPosterior.calibrate(model=MODEL, n=n, truncation=LOW_2, target=target).temperature
    noise = DiscreteLaplaceNoise(scale=1 / EPSILON_2)
    reach = np.ceil(noise.reach(_LOST))
    noisy = np.convolve(distribution, np.exp(noise.log_mass(np.arange(-reach, reach + 1))))
    by_noisy = error_of_beta(1 + every, 1 + n - every)[np.clip(np.arange(-reach, n + reach + 1), 0, n).astype(np.intp)]
    ones = rng.binomial(n, SHARE, repeats)
    both = np.maximum(np.array([ones, n - ones]) + rng.laplace(0, 2 / EPSILON_2, (2, repeats)), 0.0)
    simulated = error_of_beta(1 + both[0], 1 + both[1])
    return {
        "records": n,
        "posterior": float(mass @ error_of_beta(1 + counts, 1 + n - counts)),
        "both": float(simulated.mean()),
        "both_standard_error": float(simulated.std(ddof=1) / repeats**0.5),
        "one": float(noisy @ by_noisy / noisy.sum()),
        "tempered": float(mass @ error_of_beta(1 + counts / pure, 1 + (n - counts) / pure, LOW_2)),
        "approximate": float(mass @ error_of_beta(1 + counts / loose, 1 + (n - counts) / loose, LOW_2)),
        "temperature": pure,
        "temperature_at_delta": loose,
    }


def _of_errors(columns: Columns) -> Statement:
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
    verdict = f"better with {in_words(better)} records" if better else "better with none of these numbers of records"
    verdict += f" and worse with {in_words(worse)}" if worse else ""
    verdict += f"; with {in_words(unclear)} the simulation cannot tell" if unclear else ""
    last = {name: float(column[-1]) for name, column in rows.items()}
    return Statement(
        "Mean absolute error of one released draw: the thesis says that the tempered draw is better than its noise "
        f"on both counts only at about 10 records. Here it is {verdict}. With {last['records']:g} records and ε = "
        f"{EPSILON_2:g} the error is {last['posterior']:.4f} without privacy, {last['one']:.4f} with noise on one "
        f"count, {last['both']:.4f} with noise on both, and {last['tempered']:.4f} at the fixed temperature "
        f"{last['temperature']:.1f}. Allowing δ = {DELTA:g} lowers the temperature to "
        f"{last['temperature_at_delta']:.1f} and the error to {last['approximate']:.4f}. The error on both counts is "
        f"a mean of {REPEATS:,} simulations, the others are computed.",
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
        "tempered": (BLUE, "--", f"tempered, T = {columns['temperature'][0]:.1f}, δ = 0 (thesis)"),
        "approximate": (BLUE, "-", "tempered, T lowered at δ = 10⁻⁶"),
    }
    axes = figure.subplots()
    for name, (colour, dashes, label) in styles.items():
        axes.plot(columns["records"], columns[name], color=colour, linestyle=dashes, label=label, marker="o", ms=3.5)
    axes.set(xscale="log", yscale="log")
    axes.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3], ["0.003", "0.01", "0.03", "0.1", "0.3"])
    axes.set_xticks([10, 100, 1000, 10_000], ["10", "100", "1000", "10,000"])
    axes.minorticks_off()
    axes.set(
        xlabel="number of records",
        ylabel="mean absolute error of one draw",
        title=f"true share {SHARE:g}, ε = {EPSILON_2:g}; the draw's own scatter included",
    )
    figure.legend(loc="outside lower center", ncols=1)


POSTERIORS = Experiment(
    name="geumlek-4.1",
    title="Thesis Figure 4.1: a tempered posterior beside posteriors from noisy counts",
    run=posteriors,
    size=(9.6, 3.5),
    second=lambda: posteriors(5 * POINTS // 2, seed=141),
)
ERRORS = Experiment(
    name="geumlek-4.2",
    title="Thesis Figure 4.2: error of private draws against the number of records",
    run=errors,
    size=(5.2, 5.2),
    second=lambda: errors(seed=142),
)
