"""For each requirement, a class that violates this requirement only: the violation must be reported by name."""

import pickle
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest

import privsample as ps
from privsample import _registry
from privsample.errors import SchemaError
from privsample.testing import RequirementViolated, check_accountant, check_mechanism
from privsample.testing.accounts import ACCOUNT_REQUIREMENTS
from privsample.testing.checks import _REQUIREMENTS

ROOT = Path(ps.__file__).parents[1]
sys.path.append(str(ROOT / "examples" / "extension" / "src"))

with mock.patch.multiple(_registry, _BY_CLASS={}, _BY_NAME={}):  # registered for the tests of this file only
    from private_majority import MajorityAccountant, PrivateMajority

EXPENSIVE = {"files", "ledger", "calibrate", "repeated-release", "composition"}
MORE_AUDITS = {"many-draws", "other-pairs"}
TIE = ps.DiscretePair(log_p=np.log([0.5, 0.5]), log_q=np.log([0.75, 0.25]))


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(_registry, "_BY_CLASS", {})
    monkeypatch.setattr(_registry, "_BY_NAME", {})
    for cls in (
        MajorityAccountant,
        PrivateMajority,
        ForgetsTheOther,
        *MECHANISMS.values(),
        *ACCOUNTANTS.values(),
        *MISTAKES,
    ):
        if cls not in (NeverRegistered, NeverRegisteredAccountant):
            ps.register(cls, package="requirements")


class EachIsItsOwn(PrivateMajority):
    __eq__, __hash__ = object.__eq__, object.__hash__


@dataclass(frozen=True, kw_only=True)
class HoldsAList(PrivateMajority):
    rates: list

    @classmethod
    def examples(cls):
        return (ps.Example.with_wrong_fields("lists", cls(rate=1.0, rates=[1.0]), bug="none", rate=1.5),)


class PricedByTheData(PrivateMajority):
    records: ClassVar = [0]

    @property
    def accountant(self):
        return MajorityAccountant(rate=self.rate + self.records[0])

    def _statistic(self, data):
        self.records[0] = len(data)
        return super()._statistic(data)


class TakesAnyForm(PrivateMajority):
    def _statistic(self, data):
        return super()._statistic(np.ravel(data))


class DrawsBeforeItReads(PrivateMajority):
    def _check_generator(self, rng):
        rng.random()


class RefusesARecord(PrivateMajority):
    def _statistic(self, data):
        if np.isnan(ps.read_column(data)).any():
            raise SchemaError("an answer is missing")
        return super()._statistic(data)


class FailsForText(PrivateMajority):
    def _statistic(self, data):
        return super()._statistic(np.array(data, dtype=np.float64) if isinstance(data, list) else data)


class NeedsARecord(PrivateMajority):
    def _statistic(self, data):
        if len(ps.read_column(data)) == 0:
            raise SchemaError("there are no answers")
        return super()._statistic(data)


class ShapedByTheData(PrivateMajority):
    def _draw(self, lead, rng):
        return {"majority": np.zeros((self.draws, 1 + int(lead > 0)), dtype=np.int64)}


class ForgetsDraws(PrivateMajority):
    def _draw(self, lead, rng):
        return {"majority": np.append(super()._draw(lead, rng)["majority"], 0)}


class ChangesItsStatistic(PrivateMajority):
    def _statistic(self, data):
        return np.array([super()._statistic(data)])

    def _draw(self, lead, rng):
        lead += 1
        return super()._draw(lead[0], rng)


class ChangesItsData(PrivateMajority):
    def _statistic(self, data):
        if isinstance(data, np.ndarray) and data.size and data.dtype == np.float64:
            data[...] = 0
        return super()._statistic(data)


class OwnEntropy(PrivateMajority):
    def _draw(self, lead, rng):
        return super()._draw(lead, np.random.default_rng())


class GlobalState(PrivateMajority):
    def _draw(self, lead, rng):
        np.random.random()  # noqa: NPY002
        return super()._draw(lead, rng)


class FixedSeed(PrivateMajority):
    def _draw(self, lead, rng):
        return super()._draw(lead, np.random.default_rng(0))


