"""Pairs of discrete noise, to fifty digits."""

import mpmath as mp
import numpy as np
import pytest

from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import binary_pair
from privsample.accounting.noise.discrete import DiscreteGaussianPair, DiscreteLaplacePair
from privsample.accounting.noise.sums_of_losses import TwoLaplacePair
from tests.accounting.moved import ORDERS, above


def laplace_masses(shift, scale):
    """P over the values of the loss, from the least on."""
    q = mp.exp(-1 / mp.mpf(scale))
    inner = [(1 - q) * q ** (shift - j) / (1 + q) for j in range(1, shift)]
    return [q**shift / (1 + q), *inner, 1 / (1 + q)]


@pytest.mark.parametrize(
    ("shift", "scale"), [(1, 1.0), (1, 1e-3), (1, 1e6), (2, 0.7), (3, 10.0), (5, 0.2), (7, 1e3), (40, 3.0), (1, 1e12)]
)
def test_discrete_laplace_to_fifty_digits(shift, scale):
    pair, z = DiscreteLaplacePair(shift=shift, scale=scale), shift / scale
    orders = np.append(ORDERS, [1e3, 1e6])
    with mp.workdps(50):
        p = laplace_masses(shift, scale)
        q = p[::-1]
        truth = [
            mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)
            for a in map(mp.mpf, orders)
        ]
        assert pair.renyi(orders) == pytest.approx([float(t) for t in truth], rel=1e-12)
        for e in z * np.array([-2.0, -1.0, -0.9, -0.3, 0.0, 1e-9, 0.1, 0.5, 0.77, 0.99]):
            delta = mp.fsum(max(x - mp.exp(mp.mpf(e)) * y, 0) for x, y in zip(p, q, strict=True))
            assert above(pair.log_delta(np.array([e]))[0], float(mp.log(delta)))
    assert np.isneginf(pair.log_delta(np.array([pair.max_divergence, 2 * z, 1e300]))).all()
    assert z <= pair.max_divergence <= np.nextafter(z, np.inf)
    assert pair.reverse() is pair


def test_one_step_of_discrete_laplace_is_randomized_response():
    pair, response = DiscreteLaplacePair(shift=1, scale=0.8), binary_pair(1.25)
    epsilons = np.linspace(-2, 2, 41)
    assert pair.renyi(ORDERS) == pytest.approx(response.renyi(ORDERS), rel=1e-12)
    assert pair.log_delta(epsilons) == pytest.approx(response.log_delta(epsilons), rel=1e-12)
    assert pair.log_masses == pytest.approx(np.sort(response.log_p))
    assert (pair.renyi(ORDERS) > LaplacePair(shift=1.25).renyi(ORDERS)).all()


@pytest.mark.parametrize(
    ("shift", "noise_std"),
    [(1, 1.0), (1, 0.1), (1, 0.02), (2, 0.5), (3, 0.8), (1, 5.0), (4, 3.0), (10, 30.0), (1, 0.99), (50, 2.0)],
)
def test_discrete_gaussian_to_fifty_digits(shift, noise_std):
    pair = DiscreteGaussianPair(shift=shift, noise_std=noise_std)
    with mp.workdps(50):
        twice, reach = 2 * mp.mpf(noise_std) ** 2, int(40 * noise_std + 20)
        mass = {k: mp.exp(-(mp.mpf(k) ** 2) / twice) for k in range(-reach - shift, reach + shift + 1)}
        total = mp.fsum(mass.values())
        for order, found in zip(ORDERS, pair.renyi(ORDERS), strict=True):
            a = mp.mpf(order)
            middle = int(mp.nint(a * shift))
            tilted = mp.fsum(mp.exp(-((k - a * shift) ** 2) / twice) for k in range(middle - reach, middle + reach + 1))
            truth = a * shift**2 / twice + mp.log(tilted / total) / (a - 1)
            assert found == pytest.approx(float(truth), rel=1e-12)
            assert found <= order * shift**2 / (2 * noise_std**2) * (1 + 1e-14)
            if float(order * shift).is_integer():
                assert found == pytest.approx(order * shift**2 / (2 * noise_std**2), rel=1e-13)
        for e in (-3.0, -0.5, 0.0, 0.01, 0.3, 1.0, 3.0):
            terms = [mass[k - shift] - mp.exp(e) * mass[k] for k in range(-reach, reach + shift + 1)]
            delta = mp.fsum(max(term, 0) for term in terms) / total
            if delta > mp.mpf(10) ** -300:
                assert above(pair.log_delta(np.array([e]))[0], float(mp.log(delta)))
    assert np.isposinf(pair.max_divergence)
    assert pair.reverse() is pair


