"""Rényi divergences from chords of privacy curves: against the integral at fifty digits, and against closed forms."""

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.curves.chord_moments import renyi_from_chords
from privsample.accounting.curves.chords import CurveChords
from privsample.accounting.engine.tables import TabulatedPair
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair

ORDERS = np.array([1.0001, 1.3, 2.0, 5.0, 30.0])


def integral(chords, rate):
    """The integral of the chords times e^(rate epsilon) over all nodes, panel by panel, at fifty digits."""
    with mp.workdps(50):
        total = mp.mpf(0)
        values = [mp.exp(mp.mpf(float(v))) if np.isfinite(v) else mp.mpf(0) for v in chords.log_delta]
        for low, high, upper, lower in zip(chords.nodes[:-1], chords.nodes[1:], values[:-1], values[1:], strict=True):
            left, right = mp.mpf(float(low)), mp.mpf(float(high))
            slope = (upper - lower) / (mp.exp(right) - mp.exp(left))  # delta(e) = lower + slope (e^high - e^e)
            powers = [
                (mp.exp(t * right) - mp.exp(t * left)) / t if t else right - left
                for t in (mp.mpf(rate), mp.mpf(rate) + 1)
            ]
            total += (lower + slope * mp.exp(right)) * powers[0] - slope * powers[1]
        return total


@pytest.mark.parametrize("count", [9, 60])
def test_the_integral_at_fifty_digits(count):
    pair = DiscretePair(
        log_p=np.log([0.6, 0.3, 0.1]), log_q=np.log([0.2, 0.3, 0.5])
    )  # its largest loss is finite: the chords end there
    ahead, back = (CurveChords.of(one.log_delta, one.max_divergence, count) for one in (pair, pair.reverse()))
    found = renyi_from_chords(ahead, back, lambda a: np.full(a.shape, 1e300), pair.max_divergence, np.inf, ORDERS)
    with mp.workdps(50):
        for order, value in zip(ORDERS, found, strict=True):
            s = mp.mpf(float(order)) - 1
            tail = mp.exp(mp.mpf(float(back.log_delta[-1])) - (s + 1) * mp.mpf(float(back.nodes[-1]))) / (s + 1)
            total = integral(ahead, s) + integral(back, -(s + 1)) + tail
            truth = mp.log(1 + s * (s + 1) * total) / s
            assert truth * (1 - mp.mpf(10) ** -15) <= mp.mpf(float(value)) <= truth * (1 + mp.mpf(10) ** -9)


def test_gaussian_curves_are_exceeded_by_a_few_percent_at_most():
    pair = GaussianPair(mu=0.7)
    chords = CurveChords.of(pair.log_delta, np.inf, 320)
    found = renyi_from_chords(chords, chords, lambda a: 0.5 * a, np.inf, np.inf, ORDERS)
    assert (found >= pair.renyi(ORDERS)).all()
    assert found[:4] == pytest.approx(pair.renyi(ORDERS[:4]), rel=0.005)
    assert found[4] == pytest.approx(pair.renyi(ORDERS[4:])[0], rel=0.05)


def test_no_more_than_the_ceiling_and_infinite_from_the_limit_on():
    pair = GaussianPair(mu=0.7)
    chords = CurveChords.of(pair.log_delta, np.inf, 40)
    found = renyi_from_chords(chords, chords, pair.renyi, np.inf, 5.0, ORDERS)
    assert (found[:3] <= pair.renyi(ORDERS[:3])).all()
    assert np.isinf(found[3:]).all()
    nothing = CurveChords.of(pair.log_delta, 0.0, 40)
    assert (renyi_from_chords(nothing, nothing, pair.renyi, 0.0, 5.0, ORDERS)[:3] == 0.0).all()


def test_sampled_curves_are_close_to_the_exact_integral():
    """The tables took the unsampled curve in place of the sampled one, which is up to 45 times as large."""
    base = ps.GaussianAccountant(sensitivity=1, noise_std=10**0.5, relation=ps.ReplaceOne(n=50))
    account = ps.SubsampledAccountant(base=base, scheme=ps.WithoutReplacement(n=500, m=50))
    (pair,) = account.bounds.pairs
    orders = np.array([1.1, 8.0])
    exact, table = pair.renyi(orders), TabulatedPair(pair=pair).renyi(orders)
    assert (table >= exact * (1 - 1e-12)).all()
    assert table == pytest.approx(exact, rel=0.02)
    assert (base.rdp(orders) > 4 * table).all()


def test_a_curve_that_does_not_fall_has_no_further_nodes():
    chords = CurveChords.of(lambda e: np.full(e.shape, -3.0), np.inf, 40)
    assert (chords(np.array([0.0, 1.0, 1e5])) >= -3.0).all()
    assert len(chords.nodes) < 20