class SpawnsGenerators(PrivateMajority):
    def _draw(self, lead, rng):
        return super()._draw(lead, rng.spawn(1)[0])


class ReadsByAnotherRule(PrivateMajority):
    def validate(self, data):
        np.array(data, dtype=np.float64)
        return super().validate(data)


class SearchesTheWrongWay(PrivateMajority):
    free_parameters = (ps.FreeParameter(name="rate", direction="smallest", advice="none"),)


class StopsTooEarly(PrivateMajority):
    free_parameters = (ps.FreeParameter(name="rate", upper=0.5, advice="none"),)


class NeverRegistered(PrivateMajority):
    pass


class NeverRegisteredAccountant(MajorityAccountant):
    pass


class OfNeverRegistered(PrivateMajority):
    @property
    def accountant(self):
        return NeverRegisteredAccountant(rate=self.rate)


class ForgetsTheOther(MajorityAccountant):
    def __add__(self, other):
        return ps.Composed(entries=((self if isinstance(other, type(self)) else other, 1),))


class OfForgetsTheOther(PrivateMajority):
    @property
    def accountant(self):
        return ForgetsTheOther(rate=10.0)


class NoNeighbours(PrivateMajority):
    worst_neighbours = ps.Mechanism.worst_neighbours


class TooFarApart(PrivateMajority):
    def worst_neighbours(self, group=1):
        return super().worst_neighbours(group + 1)


class PricesAnotherPair(PrivateMajority):
    def worst_neighbours(self, group=1):
        (pair,) = super().worst_neighbours(group)
        return (replace(pair, account=MajorityAccountant(rate=2 * self.rate)),)


class Understated(PrivateMajority):
    @property
    def accountant(self):
        return self.draws * MajorityAccountant(rate=self.rate / 2)

    def worst_neighbours(self, group=1):
        (pair,) = super().worst_neighbours(group)
        return (replace(pair, account=MajorityAccountant(rate=self.rate / 2)),)


class PaysForOneDraw(PrivateMajority):
    @property
    def accountant(self):
        return MajorityAccountant(rate=self.rate)


class RemembersTheLastData(PrivateMajority):
    leads: ClassVar = [0]

    def _statistic(self, data):
        lead = super()._statistic(data)
        self.leads.append(lead)
        return lead + self.leads[-2]


class RemembersAndDrawsRealNumbers(RemembersTheLastData):
    """Few generators tell its draws apart."""

    leads: ClassVar = [0]

    def _draw(self, lead, rng):
        return {"majority": super()._draw(lead, rng)["majority"] + lead + rng.random()}


class OwnEntropyOfRealNumbers(PrivateMajority):
    def _draw(self, lead, rng):
        return {"majority": super()._draw(lead, rng)["majority"] + np.random.default_rng().random()}


class ReleasesTheCount(PrivateMajority):
    """Besides the answer, which alone its worst_neighbours draw."""

    def _statistic(self, data):
        return super()._statistic(data), len(ps.read_column(data))

    def _draw(self, statistic, rng):
        return {**super()._draw(statistic[0], rng), "records": np.full((self.draws, 1), statistic[1])}


class SubtleMutant(PrivateMajority):
    @classmethod
    def examples(cls):
        return (ps.Example.with_wrong_fields("subtle", cls(rate=1.0), bug="almost none", samples=500, rate=1.001),)


class NoExamples(PrivateMajority):
    @classmethod
    def examples(cls):
        return ()


