"""Exact inference from noisy statistics: effective samples per second, an exact posterior, and time against n."""

import math
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import arviz as az
import joblib
import numpy as np

import privsample as ps
from benchmarks.measure import Row
from privsample.inference import regression_records as hidden
from privsample.inference.chains import Observation, run_chains
from privsample.inference.counts import CountChain
from privsample.inference.regression import RegressionChain
from privsample.interop.pymc import sample_noise_aware

SWEEPS = {100: 2000, 1000: 1000}  # kept sweeps of each of the chains, by number of records
TUNING, CHAINS = 500, 4
RARE = ps.DirichletCategorical(alpha=(2.0, 1.0, 0.1))
SCALING = (10**2, 10**4, 10**6, 10**9)


class RecordByRecord(RegressionChain):
    """Algorithm 1 of Ju, Awan, Gong and Rao 2022 in NumPy, in place of the R package dapper.

    Draw the parameters given the records, and then offer a new record to each place in turn. New records and their
    contributions are drawn in one call for all places, and the parameters are drawn by the library's compiled code, so
    that only the loop that the algorithm needs takes time.
    """

    def sweep(self, rng: np.random.Generator, *, tuning: bool) -> float:
        """Make one sweep and return the acceptance rate of the records."""
        self._sweeps += tuning
        self._draw_parameters(rng, tuning=tuning)
        proposed = hidden.build_records(rng.standard_normal(self.records.shape), *self._state)
        old = hidden.contributions(self.records, *self._bounds)
        new = hidden.contributions(proposed, *self._bounds)
        observed, scale = self.acceptance.observed[0], self.acceptance.scale
        gap, steps = observed - old.sum(axis=0), new - old
        distance = np.abs(gap).sum()
        thresholds = scale * rng.standard_exponential(self.n)
        accepted = np.zeros(self.n, dtype=bool)
        for i in range(self.n):
            moved = gap - steps[i]
            found = np.abs(moved).sum()
            if found - distance < thresholds[i]:
                gap, distance, accepted[i] = moved, found, True
        self.records = np.where(accepted[:, None], proposed, self.records)
        return float(accepted.mean())


def rows() -> Iterator[Row]:
    """Linear regression against the algorithm of dapper, a rare category against enumeration, and scaling in n."""
    yield from _rare_category()
    for n in SWEEPS:
        yield _regression(n)
    for n in SCALING:
        yield _sweep_of_counts(n)


def _regression(n: int) -> Row:
    rng = np.random.default_rng(1)
    model = ps.LinearRegression(feature_bounds=((-2, 2),) * 2, target_bounds=(-3, 3), shape=3, scale=1)
    mechanism = ps.NoisyStatistics.calibrate(model=model, n=n, noise="laplace", target=ps.DP(epsilon=1.0))
    x = rng.standard_normal((n, 2))
    release = ps.PrivateStatistics(
        release=mechanism.release((x, x @ [1.0, -0.5] + 0.3 + 0.5 * rng.standard_normal(n)), rng=rng)
    )
    observation = Observation(model=model, n=n, noise=release.noise, observed=release.observed)
    library, peer = (_samples_per_second(chain, observation, SWEEPS[n]) for chain in (RegressionChain, RecordByRecord))
    return Row(
        name=f"effective samples per second, regression, n = {n:,}",
        library=f"{library:.3g}",
        peer=f"{peer:.3g} dapper's algorithm",
        ratio=library / peer,
        target="at least 10",
    )


def _samples_per_second(chain: Any, observation: Observation, sweeps: int) -> float:
    """The least bulk effective sample size of the coefficients, by the seconds of tuning and drawing on one core."""

    def draw(draws: int, tune: int) -> dict[str, Any]:
        with joblib.parallel_config(n_jobs=1):
            return run_chains(
                lambda: chain(observation), draws=draws, tune=tune, chains=CHAINS, rng=np.random.default_rng(2)
            ).draws

    draw(10, 10)  # compiles
    start = time.perf_counter()
    drawn = draw(sweeps, TUNING)["coefficients"]
    took = time.perf_counter() - start
    coefficients = az.convert_to_dataset({"coefficients": drawn.reshape(CHAINS, sweeps, -1)})
    return float(az.ess(coefficients, method="bulk")["coefficients"].min()) / took


def _rare_category() -> Iterator[Row]:
    """Posterior of the share of a category that nobody was seen in, n = 20, by `infer` and by a central limit."""
    release = SimpleNamespace(model=RARE, n=20, noise=ps.LaplaceNoise(scale=0.5), observed=np.array([[13.0, 7.0, 0.0]]))
    exact, deviation = _enumerated(np.array(RARE.alpha), 20, release.noise, release.observed[0])
    found = ps.infer(release, draws=5000, rng=np.random.default_rng(1))["theta"][:, 2]
    drawn, _, _ = sample_noise_aware(
        release, model=RARE, draws=2000, tune=1000, chains=CHAINS, rng=np.random.default_rng(1)
    )
    limit = drawn["theta"][:, 2]
    for name, draws in (("infer", found), ("central limit, mcmc", limit)):
        error = float(az.mcse(az.convert_to_dataset({"share": draws.reshape(CHAINS, -1)}))["share"])
        yield Row(
            name=f"share of a rare category, n = 20, {name}",
            library=f"{draws.mean():.5f} +- {error:.5f}",
            peer=f"{exact:.5f} enumeration",
            ratio=draws.mean() / exact,
            target="1, to Monte-Carlo error" if name == "infer" else "none set",
        )
        yield Row(
            name="  its standard deviation",
            library=f"{draws.std():.5f}",
            peer=f"{deviation:.5f} enumeration",
            ratio=draws.std() / deviation,
            target="",
        )


def _enumerated(alpha: Any, n: int, noise: Any, observed: Any) -> tuple[float, float]:
    """Posterior mean and standard deviation of the last share, by a sum over all counts."""
    counts = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    logs = noise.log_mass(observed - counts).sum(axis=1)
    logs += [sum(math.lgamma(a + k) - math.lgamma(k + 1) for a, k in zip(alpha, row, strict=True)) for row in counts]
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    own, total = alpha[-1] + counts[:, -1], alpha.sum() + n
    mean = float(weights @ (own / total))
    return mean, math.sqrt(float(weights @ (own * (own + 1) / (total * (total + 1)))) - mean**2)


def _sweep_of_counts(n: int) -> Row:
    rng = np.random.default_rng(3)
    noise = ps.LaplaceNoise(scale=10.0)
    observed = rng.multinomial(n, [0.6, 0.35, 0.05]) + noise.sample((1, 3), rng)
    model = ps.DirichletCategorical(alpha=(1, 1, 1))
    chain = CountChain(Observation(model=model, n=n, noise=noise, observed=observed))
    chain.start(rng)
    for _ in range(500):
        chain.sweep(rng, tuning=True)
    start = time.process_time()
    for _ in range(2000):
        chain.sweep(rng, tuning=False)
    took = (time.process_time() - start) / 2000  # of the processor, whatever else runs
    return Row(
        name=f"one sweep over counts of 3 categories, n = {n:.0e}",
        library=f"{took * 1e6:.0f} us",
        peer="",
        ratio=None,
        target="does not grow with n",
    )
