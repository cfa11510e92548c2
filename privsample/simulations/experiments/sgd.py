"""Accuracy of private logistic regression against epsilon, over random splits: one pass of noisy descent and others.

All constants are the estimator's defaults, or were fixed before any record was looked at: nothing is tuned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import DP, smallest
from privsample.distributions.rows import within_norm
from privsample.estimators.sgd import PrivateSGDClassifier
from privsample.mechanisms.sgd import NoisyProjectedSGD
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.flights import PACKAGE
from privsample.simulations.experiments.sgd_data import Parts, Task, breast_cancer, late_arrivals
from privsample.simulations.report.figures import BLUE, GREEN, GREY, ORANGE

DELTA, SPLITS = 1e-5, 20
RIDGE = 1e-2  # the penalty of output perturbation
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FREE, HIDDEN, WORST, OUTPUT = "not private", "noisy SGD, hidden order", "noisy SGD, worst index", "output perturbation"
Scores = Mapping[str, FloatArray]


def measured(task: Task, splits: int = SPLITS, epsilons: Sequence[float] = EPSILONS) -> Scores:
    """Shares of test labels that are predicted rightly, (epsilons, splits), by method."""
    made = {name: [_mechanism(task, epsilon, name == HIDDEN) for epsilon in epsilons] for name in (HIDDEN, WORST)}
    noises = [_output_noise(made[WORST][0], epsilon) for epsilon in epsilons]
    scores = {name: np.empty((len(epsilons), splits)) for name in (FREE, HIDDEN, WORST, OUTPUT)}
    for k, parts in enumerate(task.splits(splits)):
        rng = np.random.default_rng([splits, k])
        scores[FREE][:, k] = _score(_trained(parts, 1e-6), parts)
        ridge = _trained((within_norm(parts[0], task.norm), *parts[1:]), RIDGE)
        for j, noise in enumerate(noises):
            scores[OUTPUT][j, k] = _score(ridge + noise * rng.standard_normal(len(ridge)), parts)
            for name in (HIDDEN, WORST):
                released = made[name][j].release(parts[:2], rng=rng)
                found = np.append(released["coefficients"][0], released["intercept"])
                scores[name][j, k] = _score(found, parts)
    return scores


def _mechanism(task: Task, epsilon: float, hidden: bool) -> NoisyProjectedSGD:
    learner = PrivateSGDClassifier(epsilon=epsilon, delta=DELTA, norm=task.norm, hidden_order=hidden)
    return learner.mechanism_for(task.train, task.rows.shape[1])


def _trained(parts: Parts, penalty: float) -> FloatArray:
    """The minimiser of the mean logistic loss and penalty |w|^2/2, the intercept in it, last."""
    from sklearn.linear_model import LogisticRegression

    rows = np.column_stack([parts[0], np.ones(len(parts[0]))])
    model = LogisticRegression(C=1.0 / (penalty * len(rows)), fit_intercept=False, max_iter=500)
    return np.asarray(model.fit(rows, parts[1]).coef_[0])


def _output_noise(made: NoisyProjectedSGD, epsilon: float) -> float:
    """Deviation of Gaussian noise on the penalised minimiser, which a record moves by at most 2 norm/(n RIDGE).

    Source: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1, whose noise is of another law: this one needs less.
    """
    moved = 2.0 * made.loss.reach / (made.n * RIDGE)
    account = smallest(
        lambda noise: GaussianAccountant(sensitivity=1.0, noise_std=noise),
        lambda account: account,
        DP(epsilon=epsilon, delta=DELTA),
        advice="",
    )
    return moved * account.noise_std


def _score(w: FloatArray, parts: Parts) -> float:
    return float((((parts[2] @ w[:-1] + w[-1]) > 0) == parts[3]).mean())


def result(tasks: Mapping[str, Scores], epsilons: Sequence[float] = EPSILONS) -> Result:
    """The table, the picture and the sentence of these scores, by task; other methods' may be among them."""
    parts = [
        {
            "task": task,
            "method": method,
            "epsilon": np.repeat(epsilons, values.shape[1]),
            "split": np.tile(np.arange(values.shape[1]), len(epsilons)),
            "accuracy": values.ravel(),
        }
        for task, scores in tasks.items()
        for method, values in scores.items()
    ]
    at = list(epsilons).index(4.0)
    said = [
        f"{task}: {scores[FREE].mean():.1%} not private, {scores[HIDDEN][at].mean():.1%} under a hidden order, "
        f"{scores[WORST][at].mean():.1%} for the worst index, {scores[OUTPUT][at].mean():.1%} by output perturbation"
        for task, scores in tasks.items()
    ]
    count = next(iter(next(iter(tasks.values())).values())).shape[1]
    return Result(
        columns=stacked(parts),
        sentence=f"Test accuracy at ε = 4, δ = {DELTA:g}, mean of {count} splits: {'; '.join(said)}.",
        plot=lambda figure: _plot(figure, tasks, epsilons),
    )


def _plot(figure: Any, tasks: Mapping[str, Scores], epsilons: Sequence[float]) -> None:
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    colours = {FREE: GREY, HIDDEN: BLUE, WORST: GREEN, OUTPUT: ORANGE}
    x = np.array(epsilons)
    for axes, (task, scores) in zip(panels, tasks.items(), strict=True):
        for name, values in scores.items():
            known = ~np.isnan(values).any(axis=1)
            low, middle, high = np.quantile(values[known], (0.1, 0.5, 0.9), axis=1)
            colour = colours.get(name, "#8E4585")
            line = "--" if name == FREE else "-"
            axes.plot(x[known], middle, color=colour, label=name, linestyle=line, marker="o", markersize=3)
            axes.fill_between(x[known], low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set(xscale="log", title=task, xlabel="ε at δ = 10⁻⁵, nats")
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.minorticks_off()
    panels[0].set_ylabel("test accuracy: median, middle 80 %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _run() -> Result:
    return result({task.name: measured(task) for task in (breast_cancer(), late_arrivals())})


ACCURACY = Experiment(
    name="sgd-accuracy",
    title="Private logistic regression: accuracy against epsilon, one pass of noisy descent and others",
    run=_run,
    size=(8.8, 4.2),
    package=PACKAGE,
)
