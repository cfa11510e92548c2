"""The account of a random scan, compared with every release of tiny Gibbs samplers, and with the thesis' constant."""

import itertools

import numpy as np
import pytest
from mpmath import mp

import privsample as ps
from privsample.accounting.posterior.gibbs import sweeps_account

ORDERS = (1.1, 2.0, 5.0, 40.0)
EPSILONS = np.array([0.0, 0.1, 0.4, 0.9, 1.3])
LOSS = 1.2  # log likelihood ratio of the two data values for state 1, and minus that for state 0


def update(x):
    """Probabilities of the states 0 and 1 of a variable given its record x."""
    weights = np.exp(LOSS / 2 * np.where(np.arange(2) == x, 0.5, -0.5))
    return weights / weights.sum()


def releases(records, updated, *, tell, start):
    """The exact distribution of a scan's release: states, and if `tell` which were updated, from public states."""
    found = {}
    chosen = list(itertools.combinations(range(len(records)), updated))
    for which in chosen:
        for states in itertools.product((0, 1), repeat=len(which)):
            chance = 1.0 / len(chosen)
            now = list(start)
            for place, state in zip(which, states, strict=True):
                chance *= update(records[place])[state]
                now[place] = state
            key = (tuple(now), which if tell else None)
            found[key] = found.get(key, 0.0) + chance
    return found


def compared(updated, variables, *, tell):
    """The two distributions for neighbours that differ in the first record, over all public starts."""
    for start in itertools.product((0, 1), repeat=variables):
        for rest in itertools.product((0, 1), repeat=variables - 1):
            one, other = (releases((x, *rest), updated, tell=tell, start=start) for x in (0, 1))
            yield tuple(np.array([side[key] for key in one]) for side in (one, other))


def hockey_stick(p, q):
    return np.maximum(p - np.exp(EPSILONS)[:, None] * q, 0.0).sum(axis=1)


BASE = ps.PairAccountant(p=update(0), q=update(1), relation=ps.ReplaceOne(n=4))


@pytest.mark.parametrize("updated", [1, 2, 3, 4])
def test_every_release_of_a_scan_of_four_variables(updated):
    """With the choice revealed the account is exact for every start; without it, it is never below."""
    account = ps.RandomScanAccountant(base=BASE, updated=updated, variables=4)
    for p, q in compared(updated, 4, tell=True):
        np.testing.assert_allclose(account.delta(EPSILONS), hockey_stick(p, q), rtol=1e-9, atol=1e-15)
        for order in ORDERS:
            exact = np.log((p**order * q ** (1 - order)).sum()) / (order - 1)
            assert account.rdp(order) == pytest.approx(exact, rel=1e-9)
        assert account.pure_epsilon == pytest.approx(np.abs(np.log(p / q)).max(), rel=1e-12)
    hidden = np.array([hockey_stick(p, q) for p, q in compared(updated, 4, tell=False)])
    assert (hidden <= account.delta(EPSILONS) * (1 + 1e-9) + 1e-15).all()


def test_the_thesis_constant_is_below_the_truth():
    """4 Delta Q / N = 2 epsilon Q / N is not an upper bound: one of four, even where the choice is hidden."""
    epsilon = BASE.pure_epsilon
    stated = 2 * epsilon * 1 / 4
    truth = max(np.abs(np.log(p / q)).max() for p, q in compared(1, 4, tell=False))
    assert truth == pytest.approx(epsilon, rel=1e-12)
    assert stated < 0.51 * truth
    lost = max(hockey_stick(p, q)[1] for p, q in compared(1, 4, tell=False))
    claim = ps.PureAccountant(stated_epsilon=stated)
    assert claim.delta(stated) == 0.0 < ps.RandomScanAccountant(base=BASE, updated=1, variables=4).delta(stated)
    assert lost > 0.05


def test_a_scan_that_updates_every_variable_costs_more_than_is_stated():
    """The broken copy: all four variables are updated where the account states one."""
    account = ps.RandomScanAccountant(base=BASE, updated=1, variables=4)
    p, q = next(compared(4, 4, tell=True))
    assert (hockey_stick(p, q)[:3] > 2 * account.delta(EPSILONS[:3])).all()


def test_updates_with_replacement_compose():
    """Two updates, each of a variable chosen anew among three, against the enumeration of choices and states."""
    account = 2 * ps.RandomScanAccountant(base=BASE, updated=1, variables=3)
    p, q = [], []
    for choices in itertools.product(range(3), repeat=2):
        for states in itertools.product((0, 1), repeat=2):
            for x, side in ((0, p), (1, q)):
                records = (x, 0, 1)
                chances = [update(records[c])[s] for c, s in zip(choices, states, strict=True)]
                side.append(np.prod(chances) / 9)
    p, q = np.array(p), np.array(q)
    np.testing.assert_allclose(account.delta(EPSILONS), hockey_stick(p, q), rtol=1e-6, atol=1e-12)
    exact = np.log((p**3 * q**-2.0).sum()) / 2
    assert account.rdp(3.0) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("rate", [(1, 2), (1, 10**6), (999, 1000)])
