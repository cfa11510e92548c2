"""A private survey histogram: counts with noise beside draws from a diffused posterior, at the same privacy cost.

Everyone gives one of five answers. The counts of the answers are published with whole noise, and the analyst makes a
posterior of them; or a few draws from a posterior in which each answer counts little are published, and nothing else.
All data are simulated, so that both can be compared with the truth. Run:

    python examples/private_survey_histogram.py survey.png
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import privsample as ps

ANSWERS = {"never": 0.38, "rarely": 0.27, "monthly": 0.18, "weekly": 0.12, "daily": 0.05}
SHARES = np.array(list(ANSWERS.values()))
MODEL = ps.DirichletCategorical(alpha=(1.0,) * len(ANSWERS))
PEOPLE, EPSILON, DELTA, DRAWS = 2000, 1.0, 1e-6, 20
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def noisy_counts(epsilon: float) -> ps.NoisyStatistics:
    """Discrete Laplace noise on each count: private without a delta. One person moves two counts by one each."""
    return ps.NoisyStatistics.calibrate(model=MODEL, n=PEOPLE, target=ps.DP(epsilon=epsilon), unit="person")


def diffused(epsilon: float) -> ps.DiffusedPosterior:
    """A few draws from a posterior in which each answer counts as much as the price allows."""
    target = ps.DP(epsilon=epsilon, delta=DELTA)
    return ps.DiffusedPosterior.calibrate(model=MODEL, n=PEOPLE, target=target, draws=DRAWS, unit="person")


def answers(rng: np.random.Generator) -> np.ndarray:
    """One simulated survey, (PEOPLE,): the position of each person's answer."""
    return rng.choice(len(SHARES), size=PEOPLE, p=SHARES)


def errors(runs: int, epsilons: Sequence[float], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Mean absolute error of an answer's share, over answers and surveys, for each epsilon."""
    found: dict[str, list[float]] = {"noisy counts": [], "diffused posterior": [], "no privacy": []}
    surveys = [answers(rng) for _ in range(runs)]
    for epsilon in epsilons:
        counts, draws = noisy_counts(epsilon), diffused(epsilon)
        sums = dict.fromkeys(found, 0.0)
        for given in surveys:
            estimates = {
                "noisy counts": ps.PrivateStatistics(release=counts.release(given, rng=rng)).posterior().mean,
                "diffused posterior": draws.release(given, rng=rng)["theta"].mean(axis=0),
                "no privacy": np.bincount(given, minlength=len(SHARES)) / PEOPLE,
            }
            for name, estimate in estimates.items():
                sums[name] += float(np.abs(estimate - SHARES).mean()) / runs
        for name, total in sums.items():
            found[name].append(total)
    return {name: np.array(each) for name, each in found.items()}


def draw(
    published: ps.PrivateStatistics,
    sampled: ps.Release,
    found: dict[str, np.ndarray],
    epsilons: Sequence[float],
    rng: np.random.Generator,
    path: Path,
) -> None:
    """The two histograms over the true shares, and their errors against epsilon."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.7), layout="constrained", dpi=160)
    left, right = figure.subplots(1, 2)
    place = np.arange(len(SHARES))
    left.bar(place, SHARES, color="#d9d9d9", width=0.75, label="true share (simulated)")
    ends = np.quantile(published.posterior().sample(4000, rng), [0.05, 0.95], axis=0)
    middle = published.posterior().mean
    spread = np.array([middle - ends[0], ends[1] - middle])
    style = {"fmt": "o", "color": "#0072B2", "capsize": 4, "markersize": 4}
    left.errorbar(place - 0.15, middle, yerr=spread, label="noisy counts, 90 % interval", **style)
    ticks = sampled["theta"].T
    x = np.repeat(place + 0.15, ticks.shape[1])
    left.plot(x, ticks.ravel(), "_", color="#D55E00", markersize=11, label=f"diffused posterior, {DRAWS} draws")
    left.set_xticks(place, list(ANSWERS))
    left.set(ylabel="share of the answers", title=f"{PEOPLE:,} people, ε = {EPSILON:g}", ylim=(0, None))
    left.legend(frameon=False, fontsize=8)
    lines = {
        "noisy counts": ("o-", "#0072B2"),
        "diffused posterior": ("s-", "#D55E00"),
        "no privacy": ("--", "#767676"),
    }
    for name, (marks, colour) in lines.items():
        right.loglog(epsilons, found[name], marks, color=colour, markersize=4, label=name)
    right.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    right.set_yticks([0.005, 0.01, 0.02, 0.05], ["0.005", "0.01", "0.02", "0.05"])
    right.minorticks_off()
    right.set_ylim(bottom=0.005)
    right.set(xlabel="ε (nats)", ylabel="mean error of a share", title="Simulated surveys")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main(path: str = "survey.png", runs: int = 100, epsilons: Sequence[float] = EPSILONS) -> str:
    """One survey published in both ways, and many for the errors. Returns: what was found, in a few lines."""
    rng = np.random.default_rng(5)
    given = answers(rng)
    published = ps.PrivateStatistics(release=noisy_counts(EPSILON).release(given, rng=rng))
    sampled = diffused(EPSILON).release(given, rng=rng)
    found = errors(runs, epsilons, rng)
    draw(published, sampled, found, epsilons, rng, Path(path))
    at = int(np.abs(np.array(epsilons) - EPSILON).argmin())
    counts = ", ".join(f"{name} {count:.0f}" for name, count in zip(ANSWERS, published.statistic, strict=True))
    shares = " ".join(f"{share:.3f}" for share in published.posterior().mean)
    return (
        f"Noisy counts: {counts}; shares {shares}.\n"
        f"In {runs} surveys at ε = {epsilons[at]:g} a share is off by {found['noisy counts'][at]:.4f} from noisy "
        f"counts, {found['diffused posterior'][at]:.4f} from {DRAWS} diffused draws, "
        f"{found['no privacy'][at]:.4f} without privacy ({path}).\n"
        f"Noisy counts: {ps.privacy_statement(published.account, delta=0.0)}\n"
        f"Diffused draws: {ps.privacy_statement(sampled.account, delta=DELTA)}"
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
