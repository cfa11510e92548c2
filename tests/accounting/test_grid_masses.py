"""The masses of a convolution on a grid: none is lost and none is NaN."""

import numpy as np

from privsample.accounting.loss import grid
from privsample.accounting.loss.gaussian import GaussianPair


def test_a_wide_distribution_in_wide_cells_has_finite_masses():
    log_p, infinite = GaussianPair(mu=4e5).discretize(15000.0 * np.arange(-100, 100))
    assert not np.isnan(log_p).any()
    assert np.isfinite(infinite)


def test_the_rounding_error_of_the_transform_is_added():
    """No mass is below the sum of products in extended precision, however small it is."""
    rng, times = np.random.default_rng(3), 40
    tilted = np.exp(rng.uniform(-30.0, 0.0, 33))
    tilted[16] += 4.0
    tilted /= tilted.sum()
    member = grid._GridLoss(
        times=times, first=-16, nodes=np.arange(-16.0, 17.0), log_p=np.log(tilted), tilted=tilted, log_moment=0.0,
        log_infinite=-np.inf,
    )  # fmt: skip
    exact = np.ones(1, dtype=np.longdouble)
    for _ in range(times):
        exact = np.convolve(exact, tilted.astype(np.longdouble))
    masses, lost = grid._convolve([member], len(exact), -16 * times)
    assert (masses + lost >= exact).all()
    assert not (masses >= exact).all()
    assert 0 < lost <= 1e-10
