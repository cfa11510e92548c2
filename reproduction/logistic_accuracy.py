"""Accuracy of draws from logistic posteriors on scikit-learn's bundled data against epsilon, over splits and draws.

Bounds of features are round numbers that an expert would name, priors are the estimator's defaults: nothing is tuned.
"""

from functools import cache
from typing import Any, Literal

import numpy as np

from privsample._checks import FloatArray
from privsample.estimators.logistic import PrivateLogisticRegression
from privsample.mechanisms.posterior.glm import LogisticPosterior
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.sgd_data import Parts, Task, breast_cancer
from reproduction.tables import Table

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
COMPARED = (0.5, 4.0)  # of the sentence: the largest at which exact draws exist of both methods, and of one
DELTA, SPLITS, DRAWS = 1e-5, 20, 5
MOST_WORK = np.log(1e7)  # log of the bound on the record visits of one exact draw: more would take minutes
FREE, MAJORITY = "not private", "larger class"
METHODS: dict[str, Literal["concentrated", "diffused"]] = {
    "concentrated posterior": "concentrated",
    "diffused posterior": "diffused",
}
_WINE = np.array(
    [
        (10, 16),
        (0, 6),
        (1, 4),
        (10, 35),
        (60, 180),
        (0, 5),
        (0, 6),
        (0, 1),
        (0, 4),
        (0, 15),
        (0, 2),
        (1, 4),
        (200, 2000),
    ],
    dtype=float,
)
_IRIS = np.array([(4, 8), (2, 5), (2, 8), (0, 3)], dtype=float)


@cache
def wine() -> Task:
    """scikit-learn's wine data: the second cultivar against the two others."""
    from sklearn.datasets import load_wine

    rows, labels = load_wine(return_X_y=True)
    return _task("wine", rows, labels == 1, _WINE)


@cache
def iris() -> Task:
    """scikit-learn's iris data: versicolor against virginica, the two species that overlap."""
    from sklearn.datasets import load_iris

    rows, labels = load_iris(return_X_y=True)
    return _task("iris", rows[labels > 0], labels[labels > 0] == 2, _IRIS)


def _task(name: str, rows: FloatArray, labels: Any, bounds: FloatArray) -> Task:
    """Rows scaled to [-1, 1] by public bounds; four fifths of the records train."""
    low, high = bounds.T
    train = 4 * len(rows) // 5
    return Task(
        name=name,
        rows=np.clip((rows - low) / (high - low), 0.0, 1.0) * 2.0 - 1.0,
        labels=np.asarray(labels, dtype=np.float64),
        norm=(len(bounds) / 3) ** 0.5,  # the root mean square of so many uniform numbers
        train=train,
        test=len(rows) - train,
    )


TASKS = (breast_cancer, wine, iris)


def mechanism(task: Task, method: str, epsilon: float) -> LogisticPosterior | None:
    """Return the calibrated mechanism, or None if exact draws may take longer than the experiment has."""
    learner = PrivateLogisticRegression(
        epsilon=epsilon, delta=DELTA, norm=task.norm, prior_std=1.0, method=METHODS[method], draws=1
    )
    made = learner.mechanism_for(task.train, task.rows.shape[1])
    return made if isinstance(made, LogisticPosterior) and made._log_work <= MOST_WORK else None


def accuracies(task: Task, method: str, epsilon: float, first: int = 0) -> FloatArray:
    """Share of test labels that each draw predicts rightly, (SPLITS, DRAWS); NaN without exact draws."""
    made, found = mechanism(task, method, epsilon), np.full((SPLITS, DRAWS), np.nan)
    if made is not None:
        for k, parts in enumerate(task.splits(SPLITS, first)):
            rng = np.random.default_rng([first + k, round(1000 * epsilon), list(METHODS).index(method)])
            for j in range(DRAWS):
                release = made.release(parts[:2], rng=rng)
                found[k, j] = _score(parts, release["coefficients"][0], float(release["intercept"][0]))
    return found


def baselines(task: Task, first: int = 0) -> dict[str, FloatArray]:
    """Test accuracies of scikit-learn's logistic regression, and the share of the larger class, each (SPLITS,)."""
    from sklearn.linear_model import LogisticRegression

    free = []
    for parts in task.splits(SPLITS, first):
        model = LogisticRegression(max_iter=1000).fit(*parts[:2])  # its default penalty is the prior N(0, 1)
        free.append(_score(parts, model.coef_[0], float(model.intercept_[0])))
    positive = float(task.labels.mean())
    return {FREE: np.array(free), MAJORITY: np.full(SPLITS, max(positive, 1 - positive))}


