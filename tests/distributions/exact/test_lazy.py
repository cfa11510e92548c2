"""Lazy uniforms, decisions and choices."""

import os
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from privsample.distributions.exact import balls
from privsample.distributions.exact.balls import WorkingPrecision, enclose, rational
from privsample.distributions.exact.choice import exact_choice
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.laws import normal
from privsample.distributions.exact.lazy import LazyMap, LazyUniform, affine, decide, less, rounded
from privsample.distributions.exact.words import WordStream

DRAWS = 20_000


class Scripted:
    """A stream of given words."""

    def __init__(self, *words):
        self.words = list(words)

    def word(self):
        return self.words.pop(0)


def test_a_uniform_number_is_the_sum_of_its_bits():
    first, second, third = 0b1011 << 60, 12345, 2**63
    uniform = LazyUniform(Scripted(first, second, third))
    value = Fraction(first, 2**64) + Fraction(second, 2**128) + Fraction(third, 2**192)
    for bits, width in ((64, 64), (65, 64), (128, 128), (180, 192), (64, 192)):
        with WorkingPrecision(300):
            ball = uniform.ball(bits)
            assert ball.contains(enclose(value))
            assert float(ball.rad()) == pytest.approx(2.0 ** -(width + 1), rel=1e-6)


def test_leading_zeros_are_followed_by_more_bits():
    uniform = LazyUniform(Scripted(0, 0, 1, 2**63 + 1))
    ball = uniform.ball(64)
    assert ball > 0
    assert ball.rel_accuracy_bits() > 60
    assert float(ball.mid()) == pytest.approx(2.0**-192 * 1.0, rel=0.6)


@pytest.mark.statistical
@pytest.mark.parametrize(("power", "accepted"), [(1, True), (2, False)])
def test_uniform_numbers(power, accepted, rng, alpha):
    words = WordStream(rng)
    draws = [float(LazyUniform(words).ball(64).mid()) ** power for _ in range(DRAWS)]
    assert (stats.kstest(draws, "uniform").pvalue > alpha) == accepted


def test_decisions_double_the_precision():
    asked = []

    def test(bits):
        asked.append((bits, ctx.prec))
        return True if bits > 200 else None

    before = ctx.prec
    assert decide(test)
    assert asked == [(64, 64), (128, 128), (256, 256)]
    assert ctx.prec == before


def test_equal_numbers_are_an_error_and_no_endless_loop(rng):
    uniform = LazyUniform(WordStream(rng))
    with pytest.raises(ArithmeticError, match="a comparison of random numbers is open at 1048576 bits"):
        decide(lambda bits: less(uniform.ball(bits), uniform.ball(bits)))


def test_the_precision_is_restored_after_an_error():
    before = ctx.prec

    def test(bits):
        raise KeyError

    with pytest.raises(KeyError):
        decide(test)
    assert ctx.prec == before


def test_threads_do_not_disturb_each_other():
    """The same words give the same numbers in eight threads at once; the precision is restored."""
    grid, before = Grid(pitch=2.0**-90), ctx.prec

    def draw(seed):
        words = WordStream(np.random.default_rng(seed))
        return [rounded(normal(words), grid) for _ in range(50)]

    alone, together = [draw(seed) for seed in range(8)], [None] * 8

    def work(seed):
        together[seed] = draw(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    assert ctx.prec == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_process_forked_during_the_draws_of_another_thread_can_draw():
    """A child inherits the state of the lock, but not the thread that would release it."""
    held, forked = threading.Event(), threading.Event()

    def hold():
        with WorkingPrecision(100):
            held.set()
            forked.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        free = balls._LOCK.acquire(timeout=10)
        os._exit(0 if free else 1)
    forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_maps_are_evaluated_at_the_precision_that_is_asked_for(rng):
    uniform = LazyUniform(WordStream(rng))
    number = affine(LazyMap(lambda ball: ball.log(), uniform), Fraction(1, 3), Fraction(2, 7))
    assert number.ball(1000).rel_accuracy_bits() > 900
    assert number.ball(64).overlaps(number.ball(1000))


@pytest.mark.statistical
@pytest.mark.parametrize(("last", "accepted"), [(1, True), (2, False)])
def test_choices(last, accepted, rng, alpha):
    words = WordStream(rng)
    weights = [Fraction(1, 7), 0, lambda bits: arb(2).sqrt(), Fraction(3), last]
    counts = np.bincount([exact_choice(weights, words) for _ in range(DRAWS)], minlength=5)
    assert counts[1] == 0
    truth = np.array([1 / 7, 2**0.5, 3, 1])
    found = stats.chisquare(counts[[0, 2, 3, 4]], DRAWS * truth / truth.sum())
    assert (found.pvalue > alpha) == accepted


def test_choices_at_the_ends_of_a_cell():
    """A word next to the end of a cell leaves the choice open until the next word decides."""
    half = [Fraction(1, 2), Fraction(1, 2)]
    assert exact_choice(half, Scripted(2**63, 2**32)) == 1
    assert exact_choice(half, Scripted(2**63 - 1, 2**64 - 2**32)) == 0
    assert exact_choice([Fraction(1), Fraction(0)], Scripted(2**64 - 1, 2**64 - 1, 5, 5)) == 0


def test_weights_of_any_size(rng):
    words = WordStream(rng)
    weights = [lambda bits: arb(10**6).exp(), lambda bits: arb(10**6 + 50).exp(), Fraction(1, 10**300)]
    assert [exact_choice(weights, words) for _ in range(100)] == [1] * 100


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([Fraction(-1), 2], "weights must be >= 0, got -1"),
        ([0, Fraction(0)], "weights must hold one number > 0"),
        ([], "weights must hold one number > 0"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        exact_choice(weights, Scripted())


def test_numbers_as_fractions():
    assert rational(x=0.1) == Fraction(3602879701896397, 2**55)
    assert rational(x=Fraction(1, 3)) == Fraction(1, 3)
    assert rational(x=np.float64(0.5)) == Fraction(1, 2)
    assert rational(x=10**40) == 10**40
    for wrong in (np.inf, np.nan):
        with pytest.raises(ValueError, match="x must be finite"):
            rational(x=wrong)
    with pytest.raises(TypeError, match="x must be a number"):
        rational(x="1")


def test_python_flint_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    balls.flint.cache_clear()
    try:
        with pytest.raises(ImportError, match="not installed: pip install python-flint, or set exact=False"):
            balls.flint()
    finally:
        balls.flint.cache_clear()
