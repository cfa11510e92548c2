"""A small release of counts, stationary distributions, and a test of end states."""

import numpy as np
from scipy import stats

SCALE, SEEN, THETA = 1.1, np.array([1.2, 3.9, -0.4]), np.array([0.5, 0.3, 0.2])
ALPHA = np.array([0.7, 1.5, 0.4])
SIZES = np.log(np.array([1.0, 2.0, 4.0, 4.0, 3.0, 2.0, 1.0]))  # N = 0..6, not normalized


def stationary(log_weights):
    weights = np.exp(np.array(log_weights) - max(log_weights))
    return weights / weights.sum()


def chi_square(row, ends):
    """P-value of the end states of independent moves, rare ones pooled."""
    assert set(ends) <= {end for end, chance in row.items() if chance > 0}
    expected = np.array([chance * len(ends) for chance in row.values()])
    found = np.array([ends.count(end) for end in row], dtype=float)
    rare = expected < 10
    found = np.append(found[~rare], found[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    used = expected > 1e-9
    return stats.chisquare(found[used], expected[used]).pvalue
