"""Discretized losses of sampled Gaussians dominate the exact loss and exceed it only by rounding, at every rate."""

import mpmath
import numpy as np
import pytest

from privsample.accounting.curves.discretize import discretize_curve
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair

CASES = [
    (1.0, 0.01, np.linspace(-0.02, 3.0, 120)),
    (2.0, 1e-6, np.arange(-30, 400) * 7.3e-8),
    (2.0, 1e-6, np.arange(-30, 120) * 3e-3),
    (0.01, 0.3, np.arange(-300, 300) * 1e-4),
    (10.0, 0.5, np.linspace(-1.0, 100.0, 200)),
    (1.0, 0.01, 0.2 + 0.01 * np.arange(120)),
    (1.0, 0.3, np.linspace(-5.0, -0.2, 120)),
]


def true_delta(mu, rate, epsilon, *, removed):
    """The privacy curve at any real epsilon, at 50 digits."""
    mu, rate, e = mpmath.mpf(mu), mpmath.mpf(rate), mpmath.mpf(float(epsilon))
    x = 1 + mpmath.expm1(e if removed else -e) / rate
    if x <= 0:
        return 1 - mpmath.exp(e) if removed else mpmath.mpf(0)
    z = (mpmath.log(x) + mu**2 / 2) / mu
    if removed:
        return (1 - rate) * tail(z) + rate * tail(z - mu) - mpmath.exp(e) * tail(z)
    return tail(-z) - mpmath.exp(e) * ((1 - rate) * tail(-z) + rate * tail(mu - z))


def tail(z):
    return mpmath.erfc(z / mpmath.sqrt(2)) / 2


def relative_excess(pair, nodes, log_p, log_infinite):
    """Of the discrete pair's curve over the exact one, at a tenth of the nodes."""
    mass = [mpmath.exp(mpmath.mpf(float(p))) if np.isfinite(p) else mpmath.mpf(0) for p in log_p]
    below, rest, found = mpmath.mpf(0), mpmath.exp(mpmath.mpf(log_infinite)), []
    for place in range(len(nodes) - 1, -1, -1):
        node = mpmath.mpf(float(nodes[place]))
        if place % (len(nodes) // 10) == 0:
            truth = true_delta(pair.mu, pair.rate, nodes[place], removed=pair.removed)
            if truth > 0:
                found.append(float((rest - mpmath.exp(node) * below - truth) / truth))
        rest, below = rest + mass[place], below + mass[place] * mpmath.exp(-node)
    return found


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("mu", "rate", "nodes"), CASES, ids=range(len(CASES)))
def test_masses_of_cells(mu, rate, nodes, removed):
    pair = PoissonGaussianPair(mu=mu, rate=rate, removed=removed)
    with mpmath.workdps(50):
        excess = relative_excess(pair, nodes, *pair.discretize(nodes))
        assert all(0.0 <= own <= 1e-11 for own in excess)


def test_second_differences_lose_the_digits_of_small_rates():
    pair, nodes = PoissonGaussianPair(mu=2.0, rate=1e-6, removed=True), CASES[1][2]
    log_p, _ = discretize_curve(pair.log_delta, pair.reverse().log_delta, nodes)
    assert np.exp(log_p).sum() - 1.0 > 1e3 * (np.exp(pair.discretize(nodes)[0]).sum() - 1.0)


@pytest.mark.parametrize("removed", [True, False])
def test_nodes_beyond_all_losses(removed):
    pair = PoissonGaussianPair(mu=1.0, rate=0.2, removed=removed)
    nodes = np.array([-9.0, -8.0, -7.0]) if removed else np.array([7.0, 8.0, 9.0])
    log_p, log_infinite = pair.discretize(nodes)
    assert np.exp(np.logaddexp.reduce(np.append(log_p, log_infinite))) >= 1.0 - 1e-12
