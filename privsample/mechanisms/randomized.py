"""Randomized response: every record answers for itself, truthfully or at random."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, generator, holdable, how_many, positive_integer
from privsample._data import chunks
from privsample._entropy import undisturbed
from privsample._value import put, value
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.accounting.targets import Target, largest
from privsample.distributions.domains import Domain
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism, charged
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release
from privsample.relations import AddRemove, Relation, ReplaceOne, of_single_records

_MOST = 30.0  # above it the chance of any other answer is lost in a double


@value
class RandomizedResponse(Mechanism):
    """Answers in {0, ..., categories-1}, each e^log_odds times as likely to be the truth as any one other category.

    Under ReplaceOne(n) the n answers come in the order of the records. Under AddRemove the number of records is not
    public: `slots` answers come out in random order, the first `slots` records' and uniform ones for what is missing.
    """

    log_odds: float
    relation: Relation
    categories: int = 2
    slots: int | None = None

    def __post_init__(self) -> None:
        if self.log_odds > _MOST:
            raise ValueError(f"log_odds must be at most {_MOST:g}: beyond, no other answer would ever be drawn")
        account = self.accountant  # checks log_odds and categories
        put(self, log_odds=account.log_odds, categories=account.categories)
        match of_single_records(self.relation):
            case ReplaceOne(n=n):
                if self.slots not in (None, n):
                    raise ValueError(f"slots must be left out under ReplaceOne, where n = {n} answers come out")
                put(self, slots=n)
            case AddRemove():
                if self.slots is None:
                    raise ValueError(
                        "slots must be given under AddRemove: how many answers come out, whatever the data hold"
                    )
                put(self, slots=positive_integer(slots=self.slots))
        assert self.slots is not None
        holdable(self.slots, lower="slots" if isinstance(self.relation, AddRemove) else "n")

    @property
    def accountant(self) -> RandomizedResponseAccountant:
        """Exact; the same under both relations, since a free slot answers like a mixture of records."""
        return RandomizedResponseAccountant(log_odds=self.log_odds, categories=self.categories, relation=self.relation)

    @property
    def domain(self) -> Domain:
        """{0, ..., categories-1}; whatever is missing or outside counts as 0."""
        return Domain(low=0.0, high=self.categories - 1.0, missing=0.0, whole=True, outside_is_missing=True)

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """One column of category codes. Returns: draws "answers", integers of shape (1, slots). Raises: SchemaError."""
        source, account = generator(rng), charged(self, rng)
        truth = self._truth(data)
        answers = undisturbed(source, lambda: self._answers(truth, source))
        return Release(mechanism=self, draws={"answers": answers[None]}, account=account)

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
            title=f"{how_many(count, 'record')}, expected {self.domain.words}", facts=self.domain.counted(chunks(data))
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

    @classmethod
    def calibrate(cls, *, relation: Relation, target: Target, categories: int = 2, slots: int | None = None) -> Self:
        """The most truthful answers that meet the target, on the safe side. Raises: UnreachableTarget."""
        return largest(
            lambda odds: cls(log_odds=odds, relation=relation, categories=categories, slots=slots),
            lambda made: made.accountant,
            target,
            most=_MOST,
            advice="any log odds cost something",
        )