def _score(parts: Parts, coefficients: FloatArray, intercept: float) -> float:
    return float(((parts[2] @ coefficients + intercept > 0) == parts[3]).mean())


def _run(first: int = 0) -> Result:
    parts: list[dict[str, Any]] = []
    for task in (made() for made in TASKS):
        known = {"task": task.name, "records": task.train, "features": task.rows.shape[1]}
        split = np.arange(first, first + SPLITS)
        for name, values in baselines(task, first).items():
            parts.append(known | {"method": name, "epsilon": np.nan, "split": split, "accuracy": values})
        for method in METHODS:
            for epsilon in EPSILONS:
                values = accuracies(task, method, epsilon, first).mean(axis=1)
                parts.append(known | {"method": method, "epsilon": epsilon, "split": split, "accuracy": values})
    columns = stacked(parts)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _mean(values: FloatArray) -> tuple[float, float]:
    """Mean over splits and its standard error; NaN for no splits."""
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def _describe(columns: Columns) -> Statement:
    findings: list[Finding] = []
    sentences = []
    for (task, n, features), rows in Table(columns=columns).groups("task", "records", "features"):
        words = []
        for method in METHODS:
            at = {epsilon: rows.select(method=method, epsilon=epsilon)["accuracy"] for epsilon in COMPARED}
            known = {epsilon: _mean(values) for epsilon, values in at.items() if np.isfinite(values).all()}
            shares = [f"{mean:.1%} ± {2 * error:.1%} at ε = {epsilon:g}" for epsilon, (mean, error) in known.items()]
            words.append(f"{method} {join_names(shares)}" if shares else f"{method} not drawn")
            findings += [Finding(f"{task}, {method}, {epsilon:g}", *found) for epsilon, found in known.items()]
            if len(known) == len(COMPARED):
                findings.append(compared(f"{task}, {method}, gain", *_mean(at[COMPARED[-1]] - at[COMPARED[0]])))
        pairs = [rows.select(method=method, epsilon=COMPARED[0])["accuracy"] for method in METHODS]
        findings.append(compared(f"{task}, diffused - concentrated", *_mean(pairs[1] - pairs[0])))
        more = f"{findings[-1].value:+.1%} ± {2 * findings[-1].standard_error:.1%}"
        words.append(f"diffused less concentrated {more} at ε = {COMPARED[0]:g}")
        mean, error = _mean(rows.select(method=FREE)["accuracy"])
        findings.append(Finding(f"{task}, {FREE}", mean, error))
        larger = float(rows.select(method=MAJORITY)["accuracy"][0])
        findings.append(Finding(f"{task}, {MAJORITY}", larger))
        words.append(f"{FREE} {mean:.1%} ± {2 * error:.1%}; the larger class has {larger:.1%}")
        sentences.append(f"{task[0].upper()}{task[1:]} ({n:g} records, {features:g} features): {', '.join(words)}")
    return Statement(
        f"Test accuracy of one draw from the posterior of a logistic regression at δ = {DELTA:g}, mean over {SPLITS} "
        f"random splits with {DRAWS} draws each, ± two standard errors over splits. {'. '.join(sentences)}. Points "
        f"whose exact draws may need more than {np.exp(MOST_WORK):.0e} visits of records are left out. Bounds and "
        "priors are fixed beforehand, nothing is tuned.",
        tuple(findings),
    )


def _plot(figure: Any, columns: Columns) -> None:
    table = Table(columns=columns)
    tasks = list(table.groups("task", "records", "features"))
    panels = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axes, ((task, n, features), rows) in zip(panels, tasks, strict=True):
        for method, line in ((FREE, "--"), (MAJORITY, ":")):
            axes.axhline(_mean(rows.select(method=method)["accuracy"])[0], color=GREY, linestyle=line, label=method)
        for method, colour, shift in zip(METHODS, (BLUE, ORANGE), (0.97, 1.03), strict=True):
            found = np.array([_mean(rows.select(method=method, epsilon=e)["accuracy"]) for e in EPSILONS])
            style = {"fmt": "o-", "markersize": 4, "capsize": 3, "linewidth": 1.4, "color": colour}
            axes.errorbar(shift * np.array(EPSILONS), found[:, 0], yerr=2 * found[:, 1], label=method, **style)
        axes.set(xscale="log", title=f"{task}: {n} records, {features} features", xlabel="ε at δ = 10⁻⁵ (nats)")
        axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axes.minorticks_off()
    panels[0].set_ylabel("test accuracy of one draw")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


ACCURACY = Experiment(
    name="logistic-accuracy",
    title="Draws from logistic posteriors on real data: test accuracy against ε",
    run=_run,
    size=(10.0, 3.8),
    second=lambda: _run(first=SPLITS),
)
