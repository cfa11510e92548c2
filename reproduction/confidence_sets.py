"""How often confidence sets contain the true parameters, with few records, much noise and bounds that clip.

The parameters are held fixed. Plug-in intervals, which take the noisy statistic of clipped records for that of the
records themselves, are drawn beside them; with a flat prior they would have the level if there were no noise.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.inference.confidence import ConfidenceSet
from privsample.mechanisms.noise.private_statistics import PrivateStatistics
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.release import Release
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

LEVEL, N, SIMULATED = 0.95, 30, 199
EPSILONS, CLIPPED = (0.5, 1.0, 5.0), (0.001, 0.05, 0.25)
REPEATS, LENGTHS = 2000, 60
_LENGTH_ERROR = 0.08  # relative standard error of a median of LENGTHS lengths, about
FALSE_ALARM = 0.01  # of the tests of all settings together
METHODS = {"confidence set": BLUE, "plug-in": ORANGE}
_MARKERS = {0.5: "v", 1.0: "o", 5.0: "^"}
_TAILS = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])


class Case(NamedTuple):
    """A model as a function of the share of clipped records, its true parameters, and the ranges searched."""

    model: Callable[[float], Model]
    truth: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    shares: tuple[float, ...] | None = None  # None: all of CLIPPED


def _normal_bounds(share: float, mean: float, deviation: float) -> tuple[float, float]:
    """Bounds of which the upper one clips this share, and the lower one next to nothing."""
    low, high = stats.norm.ppf([0.001, 1 - share], mean, deviation)
    return float(low), float(high)


CASES = {
    "Bernoulli": Case(lambda _: BetaBernoulli(alpha=1, beta=1), {"theta": 0.2}, {"theta": (0.0, 1.0)}, (0.0,)),
    "Poisson": Case(
        lambda share: GammaPoisson(shape=1, rate=0.001, upper=int(stats.poisson.ppf(1 - share, 3.0))),
        {"rate": 3.0},
        {"rate": (0.0, 30.0)},
    ),
    "exponential": Case(
        lambda share: GammaExponential(shape=0.1, rate=0.1, upper=float(-np.log(share))),
        {"rate": 1.0},
        {"rate": (0.05, 20.0)},
    ),
    "normal, known variance": Case(
        lambda share: NormalKnownVariance(
            mean=0, variance=1e6, noise_variance=1, bounds=_normal_bounds(share, 0.3, 1.0)
        ),
        {"mean": 0.3},
        {"mean": (-10.0, 10.0)},
    ),
    "normal, both unknown": Case(
        lambda share: NormalUnknownVariance(
            mean=0, observations=1e-3, shape=0.1, scale=0.1, bounds=_normal_bounds(share, 0.3, 1.0)
        ),
        {"mean": 0.3, "variance": 1.0},
        {"mean": (-10.0, 10.0), "variance": (0.0, 25.0)},
    ),
}


def simulate(
    case: Case, share: float, epsilon: float, repeats: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Whether set and plug-in interval contain the truth, (2, repeats), and lengths of intervals of the first sets."""
    model, truth = case.model(share), np.array(list(case.truth.values()))
    one = len(truth) == 1
    mechanism = NoisyStatistics.calibrate(model=model, n=N, target=DP(epsilon=epsilon))
    hits, lengths = np.empty((len(METHODS), repeats)), np.full(min(LENGTHS, repeats), np.nan)
    theta = truth[0] if one else truth
    for i in range(repeats):
        release = mechanism.release(model.simulate(theta, N, rng), rng=rng)
        found = confidence_set(release, case, rng)
        hits[0, i] = found.contains(**case.truth)
        hits[1, i] = _plug_in_contains(release, theta) if one else np.nan
        if one and i < len(lengths):
            lengths[i] = _length(found, next(iter(case.truth)))
    return hits, lengths


def confidence_set(release: Release, case: Case, rng: np.random.Generator) -> ConfidenceSet:
    """The confidence set of a release."""
    seed = tuple(int(word) for word in rng.integers(2**32, size=8))
    return ConfidenceSet(release=release, parameters=case.ranges, level=LEVEL, simulations=SIMULATED, seed=seed)


def _plug_in_contains(release: Release, truth: Any) -> bool:
    low, high = PrivateStatistics(release=release).posterior().quantile(_TAILS)
    return bool(low <= truth <= high)


def _length(found: ConfidenceSet, name: str) -> float:
    """The length of an interval, 0 if the set is empty."""
    return 0.0 if found.is_empty() else float(np.ptp(found.interval(name)))


@cache
def length_without_privacy(name: str, seed: int, lengths: int) -> float:
    """The median length of intervals from the same number of records without noise and bounds."""
    case, rng = CASES[name], np.random.default_rng(seed)
    model = case.model(1e-12)
    mechanism = NoisyStatistics(model=model, n=N, scale=1e-6)
    theta, found = next(iter(case.truth.values())), []
    for _ in range(lengths):
        release = mechanism.release(model.simulate(np.array(theta), N, rng), rng=rng)
        found.append(_length(confidence_set(release, case, rng), next(iter(case.truth))))
    return float(np.median(found))


