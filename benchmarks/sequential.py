"""Draws until a sequential audit refutes claims that are 2, 5 and 10 % too loud, at level 1e-6, and its false alarms.

"Too loud" means noise that is 2, 5 or 10 % too small, or log odds that are too large. The sequential audit is compared
with two tests of a fixed size and power 0.9 at the same claims: one whose size was chosen for this very gap, which its
user does not know, and one whose size was chosen to find a gap of 2 %. Both are given the best event and epsilon, and
need no draws to find them. True claims at level 0.01 are followed for 1,000 draws from each dataset, in 300 runs; for
another number of runs, which take some 0.1 s each: `python -m benchmarks.sequential 10000`.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

import privsample as ps
from benchmarks.measure import Row
from privsample.simulations.audit.audit import informative_epsilons

LEVEL, POWER, RUNS = 1e-6, 0.9, 9
TRUE_RUNS, TRUE_DRAWS, TRUE_LEVEL = 300, 1_000, 0.01
GAPS = (0.02, 0.05, 0.1)
LAPLACE = ps.LaplaceMechanism(sensitivity=1, scale=1, exact=False)
GAUSSIAN = ps.GaussianMechanism(sensitivity=1, noise_std=1, exact=False)
RESPONSE = ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=1))
FIELDS: dict[str, tuple[Any, str]] = {
    "Laplace": (LAPLACE, "scale"),
    "Gaussian": (GAUSSIAN, "noise_std"),
    "response": (RESPONSE, "log_odds"),
}


def rows() -> Iterator[Row]:
    """The nine settings, the medians of their ratios, and the false alarms."""
    known, planned = [], []
    for name in FIELDS:
        for gap in GAPS:
            draws = float(np.median([draws_until_violated(name, gap, seed) for seed in range(RUNS)]))
            own, least = fixed_size(name, gap), fixed_size(name, GAPS[0])
            known.append(draws / own)
            planned.append(draws / least)
            yield Row(
                name=f"{name} {gap:.0%} too loud: draws, fixed size for 2 %",
                library=f"{draws:,.0f}",
                peer=f"{least:,.0f} ({own:,.0f} known gap)",
                ratio=planned[-1],
                target=f"{known[-1]:.2f} of known gap",
            )
    for title, ratios in (("known", known), ("2 %", planned)):
        yield Row(
            name=f"median ratio to the fixed size for a gap of {title}",
            library="",
            peer="",
            ratio=float(np.median(ratios)),
            target="below 0.5",
        )
    yield false_alarms()


def loud(name: str, gap: float) -> ps.Mechanism:
    """The mechanism with too little noise."""
    mechanism, field = FIELDS[name]
    value = float(getattr(mechanism, field))
    louder: ps.Mechanism = replace(
        mechanism, **{field: value * (1 + gap) if field == "log_odds" else value / (1 + gap)}
    )
    return louder


def draws_until_violated(name: str, gap: float, seed: int) -> float:
    """Return the number of draws from each dataset; infinity if 2,000,000 do not suffice."""
    claim, rng = FIELDS[name][0].accountant, np.random.default_rng(seed)
    verdict = ps.audit(loud(name, gap), claim=claim, samples=2_000_000, level=LEVEL, rng=rng, sequential=True)
    return verdict.samples if verdict.violated else np.inf


def fixed_size(name: str, gap: float) -> float:
    """Return the draws from each dataset with which a test of the best event at the best epsilon has the power."""
    account = FIELDS[name][0].accountant
    needed = stats.norm.isf(LEVEL) + stats.norm.ppf(POWER)
    strengths = []
    for epsilon in informative_epsilons(account):
        p, q = _event(name, 1.0 + gap, epsilon)
        f = np.exp(epsilon)
        deviation = np.sqrt(p * (1 - p) + f**2 * q * (1 - q))
        strengths.append((p - f * q - float(account.delta(epsilon))) / deviation)
    return float((needed / max(strengths)) ** 2)


def _event(name: str, loudness: float, epsilon: float) -> tuple[float, float]:
    """Return the probabilities of the event {loss > epsilon} of the claim, or of the one answer, on both datasets."""
    if name == "response":
        return float(1 / (1 + np.exp(-loudness))), float(1 / (1 + np.exp(loudness)))
    noise = stats.laplace if name == "Laplace" else stats.norm
    cut = (1 - epsilon) / 2 if name == "Laplace" else 0.5 - epsilon
    return float(noise.cdf(loudness * cut)), float(noise.cdf(loudness * (cut - 1)))


def false_alarms(runs: int = TRUE_RUNS, first_seed: int = 0) -> Row:
    """Count the true claims that are ever refuted."""
    mechanisms = [mechanism for mechanism, _ in FIELDS.values()]
    wrong = 0
    for seed in range(first_seed, first_seed + runs):
        verdict = ps.audit(
            mechanisms[seed % 3],
            samples=TRUE_DRAWS,
            level=TRUE_LEVEL,
            rng=np.random.default_rng([seed, 1]),
            sequential=True,
        )
        wrong += verdict.violated
    most = runs * TRUE_LEVEL + 3 * np.sqrt(runs * TRUE_LEVEL * (1 - TRUE_LEVEL))
    return Row(
        name=f"true claims, {TRUE_DRAWS:,} draws, looked at after each, level 0.01",
        library=f"{wrong} of {runs:,} refuted",
        peer="",
        ratio=wrong / runs,
        target=f"at most {most:.0f}",
    )


if __name__ == "__main__":
    print(false_alarms(*map(int, sys.argv[1:])).text())
