"""The noise-aware posterior of a log-linear model, given noisy sums of its statistics: density, mode and curvature.

docs/notes/synthetic.md, steps 4 and 5.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize

from privsample._checks import FloatArray
from privsample.errors import NumericalFailure
from privsample.inference.synthetic.effects import Effects, Measured
from privsample.inference.synthetic.junction_tree import Calibrated, JunctionTree

_STEP = 1e-5  # largest change of a log density in a difference: the error of the derivative is about as large
_CLOSE = 1e-3  # of a posterior standard deviation: the mode is found
_ITERATIONS = 100
_HALVINGS = 30


class LogLinearModel:
    """Independent records whose log density is the sum of effects; the sums of their statistics are seen with noise.

    Parameters
    ----------
    effects : Effects
        The statistics t(x) of a record.
    measured : Measured
        The noisy sums, and the noisy number of records.
    size : int, optional
        The public number of records. None if only `measured.size` tells it.
    prior_std : float
        Standard deviation of the normal prior of each parameter.
    """

    def __init__(self, effects: Effects, measured: Measured, size: int | None, prior_std: float) -> None:
        self.effects, self.measured, self.size = effects, measured, size
        self.tree = JunctionTree(effects.sizes, tuple(host.columns for host in effects.hosts))
        self.prior_precision = prior_std**-2.0

    def split(self, state: FloatArray) -> tuple[FloatArray, float]:
        """The parameters and the number of records of a state, which holds the number only if it is not public."""
        return (state, float(self.size)) if self.size is not None else (state[:-1], float(state[-1]))

    def distribution(self, theta: FloatArray) -> Calibrated:
        """The distribution of a record with parameters of shape (count,)."""
        return self.tree.calibrate(self.effects.log_tables(theta))

    def means(self, theta: FloatArray) -> FloatArray:
        """E t(x), shape (count,)."""
        return self.effects.of_tables(self.tree.marginals(self.distribution(theta)))

    def covariance_times(self, theta: FloatArray, direction: FloatArray, means: FloatArray) -> FloatArray:
        """Cov t(x) times a vector: the derivative of the means, by a difference."""
        largest = float(np.abs(direction).max(initial=0.0))
        if not largest > 0.0:
            return np.zeros_like(means)
        step = _STEP / largest
        return np.asarray((self.means(theta + step * direction) - means) / step)

    def covariance(self, theta: FloatArray) -> FloatArray:
        """Cov t(x), shape (count, count), by central differences."""
        rows = np.array([self.means(theta + step) - self.means(theta - step) for step in _STEP * np.eye(len(theta))])
        return np.asarray((rows + rows.T) / (4 * _STEP))

    def rough_start(self) -> FloatArray:
        """Parameters near the posterior mode: those that maximise a concave penalised log likelihood.

        The penalty is the noise variance of each sum: the fitted sums are those of the distribution of largest entropy
        among sums near the noisy ones (docs/notes/synthetic.md, step 5).
        """
        n, penalty = self.size_guess, self.measured.variances + self.prior_precision
        sums = self.measured.sums

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            found = self.distribution(theta)
            means = self.effects.of_tables(self.tree.marginals(found))
            value = n * found.log_normalizer - theta @ sums + theta @ (penalty * theta) / 2
            return float(value) / n, np.asarray((n * means - sums + penalty * theta) / n)

        start = np.zeros(self.effects.count)
        return np.asarray(optimize.minimize(objective, start, jac=True, method="L-BFGS-B").x)

    @property
    def size_guess(self) -> float:
        """The number of records if it is public, or else the noisy one, at least 1."""
        return float(self.size) if self.size is not None else max(self.measured.size, 1.0)


class NoiseAwarePosterior:
    """The posterior density of a state, whose likelihood is normal: sums have covariance n Cov t plus the noise's.

    Cov t is held at its value for the given state; the means n E t depend on the parameters.

    Parameters
    ----------
    model : LogLinearModel
        The model.
    state : array
        The state at which the covariance is computed.
    """

    def __init__(self, model: LogLinearModel, state: FloatArray) -> None:
        self.model = model
        theta, n = model.split(state)
        slopes = n * model.covariance(theta)
        self._factor = linalg.cho_factor(slopes + np.diag(model.measured.variances))
        if model.size is None:
            slopes = np.column_stack([slopes, model.means(theta)])
        self.precision = slopes.T @ linalg.cho_solve(self._factor, slopes)
        own = np.full(len(state), model.prior_precision)
        if model.size is None:
            own[-1] = 1.0 / model.measured.size_variance
        self.precision[np.diag_indices(len(state))] += own

    def log_density(self, state: FloatArray) -> tuple[float, FloatArray]:
        """Log density, up to a constant, and its gradient; -inf unless n > 0."""
        model = self.model
        theta, n = model.split(state)
        if not (n > 0.0 and np.isfinite(state).all()):
            return -np.inf, np.zeros_like(state)
        means = model.means(theta)
        residual = model.measured.sums - n * means
        weighted = linalg.cho_solve(self._factor, residual)
        value = -(residual @ weighted + model.prior_precision * theta @ theta) / 2
        slope = n * model.covariance_times(theta, weighted, means) - model.prior_precision * theta
        if model.size is not None:
            return float(value), slope
        missed = (model.measured.size - n) / model.measured.size_variance
        value -= missed * missed * model.measured.size_variance / 2
        return float(value), np.append(slope, means @ weighted + missed)


class Mode(NamedTuple):
    """The posterior mode. whitening: a factor W with W W^T the covariance there."""

    posterior: NoiseAwarePosterior
    state: FloatArray
    whitening: FloatArray


def find_mode(model: LogLinearModel) -> Mode:
    """The mode by Fisher scoring, with the covariance of the likelihood computed anew at each step.

    Raises
    ------
    NumericalFailure
        If the steps do not end.
    """
    state = model.rough_start()
    if model.size is None:
        state = np.append(state, model.size_guess)
    for _ in range(_ITERATIONS):
        posterior = NoiseAwarePosterior(model, state)
        value, gradient = posterior.log_density(state)
        factor = linalg.cho_factor(posterior.precision)
        step = linalg.cho_solve(factor, gradient)
        decrement = float(gradient @ step)
        share = 1.0
        for _ in range(_HALVINGS):
            found, _ = posterior.log_density(state + share * step)
            if found >= value:
                state = state + share * step
                break
            share /= 2
        if decrement < _CLOSE**2 * len(state):
            upper = linalg.cholesky(posterior.precision)
            return Mode(posterior, state, linalg.solve_triangular(upper, np.eye(len(state))))
    raise NumericalFailure("the posterior mode of the log-linear model was not found: the search did not converge")
