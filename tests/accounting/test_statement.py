"""What is published is never below what was computed."""

import itertools

import numpy as np
import pytest

import privsample as ps
from privsample import (
    DP,
    Accountant,
    Assumption,
    DiffusedPosterior,
    GaussianAccountant,
    PureAccountant,
    privacy_statement,
)
from privsample import BetaBernoulli as Beta
from privsample.accounting.statement import rounded_up, shown_epsilon
from tests.cases import in_one_test

PUBLIC = [getattr(ps, name) for name in ps.__all__]
ACCOUNTS = [one for one in PUBLIC if isinstance(one, type) and issubclass(one, Accountant)]


@in_one_test(itertools.product([1.0, 0.99951, 1.23401, 9.9991, 1e-9, 3.0000000001, 1234.4, 7e5], [2, 3, 4]))
def test_rounding_goes_up_by_less_than_one_unit(x, digits):
    assert x <= rounded_up(x, digits) <= x * (1 + 10.0 ** (1 - digits) + 1e-12)


@pytest.mark.parametrize("epsilon", [1.00004, 0.123449, 2.00001, 1.00049])
def test_a_number_just_above_four_digits_is_not_rounded_down(epsilon):
    account = PureAccountant(stated_epsilon=epsilon)
    shown = shown_epsilon(account, 0.0)
    assert epsilon <= shown <= epsilon * 1.001
    assert f"(epsilon = {shown:.4g})" in privacy_statement(account, 0.0)


@pytest.mark.parametrize("noise_std", [0.7, 3.21, 40.0])
def test_what_is_shown_is_certified(noise_std):
    account = GaussianAccountant(sensitivity=1, noise_std=noise_std)
    assert account.log_delta(shown_epsilon(account, 1e-6)) <= np.log(1e-6)


def test_an_infinite_cost_promises_nothing():
    account = GaussianAccountant(sensitivity=1, noise_std=2)
    assert privacy_statement(account, 0.0).startswith("At delta = 0 there is no guarantee")


def test_a_calibrated_mechanism_shows_its_target():
    target = DP(epsilon=1.0, delta=1e-6)
    for draws in (1, 3):
        mechanism = DiffusedPosterior.calibrate(model=Beta(alpha=6, beta=12), n=569, target=target, draws=draws)
        assert shown_epsilon(mechanism.accountant, 1e-6) == 1.0
        assert "at most 2.72 (epsilon = 1)" in privacy_statement(mechanism.accountant, 1e-6)


@in_one_test(
    [
        *((cls, frozenset({"stated"})) for cls in ACCOUNTS),
        *((PureAccountant, wrong) for wrong in (None, "trust me", {Assumption.STATED})),
    ],
)
def test_assumptions_are_known_ones(cls, wrong):
    with pytest.raises(TypeError, match=r"assumptions must be a frozenset of Assumption's members, got"):
        cls(assumptions=wrong)


def test_the_risk_of_an_allocated_epoch_is_said_in_words():
    base = GaussianAccountant(sensitivity=1, noise_std=1)
    epoch = ps.SubsampledAccountant(base=base, scheme=ps.RandomAllocation(steps=100))  # its Rényi curve is expensive
    assert "is right at most 1.45 times in a hundred with it" in privacy_statement(epoch)
