"""Subsampling schemes: who is drawn, how often, and in which order."""

import numpy as np
import pytest
from scipy import stats

from privsample import PoissonSampling, WithoutReplacement, WithReplacement
from tests.given_words import GivenWords

RUNS = 8_000
mutants = pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])


def counts(scheme, size, rng):
    """How often each record was drawn in each run, (RUNS, size)."""
    return np.array([np.bincount(scheme.draw(size, rng), minlength=size) for _ in range(RUNS)])


def chi_square(seen, distribution):
    """The p-value of counts seen against probabilities; values that are hardly expected count together."""
    expected = seen.sum() * distribution
    rare = expected < 20
    return stats.chisquare(
        np.append(seen[~rare], seen[rare].sum()), np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    ).pvalue


@pytest.mark.statistical
@mutants
def test_poisson_samples_are_independent_coins(factor, accepted, rng, alpha):
    drawn = counts(PoissonSampling(rate=0.3 * factor), 12, rng)
    assert drawn.max() == 1
    sizes = np.bincount(drawn.sum(axis=1), minlength=13)
    assert (chi_square(sizes, stats.binom.pmf(np.arange(13), 12, 0.3)) > alpha / 2) == accepted
    pairs = np.bincount(drawn[:, 0] + 2 * drawn[:, 11], minlength=4)
    assert (chi_square(pairs, np.array([0.49, 0.21, 0.21, 0.09])) > alpha / 2) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("m", "accepted"), [(5, True), (4, False), (6, False)])
def test_samples_without_replacement_are_hypergeometric(m, accepted, rng, alpha):
    drawn = counts(WithoutReplacement(n=12, m=m), 12, rng)
    assert drawn.max() == 1
    assert (drawn.sum(axis=1) == m).all()
    among = np.bincount(drawn[:, :4].sum(axis=1), minlength=5)
    assert (chi_square(among, stats.hypergeom.pmf(np.arange(5), 12, 4, 5)) > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("m", "accepted"), [(20, True), (18, False), (22, False)])
def test_samples_with_replacement_are_multinomial(m, accepted, rng, alpha):
    drawn = counts(WithReplacement(n=8, m=m), 8, rng)
    assert (drawn.sum(axis=1) == m).all()
    own = np.bincount(drawn[:, 3], minlength=21)[:21]
    assert (chi_square(own, stats.binom.pmf(np.arange(21), 20, 1 / 8)) > alpha / 2) == accepted
    both = np.bincount(drawn[:, 0] + drawn[:, 7], minlength=21)[:21]
    assert (chi_square(both, stats.binom.pmf(np.arange(21), 20, 1 / 4)) > alpha / 2) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("ordered", "accepted"), [(False, True), (True, False)])
@pytest.mark.parametrize("scheme", [PoissonSampling(rate=0.5), WithoutReplacement(n=6, m=3), WithReplacement(n=6, m=3)])
def test_the_place_in_the_sample_tells_nothing(scheme, ordered, accepted, rng, alpha):
    """Twin: samples in the order of the records."""
    drawn = [scheme.draw(6, rng) for _ in range(RUNS)]
    first = [np.sort(sample)[0] if ordered else sample[0] for sample in drawn if sample.size]
    assert (stats.chisquare(np.bincount(first, minlength=6)).pvalue > alpha) == accepted


def test_small_rates_are_not_rounded_to_coins_of_53_bits():
    """At 1e-17 a Bernoulli draw of 53 bits would be one with probability 2^-53, eleven times too often, or never."""
    scheme = PoissonSampling(rate=1e-17)
    below = int(1e-17 * 2**64)  # 184.5: words of 63 bits up to 91 are sampled, and 92 needs further bits
    assert scheme.draw(4, GivenWords(0, 2**32, below - 2, below + 2)).tolist() == [0, 2]
    assert scheme.draw(1, GivenWords(2 * 92, 0)).tolist() == [0]
    assert scheme.draw(1, GivenWords(2 * 92, 2**64 - 1)).tolist() == []


def test_ends(rng):
    assert sorted(PoissonSampling(rate=1).draw(5, rng)) == list(range(5))
    assert PoissonSampling(rate=0.5).draw(0, rng).shape == (0,)
    assert sorted(WithoutReplacement(n=5, m=5).draw(5, rng)) == list(range(5))
    assert (WithReplacement(n=1, m=7).draw(1, rng) == 0).all()


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0000001, np.nan, np.inf])
def test_rates(rate):
    with pytest.raises(ValueError, match=r"rate must lie in \(0, 1\]"):
        PoissonSampling(rate=rate)


@pytest.mark.parametrize("wrong", [True, "0.1", None, [0.1]])
def test_rates_are_numbers(wrong):
    with pytest.raises(TypeError, match="rate must be a"):
        PoissonSampling(rate=wrong)


@pytest.mark.parametrize("made", [WithoutReplacement, WithReplacement])
def test_sizes(made):
    for n, m in ((0, 1), (3, 0), (-1, 1), (3, -2)):
        with pytest.raises(ValueError, match="must be at least 1"):
            made(n=n, m=m)
    for n, m in ((True, 1), (3, True), ("3", 1)):
        with pytest.raises(TypeError, match="must be a whole number"):
            made(n=n, m=m)
    for n, m in ((3.5, 1), (3, np.nan)):
        with pytest.raises(ValueError, match="must be a whole number"):
            made(n=n, m=m)
    assert made(n=3.0, m=1.0) == made(n=3, m=1)


def test_no_more_can_be_drawn_than_there_are():
    with pytest.raises(ValueError, match="m must be at most n = 3, got 4"):
        WithoutReplacement(n=3, m=4)
    assert WithReplacement(n=3, m=4).m == 4
