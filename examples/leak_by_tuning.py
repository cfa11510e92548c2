"""A hyperparameter tuned without privacy tells whether eight records were in the data.

Papernot and Steinke 2022, section 2 and Figure 1: a linear support vector machine in the plane minimises |w|^2 plus
alpha times the mean hinge loss, and alpha is chosen by accuracy on the training set, with and without eight outliers.
The source descends by stochastic steps that it does not state; here the minimum is exact, so that nothing but the data
decides. Run:

    python examples/leak_by_tuning.py leak.png
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.svm import SVC

ALPHAS = np.geomspace(0.1, 100.0, 25)
CENTRES = {-1: (7.86, -3.36), 1: (6.42, -9.17)}
EACH, OUTLIERS, OUTLIER = 20, 8, (7.9, -8.0)
BORDER = 0.2


def records(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Twenty records of each class, without outliers."""
    X = np.concatenate([rng.normal(centre, 1.0, (EACH, 2)) for centre in CENTRES.values()])
    return X, np.repeat(list(CENTRES), EACH)


def with_outliers(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same records and eight of the negative class that lie near the other."""
    return np.concatenate([X, np.tile(OUTLIER, (OUTLIERS, 1))]), np.concatenate([y, np.full(OUTLIERS, -1)])


def accuracies(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Training accuracy at each of ALPHAS."""
    machines = [SVC(kernel="linear", C=alpha / (2 * len(X))) for alpha in ALPHAS]
    return np.array([machine.fit(X, y).score(X, y) for machine in machines])


def tuned(accuracy: np.ndarray) -> float:
    """The best alpha, the least of equals."""
    return float(ALPHAS[np.argmax(accuracy)])


def experiment(data_sets: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies without and with outliers, each of shape (data_sets, alphas)."""
    drawn = [records(rng) for _ in range(data_sets)]
    return np.array([accuracies(*one) for one in drawn]), np.array([accuracies(*with_outliers(*one)) for one in drawn])


def right_guesses(without: np.ndarray, outliers: np.ndarray) -> int:
    """How often a tuned alpha lies on its side of BORDER, of two guesses for each data set."""
    return sum(tuned(one) <= BORDER for one in without) + sum(tuned(one) > BORDER for one in outliers)


def draw(without: np.ndarray, outliers: np.ndarray, path: Path) -> None:
    """Mean accuracy by alpha, and where the tuned alphas lie."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(6, 5), height_ratios=(3, 1), layout="constrained")
    for row, (name, found, colour) in enumerate(
        (("without outliers", without, "#1b6ca8"), ("with eight outliers", outliers, "#c8553d"))
    ):
        top.semilogx(ALPHAS, found.mean(axis=0), color=colour, label=name)
        chosen = np.array([tuned(one) for one in found])
        shift = np.linspace(-0.3, 0.3, len(chosen))
        bottom.plot(chosen, row + shift, ".", color=colour, alpha=0.5)
    top.set_ylabel("training accuracy")
    top.legend(frameon=False)
    bottom.set(yticks=[0, 1], yticklabels=["without", "with"], ylim=(-0.6, 1.6), ylabel="tuned alpha", xlabel="alpha")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(path: str = "leak.png", data_sets: int = 40) -> str:
    """Draw the picture. Returns: what it shows, in one sentence."""
    without, outliers = experiment(data_sets, np.random.default_rng(0))
    draw(without, outliers, Path(path))
    return (
        f"From the tuned alpha alone, {right_guesses(without, outliers)} of {2 * data_sets} guesses whether the eight "
        f"outliers were in the data are right: tuning without privacy gives them away ({path})."
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
