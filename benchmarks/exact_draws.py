"""Exact draws a second beside OpenDP and Tumult, the chance of more than the quick precision, and masses of cells."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import mpmath as mp
import numpy as np
from scipy import special, stats

from benchmarks.measure import Row, seconds
from privsample.distributions.exact import lazy
from privsample.distributions.exact.balls import WorkingPrecision, enclose
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.laws import beta_sampler, dirichlet_sampler, gamma_sampler, laplace, normal
from privsample.distributions.exact.quantiles import QuantileSampler, beta_cdf, gamma_cdf, laplace_cdf, normal_cdf
from privsample.distributions.exact.truncated import truncated_beta_sampler
from privsample.distributions.exact.words import WordStream

DRAWS = 5_000
RUNS = 5
COUNTED = 30_000
MASSES = 10_000
DIGITS = 50
_COUNTS = [math.comb(569, successes) for successes in range(569, 199, -1)]


def rows() -> Iterator[Row]:
    """Speed, precision, masses."""
    words = WordStream(np.random.default_rng(1))
    unit, share = Grid.of_scale(1.0), Grid.of_scale(0.02, low=0.0, high=1.0)
    truncated = truncated_beta_sampler(200, 370, Fraction(1, 10), Fraction(9, 10))
    gamma, large, beta = gamma_sampler(50), gamma_sampler(10**12), beta_sampler(200, 370)
    dirichlet = dirichlet_sampler((3, Fraction(7, 2), 12))
    draws: dict[str, tuple[Callable[[], object], str]] = {
        "Laplace": (lambda: lazy.rounded(laplace(words), unit), ">= 2e4/s"),
        "Normal": (lambda: lazy.rounded(normal(words), unit), ">= 2e4/s"),
        "Gamma(50)": (lambda: lazy.rounded(gamma(words), Grid.of_scale(7.0, low=0.0)), ">= 5e3/s"),
        "Gamma(1e12)": (lambda: lazy.rounded(large(words), Grid.of_scale(1e6, low=0.0)), ">= 5e3/s"),
        "Beta(200, 370)": (lambda: lazy.rounded(beta(words), share), ">= 5e3/s"),
        "Beta(200, 370) truncated to [0.1, 0.9]": (lambda: lazy.rounded(truncated(words), share), ">= 5e3/s"),
        "Dirichlet(3, 3.5, 12)": (
            lambda: [lazy.rounded(x, share) for x in dirichlet(words)],
            "none set",
        ),
    }
    peers = {"Laplace": _peers("laplace"), "Normal": _peers("gaussian")}
    for name, (draw, target) in draws.items():
        rate = _rate(draw)
        others = peers.get(name) or [("", None)]
        for peer, theirs in others:
            yield Row(
                name=f"exact {name} draws a second",
                library=f"{rate:.3g}/s",
                peer=peer if theirs is None else f"{theirs:.3g}/s {peer}",
                ratio=None if theirs is None else rate / theirs,
                target=target,
            )
    del draws["Gamma(1e12)"]  # 61 bits between its size and its pitch: never settled by 64
    for name, (draw, _) in draws.items():
        yield Row(
            name=f"chance that {name} needs more than {lazy.START} bits",
            library=f"{_beyond(draw):.2g}",
            peer="",
            ratio=None,
            target="< 1e-3",
        )
    yield from masses()


def _rate(draw: Callable[[], object]) -> float:
    """Draws a second, best of several runs."""
    return DRAWS / min(seconds(lambda: [draw() for _ in range(DRAWS)]) for _ in range(RUNS))


def _peers(kind: str) -> list[tuple[str, float | None]]:
    """Draws a second of other libraries, None where one is not installed."""
    return [("OpenDP", _opendp(kind)), ("Tumult", _tumult(kind))]


def _opendp(kind: str) -> float | None:
    """Continuous noise of OpenDP, drawn on a grid of its own."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib", "idealized-numerics")
    numbers = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    metric = dp.l1_distance(T=float) if kind == "laplace" else dp.l2_distance(T=float)
    draw = getattr(dp.m, f"make_{kind}")(numbers, metric, scale=1.0)
    zeros = [0.0] * DRAWS
    return DRAWS / min(seconds(lambda: draw(zeros)) for _ in range(RUNS))


def _tumult(kind: str) -> float | None:
    """Interval refining of tmlt.core."""
    try:
        from tmlt.core.random.continuous_gaussian import gaussian
        from tmlt.core.random.laplace import laplace as theirs
    except ImportError:
        return None
    return _rate(lambda: theirs(0.0, 1.0) if kind == "laplace" else gaussian(1.0))


def _beyond(draw: Callable[[], object]) -> float:
    """The fraction of draws for which some comparison was made at more than the quick precision."""
    largest = 0

    class Recorder(WorkingPrecision):
        """A working precision that is recorded."""

        def __init__(self, bits: int) -> None:
            nonlocal largest
            largest = max(largest, bits)
            super().__init__(bits)

    count, before = 0, lazy.WorkingPrecision
    lazy.WorkingPrecision = Recorder  # type: ignore[misc]
    try:
        for _ in range(COUNTED):
            largest = 0
            draw()
            count += largest > lazy.START
    finally:
        lazy.WorkingPrecision = before  # type: ignore[misc]
    return count / COUNTED


def _binomial_tail(x: mp.mpf) -> mp.mpf:
    """The distribution function of Beta(200, 370), as the probability of 200 or more successes among 569."""
    odds = x / (1 - x)
    total = mp.mpf(0)
    for count in _COUNTS:
        total = total * odds + count
    return total * odds**200 * (1 - x) ** 569


def masses() -> Iterator[Row]:
    """Masses of 10^4 cells of each distribution, enclosed, against differences of 50-digit values of mpmath."""
    laws = {
        "Normal": (QuantileSampler(normal_cdf, special.ndtri, Grid(pitch=2.0**-10)), -MASSES // 2, mp.ncdf),
        "Laplace": (
            QuantileSampler(laplace_cdf, stats.laplace.ppf, Grid(pitch=2.0**-10)),
            -MASSES // 2,
            lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2,
        ),
        "Gamma(50)": (
            QuantileSampler(gamma_cdf(50), stats.gamma(50).ppf, Grid(pitch=2.0**-7, low=0.0)),
            1,
            lambda x: mp.gammainc(50, 0, x, regularized=True),
        ),
        "Beta(200, 370)": (
            QuantileSampler(beta_cdf(200, 370), stats.beta(200, 370).ppf, Grid(pitch=2.0**-15, low=0.0, high=1.0)),
            7_000,
            _binomial_tail,
        ),
    }
    for name, (sampler, first, cdf) in laws.items():
        enclosed, widest = 0, 0.0
        with mp.workdps(DIGITS + 10):
            places = [mp.mpf(2 * index - 1) / 2 * float(sampler.pitch) for index in range(first, first + MASSES + 1)]
            ends = [cdf(place) for place in places]
            truths = [Fraction(int(mp.ldexp(b - a, 200)), 2**200) for a, b in itertools.pairwise(ends)]
        with WorkingPrecision(192):
            balls = [sampler.below(index) for index in range(first, first + MASSES + 1)]
            for truth, before, after in zip(truths, balls, balls[1:], strict=False):
                error = abs(after - before - enclose(truth)).upper()
                enclosed += error < 10.0**-DIGITS
                widest = max(widest, float(error))
        yield Row(
            name=f"masses of {MASSES} cells of {name}, equal to 50 digits",
            library=f"{enclosed}",
            peer=f"widest {widest:.1g}" if math.isfinite(widest) else "not finite",
            ratio=None,
            target=f"{MASSES}",
        )
