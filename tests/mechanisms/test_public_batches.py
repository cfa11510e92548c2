"""Public batches that are taken until direct sampling meets a target, against divergences of 50 digits."""

import mpmath as mp
import numpy as np
import pytest

from privsample import DP, RDP, BetaBernoulli, DirectPosterior
from privsample.errors import LargeDeltaWarning, UnreachableTarget

WEAK = DirectPosterior(model=BetaBernoulli(alpha=1.5, beta=2), n=4)
BATCH = [1, 0, 0]


def largest_divergence(alpha, beta, n, order):
    """The largest Rényi divergence of the posteriors of all neighbouring datasets of n zeros and ones."""

    def divergence(s, t):
        a, b, c, d = (mp.mpf(x) for x in (alpha + s, beta + n - s, alpha + t, beta + n - t))
        blend = (order * a + (1 - order) * c, order * b + (1 - order) * d)
        if min(blend) <= 0:
            return mp.inf
        log_beta = [mp.log(mp.beta(x, y)) for x, y in (blend, (a, b), (c, d))]
        return (log_beta[0] - order * log_beta[1] + (order - 1) * log_beta[2]) / (order - 1)

    return max(max(divergence(s, s + 1), divergence(s + 1, s)) for s in range(n))


@pytest.mark.parametrize("order", [2, 5])
def test_batches_are_taken_until_the_largest_divergence_of_all_neighbours_is_within_the_target(order):
    with mp.workdps(50):
        curve = [largest_divergence(1.5 + k, 2 + 2 * k, 4, order) for k in range(40)]
    epsilon = 0.2
    needed = next(k for k, cost in enumerate(curve) if cost <= epsilon)
    assert 3 < needed < 39
    batches = iter([BATCH] * 40)
    made = WEAK.with_public_batches(batches, target=RDP(order=order, epsilon=epsilon))
    assert len(list(batches)) == 40 - needed
    assert made == DirectPosterior(model=BetaBernoulli(alpha=1.5 + needed, beta=2 + 2 * needed), n=4)
    assert float(made.accountant.rdp(order)) == pytest.approx(float(curve[needed]), rel=1e-12)


def test_a_mechanism_within_the_target_takes_no_batch():
    batches = iter([BATCH])
    assert WEAK.with_public_batches(batches, target=RDP(order=1.5, epsilon=3)) == WEAK
    assert list(batches) == [BATCH]


def test_a_batch_of_one_sided_records_may_raise_the_cost():
    """The cost is that after each batch, not one extrapolated from the first."""
    one_sided, balanced = [1] * 4, [0] * 30
    target = RDP(order=2, epsilon=0.3)
    made = WEAK.with_public_batches(iter([one_sided, balanced, balanced]), target=target)
    assert made.model == BetaBernoulli(alpha=5.5, beta=32)
    assert target.met_by(made.accountant)
    assert not target.met_by(DirectPosterior(model=BetaBernoulli(alpha=5.5, beta=2), n=4).accountant)


def test_what_the_batches_do_not_reach_is_refused():
    with pytest.raises(UnreachableTarget, match="add public batches"):
        WEAK.with_public_batches([BATCH] * 2, target=RDP(order=2, epsilon=0.1))
    with pytest.raises(TypeError, match="target"):
        WEAK.with_public_batches([BATCH], target=0.1)


def test_a_large_delta_is_a_warning():
    with pytest.warns(LargeDeltaWarning):
        made = WEAK.with_public_batches([np.array(BATCH)] * 30, target=DP(epsilon=1, delta=0.3))
    assert made.accountant.delta(1.0) <= 0.3
