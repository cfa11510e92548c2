"""Noisy statistics whose number of records is private: the release, its file, and what an analyst infers from it."""

import numpy as np
import pytest
from scipy import special, stats

from privsample import (
    AddRemove,
    Assumption,
    BetaBernoulli,
    DirichletCategorical,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    NoisyStatistics,
    NormalKnownVariance,
    PoissonSampling,
    PrivateStatistics,
    Release,
    Subsampled,
    infer,
)
from privsample.distributions.models.noisy_pair import noisy_pair_posterior
from tests.mechanisms.noisy import BINARY, FRACTIONAL, NORMAL, SURVEY, TIMES, YES, each_model, private

TINY = 1e-6


@each_model
def test_statistic_and_number_follow_from_a_release_with_little_noise(model):
    noise = "gaussian"
    mechanism = NoisyStatistics(model=model, scale=TINY, noise=noise)
    release = mechanism.release(YES)
    own, n = mechanism._sized.parts(release["statistic"][0])
    assert own == pytest.approx(model.summarize(YES)[0], abs=1e-4)
    assert n == pytest.approx(50, abs=1e-4)
    truth = model.posterior(*model.summarize(YES))
    found = PrivateStatistics(release=release)
    assert found.posterior().mean == pytest.approx(truth.mean, rel=1e-4)
    assert found.n is None
    assert release.account.assumptions == frozenset()
    assert Release.from_json(release.to_json()) == release
    assert mechanism.release([])["statistic"].shape == release["statistic"].shape
    assert mechanism.for_size(7) is mechanism
    assert "number" in mechanism.description
    floats = NoisyStatistics(model=model, scale=TINY, noise=noise, exact=False)
    assert floats.accountant.assumptions == {Assumption.IDEAL_REALS}
    assert floats.release(YES)["statistic"] == pytest.approx(release["statistic"], abs=1e-4)


def test_the_coordinates_are_named():
    release = NoisyStatistics(model=NORMAL, scale=2.0).release(YES)
    assert release.coords == {"bound": ("-1", "1")}
    assert release.to_arviz().posterior["statistic"].dims[-1] == "bound"
    names = DirichletCategorical((1, 1), names=("no", "yes"))
    assert NoisyStatistics(model=names, scale=2.0).release(["no"])["statistic"].shape == (1, 2)
    assert NoisyStatistics(model=names, scale=2.0).release(["no"]).coords == {"category": ("no", "yes")}


def test_a_coarse_grid_rounds_the_bounds_and_the_number_stays_right():
    model = NormalKnownVariance(0, 1, noise_variance=1, bounds=(-0.3, 1.1))
    mechanism = NoisyStatistics(model=model, scale=TINY, noise="gaussian", grid=0.25)
    found = mechanism._sized.parts(mechanism.release(np.full(40, 9.0))["statistic"][0])
    assert found[1] == pytest.approx(40, abs=1e-3)
    assert found[0] == pytest.approx(40 * 1.0, abs=1e-3)
    assert mechanism.accountant.pure_epsilon == np.inf
    assert mechanism.accountant.differences.differences.max() == 1.25


def test_what_has_no_private_number_of_records():
    class Squares(type(TIMES)):
        __slots__ = ()

        def statistic(self, chunk):
            return np.asarray((self.domain.clean(chunk) ** 2 / self.upper).sum())

    with pytest.raises(TypeError, match="n must be given for Squares"):
        NoisyStatistics(model=Squares(shape=1, rate=1, upper=2.0), scale=1.0)
    with pytest.raises(ValueError, match="public number of records"):
        infer(NoisyStatistics(model=BINARY, scale=1.0).release(YES), draws=5)
    with pytest.raises(TypeError, match="fractional records have no likelihood"):
        private(NoisyStatistics(model=FRACTIONAL, scale=3.0)).noise_aware()
    with pytest.raises(TypeError, match="3 categories"):
        private(NoisyStatistics(model=SURVEY, scale=3.0)).noise_aware()


def test_no_noise_makes_a_release_or_its_posterior_fail(rng):
    for model in (BINARY, SURVEY, NORMAL, TIMES):
        for scale in (1e-3, 1e9):
            mechanism = NoisyStatistics(model=model, scale=scale)
            for data in ([], [np.nan, np.inf, -np.inf, 1e308, -1e308], ["x", None, "1"] if model is SURVEY else [5.0]):
                if data and isinstance(data[0], str):
                    continue
                found = private(mechanism, data, rng).posterior()
                assert np.isfinite(found.mean).all()


@pytest.mark.parametrize("group", [1, 3])
def test_worst_neighbours_are_records_and_none(group):
    for model in (BINARY, SURVEY, NORMAL):
        (pair,) = NoisyStatistics(model=model, scale=3.0).worst_neighbours(group)
        assert len(pair.datasets[0]()) == group
        assert len(pair.datasets[1]()) == 0
        draws = pair.draw(pair.datasets[0](), 50, np.random.default_rng(0))
        assert np.abs(pair.loss(draws)).max() <= pair.account.group(group).pure_epsilon * (1 + 1e-9)
    sampled = Subsampled(base=NoisyStatistics(model=BINARY, scale=3.0), scheme=PoissonSampling(rate=0.2))
    assert sampled.relation == AddRemove()
    assert sampled.release(YES)["statistic"].shape == (1, 2)
    assert sampled.worst_neighbours()[0].loss is not None


# The posterior of a proportion, against the double sum over both hidden counts.


