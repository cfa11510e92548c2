"""Accuracy of private linear classifiers against epsilon, over random splits: noisy SGD, posterior draws and others.

All constants are the estimator's defaults, which follow from public quantities, or were fixed before any record was
looked at.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import DP, smallest
from privsample.distributions.rows import within_norm
from privsample.estimators.logistic import PrivateLogisticRegression
from privsample.estimators.sgd import PrivateSGDClassifier
from privsample.mechanisms.posterior.glm import LogisticPosterior
from privsample.mechanisms.sgd import NoisyProjectedSGD
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.flights import PACKAGE
from reproduction.sgd_data import Parts, Task, breast_cancer, late_arrivals
from reproduction.tables import Table

TASKS = (breast_cancer, late_arrivals)
DELTA, SPLITS = 1e-5, 20
RIDGE = 1e-2  # the penalty of output perturbation
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FREE, OUTPUT, POSTERIOR = "not private", "output perturbation", "posterior draw"
SEVERAL, ONE = "noisy SGD", "noisy SGD (one epoch)"
MANY, FEW_SPLITS = 10_000, 4  # of so many records posterior draws take seconds: few splits, at COMPARED alone
COMPARED = 1.0  # the epsilon of the sentence: the largest at which exact posterior draws are possible for both tasks
Scores = Mapping[str, FloatArray]


def measured(task: Task, splits: int, epsilons: Sequence[float], first: int = 0) -> Scores:
    """Shares of test labels that are predicted rightly, (epsilons, splits), by method; from the `first` split on."""
    made = {name: [_mechanism(task, epsilon, name) for epsilon in epsilons] for name in (SEVERAL, ONE)}
    posteriors = [_posterior(task, epsilon) for epsilon in epsilons]
    noises = [_output_noise(made[ONE][0], epsilon) for epsilon in epsilons]
    scores = {name: np.empty((len(epsilons), splits)) for name in (FREE, SEVERAL, ONE, OUTPUT, POSTERIOR)}
    for k, parts in enumerate(task.splits(splits, first)):
        rng = np.random.default_rng([splits, first + k])
        scores[FREE][:, k] = _score(_trained(parts, 1e-6), parts)
        ridge = _trained((within_norm(parts[0], task.norm), *parts[1:]), RIDGE)
        for j, noise in enumerate(noises):
            scores[OUTPUT][j, k] = _score(ridge + noise * rng.standard_normal(len(ridge)), parts)
            for name in (SEVERAL, ONE):
                released = made[name][j].release(parts[:2], rng=rng)
                found = np.append(released["coefficients"][0], released["intercept"])
                scores[name][j, k] = _score(found, parts)
            few = task.train <= MANY or (epsilons[j] == COMPARED and k < FEW_SPLITS)
            source = np.random.default_rng([splits, first + k, j])
            scores[POSTERIOR][j, k] = _posterior_score(posteriors[j], parts, source) if few else np.nan
    return scores


def _posterior(task: Task, epsilon: float) -> LogisticPosterior | None:
    """The posterior with a narrowed prior, None where exact draws take too long."""
    learner = PrivateLogisticRegression(
        epsilon=epsilon, delta=DELTA, norm=task.norm, prior_std=1.0, method="concentrated", draws=1
    )
    made = learner.mechanism_for(task.train, task.rows.shape[1])
    return made if isinstance(made, LogisticPosterior) else None


def _posterior_score(made: LogisticPosterior | None, parts: Parts, rng: np.random.Generator) -> float:
    """NaN without exact draws."""
    if made is None:
        return float("nan")
    release = made.release(parts[:2], rng=rng)
    return _score(np.append(release["coefficients"][0], release["intercept"]), parts)


def _mechanism(task: Task, epsilon: float, name: str) -> NoisyProjectedSGD:
    epochs = 1 if name == ONE else None
    learner = PrivateSGDClassifier(epsilon=epsilon, delta=DELTA, norm=task.norm, epochs=epochs)
    return learner.mechanism_for(task.train, task.rows.shape[1])


def _trained(parts: Parts, penalty: float) -> FloatArray:
    """The minimiser of the mean logistic loss and penalty |w|^2/2, the intercept in it, last."""
    from sklearn.linear_model import LogisticRegression

    rows = np.column_stack([parts[0], np.ones(len(parts[0]))])
    model = LogisticRegression(C=1.0 / (penalty * len(rows)), fit_intercept=False, max_iter=500)
    return np.asarray(model.fit(rows, parts[1]).coef_[0])


def _output_noise(made: NoisyProjectedSGD, epsilon: float) -> float:
    """Deviation of Gaussian noise on the penalised minimiser, which a record moves by at most 2 norm/(n RIDGE).

    Source: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1, whose noise is of another distribution: this one needs
    less.
    """
    largest_move = 2.0 * made.loss.max_row_norm / (made.n * RIDGE)
    account = smallest(
        lambda noise: GaussianAccountant(sensitivity=1.0, noise_std=noise),
        lambda account: account,
        DP(epsilon=epsilon, delta=DELTA),
        advice="",
    )
    return largest_move * account.noise_std


def _score(w: FloatArray, parts: Parts) -> float:
    return float((((parts[2] @ w[:-1] + w[-1]) > 0) == parts[3]).mean())


def result(tasks: Mapping[str, Scores], epsilons: Sequence[float]) -> Result:
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
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, tasks, epsilons))


def _describe(columns: Columns) -> Statement:
    table, tasks, count = Table(columns=columns), [], 0
    findings: list[Finding] = []
    for (task,), rows in table.select(epsilon=COMPARED).groups("task"):
        shares = []
        for (method,), one in rows.groups("method"):
            accuracy = one["accuracy"][np.isfinite(one["accuracy"])]
            count = len(one)
            fewer = f" ({len(accuracy)} splits)" if len(accuracy) < count else ""
            if len(accuracy) > 1:
                error = float(accuracy.std(ddof=1) / len(accuracy) ** 0.5)
                findings.append(Finding(f"{task}, {method}", float(accuracy.mean()), error))
                shares.append(f"{method} {accuracy.mean():.1%} ± {accuracy.std(ddof=1):.1%}{fewer}")
            else:
                shares.append(f"{method} not available")
        tasks.append(f"{task}: {join_names(shares)}")
    sentence = (
        f"Test accuracy of linear classifiers at ε = {COMPARED:g} and δ = {DELTA:g}, mean ± standard deviation over "
        f"{count} random splits. {'. '.join(tasks)}. Posterior draws are shown where exact draws are feasible. All "
        "parameters follow from public quantities; the rule for the number of steps of noisy SGD was chosen on breast "
        "cancer, digits and diabetes."
    )
    return Statement(sentence, tuple(findings))


def _plot(figure: Any, tasks: Mapping[str, Scores], epsilons: Sequence[float]) -> None:
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    colours = {FREE: GREY, SEVERAL: BLUE, ONE: GREEN, OUTPUT: ORANGE, POSTERIOR: "#5B1A4F"}
    x = np.array(epsilons)
    for axes, (task, scores) in zip(panels, tasks.items(), strict=True):
        for name, values in scores.items():
            known = np.isfinite(values).any(axis=1)
            low, high = np.nanquantile(values[known], (0.1, 0.9), axis=1)
            middle = np.nanmean(values[known], axis=1)
            colour = colours.get(name, "#8E4585")
            line = "--" if name == FREE else "-"
            axes.plot(x[known], middle, color=colour, label=name, linestyle=line, marker="o", markersize=3)
            axes.fill_between(x[known], low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set(xscale="log", title=task, xlabel="ε at δ = 10⁻⁵ (nats)")
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.minorticks_off()
    panels[0].set_ylabel("test accuracy: mean,\ncentral 80 % of splits")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def accuracies(tasks: Sequence[Callable[[], Task]], first: int = 0) -> Result:
    """The scores of these tasks; from the `first` split on."""
    known = [made() for made in tasks]
    return result({task.name: measured(task, SPLITS, EPSILONS, first) for task in known}, EPSILONS)


ACCURACY = Experiment(
    name="sgd-accuracy",
    title="Private linear classifiers: test accuracy against ε",
    run=lambda: accuracies(TASKS),
    size=(8.8, 4.2),
    package=PACKAGE,
    second=lambda: accuracies(TASKS, first=SPLITS),
)
