"""Held-out loss of private regressions against epsilon, one experiment for each data set, over random splits.

The priors are the defaults of the estimators, and all bounds were fixed before any record was looked at.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE, SKY
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result, stacked
from reproduction import regression_learners as learners
from reproduction.base import Experiment
from reproduction.regression_learners import Learner
from reproduction.regression_tasks import RegressionTask, diabetes, digit_pair, ten_digits, tumours
from reproduction.tables import Table

EPSILONS = (0.5, 1.0, 2.0, 4.0)
SPLITS, FEW_SPLITS = 10, 3  # random splits; those on which NUTS draws, which takes seconds a posterior
MANY, SPLITS_OF_MANY = 1000, 3  # of so many records, and so many splits of them
STATED = (1.0, 4.0)  # the epsilons of the sentence
LIMITS = (learners.FREE, learners.PRIOR)
_STYLES = {
    learners.ONE: (BLUE, "o", "-"),
    learners.EARLY: (BLUE, "P", "--"),
    learners.MANY: (SKY, "s", "-"),
    learners.REJECTION: ("#000000", "x", "none"),
    learners.NUTS: ("#8E4585", "D", "none"),
    learners.OUTPUT: (ORANGE, "^", "-"),
    learners.SGD: (GREEN, "v", "-"),
}
_SHIFTS = {
    learners.REJECTION: 0.96,
    learners.NUTS: 1.04,
}  # factors of epsilon in the picture, so that marks do not hide


def measured(task: RegressionTask, splits: Sequence[int], few: int, epsilons: Sequence[float]) -> Columns:
    """Loss and score of each method for each epsilon and split; of output perturbation, those of the best penalty."""
    parts: list[dict[str, Any]] = []

    def add(method: str, epsilon: float, learner: Learner | None, taken: Sequence[int]) -> None:
        if learner is None or not len(taken):
            return
        found = [evaluated(task, learner, split, epsilon) for split in taken]
        loss, score = map(np.array, zip(*found, strict=True))
        parts.append(known | {"method": method, "epsilon": epsilon, "split": taken, "loss": loss, "score": score})

    known = {"task": task.data.name, "records": task.data.train, "features": task.features, "classes": task.classes}
    add(learners.FREE, np.nan, learners.not_private(task), splits)
    add(learners.PRIOR, np.nan, learners.no_features(task), splits)
    for epsilon in epsilons:
        add(learners.ONE, epsilon, learners.langevin(task, epsilon, 1), splits)
        add(learners.EARLY, epsilon, learners.stopped_early(task, epsilon), splits)
        add(learners.MANY, epsilon, learners.langevin(task, epsilon, learners.SEVERAL), splits)
        add(learners.REJECTION, epsilon, learners.rejection(task, epsilon), splits)
        add(learners.NUTS, epsilon, learners.nuts(task, epsilon), splits[:few])
        add(learners.SGD, epsilon, learners.noisy_sgd(task, epsilon), splits)
        for share in learners.WEIGHTS:
            add(f"{learners.OUTPUT}, {share:g}", epsilon, learners.output_perturbation(task, epsilon, share), splits)
    return stacked([*parts, *_in_hindsight(Table(columns=stacked(parts)), epsilons)])


def evaluated(task: RegressionTask, learner: Learner, split: int, epsilon: float) -> tuple[float, float]:
    """Held-out loss and score on one split; seeded: these are simulations, not releases."""
    (parts,) = task.data.splits(1, split)
    seed = [split, 0 if np.isnan(epsilon) else round(1000 * epsilon)]
    return learners.losses_and_scores(task, learner(parts, np.random.default_rng(seed)), parts[3])


def _in_hindsight(table: Table, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Rows of output perturbation with the penalties of the best mean loss and the best mean score at each epsilon."""
    found = []
    for epsilon in epsilons:
        options = [table.select(method=f"{learners.OUTPUT}, {share:g}", epsilon=epsilon) for share in learners.WEIGHTS]
        best = min(options, key=lambda one: float(one["loss"].mean()))
        accurate = max(options, key=lambda one: float(one["score"].mean()))
        found.append({**best.columns, "method": learners.OUTPUT, "score": accurate["score"]})
    return found


