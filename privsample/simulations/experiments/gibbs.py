"""Thesis Figures 4.3 to 4.7 on other records: private hidden Markov chains of a year of flights.

Source: Geumlek 2020, section 4.5, whose war logs are replaced by 336,776 flights of 2013. The time step is a day, with
634 to 1014 flights: their schedule hardly changes from day to day, what delays them does. Histograms of days are
private; how many flights a day has is public.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.targets import DP
from privsample.distributions.models.hmm import Chain
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.simulations.experiments import gibbs_plots
from privsample.simulations.experiments.base import Experiment, Result
from privsample.simulations.experiments.flights import DAYS, FEATURES, PACKAGE, flights

EPSILON = 5.0  # as in the thesis: one for each of five features
STATES = 3
SWEEPS = 200
TEMPERED_SWEEPS, TRUNCATION, DELTA = 10, 0.4, 1e-6
SHOWN = ("delay", "hour", "airport")
CATEGORIES = tuple(len(names) for names in FEATURES.values())


def _entries() -> tuple[int, ...]:
    return tuple(flights().entries.tolist())


@cache
def noisy_chain() -> tuple[Chain, PrivateGibbsHMM]:
    """A chain from noisy histograms; its states rise by delays."""
    made = PrivateGibbsHMM.calibrate(
        states=STATES, categories=CATEGORIES, entries=_entries(), target=DP(epsilon=EPSILON), sweeps=SWEEPS
    )
    release = made.release(flights().codes, rng=np.random.default_rng(43))
    return by_delay(Chain(**release.draws)), made


def by_delay(chain: Chain) -> Chain:
    """The same with states numbered by how many flights come late in them."""
    order = np.argsort(late(chain), kind="stable")
    return Chain(
        states=np.argsort(order)[chain.states],
        emissions=chain.emissions[:, order],
        transitions=chain.transitions[:, order][:, :, order],
    )


def most_frequent(chain: Chain) -> NDArray[np.int64]:
    """The state that each step had in most sweeps, (steps,)."""
    counts = [(chain.states == state).sum(axis=0) for state in range(chain.emissions.shape[1])]
    return np.argmax(counts, axis=0)


def late(chain: Chain) -> FloatArray:
    """In each state the share of flights an hour late or cancelled, (states,)."""
    start = sum(CATEGORIES[: list(FEATURES).index("delay")])
    shares: FloatArray = chain.emissions.mean(axis=0)[:, start + 3 : start + 5].sum(axis=1)
    return shares


def _assignments() -> Result:
    chain, made = noisy_chain()
    states = most_frequent(chain)
    days = np.bincount(states, minlength=STATES)
    shares = ", ".join(f"{share:.1%}" for share in late(chain))
    actual = late_by_day()
    counted = ", ".join(f"{actual[states == state].mean():.1%}" if days[state] else "none" for state in range(STATES))
    worst = np.argsort(actual)[-max(days[-1], 1) :]
    return Result(
        columns={
            "day": np.arange(1, DAYS + 1).tolist(),
            "state": (states + 1).tolist(),
            "late_in_the_records": actual.tolist(),
        },
        sentence=f"From histograms with discrete Laplace noise of scale {made.scale:g}, ε = {EPSILON:g} in all, the "
        f"chain tells three kinds of days, {days[0]}, {days[1]} and {days[2]} of them, with {shares} of the flights an "
        f"hour late or cancelled; the public records of those days hold {counted}, and of the {len(worst)} worst days "
        f"{(states[worst] == STATES - 1).mean():.0%} are in state {STATES}. The thesis says that its states turn where "
        "the war did.",
        plot=lambda figure: gibbs_plots.calendars(figure, [("most frequent state", states)], STATES),
    )


def late_by_day() -> FloatArray:
    """Of the records themselves, which are public: on each day the share an hour late or cancelled, (days,)."""
    year = flights()
    delayed = year.codes[:, list(FEATURES).index("delay")] >= 3
    return np.bincount(year.day, weights=delayed, minlength=DAYS) / year.entries


def _bars(state: int) -> Result:
    chain, _ = noisy_chain()
    overall = flights().codes
    columns: dict[str, list[Any]] = {"feature": [], "category": [], "state": [], "all_days": []}
    start = 0
    for place, (feature, names) in enumerate(FEATURES.items()):
        shares = chain.emissions[:, state, start : start + len(names)].mean(axis=0)
        whole = np.bincount(overall[:, place], minlength=len(names)) / len(overall)
        columns["feature"] += [feature] * len(names)
        columns["category"] += names
        columns["state"] += shares.tolist()
        columns["all_days"] += whole.tolist()
        start += len(names)
    most = late(chain)[state]
    apart = {
        feature: max(
            abs(own - whole)
            for name, own, whole in zip(columns["feature"], columns["state"], columns["all_days"], strict=True)
            if name == feature
        )
        for feature in SHOWN
    }
    return Result(
        columns=columns,
        sentence=f"State {state + 1}: {most:.1%} of the flights are an hour late or cancelled; its shares differ from "
        f"those of all days by up to {apart['delay']:.3f} in delay, and in hour and airport, which the schedule fixes, "
        f"by up to {apart['hour']:.3f} and {apart['airport']:.3f}. Of the thesis's two states one is where things go "
        "well, the other where they go badly.",
        plot=lambda figure: gibbs_plots.bars(figure, columns, SHOWN, state),
    )


def _tempered() -> Result:
    made = PrivateGibbsHMM.calibrate(
        states=STATES,
        categories=CATEGORIES,
        entries=_entries(),
        target=DP(epsilon=EPSILON, delta=DELTA),
        by="temperature",
        truncation=TRUNCATION,
        sweeps=TEMPERED_SWEEPS,
        kept=TEMPERED_SWEEPS // 2,
    )
    release = made.release(flights().codes, rng=np.random.default_rng(47))
    chain = by_delay(Chain(**release.draws))
    often, last, noisy = most_frequent(chain), chain.states[-1], most_frequent(noisy_chain()[0])
    changes = [int((np.diff(states) != 0).sum()) for states in (often, last)]
    alike = [float((states == noisy).mean()) for states in (often, last)]
    return Result(
        columns={
            "day": np.arange(1, DAYS + 1).tolist(),
            "most_frequent": (often + 1).tolist(),
            "last": (last + 1).tolist(),
        },
        sentence=f"{made.sweeps} tempered sweeps at ε = {EPSILON:g}, δ = {DELTA:g} need T = {made.temperature:.0f}; "
        f"the last one changes state {changes[1]} times in the year and agrees with the states from noisy histograms "
        f"on {alike[1]:.0%} of the days, the most frequent states of {made.kept} sweeps {changes[0]} times and on "
        f"{alike[0]:.0%}, which is {_gained(alike[0] - alike[1])}. In the thesis the last of 200 sweeps was noisy "
        "beside the average of 100, but its ε pays for one converged draw, where this pays for every update.",
        plot=lambda figure: gibbs_plots.calendars(
            figure, [(f"most frequent of {made.kept} sweeps", often), ("last sweep", last)], STATES
        ),
    )


def _gained(more: float) -> str:
    """What averaging sweeps gained in agreement, told from noise by two standard deviations of a share of days."""
    if abs(more) < 2 * (0.5 / DAYS) ** 0.5:
        return "no clear difference"
    return f"{abs(more):.0%} {'better' if more > 0 else 'worse'}"


ASSIGNMENTS = Experiment(
    name="t-4.3",
    title="Like thesis Figure 4.3: states of days, from noisy histograms",
    run=_assignments,
    size=(7.2, 3.0),
    package=PACKAGE,
)
FIRST = Experiment(
    name="t-4.4",
    title="Like thesis Figure 4.4: what the state with fewest delays emits",
    run=lambda: _bars(0),
    size=(7.6, 2.6),
    package=PACKAGE,
)
WORST = Experiment(
    name="t-4.5",
    title="Like thesis Figure 4.5: what the state with most delays emits",
    run=lambda: _bars(STATES - 1),
    size=(7.6, 2.6),
    package=PACKAGE,
)
TEMPERED = Experiment(
    name="t-4.7",
    title="Like thesis Figure 4.7: states of days, from tempered sweeps",
    run=_tempered,
    size=(7.2, 5.4),
    package=PACKAGE,
)