MECHANISMS = {
    "equal-values": EachIsItsOwn,
    "equal-values: a list": HoldsAList,
    "account-of-fields": PricedByTheData,
    "schema-first": TakesAnyForm,
    "schema-first: drawn before": DrawsBeforeItReads,
    "total-release": RefusesARecord,
    "total-release: text": FailsForText,
    "empty-data": NeedsARecord,
    "draw-shape": ShapedByTheData,
    "draw-shape: draws": ForgetsDraws,
    "inputs-unchanged": ChangesItsStatistic,
    "inputs-unchanged: data": ChangesItsData,
    "own-generator": OwnEntropy,
    "own-generator: global": GlobalState,
    "own-generator: fixed": FixedSeed,
    "own-generator: real numbers": OwnEntropyOfRealNumbers,
    "entropy-failure": SpawnsGenerators,
    "validate": ReadsByAnotherRule,
    "calibrate": SearchesTheWrongWay,
    "calibrate: upper": StopsTooEarly,
    "composition": OfForgetsTheOther,
    "files": NeverRegistered,
    "ledger": OfNeverRegistered,
    "neighbours": NoNeighbours,
    "neighbours: too far": TooFarApart,
    "neighbours: account": PricesAnotherPair,
    "audit": Understated,
    "many-draws": PaysForOneDraw,
    "no-memory": RemembersTheLastData,
    "no-memory: real numbers": RemembersAndDrawsRealNumbers,
    "other-pairs": ReleasesTheCount,
    "mutant": SubtleMutant,
    "examples": NoExamples,
}


class TwiceTheRate(PrivateMajority):
    def _draw(self, lead, rng):
        return super()._draw(2 * lead, rng)


class WrongRelation(PrivateMajority):
    @property
    def accountant(self):
        return self.draws * MajorityAccountant(rate=self.rate, relation=ps.ReplaceOne(n=3))


class BranchesOnTheData(PrivateMajority):
    """A clear lead is released as it is."""

    def _draw(self, lead, rng):
        drawn = super()._draw(lead, rng)["majority"]
        return {"majority": np.full_like(drawn, lead > 0) if abs(lead) > 1 else drawn}


class TooLittleNoiseInOneDirection(PrivateMajority):
    """Which its worst_neighbours do not look at."""

    def _draw(self, lead, rng):
        return super()._draw(lead if lead > 0 else 3 * lead, rng)


class BoundsNoRecord(PrivateMajority):
    def _statistic(self, data):
        answers = np.nan_to_num(ps.read_column(data))
        return (2 * answers).sum() - len(answers)


class LaterDrawsAreExact(PrivateMajority):
    def _draw(self, lead, rng):
        drawn = super()._draw(lead, rng)["majority"]
        drawn[1:] = lead > 0
        return {"majority": drawn}


class SharesOneNoise(PrivateMajority):
    """Its draws differ by exact multiples of the lead."""

    def _draw(self, lead, rng):
        return {"majority": super()._draw(lead, rng)["majority"] + lead * np.arange(self.draws)}


class AccountOfHalfTheRate(PrivateMajority):
    @property
    def accountant(self):
        return self.draws * MajorityAccountant(rate=self.rate / 2)


class AccountOfTheSquareRoot(PrivateMajority):
    """As of the standard deviation of a sum."""

    @property
    def accountant(self):
        return MajorityAccountant(rate=self.rate * self.draws**0.5)


class SeededByTheData(PrivateMajority):
    def _draw(self, lead, rng):
        return super()._draw(lead, np.random.default_rng(abs(int(lead))))


class MentionsTheRecordInAWarning(PrivateMajority):
    def _statistic(self, data):
        answers = ps.read_column(data)
        if (answers > 1).any():
            warnings.warn(f"answer {answers.max()} is out of range", stacklevel=2)
        return super()._statistic(data)


# Mistakes of which it does not matter which requirement finds them.
MISTAKES = (
    TwiceTheRate,
    WrongRelation,
    BranchesOnTheData,
    TooLittleNoiseInOneDirection,
    BoundsNoRecord,
    LaterDrawsAreExact,
    SharesOneNoise,
    AccountOfHalfTheRate,
    AccountOfTheSquareRoot,
    SeededByTheData,
    MentionsTheRecordInAWarning,
)


class EachAccountIsItsOwn(MajorityAccountant):
    __eq__, __hash__ = object.__eq__, object.__hash__


@dataclass(frozen=True, kw_only=True)
class HidesAMethod(MajorityAccountant):
    delta: float = 0.5


class WithoutBounds(MajorityAccountant):
    def _bounds(self):
        return (TIE,)


class CertainFailure(MajorityAccountant):
    def _bounds(self):
        return ps.PrivacyBounds.from_pairs([TIE, TIE.reverse()], infinity_mass=1.5)