@pytest.mark.parametrize("loss_range", [1e-3, 0.5, 8.0, 300.0])
def test_the_renyi_curve_in_fifty_digits(rate, loss_range):
    """From the base's own curve: the logarithm in high precision; never below, and at most 1e-12 above."""
    base = ps.BoundedRangeAccountant(loss_range=loss_range)
    account = ps.RandomScanAccountant(base=base, updated=rate[0], variables=rate[1])
    mp.dps = 50
    share = mp.mpf(rate[0]) / rate[1]
    for order in (1.0001, 1.5, 3.0, 50.0, 1e4):
        known = mp.mpf(float(base.rdp(order)))
        exact = mp.log(1 - share + share * mp.exp((mp.mpf(order) - 1) * known)) / (mp.mpf(order) - 1)
        claimed = mp.mpf(float(account.rdp(order)))
        assert claimed >= exact
        assert claimed <= exact * (1 + mp.mpf("1e-10")) + mp.mpf("1e-18")


def test_the_curve_below_zero():
    """The pair's own curve at negative epsilon: the identity of the two directions, for a pair and an envelope."""
    for base in (ps.LaplaceAccountant(sensitivity=1, scale=2), ps.BoundedRangeAccountant(loss_range=0.7)):
        ((pair, *_), *_) = ps.RandomScanAccountant(base=base, updated=1, variables=4).bounds.directions
        e = np.array([-2.0, -0.3, -0.0, 0.3])
        found = np.exp(pair.log_delta(e))
        above = np.exp(pair.reverse().log_delta(-e))
        np.testing.assert_allclose(found[:2], 1 - np.exp(e[:2]) + np.exp(e[:2]) * above[:2], rtol=1e-12)
        assert (pair.approx_log_delta(e) <= pair.log_delta(e) + 1e-12).all()
        assert pair.max_divergence == base.pure_epsilon
        assert pair.order_limit == np.inf
        assert not pair.from_table
        assert pair.renyi_cost > 0.5
        assert pair.curve_cost > 0.1
        assert (pair.renyi(np.array([2.0, 9.0])) <= base.rdp(np.array([2.0, 9.0]))).all()


@pytest.mark.parametrize(
    "base",
    [
        ps.GaussianAccountant(sensitivity=1, noise_std=2),
        ps.LaplaceAccountant(sensitivity=1, scale=2),
        ps.BoundedRangeAccountant(loss_range=0.7),
        ps.ZCDPAccountant(rho=0.1),
        ps.ApproximateAccountant(stated_epsilon=0.3, stated_delta=1e-3),
        ps.CurveAccountant(points=[(0.5, 1e-3)]),
        3 * ps.GaussianAccountant(sensitivity=1, noise_std=2),
    ],
    ids=lambda base: type(base).__name__,
)
def test_any_base(base):
    scan = ps.RandomScanAccountant(base=base, updated=2, variables=8)
    whole = ps.RandomScanAccountant(base=base, updated=8, variables=8)
    grid = np.array([0.0, 0.05, 0.3, 2.0])
    np.testing.assert_array_equal(whole.delta(grid), base.delta(grid))
    quarter = base.delta(grid) / 4
    assert (scan.delta(grid) <= quarter * (1 + 1e-9) + 1e-300).all()
    if base.kind("delta") == "exact":
        np.testing.assert_allclose(scan.delta(grid), quarter, rtol=1e-9)
    assert scan.infinity_mass == pytest.approx(base.infinity_mass / 4)
    assert scan.pure_epsilon == base.pure_epsilon
    assert (scan.rdp(np.array([1.5, 4.0])) <= base.rdp(np.array([1.5, 4.0]))).all()
    assert (4 * scan).epsilon(1e-2) <= (4 * base).epsilon(1e-2)
    assert scan.to_dict() == ps.Accountant.from_dict(scan.to_dict()).to_dict()
    assert "random scan" in scan.source
    assert scan.with_relation(ps.ReplaceOne(n=9)).relation == ps.ReplaceOne(n=9)


def test_sweeps_with_a_scan():
    given = {"categories": (3,), "entries": (5, 0, 9, 7), "states": 2, "prior": 1.0, "temperature": 4.0}
    given |= {"truncation": 0.3, "sweeps": 2}
    whole, scanned = sweeps_account(**given), sweeps_account(**given, scan=1)
    (_, (states, times)) = scanned.entries
    assert (states.updated, states.variables, times) == (1, 3, 2)
    assert scanned.pure_epsilon == whole.pure_epsilon
    assert scanned.epsilon(1e-3) < whole.epsilon(1e-3)
    with pytest.raises(ValueError, match="updated must be at most variables = 3, got 4"):
        sweeps_account(**given, scan=4)


def test_fields_are_checked():
    with pytest.raises(TypeError, match="base must be an accountant"):
        ps.RandomScanAccountant(base=0.5, updated=1, variables=2)
    for wrong in ({"updated": 0}, {"variables": 0}, {"updated": 1.5}, {"updated": 9}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ps.RandomScanAccountant(**{"base": BASE, "updated": 1, "variables": 2} | wrong)
