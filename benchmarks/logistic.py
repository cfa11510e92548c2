"""Draws of logistic posteriors by rejection: a public number of proposals, proposals until accepted, exact draws."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds

CASES = ((1_000_000, 1, 1.0, 1.0), (10_000, 10, 0.125, 1.0), (1_000, 5, 1.0, 1.0), (1_000, 5, 1.0, 0.1))
DRAWS = (1, 100)


def rows() -> Iterator[Row]:
    """Times of releases in constant time beside those until accepted, and of exact draws beside floats."""
    for n, features, prior_std, weight in CASES:
        for draws in DRAWS:
            constant = ps.LogisticPosterior(
                n=n,
                features=features,
                norm=1.0,
                prior_std=prior_std,
                data_weight=weight,
                draws=draws,
                sampler="rejection",
            )
            until, data = replace(constant, constant_time=False), records(n, features)
            own, other = paired(lambda: constant.release(data), lambda: until.release(data), runs=3)  # noqa: B023
            proposals = constant._envelope.proposals(draws, constant.failure_probability)
            yield Row(
                name=f"n = {n:,}, d = {features}, weight {weight:g}, {draws} draws: {proposals:,} proposals",
                library=milliseconds(own),
                peer=f"{milliseconds(other)} until accepted",
                ratio=own / other,
                target="35 for one draw where the bound is sharp",
            )
    for n, features in ((100, 1), (1_000, 1), (1_000, 5)):
        exact = ps.LogisticPosterior(
            n=n, features=features, norm=1.0, prior_std=0.3, data_weight=0.5, draws=20, exact=True, constant_time=False
        )
        data = records(n, features)
        own = seconds(lambda: exact.release(data)) / (20 * features)  # noqa: B023
        other = seconds(lambda: replace(exact, exact=False).release(data)) / (20 * features)  # noqa: B023
        yield Row(
            name=f"n = {n:,}, d = {features}: one exact number, until accepted",
            library=milliseconds(own),
            peer=f"{milliseconds(other)} floats",
            ratio=own / other,
            target="exact by default below 0.2 ms",
        )


def records(n: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows, most of them longer than the norm, and labels that follow the first feature."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((n, features))
    return table, (table[:, 0] + rng.standard_normal(n) > 0).astype(int)
