"""Grids: every number goes to the nearest point, by exact fractions; ends of supports; refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st

from privsample.distributions.exact.balls import WorkingPrecision, enclose
from privsample.distributions.exact.grid import Grid

GRIDS = {
    "line": Grid(pitch=0.25),
    "positive": Grid(pitch=0.25, low=0.0),
    "shares": Grid(pitch=2.0**-6, low=0.0, high=1.0),
    "truncated": Grid(pitch=2.0**-6, low=0.1, high=0.7),
    "relative": Grid(pitch=2.0**-5, low=0.0, relative=True),
    "relative shares": Grid(pitch=2.0**-5, low=0.0, high=1.0, relative=True),
}


def index_of(grid, value, bits=4_000):
    """The index of an exact fraction."""
    with WorkingPrecision(bits):
        return grid.index(enclose(value))


def numbers_of(grid):
    """Exact fractions inside the support of a grid."""
    if grid.high == math.inf:
        scales = st.integers(-1_000, 1_000) if grid.relative else st.integers(-12, 12)
        shares = st.fractions(1, 2) if grid.low == 0.0 else st.fractions(-2, 2)
        return st.builds(lambda share, scale: share * Fraction(2) ** scale, shares, scales)
    low, high = Fraction(grid.low), Fraction(grid.high)
    near = st.builds(
        lambda share, scale: share / 2**scale, st.fractions(Fraction(1, 4), Fraction(1, 2)), st.integers(0, 50)
    )
    return st.one_of(near, near.map(lambda share: 1 - share)).map(lambda share: low + (high - low) * share)


@pytest.mark.parametrize("name", GRIDS)
@given(data=st.data())
def test_no_point_is_nearer_than_the_point_of_the_cell(name, data):
    grid = GRIDS[name]
    value = data.draw(numbers_of(grid))
    index = index_of(grid, value)
    if index is None:  # the number is an end of two cells
        assert {index_of(grid, value + sign * abs(value) / 2**200) for sign in (-1, 1)} != {None}
        return
    here, *others = (abs(Fraction(grid.point(j)) - value) for j in (index, index - 1, index + 1))
    slack = Fraction(grid.pitch) / 4 if not grid.relative else 0  # where the first and last points are moved
    assert here <= min(others) + slack or grid.point(index) in {grid.point(index - 1), grid.point(index + 1)}
    assert grid.low < grid.point(index) < grid.high


@pytest.mark.parametrize("name", GRIDS)
@given(data=st.data())
def test_cells_are_in_the_order_of_the_numbers(name, data):
    grid = GRIDS[name]
    first, second = sorted(data.draw(st.tuples(numbers_of(grid), numbers_of(grid))))
    low, high = index_of(grid, first), index_of(grid, second)
    if low is not None and high is not None:
        assert low <= high
        assert grid.point(low) <= grid.point(high)


@pytest.mark.parametrize("name", GRIDS)
def test_a_ball_across_an_end_of_a_cell_is_left_open(name):
    grid = GRIDS[name]
    index = index_of(grid, Fraction(5, 17))
    inside, beyond = Fraction(grid.point(index)), Fraction(grid.point(index + 1))
    end = (inside + beyond) / 2
    tiny = Fraction(1, 2**60)
    assert index_of(grid, end - tiny) == index
    assert index_of(grid, end + tiny) == index + 1
    with WorkingPrecision(300):
        assert grid.index(arb(fmpq(end.numerator, end.denominator), 2.0**-60)) is None


@pytest.mark.parametrize("name", ["relative", "relative shares"])
def test_relative_cells_meet_at_powers_of_two(name):
    grid = GRIDS[name]  # points near 1/4 are 1/4 - 1/256, 1/4, 1/4 + 1/128
    tiny = Fraction(1, 2**80)
    quarter = index_of(grid, Fraction(1, 4))
    assert index_of(grid, Fraction(1, 4) - Fraction(1, 512) + tiny) == quarter
    assert index_of(grid, Fraction(1, 4) - Fraction(1, 512) - tiny) == quarter - 1
    assert index_of(grid, Fraction(1, 4) + Fraction(1, 256) - tiny) == quarter
    assert index_of(grid, Fraction(1, 4) + Fraction(1, 256) + tiny) == quarter + 1


def test_relative_shares_are_symmetric_about_one_half():
    grid = GRIDS["relative shares"]
    assert index_of(grid, Fraction(1, 2)) == 0
    for share in (Fraction(1, 3), Fraction(1, 1000), Fraction(1, 10**12)):
        assert index_of(grid, share) == -index_of(grid, 1 - share)
        assert grid.point(index_of(grid, 1 - share)) == 1 - grid.point(index_of(grid, share))


@pytest.mark.parametrize(
    ("name", "value", "point"),
    [
        ("line", Fraction(1, 100), 0.0),
        ("positive", Fraction(1, 10**9), 0.0625),
        ("shares", Fraction(1, 10**9), 2.0**-8),
        ("shares", 1 - Fraction(1, 10**9), 1 - 2.0**-8),
        ("truncated", Fraction(0.1) + Fraction(1, 10**20), float((Fraction(0.1) + Fraction(13, 128)) / 2)),
        ("truncated", Fraction(0.7) - Fraction(1, 10**20), float((Fraction(0.7) + Fraction(89, 128)) / 2)),
        ("relative", Fraction(1, 2**5000), 2.0**-1022),
        ("relative", Fraction(2**5000), math.ldexp(63, 1018)),
        ("relative shares", Fraction(1, 2**5000), 2.0**-1022),
        ("relative shares", 1 - Fraction(1, 2**5000), 1 - 2.0**-53),
    ],
)
def test_ends_of_supports(name, value, point):
    grid = GRIDS[name]
    assert grid.point(index_of(grid, value, bits=12_000)) == point


def test_points_beyond_the_doubles_are_finite():
    assert Grid(pitch=1.0).point(2**2000) == np.finfo(float).max
    assert Grid(pitch=1.0).point(-(2**2000)) == -np.finfo(float).max
    assert Grid(pitch=2.0**-1000).point(2**1500) == 2.0**500


@pytest.mark.parametrize("ball", [arb("nan"), arb.pos_inf(), arb(0, "inf"), arb(1, 0.5)])
@pytest.mark.parametrize("name", GRIDS)
def test_balls_that_settle_nothing(name, ball):
    assert GRIDS[name].index(ball) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pitch": 0.1}, "grid must be a power of two, such as 0.0625, got 0.1"),
        ({"pitch": 0.0}, "grid must be finite and > 0"),
        ({"pitch": math.nan}, "grid must be finite and > 0"),
        ({"pitch": 0.5, "low": 1.0, "high": 1.0}, "low must be below high"),
        ({"pitch": 2.0, "low": 0.0, "high": 1.0}, "grid must be at most the width 1.0 of the support, got 2.0"),
        ({"pitch": 0.5, "relative": 1}, "relative must be True or False"),
        ({"pitch": 0.5, "low": 0.1, "relative": True}, "relative cells need the support"),
        ({"pitch": 1.0, "low": 0.0, "relative": True}, r"grid must be in \[2\^-52, 1/2\] for relative cells, got 1.0"),
    ],
)
def test_wrong_grids(fields, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Grid(**fields)


@pytest.mark.parametrize("scale", [2.0**900, 2.0**-901, math.inf, 0.0])
def test_scales_beyond_the_enclosure(scale):
    with pytest.raises(ValueError, match="scale must be"):
        Grid.of_scale(scale)


def test_grids_finer_than_the_enclosure():
    assert Grid.of_scale(3.0, grid=2.0**-199).pitch == 2.0**-199
    with pytest.raises(ValueError, match=r"grid must be at least 2\^-200 of the scale 3.0, got"):
        Grid.of_scale(3.0, grid=2.0**-200)


def test_default_grids():
    assert Grid.of_scale(3.0) == Grid(pitch=2.0**-39)
    assert Grid.of_scale(0.9, low=0.0, high=1.0) == Grid(pitch=2.0**-41, low=0.0, high=1.0)
    assert Grid.of_scale(1.0, low=0.0, relative=True) == Grid(pitch=2.0**-39, low=0.0, relative=True)
