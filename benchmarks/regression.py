"""Private regressions: held-out loss and accuracy compared with diffprivlib's, and accounts with the ideal posterior's.

diffprivlib 0.6.6 runs in an environment of its own, as in `benchmarks.sgd`, and reads the same splits from files.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import privsample as ps
from benchmarks.environments import DIFFPRIVLIB, interpreter
from benchmarks.measure import Row
from privsample.distributions.rows import within_norm
from reproduction import regression, regression_learners
from reproduction.regression_tasks import RegressionTask, cultivars, diabetes, digit_pair, species, ten_digits, tumours
from reproduction.tables import Table

PEER = "diffprivlib (δ = 0)"
STRENGTHS = (1.0, 10.0, 100.0)  # of its inverse penalty C, whose default is 1; the best in hindsight is shown
SCRIPT = """
import sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
warnings.simplefilter("ignore")
names = ("rows", "targets", "test", "norm", "epsilon", "classes", "strength")
for path in sys.argv[1:]:
    with np.load(path) as given:
        rows, targets, test, norm, epsilon, classes, strength = (given[name] for name in names)
    if classes:
        model = LogisticRegression(epsilon=float(epsilon), data_norm=float(norm), C=float(strength), max_iter=200)
        found = model.fit(rows, targets).predict_proba(test)
    else:
        model = LinearRegression(epsilon=float(epsilon), bounds_X=(-1, 1), bounds_y=(-1, 1))
        found = model.fit(rows, targets).predict(test)
    np.save(path + ".npy", found)
"""
TASKS = (tumours, lambda: digit_pair(3, 8), lambda: digit_pair(1, 7), ten_digits, diabetes, cultivars, species)


def rows() -> Iterator[Row]:
    """Accounts at two dimensions, then losses and scores of all methods on all data sets."""
    for features in (20, 50):
        yield _account(features)
    for made in TASKS:
        yield from _compared(made())


def _account(features: int) -> Row:
    """The account of a chain at the data weight with which the ideal posterior costs epsilon = 1."""
    norm, n, target = (features / 3.0) ** 0.5, 10_000, ps.DP(epsilon=1.0, delta=1e-5)
    prior = {"features": features, "norm": norm, "prior_std": 1.5 / norm, "intercept_std": 0.5}
    ideal = ps.LogisticPosterior.calibrate(n=n, **prior, sampler="nuts", by="data_weight", target=target)
    chain = ps.LangevinPosterior(
        likelihood=ps.LogisticLikelihood(), relation=ps.ReplaceOne(n), data_weight=ideal.data_weight, **prior
    )
    own, other = (float(made.accountant.epsilon(1e-5)) for made in (chain, ideal))
    assumed = ps.Assumption.CONVERGED_CHAIN in chain.accountant.assumptions
    return Row(
        name=f"epsilon, n = 1e4, d = {features}, {chain.accountant.steps} Langevin steps",
        library=f"{own:.8f}{', assumed' if assumed else ''}",
        peer=f"{other:.8f} ideal draw",
        ratio=own / other,
        target="at most 1, not assumed",
    )


def _compared(task: RegressionTask) -> Iterator[Row]:
    """One row for each method and epsilon; ratios are those of losses to one Langevin draw's."""
    splits = regression.SPLITS if task.data.train < regression.MANY else regression.SPLITS_OF_MANY
    table = Table(columns=regression.measured(task, range(splits), regression.FEW_SPLITS, regression.EPSILONS))
    for epsilon in regression.EPSILONS:
        losses = {method: _taken(table, method, epsilon) for method in regression.methods(table)}
        losses[PEER] = peer(task, epsilon, splits)
        best = min(float(loss.mean()) for method, (loss, _) in losses.items() if len(loss) == splits)
        for method, (loss, score) in losses.items():
            if len(loss):
                yield Row(
                    name=f"{task.data.name}, epsilon {epsilon:g}: {method}",
                    library=f"loss {loss.mean():.3f} ± {_error(loss):.3f}",
                    peer=f"score {score.mean():.3f} ± {_error(score):.3f}",
                    ratio=float(loss.mean()) / best,
                    target=f"{len(loss)} splits; ratio to the least loss",
                )
    for method in regression.LIMITS:
        loss, score = (table.select(method=method)[name] for name in ("loss", "score"))
        name = f"{task.data.name}: {method}"
        yield Row(name=name, library=f"loss {loss.mean():.3f}", peer=f"score {score.mean():.3f}", ratio=None, target="")


def _taken(table: Table, method: str, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    chosen = table.select(method=method, epsilon=epsilon)
    return chosen["loss"], chosen["score"]


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def peer(task: RegressionTask, epsilon: float, splits: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses and scores of diffprivlib on the same splits, those of its best penalty in hindsight, each (splits,)."""
    found = []
    for strength in STRENGTHS if task.classes else STRENGTHS[:1]:
        measured = [
            regression_learners.losses_and_scores(task, predicted, truth)
            for predicted, truth in _predictions(task, epsilon, splits, strength)
        ]
        found.append(np.array(measured).T)
    return min((one[0] for one in found), key=np.mean), max((one[1] for one in found), key=np.mean)


def _predictions(task: RegressionTask, epsilon: float, splits: int, strength: float) -> Iterator[tuple[Any, Any]]:
    """Predictions of one fit for each split, shape (1, ...), with the test targets."""
    parts = list(task.data.splits(splits))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k}.npz" for k in range(splits)]
        for path, (train, targets, test, _) in zip(paths, parts, strict=True):
            cut = within_norm(train, task.data.norm) if task.classes else train
            known = {"norm": task.data.norm * (1 + 1e-9), "epsilon": epsilon, "classes": task.classes}
            np.savez(path, rows=cut, targets=targets, test=test, strength=strength, **known)
        subprocess.run([interpreter(*DIFFPRIVLIB), "-c", SCRIPT, *paths], capture_output=True, text=True, check=True)
        for path, (*_, truth) in zip(paths, parts, strict=True):
            predicted = np.load(f"{path}.npy")
            yield (predicted[:, 1] if task.classes == 2 else predicted)[None], truth
