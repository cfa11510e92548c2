"""Confidence sets: coverage over 2,000 releases of 30 records, and the time of one interval."""

from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, milliseconds, seconds
from reproduction import confidence_sets as experiment

SHARE, EPSILON = 0.25, 1.0


def rows() -> Iterator[Row]:
    """Coverage of each model with a quarter of the records clipped, and times."""
    found = []
    for name, case in experiment.CASES.items():
        share = (case.shares or (SHARE,))[0]
        hits, _ = experiment.simulate(case, share, EPSILON, experiment.REPEATS, np.random.default_rng(1))
        found.append(hits[0].mean())
        covered = f"{found[-1]:.4f}"
        target = f">= {experiment.LEVEL} (standard error 0.005)"
        yield Row(name=f"coverage, {name}, {share:.0%} clipped", library=covered, peer="", ratio=None, target=target)
    target = f">= {experiment.LEVEL} (standard error {0.0049 / len(found) ** 0.5:.4f})"
    covered = f"{np.mean(found):.4f}"
    yield Row(name="coverage, all models together", library=covered, peer="", ratio=None, target=target)
    times = ps.GammaExponential(shape=2, rate=1, upper=1.4)
    moments = ps.NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=(-2, 2))
    for model, ranges, name in (
        (times, {"rate": (0.05, 20.0)}, "rate"),
        (moments, {"mean": (-5.0, 5.0), "variance": (0.05, 10.0)}, "mean"),
    ):
        for n in (30, 1000):
            rng = np.random.default_rng(2)
            data = rng.exponential(1.0, n) if model is times else rng.normal(0.3, 1.0, n)
            release = ps.NoisyStatistics(model=model, n=n, scale=3.0).release(data, rng=rng)
            one = ps.confidence_set(release, parameters=ranges, rng=rng)
            took = seconds(lambda one=one, name=name: one.interval(name))
            title = f"interval, {type(model).__name__}, n = {n:,}, 999 simulations"
            yield Row(name=title, library=milliseconds(took), peer="", ratio=None, target="none set")