@pytest.mark.parametrize(
    "pair",
    [
        DiscreteGaussianPair(shift=1, noise_std=0.5),
        DiscreteGaussianPair(shift=2, noise_std=2.0),
        DiscreteLaplacePair(shift=2, scale=1.5),
    ],
)
def test_a_table_of_orders_has_the_values_of_each_order(pair):
    orders = np.array([[1.25, 2.0, 3.5], [4.0, 7.125, 40.0]])
    expected = [[pair.renyi(np.array([order])).item() for order in row] for row in orders.tolist()]
    assert pair.renyi(orders) == pytest.approx(np.array(expected), rel=1e-14)


def test_far_from_the_middle_nothing_is_lost():
    near = DiscreteGaussianPair(shift=1000, noise_std=2.0)
    assert near.log_delta(np.array([0.0]))[0] == 0.0
    assert near.renyi(np.array([1e6]))[0] == pytest.approx(1e6 * 1e6 / 8)
    assert DiscreteGaussianPair(shift=1, noise_std=1.0).log_delta(np.array([700.0]))[0] < -240_000


@pytest.mark.parametrize("shift", [1, 3000])
def test_wide_discrete_gaussians_are_bounded_from_above(shift):
    narrow, wide = (DiscreteGaussianPair(shift=shift, noise_std=s) for s in (8191.0, 8192.0))
    epsilons = shift * np.array([-1e-4, 0.0, 1e-5, 1e-4, 3e-4, 2.4e-3])
    bound, summed = wide.log_delta(epsilons), wide._summed(np.abs(epsilons))
    assert (bound[1:] >= summed[1:]).all()
    assert (bound[1:] <= summed[1:] + 0.01).all()
    assert narrow.log_delta(epsilons) == pytest.approx(bound, rel=0.002)
    enormous = DiscreteGaussianPair(shift=1, noise_std=1e12)
    assert enormous.renyi(np.array([2.0]))[0] == pytest.approx(1e-24)
    assert -29 < enormous.log_delta(np.array([0.0]))[0] < -28


@pytest.mark.parametrize(
    "pair",
    [
        DiscreteLaplacePair(shift=5, scale=2.0),
        DiscreteLaplacePair(shift=(1 << 16) + 1, scale=1e5),
        DiscreteGaussianPair(shift=2, noise_std=1.5),
        DiscreteGaussianPair(shift=1, noise_std=2e4),
        TwoLaplacePair(shift=0.7),
    ],
    ids=str,
)
def test_the_discretization_dominates_the_pair_and_stay_close(pair):
    end = min(pair.max_divergence, 12 * pair.shift / getattr(pair, "noise_std", 1.0)) * 1.1
    nodes = np.linspace(-end, end, 2001)
    log_p, infinite = pair.discretize(nodes)
    p, q = np.exp(log_p), np.exp(log_p - nodes)
    assert p.sum() + np.exp(infinite) >= 1 - 1e-12
    assert p.sum() + np.exp(infinite) <= 1 + 1e-9
    assert q.sum() <= 1 + 1e-9
    for e in end * np.array([-0.5, 0.0, 0.2, 0.5]):
        dotted = np.maximum(p - np.exp(e) * q, 0).sum() + np.exp(infinite)
        own = np.exp(pair.log_delta(np.array([e]))[0])
        assert dotted >= own * (1 - 1e-9)
        assert dotted <= own + 2e-3
