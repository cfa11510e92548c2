"""What the tests of noisy statistics share."""

import numpy as np

ORDERS = np.array([1 + 1e-7, 1.01, 1.3, 1.5, 2.0, 2.25, 7.3, 55.5])


def above(found, truth, relative=1e-9):
    """Rounded up, and by no more than that."""
    return truth <= found <= truth + relative * (1 + abs(truth))
