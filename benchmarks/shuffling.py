"""Shuffled answers: the account beside the published clones bound, the worst dataset of few persons, and times."""

import itertools
from collections.abc import Iterator
from math import comb

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

import privsample as ps
from benchmarks.measure import Row, seconds

CASES = ((1.0, 2, 10_000, 1e-6), (2.0, 4, 1_000, 1e-6), (4.0, 16, 100_000, 1e-8), (0.5, 3, 10_000, 1e-10))
FEW = ((1.0, 2, 60, 1e-4), (1.0, 2, 200, 1e-4), (2.0, 2, 200, 1e-4))
LARGE = (1.0, 2, 1_000_000, 1e-12)


def rows() -> Iterator[Row]:
    """Epsilon beside that of the clones; the excess over the worst dataset; the time of a large one."""
    for log_odds, categories, n, delta in CASES:
        own, clones = float(_account(log_odds, categories, n).epsilon(delta)), _clones_epsilon(log_odds, n, delta)
        name = f"epsilon of {n:,} answers, {categories} categories, log odds {log_odds:g}, delta {delta:g}"
        yield Row(
            name=name,
            library=f"{own:.5f}",
            peer=f"clones {clones:.5f}",
            ratio=own / clones,
            target="at most the clones",
        )
    for log_odds, categories, n, delta in FEW:
        own, worst = float(_account(log_odds, categories, n).epsilon(delta)), _exact_epsilon(log_odds, n, delta)
        name = f"epsilon of {n:,} answers, {categories} categories, log odds {log_odds:g}, delta {delta:g}"
        yield Row(
            name=name, library=f"{own:.5f}", peer=f"exact {worst:.5f}", ratio=own / worst, target="at least exact"
        )
    log_odds, categories, n, delta = LARGE
    spent = seconds(lambda: _account(log_odds, categories, n).epsilon(delta))
    yield Row(name=f"epsilon of {n:,} answers", library=f"{spent:.2f} s", peer="", ratio=None, target="2 s")


def _account(log_odds: float, categories: int, n: int) -> ps.ShuffledAccountant:
    base = ps.RandomizedResponseAccountant(log_odds=log_odds, categories=categories, relation=ps.ReplaceOne(n=1))
    return ps.ShuffledAccountant(base=base, n=n)


def _clones_epsilon(log_odds: float, n: int, delta: float) -> float:
    """Feldman et al. 2021: (A + D, C - A + 1 - D) against (A + 1 - D, C - A + D), C ~ Bin(n - 1, e^-odds).

    For each C, the loss increases in the first number k, so that the divergence is a difference of two tails.
    """
    true = special.expit(log_odds)

    def delta_at(epsilon: float) -> float:
        low, high = stats.binom.ppf([1e-14, 1 - 1e-14], n - 1, np.exp(-log_odds))
        clones = np.arange(int(low), int(high) + 1)
        own, grown = true / (1 - true), np.exp(epsilon)
        # P(k)/Q(k) = (own k + c + 1 - k)/(k + own (c + 1 - k)) exceeds e^epsilon from this k on
        first = np.ceil((clones + 1) * (grown * own - 1) / ((own - 1) * (1 + grown)))
        at, above = (stats.binom.sf(first - 1 - shift, clones, 0.5) for shift in (0, 1))
        p, q = true * above + (1 - true) * at, true * at + (1 - true) * above
        weights = stats.binom.pmf(clones, n - 1, np.exp(-log_odds))
        return float((weights * np.maximum(p - grown * q, 0.0)).sum()) + 2e-14

    return float(brentq(lambda e: np.log(delta_at(e) / delta), 1e-6, log_odds))


def _exact_epsilon(log_odds: float, n: int, delta: float) -> float:
    """The worst number of others with each record, for two categories, by convolution."""
    true = special.expit(log_odds)
    pairs: list[tuple[np.ndarray, ...]] = []
    for ones in range(n):
        shared = np.convolve(stats.binom.pmf(range(ones + 1), ones, true), _binomial(n - 1 - ones, 1 - true))
        own = np.convolve(shared, [1 - true, true]), np.convolve(shared, [true, 1 - true])
        pairs.extend(itertools.permutations(own))
    p, q = (np.array(column) for column in zip(*pairs, strict=True))

    def worst(epsilon: float) -> float:
        return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum(axis=1).max())

    return float(brentq(lambda e: worst(e) - delta, 0.0, log_odds))


def _binomial(count: int, rate: float) -> np.ndarray:
    return np.array([comb(count, k) * rate**k * (1 - rate) ** (count - k) for k in range(count + 1)])
