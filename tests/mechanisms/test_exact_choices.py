"""Exact choices of mechanisms: what is drawn has the distribution of the account, and what the account assumes."""

from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample._serial import decode, encode
from privsample.distributions.steps.kernels import ExactRows
from tests.given_words import GivenWords

ANSWERS = ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=3), categories=3)
ROWS = np.array([[0.1] * 10, [1.0] + [0.0] * 9, [0.7, 0.3 - 1e-10] + [0.0] * 8])


def test_the_truth_is_answered_with_exactly_its_probability():
    """Enclosed at 50 digits: (e - 1)/(e - 1 + 3)."""
    low, high = ANSWERS._truthful._boundaries(150)
    with mp.workdps(60):
        exact = (mp.e - 1) / (mp.e + 2) * mp.mpf(2) ** 150
    assert low[0] <= exact <= high[0] <= low[0] + 2


def test_rows_that_do_not_add_up_to_one_are_divided_by_their_exact_sum():
    """Ten doubles of 0.1 add up to more than 1; the account divides by the sum as well."""
    assert sum(map(Fraction, ROWS[0].tolist())) != 1
    rows = ExactRows(ROWS)
    rows.draw(np.array([0, 2]), GivenWords(0, 0))
    for state in (0, 2):
        weights = [Fraction(p) for p in ROWS[state].tolist()]
        low, high = rows._rows[state]._boundaries(100)
        for j in range(9):
            boundary = sum(weights[: j + 1]) / sum(weights) * 2**100
            assert low[j] <= boundary <= high[j] <= low[j] + 1
    base = ps.MarkovKernel(base=ANSWERS, matrix=ROWS)
    scaled = replace(base, matrix=ROWS * np.array([[1 - 5e-10], [1.0], [1 + 5e-10]]))
    assert base.accountant.epsilon(1e-3) == pytest.approx(scaled.accountant.epsilon(1e-3), rel=1e-9)


def test_the_stop_is_decided_by_all_bits_of_its_probability():
    base = ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=1))
    stop = ps.ConditionalSelection(base=base, threshold=0.0, stop_probability=0.3)._stops
    first = Fraction(0.3) * 2**63
    assert first.denominator == 1  # decided by one word
    assert stop.draw(2, GivenWords(2 * int(first) - 2, 2 * int(first))).tolist() == [0, 1]


def test_what_is_assumed_of_draws():
    ideal, stated = ps.Assumption.IDEAL_REALS, ps.Assumption.STATED
    kernel = ps.MarkovKernel(base=ANSWERS, matrix=ROWS)
    for exact in (ANSWERS, kernel):
        assert exact.accountant.assumptions == frozenset()
        assert replace(exact, exact=False).accountant.assumptions == {ideal}
        with pytest.raises(TypeError, match="exact must be True or False, got str"):
            replace(exact, exact="yes")
    assert replace(kernel, base=replace(ANSWERS, exact=False)).accountant.assumptions == {ideal}
    reset = ps.UniformReset(keep=0.4, low=0, high=2)
    inexact = replace(reset, exact=False)
    user = ps.StatedKernel(function=lambda x, rng: x, doeblin=1.0)
    for step, expected in ((reset, {stated}), (inexact, {stated, ideal}), (user, {stated, ideal})):
        assert ps.AppliedKernel(base=ANSWERS, kernel=step).accountant.assumptions == expected


def test_files_without_the_field_hold_floating_point_draws():
    for made in (ANSWERS, ps.UniformReset(keep=0.4, low=0, high=2), ps.MarkovKernel(base=ANSWERS, matrix=ROWS)):
        document = encode(made)
        former = {key: item for key, item in document.items() if key != "exact"}
        former["type"] = [*document["type"][:2], 1]
        assert decode(document) == made
        assert decode(former).exact is False


@pytest.mark.parametrize("exact", [True, False])
def test_both_ways_of_drawing_give_answers(exact, rng):
    made = ps.MarkovKernel(base=replace(ANSWERS, exact=exact), matrix=ROWS, exact=exact)
    answers = made.release([0, 1, 2], rng=rng)["answers"]
    assert answers.shape == (1, 3)
    assert ((answers >= 0) & (answers < 10)).all()
    reset = ps.UniformReset(keep=0.0, low=2, high=3, exact=exact)
    assert (reset.step(np.zeros(4), rng) >= 2).all()
    assert (replace(reset, keep=1.0).step(np.zeros(4), rng) == 0).all()
