"""The trade-off curve that a privacy curve implies: a lower bound on type II error, rounded down."""

import numpy as np

from privsample._checks import FloatArray

_EPS = float(np.finfo(np.float64).eps)


def tradeoff_bound(epsilons: FloatArray, deltas: FloatArray, type_1: FloatArray) -> FloatArray:
    """Lower bound on the type II error of any test between neighbours, at each type I error.

    Every pair (epsilon, delta) that holds in both directions of the relation excludes the errors below
    max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a)) at type I error a; the bound is the largest of these.
    Any set of epsilons gives a valid bound, and more epsilons give a tighter one.

    Parameters
    ----------
    epsilons : array of shape (k,)
        Epsilons >= 0, in nats.
    deltas : array of shape (k,)
        Upper bounds on the privacy curve at `epsilons`, in [0, 1], for the worse direction of the relation.
    type_1 : array of shape (m,)
        Type I errors, in [0, 1].

    Returns
    -------
    array of shape (m,)
        Lower bounds on the type II error, in [0, 1], rounded down.

    Notes
    -----
    Wasserman and Zhou 2010, Theorem 2.4; Dong, Roth and Su 2022, Proposition 2.4. Kind: exact for the worse direction
    made symmetric, if `deltas` are the exact privacy curve at every epsilon >= 0.
    """
    a, d = type_1[:, None], deltas[None, :]
    with np.errstate(over="ignore", invalid="ignore"):
        steep = 1.0 - d - np.exp(epsilons) * a
        flat = np.exp(-epsilons) * (1.0 - d - a)
        # Three roundings of terms of at most 1 + e^epsilon a; they must not raise the lower bound.
        steep -= 4 * _EPS * (1.0 + np.exp(epsilons) * a)
    # e^epsilon overflows to inf beside a = 0, where the product is 0 and the bound 1 - delta.
    steep = np.where(a == 0.0, 1.0 - d - 4 * _EPS, steep)
    best: FloatArray = np.maximum(np.maximum(steep, flat - 4 * _EPS), 0.0).max(axis=1, initial=0.0)
    return best


def tradeoff_corners(epsilons: FloatArray, deltas: FloatArray) -> FloatArray:
    """Type I errors between which the bound of `tradeoff_bound` is linear: its corners, with 0 and 1.

    The bound is convex: a straight line between two of its other points lies above it, and may exceed the true
    trade-off curve. Straight lines between the corners are the bound itself.

    Parameters
    ----------
    epsilons, deltas : array of shape (k,)
        As for `tradeoff_bound`, with epsilons for which e^epsilon is finite.

    Returns
    -------
    array
        The corners in [0, 1], increasing.
    """
    slopes = np.concatenate([-np.exp(epsilons), -np.exp(-epsilons), [0.0]])
    heights = np.concatenate([1.0 - deltas, np.exp(-epsilons) * (1.0 - deltas), [0.0]])
    # The upper envelope of the lines: they are added from steep to flat, and remove those that they hide.
    kept: list[tuple[float, float]] = []
    corners: list[float] = []  # between consecutive kept lines
    for at in np.lexsort((heights, slopes)):
        slope, height = float(slopes[at]), float(heights[at])
        while kept:
            above, steep = kept[-1][1] - height, slope - kept[-1][0]
            # A flatter line that is at least as high at 0 hides the steeper one; so does one that meets it too early.
            if steep > 0.0 and above > 0.0 and (not corners or above / steep > corners[-1]):
                corners.append(above / steep)
                break
            kept.pop()
            if corners:
                corners.pop()
        kept.append((slope, height))
    return np.unique(np.clip([0.0, *corners, 1.0], 0.0, 1.0))
