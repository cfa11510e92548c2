"""Utilities of candidates: what records may move, exact totals, and clipped or unreadable values."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

import privsample as ps
from tests.mechanisms.candidates import CLASSES, NAMES, NUMBERS, of


def exact_numbers(totals):
    """The utilities as fractions."""
    return [Fraction(number.item()) * totals.unit for number in totals.numbers]


def change_ranges(utility, records, relation, size):
    """The largest change range over all datasets of the given records."""
    found = 0.0
    for data in combinations_with_replacement(records, size):
        base = utility.totals(utility.dataset(list(data), NUMBERS), NUMBERS, relation)
        for place in range(size):
            rest = [*data[:place], *data[place + 1 :]]
            others = [[*rest, record] for record in records] if isinstance(relation, ps.ReplaceOne) else [rest]
            for other in others:
                moved = utility.totals(utility.dataset(other, NUMBERS), NUMBERS, relation)
                found = max(found, float(np.ptp(moved - base)))
    return found


def exact_change_range(utility, records, relation, size):
    """The largest change range of the exact totals over all datasets of the given records, as a fraction."""
    found = Fraction(0)
    for data in combinations_with_replacement(records, size):
        base = exact_numbers(utility.exact_totals(utility.dataset(list(data), NUMBERS), NUMBERS, relation))
        removed = [[*data[:place], *data[place + 1 :]] for place in range(size)]
        replaced = isinstance(relation, ps.ReplaceOne)
        for other in [[*rest, record] for rest in removed for record in records] if replaced else removed:
            moved = exact_numbers(utility.exact_totals(utility.dataset(other, NUMBERS), NUMBERS, relation))
            changes = [a - b for a, b in zip(moved, base, strict=True)]
            found = max(found, max(changes) - min(changes))
    return found


AWKWARD = (0.1, 0.7)  # of which no double is a multiple of a step


@pytest.mark.parametrize("relation", [ps.AddRemove(), ps.ReplaceOne(n=10)])
@pytest.mark.parametrize(
    ("utility", "records"),
    [
        (ps.QuantileUtility(quantile=0.9), (0.0, 2.0, 9.0)),
        (ps.QuantileUtility(quantile=0.1), (0.0, 2.0, 9.0, 1.5)),
        (ps.QuantileUtility(quantile=1e-9), (0.0, 2.0, 9.0)),
        (ps.CountUtility(), (1.0, 2.0, np.nan)),
        (ps.SummedUtility(bounds=AWKWARD), ((-5.0, 2.0, 0.3), (2.0, 0.1, 0.7), (0.7, np.nan, 1 / 3))),
        (ps.SummedUtility(bounds=(-1e-280, 1e15)), ((0.0, 1e16, 1e14), (1e15, 0.0, 3e14))),
    ],
    ids=str,
)
def test_exact_totals_never_move_farther_than_stated(utility, records, relation):
    """Compared as fractions, without a tolerance."""
    found = exact_change_range(utility, records, relation, 10)
    assert found <= Fraction(float(utility.change_range(relation)))
    if getattr(utility, "quantile", 1.0) > 1e-6:  # at a quantile next to 0, ten records do not attain the range
        assert float(found) == pytest.approx(utility.change_range(relation), rel=3e-7)


def test_exact_sums_do_not_depend_on_the_order(rng):
    """The sum of doubles, which an inexact choice uses, does."""
    ratings, utility = rng.random((1000, 3)), ps.SummedUtility()
    one, other = (utility.exact_totals(rows, NUMBERS, ps.AddRemove()) for rows in (ratings, ratings[::-1]))
    assert one.numbers.tolist() == other.numbers.tolist()
    assert one.unit == other.unit
    assert utility.totals(ratings, NUMBERS, ps.AddRemove()) == pytest.approx(exact_numbers(one), rel=1e-7)
    rough = [utility.totals(rows, NUMBERS, ps.AddRemove()).tolist() for rows in (ratings, ratings[::-1])]
    assert rough[0] != rough[1]


class OwnUtility(ps.Utility):
    """A utility of a user, whose totals may be rounded."""

    def change_range(self, relation):
        return 1.0

    def totals(self, data, candidates, relation):
        return np.asarray(data, dtype=float)

    def problems(self, data, candidates):
        return {}


def test_what_exact_choices_assume():
    ideal = ps.Assumption.IDEAL_REALS
    for utility in (ps.CountUtility(), ps.SummedUtility(), ps.QuantileUtility()):
        for cls in CLASSES:
            exact = of(cls, utility=utility)
            assert exact.accountant.assumptions == frozenset()
            assert replace(exact, exact=False).accountant.assumptions == {ideal}
            assert exact.accountant.epsilon(1e-6) == replace(exact, exact=False).accountant.epsilon(1e-6)
    assert of(ps.PermuteAndFlip).accountant.assumptions == {ps.Assumption.TRUSTED_SENSITIVITY}
    assert of(ps.PermuteAndFlip, utility=OwnUtility()).accountant.assumptions == {ideal}
    assert of(ps.PermuteAndFlip, utility=OwnUtility(), rate=3).release([0.0, 1.0, 900.0])["selected"].tolist() == [2]
    with pytest.raises(TypeError, match="exact must be True or False"):
        of(ps.PermuteAndFlip, exact=1)


@pytest.mark.parametrize("relation", [ps.AddRemove(), ps.ReplaceOne(n=10)])
@pytest.mark.parametrize(
    ("utility", "records"),
    [
        (ps.QuantileUtility(), (0.0, 2.0, 9.0, np.nan)),
        (ps.QuantileUtility(quantile=0.9), (0.0, 2.0, 9.0)),
        (ps.QuantileUtility(quantile=0.2), (0.0, 2.0, 9.0)),
        (ps.CountUtility(), (1.0, 2.0, np.nan)),
        (ps.SummedUtility(bounds=(-1, 2)), ((-5.0, 2.0, 0.0), (2.0, 9.0, -1.0), (0.0, np.nan, np.inf))),
    ],
    ids=str,
)
def test_no_record_moves_utilities_farther_than_stated(utility, records, relation):
    stated = utility.change_range(relation)
    found = change_ranges(utility, records, relation, 10)
    assert found <= stated * (1 + 1e-12)
    assert found == pytest.approx(stated), "the range is attained"


def test_quantiles_and_counts():
    data = [1.0, 2.0, 2.0, 5.0, None, "x"]
    utility = ps.QuantileUtility(quantile=0.25)
    assert utility.totals(data, (0.0, 2.0, 3.0), ps.AddRemove()).tolist() == [-1.0, -0.5, -2.0]
    assert ps.CountUtility().totals(data, (2.0, 5.0, 1.0), ps.AddRemove()).tolist() == [2.0, 1.0, 1.0]
    assert ps.CountUtility().totals(["red", "none", 3, None], NAMES, ps.AddRemove()).tolist() == [1.0, 0.0, 0.0]
    assert of(ps.ExponentialMechanism, utility=ps.CountUtility()).validate(data).facts == {"equal to no candidate": 3}
    assert of(ps.ExponentialMechanism, utility=utility).validate(data).facts == {"missing": 2}


def test_ratings_are_clipped_and_told():
    mechanism = of(ps.ExponentialMechanism, utility=ps.SummedUtility(), candidates=NAMES)
    ratings = [[1, 0, 7], [None, "x", -3], [0.5, np.inf, 1]]
    assert mechanism.utility.totals(ratings, NAMES, mechanism.relation).tolist() == [1.5, 1.0, 2.0]
    assert exact_numbers(mechanism._statistic(ratings)) == [1.5, 1.0, 2.0]
    assert mechanism.validate(ratings).facts == {"missing": 2, "outside the bounds": 3}
    assert mechanism.validate([[1, 0, 1]]).facts == {}
    far = ps.SummedUtility(
        bounds=(1e15, 1e15 + 1)
    )  # the lower bound is subtracted first, so that sums keep the records
    assert far.totals([[1e15, 1e15 + 1]] * 1000, (1.0, 2.0), ps.AddRemove()).tolist() == [0.0, 1000.0]


def test_stated_utilities_are_clipped_and_told():
    mechanism = of(ps.PermuteAndFlip, utility=ps.StatedUtility(sensitivity=2, bounds=(0, 1)))
    assert mechanism.loss_range == 2.0
    assert exact_numbers(mechanism._statistic([5, -1, np.nan])) == [1.0, 0.0, 0.0]
    assert mechanism.validate([5, -1, np.nan]).facts == {"not finite": 1, "outside the bounds": 2}
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[1, 0, 0])
    assert exact_numbers(of(ps.PermuteAndFlip)._statistic(masked)) == [0.0, 2.0, 3.0]
    known = ps.StatedUtility(sensitivity=1, changes=[[1, 0.25, 0.5], [0.1, 0.1, 0.2]])
    assert of(ps.ExponentialMechanism, utility=known).accountant.pure_epsilon == 0.75
    assert {*known.assumptions} == {ps.Assumption.TRUSTED_SENSITIVITY}
    for group in (1, 2):
        for case in of(ps.ExponentialMechanism, utility=known).worst_neighbours(group):
            first, second = (data() for data in case.datasets)
            assert np.ptp(second - first) == pytest.approx(0.75 * group)


def test_a_function_of_the_data():
    def shares(data):
        return [np.mean(np.equal(data, name)) for name in NAMES]

    utility = ps.StatedUtility(sensitivity=1 / 4, function=shares)
    mechanism = of(ps.ExponentialMechanism, candidates=NAMES, rate=1e4, relation=ps.ReplaceOne(n=4), utility=utility)
    release = mechanism.release(["green", "red", "green", "blue"])
    assert mechanism.selected(release) == ("green",)
    assert release.coords == {"category": NAMES}
    with pytest.raises(TypeError, match="a function cannot be saved"):
        release.to_json()
    with pytest.raises(TypeError, match="worst neighbours of a function are not known"):
        mechanism.worst_neighbours()
    verdict = ps.audit(
        replace(mechanism, rate=1.0),
        datasets=(np.array(["red"] * 4), np.array(["red"] * 3 + ["blue"])),
        samples=500,
        rng=np.random.default_rng(0),
    )
    assert verdict.outcome == "CONSISTENT"
