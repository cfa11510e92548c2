"""The audit of bits: events in the bits of the released floating-point numbers, chosen on draws of their own.

Features map each number to a cell (`bit_features`, `reachable`). The first draws estimate the ratio of the two
probabilities of every cell, the second choose an epsilon and a set of cells with large ratios, and the others, on which
nothing depends, test it (docs/notes/audit_bits.md).
"""

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.binomials import Counts
from privsample.simulations.audit.bit_features import BitFeature, bit_features
from privsample.simulations.audit.draws import draw_blocks, draw_both_outputs
from privsample.simulations.audit.evaluation import make_verdict
from privsample.simulations.audit.events import Choice, strongest_tests
from privsample.simulations.audit.reachable import reachable_features
from privsample.simulations.audit.scores import Score, score_values
from privsample.simulations.audit.task import AuditTask
from privsample.simulations.audit.verdict import Verdict

Tables = tuple[NDArray[np.int64], ...]  # counts of the cells of each feature

_LEARNING, _CHOOSING, _MOST = 0.25, 0.25, 1_000_000
_PILOT, _LEAST = 10_000, 20
_COLUMNS = 8
_FEW = 2  # up to this many pairs, each is learned in full


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A feature of one column of the outputs."""

    column: int
    read: BitFeature


@dataclass(frozen=True, kw_only=True, eq=False)
class CellEvent:
    """The event that a feature lies in a set of cells; `members` has an entry for each cell."""

    feature: int
    members: NDArray[np.bool_]
    swapped: bool

    def counts(self, first: Tables, second: Tables) -> Counts:
        """Count the draws in the event: of the distribution under which it should be likelier, and of the other."""
        own, other = (second, first) if self.swapped else (first, second)
        return int(own[self.feature][self.members].sum()), int(other[self.feature][self.members].sum())


@dataclass(frozen=True, kw_only=True)
class _Search:
    """Candidate events of one pair of datasets, with the counts of the draws that choose among them."""

    case: Neighbours
    features: tuple[Feature, ...]
    learned: tuple[Tables, Tables]
    choosing: tuple[Tables, Tables]

    def best_events(self, epsilons: FloatArray, claims: FloatArray) -> tuple["_Best", "_Best"]:
        """Return for both directions the strongest test and the most informative event at each epsilon."""
        forward, backward = (_Best.empty(len(epsilons)) for _ in range(2))
        for at in range(len(self.features)):
            first, second = (np.log(table[at] + 0.5) for table in self.learned)
            for best, swapped in ((forward, False), (backward, True)):
                order = np.argsort(first - second if swapped else second - first, kind="stable")
                best.update(self, at, order, swapped, epsilons, claims)
        return forward, backward


@dataclass(kw_only=True)
class _Best:
    """The best candidates so far at each epsilon: by standard errors above the claim, and by the excess itself."""

    strength: FloatArray
    excess: FloatArray
    strongest: list[CellEvent | None]
    informative: list[CellEvent | None]

    @classmethod
    def empty(cls, count: int) -> "_Best":
        """Return a record without candidates."""
        nothing = np.full(count, -np.inf)
        return cls(strength=nothing, excess=nothing.copy(), strongest=[None] * count, informative=[None] * count)

    def update(
        self,
        search: _Search,
        feature: int,
        order: NDArray[np.int64],
        swapped: bool,
        epsilons: FloatArray,
        claims: FloatArray,
    ) -> None:
        """Compare the unions of the first cells in `order` with the best candidates."""
        tables = search.choosing[::-1] if swapped else search.choosing
        n, m = (int(table[feature].sum()) for table in tables)
        x, y = (np.cumsum(table[feature][order]) for table in tables)
        p, q = x / n, y / m
        here, there = (p * (1 - p) + 1 / n) / n, (q * (1 - q) + 1 / m) / m

        def event(last: int) -> CellEvent:
            members = np.zeros(len(order), dtype=np.bool_)
            members[order[: last + 1]] = True
            return CellEvent(feature=feature, members=members, swapped=swapped)

        for at, (epsilon, claim) in enumerate(zip(epsilons, claims, strict=True)):
            factor = float(np.exp(epsilon))
            excess, error = p - factor * q, np.sqrt(here + factor**2 * there)
            strength, certain = (excess - claim) / error, excess - 3 * error
            best, most = int(np.argmax(strength)), int(np.argmax(certain))
            if strength[best] > self.strength[at]:
                self.strength[at], self.strongest[at] = strength[best], event(best)
            if certain[most] > self.excess[at]:
                self.excess[at], self.informative[at] = certain[most], event(most)


def audit_bits(task: AuditTask) -> Verdict:
    """Audit the released floating-point numbers bit by bit. Raises: the errors of `audit`."""
    cases = task.cases
    if len(cases) > _FEW:
        each = max(task.samples // (2 * len(cases)), 200)
        cases = (max(cases, key=lambda case: _find_events(task, case, each)[1][0].strength),)
    found = [_find_events(task, case, task.samples) for case in cases]
    search, choices, informative = max(found, key=lambda one: one[1][0].strength)
    spent = _pilot_draws(task.samples) + _learning_draws(task.samples) + _choosing_draws(task.samples)
    held = max(task.samples - spent, 1)
    used = {choice.event.feature for choice in choices if isinstance(choice.event, CellEvent)}
    used |= {event.feature for row in informative for event in row}
    first, second = (_count(search.case, data, search.features, held, task.rng, used) for data in search.case.datasets)
    return make_verdict(
        task,
        search.case,
        choices,
        (first, second),
        draws=(held, held),
        informative=informative,
        overhead=task.samples / held,
        describe=partial(_describe, search, (first, second)),
    )


Found = tuple[_Search, tuple[Choice, ...], tuple[list[CellEvent], list[CellEvent]]]


def _find_events(task: AuditTask, case: Neighbours, samples: int) -> Found:
    """Choose the tested events and those of the confidence bounds on `samples` draws from each dataset."""
    rng, points = task.rng, task.epsilons
    pilot = draw_both_outputs(case, _pilot_draws(samples), rng)
    features = _features(task, case, pilot)
    learned, choosing = (
        (_count(case, case.datasets[0], features, size, rng), _count(case, case.datasets[1], features, size, rng))
        for size in (_learning_draws(samples), _choosing_draws(samples))
    )
    search = _Search(case=case, features=features, learned=learned, choosing=choosing)
    both = search.best_events(points, task.claims)
    ranked = sorted(
        (
            Choice(at=at, event=event, strength=float(best.strength[at]))
            for best in both
            for at, event in enumerate(best.strongest)
            if event is not None
        ),
        key=lambda choice: -choice.strength,
    )
    informative = tuple([event for event in best.informative if event is not None] for best in both)
    return search, (ranked[0],), (informative[0], informative[1])


def learn_bit_scores(
    task: AuditTask, case: Neighbours, past: tuple[FloatArray, FloatArray], most: int
) -> tuple[Score, ...]:
    """Learn scores of the bits of outputs from past draws of both distributions, shape (draws, width).

    A score is the estimated log ratio of the probabilities of a feature's cell. The `most` features are those at which
    the claim looks weakest.
    """
    ends = (len(past[0]) // 4, 3 * len(past[0]) // 4)
    pilot, learning, choosing = ((np.split(past[0], ends)[part], np.split(past[1], ends)[part]) for part in range(3))
    features = _features(task, case, pilot)
    wanted = frozenset(range(len(features)))
    here, there = (_count_block(features, wanted, rows) for rows in learning)
    scores = [
        partial(_cell_score, feature, np.log((x + 0.5) / (y + 0.5)))
        for feature, x, y in zip(features, here, there, strict=True)
    ]

    def strength(score: Score) -> float:
        first, second = (score_values(score, rows) for rows in choosing)
        return strongest_tests(first, second, task.epsilons, task.claims, loss=False)[0].strength

    return tuple(sorted(scores, key=strength, reverse=True)[:most])


def _cell_score(feature: Feature, ratios: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the log ratio of the cell of each output."""
    return np.asarray(ratios[feature.read.cell(np.ascontiguousarray(rows[:, feature.column]))])


