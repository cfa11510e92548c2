"""Thesis Figure 4.6 on other records: how well private chains of a year of flights describe days left out.

Source: Geumlek 2020, section 4.5: ten states, a tenth of the steps left out; naive Bayes is one state over one step.
Ten splits as in the thesis, with fewer sweeps.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.simulations.experiments import gibbs_plots
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.flights import DAYS, PACKAGE, flights
from privsample.simulations.experiments.gibbs import CATEGORIES

EPSILONS = [0.1, 0.3, 1.0, 3.0, 10.0]
SPLITS = 10
STATES = 10
TRUNCATIONS = {"tempered": 0.1, "tempered_100": 0.01}  # the thesis's a0 = 1/(M K), M = 10 and 100
SWEEPS = {"noisy": 60, "tempered": 10, "plain": 60}


def _run() -> Result:
    panels: dict[str, dict[str, list[float]]] = {}
    for title, states in (("naive Bayes", 1), (f"HMM, {STATES} states", STATES)):
        plain = _scores(states, "plain", 1.0)
        curves: dict[str, list[float]] = {"plain": [float(plain.mean())] * len(EPSILONS)}
        for name in ("noisy", *TRUNCATIONS):
            found = np.array([_scores(states, name, epsilon) for epsilon in EPSILONS])
            curves[name] = found.mean(axis=1).tolist()
            # Of the loss beside the chain without privacy, split by split: days differ more than ways do.
            curves[f"{name}_standard_error"] = ((found - plain).std(axis=1) / max(SPLITS - 1, 1) ** 0.5).tolist()
        panels[title] = curves
    bayes, chain = panels.values()
    ahead = [np.array(each["noisy"]) - each["tempered"] for each in (bayes, chain)]
    better = sum(int((gap > 0).sum()) for gap in ahead)
    return Result(
        columns=stacked([{"model": title, "epsilon": np.array(EPSILONS)} | curves for title, curves in panels.items()]),
        sentence=f"On days left out the chain of {STATES} states gives a flight {chain['plain'][0]:.3f} nats without "
        f"privacy, {chain['noisy'][-1]:.3f} and {chain['noisy'][0]:.3f} from noisy histograms at ε = {EPSILONS[-1]:g} "
        f"and {EPSILONS[0]:g}, {chain['tempered'][-1]:.3f} and {chain['tempered'][0]:.3f} from {SWEEPS['tempered']} "
        f"tempered sweeps, M = 10; naive Bayes {bayes['plain'][0]:.3f} and, from noisy counts, "
        f"{bayes['noisy'][0]:.3f} at ε = {EPSILONS[0]:g}; means of {SPLITS} splits. Noisy histograms do better than "
        f"sweeps at {better} of {2 * len(EPSILONS)} points, for the chain by {ahead[1][0]:.3f} at the smallest ε and "
        f"{ahead[1][-1]:.3f} at the largest; the thesis says: for naive Bayes, and where data are many, above all in "
        "high privacy.",
        plot=lambda figure: gibbs_plots.likelihoods(figure, EPSILONS, panels),
    )


def _scores(states: int, way: str, epsilon: float) -> FloatArray:
    """By split, (splits,)."""
    return np.array([_score(states, way, epsilon, split) for split in range(SPLITS)])


def _score(states: int, way: str, epsilon: float, split: int) -> float:
    """Log likelihood of a flight on the days left out, in nats."""
    year, rng = flights(), np.random.default_rng([states, split, round(1000 * epsilon), len(way)])
    out = np.zeros(DAYS, dtype=bool)
    out[np.random.default_rng(split).choice(DAYS, size=DAYS // 10, replace=False)] = True
    kept = ~out[year.day]
    entries = np.where(out, 0, year.entries) if states > 1 else np.array([kept.sum()])
    made = _mechanism(states, tuple(entries.tolist()), way, epsilon)
    tested = _tested(made, year.codes, year.day, out)
    if way == "plain":
        histograms = made.histograms(year.codes[kept])
        chain = made.model.sample(histograms, SWEEPS[way], SWEEPS[way] // 2, rng)
        found = made.model.log_predictive(chain, tested)
    else:
        found = made.log_predictive(made.release(year.codes[kept], rng=rng), tested)
    return float(found.sum()) / int(out[year.day].sum())


def _mechanism(states: int, entries: tuple[int, ...], way: str, epsilon: float) -> PrivateGibbsHMM:
    """Every sweep of the tempered way is released, and the later half of them used; naive Bayes needs one sweep."""
    sweeps = SWEEPS["tempered" if way in TRUNCATIONS else way] if states > 1 else 1
    by: Literal["scale", "temperature"] = "temperature" if way in TRUNCATIONS else "scale"
    shared: dict[str, Any] = {"sweeps": sweeps, "kept": max(sweeps // 2, 1), "target": DP(epsilon=epsilon)}
    shared |= {"truncation": TRUNCATIONS[way]} if way in TRUNCATIONS else {}
    return PrivateGibbsHMM.calibrate(states=states, categories=CATEGORIES, entries=entries, by=by, **shared)


def _tested(
    made: PrivateGibbsHMM, codes: NDArray[np.int64], day: NDArray[np.int64], out: NDArray[np.bool_]
) -> FloatArray:
    """Histograms of the days left out: in their places, or all in the one step of naive Bayes."""
    chosen = out[day]
    steps = day[chosen] if len(made.entries) > 1 else np.zeros(int(chosen.sum()), dtype=np.int64)
    return made.model.histograms(steps, codes[chosen], len(made.entries))


LIKELIHOOD = Experiment(
    name="t-4.6",
    title="Like thesis Figure 4.6: held-out likelihood against epsilon",
    run=_run,
    size=(7.2, 3.4),
    package=PACKAGE,
)
