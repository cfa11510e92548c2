"""Thesis section 4.5 on other records: a private chain for each carrier, with common probabilities or their own.

Source: Geumlek 2020, section 4.5, with one chain for each region of a war and one step for each month. Here a region
is a carrier and a step is a week of 2013. As in the thesis, near-empty regions are left out. Airports and distances
tell carriers apart and not weeks, so that only hours and delays are kept.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.targets import DP
from privsample.distributions.models.hmm import Chain
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.simulations.report.findings import CLEAR, Columns, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction import gibbs_plots
from reproduction.base import Experiment
from reproduction.flights import FEATURES, PACKAGE, flights
from reproduction.gibbs import by_delay, most_frequent
from reproduction.tables import Table

EPSILON = 5.0  # total, as in the thesis
EPSILONS = [0.3, 1.0, 10.0]
STATES, SWEEPS, SPLITS = 3, 40, 6
WEEKS = 52
LEAST = 50  # flights in a week on average; carriers with fewer are left out
_KEPT = ["hour", "delay"]
CATEGORIES = tuple(len(FEATURES[name]) for name in _KEPT)
_DELAY = _KEPT.index("delay")


@frozen_value
class Regions:
    """The flights by carrier and week: names, numbers (carriers * weeks,), and codes in that order, (n, features)."""

    names: tuple[str, ...]
    entries: NDArray[np.int64]
    steps: NDArray[np.int64]
    codes: NDArray[np.int64]


def regions() -> Regions:
    """The flights of the carriers that are not near-empty, by carrier and week; the last week has eight days."""
    year = flights()
    week = np.minimum(year.day // 7, WEEKS - 1)
    count = np.bincount(year.codes[:, 0], minlength=len(FEATURES["carrier"]))
    carriers = np.flatnonzero(count >= LEAST * WEEKS)
    place = np.full(len(count), -1)
    place[carriers] = np.arange(len(carriers))
    steps = place[year.codes[:, 0]] * WEEKS + week
    chosen = np.flatnonzero(steps >= 0)
    chosen = chosen[np.argsort(steps[chosen], kind="stable")]
    columns = [list(FEATURES).index(name) for name in _KEPT]
    return Regions(
        names=tuple(FEATURES["carrier"][k] for k in carriers),
        entries=np.bincount(steps[chosen], minlength=len(carriers) * WEEKS),
        steps=steps[chosen],
        codes=year.codes[chosen][:, columns],
    )


def _mechanism(entries: NDArray[np.int64], chains: int, epsilon: float, *, tied: bool) -> PrivateGibbsHMM:
    return PrivateGibbsHMM.calibrate(
        states=STATES,
        categories=CATEGORIES,
        entries=tuple(entries.tolist()),
        chains=chains,
        tied=tied,
        sweeps=SWEEPS,
        target=DP(epsilon=epsilon),
    )


def _assignments(seed: int = 61) -> Result:
    year = regions()
    made = _mechanism(year.entries, len(year.names), EPSILON, tied=True)
    chain = by_delay(Chain(**made.release(year.codes, rng=np.random.default_rng(seed)).draws), CATEGORIES, _DELAY)
    states = most_frequent(chain)
    late = np.bincount(year.steps, weights=year.codes[:, _DELAY] >= 3, minlength=len(states)) / year.entries
    columns = {
        "carrier": np.repeat(year.names, WEEKS).tolist(),
        "week": np.tile(np.arange(1, WEEKS + 1), len(year.names)).tolist(),
        "state": (states + 1).tolist(),
        "late_in_the_records": late.tolist(),
    }
    shares = [float(late[states == k].mean()) if (states == k).any() else 0.0 for k in range(STATES)]
    return Result(
        columns=columns,
        describe=_of_assignments,
        plot=lambda figure: gibbs_plots.weeks(figure, year.names, states.reshape(-1, WEEKS), shares, EPSILON),
    )


def _of_assignments(columns: Columns) -> Statement:
    table = Table(columns=columns)
    state, late = table["state"], np.asarray(table["late_in_the_records"], dtype=float)
    carriers = len(set(columns["carrier"]))
    kinds = [state == k + 1 for k in range(STATES) if (state == k + 1).any()]
    words = "; ".join(f"state {state[kind][0]:.0f}, {kind.sum()} steps, {late[kind].mean():.1%} late" for kind in kinds)
    rise = compared(
        "late in the last state - in the first",
        late[kinds[-1]].mean() - late[kinds[0]].mean(),
        float(np.hypot(*(late[kind].std() / max(kind.sum() - 1, 1) ** 0.5 for kind in (kinds[0], kinds[-1])))),
    )
    weekly = state.reshape(carriers, -1)
    fixed = [row for row in weekly if len(set(row.tolist())) == 1]
    chance = float(sum((kind.mean()) ** 2 for kind in kinds))
    pairs = np.array([(one == two).mean() for k, one in enumerate(weekly) for two in weekly[:k]])
    same = float(pairs.mean())
    spread = float(pairs.std() / carriers**0.5)
    together = compared("two carriers in one state - chance", same - chance, spread)
    apart = compared("chance - two carriers in one state", chance - same, spread)
    against = "more than" if together.compared else "less than" if apart.compared else "no clear difference from"
    return Statement(
        f"One hidden Markov chain with {STATES} states for each of {carriers} carriers and {weekly.shape[1]} weeks, "
        f"with common probabilities, from histograms with discrete Laplace noise, total ε = {EPSILON:g}. Mean weekly "
        f"share of flights an hour late or cancelled in the records: {words}"
        + (", so that the states distinguish delays" if rise.compared else "")
        + f". In {carriers - len(fixed)} carriers the state changes during the year. In the same week "
        f"two carriers are in the same state in {same:.0%} of the cases, {against} the {chance:.0%} of independent "
        "states in the same proportions. The thesis has one chain for each region of a war.",
        (rise, apart if apart.compared else together),
    )


def _likelihood(first_split: int = 0) -> Result:
    year = regions()
    found = {
        tied: np.array(
            [[_score(year, first_split + k, epsilon, tied=tied) for k in range(SPLITS)] for epsilon in EPSILONS]
        )
        for tied in (True, False)
    }
    gap = found[True] - found[False]
    columns: dict[str, Any] = {
        "epsilon": np.array(EPSILONS),
        "tied": found[True].mean(axis=1),
        "untied": found[False].mean(axis=1),
        "tied_minus_untied": gap.mean(axis=1),
        "standard_error": gap.std(axis=1) / max(SPLITS - 1, 1) ** 0.5,
        "carriers": len(year.names),
    }
    return Result(
        columns=stacked([columns]),
        describe=_of_likelihood,
        plot=lambda figure: gibbs_plots.ties(figure, EPSILONS, columns["tied_minus_untied"], columns["standard_error"]),
    )


def _of_likelihood(columns: Columns) -> Statement:
    table = Table(columns=columns)
    found, words = [], []
    for epsilon, gap, error in zip(table["epsilon"], table["tied_minus_untied"], table["standard_error"], strict=True):
        up = compared(f"tied - untied at {epsilon:g}", gap, error)
        down = compared(f"untied - tied at {epsilon:g}", -gap, error)
        verdict = "higher" if up.compared else "lower" if down.compared else "no clear difference"
        words.append(f"{gap:+.4f} ± {2 * error:.4f} at ε = {epsilon:g} ({verdict})")
        found += [each for each in (up, down) if each.compared]
    return Statement(
        f"Held-out log likelihood per flight in nats, of chains of {int(table['carriers'][0])} carriers with common "
        f"probabilities minus that of chains with their own, ± 2 standard errors over {SPLITS} splits: "
        f"{'; '.join(words)}. A difference is stated beyond {CLEAR:g} standard errors. Both cost the same.",
        tuple(found),
    )


def _score(year: Regions, split: int, epsilon: float, *, tied: bool) -> float:
    """Log likelihood of a flight in the steps left out, a tenth of all, in nats."""
    rng = np.random.default_rng([split, round(1000 * epsilon), tied])
    out = np.zeros(len(year.entries), dtype=bool)
    out[np.random.default_rng(split).choice(len(out), size=len(out) // 10, replace=False)] = True
    kept = ~out[year.steps]
    made = _mechanism(np.where(out, 0, year.entries), len(year.names), epsilon, tied=tied)
    tested: FloatArray = made.model.histograms(year.steps[~kept], year.codes[~kept], len(out))
    found = made.log_predictive(made.release(year.codes[kept], rng=rng), tested)
    return float(found.sum() / (~kept).sum())


ASSIGNMENTS = Experiment(
    name="geumlek-4.3-regions",
    title="Like thesis section 4.5: one chain for each carrier, states of weeks",
    seconds=1.2,
    run=_assignments,
    size=(7.8, 4.0),
    package=PACKAGE,
    second=lambda: _assignments(seed=161),
)
LIKELIHOOD = Experiment(
    name="geumlek-4.6-regions",
    title="Like thesis section 4.5: common probabilities of all carriers, or their own",
    seconds=24,
    run=_likelihood,
    size=(6.0, 3.4),
    package=PACKAGE,
    second=lambda: _likelihood(first_split=100),
)
