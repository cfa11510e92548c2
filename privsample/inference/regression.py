"""Markov chain for linear regression and for normal records with unknown variance, over hidden unclipped records.

The moves and their proofs are in docs/notes/inference.md, section 8.
"""

from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory
from privsample.distributions.models.moments import MomentModel
from privsample.distributions.models.normal_inverse_gamma import NormalInverseGamma
from privsample.distributions.models.regression import LinearRegression
from privsample.inference.acceptance import NoiseAcceptance
from privsample.inference.chains import Observation

_ROUNDS = 4  # rounds of joint moves of parameters and records in a sweep
_ROOT_ROUNDS = 3  # moves of the features' root in a sweep
_TARGET, _TARGET_ONE = 0.25, 0.44  # acceptance of steps in many dimensions; in one, and of rounds
_LEARNING, _LEARNING_EVERY = 40, 10  # sweeps before the covariance shapes proposals, and between its changes
_LARGEST_EFFECT = 3.0  # clipping only shrinks; larger entries come from nearly singular parameters
_DIFFERENCE = 1e-3  # of a coordinate, for derivatives that shape proposals only


class RegressionChain:
    """Markov chain over the parameters and n unclipped records, given noisy second moments of the clipped records.

    A sweep draws coefficients and variance given the records, moves mean and root of the features by their sufficient
    statistics, offers a new record to each place, and moves the parameters together with all records while the
    standardized features and residuals stay. Its cost grows like n.

    Parameters
    ----------
    observation : Observation
        A release of a LinearRegression or a NormalUnknownVariance.

    Raises
    ------
    TypeError
        If the model has no normal records.
    ValueError
        If the number of records is not public.
    """

    description = "exact: data augmentation with unclipped records"

    def __init__(self, observation: Observation) -> None:
        model = observation.model
        if not isinstance(model, MomentModel):
            raise TypeError(f"the records must be normal with noisy second moments, got {type(model).__name__}")
        if observation.size_prior is not None:
            raise ValueError(
                f"size_prior is known for counts of categories only: {type(model).__name__} needs a public n"
            )
        self.model, self.n, self.noise = model, observation.n, observation.noise
        self.acceptance = NoiseAcceptance(observation.noise, observation.observed)
        moments = model.moments
        self.radius, self.weights = moments.radius, np.array(moments.weights)
        self.middles, self.halves = np.array(moments.middles), moments.units * moments.radius
        self.width = width = len(self.middles) - 1
        self.prior = self._scaled_prior()
        self._location = np.array(self.prior.location)
        self._prior_root = np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(self.prior.precision)).T)
        self.feature_scale = model.feature_prior_scale if isinstance(model, LinearRegression) else 1.0
        self._dimensions = 2 + 2 * width + width * (width + 1) // 2
        check_memory(4 * self.n * (width + 1 + len(self.weights)), lower="n, or use .mcmc(), a central limit")
        self.slopes, self.variance = np.zeros(width + 1), 1.0
        self.mean, self.root = np.zeros(width), np.eye(width)
        self.records: FloatArray = np.zeros((self.n, width + 1))
        self._root_steps = np.full((width, width), 1.0 / max(self.n, 1) ** 0.5)
        size, self._sweeps = self._dimensions, 0
        self._inner = self._most_inner = 20.0 + 4 * size  # steps on the surrogate in a round; fewer if it fits badly
        self._scales = np.ones(4)  # of proposals by the two covariances, for the posterior and for its surrogate
        self._center, self._covariance = np.zeros(size), np.eye(size)
        self._precision, self._clipping = np.eye(size), np.eye(len(self.weights))
        self._factors = np.stack([0.1 * np.eye(size)] * 2)

    def _scaled_prior(self) -> NormalInverseGamma:
        """The prior of the variance and of the coefficients of scaled features, for the target from its middle."""
        given: Any = self.model.posterior(self.model.empty, 0)
        to_scaled = np.diag([*self.halves[:-1], 1.0])
        to_scaled[-1, :-1] = self.middles[:-1]
        location = to_scaled @ np.array(given.location)
        location[-1] -= self.middles[-1]
        inverse = np.linalg.inv(to_scaled)
        precision = inverse.T @ given.precision @ inverse
        return NormalInverseGamma(
            location=tuple(location), precision=(precision + precision.T) / 2, shape=given.shape, scale=given.scale
        )

    def start(self, rng: np.random.Generator) -> None:
        """Draw parameters near those of the released moments with noise added once more, and records given them."""
        moments, seen = self.model.moments, self.acceptance.observed.mean(axis=0)
        found = moments.feasible(seen + self.noise.sample(seen.shape, rng), self.n)
        gram = moments.gram(found, self.n) / np.concatenate([[1.0], np.full(self.width + 1, self.radius)])
        gram = (gram / np.concatenate([[1.0], np.full(self.width + 1, self.radius)])[:, None]) / self.n
        center, least = gram[0, 1:], 0.05
        spread = gram[1:, 1:] - np.outer(center, center) + least**2 * np.eye(self.width + 1)
        own = spread[:-1, :-1]
        self.mean, self.root = center[:-1].copy(), np.linalg.cholesky(own)
        slopes = np.linalg.solve(own, spread[:-1, -1]) * self.halves[-1]
        self.slopes = np.append(slopes, center[-1] * self.halves[-1] - slopes @ self.mean)
        rest = max(float(spread[-1, -1] - spread[:-1, -1] @ np.linalg.solve(own, spread[:-1, -1])), least**2)
        self.variance = rest * float(self.halves[-1]) ** 2
        from privsample.inference.regression_records import build_records

        self.records = build_records(rng.standard_normal(self.records.shape), *self._state)

    @property
    def _state(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        return self.mean, self.root, self.slopes, float(self.variance) ** 0.5

    @property
    def _bounds(self) -> tuple[float, float, FloatArray]:
        return float(self.halves[-1]), self.radius, self.weights

    def sweep(self, rng: np.random.Generator, *, tuning: bool) -> float:
        """Make one sweep and return the acceptance rate of the records."""
        self._draw_parameters(rng, tuning=tuning)
        rate = self._offer(rng)
        self._shift(rng, tuning=tuning)
        return rate

    def parameters(self) -> dict[str, FloatArray]:
        """The current parameters in the units of the records, with the names of `PrivateStatistics.mcmc`."""
        variance = np.asarray(float(self.variance))
        if not isinstance(self.model, LinearRegression):
            return {"mean": np.asarray(self.slopes[-1] + self.middles[-1]), "variance": variance}
        coefficients = self.slopes[:-1] / self.halves[:-1]
        return {
            "coefficients": coefficients,
            "intercept": np.asarray(self.slopes[-1] + self.middles[-1] - coefficients @ self.middles[:-1]),
            "variance": variance,
            "feature_mean": self.middles[:-1] + self.halves[:-1] * self.mean,
            "feature_root": self.halves[:-1, None] * self.root,
        }

    def _draw_parameters(self, rng: np.random.Generator, *, tuning: bool) -> None:
        """Draw the parameters given the records, by the sums of products of the records alone."""
        from privsample.inference import regression_moves as moves
        from privsample.inference import regression_records as hidden

        products, prior = hidden.gram(self.records), self.prior
        self.variance = moves.draw_coefficients(
            rng, products, self._location, prior.precision, prior.shape, prior.scale, self.slopes
        )
        if self.width:
            chances = moves.draw_features(
                rng, products, self.feature_scale, self.mean, self.root, self._root_steps, _ROOT_ROUNDS
            )
            if tuning:
                self._root_steps *= np.exp(self._gain * (chances - _TARGET_ONE))

    @property
    def _gain(self) -> float:
        """The size of changes while tuning: it falls, but not to zero."""
        return max(2.0 / (1 + self._sweeps) ** 0.6, 0.02)

    def _offer(self, rng: np.random.Generator) -> float:
        """Offer a new record to each place; return the acceptance rate."""
        from privsample.inference import regression_records as hidden

        acceptance = self.acceptance
        current = hidden.contributions(self.records, *self._bounds)
        if acceptance.squared is None:
            proposed = hidden.build_records(rng.standard_normal(self.records.shape), *self._state)
            outcome = acceptance.offer(current, hidden.contributions(proposed, *self._bounds), rng)
            self.records = np.where(outcome.accepted[:, None], proposed, self.records)
            return outcome.rate
        noise = acceptance.observed, acceptance.scale, acceptance.squared
        accepted = hidden.offer_records(rng, self.records, current.sum(axis=0), *self._state, *self._bounds, *noise)
        return accepted / self.n

    def _shift(self, rng: np.random.Generator, *, tuning: bool) -> None:
        """Move the parameters while the standardized features and residuals stay, accepted by prior times noise."""
        from privsample.inference import regression_moves as moves
        from privsample.inference import regression_records as hidden

        residuals, place = hidden.standardize(self.records, *self._state), self._coordinates()
        if tuning:
            self._learn(place, residuals)
        prior = self._location, self._prior_root, self.prior.shape, self.prior.scale, self.feature_scale
        acceptance = self.acceptance
        if acceptance.squared is None:
            chances = self._shift_by_density(rng, residuals, place)
        else:
            rounds = min(3 * _ROUNDS, round(_ROUNDS * (self._most_inner / self._inner) ** 0.5)), round(self._inner)
            noise = acceptance.observed, acceptance.scale, acceptance.squared
            proposals = self._center, self._clipping, self._factors, self._scales
            chances = moves.shift(rng, residuals, place, *proposals, *rounds, *prior, *self._bounds, *noise)
        deviation = moves.from_coordinates(
            place, self._location, self._prior_root, self.feature_scale, self.mean, self.root, self.slopes
        )
        self.variance = deviation * deviation
        self.records = hidden.build_records(residuals, *self._state)
        if tuning:
            self._scales *= np.exp(self._gain * (chances[:4] - _TARGET))
            inner = self._inner * float(np.exp(self._gain * (chances[4] - _TARGET_ONE)))
            self._inner = min(max(inner, 10.0), self._most_inner)

    def _shift_by_density(self, rng: np.random.Generator, residuals: FloatArray, place: FloatArray) -> FloatArray:
        """Random walk steps as in `regression_moves.shift`, for noise of another package, by its log density."""
        from privsample.inference.regression_moves import walk

        chances, steps = np.zeros(5), 2 * _ROUNDS
        density, total = self._density(place, residuals)
        for step in range(2 * steps):
            new = walk(rng, place, self._factors[step % 2], self._scales[step % 2])
            then, moved = self._density(new, residuals)
            ratio = then - density + self.acceptance.log_ratio(total, moved) if then > -np.inf else -np.inf
            chance = float(np.exp(min(ratio, 0.0)))
            chances[step % 2] += chance / steps
            if rng.random() < chance:
                place[:], density, total = new, then, moved
        return chances

    def _density(self, place: FloatArray, residuals: FloatArray) -> tuple[float, FloatArray]:
        """The log prior density and the statistic at these coordinates; -inf beyond the range of floats."""
        from privsample.inference import regression_moves as moves
        from privsample.inference import regression_records as hidden

        state = self._state_at(place)
        if state is None:
            return -np.inf, np.zeros_like(self.weights)
        prior = self.prior.shape, self.prior.scale, self.feature_scale
        return moves.log_prior(place, self.width, *prior), hidden.statistic(residuals, *state, *self._bounds)

    def _unclipped(self, place: FloatArray, products: FloatArray) -> FloatArray:
        """The statistic without clipping at these coordinates, from sums of products of the standardized records."""
        from privsample.inference import regression_records as hidden

        state = self._state_at(place)
        if state is None:
            return np.zeros_like(self.weights)
        return hidden.unclipped_statistic(products, *state, *self._bounds)

    def _state_at(self, place: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float] | None:
        """Mean, root, coefficients and standard deviation at these coordinates, or None beyond the range of floats."""
        from privsample.inference import regression_moves as moves

        mean, root, slopes = np.zeros_like(self.mean), np.zeros_like(self.root), np.zeros_like(self.slopes)
        deviation = moves.from_coordinates(
            place, self._location, self._prior_root, self.feature_scale, mean, root, slopes
        )
        return (mean, root, slopes, deviation) if deviation > 0 else None

    def _learn(self, place: FloatArray, residuals: FloatArray) -> None:
        """Learn two covariances for proposals: of the posterior, and of the posterior given standardized records.

        The latter is the inverse of the information of the noisy statistic plus that of the prior.
        """
        self._sweeps += 1
        weight = (self._sweeps + 1.0) ** -0.7
        off = place - self._center if self._sweeps > 1 else np.zeros_like(place)
        self._center = place.copy() if self._sweeps == 1 else self._center + weight * off
        self._covariance = (1 - weight) * self._covariance + weight * np.outer(off, off)
        if self._sweeps > _LEARNING and self._sweeps % _LEARNING_EVERY:
            return
        weight = (self._sweeps / _LEARNING_EVERY + 1.0) ** -0.6
        information, clipping = self._information(residuals)
        self._precision = (1 - weight) * self._precision + weight * information
        if np.abs(clipping).max() < _LARGEST_EFFECT:
            self._clipping = (1 - weight) * self._clipping + weight * clipping
        optimal = 2.4 / self._dimensions**0.5
        given = np.linalg.inv(np.linalg.cholesky(self._precision)).T
        own = np.linalg.cholesky(self._covariance + 1e-8 * np.eye(len(place))) if self._sweeps > _LEARNING else given
        self._factors = np.ascontiguousarray(optimal * np.stack([given, own]))

    def _information(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Information on the coordinates at their centre, with the standardized records fixed, and effect of clipping.

        The effect is the matrix that maps changes of the statistic without clipping to changes of the statistic. Both
        are of full rank: there are as many coordinates as numbers in the statistic.
        """
        from privsample.inference import regression_records as hidden

        width, place = self.width, self._center
        with_clipping, plain = (np.empty((len(self.weights), len(place))) for _ in range(2))
        products = hidden.gram(residuals)
        (_, base), base_plain = self._density(place, residuals), self._unclipped(place, products)
        for i in range(len(place)):
            moved = place.copy()
            moved[i] += _DIFFERENCE
            with_clipping[:, i] = (self._density(moved, residuals)[1] - base) / _DIFFERENCE
            plain[:, i] = (self._unclipped(moved, products) - base_plain) / _DIFFERENCE
        prior = np.ones(len(place))
        prior[width + 1] = max(self.prior.scale * float(np.exp(-place[width + 1])), 0.5)
        prior[2 * width + 2 : 3 * width + 2] = np.exp(2 * place[2 * width + 2 : 3 * width + 2]) / self.feature_scale**2
        spread = self.noise.scale_parameter**2 / len(self.acceptance.observed)
        information = with_clipping.T @ with_clipping / spread + np.diag(np.maximum(prior, 0.5))
        return information, with_clipping @ np.linalg.pinv(plain)

    def _coordinates(self) -> FloatArray:
        """Coordinates as in `regression_moves.from_coordinates`, whose prior is standard normal or nearly so."""
        off = np.linalg.solve(self._prior_root, self.slopes - self._location)
        return np.concatenate(
            [
                off / self.variance**0.5,
                [np.log(self.variance)],
                self.mean / self.feature_scale,
                np.log(np.diagonal(self.root)),
                self.root[np.tril_indices(self.width, -1)] * (2 / self.feature_scale),
            ]
        )
