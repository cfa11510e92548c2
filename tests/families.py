"""Exponential families stated by their functions: the five of the library, and others."""

import numpy as np
from scipy import special

import privsample as ps


def trigamma(x):
    return special.polygamma(1, x)


def dirichlet_normalizer():
    """C = sum log Gamma(a_i) - log Gamma(sum a_i), for any number of categories."""

    def hessian(eta):
        return trigamma(eta)[:, :, None] * np.eye(eta.shape[1]) - trigamma(eta.sum(axis=1))[:, None, None]

    return ps.LogNormalizer(
        value=lambda eta: special.loggamma(eta).sum(axis=1) - special.loggamma(eta.sum(axis=1)),
        gradient=lambda eta: special.digamma(eta) - special.digamma(eta.sum(axis=1, keepdims=True)),
        hessian=hessian,
        normalizable=lambda eta: (eta > 0).all(axis=1),
    )


def gamma_normalizer():
    """C = log Gamma(a) - a log b, with T(theta) = (log theta, -theta)."""

    def hessian(eta):
        a, b = eta.T
        return np.moveaxis(np.array([[trigamma(a), -1 / b], [-1 / b, a / b / b]]), 2, 0)

    return ps.LogNormalizer(
        value=lambda eta: special.loggamma(eta[:, 0]) - eta[:, 0] * np.log(eta[:, 1]),
        gradient=lambda eta: np.column_stack([special.digamma(eta[:, 0]) - np.log(eta[:, 1]), -eta[:, 0] / eta[:, 1]]),
        hessian=hessian,
        normalizable=lambda eta: (eta > 0).all(axis=1),
    )


def normal_normalizer():
    """C = h^2/(2p) - log(p)/2, with T(theta) = (-theta^2/2, theta) and eta = (p, h)."""

    def hessian(eta):
        p, h = eta.T
        own = h * h / p**3 + 1 / (2 * p * p)
        return np.moveaxis(np.array([[own, -h / p / p], [-h / p / p, 1 / p]]), 2, 0)

    return ps.LogNormalizer(
        value=lambda eta: eta[:, 1] ** 2 / (2 * eta[:, 0]) - np.log(eta[:, 0]) / 2,
        gradient=lambda eta: np.column_stack(
            [-((eta[:, 1] / eta[:, 0]) ** 2) / 2 - 1 / (2 * eta[:, 0]), eta[:, 1] / eta[:, 0]]
        ),
        hessian=hessian,
        normalizable=lambda eta: eta[:, 0].real > 0,
    )


def bernoulli(**fields):
    return ps.ExponentialFamily(
        **{
            "prior_parameter": [6.0, 12.0],
            "records": ps.Domain(low=0, high=1, missing=0, integer_valued=True),
            "contribution": lambda x: np.column_stack([x, 1 - x]),
            "normalizer": dirichlet_normalizer(),
            "sampler": lambda eta, size, rng: rng.beta(eta[0], eta[1], size),
            "parameter_statistic": lambda theta: np.column_stack([np.log(theta), np.log1p(-theta)]),
        }
        | fields
    )


def categorical(**fields):
    return ps.ExponentialFamily(
        **{
            "prior_parameter": [3.0, 2.0, 4.0, 2.5],
            "records": ps.Domain(low=0, high=3, missing=0, integer_valued=True),
            "contribution": lambda x: np.eye(4)[x.astype(int)],
            "normalizer": dirichlet_normalizer(),
            "sampler": lambda eta, size, rng: rng.dirichlet(eta, size),
            "parameter_statistic": np.log,
            "length": 4,
        }
        | fields
    )


def poisson(**fields):
    return ps.ExponentialFamily(
        **{
            "prior_parameter": [5.0, 1.0],
            "records": ps.Domain(low=0, high=4, missing=0, integer_valued=True),
            "contribution": lambda x: np.column_stack([x, np.ones(len(x))]),
            "normalizer": gamma_normalizer(),
            "sampler": lambda eta, size, rng: rng.gamma(eta[0], 1 / eta[1], size),
            "parameter_statistic": lambda theta: np.column_stack([np.log(theta), -theta]),
        }
        | fields
    )


def exponential(**fields):
    times = {
        "prior_parameter": [5.0, 3.0],
        "records": ps.Domain(low=0, high=4, missing=0),
        "contribution": lambda x: np.column_stack([np.ones(len(x)), x]),
    }
    return poisson(**times | fields)


