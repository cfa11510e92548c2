"""What is no target is refused with words that say what to write."""

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.targets import check_target, require
from privsample.errors import UnreachableTarget


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((1, 1e-6), r"got tuple: write ps\.DP\(epsilon=1, delta=1e-06\)"),
        ([0.5, 0.0], r"got list: write ps\.DP\(epsilon=0\.5, delta=0\.0\)"),
        ((1, 2, 3), "got tuple$"),
        (1.0, "got float$"),
    ],
)
def test_a_target_is_no_number_and_no_tuple(given, words):
    with pytest.raises(TypeError, match=words):
        check_target(given)


def test_targets_pass():
    for target in (ps.DP(1, 1e-6), ps.RDP(2, 0.5), ps.ZCDP(0.1), ps.GDP(0.5)):
        assert check_target(target) is target


def test_a_target_that_epsilon_meets_and_delta_misses_is_refused_with_the_delta():
    """Epsilon and delta are computed by separate searches, whose last digits can differ."""
    account, messages = ps.GaussianAccountant(sensitivity=1, noise_std=1.7), []
    for delta in np.geomspace(1e-9, 0.1, 60).tolist():
        target = ps.DP(epsilon=float(account.epsilon(delta)), delta=delta)
        try:
            require(target, account, "add noise")
        except UnreachableTarget as error:
            messages.append(str(error))
    assert messages
    assert all("this mechanism costs delta" in message for message in messages)
