"""Private gradient descent: time for a million records, brute force, and accuracy compared with other learners.

diffprivlib 0.6.6 is not compatible with the scikit-learn of this environment and runs in its own, created in
build/, and reads the same splits from files; on the large data only a few of them, so that all ends within minutes.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from scipy import special

import privsample as ps
from benchmarks.environments import DIFFPRIVLIB, interpreter
from benchmarks.measure import Row, seconds
from privsample.distributions.rows import within_norm
from reproduction import sgd
from reproduction.base import Experiment
from reproduction.sgd_data import Task, breast_cancer, late_arrivals

PEER = "diffprivlib (δ = 0)"
SCRIPT = """
import sys, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
names = ("rows", "labels", "test", "truth", "norm", "epsilons")
for path in sys.argv[1:]:
    with np.load(path) as given:
        rows, labels, test, truth, norm, epsilons = (given[name] for name in names)
    found = []
    for epsilon in epsilons:
        model = LogisticRegression(epsilon=float(epsilon), data_norm=float(norm), max_iter=100)
        found.append(float((model.fit(rows, labels).predict(test) == truth).mean()))
    print(*found)
"""
PEER_SPLITS = {"breast cancer": sgd.SPLITS, "late arrivals": 4}
PEER_EPSILONS = {"breast cancer": sgd.EPSILONS, "late arrivals": (4.0,)}
CASES = 10_000


def rows() -> Iterator[Row]:
    """A million records of a hundred features, random cases, then accuracies; the figure is written to build/."""
    yield _speed()
    yield _cases(np.random.default_rng(1))
    tasks = {}
    for task in (breast_cancer(), late_arrivals()):
        tasks[task.name] = scores = dict(sgd.measured(task, sgd.SPLITS, sgd.EPSILONS))
        scores[PEER] = peer(task, PEER_EPSILONS[task.name], PEER_SPLITS[task.name])
        free = scores[sgd.FREE].mean()
        at = sgd.EPSILONS.index(4.0)
        for name, values in scores.items():
            if not np.isfinite(values[at]).all():  # posterior draws that cannot be exact
                continue
            low, high = np.quantile(values[at], (0.1, 0.9))
            yield Row(
                name=f"{task.name}, {values.shape[1]} splits, epsilon 4: {name}",
                library=f"{values[at].mean():.2%} ({low:.1%}-{high:.1%})",
                peer=f"{free:.2%} not private",
                ratio=values[at].mean() / free,
                target="within 2 points" if name in (sgd.SEVERAL, sgd.ONE) and task.train >= 1e5 else "none set",
            )
    made = Experiment(name="sgd-peers", title="", run=lambda: sgd.result(tasks, sgd.EPSILONS), size=(8.8, 4.4))
    made.write(Path("build"))


def _speed() -> Row:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((1_000_000, 100)), rng.integers(0, 2, 1_000_000)
    loss = ps.LogisticLoss(features=100, norm=1.0, radius=10.0, penalty=1e-3)
    mechanism = ps.NoisyProjectedSGD(loss=loss, n=len(x), rate=1.0, noise_std=1.0)
    took = seconds(lambda: mechanism.release((x, y), rng=rng))
    return Row(
        name="1e6 records x 100 features, one step each",
        library=f"{took:.3g} s",
        peer="60 s allowed",
        ratio=took / 60.0,
        target="at most 1",
    )


def _cases(rng: np.random.Generator) -> Row:
    """The exact last state, in bins, of two or three records in a hidden order with gradients of one sign, unprojected.

    Bins only lessen a divergence. The rest of the records is random; the replaced one has the steepest gradients.
    """
    bound, exact = np.empty((CASES, 3)), np.empty((CASES, 3))
    epsilons, edges = np.array([0.0, 0.3, 1.0]), np.concatenate([[-np.inf], np.linspace(-6, 6, 241), [np.inf]])
    for case in range(CASES):
        n, rate, noise, penalty = int(rng.integers(2, 4)), rng.uniform(0.2, 1.2), rng.uniform(0.4, 2.0), rng.uniform()
        loss = ps.LogisticLoss(features=1, norm=1.0, radius=1e9, penalty=penalty, intercept=False)
        account = ps.SGDAccountant(loss=loss, n=n, rate=rate, noise_std=noise)
        factors = account.contraction ** np.arange(n)[::-1]  # linear maps of the same constant
        deviation, rest = rate * noise * np.sqrt((factors**2).sum()), rng.uniform(-1, 1, n - 1)
        distributions = []
        for own in (1.0, -1.0):
            orders = np.array(list(permutations((own, *rest)))) @ factors * rate
            at = (edges * deviation - orders[:, None]) / deviation
            distributions.append(np.diff(special.ndtr(at), axis=1).mean(axis=0))
        exact[case] = np.maximum(distributions[0] - np.exp(epsilons)[:, None] * distributions[1], 0.0).sum(axis=1)
        bound[case] = account.delta(epsilons)
    below = int((bound < exact * (1 - 1e-11) - 1e-15).sum())
    words = f"{below} below, least ratio {(bound / np.maximum(exact, 1e-12)).min():.5f}"
    return Row(
        name=f"hidden order, delta, {CASES} cases",
        library=f"{words}, mean slack {(bound - exact).mean():.3g}",
        peer="",
        ratio=None,
        target="0 below",
    )


def peer(task: Task, epsilons: Sequence[float], splits: int) -> np.ndarray:
    """diffprivlib's logistic regression on the same splits, (epsilons of the experiment, splits), NaN where not run."""
    python = interpreter(*DIFFPRIVLIB)
    scores = np.full((len(sgd.EPSILONS), splits), np.nan)
    at = [sgd.EPSILONS.index(epsilon) for epsilon in epsilons]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k}.npz" for k in range(splits)]
        for path, (train, labels, test, truth) in zip(paths, task.splits(splits), strict=True):
            cut = within_norm(train, task.norm)
            np.savez(path, rows=cut, labels=labels, test=test, truth=truth, norm=task.norm, epsilons=epsilons)
        done = subprocess.run([python, "-c", SCRIPT, *paths], capture_output=True, text=True, check=True)
    for k, line in enumerate(done.stdout.splitlines()):
        scores[at, k] = [float(word) for word in line.split()]
    return scores
