"""Randomized response: each record's answer is the truth or a random category."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, count_noun, flag, number, positive_integer
from privsample._data import category_names, chunks, codes_of_names
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import drawing_assumptions
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.distributions.domains import Domain
from privsample.distributions.exact.categorical import Categorical, as_ball, uniform_integers
from privsample.distributions.record_format import ColumnFormat
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.codes import after_kernels, code_loss, with_innermost, worst_rows
from privsample.mechanisms.columns import read_column
from privsample.mechanisms.examples import Example
from privsample.mechanisms.frequencies import checked_release, frequency_errors
from privsample.mechanisms.neighbours import Draw, Neighbours, describe_records
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release
from privsample.relations import AddRemove, Relation, ReplaceOne, check_single_record_relation

_MOST = 30.0  # above it the probability of another answer is below the resolution of a double


@frozen_value
class RandomizedResponse(Mechanism):
    """Randomized response over K categories, one answer for each record.

    Each answer is e^log_odds times as likely to be the true category as any one other category. Under ReplaceOne(n) the
    n answers are in the order of the records. Under AddRemove the number of records is not public: `slots` answers are
    released in uniformly random order, those of the first `slots` records and uniform answers for missing records.
    `release` takes one column of category codes, and releases "answers", whole numbers of shape (1, slots). A code that
    is missing or outside {0, ..., K-1} counts as 0.

    Parameters
    ----------
    log_odds : float
        Log of how many times more likely the truth is than any one other category, in (0, 30], in nats.
    relation : Relation
        The neighbouring relation: `ReplaceOne(n=...)` or `AddRemove()`.
    categories : int, default 2
        Number K of categories, coded 0, ..., K-1, >= 2.
    slots : int, optional
        Number of released answers, >= 1: required under AddRemove, left out under ReplaceOne, where it is n.
    names : tuple of str, default ()
        Public names of the K categories. With names, a column may also hold text: each name counts as its place in the
        list, and any other text as category 0. The release keeps the names.
    exact : bool, default True
        Whether the answers are drawn exactly, from random bits and without rounding. False draws them with
        floating-point numbers, and the account then assumes IDEAL_REALS.

    Raises
    ------
    ValueError
        If a field lies outside its range, or `slots` does not fit the relation.

    Notes
    -----
    Warner 1965 (two categories); Kairouz, Bonawitz and Ramage 2016 (more). Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.RandomizedResponse(log_odds=2.0, relation=ps.ReplaceOne(n=5), categories=3)
    >>> release = mechanism.release([0, 2, 2, 1, 0])
    >>> release["answers"].shape, round(float(mechanism.accountant.epsilon(0.0)), 6)
    ((1, 5), 2.0)
    >>> mechanism.frequencies(release).shape
    (3,)
    """

    log_odds: float
    relation: Relation
    categories: int = 2
    slots: int | None = None
    names: tuple[str, ...] = ()
    exact: bool = True
    free_parameters = (FreeParameter(name="log_odds", upper=_MOST, advice="ask for epsilon > 0 or delta > 0"),)
    command = CommandLine(
        data=("column",),
        help={
            "log_odds": "log of how many times likelier the truth is than any one other category",
            "categories": "the number of categories, coded 0, 1, ... (default: 2)",
            "slots": "under add-remove: the public number of released answers",
        },
        arguments={"names": None},
    )

    def __post_init__(self) -> None:
        if number(log_odds=self.log_odds) > _MOST:
            raise ValueError(f"log_odds must be at most {_MOST:g}: above it no other answer would ever be drawn")
        set_fields(self, exact=flag(exact=self.exact))
        account = self.accountant  # checks log_odds and categories
        set_fields(self, log_odds=account.log_odds, categories=account.categories)
        set_fields(self, names=category_names(self.names, account.categories))
        match check_single_record_relation(self.relation):
            case ReplaceOne(n=n):
                if self.slots is not None and positive_integer(slots=self.slots) != n:
                    raise ValueError(f"slots must be left out under ReplaceOne, where n = {n} answers are released")
                set_fields(self, slots=n)
            case AddRemove():
                if self.slots is None:
                    raise ValueError("slots must be given under AddRemove: the public number of released answers")
                set_fields(self, slots=positive_integer(slots=self.slots))
        assert self.slots is not None
        check_memory(self.slots, lower="slots" if isinstance(self.relation, AddRemove) else "n")

    @cached
    def accountant(self) -> RandomizedResponseAccountant:
        """The exact account, the same under both relations.

        Under AddRemove the answer for a missing record has a mixture of the distributions of the records' answers.
        """
        return RandomizedResponseAccountant(
            log_odds=self.log_odds,
            categories=self.categories,
            relation=self.relation,
            assumptions=drawing_assumptions(exact=self.exact),
        )

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        del data
        return {"category": self.names} if self.names else {}

    @property
    def domain(self) -> Domain:
        """The codes {0, ..., categories-1}; values that are missing or outside count as 0."""
        return Domain(low=0.0, high=self.categories - 1.0, missing=0.0, integer_valued=True, outside_is_missing=True)

    @property
    def quantity(self) -> str:
        """The label "answer"."""
        return "answer"

    @property
    def description(self) -> str:
        """How much more likely the truth is than another category, in one sentence."""
        return (
            f"Each record answered separately: each answer is {np.exp(self.log_odds):.3g} times as likely to be the "
            "truth as any one other category."
        )

    def for_size(self, size: int) -> "RandomizedResponse":
        """Under ReplaceOne, the same mechanism with `size` answers; under AddRemove, the mechanism itself."""
        if not isinstance(self.relation, ReplaceOne):
            return self
        return replace(self, relation=replace(self.relation, n=size), slots=None)

    @property
    def record_format(self) -> ColumnFormat:  # type: ignore[override]
        """One column of codes or names."""
        return ColumnFormat(names=self.names)

    def code_count(self) -> int:
        """The number of categories."""
        return self.categories

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that reports the true category too often."""
        example = cls(log_odds=0.5, relation=ReplaceOne(n=1))
        return (Example.with_wrong_fields("randomized-response", example, log_odds=0.6, bug="the truth too often"),)

    def extreme_records(self) -> FloatArray:
        """All categories are equivalent: two that are exchanged, and a third for the other records."""
        return np.arange(min(self.categories, 3.0))

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """A group whose records are all of one category or all of another; any two categories are equivalent."""
        group = positive_integer(group=group)
        return self._pairs(self, self._distributions(2), np.array([[0, 1]]), group)

    def worst_neighbours_through(
        self, outer: Mechanism, kernels: tuple[FloatArray, ...], group: int
    ) -> tuple[Neighbours, ...]:
        """A group whose records are all of one of the two categories that the kernels leave most different."""
        ends = np.transpose(np.triu_indices(self.categories, 1))
        return self._pairs(outer, after_kernels(self._distributions(self.categories), kernels), ends, group)

    def _pairs(
        self, outer: Mechanism, distributions: FloatArray, ends: NDArray[np.int64], group: int
    ) -> tuple[Neighbours, ...]:
        """The pairs of a group of records, for the categories in `ends`.

        Under AddRemove the only slot holds the first record; without that record it holds the next one. Records answer
        independently, so one release of many records gives as many draws.
        """
        assert self.slots is not None
        replaced = isinstance(self.relation, ReplaceOne)
        if not replaced and (self.slots, group) != (1, 1):
            raise ValueError("answers in random order are not audited here; audit one record with slots = 1")
        if group > self.slots:
            raise ValueError(f"a group must be no larger than n = {self.slots}, got {group}")

        def draw(data: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
            return self._many_answers(outer, np.broadcast_to(data[:1], (count * group,)), rng).reshape(count, group)

        def pair(a: int, b: int) -> Neighbours:
            one, other = (describe_records(group, np.array(code)) for code in (a, b))
            return Neighbours(
                account=outer.accountant,
                descriptions=(one if replaced else f"{one} and {other}", other),
                datasets=(lambda: np.full(group, a) if replaced else np.array([a, b]), lambda: np.full(group, b)),
                draw=draw,
                loss=code_loss(distributions[a], distributions[b]),
                width=group,
            )

        return tuple(pair(*found) for found in worst_rows(distributions, ends))

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        """One release of many copies of the data; None for shuffled answers, which depend on each other."""
        if not isinstance(self.relation, ReplaceOne):
            return None

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            self._truth(data)  # raises SchemaError before data of a wrong size are repeated
            return self._many_answers(outer, np.tile(read_column(data), count), rng).reshape(count, -1)

        return draw

    def _many_answers(self, outer: Mechanism, records: FloatArray, rng: np.random.Generator) -> FloatArray:
        many = with_innermost(outer, self, replace(self, relation=ReplaceOne(n=len(records)), slots=None))
        return many.release(records, rng=rng)["answers"]

    def _distributions(self, records: int) -> FloatArray:
        """Distributions of the answers to the first `records` categories, shape (records, categories)."""
        weights = np.exp(self.log_odds * (np.eye(records, self.categories) - 1.0))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _statistic(self, data: Any) -> NDArray[np.int64]:
        return self._truth(data)

    def _draw(self, statistic: NDArray[np.int64], rng: np.random.Generator) -> Draws:
        return {"answers": self._answers(statistic, rng)[None]}

    def _answers(self, truth: NDArray[np.int64], source: np.random.Generator) -> NDArray[np.int64]:
        assert self.slots is not None
        if self.exact:
            answers = uniform_integers(self.categories, self.slots, source)
            truthful = self._truthful.draw(len(truth), source) == 0
        else:
            answers = source.integers(0, self.categories, self.slots)
            truthful = source.random(len(truth)) < self._truth_probability
        answers[: len(truth)] = np.where(truthful, truth, answers[: len(truth)])
        if isinstance(self.relation, AddRemove):
            source.shuffle(answers)
        return answers

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        count = len(self._truth(data, every=True))
        return CuratorNotes(
            title=f"{count_noun(count, 'record')}, expected {self.domain.description}",
            facts=self.domain.count_problems(chunks(codes_of_names(data, self.names))),
        )

    def _truth(self, data: Any, *, every: bool = False) -> NDArray[np.int64]:
        """The codes of the records, at most as many as there are slots."""
        codes = [self.domain.clean(chunk).astype(np.int64) for chunk in chunks(codes_of_names(data, self.names))]
        truth = np.concatenate([np.empty(0, dtype=np.int64), *codes])
        assert self.slots is not None
        if isinstance(self.relation, ReplaceOne) and len(truth) != self.slots:
            raise SchemaError(f"n = {self.slots} records were declared, the data hold {len(truth)}")
        return truth if every else truth[: self.slots]

    @cached
    def _truthful(self) -> Categorical:
        """0 with the probability of answering the truth directly, (e^c - 1)/(e^c - 1 + K) at log odds c, else 1."""
        return Categorical.of_balls(lambda _: [as_ball(self.log_odds).expm1(), as_ball(self.categories)])

    @property
    def _truth_probability(self) -> float:
        """Probability of answering the truth directly; otherwise the answer is uniform over all categories."""
        return float(-np.expm1(-self.log_odds) / (1 + (self.categories - 1) * np.exp(-self.log_odds)))

    def frequencies(self, release: Release) -> FloatArray:
        """Unbiased estimates of the category frequencies from a release. This is post-processing and costs no privacy.

        Parameters
        ----------
        release : Release
            A release of this mechanism.

        Returns
        -------
        numpy.ndarray of float
            Estimated share of the slots for each category, shape (categories,); estimates may be negative or exceed 1.

        Raises
        ------
        TypeError, ValueError
            If `release` is not a Release of this mechanism.
        """
        answers = checked_release(release, self)["answers"].ravel()
        observed = np.bincount(answers, minlength=self.categories) / answers.size
        return (observed - (1 - self._truth_probability) / self.categories) / self._truth_probability

    def frequency_errors(self, release: Release) -> FloatArray:
        """Standard errors of `frequencies`, from a release. This is post-processing and costs no privacy.

        Parameters
        ----------
        release : Release
            A release of this mechanism.

        Returns
        -------
        numpy.ndarray of float
            Standard errors of the estimates as frequencies of a population from which the records are drawn, shape
            (categories,). As frequencies of these records, the estimates have smaller errors.

        Raises
        ------
        TypeError, ValueError
            If `release` is not a Release of this mechanism.
        """
        answers = checked_release(release, self)["answers"].ravel()
        shares = np.bincount(answers, minlength=self.categories) / answers.size
        return frequency_errors(self._distributions(self.categories), shares, answers.size)
