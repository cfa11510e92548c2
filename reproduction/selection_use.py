"""Figures 5, 6 and 7 of Papernot and Steinke (2022): utility of the best run against its privacy cost."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.simulations.report.findings import Columns, Finding, Statement, compared, join_names
from privsample.simulations.report.results import Result
from reproduction import selection_data as data
from reproduction.base import Experiment
from reproduction.selection_plots import SIZE, result
from reproduction.tables import Table

_LEADS = tuple(range(3, 9))  # the epsilons at which the leaders of a sentence are tested at a second grid
_LEAD = 1e-3  # a smaller lead is not: the curves are interpolated
_GRID = np.linspace(2.5, 8.0, 5501)  # the epsilons at which sentences compare
RUNS = 500  # of the training on digits
_AXES: dict[str, Any] = {"xlabel": "ε at δ = 10⁻⁶ (nats)", "xlim": (1.5, 8)}
_RANGE = "(1.5 to 1000 runs on average)"
_BY = {
    "published": "by the paper's bounds for any 0.1-zCDP run",
    "library": "by the account of privsample for Gaussian noise",
}


def _worth(table: Table, bound: str, y: str) -> dict[str, FloatArray]:
    """What each distribution is worth on _GRID by one bound, by label; -inf where its least cost is higher."""
    found = {}
    for (label,), curve in table.select(bound=bound).groups("curve"):
        values = data.at_budgets(curve["epsilon"], curve[y], _GRID)
        found[label] = np.where(np.isnan(values), -np.inf, values)
    return found


def _leaders(table: Table, bound: str, y: str) -> str:
    """Which distribution is worth most in which range of epsilon, from the first that any of them costs."""
    worth = _worth(table, bound, y)
    labels, values = list(worth), np.array(list(worth.values()))
    reached = np.isfinite(values).any(axis=0)
    grid, first = _GRID[reached], values[:, reached].argmax(axis=0)
    ends = np.append(np.flatnonzero(np.diff(first)), len(grid) - 1)
    starts = np.append(0, ends[:-1] + 1)
    return join_names(
        [f"{labels[first[s]]} from ε = {grid[s]:.1f} to {grid[e]:.1f}" for s, e in zip(starts, ends, strict=True)]
    )


def _crossing(table: Table, bound: str, y: str) -> str:
    """From where on η = ½ is worth more than Poisson."""
    worth = _worth(table, bound, y)
    behind = np.flatnonzero(worth[data.HALF] <= worth["Poisson"])
    if not len(behind):
        return f"at every ε from {_GRID[0]:g} to {_GRID[-1]:g}"
    return f"from ε = {_GRID[behind[-1] + 1]:.1f} on" if behind[-1] + 1 < len(_GRID) else "nowhere"


def _leads(table: Table, y: str) -> list[Finding]:
    """By how much the best distribution is ahead of the next, by each bound, where that is not close."""
    findings = []
    for bound in _BY:
        worth = _worth(table, bound, y)
        for epsilon in _LEADS:
            at = {label: float(np.interp(epsilon, _GRID, values)) for label, values in worth.items()}
            next_label, label = sorted(at, key=at.__getitem__)[-2:]
            lead = at[label] - at[next_label]
            if _LEAD < lead < np.inf:
                findings.append(compared(f"{bound}: lead of {label} at ε = {epsilon}", lead))
    return findings


def _describe_figure_5(columns: Columns) -> Statement:
    table, y = Table(columns=columns), "expected_quantile"
    heavy = table.select(curve="η = −½")[y].max()
    sentence = (
        f"The distribution of the number of runs with the largest expected quantile is, {_BY['published']}, "
        f"{_leaders(table, 'published', y)}; {_BY['library']}, {_leaders(table, 'library', y)}. The paper "
        "says that η = ½ needs at least ε = 4 to be better than Poisson: it is better "
        f"{_crossing(table, 'published', y)} "
        f"by the paper's bounds, and {_crossing(table, 'library', y)} by the account of privsample. The paper calls "
        "η = −½ very "
        f"poor: with up to {data.MEANS[-1]:g} runs on average its expected quantile never exceeds {heavy:.3f}."
    )
    return Statement(sentence, (Finding("most of η = −½", float(heavy)), *_leads(table, y)))


def _figure_5(means: FloatArray | None = None) -> Result:
    return result(
        data.figure_5(data.costs(data.MEANS if means is None else means)),
        _describe_figure_5,
        names=("epsilon", "expected_quantile"),
        title=f"Expected quantile of the released run\n{_RANGE}",
        ylabel="expected quantile",
        ylim=(0.5, 1),
        **_AXES,
    )


def _describe_figure_6(columns: Columns) -> Statement:
    table, y = Table(columns=columns), "success_probability"
    last = {label: float(curve[y][-1]) for (label,), curve in table.select(bound="library").groups("curve")}
    agrees = list(last.values()) == sorted(last.values())  # the families stand by their tails, Poisson last
    sentence = (
        f"One run in a hundred is good. With {data.MEANS[-1]:g} runs on average the released run is good with "
        f"probability {join_names([f'{chance:.3f} for {label}' for label, chance in last.items()])}; the paper "
        f"says that smaller η do worse here and Poisson does best, and these "
        f"values {'agree' if agrees else 'do not agree'}. At equal ε the order differs: the probability is "
        f"highest, {_BY['published']}, for {_leaders(table, 'published', y)}; {_BY['library']}, it is highest for "
        f"{_leaders(table, 'library', y)}."
    )
    findings = [Finding(f"{label} at the end", chance) for label, chance in last.items()]
    if agrees:
        findings.append(compared("smallest step to the next distribution", float(np.diff([*last.values()]).min())))
    return Statement(sentence, (*findings, *_leads(table, y)))


def _figure_6(means: FloatArray | None = None) -> Result:
    return result(
        data.figure_6(data.costs(data.MEANS if means is None else means)),
        _describe_figure_6,
        names=("epsilon", "success_probability"),
        title=f"Probability that the released run is good,\none run in a hundred being good\n{_RANGE}",
        ylabel="probability",
        ylim=(0, 1),
        **_AXES,
    )


def ahead(columns: Columns, bound: str) -> dict[str, list[float]]:
    """By label: the epsilons at which it is ahead of every other distribution by two standard errors or more.

    Under "": those at which none is.
    """
    found: dict[str, list[float]] = {}
    for (epsilon,), rows in Table(columns=columns).select(bound=bound).groups("epsilon"):
        behind, error = rows["behind"], rows["standard_error_behind"]
        known = ~np.isnan(behind)
        if not known.any():
            continue
        best = int(np.flatnonzero(known & (behind == 0.0))[0])
        others = known & (np.arange(len(behind)) != best)
        clear = bool((behind[others] >= 2 * error[others]).all())
        found.setdefault(str(rows["curve"][best]) if clear else "", []).append(float(epsilon))
    return found


def _ahead(columns: Columns, bound: str) -> str:
    """Describe the result of `ahead` in a sentence."""
    found = ahead(columns, bound)
    steps = float(data.BUDGETS[1] - data.BUDGETS[0])

    def spans(epsilons: list[float]) -> str:
        runs = np.split(epsilons, np.flatnonzero(np.diff(epsilons) > 1.5 * steps) + 1)
        return join_names([f"{run[0]:g}" if len(run) == 1 else f"{run[0]:g} to {run[-1]:g}" for run in runs])

    parts = [f"{label} at ε = {spans(epsilons)}" for label, epsilons in found.items() if label]
    if "" in found:
        parts.append(f"none clearly at ε = {spans(found[''])}")
    return join_names(parts)


def _behind(table: Table) -> list[Finding]:
    """By how much each distribution is behind the best at each epsilon, by both bounds."""
    return [
        Finding(
            f"{bound}: {label} behind at ε = {epsilon:g}",
            float(rows["behind"][0]),
            float(rows["standard_error_behind"][0]),
        )
        for (bound, label, epsilon), rows in table.groups("bound", "curve", "epsilon")
        if not np.isnan(rows["behind"][0])
    ]


def _describe_figure_7(columns: Columns) -> Statement:
    most = np.nanmax(Table(columns=columns)["standard_error"])
    sentence = (
        "The paper finds Poisson best for a neural network on MNIST. We use softmax regression on scikit-learn's "
        f"digits instead. Best mean accuracy by at least two standard errors of the difference, {_BY['published']}: "
        f"{_ahead(columns, 'published')}; {_BY['library']}: {_ahead(columns, 'library')}. Standard errors of "
        f"the means are at most {most:.4f}; they come from resampling the training runs on one split of the data."
    )
    return Statement(sentence, tuple(_behind(Table(columns=columns))))


def _figure_7(means: FloatArray | None = None, seed: int = 20220407) -> Result:
    return result(
        data.figure_7(data.costs(data.MEANS if means is None else means), digits(seed=seed)),
        _describe_figure_7,
        names=("epsilon", "mean_accuracy"),
        title="Accuracy of the released run, ± 2 standard errors\n(digits, in place of the network on MNIST)",
        ylabel="mean accuracy on public test digits",
        **_AXES,
    )


def digits(runs: int | None = None, steps: int = 20, seed: int = 20220407) -> FloatArray:
    """Test accuracies of 0.1-zCDP runs on scikit-learn's digits, each with its own random learning rate; (runs,).

    Softmax regression by full-batch gradient descent, each record's gradient clipped to norm one, Gaussian noise of
    deviation sqrt(steps/(2 rho)) on their sum. Half the digits train, the other half are taken for public. Seeded:
    this is a simulation, not a release.
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    images, labels = load_digits(return_X_y=True)
    shuffled = rng.permutation(len(labels))
    x = np.append(images / 16.0, np.ones((len(labels), 1)), axis=1)[shuffled]
    targets = np.eye(10)[labels[shuffled]]
    half = len(x) // 2
    noise = (steps / (2 * data.RHO)) ** 0.5
    length = np.sqrt((x[:half] ** 2).sum(axis=1, keepdims=True))
    found = []
    for rate in 10.0 ** rng.uniform(-4.0, 0.0, runs or RUNS):
        weights = np.zeros((x.shape[1], 10))
        for _ in range(steps):
            scores = np.exp(x[:half] @ weights - (x[:half] @ weights).max(axis=1, keepdims=True))
            residual = scores / scores.sum(axis=1, keepdims=True) - targets[:half]
            norm = length * np.sqrt((residual**2).sum(axis=1, keepdims=True))
            total = x[:half].T @ (residual / np.maximum(norm, 1.0))
            weights -= rate * (total + noise * rng.standard_normal(total.shape))
        hits = (x[half:] @ weights).argmax(axis=1) == targets[half:].argmax(axis=1)
        found.append(float(hits.mean()))
    return np.array(found)


FIGURE_5 = Experiment(
    name="papernot-5",
    title="Papernot and Steinke, Figure 5: expected quantile at equal ε",
    seconds=27,
    run=_figure_5,
    size=SIZE,
    second=lambda: _figure_5(data.SECOND_MEANS),
)
FIGURE_6 = Experiment(
    name="papernot-6",
    title="Papernot and Steinke, Figure 6: probability of a good run at equal ε",
    run=_figure_6,
    size=SIZE,
    second=lambda: _figure_6(data.SECOND_MEANS),
)
FIGURE_7 = Experiment(
    name="papernot-7",
    title="Papernot and Steinke, Figure 7: accuracy of the released run at equal ε",
    run=_figure_7,
    size=SIZE,
    second=lambda: _figure_7(seed=20220408),
)