def run(seed: int = 5) -> Result:
    """Simulate all models, shares of clipped records and epsilons; each setting has its own seed."""
    parts: list[dict[str, Any]] = []
    for at, (name, case) in enumerate(CASES.items()):
        for share in case.shares or CLIPPED:
            for epsilon in EPSILONS:
                rng = np.random.default_rng([seed, at, round(1000 * share), round(10 * epsilon)])
                hits, lengths = simulate(case, share, epsilon, REPEATS, rng)
                for method, own in zip(METHODS, hits, strict=True):
                    if not np.isnan(own).any():
                        first = method == "confidence set" and len(case.truth) == 1
                        without = length_without_privacy(name, seed, LENGTHS) if first else np.nan
                        length = float(np.median(lengths)) / without if first else np.nan
                        parts.append(
                            {
                                "model": name,
                                "clipped": share,
                                "epsilon": epsilon,
                                "method": method,
                                "coverage": float(own.mean()),
                                "simulations": len(own),
                                "relative_length": length,
                            }
                        )
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, parts))


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    sets, plug_in = table.select(method="confidence set"), table.select(method="plug-in")
    count, repeats = len(sets), int(sets["simulations"][0])
    hits = np.round(sets["coverage"] * sets["simulations"])
    rejected = int((stats.binom.cdf(hits, sets["simulations"], LEVEL) < FALSE_ALARM / count).sum())
    mean, error = float(sets["coverage"].mean()), (LEVEL * (1 - LEVEL) / (count * repeats)) ** 0.5
    single = (LEVEL * (1 - LEVEL) / repeats) ** 0.5
    worst = int(plug_in["coverage"].argmin())
    least = float(plug_in["coverage"][worst])
    weakest, strongest = float(max(sets["epsilon"])), float(min(sets["epsilon"]))
    short, long = (_median_length(sets.select(epsilon=epsilon)) for epsilon in (weakest, strongest))
    return Statement(
        f"{repeats:,} releases of {N} records for each model, share of clipped records and ε, at fixed parameters. The "
        f"{LEVEL:.0%} confidence sets contain the true parameters in {mean:.1%} of all, and in "
        f"{sets['coverage'].min():.1%} to {sets['coverage'].max():.1%} in the {count} settings, where chance alone "
        f"gives a standard error of {single:.1%}. A coverage of at least {LEVEL:.0%} is rejected in {rejected} of "
        f"{count} settings (binomial tests, {FALSE_ALARM:.0%} for all together). Plug-in intervals contain them in as "
        f"few as {least:.1%}. In the median setting the intervals are {short:.1f} times as long as without noise and "
        f"bounds at ε = {weakest:g}, and {long:.1f} times at ε = {strongest:g}.",
        (
            Finding("mean coverage", mean, error),
            compared("0.5 - rejected", 0.5 - rejected),
            Finding("plug-in, least", least, 2 * max(single, (least * (1 - least) / repeats) ** 0.5)),
            compared("level - plug-in, least", LEVEL - least, single),
            Finding("relative length at the largest epsilon", short, _LENGTH_ERROR * short),
            compared("longer at the smallest epsilon", long - short, _LENGTH_ERROR * long),
        ),
    )


def _median_length(table: Table) -> float:
    """The median over the settings of one epsilon; models of several parameters have no lengths."""
    return float(np.nanmedian(table["relative_length"]))


def _plot(figure: Any, parts: list[dict[str, Any]]) -> None:
    grid = figure.subplots(2, len(CASES), sharex="col", sharey="row")
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], REPEATS, LEVEL) / REPEATS
    for column, (name, case) in enumerate(CASES.items()):
        top, bottom = grid[:, column]
        top.axhspan(low, high, color=GREY, alpha=0.3, linewidth=0, label=f"99% of simulated coverages of {LEVEL:.0%}")
        shares = list(case.shares or CLIPPED)
        for part in parts:
            if part["model"] == name:
                place = shares.index(part["clipped"]) + 0.22 * (
                    EPSILONS.index(part["epsilon"]) - (len(EPSILONS) - 1) / 2
                )
                style = {"marker": _MARKERS[part["epsilon"]], "linestyle": "none", "markersize": 6}
                label = f"{part['method']}, ε = {part['epsilon']:g}"
                top.plot(place, part["coverage"], color=METHODS[part["method"]], label=label, **style)
                if not np.isnan(part["relative_length"]):
                    bottom.plot(place, part["relative_length"], color=METHODS[part["method"]], **style)
        top.set_title(name, fontsize=10)
        bottom.set_xticks(range(len(shares)), [f"{share:.3g}" for share in shares])
        bottom.set_xlim(-0.5, len(shares) - 0.5)
        if len(case.truth) > 1:
            bottom.text(0.5, 0.5, "(not computed for\nseveral parameters)", ha="center", transform=bottom.transAxes)
    grid[0, 0].set_ylabel(f"coverage, n = {N}")
    grid[1, 0].set_ylabel("length ÷ without privacy")
    grid[1, 0].set_yscale("log")
    grid[1, 0].set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    figure.supxlabel("share of clipped records", fontsize=10)
    handles, labels = grid[0, 1].get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    order = sorted(shown, key=lambda label: (label.startswith("99"), label))
    figure.legend([shown[label] for label in order], order, loc="outside upper center", ncols=4)


EXPERIMENT = Experiment(
    name="confidence-sets",
    title="Coverage and length of confidence sets from 30 records",
    run=run,
    size=(11.0, 5.2),
    second=lambda: run(seed=105),
)
