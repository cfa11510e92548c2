"""The contract of PyMC's distributions, by PyMC's own checks, for every distribution of `privsample.pymc`."""

import itertools
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pymc.testing as checks
import pytensor
import pytest
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode
from scipy import integrate, special, stats

import privsample.pymc
from privsample.distributions.noise import NAMES, noise_distribution
from privsample.interop.pymc_distributions.regression import nodes
from privsample.pymc import NoisyCount, NoisyMoments, NoisyMultinomial, NoisyPoisson, NoisyRegressionMoments, NoisySum

SIZES = checks.Domain([1, 2, 30, 200], dtype="int64", edges=(1, np.inf))
SCALES = checks.Domain([0.4, 1.0, 6.0], edges=(1.0, np.inf))  # PyMC tries the edge minus 1: a scale of 0
MEANS = checks.Domain([1e-3, 4.0, 60.0], edges=(0.0, np.inf))
WHOLE = checks.Domain([-60.0, -3.0, 0.0, 2.0, 15.0, 65.0, 231.0], edges=(None, None))
REAL = checks.Domain([-60.3, -3.25, 0.0, 2.5, 15.0, 65.1, 231.7], edges=(None, None))
every_family = pytest.mark.parametrize("family", NAMES)
# A compiler takes longer for these graphs than Python does.
pytestmark = [pytest.mark.generations, pytest.mark.usefixtures("in_python")]


@pytest.fixture
def in_python():
    with pytensor.config.change_flags(mode=Mode(linker="py", optimizer=None)):
        yield


def values(family):
    return WHOLE if family.startswith("discrete") else REAL


def log_noise(family, x, scale):
    return noise_distribution(family, float(scale)).log_mass(np.asarray(x, dtype=float))


def log_noise_below(family, x, scale):
    if family == "laplace":
        return stats.laplace(scale=scale).logcdf(x)
    if family == "gaussian":
        return stats.norm(scale=scale).logcdf(x)
    far = 60 * scale + 1  # the ratio of the first term that is left out to the largest is e^-60
    return np.array([special.logsumexp(log_noise(family, np.arange(min(at, 0) - far, at + 1), scale)) for at in x])


def count(own):
    """The log of a sum over a binomial count."""
    return lambda value, n, p, noise_scale: special.logsumexp(
        stats.binom.logpmf(np.arange(n + 1), n, p) + own(value - np.arange(n + 1), noise_scale)
    )


def poisson(own):
    counts = np.arange(1000)
    return lambda value, mu, noise_scale: special.logsumexp(
        stats.poisson.logpmf(counts, mu) + own(value - counts, noise_scale)
    )


COUNTS = {
    "NoisyCount": (NoisyCount, {"n": SIZES, "p": checks.Unit, "noise_scale": SCALES}, count),
    "NoisyPoisson": (NoisyPoisson, {"mu": MEANS, "noise_scale": SCALES}, poisson),
}
every_count = pytest.mark.parametrize("name", COUNTS)


@every_count
@every_family
def test_log_densities_of_counts(name, family):
    """In the tails, too: from the mode to a density of e^-5000. PyMC's check tries parameters out of range."""
    distribution, parameters, reference = COUNTS[name]
    own = reference(lambda x, scale: log_noise(family, x, scale))
    checks.check_logp(distribution, values(family), parameters, own, n_samples=-1, extra_args={"noise": family})
    if family.startswith("discrete"):
        at = {what: domain.vals[1] for what, domain in parameters.items()}
        assert pm.logp(distribution.dist(**at, noise=family), 0.5).eval() == -np.inf


class Noisy:
    """A distribution whose `dist` has only parameters that PyMC's checks vary."""

    def __init__(self, made):
        self.dist = made


