"""Thesis Figures 4.3 to 4.7 on other records: private hidden Markov chains of a year of flights.

Source: Geumlek 2020, section 4.5, whose war logs are replaced by 336,776 flights of 2013. The time step is a day, with
634 to 1014 flights: their schedule hardly changes from day to day, what delays them does. Histograms of days are
private; how many flights a day has is public.
"""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.distributions.models.hmm import Chain
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction import gibbs_plots
from reproduction.base import Experiment
from reproduction.flights import DAYS, FEATURES, PACKAGE, flights
from reproduction.tables import Table

EPSILON = 5.0  # as in the thesis: one for each of five features
STATES = 3
SWEEPS, SEED = 200, 43
TEMPERED_SWEEPS, TRUNCATION, DELTA = 10, 0.4, 1e-6
RELEASES = 12  # of tempered sweeps: one release differs much from another
CATEGORIES = tuple(len(names) for names in FEATURES.values())


def _entries() -> tuple[int, ...]:
    return tuple(flights().entries.tolist())


def noisy_chain(seed: int = SEED) -> tuple[Chain, PrivateGibbsHMM]:
    """Return a chain from noisy histograms, with states in the order of their share of late flights."""
    return _noisy_chain(seed, SWEEPS)


@cache
def _noisy_chain(seed: int, sweeps: int) -> tuple[Chain, PrivateGibbsHMM]:
    made = PrivateGibbsHMM.calibrate(
        states=STATES, categories=CATEGORIES, entries=_entries(), target=DP(epsilon=EPSILON), sweeps=sweeps
    )
    release = made.release(flights().codes, rng=np.random.default_rng(seed))
    return by_delay(Chain(**release.draws)), made


def by_delay(
    chain: Chain, categories: tuple[int, ...] = CATEGORIES, delay: int = list(FEATURES).index("delay")
) -> Chain:
    """The same with states numbered by how many flights come late in them; `delay` is the place of that feature."""
    order = np.argsort(late(chain, categories, delay), kind="stable")
    return Chain(
        states=np.argsort(order)[chain.states],
        emissions=chain.emissions[:, order],
        transitions=chain.transitions[:, order][:, :, order],
    )


def most_frequent(chain: Chain) -> NDArray[np.int64]:
    """The state that each step had in most sweeps, (steps,)."""
    counts = [(chain.states == state).sum(axis=0) for state in range(chain.emissions.shape[1])]
    return np.argmax(counts, axis=0)


def late(
    chain: Chain, categories: tuple[int, ...] = CATEGORIES, delay: int = list(FEATURES).index("delay")
) -> FloatArray:
    """In each state the share of flights an hour late or cancelled, (states,); `delay` is the place of that feature."""
    start = sum(categories[:delay])
    shares: FloatArray = chain.emissions.mean(axis=0)[:, start + 3 : start + 5].sum(axis=1)
    return shares


def _assignments(seed: int = SEED) -> Result:
    chain, _ = noisy_chain(seed)
    states = most_frequent(chain)
    columns = {
        "day": np.arange(1, DAYS + 1).tolist(),
        "state": (states + 1).tolist(),
        "late_in_the_state": late(chain)[states].tolist(),
        "late_in_the_records": late_by_day().tolist(),
    }
    panels = [(f"hidden Markov model with {STATES} states, ε = {EPSILON:g}: most frequent state of each day", states)]
    words = "flights an hour late or cancelled, by the private estimate of each state"
    shares = late(chain).tolist()
    return Result(
        columns=columns,
        describe=_describe_assignments,
        plot=lambda figure: gibbs_plots.calendars(figure, panels, shares, words),
    )


def _describe_assignments(columns: Columns) -> Statement:
    state, actual = np.asarray(columns["state"]), np.asarray(columns["late_in_the_records"], dtype=float)
    stated = np.asarray(columns["late_in_the_state"], dtype=float)
    kinds = [state == k + 1 for k in range(STATES) if (state == k + 1).any()]
    worst = np.argsort(actual)[-int(kinds[-1].sum()) :]
    hit, share = float(kinds[-1][worst].mean()), float(kinds[-1].mean())
    words = "; ".join(
        f"state {k + 1}, {kind.sum()} days, {stated[kind][0]:.1%} late (in the records of these days "
        f"{actual[kind].mean():.1%})"
        for k, kind in enumerate(kinds)
    )
    rises = [
        compared(
            f"late in state {k + 2} - in state {k + 1}",
            actual[above].mean() - actual[below].mean(),
            float(np.hypot(*(actual[kind].std() / max(kind.sum() - 1, 1) ** 0.5 for kind in (below, above)))),
        )
        for k, (below, above) in enumerate(pairwise(kinds))
    ]
    return Statement(
        f"A hidden Markov model with {STATES} states, fitted to daily histograms of the flights of 2013 with discrete "
        f"Laplace noise, total ε = {EPSILON:g}, assigns one state to each of {len(state)} days. Late flights are an "
        f"hour late or cancelled: {words}. Of the {len(worst)} "
        f"days with the largest share of late flights, {hit:.0%} are in state {len(kinds)}, which holds {share:.0%} of "
        "all days. The thesis uses war logs, where the states follow the "
        "course of the war.",
        (
            *rises,
            compared("worst days in the last state - share of it", hit - share, (0.25 / len(worst)) ** 0.5),
        ),
    )


