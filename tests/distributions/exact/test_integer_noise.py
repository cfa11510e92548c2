"""Exact draws of noise: the kernels against the reference word for word, and both against exact probabilities."""

import itertools
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privsample.distributions.exact import integer_noise
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.integer_noise import (
    discrete_gaussian,
    discrete_laplace,
    rounded_gaussian,
    rounded_laplace,
)
from privsample.distributions.exact.integer_reference import Reference, Uniform
from privsample.distributions.exact.words import random_words
from tests.cases import in_one_test

SCALES = [1e-3, 0.3, 1.0, 6.5, 1e6, 1e14]
PITCHES = [2.0**-60, 2.0**-40, 0.25, 8.0]


def samplers(scale, pitch=0.25):
    """Each sampler as a function of size and generator, beside what the reference does for one draw."""
    grid, exact = Grid(pitch=pitch), Fraction(scale)
    factor = exact / Fraction(pitch)
    return {
        "discrete laplace": (
            lambda size, rng: discrete_laplace(scale, size, rng),
            lambda reference: reference.discrete_laplace(exact),
        ),
        "discrete gaussian": (
            lambda size, rng: discrete_gaussian(scale, size, rng),
            lambda reference: reference.discrete_gaussian(exact),
        ),
        "rounded laplace": (
            lambda size, rng: rounded_laplace(scale, grid, size, rng),
            lambda reference: reference.laplace(factor),
        ),
        "rounded gaussian": (
            lambda size, rng: rounded_gaussian(scale, grid, size, rng),
            lambda reference: reference.gaussian(factor),
        ),
    }


NAMES = tuple(samplers(1.0))


