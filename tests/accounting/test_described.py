"""The accounts of all example mechanisms, found by the registry, have the properties of every account."""

import inspect
from functools import cache

import numpy as np
import pytest

from privsample.simulations.audit.catalogue import catalogue
from tests.accounting import test_requirements
from tests.accounting.test_requirements import EPSILONS

EXAMPLES = catalogue()
DELTA = 1e-3


def distributions(*names):
    """The distributions of the other file that take these arguments."""
    tests = {
        name: test.hypothesis.inner_test
        for name, test in vars(test_requirements).items()
        if hasattr(test, "hypothesis")
    }
    return {
        name: distribution
        for name, distribution in tests.items()
        if tuple(inspect.signature(distribution).parameters) == names
    }


@cache
def account_of(name):
    return EXAMPLES[name].mechanism.accountant


def check(requirement, test, *arguments):
    """Run the test of one requirement; the failure names it."""
    try:
        test(*arguments)
    except AssertionError as error:
        error.add_note(f"The requirement is {requirement} of test_requirements.py.")
        raise


each_account = pytest.mark.parametrize("name", EXAMPLES)


# These take half a second or more: the group of two that an allocation's replaced record is, curves of allocations, the
# Rényi curves of samples, and compositions of grids. Their values are compared with references in tests of their own.
SLOW = {
    ("test_renyi_curve", "random-allocation"),
    ("test_every_private_release_has_a_positive_cost", "sampled-tempered-posterior"),
    ("test_add_remove_to_replace_one", "random-allocation"),
    ("test_add_remove_to_replace_one", "langevin-model-batches"),
    ("test_add_remove_to_replace_one", "poisson-sample"),
    ("test_every_private_release_has_a_positive_cost", "random-allocation"),
    ("test_privacy_curve", "random-allocation"),
    ("test_renyi_curve", "sample-from-a-table"),
    ("test_renyi_curve", "sample-without-replacement"),
    ("test_renyi_curve", "sampled-logistic-posterior"),
    ("test_renyi_curve", "sampled-tempered-posterior"),
}


SLOW_AT_A_DELTA = {("test_statement", "bernoulli-sampling"), ("test_routes", "laplace-post-noise")}


@each_account
def test_accounts_of_examples(name):
    account = account_of(name)
    for requirement, test in distributions("account").items():
        if (requirement, name) in SLOW:
            continue
        if requirement == "test_privacy_curve" and account.kind("delta") == "upper bound":
            bound = account.delta(EPSILONS[EPSILONS >= 0])  # a bound may be looser at 0 than below
            assert ((np.diff(bound) <= 0) & (bound[1:] >= 0) & (bound[:-1] <= 1)).all()
        else:
            check(requirement, test, account)
    for requirement, test in distributions("account", "delta").items():
        if (requirement, name) in SLOW_AT_A_DELTA:
            continue
        if requirement != "test_routes" or account.kind("epsilon") == "exact":  # explaining bounds takes seconds
            check(requirement, test, account, DELTA)


@pytest.mark.long
@pytest.mark.parametrize(("requirement", "name"), sorted(SLOW))
def test_slow_accounts_of_examples(requirement, name):
    check(requirement, distributions("account")[requirement], account_of(name))


@pytest.mark.long
@pytest.mark.parametrize(("requirement", "name"), sorted(SLOW_AT_A_DELTA))
def test_slow_accounts_of_examples_at_a_delta(requirement, name):
    check(requirement, distributions("account", "delta")[requirement], account_of(name), DELTA)


def test_the_requirements_are_found():
    assert {"test_renyi_curve", "test_privacy_curve", "test_round_trip"} <= set(distributions("account"))
    assert {"test_statement", "test_routes"} <= set(distributions("account", "delta"))
