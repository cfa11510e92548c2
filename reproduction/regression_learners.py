"""Private regressions that are compared on the same splits: their predictions for the test records.

Every constant is a default, or public and fixed beforehand, except for the penalty of output perturbation, which is the
best of a grid in hindsight.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import DP, smallest
from privsample.distributions.models.regression_potential import RegressionPotential
from privsample.estimators.linear import PrivateLinearRegression
from privsample.estimators.logistic import PrivateLogisticRegression
from privsample.estimators.sgd import PrivateSGDClassifier, PrivateSGDRegressor
from privsample.mechanisms.posterior.glm import LogisticPosterior
from privsample.mechanisms.posterior.langevin import LangevinPosterior
from reproduction.regression_tasks import RegressionTask
from reproduction.sgd_data import Parts

DELTA, REPEATS, SEVERAL = 1e-5, 4, 5
MOST_WORK = np.log(1e7)  # log of the bound on the record visits of one exact draw
MOST_STEPS = 200  # of chains with ten classes: the account holds for any number of steps
WEIGHTS = (1.0, 1 / 2, 1 / 4, 1 / 8)  # of the records in penalized minimisers, in units of Langevin's weight
MINIMISED = 1e-3  # norm of the gradient at a minimiser, and bound on its error, in units of the prior
WIDE = 3.0  # deviation of the prior of chains that are stopped early, in units of the default
ONE, EARLY, MANY = "Langevin, 1 draw", "Langevin, stopped early", f"Langevin, mean of {SEVERAL} draws"
REJECTION, NUTS = "exact rejection, 1 draw", "NUTS, 1 draw (assumes convergence)"
OUTPUT, SAME, SGD = "output perturbation", "output perturbation, our prior", "noisy SGD"
FREE, PRIOR = "not private", "no features"
Learner = Callable[[Parts, np.random.Generator], FloatArray]


def repeats(task: RegressionTask) -> int:
    """Number of releases from the records of one split, which are averaged; with many classes they take seconds."""
    return REPEATS if task.classes <= 2 else 1


def posterior_mechanism(task: RegressionTask, epsilon: float, **changed: Any) -> LangevinPosterior | LogisticPosterior:
    """The mechanism of the estimator with its default prior, or `changed` parameters, for the records that train."""
    common = {"epsilon": epsilon, "delta": DELTA, "norm": task.data.norm, "draws": 1}
    if task.classes > 2:
        common["steps"] = MOST_STEPS
    if not task.classes:
        learner: Any = PrivateLinearRegression(target_bounds=(-1, 1), **common | changed)
    else:
        given = {"classes": tuple(range(task.classes)), "sampler": "langevin"}
        learner = PrivateLogisticRegression(**common | given | changed)
    return learner.mechanism_for(task.data.train, task.features)


def stopped_early(task: RegressionTask, epsilon: float) -> Learner:
    """Predictions of one draw by few steps from a wide prior, which regularise by themselves; the steps are public."""
    wide = WIDE * (1.5 if task.classes else 0.35)
    changed = {"prior_std": wide / task.data.norm, "intercept_std": wide / 3.0, "steps": few_steps(task, epsilon)}
    return langevin(task, epsilon, 1, **changed)


def few_steps(task: RegressionTask, epsilon: float) -> int:
    """A public number of steps, at least 5, proportional to n mu / d^(1/2) for a mu-GDP guarantee and d coefficients.

    The noise of T steps moves the state by a length proportional to (T d)^(1/2), and the gradients by one proportional
    to T n mu / T^(1/2).
    """
    width = (task.features + 1) * (task.classes if task.classes > 2 else 1)
    return max(5, round(1.5 * task.data.train / _relative_noise(epsilon) / width**0.5))


def langevin(task: RegressionTask, epsilon: float, draws: int, **changed: Any) -> Learner:
    """Mean predictions of so many draws, several times: further chains are further repetitions."""
    made = posterior_mechanism(task, epsilon, draws=draws, **changed)
    assert isinstance(made, LangevinPosterior)
    chain = made.bias
    several = replace(made, draws=repeats(task) * draws, steps=chain.steps, step_size=chain.step_size)

    def predictions(parts: Parts, rng: np.random.Generator) -> FloatArray:
        released = several.release(parts[:2], rng=rng)
        found = _means(made, parts[2], released["coefficients"], released["intercept"])
        return np.asarray(found.reshape(repeats(task), draws, *found.shape[1:]).mean(axis=1))

    return predictions


def rejection(task: RegressionTask, epsilon: float) -> Learner | None:
    """Predictions of exact draws, several times; None where exact draws take too long, or are of another model."""
    if task.classes != 2:
        return None
    made = posterior_mechanism(task, epsilon, sampler="nuts")
    assert isinstance(made, LogisticPosterior)
    made = replace(made, sampler="auto")
    if not (made.uses_rejection and made._log_work <= MOST_WORK):
        return None

    def predictions(parts: Parts, rng: np.random.Generator) -> FloatArray:
        released = [made.release(parts[:2], rng=rng) for _ in range(REPEATS)]
        stacked = {name: np.concatenate([one[name] for one in released]) for name in ("coefficients", "intercept")}
        return special.expit(stacked["coefficients"] @ parts[2].T + stacked["intercept"][:, None])

    return predictions


def nuts(task: RegressionTask, epsilon: float) -> Learner | None:
    """Predictions of single draws by NUTS, several times; None for other models than the logistic one."""
    if task.classes != 2:
        return None
    several = replace(posterior_mechanism(task, epsilon, sampler="nuts"), draws=REPEATS)

    def predictions(parts: Parts, rng: np.random.Generator) -> FloatArray:
        released = several.release(parts[:2], rng=rng)
        return special.expit(released["coefficients"] @ parts[2].T + released["intercept"][:, None])

    return predictions


def output_perturbation(task: RegressionTask, epsilon: float, share: float) -> Learner:
    """Predictions of the minimiser of the loss and a penalty, with Gaussian noise, several times.

    The penalized loss is the negative log posterior of `langevin` with the records' weight times `share`. The minimiser
    of a loss that is m-strongly convex moves by at most the gradient sensitivity divided by m, which is 1 in units of
    the prior (Chaudhuri, Monteleoni and Sarwate 2011, Lemma 7).
    """
    made = posterior_mechanism(task, epsilon)
    assert isinstance(made, LangevinPosterior)
    noise = share * made.accountant.gradient_sensitivity * _relative_noise(epsilon)
    smoothness = 1.0 + share * (made.bias.smoothness - 1.0)

    def predictions(parts: Parts, rng: np.random.Generator) -> FloatArray:
        potential = replace(made._statistic(parts[:2]), weight=share * made.data_weight)
        found = minimiser(potential, smoothness)
        found = found + noise * rng.standard_normal((repeats(task), *found.shape[1:]))
        coefficients = found[..., :-1] * made._scale.deviation
        intercept = found[..., -1] * (made._scale.intercept_deviation or 0.0)
        if made.likelihood.score_columns == 1:
            coefficients, intercept = coefficients[:, 0], intercept[:, 0]
        return _means(made, parts[2], coefficients, intercept)

    return predictions


def minimiser(potential: RegressionPotential, smoothness: float) -> FloatArray:
    """The minimiser by Nesterov's accelerated gradients, in units of the prior, shape (1, columns, width)."""
    ratio = np.sqrt(smoothness)
    momentum = (ratio - 1.0) / (ratio + 1.0)
    point = ahead = np.zeros((1, potential.likelihood.score_columns, potential.scale.width))
    while np.linalg.norm(slope := potential.gradient(ahead)) > MINIMISED:
        last, point = point, ahead - slope / smoothness
        ahead = point + momentum * (point - last)
    return ahead


