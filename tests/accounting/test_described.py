"""The accounts of all example mechanisms, found by the registry, have the properties of every account."""

import inspect
import itertools

import numpy as np
import pytest

from privsample.simulations.audit.catalogue import catalogue
from tests.accounting import test_requirements
from tests.accounting.test_requirements import EPSILONS

ACCOUNTS = {name: example.mechanism.accountant for name, example in catalogue().items()}
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


each_account = pytest.mark.parametrize("name", ACCOUNTS)


# These take seconds: the group of two that an allocation's replaced record is, and the Rényi curves of samples. Their
# values are compared with references in tests of their own.
SLOW = {
    ("test_add_remove_to_replace_one", "random-allocation"),
    ("test_add_remove_to_replace_one", "langevin-model-batches"),
    ("test_renyi_curve", "sampled-logistic-posterior"),
    ("test_renyi_curve", "sampled-tempered-posterior"),
}


@pytest.mark.parametrize(
    ("distribution", "name"),
    [
        pytest.param(*pair, marks=pytest.mark.long if pair in SLOW else [])
        for pair in itertools.product(distributions("account"), ACCOUNTS)
    ],
)
def test_accounts_of_examples(distribution, name):
    account = ACCOUNTS[name]
    if distribution == "test_privacy_curve" and account.kind("delta") == "upper bound":
        bound = account.delta(EPSILONS[EPSILONS >= 0])  # a bound may be looser at 0 than below
        assert ((np.diff(bound) <= 0) & (bound[1:] >= 0) & (bound[:-1] <= 1)).all()
    else:
        distributions("account")[distribution](account)


@each_account
@pytest.mark.parametrize("distribution", distributions("account", "delta"))
def test_accounts_of_examples_at_a_delta(name, distribution):
    account = ACCOUNTS[name]
    if (
        distribution != "test_routes" or account.kind("epsilon") == "exact"
    ):  # to explain bounds takes seconds, and says less
        distributions("account", "delta")[distribution](account, DELTA)


def test_the_requirements_are_found():
    assert {"test_renyi_curve", "test_privacy_curve", "test_round_trip"} <= set(distributions("account"))
    assert {"test_statement", "test_routes"} <= set(distributions("account", "delta"))