def _mean(values: FloatArray) -> tuple[float, float]:
    """Mean over splits and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def difference(table: Table, method: str, other: str, epsilon: float, column: str = "loss") -> tuple[float, float]:
    """Mean and standard error of the paired difference over their common splits, the other's less the method's.

    The standard error is enlarged for the number of splits, so that three of them have the level that they have for a
    normal distribution.
    """
    first, second = (table.select(method=name, epsilon=epsilon) for name in (method, other))
    common, at, among = np.intersect1d(first["split"], second["split"], return_indices=True)
    mean, error = _mean(second[column][among] - first[column][at])
    return mean, error * float(stats.t.isf(stats.norm.sf(3.0), len(common) - 1)) / 3.0


def level(table: Table, method: str, epsilon: float, column: str) -> tuple[float, float]:
    """Mean and standard error of a method at an epsilon.

    A method that was measured on fewer splits is shown by its paired difference from one Langevin draw, added to the
    mean of the latter over all splits: otherwise it would be judged by easier or harder splits.
    """
    own, all_splits = (table.select(method=name, epsilon=epsilon)[column] for name in (method, learners.ONE))
    if len(own) == len(all_splits):
        return _mean(own)
    shift, error = difference(table, learners.ONE, method, epsilon, column)
    return float(all_splits.mean()) + shift, error


def methods(table: Table) -> list[str]:
    """The private methods of a table that are drawn, in the order of the legend."""
    return [name for name in _STYLES if len(table.select(method=name))]


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    ((task, n, features, classes), _) = next(iter(table.groups("task", "records", "features", "classes")))
    findings: list[Finding] = []
    sentences = []
    for epsilon in (one for one in STATED if one in table["epsilon"]):
        words = []
        for method in methods(table):
            rows = table.select(method=method, epsilon=epsilon)
            if len(rows) > 2:
                mean, error = level(table, method, epsilon, "loss")
                findings.append(Finding(f"{method}, {epsilon:g}", mean, error))
                words.append(f"{method} {mean:.3f}" + (f" ± {2 * error:.3f}" if method != learners.NUTS else ""))
        sentences.append(f"At ε = {epsilon:g}: {join_names(words)}")
    limits = []
    for method in LIMITS:
        mean, error = _mean(table.select(method=method)["loss"])
        findings.append(Finding(method, mean, error))
        limits.append(f"{method} {mean:.3f}")
    for other in (learners.EARLY, learners.OUTPUT, learners.SGD):
        if not len(table.select(method=other)):
            continue
        below, above = [], []
        for epsilon in np.unique(table.select(method=other)["epsilon"]):
            mean, error = difference(table, learners.ONE, other, epsilon)
            found = compared(f"{other} - {learners.ONE}, {epsilon:g}", mean, error)
            turned = compared(f"{learners.ONE} - {other}, {epsilon:g}", -mean, error)
            findings += [found, turned]
            below += [f"{epsilon:g}"] if found.compared else []
            above += [f"{epsilon:g}"] if turned.compared else []
        for word, places in (("lower", below), ("higher", above)):
            if places:
                sentences.append(f"One Langevin draw has a {word} loss than {other} at ε = {join_names(places)}")
    loss = "squared error (targets in [-1, 1])" if classes == 0 else "log loss in nats"
    splits = len(table.select(method=learners.ONE, epsilon=table.select(method=learners.ONE)["epsilon"][0]))
    return Statement(
        f"Held-out {loss} on {task} ({n:g} records, {features:g} features) at δ = {learners.DELTA:g}, mean ± two "
        f"standard errors over {splits} random splits. {'. '.join(sentences)}. For comparison: "
        f"{join_names(limits)}. The priors are the estimators' defaults; the penalty of output perturbation is the "
        f"best of {len(learners.WEIGHTS)} in hindsight, which is not private."
        + (
            f" NUTS ran on {FEW_SPLITS} splits: its mean is that of one Langevin draw plus their paired difference, "
            "and no error is stated."
            if learners.NUTS in methods(table)
            else ""
        ),
        tuple(findings),
    )


def _plot(figure: Any, columns: Columns) -> None:
    table = Table(columns=columns)
    ((task, n, features, classes), _) = next(iter(table.groups("task", "records", "features", "classes")))
    panels = figure.subplots(1, 2)
    names = (
        ("held-out squared error", "held-out R²") if classes == 0 else ("held-out log loss (nats)", "held-out accuracy")
    )
    epsilons = np.unique(table.select(method=learners.ONE)["epsilon"])
    for axes, column, name in zip(panels, ("loss", "score"), names, strict=True):
        for method, line in zip(LIMITS, ("--", ":"), strict=True):
            mean = _mean(table.select(method=method)[column])[0]
            axes.axhline(mean, color=GREY, linestyle=line, label=method)
        for method in methods(table):
            colour, mark, line = _STYLES[method]
            drawn = [e for e in epsilons if len(table.select(method=method, epsilon=e)) > 2]
            if not drawn:
                continue
            found = np.array([level(table, method, e, column) for e in drawn])
            axes.errorbar(
                np.array(drawn) * _SHIFTS.get(method, 1.0),
                found[:, 0],
                yerr=None if method == learners.NUTS else 2 * found[:, 1],  # of a few splits an error says little
                label=method,
                color=colour,
                marker=mark,
                linestyle=line,
                markersize=5,
                capsize=3,
                linewidth=1.4,
            )
        axes.set(xscale="log", xlabel="ε at δ = 10⁻⁵ (nats)", ylabel=name)
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.minorticks_off()
        _limit(axes, table, column)
    figure.suptitle(f"{task[0].upper()}{task[1:]}: {n:g} records, {features:g} features", fontsize="medium")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _limit(axes: Any, table: Table, column: str) -> None:
    """Leave out what lies far beyond the predictions without features: it is worse than useless."""
    free, prior = (_mean(table.select(method=method)[column])[0] for method in LIMITS)
    ends = sorted((free - 0.15 * (prior - free), prior + 0.15 * (prior - free)))
    axes.set_ylim(*ends)


def _run(task: Callable[[], RegressionTask], first: int = 0) -> Result:
    made = task()
    count = SPLITS if made.data.train < MANY else SPLITS_OF_MANY
    columns = measured(made, range(first, first + count), FEW_SPLITS, EPSILONS)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _experiment(name: str, title: str, task: Callable[[], RegressionTask]) -> Experiment:
    return Experiment(
        name=f"regression-{name}",
        title=f"{title}: held-out loss of private regressions against ε",
        run=partial(_run, task),
        size=(9.0, 4.4),
        second=lambda: _run(task, SPLITS),
    )


TUMOURS = _experiment("breast-cancer", "Breast cancer", tumours)
DIGITS_3_8 = _experiment("digits-3-8", "Digits 3 and 8", partial(digit_pair, 3, 8))
DIGITS_1_7 = _experiment("digits-1-7", "Digits 1 and 7", partial(digit_pair, 1, 7))
TEN_DIGITS = _experiment("ten-digits", "Ten digits", ten_digits)
DIABETES = _experiment("diabetes", "Diabetes", diabetes)
