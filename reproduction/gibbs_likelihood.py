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
from privsample.simulations.report.findings import CLEAR, Columns, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction import gibbs_plots
from reproduction.base import Experiment
from reproduction.flights import DAYS, PACKAGE, flights
from reproduction.gibbs import CATEGORIES
from reproduction.tables import Table

EPSILONS = [0.1, 0.3, 1.0, 3.0, 10.0]
SPLITS = 10
STATES = 10
TRUNCATIONS = {"tempered": 0.1, "tempered_100": 0.01}  # the thesis's a0 = 1/(M K), M = 10 and 100
SWEEPS = {"noisy": 60, "tempered": 10, "plain": 60}


def _run(first_split: int = 0) -> Result:
    panels: dict[str, dict[str, Any]] = {}
    for title, states in (("naive Bayes", 1), (f"hidden Markov chain, {STATES} states", STATES)):
        plain = _scores(states, "plain", 1.0, first_split)
        found = {
            name: np.array([_scores(states, name, epsilon, first_split) for epsilon in EPSILONS])
            for name in ("noisy", *TRUNCATIONS)
        }
        curves: dict[str, Any] = {"states": states, "plain": np.full(len(EPSILONS), plain.mean())}
        for name, scores in found.items():
            curves[name] = scores.mean(axis=1)
            # Of the difference to the chain without privacy, split by split: days differ more than ways do.
            curves[f"{name}_standard_error"] = _standard_error(scores - plain)
        for name in TRUNCATIONS:
            curves[f"noisy_minus_{name}"] = (found["noisy"] - found[name]).mean(axis=1)
            curves[f"noisy_minus_{name}_standard_error"] = _standard_error(found["noisy"] - found[name])
        panels[title] = curves
    return Result(
        columns=stacked([{"model": title, "epsilon": np.array(EPSILONS)} | curves for title, curves in panels.items()]),
        describe=_describe,
        plot=lambda figure: gibbs_plots.likelihoods(figure, EPSILONS, panels),
    )


def _standard_error(differences: FloatArray) -> FloatArray:
    """Of the mean over the splits, the last axis."""
    return np.asarray(differences.std(axis=-1) / max(SPLITS - 1, 1) ** 0.5)


def _describe(columns: Columns) -> Statement:
    bayes, chain = Table(columns=columns).select(states=1), Table(columns=columns).select(states=max(columns["states"]))
    states = int(chain["states"][0])
    findings = []
    for name, each in (("naive Bayes", bayes), ("chain", chain)):
        for way in TRUNCATIONS:
            gaps, errors = each[f"noisy_minus_{way}"], each[f"noisy_minus_{way}_standard_error"]
            findings += [
                compared(f"{name}, noisy - {way} at {epsilon:g}", sign * gap, error)
                for epsilon, gap, error in zip(each["epsilon"], gaps, errors, strict=True)
                for sign in (1, -1)
            ]
    better = sum(found.compared for found in findings[::2])
    worse = sum(found.compared for found in findings[1::2])
    rest = len(findings) // 2 - better - worse
    low, high = chain["epsilon"][0], chain["epsilon"][-1]

    def loss(each: Table, way: str, at: int) -> str:
        return f"{each['plain'][at] - each[way][at]:.4f} ± {2 * each[f'{way}_standard_error'][at]:.4f}"

    return Statement(
        f"Without privacy the held-out log likelihood per flight is {chain['plain'][0]:.3f} nats for a hidden Markov "
        f"model with {states} states and {bayes['plain'][0]:.3f} for naive Bayes. Privacy reduces that of the hidden "
        "Markov model by "
        f"{loss(chain, 'noisy', 0)} nats at ε = {low:g} and {loss(chain, 'noisy', -1)} at ε = {high:g} from noisy "
        f"histograms, {loss(chain, 'tempered', 0)} and {loss(chain, 'tempered', -1)} from {SWEEPS['tempered']} "
        "tempered sweeps (probabilities truncated at 1/(10 K), K categories), and that of naive Bayes by "
        f"{loss(bayes, 'noisy', 0)} at ε = {low:g} from noisy counts. ± 2 standard errors over {SPLITS} splits. At "
        f"{better} of {len(findings) // 2} points noisy histograms are better than tempered sweeps by more than "
        f"{CLEAR:g} standard errors"
        + (f", at {worse} worse" if worse else "")
        + (f", at {rest} there is no clear difference" if rest else "")
        + ". According to the thesis noisy histograms are better for naive Bayes, and for hidden Markov models with "
        "many records, especially at small ε.",
        tuple(found for found in findings if found.compared),
    )


def _scores(states: int, way: str, epsilon: float, first_split: int) -> FloatArray:
    """By split, (splits,)."""
    return np.array([_score(states, way, epsilon, first_split + split) for split in range(SPLITS)])


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
    shared: dict[str, Any] = {"sweeps": sweeps, "released_sweeps": max(sweeps // 2, 1), "target": DP(epsilon=epsilon)}
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
    name="geumlek-4.6",
    title="Like thesis Figure 4.6: held-out likelihood against epsilon",
    seconds=660,  # by the clock of the command; not processor time
    run=_run,
    size=(7.8, 3.9),
    package=PACKAGE,
    second=lambda: _run(first_split=100),
)
