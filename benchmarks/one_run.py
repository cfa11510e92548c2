"""One-run audits of private gradient descent with 1,000 canaries: how often true and halved noise are refuted."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import privsample as ps
from benchmarks.measure import Row, seconds
from privsample.errors import TooFewGuessesWarning

RUNS, CANARIES, GUESSES = 40, 1_000, 200
EPSILONS = (1.0, 2.0, 3.0, 5.0, 8.0)


def rows() -> Iterator[Row]:
    """Refuted audits at level 0.05 for each epsilon, and the time of the bounds."""
    for epsilon in EPSILONS:
        yield from _refuted(epsilon)
    claim = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    for many in (1_000, 20_000):
        verdict = ps.OneRunVerdict(claim=claim, canaries=many, guesses=many, right=round(0.8 * many))
        taken = seconds(lambda verdict=verdict: (replace(verdict).p_value, replace(verdict).critical))
        name = f"p-value and critical number, {many:,} guesses"
        yield Row(name=name, library=f"{taken:.2g} s", peer="", ratio=None, target="")


def _refuted(epsilon: float) -> Iterator[Row]:
    """How many runs are refuted with the noise of the claim, and with half of it."""
    canaries, substitutes = ps.orthogonal_canaries(CANARIES)
    model = ps.PrivateSGDClassifier(
        epsilon=epsilon, norm=1, radius=0.4, rate=1, epochs=1, batch=CANARIES, fit_intercept=False
    )
    mechanism = model.mechanism_for(CANARIES, CANARIES)
    options: dict[str, Any] = {"substitutes": substitutes, "claim": mechanism.accountant, "guesses": GUESSES}
    for name, share in (("true", 1.0), ("half", 0.5)):
        tried = replace(mechanism, noise_std=share * mechanism.noise_std)

        def train(records: Any, rng: np.random.Generator, tried: ps.NoisyProjectedSGD = tried) -> Any:
            return tried.release(records, rng=rng)["coefficients"][0]

        refuted = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TooFewGuessesWarning)
            for seed in range(RUNS):
                rng = np.random.default_rng(seed)
                refuted += ps.audit_one_run(train, canaries, score=_alignment, rng=rng, **options).violated
        target = "" if epsilon != 5.0 else "at most 2" if share == 1.0 else RUNS
        yield Row(
            name=f"PrivateSGDClassifier, epsilon {epsilon:g}, {name} noise, refuted",
            library=f"{refuted}/{RUNS}",
            peer="level 0.05",
            ratio=refuted / RUNS,
            target=str(target),
        )


def _alignment(coefficients: Any, canary: Any) -> float:
    row, label = canary
    return (2.0 * label - 1.0) * float(coefficients @ row)