def late_by_day() -> FloatArray:
    """Of the records themselves, which are public: on each day the share an hour late or cancelled, (days,)."""
    year = flights()
    delayed = year.codes[:, list(FEATURES).index("delay")] >= 3
    return np.bincount(year.day, weights=delayed, minlength=DAYS) / year.entries


def _bars(state: int, seed: int = SEED) -> Result:
    chain, _ = noisy_chain(seed)
    overall = flights().codes
    columns: dict[str, list[Any]] = {
        name: [] for name in ("feature", "category", "number", "state", "standard_deviation", "all_days")
    }
    start = 0
    for place, (feature, names) in enumerate(FEATURES.items()):
        shares = chain.emissions[:, state, start : start + len(names)]
        whole = np.bincount(overall[:, place], minlength=len(names)) / len(overall)
        columns["feature"] += [feature] * len(names)
        columns["category"] += names
        columns["number"] += [state + 1] * len(names)
        columns["state"] += shares.mean(axis=0).tolist()
        columns["standard_deviation"] += shares.std(axis=0).tolist()
        columns["all_days"] += whole.tolist()
        start += len(names)
    return Result(
        columns=columns,
        describe=_describe_bars,
        plot=lambda figure: gibbs_plots.bars(figure, columns, _differences(columns), state),
    )


def _differences(columns: Columns) -> dict[str, tuple[float, float, str]]:
    """Of each feature the largest difference of a share from that of all days, its deviation, and its category."""
    found = {}
    for feature in FEATURES:
        rows = Table(columns=columns).select(feature=feature)
        apart = np.abs(rows["state"] - rows["all_days"])
        at = int(apart.argmax())
        found[feature] = float(apart[at]), float(rows["standard_deviation"][at]), str(rows["category"][at])
    return found


def _describe_bars(columns: Columns) -> Statement:
    delay, number = Table(columns=columns).select(feature="delay"), int(columns["number"][0])
    most, usual = float(delay["state"][3:].sum()), float(delay["all_days"][3:].sum())
    deviation = float(np.hypot(*delay["standard_deviation"][3:]))
    apart = _differences(columns)
    others = {name: found for name, found in apart.items() if name != "delay"}
    next_name = max(others, key=lambda name: others[name][0])
    more = compared(
        "delay differs more than the next",
        apart["delay"][0] - others[next_name][0],
        float(np.hypot(apart["delay"][1], others[next_name][1])),
    )
    gap = compared(f"late in state {number} against all days", abs(most - usual), deviation)
    side = ("more" if most > usual else "fewer") + " than" if gap.compared else "no clear difference from"
    other = (
        f"that of no other feature by more than {others[next_name][0]:.3f} ({next_name} {others[next_name][2]}): the "
        "timetable determines the others, so the states distinguish delays"
        if more.compared
        else f"that of {next_name} {others[next_name][2]} by {others[next_name][0]:.3f}"
    )
    return Statement(
        f"On days in state {number}, {most:.1%} of the flights are an hour late or cancelled, {side} the {usual:.1%} "
        "of all days. The share of a category of delay differs from that of all days by up to "
        f"{apart['delay'][0]:.3f}, {other}. In the thesis one of two states also collects the favourable records and "
        "the other the unfavourable ones.",
        (gap, more),
    )


def _tempered(seed: int = 47) -> Result:
    made = PrivateGibbsHMM.calibrate(
        states=STATES,
        categories=CATEGORIES,
        entries=_entries(),
        target=DP(epsilon=EPSILON, delta=DELTA),
        by="temperature",
        truncation=TRUNCATION,
        sweeps=TEMPERED_SWEEPS,
        released_sweeps=TEMPERED_SWEEPS // 2,
    )
    rng, noisy = np.random.default_rng(seed), most_frequent(noisy_chain()[0])
    found = []
    for _ in range(RELEASES):
        chain = by_delay(Chain(**made.release(flights().codes, rng=rng).draws))
        found.append((most_frequent(chain), chain.states[-1]))
    parts = [
        {
            "release": k + 1,
            "day": np.arange(1, DAYS + 1),
            "most_frequent": often + 1,
            "last": last + 1,
            "noisy_histograms": noisy + 1,
            "temperature": made.temperature,
        }
        for k, (often, last) in enumerate(found)
    ]
    often, last = found[0]
    panels = [
        (f"one release at ε = {EPSILON:g}: most frequent state of the last {made.released_sweeps} sweeps", often),
        ("the same release: states in the last sweep", last),
    ]
    words = "flights an hour late or cancelled in the records, on the days of each state (upper panel)"
    shares = [float(late_by_day()[often == k].mean()) if (often == k).any() else 0.0 for k in range(STATES)]
    return Result(
        columns=stacked(parts),
        describe=_describe_tempered,
        plot=lambda figure: gibbs_plots.calendars(figure, panels, shares, words),
    )


