"""The noise-aware posterior of a log-linear model, given noisy sums of its statistics: density, mode and curvature.

docs/notes/synthetic.md, steps 4 and 5.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg

from privsample._checks import FloatArray
from privsample.errors import NumericalFailure
from privsample.inference.synthetic.effects import Effects, Measured
from privsample.inference.synthetic.junction_tree import Calibrated, JunctionTree

_STEP = 1e-5  # largest change of a log density in a difference: the error of the derivative is about as large
_CLOSE = 1e-3  # of a posterior standard deviation: the mode is found
_ITERATIONS = 100
_HALVINGS = 30
_TINY = 1e-300
_CELLS = 1 << 22  # of tables that are held at once


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

    def split(self, states: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The parameters and numbers of records of states (rows, ...): a state holds the number if it is not public."""
        if self.size is not None:
            return states, np.full(len(states), float(self.size))
        return states[:, :-1], states[:, -1]

    def distribution(self, theta: FloatArray) -> Calibrated:
        """The distributions of a record with parameters of shape (rows, width)."""
        return self.tree.calibrate(self.effects.log_tables(theta))

    def means(self, theta: FloatArray) -> FloatArray:
        """E t(x), shape (rows, width)."""
        return self.effects.of_tables(self.tree.marginals(self.distribution(theta)))

    def covariance_times(self, theta: FloatArray, directions: FloatArray, means: FloatArray) -> FloatArray:
        """Cov t(x) times a vector, for each row: the derivative of the means, by a difference."""
        steps = _STEP / np.maximum(np.abs(directions).max(axis=1, keepdims=True), _TINY)
        return np.asarray((self.means(theta + steps * directions) - means) / steps)

    def covariance(self, theta: FloatArray) -> FloatArray:
        """Cov t(x) at one row of parameters, shape (width, width), by central differences."""
        count, rows = len(theta), max(_CELLS // self.tree.cells, 1)
        steps = _STEP * np.concatenate([np.eye(count), -np.eye(count)])
        parts = [self.means(theta + steps[first : first + rows]) for first in range(0, 2 * count, rows)]
        up, down = np.split(np.concatenate(parts), 2)
        found = (up - down) / (2 * _STEP)
        return np.asarray((found + found.T) / 2)

    def rough_start(self) -> FloatArray:
        """Parameters near the posterior mode: those that maximise a concave penalised log likelihood.

        The penalty is the noise variance of each sum: the fitted sums are those of the distribution of largest entropy
        among sums near the noisy ones (docs/notes/synthetic.md, step 5).
        """
        from scipy.optimize import minimize

        n, penalty = self.size_guess, self.measured.variances + self.prior_precision
        sums = self.measured.sums

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            found = self.distribution(theta[None])
            means = self.effects.of_tables(self.tree.marginals(found))[0]
            value = n * found.log_normalizer[0] - theta @ sums + theta @ (penalty * theta) / 2
            return float(value) / n, np.asarray((n * means - sums + penalty * theta) / n)

        start = np.zeros(self.effects.width)
        return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B").x)

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
        theta, n = (part[0] for part in model.split(state[None]))
        slopes = n * model.covariance(theta)
        self._factor = linalg.cho_factor(slopes + np.diag(model.measured.variances))
        if model.size is None:
            slopes = np.column_stack([slopes, model.means(theta[None])[0]])
        self.precision = slopes.T @ linalg.cho_solve(self._factor, slopes)
        own = np.full(len(state), model.prior_precision)
        if model.size is None:
            own[-1] = 1.0 / model.measured.size_variance
        self.precision[np.diag_indices(len(state))] += own

    def log_density(self, states: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log densities, up to a constant, and their gradients at states (rows, ...); -inf unless n > 0."""
        model = self.model
        theta, n = model.split(states)
        means = model.means(theta)
        residual = model.measured.sums - n[:, None] * means
        weighted = linalg.cho_solve(self._factor, residual.T).T
        value = -((residual * weighted).sum(axis=1) + model.prior_precision * (theta * theta).sum(axis=1)) / 2
        slope = n[:, None] * model.covariance_times(theta, weighted, means) - model.prior_precision * theta
        if model.size is not None:
            return value, slope
        missed = model.measured.size - n
        value = np.where(n > 0.0, value - missed * missed / model.measured.size_variance / 2, -np.inf)
        own = (means * weighted).sum(axis=1) + missed / model.measured.size_variance
        return value, np.column_stack([slope, own])


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
        If the steps do not end, or the precision of the posterior is singular in floating-point numbers.
    """
    try:
        return _search(model)
    except linalg.LinAlgError:
        raise NumericalFailure(
            "the posterior mode of the log-linear model was not found: the tables and the prior do not determine its "
            "parameters to rounding; use a smaller prior_std, or merge categories without records"
        ) from None


def _search(model: LogLinearModel) -> Mode:
    state = model.rough_start()
    if model.size is None:
        state = np.append(state, model.size_guess)
    for _ in range(_ITERATIONS):
        posterior = NoiseAwarePosterior(model, state)
        value, gradient = (part[0] for part in posterior.log_density(state[None]))
        factor = linalg.cho_factor(posterior.precision)
        step = linalg.cho_solve(factor, gradient)
        decrement = float(gradient @ step)
        share = 1.0
        for _ in range(_HALVINGS):
            found, _ = posterior.log_density((state + share * step)[None])
            if found[0] >= value:
                state = state + share * step
                break
            share /= 2
        if decrement < _CLOSE**2 * len(state):
            upper = linalg.cholesky(posterior.precision)
            return Mode(posterior, state, linalg.solve_triangular(upper, np.eye(len(state))))
    raise NumericalFailure("the posterior mode of the log-linear model was not found: the search did not converge")
