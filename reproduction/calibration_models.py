"""Models whose posteriors are calibrated by simulation: priors as functions of normal scores, bounds, simulated sums.

Simulations are NumPy's and the models' own, so they share no code with the likelihoods that they test.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.normal_inverse_gamma import NormalInverseGamma
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.models.regression import LinearRegression
from privsample.distributions.noise import Noise
from privsample.mechanisms.noise.statistics import NoisyStatistics

Parameters = Mapping[str, FloatArray]  # by the names of interop/pymc_models.py, (simulations, ...)
UNCLIPPED, CLIPPED = 0.0, (0.0, 0.05, 0.25)  # shares of records beyond the bounds, under the prior
_RARE = 1e-6  # the share of records beyond bounds that are said to clip none
DELTA = 1e-5  # of Gaussian noise


class CalibratedModel(NamedTuple):
    """A model with its prior, for calibration by simulation.

    `model` is the model whose bounds clip a share of the records, `width` the number of normal scores of parameters,
    `parameters` the function from scores, (simulations, width), to parameters, and `sides` the coordinate of the
    statistic that grows with each parameter. `total` says that the sum of the records is one Poisson count.
    """

    name: str
    model: Callable[[float], Model]
    noise: str
    width: int
    parameters: Callable[[Model, FloatArray], Parameters]
    sides: tuple[int, ...] = (0,)
    bounded: bool = True
    total: bool = False

    def shares(self) -> tuple[float, ...]:
        """The shares of clipped records that this model can have."""
        return CLIPPED if self.bounded else (UNCLIPPED,)

    def mechanism(self, clipped: float, n: int, epsilon: float) -> NoisyStatistics:
        """The release of n records with the noise of this privacy guarantee; Gaussian noise has delta = 1e-5."""
        target = DP(epsilon=epsilon, delta=DELTA if self.noise.endswith("gaussian") else 0.0)
        return NoisyStatistics.calibrate(model=self.model(clipped), n=n, noise=self.noise, target=target)


class Simulations(NamedTuple):
    """Normal scores of parameters from the prior, (size, width), and what is released for each, (size, ...)."""

    scores: FloatArray
    released: FloatArray


def simulate(case: CalibratedModel, mechanism: NoisyStatistics, size: int, rng: np.random.Generator) -> Simulations:
    """Simulate parameters, records, their clipped statistic, and its noise."""
    model, n = mechanism.model, mechanism.n
    assert n is not None
    scores = rng.standard_normal((size, case.width))
    parameters = case.parameters(model, scores)
    if isinstance(model, LinearRegression):
        totals = np.array([_regression_total(model, parameters, i, n, rng) for i in range(size)])
    else:
        draws = ranked(parameters) if model.draw_shape else ranked(parameters)[:, 0]
        if isinstance(model, NormalUnknownVariance):
            draws = np.column_stack([parameters["mean"], parameters["variance"]])
        totals = np.array([model.simulate_statistic(draw, n, rng) for draw in draws])
    return Simulations(scores, totals + noise_of(mechanism).sample(totals.shape, rng))


def noise_of(mechanism: NoisyStatistics) -> Noise:
    """The noise on each coordinate."""
    return mechanism.distribution


def ranked(parameters: Parameters) -> FloatArray:
    """All parameters side by side, (simulations, quantities)."""
    return np.concatenate([values.reshape(len(values), -1) for values in parameters.values()], axis=1)


def _regression_total(
    model: LinearRegression, parameters: Parameters, i: int, n: int, rng: np.random.Generator
) -> FloatArray:
    coefficients, intercept, variance, mean, root = (parameters[name][i] for name in REGRESSION)
    features = mean + rng.standard_normal((n, len(mean))) @ root.T
    target = features @ coefficients + intercept + variance**0.5 * rng.standard_normal(n)
    return model.statistic(np.column_stack([features, target]))


REGRESSION = ("coefficients", "intercept", "variance", "feature_mean", "feature_root")


def _beta(model: Model, scores: FloatArray) -> Parameters:
    assert isinstance(model, BetaBernoulli)
    return {"theta": special.betaincinv(model.alpha, model.beta, special.ndtr(scores[:, 0]))}


def _dirichlet(model: Model, scores: FloatArray) -> Parameters:
    """Each probability as a share of what the ones before it leave."""
    assert isinstance(model, DirichletCategorical)
    theta, left = np.empty((len(scores), len(model.alpha))), np.ones(len(scores))
    for k in range(len(model.alpha) - 1):
        share = special.betaincinv(model.alpha[k], sum(model.alpha[k + 1 :]), special.ndtr(scores[:, k]))
        theta[:, k], left = left * share, left * (1 - share)
    theta[:, -1] = left
    return {"theta": theta}


def _gamma(model: Model, scores: FloatArray) -> Parameters:
    assert isinstance(model, GammaPoisson | GammaExponential)
    return {"rate": special.gammaincinv(model.shape, special.ndtr(scores[:, 0])) / model.rate}


def _normal(model: Model, scores: FloatArray) -> Parameters:
    assert isinstance(model, NormalKnownVariance)
    return {"mean": model.mean + model.variance**0.5 * scores[:, 0]}


def _variance(model: NormalUnknownVariance | LinearRegression, scores: FloatArray) -> FloatArray:
    return np.asarray(model.scale / special.gammaincinv(model.shape, special.ndtr(-scores)))


def _moments(model: Model, scores: FloatArray) -> Parameters:
    assert isinstance(model, NormalUnknownVariance)
    variance = _variance(model, scores[:, 1])
    return {"mean": model.mean + (variance / model.observations) ** 0.5 * scores[:, 0], "variance": variance}


def _regression(model: Model, scores: FloatArray) -> Parameters:
    """One feature."""
    assert isinstance(model, LinearRegression)
    prior = model.posterior(model.empty, 0)
    assert isinstance(prior, NormalInverseGamma)
    variance = _variance(model, scores[:, 2])
    root = np.linalg.inv(np.linalg.cholesky(prior.precision)).T
    line = np.array(prior.location) + variance[:, None] ** 0.5 * (scores[:, :2] @ root.T)
    middle, half = model.moments.middles[0], model.moments.units[0] * model.moments.radius
    unit = half * model.feature_prior_scale
    spread = unit * -special.ndtri(special.ndtr(-scores[:, 4]) / 2)  # half-normal
    return dict(
        zip(
            REGRESSION,
            (line[:, :1], line[:, 1], variance, middle + unit * scores[:, 3:4], spread[:, None, None]),
            strict=True,
        )
    )


def _beyond(clipped: float) -> float:
    return max(clipped, _RARE)


def _counts(clipped: float) -> GammaPoisson:
    upper = int(stats.nbinom(3, 0.5).isf(_beyond(clipped)))
    return GammaPoisson(shape=3, rate=1, upper=upper)


def _times(clipped: float) -> GammaExponential:
    """Under the prior a time has a Lomax distribution."""
    return GammaExponential(shape=12, rate=8, upper=8 * (_beyond(clipped) ** (-1 / 12) - 1))


def _numbers(clipped: float) -> NormalKnownVariance:
    """Four times as many records clip at the upper bound as at the lower one."""
    low, high = stats.norm(0.5, 1.25**0.5).ppf([_beyond(clipped) / 5, 1 - 0.8 * _beyond(clipped)])
    return NormalKnownVariance(mean=0.5, variance=0.25, noise_variance=1, bounds=(float(low), float(high)))


def _pairs(clipped: float) -> NormalUnknownVariance:
    """Under the prior a record has a t distribution."""
    records = stats.t(12, 0.5, (5 / 6 * 1.25) ** 0.5)
    low, high = records.ppf([_beyond(clipped) / 5, 1 - 0.8 * _beyond(clipped)])
    return NormalUnknownVariance(mean=0.5, observations=4, shape=6, scale=5, bounds=(float(low), float(high)))


# Of features and of targets: the scale of the features' prior and the upper bound of the target, found by simulation.
_LINES = {0.0: (0.08, 12.0), 0.05: (0.3554, 3.0), 0.25: (0.6627, 1.83)}


def _lines(clipped: float) -> LinearRegression:
    size, upper = _LINES[clipped]
    return LinearRegression(
        feature_bounds=((-1, 1),), target_bounds=(-upper, upper), shape=6, scale=5, feature_prior_scale=size
    )


def _survey(_clipped: float) -> DirichletCategorical:
    return DirichletCategorical(alpha=(1.0, 2.0, 3.0))


MODELS = (
    CalibratedModel("binary", lambda _: BetaBernoulli(alpha=2, beta=3), "discrete laplace", 1, _beta, bounded=False),
    CalibratedModel(
        "two categories",
        lambda _: DirichletCategorical(alpha=(2.0, 3.0)),
        "discrete laplace",
        1,
        _dirichlet,
        (0, 1),
        bounded=False,
    ),
    CalibratedModel("three categories", _survey, "discrete gaussian", 2, _dirichlet, (0, 1, 2), bounded=False),
    CalibratedModel("Poisson counts", _counts, "discrete laplace", 1, _gamma),
    CalibratedModel("Poisson total", _counts, "discrete gaussian", 1, _gamma, bounded=False, total=True),
    CalibratedModel("exponential times", _times, "laplace", 1, _gamma),
    CalibratedModel("normal, known variance", _numbers, "gaussian", 1, _normal),
    CalibratedModel("normal, unknown variance", _pairs, "gaussian", 2, _moments, (0, 1)),
    CalibratedModel("linear regression", _lines, "gaussian", 5, _regression, (3, 1, 4, 0, 2)),
)