@every_count
@every_family
def test_distribution_functions_of_counts(name, family):
    distribution, parameters, reference = COUNTS[name]
    parameters = parameters | {"noise_scale": checks.Domain([0.4, 3.0], edges=(1.0, np.inf))}
    noisy = Noisy(lambda **given: distribution.dist(**given, noise=family))
    own = reference(lambda x, scale: log_noise_below(family, x, scale))
    checks.check_logcdf(noisy, values(family), parameters, own, n_samples=-1)
    if family.startswith("discrete"):
        start = checks.Domain([-3.0, 2.0, 15.0], edges=(-80.0, None))
        few = {what: checks.Domain(domain.vals[1:2], domain.dtype, (0, np.inf)) for what, domain in parameters.items()}
        checks.check_selfconsistency_discrete_logcdf(noisy, start, few, n_samples=-1)


def shares(*each):
    return checks.Domain([np.array(p) for p in each], edges=(None, None))


def vectors(*each):
    return checks.Domain([np.array(value, dtype=float) for value in each], edges=(None, None))


def multinomial(family):
    def log_density(value, n, p, noise_scale):
        heads = itertools.product(range(n + 1), repeat=len(p) - 1)
        counts = np.array([(*head, n - sum(head)) for head in heads if sum(head) <= n])
        own = log_noise(family, value - counts, noise_scale).sum(axis=-1)
        return special.logsumexp(stats.multinomial.logpmf(counts, int(n), p) + own)

    return log_density


MULTINOMIAL = {"n": checks.Domain([1, 12, 25], dtype="int64", edges=(1, np.inf)), "noise_scale": SCALES}


@every_family
def test_log_densities_of_categories(family):
    """Two categories, three, and four; in the tails, too."""
    for p, value in (
        (shares([0.3, 0.7], [1e-6, 1 - 1e-6]), vectors([8, 15], [-40, 90])),
        (shares([0.5, 0.3, 0.2], [1e-4, 0.0, 0.9999]), vectors([7, 1, -3], [60, -2, 10])),
        (shares([0.1, 0.2, 0.3, 0.4]), vectors([12, -7, 30, -5])),
    ):
        many = len(p.vals[0]) == 4
        size = {"n": checks.Domain([6], dtype="int64", edges=(1, np.inf))} if many else {}
        checks.check_logp(
            NoisyMultinomial,
            value,
            MULTINOMIAL | size | {"p": p},
            multinomial(family),
            n_samples=-1,
            extra_args={"noise": family, "exact": True},
        )


def clipped_sum(family):
    """The log density of a sum of Poisson records, clipped to [0, 3]: its distribution by convolution."""

    def log_density(value, n, mu, noise_scale):
        one = np.append(stats.poisson.pmf(np.arange(3), mu), stats.poisson.sf(2, mu))
        total = np.ones(1)
        for _ in range(n):
            total = np.convolve(total, one)
        with np.errstate(divide="ignore"):
            return special.logsumexp(np.log(total) + log_noise(family, value - np.arange(len(total)), noise_scale))

    return log_density


@every_family
def test_log_densities_of_sums(family):
    sums = Noisy(
        lambda n, mu, noise_scale, **own: NoisySum.dist(
            n, pm.Poisson.dist(mu), lower=0, upper=3, noise=family, noise_scale=noise_scale, **own
        )
    )
    parameters = {
        "n": checks.Domain([1, 5, 20], dtype="int64", edges=(1, np.inf)),
        "mu": checks.Domain([0.3, 2.0], edges=(0.0, np.inf)),
        "noise_scale": checks.Domain([1.0, 6.0], edges=(1.0, np.inf)),
    }
    value = checks.Domain([-20.0, 0.0, 4.0, 31.0, 70.0], edges=(None, None))
    checks.check_logp(sums, value, parameters, clipped_sum(family), n_samples=-1, extra_args={"exact": True})


