"""The account of a release for groups, compared with enumeration of datasets of units and with closed forms."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest

import privsample as ps
from privsample._value import frozen_value
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import DiscretePair
from privsample.errors import RelationMismatch

ONE = ps.GaussianAccountant(sensitivity=1, noise_std=4)
EPSILONS = np.array([0.0, 0.3, 1.0])
ORDERS = [1.2, 8.0]
GROUPS, OUTCOMES, LARGEST, VALUE = 3, 3, 9, 2
ROWS = tuple(itertools.product(range(GROUPS), (1, VALUE)))  # a row: its group, and its value
UNITS = [rows for k in range(4) for rows in itertools.combinations_with_replacement(ROWS, k)]


def table():
    """The distribution of the number that is released for each sum: a mechanism on a finite set."""
    weights = np.exp(0.2 * np.outer(np.arange(LARGEST + 1), np.arange(OUTCOMES)))
    return weights / weights.sum(axis=1, keepdims=True)


TABLE = table()


@frozen_value
class Tabulated(ps.Accountant):
    """The exact account of one group: all pairs of sums that some records of at most VALUE can cause."""

    records: int = 1
    relation: ps.Relation = ps.AddRemove()
    assumptions: frozenset = frozenset()

    @property
    def source(self):
        return "enumeration"

    def group(self, size):
        return replace(self, records=size * self.records, relation=self.relation.group(size))

    def _bounds(self):
        sums = itertools.permutations(range(LARGEST + 1), 2)
        pairs = [(TABLE[a], TABLE[b]) for a, b in sums if abs(a - b) <= VALUE * self.records]
        return PrivacyBounds.from_pairs([DiscretePair(log_p=np.log(p), log_q=np.log(q)) for p, q in pairs])


def bounded_sums(rows, bounds):
    """What one unit adds to the sum of each group, by the public rule."""
    places, values = (np.array([row[part] for row in rows], dtype=int) for part in (0, 1))
    if bounds.clip is not None:
        places, values = bounds.summed(np.zeros(len(rows), int), places, values.astype(float))
    else:
        counted = bounds.bounded(np.zeros(len(rows), int), places, values)
        places, values = places[counted], values[counted]
    return tuple(np.bincount(places, weights=values, minlength=GROUPS).astype(int).tolist())


def outputs(sums):
    """The distribution of the joint release for each vector of sums, shape (vectors, outcomes)."""
    rows = [TABLE[np.array(sums)[:, group]] for group in range(GROUPS)]
    return np.einsum("na,nb,nc->nabc", *rows).reshape(len(sums), -1)


@functools.cache
def claimed(account):
    """The privacy curve and the Rényi curve that an account claims, at the epsilons and orders of these tests."""
    return account.delta(EPSILONS), [account.rdp(order) for order in ORDERS]


def largest(p, q, account):
    """Check that no pair of distributions exceeds the account in either direction."""
    deltas, divergences = claimed(account)
    for first, second in ((p, q), (q, p)):
        truth = [np.maximum(first - np.exp(e) * second, 0).sum(axis=1).max() for e in EPSILONS]
        assert (np.array(truth) <= deltas * (1 + 1e-9) + 1e-12).all()
        for order, most in zip(ORDERS, divergences, strict=True):
            divergence = np.log((first**order * second ** (1 - order)).sum(axis=1).max()) / (order - 1)
            assert divergence <= most * (1 + 1e-9)


@pytest.mark.parametrize(
    "bounds",
    [
        ps.Contribution(groups=1, records=1),
        ps.Contribution(groups=1, records=2),
        pytest.param(ps.Contribution(groups=2, records=2), marks=pytest.mark.long),
        ps.Contribution(groups=3, clip=(0, 2)),
    ],
    ids=str,
)
def test_no_dataset_of_units_exceeds_the_account(bounds):
    own = [bounded_sums(rows, bounds) for rows in UNITS]
    others = [(0, 0, 0), (5, 1, 2)]  # what all other units add
    empty = np.zeros(GROUPS, int)
    per_group = bounds.records_per_group
    assert max(sum(number > 0 for number in sums) for sums in own) == min(bounds.groups, GROUPS)
    assert max(map(max, own)) == VALUE * per_group
    account = ps.GroupedAccountant(
        accounts=((Tabulated(), GROUPS),), groups_per_unit=bounds.groups, records_per_group=per_group
    )
    distinct = sorted(set(own))
    for rest in others:
        largest(outputs([np.add(rest, unit) for unit in distinct]), outputs([np.add(rest, empty)]), account)
    replaced = account.to(ps.ReplaceOne(n=5))
    pairs = list(itertools.combinations(distinct, 2))
    first, second = (outputs([np.add(others[1], pair[side]) for pair in pairs]) for side in (0, 1))
    largest(first, second, replaced)
    largest(outputs([np.add(*pair) for pair in pairs]), outputs([empty]), account.group(2))


def test_a_bound_for_fewer_records_is_exceeded():
    bounds = ps.Contribution(groups=2, records=2)
    account = ps.GroupedAccountant(accounts=((Tabulated(), GROUPS),), groups_per_unit=2)  # one record for each group
    sums = sorted({bounded_sums(rows, bounds) for rows in UNITS})
    with pytest.raises(AssertionError):
        largest(outputs(sums), outputs([(0, 0, 0)]), account)


@pytest.mark.parametrize(("groups", "records"), [(1, 1), (4, 1), (9, 3)])
def test_gaussian_noise_is_exact(groups, records):
    account = ps.GroupedAccountant(accounts=((ONE, 1000),), groups_per_unit=groups, records_per_group=records)
    length = np.sqrt(groups) * records
    expected = ps.GaussianAccountant(sensitivity=length, noise_std=4)
    assert account.epsilon(1e-6) == pytest.approx(float(expected.epsilon(1e-6)), rel=1e-12)
    assert account.rdp(3.0) == pytest.approx(float(expected.rdp(3.0)), rel=1e-12)
    assert account.kind("delta") == account.kind("rdp") == "exact"
    replaced = account.to(ps.ReplaceOne(n=50))
    assert replaced.epsilon(1e-6) == pytest.approx(float(expected.group(2).epsilon(1e-6)), rel=1e-12)


def test_laplace_noise_has_the_pure_guarantee_of_its_sensitivity():
    one = ps.LaplaceAccountant(sensitivity=2, scale=10)
    account = ps.GroupedAccountant(accounts=((one, 7),), groups_per_unit=3, records_per_group=4)
    together = ps.LaplaceAccountant(sensitivity=2 * 3 * 4, scale=10)
    assert account.pure_epsilon == pytest.approx(together.pure_epsilon, rel=1e-14)
    assert account.epsilon(1e-3) < together.epsilon(1e-3)  # the noise of three groups is independent
    assert account.group(2).pure_epsilon == pytest.approx(2 * together.pure_epsilon, rel=1e-14)


def test_one_record_costs_what_one_group_costs():
    account = ps.GroupedAccountant(accounts=((ONE, 10**6),))
    assert account.epsilon(1e-6) == ONE.epsilon(1e-6)
    assert account.relation == ps.AddRemove()
    assert account.group(2).epsilon(1e-6) == ONE.group(2).epsilon(1e-6)
    twice = 2 * ps.GroupedAccountant(accounts=((2 * ONE, 3),))
    assert twice.epsilon(1e-6) == pytest.approx(float((4 * ONE).epsilon(1e-6)), rel=1e-12)
    assert ONE.source in account.source


@pytest.mark.parametrize(("size", "groups", "changed"), [(2, 2, 1), (2, 1, 1), (2, 3, 3)])
def test_units_share_groups_in_the_worst_way(size, groups, changed):
    """A record that moves changes two groups, which a bound for two records of one group need not cover."""
    account = ps.GroupedAccountant(accounts=((Tabulated(), groups),), groups_per_unit=changed)
    ways = [
        tuple(way.count(group) for group in range(groups))
        for way in itertools.product(range(groups), repeat=size * changed)
        if all(way.count(group) <= size for group in range(groups))
    ]
    curves = []
    for way in {tuple(sorted(filter(None, way))) for way in ways}:
        parts = [Tabulated().group(k) if k > 1 else Tabulated() for k in way]
        composed = sum((part.with_relation(ps.AddRemove()) for part in parts[1:]), parts[0].with_relation(ONE.relation))
        curves.append(composed.delta(EPSILONS))
    assert account.group(size).delta(EPSILONS) == pytest.approx(np.max(curves, axis=0), rel=1e-9)


def test_many_ways_to_share_groups_have_the_general_bound():
    pure = ps.PureAccountant(stated_epsilon=0.01)
    for changed, groups in ((20, 1000), (101, 1000)):
        account = ps.GroupedAccountant(accounts=((pure, groups),), groups_per_unit=changed)
        general = ps.Group(base=account, size=2)
        assert account.group(2).epsilon(1e-6) == pytest.approx(float(general.epsilon(1e-6)), rel=1e-6)
    everywhere = ps.GroupedAccountant(accounts=((pure, 101),), groups_per_unit=500)
    assert everywhere.group(3).pure_epsilon == pytest.approx(3 * 101 * 0.01, rel=1e-12)


def test_public_sizes():
    small, large = (
        ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=5, beta=5), n=n, data_weight=0.5) for n in (4, 30)
    )
    account = ps.GroupedAccountant(accounts=((small, 3), (large, 2), (small, 1)))
    assert account.relation == ps.ReplaceOne(n=4 * 4 + 2 * 30)
    assert account.accounts == ((small, 4), (large, 2))
    assert ps.Assumption.FIXED_PARTS in account.assumptions
    parallel = ps.Parallel(parts=(small, small, small, small, large, large))
    assert account.epsilon(1e-3) == parallel.epsilon(1e-3)
    assert account.relation == parallel.relation
    assert account.group(2).epsilon(1e-3) == parallel.group(2).epsilon(1e-3)
    single = ps.GroupedAccountant(accounts=((small, 2),))
    assert single.delta(0.3) == small.delta(0.3)
    assert account.with_relation(ps.AddRemove()).delta(0.3) == account.delta(0.3)


LOCAL = ps.PureAccountant(stated_epsilon=1, relation=ps.ReplaceOne(n=3))


@pytest.mark.parametrize(
    ("error", "fields", "words"),
    [
        (TypeError, {"accounts": (ONE,)}, "must hold pairs"),
        (TypeError, {"accounts": ((1, 2),)}, "must be an accountant"),
        (TypeError, {"accounts": ONE}, "accounts must be a list"),
        (ValueError, {"accounts": ()}, "at least one account"),
        (ValueError, {"accounts": ((ONE, 0),)}, "at least 1"),
        (RelationMismatch, {"accounts": ((ONE, 1), (2 * ONE, 1))}, "one account under AddRemove"),
        (RelationMismatch, {"accounts": ((ONE, 1), (LOCAL, 1))}, "one account under AddRemove"),
        (RelationMismatch, {"accounts": ((ONE.group(2), 1),)}, "apply .group"),
        (RelationMismatch, {"accounts": ((LOCAL, 2),), "groups_per_unit": 2}, "under AddRemove for units"),
        (RelationMismatch, {"accounts": ((LOCAL, 2),), "members": 2}, "under AddRemove for units"),
        (ValueError, {"accounts": ((ONE, 2),), "records_per_group": 0}, "at least 1"),
        (TypeError, {"accounts": ((ONE, 2),), "unit": ""}, "unit must be"),
    ],
)
def test_wrong_fields(error, fields, words):
    with pytest.raises(error, match=words):
        ps.GroupedAccountant(**fields)


def test_a_group_of_records_without_a_guarantee_is_refused():
    failing = ps.ApproximateAccountant(stated_epsilon=1, stated_delta=0.4)
    with pytest.raises(ValueError, match="there is no guarantee"):
        ps.GroupedAccountant(accounts=((failing, 3),), records_per_group=4)
