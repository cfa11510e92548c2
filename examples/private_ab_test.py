"""A private A/B test: two noisy counts, and the probability that B beats A with the noise accounted for.

Each arm publishes one number, how many of its users converted, with whole noise. A posterior that takes that number for
the truth is too sure of itself; one that models the noise is not, at no further cost. All data are simulated, so that
the intervals can be checked against the truth. Run:

    python examples/private_ab_test.py ab_test.png
"""

import sys
from pathlib import Path

import numpy as np

import privsample as ps

USERS, EPSILON = 500, 0.2
MODEL = ps.BetaBernoulli(alpha=2, beta=18)  # a conversion rate of about one in ten
RATES = {"A": 0.10, "B": 0.13}
LEVELS = np.linspace(0.05, 0.95, 19)


def mechanism() -> ps.NoisyStatistics:
    """One arm's count with the least discrete Laplace noise that is EPSILON-private."""
    return ps.NoisyStatistics.calibrate(model=MODEL, n=USERS, target=ps.DP(epsilon=EPSILON), unit="user")


def released(rate: float, arm: ps.NoisyStatistics, rng: np.random.Generator) -> ps.PrivateStatistics:
    """What one arm of simulated users publishes. With real users leave `rng` out: known seeds are not private."""
    return ps.PrivateStatistics(release=arm.release(rng.random(USERS) < rate, rng=rng))


def lifts(arms: dict[str, ps.PrivateStatistics], draws: int, plug_in: bool, rng: np.random.Generator) -> np.ndarray:
    """Draws of the rate of B less that of A, (draws,)."""
    theta = {name: arm.draw(draws, plug_in=plug_in, rng=rng)["theta"] for name, arm in arms.items()}
    return theta["B"] - theta["A"]


def account(arms: dict[str, ps.PrivateStatistics]) -> ps.Accountant:
    """Both arms together, the worse of the two: each place in the test was given its arm before a user took it.

    Were the arm up to the user, a replaced user could leave one arm and enter the other, and both would count.
    """
    return arms["A"].account | arms["B"].account


def ranks(experiments: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """For rates drawn from the prior: the share of the posterior below the true lift, (experiments,)."""
    arm = mechanism()
    found: dict[str, list[float]] = {"noise-aware": [], "plug-in": []}
    for _ in range(experiments):
        a, b = rng.beta(MODEL.alpha, MODEL.beta, 2)
        arms = {"A": released(a, arm, rng), "B": released(b, arm, rng)}
        for name, kept in found.items():
            kept.append(float((lifts(arms, 1000, name == "plug-in", rng) < b - a).mean()))
    return {name: np.array(kept) for name, kept in found.items()}


def coverage(shares: np.ndarray) -> np.ndarray:
    """How often the central interval of each of LEVELS holds the truth."""
    return (np.abs(shares[:, None] - 0.5) < LEVELS / 2).mean(axis=0)


def draw(arms: dict[str, ps.PrivateStatistics], shares: dict[str, np.ndarray], path: Path) -> None:
    """Both arms' posteriors, and how often the intervals hold the truth."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.6), layout="constrained", dpi=160)
    left, right = figure.subplots(1, 2)
    rate = np.linspace(0.001, 0.25, 500)
    for (name, arm), colour in zip(arms.items(), ("#0072B2", "#D55E00"), strict=True):
        left.fill_between(rate, np.exp(arm.noise_aware().log_density(rate)), color=colour, alpha=0.25)
        left.plot(rate, np.exp(arm.noise_aware().log_density(rate)), color=colour, label=f"{name}, noise-aware")
        left.plot(rate, np.exp(arm.posterior().log_density(rate)), "--", color=colour, label=f"{name}, plug-in")
    left.set(xlabel="conversion rate", ylabel="density", ylim=(0, None), title=f"One test, {USERS} users an arm")
    left.legend(frameon=False, fontsize=8)
    right.plot([0, 1], [0, 1], color="#767676", linewidth=1, label="as promised")
    for (name, found), style in zip(shares.items(), ("o-", "s--"), strict=True):
        right.plot(LEVELS, coverage(found), style, color="#222222", markersize=3.5, label=name)
    right.set(xlabel="promised probability of the interval", ylabel="share of intervals that hold the truth")
    right.set_title(f"Intervals for B less A, {len(found):,} simulated tests")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main(path: str = "ab_test.png", experiments: int = 1000, draws: int = 100_000) -> str:
    """Run one test, check many, draw the picture. Returns: what was found, in a few lines."""
    rng = np.random.default_rng(3)
    arm = mechanism()
    arms = {name: released(rate, arm, rng) for name, rate in RATES.items()}
    sure = {name: float((lifts(arms, draws, name == "plug-in", rng) > 0).mean()) for name in ("noise-aware", "plug-in")}
    shares = ranks(experiments, rng)
    draw(arms, shares, Path(path))
    nine = int(np.abs(LEVELS - 0.9).argmin())
    held = {name: coverage(found)[nine] for name, found in shares.items()}
    counts = ", ".join(f"{name} {one.statistic:.0f}" for name, one in arms.items())
    return (
        f"Published conversions of {USERS} users each, with noise of standard deviation "
        f"{arm.distribution.variance**0.5:.1f}: {counts}.\n"
        f"B beats A with probability {sure['noise-aware']:.3f}; with the counts taken for the truth, "
        f"{sure['plug-in']:.3f}.\n"
        f"Intervals that promise 90 % hold the truth in {held['noise-aware']:.0%} of {experiments} simulated tests, "
        f"with the counts taken for the truth in {held['plug-in']:.0%} ({path}).\n"
        + ps.privacy_statement(account(arms), delta=0.0)
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
