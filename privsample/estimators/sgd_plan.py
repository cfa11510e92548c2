"""Number of epochs and size of a batch of private descent, from public quantities only."""

import numpy as np

from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import Target, smallest
from privsample.distributions.steps.losses import ConvexLoss

_MOST_STEPS = 500
_MOST_READS = 2_000_000  # records that all steps together read, unless one epoch reads more: a few seconds
_LEAST_BATCH = 20  # smaller batches need more noise than a step gains
_NOISE_NORM, _SHARE = 2.5, 0.4  # length of the noise of all steps: absolute, and relative to the radius


def default_norm(features: int) -> float:
    """Largest norm of a row of numbers in [-1, 1] that is kept: halfway between one extreme feature and all of them.

    The root mean square of a uniform row, (features / 3)^(1/2), is smaller. The noise is proportional to this norm.
    """
    return (1.0 + float(np.sqrt(features))) / 2.0


def planned_steps(loss: ConvexLoss, n: int, rate: float, target: Target) -> int:
    """Number of steps after which the noise of all of them, were no step to contract it, has a declared length.

    T steps on all records, for a Gaussian guarantee mu, need noise of deviation G T^(1/2) / (n mu) in each coordinate
    of a gradient; their sum moves the state by T rate G width^(1/2) / (n mu). Fewer steps leave the state near its
    start, more steps drown it in noise. A rule of thumb: the account does not depend on it.
    """
    account = smallest(
        lambda noise: GaussianAccountant(sensitivity=1.0, noise_std=noise),
        lambda account: account,
        target,
        advice="ask for delta > 0",
    )
    allowed = min(_SHARE * loss.radius, _NOISE_NORM)
    steps = allowed * n / account.noise_std / (rate * loss.gradient_sensitivity * loss.width**0.5)
    return int(min(max(steps, 1.0), _MOST_STEPS))


def planned_batches(n: int, steps: int, batch: int | None, epochs: int | None) -> tuple[int, int]:
    """(batch, epochs) for about this many steps; values that are given are kept."""
    if epochs is None:
        few = min(steps, max(1, _MOST_READS // n))
        epochs = few if batch is None else max(1, round(steps * min(batch, n) / n))
    if batch is None:
        batch = min(n, max(_LEAST_BATCH, -(-n * epochs // max(steps, epochs))))
    return batch, epochs
