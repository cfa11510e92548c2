"""The curvature of log Gamma against fifty digits."""

import functools

import mpmath as mp
import numpy as np
import pytest

from privsample.accounting.curves import curvature
from privsample.accounting.curves.curvature import trigamma

UNIT = 2.0**-53


def points():
    """From next to zero to where only the first term is left, dense where the series takes over from the recurrence."""
    rng = np.random.default_rng(2)
    edges = [1e-150, 1.0, 10.0, np.nextafter(10.0, 0.0), np.nextafter(10.0, 11.0), 20.0, 1e150]
    return np.concatenate([edges, 10.0 ** rng.uniform(-150, -3, 50), rng.uniform(1e-3, 22.0, 400)])


@functools.cache
def truth():
    """The trigamma function of the points."""
    with mp.workdps(50):
        return [mp.zeta(2, mp.mpf(float(u))) if u < 1e6 else 1 / mp.mpf(float(u)) for u in points()]


def worst_error(found):
    """Largest relative error at the points, in units of half an ulp of one."""
    with mp.workdps(50):
        return max(abs(float((mp.mpf(float(x)) / t - 1) / UNIT)) for x, t in zip(found, truth(), strict=True))


def test_trigamma_against_fifty_digits():
    assert worst_error(trigamma(points())) < 5.0  # the margin of what is integrated is 64


def test_too_few_terms_are_detected(monkeypatch):
    monkeypatch.setattr(curvature, "_BERNOULLI", curvature._BERNOULLI[3:])
    assert worst_error(trigamma(points())) > 50.0


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (4, 1)])
def test_trigamma_keeps_shapes_and_blocks(shape, monkeypatch):
    at = np.random.default_rng(3).uniform(0.1, 30.0, shape)
    whole = trigamma(at)
    assert whole.shape == shape
    monkeypatch.setattr(curvature, "_BLOCK", 4)
    assert (trigamma(at) == whole).all()


def test_trigamma_next_to_zero_is_infinite():
    assert np.isposinf(trigamma(np.array([1e-300]))).all()