def mixture(a, b, noise, zeros, ones, at):
    """The mean and the distribution function by the sum of Beta posteriors over the numbers of zeros and of ones."""
    reach = int(noise.quantile_bound(-150.0)) + 3
    z, o = (np.arange(max(0, int(min(y)) - reach), max(0, int(max(y))) + reach + 1.0) for y in (zeros, ones))
    z = z[:, None]
    logs = sum(noise.log_mass(y - z) for y in zeros) + sum(noise.log_mass(y - o) for y in ones)
    logs = logs + special.gammaln(z + o + 1) - special.gammaln(z + 1) - special.gammaln(o + 1)
    logs = logs + special.betaln(a + o, b + z)
    weights = np.exp(logs - special.logsumexp(logs))
    return (weights * (a + o) / (a + b + o + z)).sum(), [(weights * special.betainc(a + o, b + z, x)).sum() for x in at]


@pytest.mark.parametrize(
    ("a", "b", "noise", "zeros", "ones"),
    [
        (1, 1, DiscreteLaplaceNoise(scale=2.0), [12.0], [7.0]),
        (0.5, 2, DiscreteLaplaceNoise(scale=5.0), [-3.0], [40.0]),
        (2, 3, GaussianNoise(noise_std=3.0), [30.2, 28.0], [2.1, -1.0]),
        (2, 2, LaplaceNoise(scale=0.1), [3.02], [0.03]),
        (50, 50, DiscreteGaussianNoise(noise_std=4.0), [300.0], [90.0]),
        (400, 400, DiscreteLaplaceNoise(scale=2.0), [150.0], [5.0]),  # the prior contradicts the counts
    ],
)
def test_the_posterior_is_the_sum_over_both_counts(a, b, noise, zeros, ones):
    found = noisy_pair_posterior(a, b, noise, np.array(zeros), np.array(ones)).distribution
    shares = np.array([0.05, 0.5, 0.95])
    mean, below = mixture(a, b, noise, zeros, ones, found.quantile(shares))
    assert float(found.mean) == pytest.approx(mean, rel=1e-9)
    assert below == pytest.approx(shares, rel=1e-9)
    assert found.below(found.quantile(shares)) == pytest.approx(shares, rel=1e-9)
    x = found.quantile(np.array([0.3, 0.3001]))
    density = 0.0001 / (x[1] - x[0])
    assert np.exp(found.log_density(x)).mean() == pytest.approx(density, rel=1e-4)
    second = (found.odds.expectation(lambda r: (r / (1 + r)) ** 2)) - float(found.mean) ** 2
    assert float(found.variance) == pytest.approx(second, rel=1e-6)
    with pytest.raises(TypeError, match="relative entropy"):
        found.relative_entropy(found)


def test_two_categories_are_zeros_and_ones(rng):
    noise, seen = DiscreteLaplaceNoise(scale=2.0), np.array([[7.0, 12.0]])
    two = DirichletCategorical((1, 2)).sized_noise_aware(noise, seen).distribution
    one = BetaBernoulli(1, 2).sized_noise_aware(noise, seen[:, ::-1]).distribution
    assert two.mean == pytest.approx([float(one.mean), 1 - float(one.mean)])
    drawn = private(NoisyStatistics(model=BINARY, scale=3.0), rng=rng).draw(100, rng=rng)
    assert "uniform prior of the number of records" in drawn.method
    assert drawn["theta"].shape == (100,)
    assert "n" not in drawn.to_arviz().constant_data


def test_much_noise_and_many_records():
    for n in (1e3, 1e9):
        found = BINARY.sized_noise_aware(DiscreteLaplaceNoise(scale=30.0), np.array([[0.9 * n, 0.1 * n]])).distribution
        assert float(found.mean) == pytest.approx(0.1, abs=0.01)
    with pytest.raises(ValueError, match="more than 16777216 counts possible"):
        BINARY.sized_noise_aware(DiscreteLaplaceNoise(scale=1e7), np.array([[9.0, 1.0]]))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "mutant", "accepted"),
    [
        ("discrete laplace", True, False),
        ("gaussian", True, False),
        pytest.param("discrete laplace", False, True, marks=pytest.mark.long),
        pytest.param("gaussian", False, True, marks=pytest.mark.long),
    ],
)
def test_posteriors_are_calibrated(noise, mutant, accepted, rng, alpha):
    """Numbers of records from a wide uniform prior; the mutant takes the released counts for the true ones.

    In the test lane, an enumeration above shows that the posteriors are right. The mutants' distribution functions of
    ranks are 0.22 or more from uniform: 300 pairs suffice to reject them with a probability above 0.999.
    """
    model, pairs = BetaBernoulli(2, 3), 1500 if mutant else 300
    mechanism = NoisyStatistics(model=model, scale=12.0, noise=noise)
    found = []
    for theta, n in zip(model.prior.sample(pairs, rng), rng.integers(0, 120, pairs), strict=True):
        ones = rng.binomial(n, theta)
        seen = np.array([[n - ones, ones]]) + mechanism.distribution.sample((1, 2), rng)
        if mutant:
            plain = model.posterior(*mechanism._sized.nearest(seen[0]))
            found.append(float(special.betainc(plain.a, plain.b, theta)))
        else:
            posterior = model.sized_noise_aware(mechanism.distribution, seen).distribution
            found.append(float(posterior.below(np.asarray(theta))))
    assert (stats.kstest(found, "uniform").pvalue > alpha) == accepted


def test_plug_in_counts():
    model = GammaPoisson(shape=3, rate=1, upper=4)
    mechanism = NoisyStatistics(model=model, scale=2.0)
    release = Release(
        mechanism=mechanism, draws={"statistic": np.array([[30.0, 10.0]])}, account=mechanism.accountant, coords={}
    )
    found = PrivateStatistics(release=release).posterior()
    assert (found.shape, found.rate) == (3 + 10, 1 + 10)