def noisy_sgd(task: RegressionTask, epsilon: float) -> Learner | None:
    """Predictions of the estimators by noisy gradient descent, several times; None for more than two classes."""
    if task.classes > 2:
        return None
    common: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "norm": task.data.norm}

    def predictions(parts: Parts, rng: np.random.Generator) -> FloatArray:
        found = []
        for _ in range(REPEATS):
            if task.classes:
                found.append(PrivateSGDClassifier(**common).fit(*parts[:2], rng=rng).predict_proba(parts[2])[:, 1])
            else:
                found.append(
                    PrivateSGDRegressor(target_bounds=(-1, 1), **common).fit(*parts[:2], rng=rng).predict(parts[2])
                )
        return np.array(found)

    return predictions


def not_private(task: RegressionTask) -> Learner:
    """Predictions of scikit-learn's regressions, shape (1, ...)."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    def predictions(parts: Parts, rng: np.random.Generator) -> FloatArray:
        del rng
        if not task.classes:
            return np.asarray(LinearRegression().fit(*parts[:2]).predict(parts[2])[None])
        found = LogisticRegression(max_iter=200).fit(*parts[:2]).predict_proba(parts[2])
        return np.asarray(found[None] if task.classes > 2 else found[None, :, 1])

    return predictions


def no_features(task: RegressionTask) -> Learner:
    """The mean target, or the shares of the classes, of the training records, for each test record, shape (1, ...)."""

    def predictions(parts: Parts, rng: np.random.Generator) -> FloatArray:
        del rng
        if task.classes <= 2:
            return np.full((1, len(parts[2])), parts[1].mean())
        return np.tile(np.bincount(parts[1].astype(int), minlength=task.classes) / len(parts[1]), (1, len(parts[2]), 1))

    return predictions


def losses_and_scores(task: RegressionTask, predicted: FloatArray, targets: FloatArray) -> tuple[float, float]:
    """Held-out log loss in nats and accuracy; for numbers, the squared error and R^2; means over repetitions."""
    if not task.classes:
        error = np.square(predicted - targets).mean(axis=1)
        return float(error.mean()), float((1.0 - error / targets.var()).mean())
    if task.classes == 2:
        predicted = np.stack([1.0 - predicted, predicted], axis=-1)
    own = predicted[:, np.arange(len(targets)), targets.astype(int)]
    return float(-np.log(np.maximum(own, 1e-15)).mean()), float((predicted.argmax(axis=-1) == targets).mean())


def _means(made: LangevinPosterior, rows: FloatArray, coefficients: FloatArray, intercept: FloatArray) -> FloatArray:
    """Predicted means of each draw, shape (draws, rows) or (draws, rows, classes)."""
    scores = np.moveaxis(np.tensordot(rows, coefficients, axes=(1, -1)) + intercept, 0, 1)
    return made.likelihood.mean(scores)


def _relative_noise(epsilon: float) -> float:
    """Standard deviation of the Gaussian noise on a quantity of sensitivity 1."""
    return smallest(
        lambda noise: GaussianAccountant(sensitivity=1.0, noise_std=noise),
        lambda account: account,
        DP(epsilon=epsilon, delta=DELTA),
        advice="",
    ).noise_std
