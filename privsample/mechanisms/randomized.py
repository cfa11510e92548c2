"""Randomized response: every record answers for itself, truthfully or at random."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, count_noun, number, positive_integer
from privsample._data import chunks
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.distributions.domains import Domain
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.codes import code_loss, through, with_innermost, worst_rows
from privsample.mechanisms.columns import read_column
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Draw, Neighbours, record_words
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release
from privsample.relations import AddRemove, Relation, ReplaceOne, check_single_record_relation

_MOST = 30.0  # above it the chance of any other answer is lost in a double


@frozen_value
class RandomizedResponse(Mechanism):
    """Answers in {0, ..., categories-1}, each e^log_odds times as likely to be the truth as any one other category.

    Under ReplaceOne(n) the n answers come in the order of the records. Under AddRemove the number of records is not
    public: `slots` answers come out in random order, the first `slots` records' and uniform ones for what is missing.
    `release` takes one column of category codes, and draws "answers", whole numbers of shape (1, slots).
    """

    log_odds: float
    relation: Relation
    categories: int = 2
    slots: int | None = None
    free_parameters = (FreeParameter(name="log_odds", upper=_MOST, advice="any log odds cost something"),)
    command = CommandLine(
        data=("column",),
        help={
            "log_odds": "log of how many times likelier the truth is than any one other category",
            "categories": "how many categories there are, coded 0, 1, ... (default: 2)",
            "slots": "under add-remove: how many answers come out, whatever the data hold",
        },
    )

    def __post_init__(self) -> None:
        if number(log_odds=self.log_odds) > _MOST:
            raise ValueError(f"log_odds must be at most {_MOST:g}: beyond, no other answer would ever be drawn")
        account = self.accountant  # checks log_odds and categories
        set_fields(self, log_odds=account.log_odds, categories=account.categories)
        match check_single_record_relation(self.relation):
            case ReplaceOne(n=n):
                if self.slots is not None and positive_integer(slots=self.slots) != n:
                    raise ValueError(f"slots must be left out under ReplaceOne, where n = {n} answers come out")
                set_fields(self, slots=n)
            case AddRemove():
                if self.slots is None:
                    raise ValueError(
                        "slots must be given under AddRemove: how many answers come out, whatever the data hold"
                    )
                set_fields(self, slots=positive_integer(slots=self.slots))
        assert self.slots is not None
        check_memory(self.slots, lower="slots" if isinstance(self.relation, AddRemove) else "n")

    @cached
    def accountant(self) -> RandomizedResponseAccountant:
        """Exact; the same under both relations, since a free slot answers like a mixture of records."""
        return RandomizedResponseAccountant(log_odds=self.log_odds, categories=self.categories, relation=self.relation)

    @property
    def domain(self) -> Domain:
        """{0, ..., categories-1}; whatever is missing or outside counts as 0."""
        return Domain(low=0.0, high=self.categories - 1.0, missing=0.0, whole=True, outside_is_missing=True)

    @property
    def description(self) -> str:
        """How likely the truth is."""
        return (
            f"Every record answered for itself: each answer is {np.exp(self.log_odds):.3g} times as likely to be the "
            "truth as any one other category."
        )

    def for_size(self, size: int) -> "RandomizedResponse":
        """Under ReplaceOne the same with `size` answers; under AddRemove `slots` answers come out of any records."""
        if not isinstance(self.relation, ReplaceOne):
            return self
        return replace(self, relation=replace(self.relation, n=size), slots=None)

    def code_count(self) -> int:
        """The categories."""
        return self.categories

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An answer that is true too often."""
        example = cls(log_odds=0.5, relation=ReplaceOne(n=1))
        return (Example.with_wrong_fields("randomized-response", example, log_odds=0.6, bug="the truth too often"),)

    def extreme_records(self) -> FloatArray:
        """Categories are alike: two that are exchanged, and one more for the others."""
        return np.arange(min(self.categories, 3.0))

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The answers of a group, all of one category or all of another: any two are alike."""
        group = positive_integer(group=group)
        return self._pairs(self, self._distributions(2), np.array([[0, 1]]), group)

    def worst_neighbours_through(
        self, outer: Mechanism, kernels: tuple[FloatArray, ...], group: int
    ) -> tuple[Neighbours, ...]:
        """The answers of a group, all of one category or all of another, whichever the kernels leave most different."""
        ends = np.transpose(np.triu_indices(self.categories, 1))
        return self._pairs(outer, through(self._distributions(self.categories), kernels), ends, group)

    def _pairs(
        self, outer: Mechanism, distributions: FloatArray, ends: NDArray[np.int64], group: int
    ) -> tuple[Neighbours, ...]:
        """Under AddRemove the record in the only slot is left out, and the next one takes its place.

        Records answer independently, so one release of many records gives as many draws.
        """
        assert self.slots is not None
        replaced = isinstance(self.relation, ReplaceOne)
        if not replaced and (self.slots, group) != (1, 1):
            raise ValueError("answers in random order are not audited here; audit one record with slots = 1")
        if group > self.slots:
            raise ValueError(f"a group must be no larger than n = {self.slots}, got {group}")

        def draw(data: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
            return self._answers_of(outer, np.broadcast_to(data[:1], (count * group,)), rng).reshape(count, group)

        def pair(a: int, b: int) -> Neighbours:
            one, other = (record_words(group, np.array(code)) for code in (a, b))
            return Neighbours(
                account=outer.accountant,
                words=(one if replaced else f"{one} and {other}", other),
                datasets=(lambda: np.full(group, a) if replaced else np.array([a, b]), lambda: np.full(group, b)),
                draw=draw,
                loss=code_loss(distributions[a], distributions[b]),
                width=group,
            )

        return tuple(pair(*found) for found in worst_rows(distributions, ends))

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        """Records answer independently of each other; where answers are shuffled, those of one release are not."""
        if not isinstance(self.relation, ReplaceOne):
            return None

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            self._truth(data)  # refuses data of another size before they are repeated
            return self._answers_of(outer, np.tile(read_column(data), count), rng).reshape(count, -1)

        return draw

    def _answers_of(self, outer: Mechanism, records: FloatArray, rng: np.random.Generator) -> FloatArray:
        many = with_innermost(outer, self, replace(self, relation=ReplaceOne(n=len(records)), slots=None))
        return many.release(records, rng=rng)["answers"]

    def _distributions(self, records: int) -> FloatArray:
        """Of the answers to the first so many categories, shape (records, categories)."""
        weights = np.exp(self.log_odds * (np.eye(records, self.categories) - 1.0))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _statistic(self, data: Any) -> NDArray[np.int64]:
        return self._truth(data)

    def _draw(self, statistic: NDArray[np.int64], rng: np.random.Generator) -> Draws:
        return {"answers": self._answers(statistic, rng)[None]}

    def _answers(self, truth: NDArray[np.int64], source: np.random.Generator) -> NDArray[np.int64]:
        answers = source.integers(0, self.categories, self.slots)
        told = source.random(len(truth)) < self._honesty
        answers[: len(truth)] = np.where(told, truth, answers[: len(truth)])
        if isinstance(self.relation, AddRemove):
            source.shuffle(answers)
        return answers

    def validate(self, data: Any) -> CuratorNotes:
        """What the public rule would change in these data, for the curator's eyes. Raises: SchemaError."""
        count = len(self._truth(data, every=True))
        return CuratorNotes(
            title=f"{count_noun(count, 'record')}, expected {self.domain.words}",
            facts=self.domain.count_problems(chunks(data)),
        )

    def _truth(self, data: Any, *, every: bool = False) -> NDArray[np.int64]:
        """The records' codes, as many as there are slots."""
        codes = [self.domain.clean(chunk).astype(np.int64) for chunk in chunks(data)]
        truth = np.concatenate([np.empty(0, dtype=np.int64), *codes])
        assert self.slots is not None
        if isinstance(self.relation, ReplaceOne) and len(truth) != self.slots:
            raise SchemaError(f"n = {self.slots} records were declared, the data hold {len(truth)}")
        return truth if every else truth[: self.slots]

    @property
    def _honesty(self) -> float:
        """Probability of telling the truth outright; otherwise the answer is uniform over all categories."""
        return float(-np.expm1(-self.log_odds) / (1 + (self.categories - 1) * np.exp(-self.log_odds)))

    def frequencies(self, release: Release) -> FloatArray:
        """Unbiased estimates of each category's share of the slots, from a release: post-processing, no cost."""
        seen = np.bincount(release["answers"].ravel(), minlength=self.categories) / release["answers"].size
        return (seen - (1 - self._honesty) / self.categories) / self._honesty
