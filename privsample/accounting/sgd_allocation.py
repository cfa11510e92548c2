"""Gradient descent whose epochs allocate each record to one random step, with a fixed divisor: sgd.md, section 5."""

import math

from privsample.accounting.base import Accountant, Group
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.compose import compose
from privsample.accounting.engine.group import group
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.subsampling.allocation import allocation_pairs
from privsample.relations import ReplaceOne

_LARGE = 500.0  # squares of shifts up to this one have a finite exponential


def allocated_bounds(shift: float, steps: int, epochs: int) -> PrivacyBounds:
    """Bounds for one replaced record: a group of two of the composed random allocations.

    `shift` is that of the step which adds or removes a record's gradient. Without the record, the steps have the same
    number and divisor, so that a replacement is a removal and an addition. Kind: upper bound.
    """
    pair = GaussianPair(mu=shift)
    removal, addition = allocation_pairs(pair, pair, steps)
    epoch = PrivacyBounds.from_pairs((removal,), (addition,), exact=frozenset())
    return group(compose([(epoch, epochs)]), 2)


def approximate_account(shift: float, steps: int, epochs: int, relation: ReplaceOne) -> Accountant:
    """An approximate account in closed form, which starts searches: the Gaussian limit of the allocation's loss.

    The mean of `steps` likelihood ratios has the variance (e^(shift^2) - 1)/steps, and a Gaussian mechanism of shift
    mu a ratio of variance e^(mu^2) - 1.
    """
    square = shift * shift
    epoch = math.log1p(math.expm1(square) / steps) if square < _LARGE else square
    near = GaussianAccountant(sensitivity=math.sqrt(epochs * epoch), noise_std=1.0)
    return Group(base=near, size=2, relation=relation)
