"""ps.infer: what it takes and refuses, what it returns, and its calibration on data simulated from the prior."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.inference import infer as module
from privsample.inference.chains import Observation
from privsample.inference.records import ExponentialRecords, NormalRecords
from tests.inference.calibration import random_rank, uniform_pvalue
from tests.inference.noises import OwnLogistic

MODEL = ps.GammaExponential(4, 4, upper=1.5)
MECHANISM = ps.NoisyStatistics(model=MODEL, n=20, scale=3.0)
RELEASE = MECHANISM.release(np.full(20, 0.7), rng=np.random.default_rng(0))
SHORT = {"draws": 10, "tune": 10, "chains": 2}


def other(**changes):
    given = {"model": MODEL, "n": 20, "noise": ps.LaplaceNoise(scale=3.0), "observed": np.array([14.0])}
    return SimpleNamespace(**given | changes)


def test_a_release_its_statistics_and_any_object_with_the_four_attributes():
    found = [
        ps.infer(release, rng=np.random.default_rng(5), **SHORT)["rate"]
        for release in (RELEASE, ps.PrivateStatistics(release=RELEASE), other(observed=RELEASE["statistic"]))
    ]
    assert found[0].shape == (20,)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_the_result_has_the_account_the_diagnostics_and_groups():
    posterior = ps.infer(RELEASE, rng=np.random.default_rng(5), draws=50, tune=20, chains=3)
    assert posterior.account == RELEASE.account
    assert posterior.chains == 3
    assert posterior.method.startswith(
        "exact: data augmentation with conjugate records; 3 chains of 50, largest R-hat "
    )
    assert "least effective sample size" in posterior.method
    tree = posterior.to_arviz()
    assert tree.posterior["rate"].shape == (3, 50)
    assert tree.sample_stats["acceptance_rate"].shape == (3, 50)
    assert float(tree.observed_data["noisy_statistic"].values[0]) == RELEASE["statistic"][0]
    assert tree.constant_data["n"].values.item() == 20
    assert (
        ps.infer(other(), **SHORT).account == replace(MECHANISM, exact=False).accountant
    )  # it does not say how it drew


def test_more_copies_of_noise_the_library_does_not_know():
    release = other(noise=OwnLogistic(scale=2.0), observed=np.array([13.0, 15.0]), account=RELEASE.account)
    assert np.isfinite(ps.infer(release, **SHORT)["rate"]).all()


def test_another_prior():
    sharp = ps.infer(RELEASE, prior=ps.GammaExponential(4e6, 1e6, upper=1.5), rng=np.random.default_rng(5), **SHORT)
    assert sharp["rate"] == pytest.approx(np.full(20, 4.0), rel=0.01)
    by_name = ps.infer(RELEASE, prior={"rate": stats.uniform(2, 1)}, rng=np.random.default_rng(5), **SHORT)
    assert ((by_name["rate"] > 2) & (by_name["rate"] < 3)).all()
    assert "quantiles" in by_name.method


@pytest.mark.parametrize(
    ("model", "prior"),
    [
        (ps.BetaBernoulli(1, 1), {"theta": ps.Beta(2, 2)}),
        (ps.GammaExponential.example(), {"rate": stats.lognorm(1)}),
        (ps.GammaPoisson.example(), {"rate": ps.Gamma(2, 2)}),
        (ps.NormalKnownVariance.example(), {"mean": stats.t(3)}),
        (ps.NormalUnknownVariance.example(), {"mean": stats.norm(0, 1), "variance": stats.invgamma(3)}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_priors_by_name_have_the_records_of_the_model(model, prior):
    mechanism = ps.NoisyStatistics(model=model, n=6, scale=1.0)
    release = mechanism.release(np.ones(6), rng=np.random.default_rng(0))
    posterior = ps.infer(release, prior=prior, draws=4, tune=2, chains=1, rng=np.random.default_rng(1))
    assert set(posterior.draws) == set(prior)
    assert all(values.shape == (4,) for values in posterior.draws.values())


@pytest.mark.statistical
def test_stated_and_conjugate_chains_agree(rng, alpha):
    """With one prior, in two forms; the mutant has another prior."""
    release = other(observed=np.array([10.0]))
    conjugate = ps.infer(release, draws=2000, tune=200, chains=1, rng=rng)["rate"][::4]
    for prior, draws, accepted in ((ps.Gamma(4, 4), 800, True), (ps.Gamma(16, 4), 400, False)):
        stated = ps.infer(release, prior={"rate": prior}, draws=draws, tune=100, chains=1, rng=rng)["rate"][::8]
        assert (stats.ks_2samp(conjugate, stated).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("count", "factor"), [(260, 0.3), pytest.param(700, 0.6, marks=pytest.mark.long)])
def test_simulation_based_calibration(count, factor, rng, alpha):
    """Ranks of the parameter and of the size of the noise among draws are uniform, where records are clipped.

    Talts and others 2018. The mutant believes in `factor` times the noise. The mean rank of the size of the noise is
    then wrong by 10.3 standard deviations (700 data sets and 0.6: 9.4), give or take 1, and the limit is 6.5.
    """
    model, n, noise = ps.NormalKnownVariance(0, 25, noise_variance=0.1, bounds=(-9, 8)), 6, ps.LaplaceNoise(scale=1.0)
    for believed, accepted in ((noise, True), (ps.LaplaceNoise(scale=factor), False)):
        ranks = []
        for mean in model.prior.sample(count, rng):
            total = model.statistic(model.simulate(mean, n, rng))
            observed = total + noise.sample((1,), rng)
            chain = NormalRecords(Observation(model=model, n=n, noise=believed, observed=observed))
            chain.start(rng)
            drawn = []
            for i in range(60):
                chain.sweep(rng, tuning=i < 20)
                drawn.append((chain.theta, abs(observed[0] - chain.contributions.sum())))
            ranks.append(random_rank(drawn[20::4], (mean, abs(observed[0] - total)), rng))
        found = 2 * min(uniform_pvalue(each) for each in np.transpose(ranks))
        assert (found > alpha) == accepted


@pytest.mark.parametrize(
    ("release", "error", "match"),
    [
        (
            None,
            TypeError,
            "release must be a Release of NoisyStatistics.*got NoneType without model, n, noise, observed",
        ),
        (SimpleNamespace(model=MODEL, n=3), TypeError, "without noise, observed"),
        (
            ps.GaussianSum(bounds=(0, 1), noise_std=2, relation=ps.ReplaceOne(n=4)).release([0, 1, 1, 0]),
            TypeError,
            "got GaussianSum without",
        ),
        (other(model="exponential"), TypeError, r"release\.model must be a Model, got str"),
        (other(noise=3.0), TypeError, r"release\.noise must be a Noise, such as LaplaceNoise\(scale=2\.0\), got float"),
        (other(n=0), ValueError, r"release\.n must be at least 1, got 0"),
        (other(n=2.5), ValueError, r"release\.n must be a whole number"),
        (other(n=10**12), ValueError, "lower the number of records"),
        (other(observed=14.0), ValueError, r"release\.observed must have shape \(copies,\), got \(\)"),
        (other(observed=np.zeros((1, 2))), ValueError, r"shape \(copies,\), got \(1, 2\)"),
        (other(observed=np.array([np.inf])), ValueError, r"release\.observed must be finite numbers"),
        (other(observed=np.array([np.nan])), ValueError, r"release\.observed must not contain NaN"),
        (other(observed=["many"]), TypeError, r"release\.observed must be real numbers"),
        (other(noise=ps.DiscreteLaplaceNoise(scale=1)), ValueError, "statistics of GammaExponential are no integers"),
        (
            other(model=ps.GammaPoisson.example(), noise=ps.DiscreteLaplaceNoise(scale=1), observed=[3.5]),
            ValueError,
            "must be whole numbers where the noise is discrete laplace",
        ),
        (
            other(model=ps.NormalUnknownVariance.example(), observed=[1.0]),
            ValueError,
            r"shape \(copies, 2\), got \(1,\)",
        ),
    ],
)
def test_releases_that_are_refused(release, error, match):
    with pytest.raises(error, match=match):
        ps.infer(release, **SHORT)


def norm(mean):
    return stats.norm(mean, 1)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (
            {"prior": ps.GammaExponential(4, 4, upper=9)},
            ValueError,
            "prior may differ from the model of the release in",
        ),
        ({"prior": ps.GammaPoisson(4, 4, upper=9)}, ValueError, "prior may differ"),
        ({"prior": stats.norm()}, TypeError, "prior must be a GammaExponential with another prior, or a mapping"),
        ({"records": norm}, TypeError, "prior must be a mapping from names of parameters.*got NoneType"),
        ({"prior": MODEL, "records": norm}, TypeError, "got GammaExponential"),
        ({"prior": {"mean": stats.norm()}, "records": 3}, TypeError, "records must be a function, got int"),
        (
            {"prior": {"std": stats.norm()}, "records": norm},
            TypeError,
            r"records must take the parameters of prior by keyword \(std\): missing a required argument: 'mean'",
        ),
        (
            {"prior": {"mean": stats.norm(), "std": stats.norm()}, "records": norm},
            TypeError,
            r"by keyword \(mean, std\): got an unexpected keyword argument 'std'",
        ),
        ({"prior": {"theta": stats.norm()}}, TypeError, r"by keyword \(theta\)"),
        ({"prior": {"mean": 3.0}, "records": norm}, TypeError, r"prior\['mean'\] must be a frozen distribution"),
        ({"prior": {"mean": stats.norm()}, "records": lambda mean: mean}, TypeError, "records must return a frozen"),
        (
            {"prior": {"std": stats.norm()}, "records": lambda std: stats.norm(0, std)},
            ValueError,
            "Domain|Scale|restrict the prior|scale",
        ),
        ({"size_prior": [0.0, 0.0]}, ValueError, "size_prior must be left out: the release says that it is of n = 20"),
        ({"draws": 0}, ValueError, "draws must be at least 1"),
        ({"draws": 10**12}, ValueError, "lower draws"),
        ({"tune": 0}, ValueError, "tune must be at least 1"),
        ({"chains": 1.5}, ValueError, "chains must be a whole number"),
        ({"rng": 3}, TypeError, r"rng must be a numpy\.random\.Generator"),
        ({"progress": 1}, TypeError, "progress must be True or False"),
    ],
)
def test_arguments_that_are_refused(given, error, match, monkeypatch):
    """Before anything is sampled."""
    monkeypatch.setattr(module, "run_chains", lambda *_, **__: pytest.fail("sampled"))
    with pytest.raises(error, match=match):
        ps.infer(RELEASE, **SHORT | given)


@pytest.mark.parametrize(
    ("sizes", "error", "match"),
    [
        ([0.0, np.nan], ValueError, "size_prior must not contain NaN"),
        ([-np.inf, -np.inf], ValueError, "not all -inf"),
        ([0.0], ValueError, r"shape \(most \+ 1,\)"),
        ("many", TypeError, "size_prior must be real numbers"),
        ([0.0, 1.0], TypeError, "size_prior is for counts of categories, got one for GammaExponential"),
    ],
)
def test_priors_of_the_number_of_records_that_are_refused(sizes, error, match):
    with pytest.raises(error, match=match):
        ps.infer(other(account=RELEASE.account), size_prior=sizes, **SHORT)


def test_without_a_public_number_of_records_the_account_must_be_given():
    with pytest.raises(TypeError, match=r"release\.account must be the account"):
        ps.infer(other(n=None), size_prior=[0.0, 0.0], **SHORT)


def test_fractional_bernoulli_records_have_no_likelihood():
    model = ps.BetaBernoulli(1, 1, fractional=True)
    release = ps.NoisyStatistics(model=model, n=6, scale=1.0).release(np.full(6, 0.3), rng=np.random.default_rng(0))
    with pytest.raises(TypeError, match="fractional records have no likelihood"):
        ps.infer(release, **SHORT)
    with pytest.raises(TypeError, match="records must be given with priors by name for a release of BetaBernoulli"):
        ps.infer(release, prior={"theta": ps.Beta(1, 1)}, **SHORT)
    found = ps.infer(release, prior={"b": stats.uniform(1, 4)}, records=lambda b: stats.beta(1, b), **SHORT)
    assert found["b"].shape == (20,)


@dataclass(frozen=True, kw_only=True)
class GammaErlang(ps.Model):
    """Times of two stages, the example of a model that another package adds."""

    shape: float
    rate: float
    prior_parameters = ("shape", "rate")
    parameter = "rate"

    @property
    def domain(self):
        return ps.Domain(low=0.0, high=4.0, missing=0.0)

    def posterior(self, statistic, n, *, data_weight=1.0, prior_weight=1.0):
        return ps.Gamma(shape=self.shape + 2 * n, rate=self.rate + float(statistic))


class ErlangRecords(ExponentialRecords):
    """Its chain: two exponential times."""

    def simulate(self, theta, rng):
        return rng.standard_gamma(2.0, self.n) / theta


def test_a_chain_for_a_model_of_ones_own(monkeypatch):
    monkeypatch.setattr(module, "_CHAINS", dict(module._CHAINS))
    release = other(model=GammaErlang(shape=2.0, rate=1.0))
    with pytest.raises(
        TypeError, match=r"infer needs a release of one of the models .*got GammaErlang.*register_chain"
    ):
        ps.infer(release, **SHORT)
    ps.register_chain(GammaErlang, ErlangRecords)
    assert ps.infer(release, **SHORT)["rate"].shape == (20,)
    with pytest.raises(ValueError, match="GammaErlang already has another chain"):
        ps.register_chain(GammaErlang, ExponentialRecords)
    with pytest.raises(TypeError, match="model_class must be a subclass of Model"):
        ps.register_chain(int, ErlangRecords)
    with pytest.raises(TypeError, match="factory must be a function"):
        ps.register_chain(ps.DirichletCategorical, 3)