def normal(**fields):
    return ps.ExponentialFamily(
        **{
            "prior_parameter": [1.0, 0.5],
            "records": ps.Domain(low=-1, high=2, missing=0.5),
            "contribution": lambda x: np.column_stack([np.full(len(x), 0.5), 0.5 * x]),
            "normalizer": normal_normalizer(),
            "sampler": lambda eta, size, rng: rng.normal(eta[1] / eta[0], eta[0] ** -0.5, size),
            "parameter_statistic": lambda theta: np.column_stack([-(theta**2) / 2, theta]),
        }
        | fields
    )


def log_both(lower, upper):
    with np.errstate(divide="ignore"):
        return np.log(lower), np.log(upper)


def beta_tails(eta, direction, y):
    """The direction is e_i - e_j: the logit of a share of two categories."""
    a, b = eta[direction > 0][0], eta[direction < 0][0]
    return log_both(special.betainc(a, b, special.expit(y)), special.betaincc(a, b, special.expit(y)))


def shape_tails(eta, direction, y):
    x = eta[1] * np.exp(y / direction[0])
    return log_both(special.gammainc(eta[0], x), special.gammaincc(eta[0], x))


def rate_tails(eta, direction, y):
    x = np.maximum(-eta[1] * y / direction[1], 0.0)
    return log_both(special.gammaincc(eta[0], x), special.gammainc(eta[0], x))


def mean_tails(eta, direction, y):
    z = (y / direction[1] - eta[1] / eta[0]) * eta[0] ** 0.5
    return special.log_ndtr(z), special.log_ndtr(-z)


TAILS = {
    "beta-bernoulli": beta_tails,
    "dirichlet-categorical": beta_tails,
    "gamma-poisson": shape_tails,
    "gamma-exponential": rate_tails,
    "normal": mean_tails,
}
FIVE = {
    "beta-bernoulli": (bernoulli(), ps.BetaBernoulli(alpha=6, beta=12)),
    "dirichlet-categorical": (categorical(), ps.DirichletCategorical(alpha=(3, 2, 4, 2.5))),
    "gamma-poisson": (poisson(), ps.GammaPoisson(shape=5, rate=1, upper=4)),
    "gamma-exponential": (exponential(), ps.GammaExponential(shape=5, rate=3, upper=4)),
    "normal": (normal(), ps.NormalKnownVariance(mean=0.5, variance=1, noise_variance=2, bounds=(-1, 2))),
}


def truncated_normalizer():
    """A density e^(eta theta) on [0, 1], whose variance is largest at eta = 0: the convexity condition fails."""

    def sides(eta):
        x = np.asarray(eta[:, 0])
        near = np.abs(x) < 0.05
        return x, near, np.where(near, 1.0, x)

    def value(eta):
        x, near, far = sides(eta)
        return np.where(
            near, x / 2 + x**2 / 24 - x**4 / 2880, np.maximum(far, 0) + np.log(-np.expm1(-np.abs(far)) / np.abs(far))
        )

    def gradient(eta):
        x, near, far = sides(eta)
        inner = 1 / -np.expm1(-far) - 1 / far
        return np.where(near, 0.5 + x / 12 - x**3 / 720 + x**5 / 30240, inner)[:, None]

    def hessian(eta):
        x, near, far = sides(eta)
        inner = 1 / far**2 - 1 / (4 * np.sinh(far / 2) ** 2)
        return np.where(near, 1 / 12 - x**2 / 240 + x**4 / 6048, inner)[:, None, None]

    return ps.LogNormalizer(
        value=value, gradient=gradient, hessian=hessian, normalizable=lambda eta: np.isfinite(eta[:, 0])
    )


def draw_truncated(eta, size, rng):
    u = rng.random(size)
    return u if abs(eta[0]) < 1e-8 else np.log1p(u * np.expm1(eta[0])) / eta[0]


def truncated(**fields):
    """Votes of -1 or 1 that tilt a uniform distribution on [0, 1]: Lemma 17 with the Hessian's bound 1/12."""
    return ps.ExponentialFamily(
        **{
            "prior_parameter": [0.0],
            "records": ps.Domain(low=-1, high=1, missing=0),
            "contribution": lambda x: x[:, None],
            "normalizer": truncated_normalizer(),
            "sampler": draw_truncated,
            "parameter_statistic": lambda theta: theta[:, None],
            "hessian_bound": 1 / 12,
        }
        | fields
    )
