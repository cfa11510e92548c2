"""Thesis Lemma 1 and Corollary 2: relative entropy between private and true posterior, against the number of records.

Source: Geumlek 2020, section 4.3.3. Laplace noise on sufficient statistics, projected as in (4.15), has a limit of N
times the expected relative entropy, from the second derivative of the log normaliser. Two cases outside the lemma are
beside it: a parameter on the boundary, and the tempered posterior of the exponential mechanism.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import integrate, special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.noise import LaplaceNoise
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.labels import label_lines
from reproduction.tables import Table

EPSILON, SHARE, HELD = 1.0, 0.3, 0.2
SHARES = (0.4, 0.3, 0.15, 0.1, 0.05)
TEMPERATURE = float(2 * np.log((1 - HELD) / HELD) / EPSILON)
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
REPEATS = 10_000
_NODES, _MASSES = np.polynomial.legendre.leggauss(200)
_WIDTH = 12.0  # standard deviations on either side of the mode that the quadrature covers
Divergences = Callable[[int, int, np.random.Generator], FloatArray]


def dirichlet_relative_entropy(first: FloatArray, second: FloatArray) -> FloatArray:
    """KL(Dirichlet(first) || Dirichlet(second)) of rows of parameters, (..., K) -> (...)."""
    totals = first.sum(-1), second.sum(-1)
    normalisers = special.gammaln(totals[0]) - special.gammaln(totals[1])
    normalisers += (special.gammaln(second) - special.gammaln(first)).sum(-1)
    means = special.digamma(first) - special.digamma(totals[0])[..., None]
    return np.asarray(np.maximum(normalisers + ((first - second) * means).sum(-1), 0.0))


def noisy_beta(share: float) -> Divergences:
    """Relative entropies for Bernoulli(share) records, whose count has Laplace noise; uniform prior."""

    def sample(n: int, repeats: int, rng: np.random.Generator) -> FloatArray:
        ones = rng.binomial(n, share, repeats).astype(float)
        noisy = np.clip(ones + LaplaceNoise(scale=1 / EPSILON).sample((repeats,), rng), 0.0, n)
        parameters = (np.column_stack([1 + count, 1 + n - count]) for count in (noisy, ones))
        return dirichlet_relative_entropy(*parameters)

    return sample


def noisy_dirichlet(n: int, repeats: int, rng: np.random.Generator) -> FloatArray:
    """Relative entropies for categorical records, all of whose counts have Laplace noise; uniform prior."""
    counts = rng.multinomial(n, SHARES, repeats).astype(float)
    noise = LaplaceNoise(scale=2 / EPSILON).sample(counts.shape, rng)
    return dirichlet_relative_entropy(1 + np.maximum(counts + noise, 0.0), 1 + counts)


def tempered(n: int, repeats: int, rng: np.random.Generator) -> FloatArray:
    """Relative entropies of the tempered posterior, both posteriors truncated, by Gauss-Legendre quadrature."""
    ones = rng.binomial(n, SHARE, repeats)
    counts, times = np.unique(ones, return_counts=True)
    mode = np.clip(counts / n, HELD, 1 - HELD)
    reach = _WIDTH * np.sqrt(TEMPERATURE * 0.25 / n)
    low, high = np.maximum(mode - reach, HELD), np.minimum(mode + reach, 1 - HELD)
    theta = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * _NODES
    log_mass = np.log((high - low)[:, None] / 2 * _MASSES)
    likelihood = counts[:, None] * np.log(theta) + (n - counts)[:, None] * np.log1p(-theta)
    true, cooled = (
        log_mass + log_weight - special.logsumexp(log_mass + log_weight, axis=1, keepdims=True)
        for log_weight in (likelihood, likelihood / TEMPERATURE)
    )
    return np.repeat((np.exp(cooled) * (cooled - true)).sum(axis=1), times)


def boundary_limit() -> float:
    """Return the limit for a share of 0: the relative entropy of Gamma(1 + noise) and Gamma(1), expected."""

    def integrand(noise: float) -> float:
        divergence = noise * special.digamma(1 + noise) - special.gammaln(1 + noise)
        return float(divergence * np.exp(-EPSILON * noise) * EPSILON / 2)

    return float(integrate.quad(integrand, 0.0, 60.0 / EPSILON, epsabs=1e-12)[0])


def unprojected(n: int) -> float:
    """Return the probability that the count plus noise, not projected, leaves no posterior: a parameter is <= 0."""
    counts = np.arange(n + 1)
    share = np.exp(
        special.gammaln(n + 1) - special.gammaln(counts + 1) - special.gammaln(n - counts + 1)
        + counts * np.log(SHARE) + (n - counts) * np.log1p(-SHARE)
    )  # fmt: skip
    return float(share @ (np.exp(-EPSILON * (counts + 1)) + np.exp(-EPSILON * (n - counts + 1))) / 2)


@frozen_value
class Case:
    """Name, sampler of relative entropies, the limit of N**power times their expectation, and the colour."""

    name: str
    sampler: Divergences
    power: int
    limit: float
    colour: str


def cases() -> tuple[Case, ...]:
    """Two families to which the lemma applies, and two mechanisms to which it does not."""
    beta = 1 / EPSILON**2 / (SHARE * (1 - SHARE))
    dirichlet = (2 / EPSILON) ** 2 * (sum(1 / share for share in SHARES) - len(SHARES))
    flat = (TEMPERATURE - 1 - np.log(TEMPERATURE)) / 2
    return (
        Case(name="Dirichlet, 5 noisy counts", sampler=noisy_dirichlet, power=1, limit=dirichlet, colour=GREEN),
        Case(name="Beta, noisy count", sampler=noisy_beta(SHARE), power=1, limit=beta, colour=BLUE),
        Case(name="tempered Beta", sampler=tempered, power=0, limit=float(flat), colour=ORANGE),
        Case(name="Beta, share of ones 0", sampler=noisy_beta(0.0), power=0, limit=boundary_limit(), colour=GREY),
    )


def _run(seed: int = 41) -> Result:
    rng = np.random.default_rng(seed)
    parts = []
    for case in cases():
        found = [case.sampler(n, REPEATS, rng) for n in SIZES]
        parts.append(
            {
                "case": case.name,
                "records": np.array(SIZES),
                "relative_entropy": np.array([values.mean() for values in found]),
                "standard_error": np.array([values.std(ddof=1) / REPEATS**0.5 for values in found]),
                "limit": case.limit / np.array(SIZES, dtype=float) ** case.power,
            }
        )
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, parts))


def _describe(columns: Columns) -> Statement:
    findings: list[Finding] = []
    words = {}
    for case in cases():
        part = Table(columns=columns).select(case=case.name)
        n, mean, error = (part[name] for name in ("records", "relative_entropy", "standard_error"))
        findings += [Finding(f"{case.name}, {n[k]:g} records", float(mean[k]), float(error[k])) for k in (0, -1)]
        last = float(n[-1]) ** case.power
        ends = f"{mean[0]:.3g} nats at N = {n[0]:g} and {mean[-1]:.3g} at N = {n[-1]:,.0f}"
        times = "N times the last" if case.power else "the last"
        words[case.name] = (
            f"{ends}; {times} is {last * mean[-1]:.3f} ± {2 * last * error[-1]:.3f}, its limit {case.limit:.4g}"
        )
        if case.power:
            fall = [float(mean[0] - mean[-1]), float(np.hypot(error[0], error[-1]))]
            findings.append(Finding(f"{case.name}, fall", fall[0], fall[1], compared=True))
    lost = unprojected(SIZES[0])
    findings.append(Finding("no posterior without the projection", lost))
    dirichlet, beta, flat, boundary = words.values()
    return Statement(
        f"Expected relative entropy KL(private posterior ‖ true posterior at N records), with ± two standard errors of "
        f"the simulation. Laplace noise, ε = {EPSILON:g}, on a Bernoulli({SHARE:g}) count: {beta}. On all "
        f"{len(SHARES)} counts of a categorical variable (Corollary 2, statistic not minimal): {dirichlet}. Both fall "
        "as 1/N, as Lemma 1's proof has it. Outside its conditions the relative entropy does not fall to 0. For "
        f"Bernoulli(0) records: {boundary}. For the exponential mechanism at temperature T = {TEMPERATURE:.3g}, with "
        f"limit (T − 1 − log T)/2: {flat}. Lemma 1 as printed leaves out the projection of the noisy statistic. "
        f"Without it there is no posterior with probability {lost:.3g} at N = {SIZES[0]}, and the expectation is "
        "infinite for every N.",
        tuple(findings),
    )


def _plot(figure: Any, parts: Sequence[dict[str, Any]]) -> None:
    axes = figure.subplots()
    for case, part in zip(cases(), parts, strict=True):
        axes.plot(part["records"], part["limit"], color=case.colour, linewidth=1.0, linestyle=(0, (4, 3)))
        style = {"fmt": "o", "markersize": 4, "capsize": 3, "linewidth": 1.2, "color": case.colour}
        axes.errorbar(part["records"], part["relative_entropy"], yerr=2 * part["standard_error"], **style)
    axes.set(
        xscale="log",
        yscale="log",
        ylim=(1e-5, 30),
        xlabel="number of records N",
        ylabel="expected KL(private ‖ true posterior) (nats)",
    )
    axes.set_title(f"Private posteriors, ε = {EPSILON:g} (dashed: limits for N → ∞)")
    axes.minorticks_off()
    for case, part in zip(cases(), parts, strict=True):
        axes.plot(part["records"][-1:], part["limit"][-1:], color=case.colour, label=case.name, linewidth=0)
    label_lines(axes)


LEMMA_1 = Experiment(
    name="geumlek-lemma-1",
    title="Thesis Lemma 1 and Corollary 2: relative entropy of private posteriors against the number of records",
    seconds=0.55,
    run=_run,
    size=(6.6, 4.0),
    second=lambda: _run(seed=42),
)
