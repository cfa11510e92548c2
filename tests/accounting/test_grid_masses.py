"""The masses of a convolution on a grid: none is lost and none is NaN."""

import numpy as np
import pytest

from privsample.accounting.loss.convolution import GridMasses, convolve
from privsample.accounting.loss.gaussian import GaussianPair


def test_a_wide_distribution_in_wide_cells_has_finite_masses():
    log_p, infinite = GaussianPair(mu=4e5).discretize(15000.0 * np.arange(-100, 100))
    assert not np.isnan(log_p).any()
    assert np.isfinite(infinite)


@pytest.mark.parametrize(("heaviest", "times", "most"), [(4.0, 40, 1e-10), (4e6, 300, 1e-13)])
def test_the_rounding_error_of_the_transform_is_added(heaviest, times, most):
    """No mass is below the sum of products in extended precision, however small it is.

    If nearly all mass is at one node, the error is that of the inverse transform alone, not 300 times as large.
    """
    rng = np.random.default_rng(3)
    tilted = np.exp(rng.uniform(-30.0, 0.0, 33))
    tilted[16] += heaviest
    tilted /= tilted.sum()
    member = GridMasses(times=times, indices=np.arange(-16, 17), masses=tilted)
    exact = np.ones(1, dtype=np.longdouble)
    for _ in range(times):
        exact = np.convolve(exact, tilted.astype(np.longdouble))
    masses, lost = convolve([member], len(exact), -16 * times)
    assert (masses + lost >= exact).all()
    assert not (masses >= exact).all()
    assert 0 < lost <= most