class FallingRenyi(MajorityAccountant):
    def _bounds(self):
        return ps.PrivacyBounds.from_renyi(lambda orders: 1 / orders)


class LowCeiling(MajorityAccountant):
    def _bounds(self):
        return ps.PrivacyBounds.from_pairs([TIE, TIE.reverse()], pure_epsilon=0.01)


@dataclass(frozen=True)
class WrongPair(ps.LossPair):
    """The tie, with one of its answers wrong."""

    wrong: str

    def log_delta(self, epsilon):
        if self.wrong == "curve":
            return 0.1 * np.asarray(epsilon) - 3.0
        return TIE.log_delta(epsilon)

    def renyi(self, orders):
        return TIE.renyi(orders) * (1e-3 if self.wrong == "renyi" else 1.0)

    def least_epsilon(self, log_delta):
        return super().least_epsilon(log_delta) * (0.5 if self.wrong == "inverse" else 1.0)

    @property
    def max_divergence(self):
        return np.inf if self.wrong == "curve" else TIE.max_divergence

    def reverse(self):
        return self if self.wrong == "reverse" else TIE.reverse()


def bounded_by(wrong):
    class Wrong(MajorityAccountant):
        def _bounds(self):
            pair = WrongPair(wrong)
            return ps.PrivacyBounds.from_pairs([pair, pair.reverse()], curve_is_least=True)

    Wrong.__name__ = Wrong.__qualname__ = f"Wrong{wrong.title()}"
    globals()[Wrong.__name__] = Wrong
    return Wrong


class SameForGroups(MajorityAccountant):
    def group(self, size):
        return self


class CheapForGroups(MajorityAccountant):
    def group(self, size):
        return replace(self, rate=self.rate / size, relation=self.relation.group(size))


class OnceForAll(MajorityAccountant):
    def __rmul__(self, times):
        return ps.Composed(entries=((self, 1),))


ACCOUNTANTS = {
    "account-value": EachAccountIsItsOwn,
    "account-value: hidden": HidesAMethod,
    "account-bounds": WithoutBounds,
    "account-bounds: mass": CertainFailure,
    "renyi-curve": FallingRenyi,
    "renyi-curve: ceiling": LowCeiling,
    "privacy-curve": bounded_by("curve"),
    "epsilon-inverts-delta": bounded_by("inverse"),
    "one-pair-two-curves": bounded_by("renyi"),
    "group": SameForGroups,
    "group: cheap": CheapForGroups,
    "repeated-release": OnceForAll,
    "stored-account": NeverRegisteredAccountant,
}


@pytest.mark.parametrize("case", MECHANISMS)
def test_a_broken_mechanism_violates_its_requirement(case):
    requirement = case.partition(":")[0]
    skip = ((EXPENSIVE | MORE_AUDITS) - {requirement}) | (
        {"files", "stored-account"} if requirement == "ledger" else set()
    )
    with pytest.raises(RequirementViolated) as caught:
        check_mechanism(MECHANISMS[case], skip=skip)
    assert caught.value.requirement == requirement, str(caught.value)
    assert caught.value.advice in str(caught.value)
    assert f"violates the requirement {requirement!r}: " in str(caught.value)
    assert MECHANISMS[case].__name__ in caught.value.subject


@pytest.mark.parametrize("cls", MISTAKES)
def test_a_mistake_of_an_author_is_found(cls):
    with pytest.raises(RequirementViolated) as caught:
        check_mechanism(cls(rate=1.0), skip=EXPENSIVE)
    assert cls.__name__ in caught.value.subject


def test_at_least_thirty_mistakes_are_found():
    assert len({*MECHANISMS.values(), *ACCOUNTANTS.values(), *MISTAKES}) >= 30


@pytest.mark.parametrize("case", ACCOUNTANTS)
def test_a_broken_accountant_violates_its_requirement(case):
    with pytest.raises(RequirementViolated) as caught:
        check_accountant(ACCOUNTANTS[case](rate=1.0))
    assert caught.value.requirement == case.partition(":")[0], str(caught.value)