def _describe_tempered(columns: Columns) -> Statement:
    releases = [Table(columns=columns).select(release=k) for k in dict.fromkeys(columns["release"])]
    alike = np.array(
        [[(rows[name] == rows["noisy_histograms"]).mean() for name in ("most_frequent", "last")] for rows in releases]
    )
    changes = np.array([[(np.diff(rows[name]) != 0).sum() for name in ("most_frequent", "last")] for rows in releases])
    chance = np.array([_chance(rows["most_frequent"], rows["noisy_histograms"]) for rows in releases])
    better = _over_releases("most frequent - last", alike[:, 0] - alike[:, 1])
    worse = _over_releases("last - most frequent", alike[:, 1] - alike[:, 0])
    above = _over_releases("agreement - chance", alike[:, 0] - chance)
    fewer = _over_releases("changes, last - most frequent", changes[:, 1] - changes[:, 0])
    verdict = "better" if better.compared else "worse" if worse.compared else "no clear difference"
    beside = "more than" if above.compared else "no clear difference from"
    often, last = alike.mean(axis=0)
    temperature = float(releases[0]["temperature"][0])
    return Statement(
        f"{TEMPERED_SWEEPS} tempered Gibbs sweeps at ε = {EPSILON:g} and δ = {DELTA:g} need the temperature T = "
        f"{temperature:.0f}. In {len(releases)} releases the last sweep agrees with the states from noisy "
        f"histograms (Figure 4.3) on {last:.0%} of the days, and the most frequent state of the last "
        f"{max(TEMPERED_SWEEPS // 2, 1)} sweeps on {often:.0%} ({alike[:, 0].min():.0%} to {alike[:, 0].max():.0%}): "
        f"{verdict}. That is {beside} the {chance.mean():.0%} of states assigned at random in the same proportions. "
        f"The last sweep changes its state {changes[:, 1].mean():.0f} times in the year, the most frequent state "
        f"{changes[:, 0].mean():.0f} times{', fewer' if fewer.compared else ''}. In the thesis the last of 200 "
        "sweeps is noisier than the average of 100. The ε stated there accounts for one draw of a converged chain; the "
        "ε here accounts for every update.",
        (Finding("temperature", temperature), better, worse, above, fewer),
    )


def _chance(first: NDArray[Any], second: NDArray[Any]) -> float:
    """The share of days on which states would agree if each were assigned at random in its own proportions."""
    return float(sum((first == k).mean() * (second == k).mean() for k in range(1, STATES + 1)))


def _over_releases(name: str, values: NDArray[Any]) -> Finding:
    """The mean over releases as a finding."""
    return compared(name, float(values.mean()), float(values.std() / max(len(values) - 1, 1) ** 0.5))


ASSIGNMENTS = Experiment(
    name="geumlek-4.3",
    title="Like thesis Figure 4.3: states of days, from noisy histograms",
    seconds=5.8,
    run=_assignments,
    size=(7.2, 3.6),
    package=PACKAGE,
    second=lambda: _assignments(seed=143),
)
FIRST = Experiment(
    name="geumlek-4.4",
    title="Like thesis Figure 4.4: what the state with fewest delays emits",
    seconds=4.6,
    run=lambda: _bars(0),
    size=(7.8, 2.8),
    package=PACKAGE,
    second=lambda: _bars(0, seed=143),
)
WORST = Experiment(
    name="geumlek-4.5",
    title="Like thesis Figure 4.5: what the state with most delays emits",
    seconds=5.2,
    run=lambda: _bars(STATES - 1),
    size=(7.8, 2.8),
    package=PACKAGE,
    second=lambda: _bars(STATES - 1, seed=143),
)
TEMPERED = Experiment(
    name="geumlek-4.7",
    title="Like thesis Figure 4.7: states of days, from tempered sweeps",
    seconds=22,
    run=_tempered,
    size=(7.2, 6.0),
    package=PACKAGE,
    second=lambda: _tempered(seed=147),
)
