"""Releases of a private number of records as observed counts in PyMC: against enumeration of both hidden counts."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import integrate, special, stats

import privsample as ps
from privsample.interop import pymc_fits
from privsample.interop.pymc import noisy_observation
from privsample.pymc import NoisyCount, NoisyMultinomial, NoisySum, likelihood

MODE = "FAST_COMPILE"
BERNOULLI = ps.BetaBernoulli(1, 1)
YES = [1] * 9 + [0] * 21


def made(model, data=YES, **fields):
    return ps.NoisyStatistics(model=model, **{"scale": 3.0, **fields}).release(data, rng=np.random.default_rng(1))


def compiled(model, name, inputs):
    variable = model[name]
    logs = pm.logp(variable, model.rvs_to_values[variable])
    return pytensor.function([model[one] for one in inputs], logs, mode=MODE)


def log_density(model, name, given):
    return compiled(model, name, given)(*given.values())


@pytest.mark.generations
def test_chains_start_at_the_noisy_total_and_the_model_can_be_frozen():
    from pymc.model.transform.optimization import freeze_dims_and_data

    release = made(BERNOULLI)
    with pm.Model() as model:
        NoisyCount("y", p=pm.Beta("p", 1, 1), observed=release)
    start = model.initial_point()
    records = model.replace_rvs_by_values([model["y_records"]])
    found = pytensor.function(model.value_vars, records, mode=MODE, on_unused_input="ignore")
    assert float(found(*(start[value.name] for value in model.value_vars))[0]) == pytest.approx(
        release["statistic"].sum()
    )
    frozen = freeze_dims_and_data(model)
    assert frozen.compile_logp(mode=MODE)(start) == pytest.approx(float(model.compile_logp(mode=MODE)(start)))


@pytest.mark.parametrize("draws", [1, 2])
def test_the_latent_mean_is_the_uniform_prior_of_the_number_of_records(draws):
    """The integral over the latent variable, against the sum over all numbers of zeros and of ones."""
    release = made(BERNOULLI, draws=draws)
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        NoisyCount("y", p=p, observed=release)
    assert [variable.name for variable in model.free_RVs] == ["p", "y_relative_records"]
    assert likelihood(model["y"]).startswith("exact")
    noise, seen = release.mechanism.distribution, release["statistic"]
    zeros, ones = np.arange(140.0)[:, None], np.arange(140.0)
    logs = sum(noise.log_mass(a - zeros) + noise.log_mass(b - ones) for a, b in seen)
    logs = logs + special.gammaln(zeros + ones + 1) - special.gammaln(zeros + 1) - special.gammaln(ones + 1)
    means = np.arange(0.5, 180.0, 0.5)
    shares, log_mass = (0.2, 0.45), compiled(model, "y", ["p", "y_records"])
    truth = [float(special.logsumexp(logs + special.xlogy(ones, x) + special.xlogy(zeros, 1 - x))) for x in shares]
    found = []
    for share in shares:
        values = [log_mass(share, mean).sum() for mean in means]
        found.append(float(np.log(integrate.trapezoid(np.exp(values), means))))
    assert found == pytest.approx(truth, abs=1e-4)


def test_groups_of_private_sizes():
    releases = {"a": made(BERNOULLI), "b": made(BERNOULLI, [0] * 90, scale=5.0)}
    with pm.Model(coords={"group": ["b", "a"]}) as model:
        p = pm.Beta("p", 1, 1, dims="group")
        NoisyCount("y", p=p, observed=releases, dims="group")
    given = {"p": np.array([0.1, 0.3]), "y_records": np.array([80.0, 30.0])}
    found = log_density(model, "y", given)
    for k, label in enumerate("ba"):
        noise = releases[label].mechanism.distribution
        for j, share in enumerate((1 - given["p"][k], given["p"][k])):
            counts = np.arange(400)
            own = noise.log_mass(releases[label]["statistic"][0, j] - counts)
            due = special.logsumexp(stats.poisson.logpmf(counts, given["y_records"][k] * share) + own)
            assert found[k, j] == pytest.approx(due, rel=1e-6)
    assert [data.name for data in model.data_vars] == ["y_noise_scale", "y_epsilon", "y_delta", "y_released"]
    assert model.named_vars_to_dims["y_records"] == ("group",)


@pytest.mark.generations
def test_categories_and_observations_by_name():
    release = made(ps.DirichletCategorical((1, 1, 1)), [0, 1, 2, 2])
    with pm.Model() as model:
        theta = pm.Dirichlet("theta", np.ones(3))
        NoisyMultinomial("y", p=theta, observed=release)
        noisy_observation("z", release, theta=theta)
    given = {"theta": np.array([0.2, 0.3, 0.5])}
    one = log_density(model, "y", given | {"y_records": 7.0})
    assert one.shape == (3,)
    assert log_density(model, "z", given | {"z_records": 7.0}) == pytest.approx(one)


@pytest.mark.generations
def test_what_does_not_fit_is_refused():
    release, public = made(BERNOULLI), made(BERNOULLI, n=30)
    with pm.Model():
        with pytest.raises(ValueError, match="n must be left out"):
            NoisyCount("a", n=30, p=0.3, observed=release)
        with pytest.raises(ValueError, match=r"same shape|public n, or all"):
            NoisyCount("b", p=0.3, observed=[release, public])
        with pytest.raises(TypeError, match="p must be given"):
            NoisyCount("c", observed=release)
        with pytest.raises(TypeError, match="p must be given"):
            NoisyMultinomial("d", observed=made(ps.DirichletCategorical((1, 1)), [0, 1]))
        both = [made(ps.DirichletCategorical((1, 1)), [0, 1], **size) for size in ({}, {"n": 2})]
        with pytest.raises(ValueError, match="public n, or all"):
            NoisyMultinomial("e", p=[0.5, 0.5], observed=both)
        times = made(ps.GammaExponential(1, 1, upper=2.0))
        with pytest.raises(TypeError, match="NoisySum needs a public number of records"):
            NoisySum("f", records=pm.Exponential.dist(1.0), lower=0.0, upper=2.0, observed=times)
    with pytest.raises(TypeError, match="NoisySum needs a public number of records"):
        ps.PrivateStatistics(release=times).mcmc(10, tune=10, chains=1)


@pytest.mark.generations
def test_mcmc_samples_the_posterior_of_the_release(monkeypatch):
    """What is sampled, against enumeration: the posterior of the share, up to a factor, at a fixed mean of records."""
    sampled = []

    def stopped(model, **options):
        sampled.append((model, options))
        raise KeyboardInterrupt

    monkeypatch.setattr(pymc_fits, "run", stopped)
    release = made(ps.BetaBernoulli(2, 3))
    with pytest.raises(KeyboardInterrupt):
        ps.PrivateStatistics(release=release).mcmc(8, tune=6, chains=2, rng=np.random.default_rng(1))
    ((model, options),) = sampled
    assert (options["draws"], options["tune"], options["chains"]) == (8, 6, 2)
    compute = model.compile_logp(jacobian=False, mode=MODE)
    start, counts, noise = model.initial_point(), np.arange(200), release.mechanism.distribution
    mean = model.replace_rvs_by_values([model["released_records"]])
    records = pytensor.function(model.value_vars, mean, mode=MODE, on_unused_input="ignore")(**start)[0]
    found, due = [], []
    for share in (0.2, 0.6):
        found.append(float(compute(start | {"theta_logodds__": special.logit(share)})))
        masses = (
            special.logsumexp(stats.poisson.logpmf(counts, float(records) * own) + noise.log_mass(seen - counts))
            for seen, own in zip(release["statistic"][0], (1 - share, share), strict=True)
        )
        due.append(stats.beta.logpdf(share, 2, 3) + sum(masses))
    assert np.diff(found) == pytest.approx(np.diff(due), rel=1e-6)


@pytest.mark.long
def test_chains_agree_with_the_exact_posterior(rng):
    """NUTS on the posterior above; Numba compiles its model."""
    found = ps.PrivateStatistics(release=made(BERNOULLI))
    drawn = found.mcmc(500, tune=500, chains=2, rng=rng)["theta"]
    exact = found.noise_aware()
    assert drawn.mean() == pytest.approx(float(exact.mean), abs=0.3 * float(exact.variance) ** 0.5)
    assert drawn.std() == pytest.approx(float(exact.variance) ** 0.5, rel=0.2)
