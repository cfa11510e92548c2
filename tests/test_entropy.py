"""Generators over the system's entropy: uniform, independent, and at work where randomgen is not installed."""

import os
import sys

import numpy as np
import pytest
from scipy import stats

from privsample import BetaBernoulli, DirectPosterior
from privsample._checks import generator
from privsample._entropy import SystemBits, system_generator


@pytest.mark.statistical
@pytest.mark.parametrize(("power", "accepted"), [(1.0, True), (1.1, False)])
def test_fallback_doubles_are_uniform(power, accepted, alpha):
    draws = np.random.Generator(SystemBits()).random(100_000) ** power
    assert (stats.kstest(draws, "uniform").pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", [np.uint64, np.uint32])
def test_fallback_words_have_even_bits(dtype, alpha):
    top = np.iinfo(dtype).max
    words = np.random.Generator(SystemBits()).integers(0, top, 40_000, dtype=dtype, endpoint=True)
    width = np.iinfo(dtype).bits
    ones = [(words >> dtype(bit) & dtype(1)).sum() for bit in range(width)]
    worst = min(stats.binomtest(int(k), len(words)).pvalue for k in ones)
    assert worst > alpha / width


def test_fallback_generators_are_independent():
    one, other = (np.random.Generator(SystemBits()).random(4) for _ in range(2))
    assert not np.array_equal(one, other)
    children = SystemBits().spawn(3)
    assert len({np.random.Generator(child).random() for child in children}) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_draw_its_parents_noise():
    mine = np.random.Generator(SystemBits())
    mine.random()  # words are held
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, mine.random(4).tobytes())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reading, 32))
    assert len(theirs) == 4
    assert not np.isin(theirs, mine.random(4)).any()


def test_fallback_serves_every_sampler_that_distributions_use():
    made = np.random.Generator(SystemBits())
    for draws in (
        made.beta(0.1, 3, 200),
        made.gamma(0.5, 1, 200),
        made.standard_normal(200),
        made.laplace(0, 1, 200),
        made.dirichlet((1, 2, 0.1), 200),
        made.integers(0, 5, 200),
    ):
        assert np.isfinite(draws).all()
        assert len(np.unique(draws)) > 1


def test_without_randomgen_the_fallback_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "randomgen", None)
    made = system_generator()
    assert isinstance(made.bit_generator, SystemBits) or "SystemBits" in repr(made)
    release = DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=2, draws=5).release([0, 1])
    assert len(np.unique(release["theta"])) == 5


def test_with_randomgen_the_generator_is_cryptographic():
    randomgen = pytest.importorskip("randomgen")
    made = system_generator()
    assert isinstance(made.bit_generator, randomgen.AESCounter)
    assert not np.array_equal(made.random(4), system_generator().random(4))


def test_a_callers_generator_is_used_as_it_is():
    mine = np.random.default_rng(3)
    assert generator(mine) is mine
