"""The mechanism obeys every distribution, and its probabilities are those of permute-and-flip."""

import numpy as np
import pytest
from private_majority import MajorityAccountant, PrivateMajority

import privsample as ps
from privsample.testing import check_mechanism


def test_the_mechanism_obeys_every_law():
    assert all(distribution.applied for distribution in check_mechanism(PrivateMajority))


def test_draws_are_paid_for_one_by_one():
    mechanism = PrivateMajority(rate=0.3, draws=4)
    assert mechanism.accountant == 4 * MajorityAccountant(rate=0.3)
    assert mechanism.accountant.pure_epsilon == pytest.approx(1.2)
    assert mechanism.release([0, 1])["majority"].shape == (4,)


@pytest.mark.parametrize("rate", [1e-6, 0.5, 30.0])
def test_the_account_is_the_largest_over_all_leads(rate):
    behind = np.exp(-rate * np.arange(40)) / 2
    first, second = behind[:-1], behind[1:]
    for epsilon in (0.0, rate / 3, 0.9 * rate, rate):
        gaps = [
            np.maximum(p - np.exp(epsilon) * q, 0) + np.maximum((1 - p) - np.exp(epsilon) * (1 - q), 0)
            for p, q in ((first, second), (second, first))
        ]
        expected = float(np.max(gaps))
        assert MajorityAccountant(rate=rate).delta(epsilon) == pytest.approx(expected, rel=1e-6, abs=1e-15)


def test_a_clear_lead_wins():
    winners = PrivateMajority(rate=1.0, draws=1000).release([1] * 60 + [0] * 10 + ["?"])["majority"]
    assert winners.tolist() == [1] * 1000


def test_the_rate_is_the_pure_guarantee():
    assert PrivateMajority.calibrate(target=ps.DP(epsilon=0.7)).rate == pytest.approx(0.7, rel=1e-6)
    with pytest.raises(ValueError, match="rate must lie in"):
        PrivateMajority(rate=-1.0).release([0, 1])
