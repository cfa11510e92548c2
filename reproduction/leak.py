"""Figure 1 of Papernot and Steinke (2022): a hyperparameter tuned without privacy reveals eight outliers.

Source: Papernot and Steinke 2022, section 2: a linear support vector machine in the plane minimises |w|^2 plus alpha
times the mean hinge loss, and alpha is chosen by accuracy on the training set, with and without eight outliers. The
source descends by stochastic steps that it does not state; here the minimum is exact, so that nothing but the data
decides.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

ALPHAS = np.geomspace(0.1, 100.0, 25)
MIDDLE = 8  # where alpha is 1
DATA_SETS = 160
CENTRES = {-1: (7.86, -3.36), 1: (6.42, -9.17)}
EACH, OUTLIERS, OUTLIER = 20, 8, (7.9, -8.0)
NAMES = ("without outliers", "with eight outliers")
Records = tuple[FloatArray, NDArray[np.int64]]


def records(rng: np.random.Generator) -> Records:
    """Twenty records of each class, (40, 2) and (40,), without outliers."""
    X = np.concatenate([rng.normal(centre, 1.0, (EACH, 2)) for centre in CENTRES.values()])
    return X, np.repeat(list(CENTRES), EACH)


def with_outliers(X: FloatArray, y: NDArray[np.int64]) -> Records:
    """The same records and eight of the negative class that lie near the other."""
    return np.concatenate([X, np.tile(OUTLIER, (OUTLIERS, 1))]), np.concatenate([y, np.full(OUTLIERS, -1)])


def accuracies(X: FloatArray, y: NDArray[np.int64]) -> FloatArray:
    """Training accuracy at each of ALPHAS."""
    from sklearn.svm import SVC

    machines = [SVC(kernel="linear", C=alpha / (2 * len(X))) for alpha in ALPHAS]
    return np.array([machine.fit(X, y).score(X, y) for machine in machines])


def tuned(accuracy: FloatArray) -> FloatArray:
    """The probability with which each of ALPHAS is chosen: the best ones alike, as ties are broken at random.

    accuracy: (..., alphas). Most data sets have many best ones, and a rule such as "the least of equals" would tell
    the data sets apart by itself.
    """
    best = accuracy == accuracy.max(axis=-1, keepdims=True)
    return np.asarray(best / best.sum(axis=-1, keepdims=True))


def right_guesses(without: FloatArray, with_them: FloatArray) -> FloatArray:
    """The probability of a right guess by each border among ALPHAS, for each data set, (data sets, alphas).

    The guess is "with outliers" where the tuned alpha lies above the border; both cases are equally likely. without,
    with_them: the probability of each alpha, (data sets, alphas).
    """
    below, above = np.cumsum(without, axis=1), 1.0 - np.cumsum(with_them, axis=1)
    return (below + above) / 2


def leak(data_sets: int | None = None, seed: int = 0) -> Result:
    """Accuracies without and with outliers in so many simulated data sets, and what the tuned alphas reveal.

    The border between the guesses is chosen on the first half of the data sets and tried on the others.
    """
    data_sets, rng = data_sets or DATA_SETS, np.random.default_rng(seed)
    simulated = [records(rng) for _ in range(data_sets)]
    found = [np.array([accuracies(*made(*one)) for one in simulated]) for made in (lambda *one: one, with_outliers)]
    parts = [
        {
            "records": name,
            "data_set": np.arange(data_sets)[:, None],
            "alpha": ALPHAS,
            "training_accuracy": curves,
            "probability_of_alpha": tuned(curves),
        }
        for name, curves in zip(NAMES, found, strict=True)
    ]
    return Result(columns=stacked(parts), describe=_describe, plot=lambda figure: _plot(figure, found))


def attack(columns: Columns) -> tuple[float, float, float]:
    """The border chosen on the first half, the share of right guesses on the second, and its standard error."""
    table = Table(columns=columns)
    chosen = [table.select(records=name)["probability_of_alpha"].reshape(-1, len(ALPHAS)) for name in NAMES]
    half = len(chosen[0]) // 2
    border = int(np.argmax(right_guesses(chosen[0][:half], chosen[1][:half]).mean(axis=0)))
    right = right_guesses(chosen[0][half:], chosen[1][half:])[:, border]
    return float(ALPHAS[border]), float(right.mean()), float(right.std(ddof=1) / len(right) ** 0.5)


def _describe(columns: Columns) -> Statement:
    border, right, error = attack(columns)
    table = Table(columns=columns)
    share = [table.select(records=name)["probability_of_alpha"] for name in NAMES]
    tied = [float(np.mean(one > 0)) for one in share]
    curves = [table.select(records=name)["training_accuracy"].reshape(-1, len(ALPHAS)).mean(axis=0) for name in NAMES]
    tested = len(share[0]) // len(ALPHAS) - len(share[0]) // len(ALPHAS) // 2
    leaks = compared("right guesses - chance", right - 0.5, error)
    verdict = (
        "more often than chance, so the tuned α leaks, as the paper says"
        if leaks.compared
        else "which is not distinguishable from chance"
    )
    sentence = (
        f"An attacker who sees only the tuned α, and guesses that the outliers are present if α > {border:.2g}, is "
        f"right in {right:.0%} ± {2 * error:.0%} of the cases (two standard errors, {tested} data sets with and "
        f"without the outliers; chance: 50%): {verdict}. Ties are broken at random: without "
        f"outliers {tied[0]:.0%} of the values of α attain the best training accuracy, with outliers {tied[1]:.0%}. "
        "Two details differ from the paper, whose stochastic gradient steps are not stated; we compute the exact "
        f"minimum. Without outliers the mean accuracy stays between {curves[0].min():.3f} and {curves[0].max():.3f} "
        f"(in the paper it falls as α grows); with outliers it is {curves[1][MIDDLE]:.2f} at α = {ALPHAS[MIDDLE]:g} "
        f"and {curves[1][-1]:.2f} at α = {ALPHAS[-1]:g} (in the paper it is highest near 8)."
    )
    return Statement(sentence, (leaks, *_findings(table)))


def _findings(table: Table) -> list[Finding]:
    """Ties and mean accuracies that the sentence states, with the standard errors over the data sets."""
    found = []
    for name in NAMES:
        rows = table.select(records=name)
        shares, curves = (
            rows[column].reshape(-1, len(ALPHAS)) for column in ("probability_of_alpha", "training_accuracy")
        )
        stated = {"ties": (shares > 0).mean(axis=1)}
        stated |= {f"accuracy at {ALPHAS[k]:g}": curves[:, k] for k in (0, MIDDLE, len(ALPHAS) - 1)}
        for words, each in stated.items():
            error = float(each.std(ddof=1) / len(each) ** 0.5)
            found.append(Finding(f"{words}, {name}", float(each.mean()), error))
    return found


def _plot(figure: Any, found: list[FloatArray]) -> None:
    """Plot mean accuracy with the central 80 % of data sets, the distribution of the tuned alpha, correct guesses."""
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
    chosen = [tuned(curves) for curves in found]
    for name, curves, shares, colour, style in zip(NAMES, found, chosen, (BLUE, ORANGE), ("-", "--"), strict=True):
        top.semilogx(ALPHAS, curves.mean(axis=0), color=colour, label=name, linestyle=style)
        top.fill_between(ALPHAS, *np.quantile(curves, (0.1, 0.9), axis=0), color=colour, alpha=0.15, linewidth=0)
        middle.plot(ALPHAS, shares.mean(axis=0), color=colour, marker="o", markersize=3, linestyle=style)
    right = right_guesses(*chosen)
    mean, error = right.mean(axis=0), right.std(axis=0, ddof=1) / len(right) ** 0.5
    bottom.plot(ALPHAS, mean, color=GREEN)
    bottom.fill_between(ALPHAS, mean - 2 * error, mean + 2 * error, color=GREEN, alpha=0.2, linewidth=0)
    bottom.axhline(0.5, color=GREY, linestyle=":", label="chance")
    top.set(ylabel="training accuracy:\nmean, central 80 %", title="Training accuracy by hinge weight α")
    middle.set(ylabel="probability", title="Distribution of the tuned α, ties broken at random", ylim=(0, None))
    bottom.set(
        ylabel="correct guesses",
        xlabel="hinge weight α, or threshold of the guess",
        title="Share of correct guesses, ± 2 standard errors",
        ylim=(0.4, 1.0),
    )
    top.legend(loc="lower right")
    bottom.legend(loc="upper right")
    bottom.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])


FIGURE_1 = Experiment(
    name="papernot-1",
    title="Papernot and Steinke, Figure 1: a tuned hyperparameter reveals whether outliers were in the data",
    run=leak,
    size=(4.8, 6.6),
    second=lambda: leak(seed=1),
)
