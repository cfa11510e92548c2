"""Accounts of statistics that contain the number of records, against enumeration of what records can add."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from privsample import (
    AddRemove,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianAccountant,
    GaussianNoise,
    LaplaceAccountant,
    LaplaceNoise,
    NoisyStatistics,
    RecordSensitivity,
    ReplaceOne,
    StatisticsAccountant,
)
from privsample.distributions.models.sizes import BoundTotals, CodeCounts
from tests.accounting.moved import ORDERS
from tests.accounting.test_statistics import hockey_sticks
from tests.mechanisms.noisy import BINARY, FRACTIONAL, NORMAL, SURVEY, TIMES

EPSILONS = np.array([-0.4, 0.0, 0.3, 0.9, 1.7])
WHOLE = [DiscreteLaplaceNoise(scale=2.0), DiscreteGaussianNoise(noise_std=2.0)]
each_whole = pytest.mark.parametrize("noise", WHOLE, ids=lambda noise: noise.name)


def totals(low, high):
    return BoundTotals(low=Fraction(low), high=Fraction(high), labels=(str(low), str(high)), integer_valued=True)


def account(sized, noise, **fields):
    return StatisticsAccountant(differences=sized.sensitivity, n=None, noise=noise, **fields)


@each_whole
@pytest.mark.parametrize("high", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2])
def test_no_records_added_or_removed_cost_more_than_the_account(noise, high, group):
    """All contributions (high - x, x), with all signs: some records of a group are added, others removed."""
    sized = totals(0, high)
    found = account(sized, noise).group(group)
    each = [tuple(map(int, sized.exact((Fraction(x),), 1))) for x in range(high + 1)]
    signed = [(sign * a, sign * b) for a, b in each for sign in (1, -1)]
    moves = {tuple(np.sum(chosen, axis=0)) for chosen in itertools.product(signed, repeat=group)}
    worst, rdp, order = np.zeros(len(EPSILONS)), 0.0, 2.5
    k = np.arange(-60, 61.0)
    for move in moves:
        worst = np.maximum(worst, hockey_sticks(noise, move, EPSILONS, reach=45))
        logs = [order * noise.log_mass(k - m) + (1 - order) * noise.log_mass(k) for m in move]
        rdp = max(rdp, sum(np.logaddexp.reduce(log) for log in logs) / (order - 1))
    assert (found.delta(EPSILONS) >= worst * (1 - 1e-9)).all()
    assert found.rdp(order) >= rdp * (1 - 1e-12)
    exact = noise.name == "discrete laplace" or (high == 1 and group == 1)
    assert (found.kind("delta") == "exact") == exact
    if exact:
        assert found.delta(EPSILONS) == pytest.approx(worst, rel=1e-8)
        assert found.rdp(order) == pytest.approx(rdp, rel=1e-9)
    assert found.relation == AddRemove(members=group)


@each_whole
def test_counts_of_codes(noise):
    """A record of any code, and two records, added or removed, of the same code or of two."""
    codes = CodeCounts(codes=3, axis="category", labels=())
    one, two = account(codes, noise), account(codes, noise).group(2)
    assert one.delta(EPSILONS) == pytest.approx(hockey_sticks(noise, (1,), EPSILONS), rel=1e-9)
    for move in ((2,), (1, 1), (1, -1)):
        assert (two.delta(EPSILONS) >= hockey_sticks(noise, move, EPSILONS, reach=40) * (1 - 1e-9)).all()
    replaced = one.to(ReplaceOne(n=9))
    assert replaced.relation == ReplaceOne(n=9)
    assert (replaced.delta(EPSILONS) >= hockey_sticks(noise, (1, -1), EPSILONS, reach=40) * (1 - 1e-9)).all()
    assert replaced.kind("delta") == "upper bound"


@pytest.mark.parametrize("model", [BINARY, FRACTIONAL, SURVEY, TIMES, NORMAL], ids=lambda model: type(model).__name__)
def test_one_record_costs_as_much_as_a_shift_of_its_width(model):
    """Laplace and Gaussian noise: the privacy curves of one number that moves by the width of the bounds."""
    width = 1.0 if model.records_are_codes else model.domain.high - model.domain.low
    for noise, peer in (
        (LaplaceNoise(scale=2.0), LaplaceAccountant(sensitivity=width, scale=2.0)),
        (GaussianNoise(noise_std=2.0), GaussianAccountant(sensitivity=width, noise_std=2.0)),
    ):
        mechanism = NoisyStatistics(model=model, scale=2.0, noise=noise.name, unit="patient")
        found = mechanism.accountant
        assert found.relation == AddRemove(unit="patient")
        assert found.delta(EPSILONS) == pytest.approx(peer.delta(EPSILONS), rel=1e-9)
        assert found.rdp(ORDERS) == pytest.approx(peer.rdp(ORDERS), rel=1e-9)
        assert found.kind("delta") == "exact"
        three = NoisyStatistics(model=model, scale=2.0, noise=noise.name, draws=3).accountant
        assert three.rdp(ORDERS) == pytest.approx(3 * found.rdp(ORDERS), rel=1e-9)
        assert found.group(2).delta(EPSILONS) == pytest.approx(peer.group(2).delta(EPSILONS), rel=1e-9)


def test_two_totals_use_all_of_the_sensitivity():
    """At the same account, the sum and the number have half the variance of a sum about the middle and a count."""
    scale, width = 1.0, 2.0  # records from -1 to 1
    ends = account(totals(-1, 1), LaplaceNoise(scale=scale))
    middle = RecordSensitivity(differences=[[1.0, 1.0]])  # of (x, 1), noise of the same scale on both
    centred = StatisticsAccountant(differences=middle, n=None, noise=LaplaceNoise(scale=scale))
    assert ends.pure_epsilon == centred.pure_epsilon == width / scale
    variance = LaplaceNoise(scale=scale).variance
    assert 2 * variance / width**2 == 0.5 * variance  # of n = (first + second) / width, against that of the count
    assert 2 * (1 / 2) ** 2 * variance == 0.5 * variance  # of the sum (second - first) / 2


def test_a_width_between_doubles_is_rounded_up():
    wide = BoundTotals(low=Fraction(-1, 3), high=Fraction(1), labels=("a", "b"), integer_valued=False)
    assert Fraction(float(wide.sensitivity.differences.max())) >= Fraction(4, 3)
