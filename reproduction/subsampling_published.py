"""Bounds of Balle, Barthe and Gaboardi (2018) as published, and the exact cost of the randomized membership mechanism.

Source: Balle, Barthe and Gaboardi 2018, Theorems 3, 4, 8-11 and 14, section 2 (group profiles), Lemma 12.
"""

from collections.abc import Callable
from itertools import combinations, product
from math import comb
from typing import Literal

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray

Profile = Callable[[FloatArray], FloatArray]
Drawn = Literal["poisson", "without", "with"]
Groups = Callable[[int], Profile]  # the profile of a group of k records


def mirrored(above: Profile) -> Profile:
    """A profile at epsilons of either sign from its values at those that are not negative; of a symmetric mechanism."""
    return lambda e: np.where(e >= 0, above(np.abs(e)), -np.expm1(-np.abs(e)) + np.exp(-np.abs(e)) * above(np.abs(e)))


def laplace(theta: float) -> Profile:
    """Theorem 3: sensitivity over scale is theta."""
    return mirrored(lambda e: np.maximum(-np.expm1((e - theta) / 2), 0.0))


def gauss(theta: float) -> Profile:
    """Theorem 4: sensitivity over standard deviation is theta."""
    return lambda e: special.ndtr(theta / 2 - e / theta) - np.exp(e) * special.ndtr(-theta / 2 - e / theta)


def response(honest: float) -> Profile:
    """Section 5: a bit answered as it is with probability `honest`."""
    return mirrored(lambda e: np.maximum(honest - np.exp(e) * (1 - honest), 0.0))


def black_box(profile: Profile) -> Groups:
    """delta_k(e) <= (e^e - 1)/(e^(e/k) - 1) delta(e/k)."""
    return lambda k: (
        lambda e: np.minimum(
            profile(e / k) * np.where(e > 0, np.expm1(e) / np.expm1(np.where(e > 0, e / k, 1.0)), k), 1.0
        )
    )


def inner(epsilon: FloatArray, eta: float) -> FloatArray:
    """The base's epsilon: e^epsilon = 1 + eta (e^inner - 1)."""
    return np.log1p(np.expm1(epsilon) / eta)


def once(profile: Profile, eta: float) -> Profile:
    """Theorems 8 and 9: eta is the rate of a Poisson sample, or m/n without replacement."""
    return lambda e: eta * profile(inner(e, eta))


def touched(n: int, m: int) -> float:
    """The chance that a record is among m draws from n with replacement."""
    return float(-np.expm1(m * np.log1p(-1 / n)))


def repeated(groups: Groups, n: int, m: int) -> Profile:
    """Theorems 10 and 11: m draws with replacement."""
    eta = touched(n, m)
    return lambda e: sum((stats.binom.pmf(k, m, 1 / n) * groups(k)(inner(e, eta)) for k in range(1, m + 1)), 0.0 * e)


def poisson_replaced(profile: Profile, n: int, rate: float) -> Profile:
    """Theorem 14: a Poisson sample under substitution."""

    def bound(e: FloatArray) -> FloatArray:
        base = inner(e, rate)
        beta = np.exp(e - base)
        weight = stats.binom.pmf(np.arange(n), n - 1, rate)
        shift = [np.log(rate / (1 - rate) * (n / k - 1)) for k in range(1, n)]
        terms = sum((w * profile(base + s) for w, s in zip(weight[:-1], shift, strict=True)), 0.0 * e)
        return rate * beta * profile(base) + rate * (1 - beta) * (terms + weight[-1])

    return bound


def membership(drawn: Drawn, n: int, m: int, honest: float) -> Profile:
    """What the membership mechanism costs on subsamples of n records, all of them counted, exactly.

    It answers honestly with probability `honest` whether record 0 is in the subsample; the neighbour never held it.
    drawn: "poisson", at rate m/n; "without" or "with" replacement, m draws.
    """
    if drawn == "poisson":
        held = sum((m / n) ** k * (1 - m / n) ** (n - k) * comb(n - 1, k - 1) for k in range(1, n + 1))
    else:
        samples = list(combinations(range(n), m)) if drawn == "without" else list(product(range(n), repeat=m))
        held = sum(0 in sample for sample in samples) / len(samples)
    p, q = held * honest + (1 - held) * (1 - honest), 1 - honest  # the chance of yes, with the record and without
    return lambda e: np.maximum(p - np.exp(e) * q, 0.0) + np.maximum(1 - p - np.exp(e) * (1 - q), 0.0)
