"""A hierarchical model in PyMC, fed by private counts from several sites.

Each site publishes one number: how many of its records are positive, with whole noise. The rates are alike, and
the model shares strength between them; each published count enters through `noisy_observation`, which sums over the
counts that the site may hold. All data are simulated. Run:

    python examples/private_counts_from_sites.py
"""

from functools import reduce
from operator import or_

import numpy as np

import privsample as ps

SIZES = (120, 200, 80, 400, 150, 60)
EPSILON = 0.5
MODEL = ps.BetaBernoulli(alpha=1, beta=1)


def simulated(rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
    """The true rates, and the records of each site: zeros and ones."""
    rates = 1 / (1 + np.exp(-rng.normal(-1.2, 0.4, len(SIZES))))
    return rates, [rng.random(size) < rate for size, rate in zip(SIZES, rates, strict=True)]


def released(records: np.ndarray, rng: np.random.Generator) -> ps.PrivateStatistics:
    """What one site publishes. With real records leave `rng` out: known seeds are not private."""
    mechanism = ps.NoisyStatistics.calibrate(model=MODEL, n=len(records), target=ps.DP(epsilon=EPSILON))
    return ps.PrivateStatistics(release=mechanism.release(records, rng=rng))


def together(published: list[ps.PrivateStatistics]) -> ps.Accountant:
    """Parallel composition: a record stays at its public site, so all sites cost what the dearest does."""
    return reduce(or_, (site.account for site in published))


def model(published: list[ps.PrivateStatistics]):
    """Logits of the rates are normal about a common mean. Returns: the PyMC model, and its likelihood in words."""
    import pymc as pm

    from privsample.pymc import NoisyCount, likelihood

    with pm.Model(coords={"site": range(len(published))}) as built:
        centre, spread = pm.Normal("centre", -1.0, 1.0), pm.HalfNormal("spread", 0.7)
        off = pm.Normal("off", dims="site")
        rate = pm.Deterministic("rate", pm.math.sigmoid(centre + spread * off), dims="site")
        counts = NoisyCount("count", p=rate, observed=published, dims="site")
    return built, likelihood(counts)


def main(draws: int = 1000, seed: int = 0) -> str:
    """Fit the model. Returns: what came out, in words."""
    from privsample.interop.pymc_sampling import run

    rng = np.random.default_rng(seed)
    rates, records = simulated(rng)
    published = [released(site, rng) for site in records]
    built, words = model(published)
    trace = run(built, draws=draws, tune=draws, chains=4, rng=rng)
    found = np.asarray(trace.posterior["rate"]).reshape(-1, len(SIZES))
    low, high = np.quantile(found, [0.05, 0.95], axis=0)
    lines = [
        f"site {i}: {site.n} records, published {float(site.statistic):g}, rate {low[i]:.2f} to {high[i]:.2f} "
        f"(true {rates[i]:.2f})"
        for i, site in enumerate(published)
    ]
    inside = int(((low <= rates) & (rates <= high)).sum())
    lines.append(f"{inside} of {len(SIZES)} true rates lie in their 90 % intervals; the likelihood is {kind(words)}.")
    lines.append(
        f"All sites together cost epsilon = {together(published).epsilon(0.0):.3g}: each record is at one site."
    )
    return "\n".join(lines)


def kind(words: str) -> str:
    """What the likelihood is: exact, or not."""
    return words.split(":", maxsplit=1)[0]


if __name__ == "__main__":
    print(main())