def _pilot_draws(samples: int) -> int:
    return min(max(samples // 10, _LEAST), _PILOT)


def _learning_draws(samples: int) -> int:
    return min(max(round(samples * _LEARNING), _LEAST), _MOST)


def _choosing_draws(samples: int) -> int:
    return min(max(round(samples * _CHOOSING), _LEAST), _MOST)


def _features(task: AuditTask, case: Neighbours, pilot: tuple[FloatArray, FloatArray]) -> tuple[Feature, ...]:
    """Return the features of the columns that differ most between the pilot draws."""
    both = np.concatenate(pilot)
    found: dict[int, list[BitFeature]] = {}
    distances = []
    for column in range(both.shape[1]):
        found[column] = bit_features(both[:, column])
        first, second = (
            np.bincount(found[column][0].cell(x[:, column]), minlength=found[column][0].cells) for x in pilot
        )
        distances.append(int(np.abs(first - second).sum()))
    columns = np.argsort(-np.array(distances), kind="stable")[:_COLUMNS].tolist()
    return tuple(
        Feature(column=column, read=read)
        for column in columns
        for read in (*found[column], *reachable_features(case, task.subject, task.claim, column, pilot))
    )


def _count(
    case: Neighbours,
    data: object,
    features: tuple[Feature, ...],
    draws: int,
    rng: np.random.Generator,
    used: set[int] | None = None,
) -> Tables:
    """Count the cells of the features in new draws from one dataset, block by block; unused features stay empty."""
    wanted = frozenset(range(len(features)) if used is None else used)
    blocks = draw_blocks(case, data, draws, rng, partial(_count_block, features, wanted))  # type: ignore[arg-type]
    return reduce(lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), blocks)


def _count_block(features: tuple[Feature, ...], wanted: frozenset[int], table: FloatArray) -> Tables:
    nothing = np.zeros(1, dtype=np.int64)
    return tuple(
        np.bincount(one.read.cell(np.ascontiguousarray(table[:, one.column])), minlength=one.read.cells)
        if at in wanted
        else nothing
        for at, one in enumerate(features)
    )


def _describe(search: _Search, evidence: tuple[Tables, Tables], choice: Choice) -> str:
    """Describe the tested event in plain words, with its frequencies in the evaluation draws."""
    event = choice.event
    assert isinstance(event, CellEvent)
    feature = search.features[event.feature]
    own, other = search.learned[::-1] if event.swapped else search.learned
    gain = np.where(event.members, own[event.feature] - 1.0 * other[event.feature], -np.inf)
    example = feature.read.describe(int(np.argmax(gain)))
    hits = event.counts(*evidence)
    draws = int(evidence[0][event.feature].sum())
    which = f"number {feature.column + 1} of the output" if _width(search) > 1 else "the output"
    cases = int(event.members.sum())
    which_cases = f"{cases:,} chosen cases, such as" if cases > 1 else "one chosen case:"
    return (
        f"The event was chosen by looking at {feature.read.description}: {which} belongs to {which_cases} {example}. "
        f"It occurred in {hits[0] / draws:.3%} of the draws from the dataset named first and in {hits[1] / draws:.3%} "
        "of those from the other."
    )


def _width(search: _Search) -> int:
    return max(one.column for one in search.features) + 1