def test_a_sum_on_a_grid_is_accepted():
    """Its epsilon and its delta may come from two grids, which differ within the error of a grid."""
    account = ps.PureAccountant(stated_epsilon=1.0) + 2 * ps.GaussianAccountant(sensitivity=1.0, noise_std=0.5)
    assert all(checked.applied for checked in check_accountant(account) if checked.requirement != "one-pair-two-curves")


def test_each_requirement_has_a_broken_example():
    named = {case.partition(":")[0] for case in MECHANISMS} - {"examples"}
    accounts = {requirement.name for requirement in ACCOUNT_REQUIREMENTS}
    assert named == {requirement.name for requirement in _REQUIREMENTS} - accounts
    assert {case.partition(":")[0] for case in ACCOUNTANTS} == accounts


def test_a_broken_account_is_reported_for_its_mechanism():
    class Priced(PrivateMajority):
        @property
        def accountant(self):
            return ACCOUNTANTS["renyi-curve"](rate=self.rate)

    with pytest.raises(RequirementViolated, match="rdp must be nondecreasing in the order") as caught:
        check_mechanism(Priced(rate=1.0), skip=["equal-values"])
    assert caught.value.requirement == "renyi-curve"


def test_the_message_shows_the_case_and_what_to_do():
    with pytest.raises(RequirementViolated) as caught:
        check_mechanism(RefusesARecord)
    text = str(caught.value)
    assert "for a record of nan, array([nan])" in text
    assert "release raised SchemaError('an answer is missing'); with ordinary records it raised nothing" in text
    assert "What to do: let a public rule map every value" in text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_what_is_skipped_or_not_applicable_is_listed():
    checked = check_mechanism(
        ps.GaussianSum(bounds=(0, 1), noise_std=2, relation=ps.ReplaceOne(n=3)),
        skip=["files", "ledger", "audit", *MORE_AUDITS],
    )
    notes = {requirement.requirement: requirement.note for requirement in checked if not requirement.applied}
    assert notes["files"] == "skipped by the caller"
    assert notes["empty-data"] == "the number of records is public"
    assert "mutant" in notes
    assert [requirement.requirement for requirement in checked] == [requirement.name for requirement in _REQUIREMENTS]


def test_what_worst_neighbours_refuse_in_words_is_no_fault():
    class Searched(PrivateMajority):
        def worst_neighbours(self, group=1):
            raise TypeError("they are searched for")

    with pytest.raises(TypeError, match="data must be given for Searched"):
        check_mechanism(Searched(rate=1.0))
    skip = [
        requirement.name
        for requirement in _REQUIREMENTS
        if requirement.name not in ("neighbours", "audit", "draw-shape")
    ]
    checked = check_mechanism(Searched(rate=1.0), data=np.ones(2), skip=skip)
    notes = {requirement.requirement: requirement.note for requirement in checked if "skipped" not in requirement.note}
    assert notes == {
        "draw-shape": "",
        "neighbours": "worst_neighbours() raised TypeError: they are searched for",
        "audit": "worst_neighbours() raised TypeError: they are searched for",
    }


def test_what_must_be_refused_can_be_added():
    others = [requirement.name for requirement in _REQUIREMENTS if requirement.name != "schema-first"]
    check_mechanism(PrivateMajority(rate=1.0), wrong_data=[3.0, "text"], skip=others)
    with pytest.raises(RequirementViolated, match="release took wrong_data, "):
        check_mechanism(PrivateMajority(rate=1.0), wrong_data=[[0, 1]], skip=others)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: check_mechanism(3), TypeError, "subject must be a mechanism"),
        (lambda: check_mechanism(PrivateMajority, skip="files"), TypeError, r"write skip=\['files'\]"),
        (
            lambda: check_mechanism(PrivateMajority, skip=["unheard"]),
            ValueError,
            "skip must name requirements, got 'unheard'",
        ),
        (lambda: check_mechanism(PrivateMajority, samples=0), ValueError, "samples must be at least 1"),
        (lambda: check_accountant(PrivateMajority), TypeError, "account must be an Accountant"),
    ],
)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()
