"""A hierarchical model in PyMC, fed by one private release for several sites.

The release holds one number for each site: how many of its records are positive, with whole noise. The rates are alike,
and the model shares strength between them; the published counts enter as one observed variable, which sums over the
counts that the sites may hold. All data are simulated. Run:

    python examples/private_counts_from_sites.py
"""

import numpy as np

import privsample as ps

SIZES = {"A": 120, "B": 200, "C": 80, "D": 400, "E": 150, "F": 60}
EPSILON = 0.5


def simulated(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The true rates, and the site of each record with the record: zero or one."""
    rates = 1 / (1 + np.exp(-rng.normal(-1.2, 0.4, len(SIZES))))
    sizes = list(SIZES.values())
    return rates, np.repeat(list(SIZES), sizes), rng.random(sum(sizes)) < np.repeat(rates, sizes)


def mechanism() -> ps.GroupedMechanism:
    """One noisy count for each site. A record stays at its public site, so all sites cost what one does."""
    one = ps.NoisyStatistics.calibrate(model=ps.BetaBernoulli(1, 1), n=max(SIZES.values()), target=ps.DP(EPSILON))
    return ps.by("site", one, keys=list(SIZES), sizes=SIZES)


def model(published: ps.PrivateStatistics):
    """Logits of the rates are normal about a common mean. Returns: the PyMC model, and its likelihood in words."""
    import pymc as pm

    from privsample.pymc import NoisyCount, likelihood

    with pm.Model(coords=published.coords) as built:
        centre, spread = pm.Normal("centre", -1.0, 1.0), pm.HalfNormal("spread", 0.7)
        off = pm.Normal("off", dims="site")
        rate = pm.Deterministic("rate", pm.math.sigmoid(centre + spread * off), dims="site")
        counts = NoisyCount("count", p=rate, observed=published, dims="site")
    return built, likelihood(counts)


def main(draws: int = 1000, seed: int = 0) -> str:
    """Fit the model. Returns: what came out, in words."""
    from privsample.interop.pymc_sampling import run

    rng = np.random.default_rng(seed)  # with real records leave rng out of release: known seeds are not private
    rates, sites, records = simulated(rng)
    published = ps.PrivateStatistics(release=mechanism().release((sites, records.astype(int)), rng=rng))
    built, words = model(published)
    trace = run(built, draws=draws, tune=draws, chains=4, rng=rng)
    found = np.asarray(trace.posterior["rate"]).reshape(-1, len(SIZES))
    low, high = np.quantile(found, [0.05, 0.95], axis=0)
    lines = [
        f"site {site}: {SIZES[site]} records, published {published.statistic[i]:g}, rate {low[i]:.2f} to {high[i]:.2f} "
        f"(true {rates[i]:.2f})"
        for i, site in enumerate(SIZES)
    ]
    inside = int(((low <= rates) & (rates <= high)).sum())
    kind = words.split(":", maxsplit=1)[0]
    lines.append(f"{inside} of {len(SIZES)} true rates lie in their 90 % intervals; the likelihood is {kind}.")
    lines.append(f"All sites together cost epsilon = {published.account.epsilon(0.0):.3g}: each record is at one site.")
    return "\n".join(lines)


if __name__ == "__main__":
    print(main())