def normal_moments(value, n, mean, variance, noise_scale):
    """The normal distribution with the moments of clipped records, by quadrature, and of the noise."""

    def mean_of(power, more=0):
        record = stats.norm(mean, variance**0.5)
        inside = integrate.quad(lambda x: (x / 2) ** power * record.pdf(x), -2, 2, epsabs=1e-13)[0]
        return inside + (-1) ** power * record.cdf(-2) + record.sf(2) + more

    first, second, third, fourth = (mean_of(power) for power in (1, 2, 3, 4))
    cross = 1.5 * (third - first * second)
    own = n * np.array([[second - first**2, cross], [cross, 2.25 * (fourth - second**2)]])
    centre = n * np.array([first, 1.5 * second])
    return stats.multivariate_normal(centre, own + noise_scale**2 * np.eye(2)).logpdf(value)


def test_log_densities_of_moments():
    parameters = {
        "n": checks.Domain([1, 40], dtype="int64", edges=(1, np.inf)),
        "mean": checks.Domain([-0.5, 1.0], edges=(None, None)),
        "variance": checks.Domain([0.3, 2.0], edges=(1.0, np.inf)),
        "noise_scale": checks.Domain([1.5, 4.0], edges=(1.0, np.inf)),
    }
    checks.check_logp(
        NoisyMoments,
        vectors([20.0, 31.0], [-90.0, 200.0]),
        parameters,
        normal_moments,
        n_samples=-1,
        extra_args={"bounds": (-2.0, 2.0), "noise": "gaussian"},
    )


def regression_moments(value, n, intercept, variance, noise_scale):
    """The normal distribution with the moments of the quadrature nodes, whose means are replaced by exact ones."""
    root = np.array([[0.3, 0.0], [0.5 * 0.3, variance**0.5]])
    centre, radius = np.array([0.4, intercept + 0.5 * 0.4]), 2**-0.5
    clipped = radius * np.clip(centre + nodes(2) @ root.T, -1, 1)

    def terms(x, t):
        return np.stack([x, t, x * x * 0.5**0.5, x * t, t * t * 0.5**0.5], axis=-1)

    fine, weights = special.roots_hermitenorm(150)
    grid = np.stack(np.meshgrid(fine, fine, indexing="ij"), axis=-1).reshape(-1, 2)
    records = radius * np.clip(centre + grid @ root.T, -1, 1)
    mass = np.outer(weights, weights).ravel() / (2 * np.pi)
    covariance = n * np.cov(terms(*clipped.T).T, bias=True) + noise_scale**2 * np.eye(5)
    return stats.multivariate_normal(n * mass @ terms(*records.T), covariance).logpdf(value)


def test_log_densities_of_regression_moments():
    """The noise dwarfs the error of the reference, a rule of Gauss that ignores the kinks."""
    parameters = {
        "n": checks.Domain([1, 40], dtype="int64", edges=(1, np.inf)),
        "intercept": checks.Domain([-0.2, 0.5], edges=(None, None)),
        "variance": checks.Domain([0.04, 0.3], edges=(1.0, np.inf)),
        "noise_scale": checks.Domain([8.0, 20.0], edges=(1.0, np.inf)),
    }
    fixed = {"coefficients": [0.5], "feature_mean": [0.4], "feature_root": [[0.3]], "feature_bounds": [(-1, 1)]}
    checks.check_logp(
        NoisyRegressionMoments,
        vectors([10.0, -3.0, 4.0, 2.0, 7.0], [-90.0, 30.0, 40.0, 1.0, 70.0]),
        parameters,
        regression_moments,
        decimal=3,
        n_samples=-1,
        extra_args={**fixed, "target_bounds": (-1, 1), "noise": "gaussian"},
    )


