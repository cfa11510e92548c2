"""Least zCDP of mechanisms with a bounded privacy loss, rounded up (docs/notes/zcdp.md).

zCDP is the largest ratio of a Rényi divergence to its order. For these pairs the ratio decreases with the order, so
that the largest is the Kullback-Leibler divergence, at order 1.
"""

import math

import numpy as np

from privsample._logspace import half_square, product_up, resolved

_ULP = float(np.finfo(np.float64).eps)
_SERIES = 0.1  # below it, the closed forms cancel and a series is used


def of_pure(epsilon: float) -> float:
    """epsilon tanh(epsilon/2): that of pure epsilon-DP and of randomized response with two answers."""
    epsilon = resolved(epsilon)
    return _least(epsilon, math.tanh(epsilon / 2))


def of_laplace(shift: float) -> float:
    """shift - 1 + e^-shift: that of Laplace noise whose centre moves by `shift` scales."""
    shift = resolved(shift)
    if shift < _SERIES:  # shift^2 times 1/2 - shift/6 + shift^2/24 - ..., whose terms decrease
        share = 0.0
        for k in range(12, 1, -1):
            share = 1.0 / math.factorial(k) - shift * share
        return _least(shift, shift * share)
    return min(half_square(shift), (shift + math.expm1(-shift)) * (1.0 + 16 * _ULP))


def of_response(log_odds: float, categories: int) -> float:
    """That of randomized response: a closed form for few categories, otherwise that of its pure guarantee."""
    log_odds = resolved(log_odds)
    if categories - 2 > 4.0 * math.exp(min(log_odds / 2, 700.0)) * (1.0 - 8 * _ULP):
        return of_pure(log_odds)
    return _least(log_odds, -math.expm1(-log_odds) / (1.0 + (categories - 1) * math.exp(-log_odds)))


def of_bounded_range(loss_range: float) -> float:
    """log(sinh(r/2) / (r/2)) + (r/2) coth(r/2) - 1 for a loss of range r."""
    loss_range = resolved(loss_range)
    if loss_range < _SERIES:  # the terms decrease in modulus, and the next one is negative
        square = loss_range * loss_range
        return _least(loss_range, loss_range * (1 / 8 - square / 576 + square * square / 25920))
    half = loss_range / 2
    log_sinh = half + math.log1p(-math.exp(-loss_range)) - math.log(loss_range)  # log(sinh(r/2) / (r/2))
    found = log_sinh + half / math.tanh(half) - 1.0
    return min(half_square(loss_range) / 4, found + 8 * _ULP * (1.0 + loss_range))


def _least(loss: float, share: float) -> float:
    """The product of a loss and a share of it, rounded up; at most loss^2/2."""
    if math.isinf(loss):
        return math.inf
    return min(half_square(loss), float(product_up(loss, share * (1 + 8 * _ULP))))
