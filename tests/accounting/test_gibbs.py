"""The two accounts of a Gibbs sampler, compared with the distributions of its updates."""

import itertools

import numpy as np
import pytest
from scipy import special

from privsample import Accountant, Assumption, DiscreteLaplaceNoise, EmissionAccountant, ReplaceOne
from privsample.accounting.posterior.gibbs import histograms_account, sweeps_account, tables_account

ORDERS = np.array([1.1, 2.0, 8.0, 100.0])
EPSILONS = np.array([0.0, 0.2, 0.7, 2.0])


def test_histograms_cost_two_shifts_for_each_feature():
    """Against the distribution of the sum of 2F losses of randomized response."""
    features, scale = 3, 1.7
    account = histograms_account(features=features, n=50, noise=DiscreteLaplaceNoise(scale=scale))
    assert account.pure_epsilon == pytest.approx(2 * features / scale)
    assert account.relation == ReplaceOne(n=50)
    assert Assumption.FIXED_PARTS in account.assumptions
    truth = 1 / (1 + np.exp(-1 / scale))
    hits = np.arange(2 * features + 1)
    weights = special.comb(2 * features, hits)
    p = weights * truth**hits * (1 - truth) ** (2 * features - hits)
    q = p[::-1]
    for order in ORDERS[:3]:
        expected = np.log((p**order * q ** (1 - order)).sum()) / (order - 1)
        assert account.rdp(order) == pytest.approx(expected)
    exact = np.maximum(p - np.exp(EPSILONS)[:, None] * q, 0).sum(axis=1)
    claimed = account.delta(EPSILONS)
    assert (claimed >= exact).all()
    np.testing.assert_allclose(claimed, exact, rtol=1e-3, atol=1e-9)


def test_tables_cost_what_as_many_features_cost():
    noise = DiscreteLaplaceNoise(scale=1.7)
    tables, histograms = (
        make(n=50, noise=noise, **{name: 3})
        for make, name in ((tables_account, "tables"), (histograms_account, "features"))
    )
    np.testing.assert_array_equal(tables.delta(EPSILONS), histograms.delta(EPSILONS))
    assert tables.assumptions == {Assumption.IDEAL_REALS}


def sweeps(**fields):
    given = {
        "categories": (3, 2),
        "entries": (5, 0, 9, 7),
        "states": 2,
        "prior": 1.0,
        "temperature": 4.0,
        "truncation": 0.3,
        "sweeps": 3,
    }
    return sweeps_account(**given | fields)


def test_sweeps_compose_their_updates():
    one, three = sweeps(sweeps=1), sweeps()
    assert three == 3 * one
    assert len(one.entries) == 3
    assert one.relation == ReplaceOne(n=21)
    assert Assumption.FIXED_PARTS in one.assumptions
    ratios = np.log(0.8 / 0.1) + np.log(0.85 / 0.15)
    assert one.pure_epsilon == pytest.approx((2 * ratios + 2 * ratios) / 4)  # the shares' ranges, then the state's
    assert sweeps(states=1).pure_epsilon == pytest.approx(3 * 2 * ratios / 4)
    assert sweeps(entries=(90, 90)).epsilon(1e-4) < sweeps(entries=(5, 175)).epsilon(1e-4)
    assert Accountant.from_dict(three.to_dict()) == three


def test_no_state_exceeds_its_bounded_range():
    """All proportions at the corners of the truncated simplex, two states, every replacement."""
    temperature, truncation = 4.0, 0.3
    corners = [
        [np.roll([0.8, 0.1, 0.1], k) for k in range(3)],
        [np.array(pair) for pair in ((0.85, 0.15), (0.15, 0.85))],
    ]
    worst = 0.0
    for first, second in itertools.product(itertools.product(*corners), repeat=2):
        table = np.log([np.concatenate(first), np.concatenate(second)])
        for x, y in itertools.product(itertools.product(range(3), range(3, 5)), repeat=2):
            change = (table[:, list(x)] - table[:, list(y)]).sum(axis=1) / temperature
            worst = max(worst, float(np.ptp(change)))
    *_, (states, times) = sweeps(temperature=temperature, truncation=truncation).entries
    assert times == 3
    assert worst == pytest.approx(states.loss_range)


@pytest.mark.parametrize("records", [5, 12, 300])
def test_proportions_of_a_state_cost_no_more_with_more_records(records):
    """Beta distributions of a state with at least 5 records, on a grid, at T = 1.5."""
    account = EmissionAccountant(n=900, min_records=5, categories=2, prior=0.8, temperature=1.5, truncation=0.1)
    x = np.linspace(0.1, 0.9, 40_001)
    for ones in {0, 1, records // 3, records - 1}:
        p, q = (
            np.exp(((-0.2 + s) * np.log(x) + (-0.2 + records - s) * np.log1p(-x)) / 1.5 + records * 0.4)
            for s in (ones + 1, ones)
        )
        p, q = p / p.sum(), q / q.sum()
        for first, second in ((p, q), (q, p)):
            exact = np.maximum(first - np.exp(EPSILONS)[:, None] * second, 0).sum(axis=1)
            assert (account.delta(EPSILONS) >= exact - 1e-9).all()
            assert account.rdp(2.0) >= np.log((first**2 / second).sum()) - 1e-9


def test_views_of_one_draw_of_proportions():
    account = EmissionAccountant(n=900, min_records=400, categories=5, prior=1.0, temperature=2.0, truncation=0.02)
    assert [account.kind(view) for view in ("rdp", "delta", "epsilon")] == ["upper bound"] * 3
    assert account.pure_epsilon == pytest.approx(np.log(0.92 / 0.02))
    assert (account.rdp(ORDERS) <= account.zcdp * ORDERS * (1 + 1e-12)).all()
    assert 0 < account.epsilon(1e-6) < account.pure_epsilon
    assert "gibbs.md" in account.source
    assert account.group(2).relation == ReplaceOne(n=900, members=2)
    assert Accountant.from_dict(account.to_dict()) == account


def test_fields_are_checked():
    for fields, message in (
        ({"min_records": 901}, "at most n"),
        ({"min_records": 0}, "min_records"),
        ({"temperature": 0.5}, "temperature"),
        ({"truncation": 0.3}, "truncation"),
        ({"categories": 1}, "categories"),
        ({"prior": 0.0}, "prior"),
    ):
        given = {"n": 900, "min_records": 4, "categories": 5, "prior": 1.0, "temperature": 2.0, "truncation": 0.02}
        with pytest.raises(ValueError, match=message):
            EmissionAccountant(**given | fields)


def test_a_sample_of_several_steps_may_leave_one_record_in_a_step():
    """Divergence of order 2 between Beta(2, 1) and Beta(1, 2) on [0.025, 0.975]: a step with a single record."""
    given = {"categories": 2, "prior": 1.0, "temperature": 1.0, "truncation": 0.05}
    whole = EmissionAccountant(n=100, min_records=50, **given)
    x = np.linspace(0.025, 0.975, 200_001)
    p, q = x / np.trapezoid(x, x), (1 - x) / np.trapezoid(1 - x, x)
    single = float(np.log(np.trapezoid(p * p / q, x)))
    assert whole.rdp(2.0) < single <= whole.for_sizes(60, 60).rdp(2.0)
    one_step = EmissionAccountant(n=100, min_records=100, **given)
    assert one_step.for_sizes(60, 60).min_records == 60
