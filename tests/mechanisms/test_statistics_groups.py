"""Posteriors of all groups at once: those of each group alone, calibrated, named, and refused where there are none."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.models.grouped_counts import NoisyProportions, blocks, noisy_proportions
from tests.mechanisms.noisy import BINARY, FRACTIONAL, SURVEY, TIMES

PAIR = ps.DirichletCategorical(alpha=(1, 2), names=("no", "yes"))
COUNTS = ps.GammaPoisson(shape=3, rate=1, upper=5)
SIZES = {"A": 1, "B": 40, "C": 40, "D": 300, "E": 40}


def released(model, sizes=SIZES, *, rates=None, seed=0, **fields):
    """Statistics of simulated records: zeros and ones, with one rate for each group."""
    rng = np.random.default_rng(seed)
    rates = np.full(len(sizes), 0.4) if rates is None else rates
    records = np.concatenate([rng.random(n) < rate for n, rate in zip(sizes.values(), rates, strict=True)])
    keys = np.repeat(list(sizes), list(sizes.values()))
    base = ps.NoisyStatistics(model=model, n=1, **{"scale": 2.0, **fields})
    mechanism = ps.by("ward", base, keys=list(sizes), sizes=sizes)
    return ps.PrivateStatistics(release=mechanism.release((keys, records.astype(float)), rng=rng))


@pytest.mark.parametrize("noise", ["discrete laplace", "laplace", "gaussian", "discrete gaussian"])
@pytest.mark.parametrize("prior", [(1, 1), (0.3, 2.5), (60, 0.05)])
def test_proportions_are_those_of_each_group(noise, prior):
    statistics = released(ps.BetaBernoulli(*prior), noise=noise, draws=2, scale=3.0)
    together = statistics.noise_aware()
    assert isinstance(together, NoisyProportions)
    assert len(together) == len(SIZES)
    levels = np.array([0.0, 1e-5, 0.05, 0.5, 0.95, 0.9999, 1.0])
    x = np.linspace(0.05, 0.95, 7)
    quantiles, densities, low_high = together.quantile(levels), together.log_density(x[:, None]), together.interval(0.8)
    assert quantiles.shape == (7, 5)
    for place, key in enumerate(SIZES):
        alone = statistics.group(key).noise_aware()
        assert together.mean[place] == pytest.approx(alone.mean, rel=1e-11)
        assert together.variance[place] == pytest.approx(alone.variance, rel=1e-10)
        assert quantiles[:, place] == pytest.approx(alone.quantile(levels), rel=1e-9)
        assert densities[:, place] == pytest.approx(alone.log_density(x), rel=1e-9)
        assert low_high[:, place] == pytest.approx(alone.interval(0.8), rel=1e-9)
        assert together[place].mean == alone.mean


@pytest.mark.parametrize("model", [PAIR, COUNTS, TIMES], ids=lambda model: type(model).__name__)
def test_other_posteriors_are_those_of_each_group(model):
    # A posterior of clipped times takes three times as long under Laplace noise, which the counts have.
    statistics = released(model, {"A": 3, "B": 40}, **({"noise": "gaussian"} if model is TIMES else {}))
    aware = statistics.noise_aware()
    for together, name in ((aware, "noise_aware"), (statistics.posterior(), "posterior")):
        each = [getattr(statistics.group(key), name)() for key in "AB"]
        assert np.array_equal(together.mean, [one.mean for one in each])
        assert np.array_equal(together.variance, [one.variance for one in each])
        assert np.array_equal(together.quantile([0.1, 0.7]), np.stack([one.quantile([0.1, 0.7]) for one in each], 1))
        x = each[0].sample(2, np.random.default_rng(1))[:, None]
        assert together.log_density(x) == pytest.approx(np.stack([one.log_density(x[:, 0]) for one in each], 1))
        assert together.sample(4, np.random.default_rng(1)).shape == (4, *together.mean.shape)
    changed = model.update_prior(np.full(np.shape(model.empty), 3.0), 6)
    assert not np.array_equal(statistics.noise_aware(changed).mean, aware.mean)


@pytest.mark.parametrize(
    "model",
    [BINARY, pytest.param(PAIR, marks=pytest.mark.long), SURVEY, COUNTS],  # a pair is a binary model in two columns
    ids=["binary", "pair", "survey", "counts"],
)
def test_groups_of_private_sizes_are_those_of_each_group(model):
    base = ps.NoisyStatistics(model=model, scale=2.0, draws=2)
    mechanism = ps.by("ward", base, keys=[*SIZES, "empty"])
    data = (np.repeat(list(SIZES), list(SIZES.values())), np.arange(421.0) % 5 // 3)
    release = mechanism.release(mechanism.tally(data), rng=np.random.default_rng(1))
    assert release == mechanism.release(data, rng=np.random.default_rng(1))
    whole = base.release(base.tally(data[1]), rng=np.random.default_rng(1))
    assert whole == base.release(data[1], rng=np.random.default_rng(1))
    statistics = ps.PrivateStatistics(release=release)
    assert statistics.n is None
    assert mechanism.accountant.epsilon(0.0) == pytest.approx(base.accountant.epsilon(0.0))
    each = [statistics.group(key) for key in mechanism.keys]
    assert np.array_equal(statistics.posterior().mean, [one.posterior().mean for one in each])
    if model not in (BINARY, PAIR):
        with pytest.raises(TypeError, match=r"MCMC|not known for a private number"):
            statistics.noise_aware()
        return
    together = statistics.noise_aware()
    assert np.array_equal(together.mean, [one.noise_aware().mean for one in each])
    drawn = statistics.draw(4)
    assert drawn["theta"].shape == (4, *together.mean.shape)
    assert "n" not in drawn.constant_data


def test_plug_in_posteriors_of_counts_are_those_of_each_group():
    statistics = released(BINARY)
    together = statistics.posterior()
    assert [together[place] for place in range(5)] == [statistics.group(key).posterior() for key in SIZES]
    other = released(BINARY, seed=1).posterior()
    assert together.relative_entropy(other) == pytest.approx(
        sum(together[place].relative_entropy(other[place]) for place in range(5))
    )


def test_equal_groups_share_a_distribution_and_not_their_draws():
    sizes = dict.fromkeys(map(str, range(24)), 4)
    statistics = released(COUNTS, sizes, rates=np.zeros(24), noise="discrete laplace", scale=1.0)
    found = statistics.noise_aware()
    assert 1 < len(found.parts) == len(np.unique(statistics.observed)) < 12
    for drawn in (found.sample(1, np.random.default_rng(1)), released(BINARY, sizes).draw(1)["theta"]):
        assert len(np.unique(drawn)) == 24


def test_statistics_of_groups_have_names_and_one_account(tmp_path):
    statistics = released(PAIR)
    assert statistics.groups == statistics.coords["ward"] == tuple(SIZES)
    assert statistics.n.tolist() == list(SIZES.values())
    assert statistics.statistic.shape == (5, 2)
    statistics.save(tmp_path / "wards.json")
    assert ps.PrivateStatistics.load(tmp_path / "wards.json") == statistics
    drawn = statistics.draw(20, rng=np.random.default_rng(1))
    assert drawn["theta"].shape == (20, 5, 2)
    assert drawn.account == statistics.account
    assert drawn.interval(0.5)["theta"].shape == (2, 5, 2)
    found = drawn.to_arviz()
    assert found.posterior["theta"].dims == ("chain", "draw", "ward", "category")
    assert found.posterior["ward"].values.tolist() == list(SIZES)
    assert np.asarray(found.constant_data["n"]).tolist() == list(SIZES.values())
    plain = released(BINARY).draw(8)
    assert plain.to_arviz().posterior["theta"].dims == ("chain", "draw", "ward")
    assert "for each group a mixture" in plain.method
    assert released(BINARY).draw(8, plug_in=True)["theta"].shape == (8, 5)
    assert plain.plot().get_yticklabels()[1].get_text() == "theta[B]"


def test_one_group_has_the_account_of_one_group():
    statistics = released(BINARY, scale=4.0)
    one = statistics.group("D")
    assert (one.n, one.groups, one.statistic) == (300, None, statistics.statistic[3])
    assert one.account.epsilon(0.0) == pytest.approx(0.25)
    assert ps.Assumption.RNG_FRESH in one.account.assumptions
    base = ps.NoisyStatistics(model=BINARY, n=2, scale=4.0)
    release = ps.by("ward", base, keys=[7, 9]).release(([7, 7, 9, 9], [0, 1, 1, 1]))
    other = ps.PrivateStatistics(release=release).group(9)
    assert ps.Assumption.RNG_FRESH not in other.account.assumptions
    for statistics, key in ((one, "D"), (ps.PrivateStatistics(release=release), "9"), (one, None)):
        with pytest.raises(ValueError, match="key must be one of the"):
            statistics.group(key)


def test_what_groups_do_not_have():
    with pytest.raises(TypeError, match=r"use .group\(key\).mcmc\(\)"):
        released(BINARY).mcmc()
    for model, message in ((SURVEY, "3 categories"), (FRACTIONAL, "fractional")):
        with pytest.raises(TypeError, match=message):
            released(model).noise_aware()
    with pytest.raises(TypeError, match="the parameter is a vector"):
        released(PAIR).posterior().interval()
    for wrong in (1.0, 0.0, np.nan):
        with pytest.raises(ValueError, match=r"probability must lie in \(0, 1\)"):
            released(BINARY).noise_aware().interval(wrong)
    with pytest.raises(ValueError, match="lower draws"):
        released(BINARY).draw(10**9)
    sums = ps.by("ward", ps.LaplaceSum(bounds=(0, 1), scale=2.0), keys=["A"])
    for release in (sums.release((["A"], [0.5])), ps.LaplaceSum(bounds=(0, 1), scale=2.0).release([0.5]), 3.0):
        with pytest.raises(TypeError, match="must be a Release of NoisyStatistics"):
            ps.PrivateStatistics(release=release)


def test_noise_that_leaves_too_many_counts_is_refused():
    noise = ps.LaplaceNoise(scale=1e7)
    with pytest.raises(ValueError, match="counts possible"):
        noisy_proportions(1.0, 1.0, np.array([10, 10**9]), noise, np.array([[5.0, 5e8]]))


def test_a_prior_far_from_the_noisy_count_widens_its_range():
    """The range of counts of the second group must grow until it holds the posterior."""
    noise = ps.DiscreteGaussianNoise(noise_std=2.0)
    sizes, seen = np.array([50, 4000]), np.array([[20.0, 0.0]])
    found, method = noisy_proportions(4e5, 1.0, sizes, noise, seen)
    assert found.high[1] > np.ceil(noise.quantile_bound(np.log(1e-13) - 5))
    assert found.mean == pytest.approx([float(found[place].mean) for place in range(2)], rel=1e-11)
    assert "at most" in method


def test_blocks_hold_each_row_once_and_stay_small():
    widths = np.array([1 << 21, 3, 1 << 15, 200, *[100] * 20_000], dtype=float)
    found = list(blocks(widths))
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(len(widths)))
    assert all(len(rows) == 1 or len(rows) * widths[rows].max() <= 1 << 20 for rows in found)
    assert len(found) < 10


# Calibration by simulation (Talts, Betancourt, Simpson, Vehtari and Gelman 2018): the true rate of each group is drawn
# from the prior. The plug-in posterior, which ignores the noise, is the broken copy.


@pytest.mark.statistical
@pytest.mark.parametrize(("plug_in", "accepted"), [(False, True), (True, False)])
@pytest.mark.parametrize("noise", ["discrete laplace", "gaussian"])
def test_ranks_of_the_rates_of_groups_are_uniform(noise, plug_in, accepted, rng, alpha):
    prior, groups = ps.BetaBernoulli(2, 3), 3000
    rates = rng.beta(2, 3, groups)
    sizes = {str(k): int(n) for k, n in enumerate(rng.integers(5, 60, groups))}
    seed = int(rng.integers(1 << 32))
    statistics = released(prior, sizes, rates=rates, seed=seed, noise=noise, scale=5.0)
    drawn = statistics.draw(200, plug_in=plug_in, rng=rng)["theta"]
    ranks = ((drawn < rates).sum(axis=0) + rng.random(groups)) / 201
    assert (stats.kstest(np.abs(ranks - 0.5) * 2, "uniform").pvalue > alpha) == accepted
    low, high = (statistics.posterior() if plug_in else statistics.noise_aware()).interval(0.9)
    inside = int(((low <= rates) & (rates <= high)).sum())
    assert (stats.binomtest(inside, groups, 0.9).pvalue > alpha) == accepted
