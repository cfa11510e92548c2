"""What stated priors and records must be: one clear error each."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.inference.chains import Observation
from privsample.inference.priors import StatedPrior, stated_priors
from privsample.inference.stated_records import StatedDistribution, StatedRecords
from tests.inference.light import Light, LightPrior

NORMAL = ps.NormalKnownVariance(0, 1, noise_variance=1, bounds=(-1, 1))
LAPLACE = ps.LaplaceNoise(scale=0.8)


@pytest.mark.parametrize(
    ("returned", "error", "match"),
    [
        (3.0, TypeError, r"records must return a frozen distribution.*got float"),
        (stats.norm, TypeError, r"records must return a frozen distribution.*got norm without its parameters"),
        (Light, TypeError, "records must return a frozen distribution.*got the class Light"),
        (stats.norm(0, [1.0, 2.0, 3.0]), ValueError, "operands|size|shape"),
        (Light(np.nan), ValueError, "records must draw numbers, got NaN at mean=0.5: restrict the prior"),
    ],
)
def test_what_records_must_return(returned, error, match, rng):
    with pytest.raises(error, match=match):
        StatedDistribution(lambda mean: returned, {"mean": np.asarray(0.5)}, None).draw(4, rng)


def test_densities_and_quantiles_that_are_no_numbers(rng):
    class Wrong(Light):
        def _logpdf(self, x):
            return x * np.nan

    class WrongQuantiles(Light):
        def _ppf(self, q):
            return q * np.nan

    observation = Observation(model=NORMAL, n=5, noise=LAPLACE, observed=np.array([1.0]))
    priors = stated_priors({"mean": LightPrior()})
    with pytest.raises(ValueError, match="records must have a finite log density or -inf, got nan at mean="):
        StatedRecords(observation, prior=priors, records=Wrong).start(rng)
    with pytest.raises(ValueError, match="ppf and cdf of the records must be numbers, got NaN at mean="):
        StatedRecords(observation, prior=priors, records=lambda mean: WrongQuantiles(mean, hidden=("isf",))).start(rng)


def test_records_that_cannot_be_drawn(rng):
    with pytest.raises(ValueError, match=r"records cannot be drawn at mean=-0.5: restrict the prior .*: Domain error"):
        StatedDistribution(lambda mean: stats.expon(scale=mean), {"mean": np.asarray(-0.5)}, None).draw(4, rng)


@pytest.mark.parametrize(
    ("prior", "error", "match"),
    [
        ({}, ValueError, "prior must name at least one parameter"),
        ({1: stats.norm()}, TypeError, "prior must map names of parameters, such as 'mean', to distributions, got 1"),
        ({"mean": 2.0}, TypeError, r"prior\['mean'\] must be a frozen distribution, such as .*got float"),
        ({"mean": stats.norm}, TypeError, r"prior\['mean'\] must be a frozen.*got norm without its parameters"),
        ({"mean": Light}, TypeError, r"prior\['mean'\] must be a frozen distribution.*got the class Light"),
        ({"w": stats.dirichlet([1, 2, 3])}, ValueError, "not over a surface as the Dirichlet"),
        ({"w": ps.Dirichlet((1, 2))}, ValueError, r"prior\['w'\] must draw finite numbers"),
        (
            {"w": stats.vonmises(1.0)},
            ValueError,
            r"prior\['w'\] must have a density with a finite integral, got vonmises",
        ),
        ({"w": stats.norm(np.zeros((2, 2)), 1)}, ValueError, r"prior\['w'\] must draw finite numbers"),
    ],
)
def test_what_priors_must_be(prior, error, match):
    with pytest.raises(error, match=match):
        stated_priors(prior)


def test_a_prior_whose_density_is_no_number():
    class Wrong(LightPrior):
        def _logpdf(self, x):
            return np.nan

    with pytest.raises(ValueError, match=r"prior\['mean'\] must have a log density, got NaN at"):
        StatedPrior("mean", Wrong())

    class Zero(LightPrior):
        def _logpdf(self, x):
            return -np.inf

    with pytest.raises(ValueError, match=r"prior\['mean'\] must have a finite log density at its draws"):
        StatedPrior("mean", Zero())


def test_quantiles_by_numerical_inversion_are_not_used():
    class Slow(stats.rv_continuous):
        def _pdf(self, x):
            return np.exp(-x)

    slow = Slow(a=0.0)
    assert not StatedDistribution(slow, {}, None).has_quantiles
    assert StatedDistribution(lambda: stats.gamma(2), {}, None).has_quantiles
    assert StatedDistribution(lambda: stats.nbinom(2, 0.5), {}, None).has_quantiles


def test_records_may_change_their_arguments():
    """A function that works in place must not change the state of the chain."""

    def doubled(w):
        w *= 2
        return Light(w[0])

    values = {"w": np.array([0.5, 1.0])}
    assert StatedDistribution(doubled, values, None).distribution.mean == 1.0
    assert values["w"].tolist() == [0.5, 1.0]