NOISE = {"noise": "laplace", "noise_scale": 2.0}
NORMAL = {"noise": "gaussian", "noise_scale": 2.0}
REGRESSION = {
    "n": 20,
    "coefficients": np.array([0.5]),
    "intercept": 0.1,
    "variance": 0.3,
    "feature_mean": np.array([0.4]),
    "feature_root": np.array([[0.3]]),
    "feature_bounds": np.array([[-1.0, 1.0]]),
    "target_bounds": np.array([-1.0, 1.0]),
}
# The distribution, its parameters, what else it is given, and the shape of one draw.
DRAWN = {
    "NoisyCount": (NoisyCount, {"n": 30, "p": 0.3}, NOISE, ()),
    "NoisyPoisson": (NoisyPoisson, {"mu": 4.0}, NOISE, ()),
    "copies": (NoisyPoisson, {"mu": 4.0}, {**NOISE, "copies": 3}, (3,)),
    "NoisyMultinomial": (NoisyMultinomial, {"n": 12, "p": np.array([0.5, 0.3, 0.2])}, NOISE, (3,)),
    "NoisySum": (NoisySum, {"n": 5, "lower": 0.0, "upper": 3.0}, {**NOISE, "records": "exponential"}, ()),
    "NoisyMoments": (
        NoisyMoments,
        {"n": 20, "mean": 0.2, "variance": 1.0, "bounds": np.array([-2.0, 2.0])},
        NOISE,
        (2,),
    ),
    "NoisyRegressionMoments": (NoisyRegressionMoments, REGRESSION, NORMAL, (5,)),
}


@pytest.mark.parametrize("case", DRAWN)
def test_draws_have_the_shapes_and_parameters_that_pymc_expects(case):
    distribution, parameters, fixed, one = DRAWN[case]

    def made(**given):
        own = {"records": pm.Exponential.dist(1.5)} if "records" in fixed else {}
        return distribution.dist(**{**fixed, **own, **given})

    own = {"rate": 1 / 1.5} if case == "NoisySum" else {}
    core = distribution.rv_type.ndims_params[-1]
    draws = checks.BaseTestDistributionRandom()
    draws.pymc_dist, draws.pymc_dist_params = SimpleNamespace(dist=made), parameters
    draws.expected_rv_op_params = {**parameters, **own, "noise_scale": np.full(one[-1:] if core else (), 2.0)}
    draws.sizes_to_check = [None, (), 1, 4, (2, 3)]
    draws.sizes_expected = [one, one, (1, *one), (4, *one), (2, 3, *one)]
    draws.checks_to_run = ["check_pymc_params_match_rv_op", "check_rv_size"]
    draws.test_distribution()


def test_every_distribution_is_checked():
    names = {name for name in privsample.pymc.__all__ if name != "likelihood"}
    assert {distribution.__name__ for distribution, *_ in DRAWN.values()} == names


def test_parameters_out_of_range_have_probability_zero_in_a_model():
    """As in PyMC: a chain that steps out of range goes on."""
    with pm.Model() as model:
        p = pm.Flat("p")
        NoisyCount("y", 30, p, noise="laplace", noise_scale=2.0, observed=[7.0, 9.0])
    compute = model.compile_logp(mode=Mode(linker="py", optimizer="fast_compile"))
    assert np.isfinite(compute({"p": 0.3}))
    assert compute({"p": -0.1}) == compute({"p": 1.1}) == -np.inf


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": -1}, "n must be whole and >= 1, got -1"),
        ({"n": 2.5}, "n must be whole and >= 1, got 2.5"),
        ({"p": 1.1}, r"p must lie in \[0, 1\], got 1.1"),
        ({"noise_scale": 0.0}, "noise_scale must be finite and > 0, got 0"),
        ({"noise_scale": np.nan}, "noise_scale must be finite and > 0, got nan"),
    ],
)
def test_constants_out_of_range_are_refused_where_they_are_written(given, message):
    """The same numbers as variables have an error of PyMC when the density is evaluated."""
    at = {"n": 30, "p": 0.3, "noise_scale": 2.0}
    with pytest.raises(ValueError, match=message):
        NoisyCount.dist(**at | given, noise="laplace")
    variables = {what: pytensor.tensor.dscalar(what) for what in at}
    density = pm.logp(NoisyCount.dist(**variables, noise="laplace"), np.array(7.0))
    compute = pytensor.function(list(variables.values()), density)
    assert np.isfinite(compute(**at))
    with pytest.raises(ParameterValueError, match="n >= 1 and whole, 0 <= p <= 1"):
        compute(**at | given)
