"""The Gaussian guarantee that an (epsilon, delta) budget is worth."""

import math

import numpy as np

from privsample.accounting.curves.conversion import crossing, safe_side
from privsample.accounting.ledger.filters import DOWN, decimal, float_down
from privsample.accounting.loss.gaussian import gaussian_log_delta
from privsample.accounting.targets import DP


def largest_mu(budget: DP, set_aside: float) -> float:
    """The largest mu with delta_mu(epsilon) <= delta - set_aside, rounded down."""
    goal = math.log(float_down(DOWN.subtract(decimal(budget.delta), decimal(set_aside))))

    def excess(mu: float) -> float:
        return float(gaussian_log_delta(mu, np.array([budget.epsilon]))[0]) - goal

    root = crossing(lambda inverse: excess(1.0 / inverse), start=max(1.0, -goal) / budget.epsilon)
    return safe_side(lambda mu: excess(mu) <= 0.0, 1.0 / root, upward=False)