def by_reference(draw, size, seed, bits=64):
    """Draws of the reference from the words of a seeded generator."""
    rng = np.random.default_rng(seed)
    words = iter(np.concatenate([random_words(rng, 1000) for _ in range(40 * size // 1000 + 40)]).tolist())
    reference = Reference(lambda: next(words), bits)
    return [draw(reference) for _ in range(size)]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_draw_word_for_word_what_the_reference_draws(name, scale):
    kernel, reference = samplers(scale)[name]
    assert kernel(150, np.random.default_rng(5)).tolist() == by_reference(reference, 150, 5)


@in_one_test(itertools.product(NAMES[2:4], SCALES, PITCHES))
def test_rounded_draws_agree_on_every_grid(name, scale, pitch):
    kernel, reference = samplers(scale, pitch)[name]
    assert kernel(40, np.random.default_rng(6)).tolist() == by_reference(reference, 40, 6)


@pytest.mark.parametrize("bits", [1, 8, 33, *(pytest.param(bits, marks=pytest.mark.long) for bits in (3, 17))])
@pytest.mark.parametrize("scale", [0.3, 1.0, 6.5, 1e6])
@pytest.mark.parametrize("name", NAMES)
def test_draws_that_short_words_leave_undecided_are_continued(name, scale, bits, monkeypatch):
    continued = []
    refine = Uniform.refine
    monkeypatch.setattr(Uniform, "refine", lambda self: (continued.append(1), refine(self))[1])
    monkeypatch.setattr(integer_noise, "_WORD_BITS", bits)
    kernel, reference = samplers(scale)[name]
    count = 300 if bits == 8 else 100  # few words of 8 bits leave a draw undecided
    drawn = kernel(count, np.random.default_rng(7)).tolist()
    assert bits > 8 or continued or scale == 1e6
    assert drawn == by_reference(reference, count, 7, bits)


AROUND = [0.0, 1.0, -0.125, 0.3, 1e-300, -1e-300, 5e-324, 1e16, -7.0 / 3, 2.0**62, 1e300]


@pytest.mark.parametrize("bits", [3, 64])
@pytest.mark.parametrize("pitch", [2.0**-60, 0.25, 2.0**70, pytest.param(8.0, marks=pytest.mark.long)])
@pytest.mark.parametrize("scale", [0.3, 6.5, 1e14])
@pytest.mark.parametrize("name", NAMES[2:4])
def test_noise_around_numbers_is_rounded_with_them(name, scale, pitch, bits, monkeypatch):
    """round((x + Z) / pitch) for a given double x, which need not lie on the grid."""
    monkeypatch.setattr(integer_noise, "_WORD_BITS", bits)
    around, grid = np.repeat(AROUND, 8), Grid(pitch=pitch)
    factor, draw = Fraction(scale) / Fraction(pitch), rounded_laplace if "laplace" in name else rounded_gaussian
    found = draw(scale, grid, len(around), np.random.default_rng(9), around=around)
    centers = iter([Fraction(x) / Fraction(pitch) + Fraction(1, 2) for x in around.tolist()])
    same = by_reference(
        lambda reference: (reference.laplace if "laplace" in name else reference.gaussian)(factor, next(centers)),
        len(around),
        9,
        bits,
    )
    assert found.tolist() == same


@pytest.mark.statistical
@pytest.mark.parametrize(("wrong", "accepted"), [(0.0, True), (0.02, False)])
@pytest.mark.parametrize("name", NAMES[2:4])
def test_noise_around_a_number_has_the_masses_of_shifted_cells(name, wrong, accepted, rng, alpha):
    draw, grid = rounded_laplace if "laplace" in name else rounded_gaussian, Grid(pitch=0.25)
    drawn = draw(1.0, grid, 1_000_000, rng, around=0.1 + wrong)
    peer = stats.laplace(0.1) if "laplace" in name else stats.norm(0.1)
    ends = (np.arange(-12, 13) + 0.5) * 0.25
    expected = np.diff([0.0, *peer.cdf(ends), 1.0]) * len(drawn)
    counts = np.histogram(drawn, bins=[-np.inf, *(np.arange(-12, 13) + 0.5), np.inf])[0]
    assert (stats.chisquare(counts, expected).pvalue > alpha) == accepted


def test_bad_centers_are_refused(rng):
    for around in (np.nan, np.inf, np.zeros(2), np.zeros((3, 1))):
        with pytest.raises(ValueError, match="around must be finite numbers, one or 3"):
            rounded_laplace(1.0, Grid(pitch=1.0), 3, rng, around=around)


def test_words_are_fetched_until_they_suffice(monkeypatch):
    whole = rounded_gaussian(3.0, Grid(pitch=0.5), 2000, np.random.default_rng(8))
    monkeypatch.setattr(integer_noise, "_MOST_WORDS", 7)
    assert (rounded_gaussian(3.0, Grid(pitch=0.5), 2000, np.random.default_rng(8)) == whole).all()


class OutOfWords(Exception):
    """The prefix of the words has ended."""


def tree(draw, depth):
    """The exact mass of each outcome over all sequences of at most `depth` bits, and the mass that is undecided."""
    masses, open_mass, prefixes = {}, Fraction(0), [()]
    while prefixes:
        prefix = prefixes.pop()
        words = iter(prefix)

        def word(words=words):
            try:
                return next(words) << 63
            except StopIteration:
                raise OutOfWords from None

        try:
            found = draw(Reference(word, 1))
        except OutOfWords:
            if len(prefix) == depth:
                open_mass += Fraction(1, 2**depth)
            else:
                prefixes += [(*prefix, 0), (*prefix, 1)]
        else:
            masses[found] = masses.get(found, 0) + Fraction(1, 2 ** len(prefix))
    return masses, open_mass


def cell_masses(name, scale, pitch):
    """The mass of an outcome as a function, to fifty digits."""
    s, p = mp.mpf(scale), mp.mpf(pitch)

    def laplace(x):
        return mp.exp(x / s) / 2 if x < 0 else 1 - mp.exp(-x / s) / 2

    if name.startswith("rounded"):
        cdf = laplace if name == "rounded laplace" else lambda x: mp.ncdf(x / s)
        return lambda k: cdf((k + mp.mpf(0.5)) * p) - cdf((k - mp.mpf(0.5)) * p)
    weight = (lambda k: mp.exp(-abs(k) / s)) if "laplace" in name else (lambda k: mp.exp(-(k**2) / (2 * s**2)))
    total = mp.fsum(weight(k) for k in range(-int(150 * scale + 50), int(150 * scale + 51)))
    return lambda k: weight(k) / total


def contradicted(masses, open_mass, truth):
    """Whether the tree shows an outcome whose mass is not the stated one."""
    with mp.workdps(50):
        assert sum(masses.values()) + open_mass == 1
        slack = mp.mpf(open_mass.numerator) / open_mass.denominator + mp.mpf(10) ** -40
        for outcome, mass in masses.items():
            found = mp.mpf(mass.numerator) / mass.denominator
            if not found - mp.mpf(10) ** -40 <= truth(outcome) <= found + slack:
                return True
    return False


def quarter(reference):
    """The quarter in which an accepted uniform lies; None if it is rejected."""
    found = reference.run()
    return None if found is None else reference.cell(Fraction(4), 0, found, Fraction(0))


def quarter_mass(k):
    return mp.exp(-1) if k is None else mp.exp(-mp.mpf(k) / 4) - mp.exp(-mp.mpf(k + 1) / 4)


def test_every_sequence_of_bits_leads_to_the_masses_of_one_run():
    masses, open_mass = tree(quarter, 17)
    assert open_mass < 0.1
    assert set(masses) == {None, 0, 1, 2, 3}
    assert not contradicted(masses, open_mass, quarter_mass)


@pytest.mark.parametrize("name", ["discrete laplace", "rounded laplace"])
def test_every_sequence_of_bits_leads_to_the_stated_masses(name):
    """No outcome has more mass than stated, and none less than stated beside the open mass."""
    masses, open_mass = tree(samplers(0.75)[name][1], 14)
    assert open_mass < 0.6
    assert not contradicted(masses, open_mass, cell_masses(name, 0.75, 0.25))


def acceptance(reference, whole, other):
    """Whether the proposal whole + U is accepted by the exponential other + V."""
    return reference._accepted(whole, reference._uniform(), other, reference._uniform())


@pytest.mark.parametrize(("whole", "other"), [(0, 0), (1, 0), (2, 0), (2, 1), (3, 1), (3, 3)])
def test_every_sequence_of_bits_leads_to_the_chance_of_acceptance(whole, other):
    """The probability of other + V > (whole + U - 1)^2 / 2 for uniform U and V, by quadrature."""
    truth = chance(whole, other)
    masses, open_mass = tree(lambda reference: acceptance(reference, whole, other), 15)
    assert open_mass < 0.06
    assert not contradicted(masses, open_mass, lambda found: truth if found else 1 - truth)


def chance(whole, other):
    ends = [mp.sqrt(2 * level) + 1 - whole for level in (other, other + 1)]
    inside = sorted({mp.mpf(0), mp.mpf(1), *(end for end in ends if 0 < end < 1)})
    return mp.quad(lambda u: min(max(other + 1 - (whole + u - 1) ** 2 / 2, 0), 1), inside)


class LooseRuns(Reference):
    """A broken copy that compares with the first uniform only: runs of numbers below it, in any order."""

    def run(self):
        first, odd = self._uniform(), True
        while self._uniform().below(first):
            odd = not odd
        return first if odd else None


class TwoZeros(Reference):
    """A broken copy that keeps the negative zero."""

    def discrete_laplace(self, scale):
        negative, size = self._negative(), self.cell(scale, *self.exponential(), Fraction(0))
        return -size if negative else size


class Generous(Reference):
    """A broken copy that accepts every proposal below 1/2."""

    def _accepted(self, whole, fraction, other, part):
        return (whole == 0 and not fraction.digits >> (fraction.bits - 1)) or super()._accepted(
            whole, fraction, other, part
        )


def test_broken_copies_contradict_the_stated_masses(monkeypatch):
    monkeypatch.setitem(globals(), "Reference", LooseRuns)
    assert contradicted(*tree(quarter, 15), quarter_mass)
    monkeypatch.setitem(globals(), "Reference", TwoZeros)
    assert contradicted(*tree(samplers(0.75)["discrete laplace"][1], 14), cell_masses("discrete laplace", 0.75, 0.25))


def test_a_broken_copy_contradicts_the_chance_of_acceptance(monkeypatch):
    monkeypatch.setitem(globals(), "Reference", Generous)
    truth = chance(0, 0)
    assert contradicted(*tree(lambda reference: acceptance(reference, 0, 0), 15), lambda k: truth if k else 1 - truth)


@cache
def masses_of(name, scale, pitch, reach):
    """The masses of the outcomes from -reach to reach, computed to fifty digits."""
    truth = cell_masses(name, scale, pitch)
    with mp.workdps(50):
        return np.array([float(truth(k)) for k in range(-reach, reach + 1)])


def p_value(drawn, masses):
    """A chi-square test of draws against masses; rare outcomes join to one lump on each side."""
    span = np.arange(len(masses)) - len(masses) // 2
    expected = masses * len(drawn)
    kept = span[expected >= 10]
    counts = np.array([np.sum(drawn < kept[0]), *(np.sum(drawn == k) for k in kept), np.sum(drawn > kept[-1])])
    side = (1 - masses[expected >= 10].sum()) / 2 * len(drawn)
    shares = np.array([side, *expected[expected >= 10], side])
    if side < 5:
        counts = np.array([counts[:2].sum(), *counts[2:-2], counts[-2:].sum()])
        shares = np.array([shares[:2].sum(), *shares[2:-2], shares[-2:].sum()])
    return stats.chisquare(counts, shares * counts.sum() / shares.sum()).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("wrong", "accepted"), [(1.0, True), (0.98, False), pytest.param(1.02, False, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("scale", [0.4, 6.5, pytest.param(1.0, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
def test_draws_follow_fifty_digit_masses(name, scale, wrong, accepted, rng, alpha):
    """A scale wrong by 2 percent adds 240 to chi-square, or 400 with many cells: far above what is accepted."""
    pitch = 0.25 if name.startswith("rounded") else 1.0
    many = "laplace" in name and scale > 1  # with hundreds of cells
    drawn = samplers(scale * wrong, pitch)[name][0](1_000_000 if many else 600_000, rng)
    masses = masses_of(name, scale, pitch, 100 if scale < 6 else 300)
    assert (p_value(drawn, masses) > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("wrong", "accepted"), [(1.0, True), (0.5, False)])
@pytest.mark.parametrize("scale", [1e-3, 1e14])
@pytest.mark.parametrize("pitch", [2.0**-60, 2.0**-20])
@pytest.mark.parametrize("name", NAMES[2:4])
def test_fine_grids_and_extreme_scales_keep_the_distribution(name, pitch, scale, wrong, accepted, rng, alpha):
    """Half the scale moves the distribution function by 0.125 (Laplace) or 0.16 (Gaussian).

    With 2000 draws and alpha = 1e-9 the test rejects from 0.073 on, more than four standard errors (0.011) below.
    """
    drawn = samplers(scale * wrong, pitch)[name][0](2000, rng)
    peer = stats.laplace(scale=scale) if "laplace" in name else stats.norm(scale=scale)
    assert (stats.kstest(drawn.astype(float) * pitch, peer.cdf).pvalue > alpha) == accepted


def test_the_widest_discrete_noise_is_an_integer_and_narrow_noise_is_zero(rng):
    assert discrete_laplace(1e14, 1000, rng).dtype == discrete_gaussian(1e14, 1000, rng).dtype == np.int64
    assert not discrete_laplace(1e-3, 1000, rng).any()
    assert not discrete_gaussian(1e-300, 1000, rng).any()
    assert not rounded_gaussian(1e-3, Grid(pitch=2.0**30), 1000, rng).any()
    for name in NAMES[2:4]:  # indices that exceed 64 bits are Python integers
        wide = samplers(1e14, 2.0**-60)[name][0](20, rng)
        assert wide.dtype == object
        assert any(abs(index) > 2**70 for index in wide)
        assert all(type(index) is int for index in wide)


def test_scales_that_are_no_dyadic_numbers_are_drawn_exactly(rng):
    """A third has no finite binary expansion: the reference draws it."""
    drawn = discrete_laplace(Fraction(1, 3), 200, rng)
    assert set(drawn.tolist()) <= set(range(-9, 10))
    assert discrete_gaussian(Fraction(10, 3), 20, rng).dtype == object


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, "1", Fraction(-1)])
def test_bad_parameters_are_refused(bad, rng):
    for name, draw in (
        ("scale", lambda: discrete_laplace(bad, 1, rng)),
        ("noise_std", lambda: discrete_gaussian(bad, 1, rng)),
        ("scale", lambda: rounded_laplace(bad, Grid(pitch=1.0), 1, rng)),
        ("noise_std", lambda: rounded_gaussian(bad, Grid(pitch=1.0), 1, rng)),
    ):
        with pytest.raises((ValueError, TypeError), match=name):
            draw()


@pytest.mark.parametrize("scale", [0.3, 10.0, 1e14])
@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_rarely_needed(name, scale, rng, monkeypatch):
    """Far less than once in a thousand draws, so that nearly all are made by the kernels."""
    continued = []
    made = Reference.exponential
    monkeypatch.setattr(Reference, "exponential", lambda self: (continued.append(1), made(self))[1])
    samplers(scale)[name][0](300_000, rng)
    assert len(continued) < 100


@pytest.mark.parametrize("name", NAMES)
def test_without_numba_the_same_numbers_are_drawn(name, monkeypatch):
    sampler = samplers(6.5)[name][0]
    compiled = sampler(200, np.random.default_rng(4))
    monkeypatch.setattr(integer_noise, "_kernels", lambda: None)
    drawn = sampler(200, np.random.default_rng(4))
    assert drawn.dtype == compiled.dtype
    assert drawn.tolist() == compiled.tolist()
