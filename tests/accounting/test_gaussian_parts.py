"""The Gaussian part of pairs that are built from others: it dominates each of them."""

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.engine.tables import TabulatedPair
from privsample.accounting.loss.alternatives import OneOfPairs
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.subsampling.pairs import MixturePair

NARROW, WIDE, LAPLACE = GaussianPair(mu=0.5), GaussianPair(mu=1.5), LaplacePair(shift=0.7)


@pytest.mark.parametrize(
    ("pair", "part"),
    [
        (TabulatedPair(pair=WIDE), (1.5, 0.0)),
        (OneOfPairs(members=(NARROW, WIDE)), (1.5, 0.0)),
        (OneOfPairs(members=(NARROW, LAPLACE)), (0.5, 0.7)),
        (MixturePair(members=(NARROW, LAPLACE), log_weights=np.log([0.5, 0.25])), (0.5, 0.7)),
    ],
    ids=["table", "alternatives", "alternatives of two kinds", "mixture"],
)
def test_the_gaussian_part_dominates_the_pair(pair, part):
    assert pair.gaussian_part == pytest.approx(part)
    shift, rest = pair.gaussian_part
    epsilon = np.linspace(rest, 8.0, 30)
    own = getattr(pair, "pair", pair)  # the values of a table are upper bounds of those of its pair
    assert np.all(own.log_delta(epsilon) <= GaussianPair(mu=shift).log_delta(epsilon - rest) + 1e-12)


def test_the_part_of_an_account_is_that_of_its_bounds():
    """An account in an envelope, as samples and random scans hold it."""
    for account, part in (
        (ps.GaussianAccountant(sensitivity=1, noise_std=2), (0.5, 0.0)),
        (ps.LaplaceAccountant(sensitivity=1, scale=2), (0.0, 0.5)),
    ):
        envelope = BoundsEnvelope(bounds=account.bounds)
        assert envelope.gaussian_part == pytest.approx(part, rel=1e-12)
