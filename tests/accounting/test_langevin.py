"""Langevin accounts: the closed form to fifty digits, its limits, and the kernels of short chains."""

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privsample as ps
from privsample.accounting.posterior.langevin import effective_steps
from privsample.errors import RelationMismatch

ROWS = [  # step size, strong convexity, smoothness, sensitivity, steps, shift: from a derivation of its own
    (0.1, 1, 5, 2, 1, 0.44721359549996),
    (0.1, 1, 5, 2, 50, 1.9393380674898),
    (0.35, 1, 5, 2, 10, 2.0922592164507),
    (1e-6, 1, 1e5, 2, 10**6, 1.3595839404956),
    (0.01, 0, 50, 2, 100, 1.4142135623731),
]


def account(step_size, m, top, sensitivity, steps, **further):
    return ps.LangevinAccountant(
        gradient_sensitivity=sensitivity,
        strong_convexity=m,
        smoothness=top,
        step_size=step_size,
        steps=steps,
        **further,
    )


def by_definition(step_size, m, top, sensitivity, steps):
    """The shift from sums of powers of c, to fifty digits."""
    with mp.workdps(60 + 2 * len(str(steps))):
        eta, m, top = mp.mpf(step_size), mp.mpf(m), mp.mpf(top)
        c = max(abs(1 - eta * m), abs(1 - eta * top))
        if c == 1:
            return sensitivity * mp.sqrt(eta * steps / 2)
        power = c**steps
        square = eta / 2 * (1 + c) / (1 - c) * (1 - power) / (1 + power)
        return sensitivity * mp.sqrt(square)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_values_of_an_independent_derivation(row):
    assert account(*row[:5]).shift == pytest.approx(row[5], rel=1e-12)


@given(
    st.floats(-9, 0.3),
    st.one_of(st.just(-math.inf), st.floats(-12, 0)),
    st.floats(-3, 6),
    st.sampled_from([1, 2, 3, 10, 10**3, 10**6, 10**9]),
)
def test_fifty_digits_and_never_below(log_rate, log_ratio, log_top, steps):
    top = 10.0**log_top
    m, step_size = top * 10.0**log_ratio, min(10.0**log_rate, 2.0) / top
    if not mp.mpf(step_size) * mp.mpf(top) <= 2:
        step_size = math.nextafter(step_size, 0.0)
    found = account(step_size, m, top, 1.5, steps).shift
    exact = by_definition(step_size, m, top, mp.mpf(1.5), steps)
    assert exact <= mp.mpf(found) <= exact * (1 + mp.mpf(10) ** -12)


@pytest.mark.parametrize(("draws", "members"), [(1, 1), (4, 1), (3, 5)])
def test_draws_and_groups(draws, members):
    own = account(0.1, 1, 5, 2, 50)
    several = account(0.1, 1, 5, 2, 50, draws=draws, relation=ps.ReplaceOne(9)).group(members)
    assert several.shift == pytest.approx(own.shift * members * math.sqrt(draws), rel=1e-12)
    assert several.relation == ps.ReplaceOne(9, members=members)
    assert own.to(ps.ReplaceOne(3)).shift == pytest.approx(2 * own.shift, rel=1e-12)
    three = account(0.1, 1, 5, 2, 50, relation=ps.ReplaceOne(3))
    assert three.group(2).group(2).shift == pytest.approx(4 * own.shift, rel=1e-12)  # three of three, as two pairs
    assert account(0.1, 1, 5, 2, 50, relation=ps.ReplaceOne(2)).group(7).shift == pytest.approx(
        2 * own.shift, rel=1e-12
    )
    with pytest.raises(RelationMismatch):
        account(0.1, 1, 5, 2, 50, relation=ps.ReplaceOne(3)).to(ps.AddRemove())


def test_the_curve_is_that_of_a_gaussian():
    own = account(0.1, 1, 5, 2, 50)
    assert "langevin.md" in own.source
    gaussian = ps.GaussianAccountant(sensitivity=own.shift, noise_std=1)
    for epsilon in (0.0, 0.3, 1.0, 8.0):
        assert own.delta(epsilon) == pytest.approx(gaussian.delta(epsilon), rel=1e-9)
    assert own.rdp(3.0) == pytest.approx(1.5 * own.shift**2, rel=1e-9)


def test_below_an_exact_draw_for_every_number_of_steps():
    for step_size in (1e-6, 0.01, 1 / 3):
        shifts = [account(step_size, 1, 5, 2, steps).shift for steps in (1, 2, 10, 1000, 10**9)]
        assert shifts == sorted(shifts)
        assert shifts[-1] < 2.0
    assert account(0.39, 1, 5, 2, 10**6).shift > 2.0  # above 2/(m + M) nothing of the kind is claimed


def test_steps_that_expand_are_refused():
    most = 0.39999999999999997  # the float 0.4 is above 2/5
    assert account(most, 1, 5, 2, 10).contraction_gap == pytest.approx(0.0, abs=1e-15)
    for step_size in (0.4, 0.44):
        with pytest.raises(ValueError, match=f"step_size must be at most 2/smoothness = {most} here, got {step_size}"):
            account(step_size, 1, 5, 2, 10)
    with pytest.raises(ValueError, match="strong_convexity must be at most smoothness"):
        account(0.1, 6, 5, 2, 10)
    with pytest.raises(TypeError, match="relation must be"):
        account(0.1, 1, 5, 2, 10, relation=None)
    with pytest.raises(ValueError, match="must be finite and > 0, got inf"):
        account(1e300, 0, 1e-301, 1e300, 2**53)


def test_sizes():
    own = account(0.1, 1, 5, 2, 50, relation=ps.ReplaceOne(9))
    assert own.for_sizes(2, 9) is own
    with pytest.raises(TypeError, match="not known for other numbers"):
        own.for_sizes(2, 10)
    assert account(0.1, 1, 5, 2, 50).for_sizes(0, 10**6).relation == ps.AddRemove()
    for smaller in (5.0, 3.0, 1.0):  # what the claim rests on
        assert replace(own, smoothness=smaller).shift <= own.shift


@pytest.mark.parametrize("gap", [1.0, 0.999, 0.5, 1e-9, 1e-300, 5e-324, 0.0, -0.2])
def test_effective_steps(gap):
    counts = [effective_steps(gap, steps) for steps in (1, 2, 7, 10**6, 2**53)]
    assert counts[0] == pytest.approx(1.0, rel=1e-12)
    assert counts == sorted(counts)
    assert all(1.0 - 1e-12 <= found <= steps for found, steps in zip(counts, (1, 2, 7, 10**6, 2**53), strict=True))


def delta_of(p, q, epsilon):
    return max(np.maximum(p - np.exp(epsilon) * q, 0).sum(), np.maximum(q - np.exp(epsilon) * p, 0).sum())


def last_states(gradient, *, step_size, steps, grid):
    """Masses of the last state of one-dimensional chains from 0 on a grid, by transition matrices of cell masses."""
    ends = np.concatenate([[-np.inf], (grid[1:] + grid[:-1]) / 2, [np.inf]])
    from scipy.special import ndtr

    means = np.concatenate([[0.0], grid])
    means = means - step_size * gradient(means)
    table = np.diff(ndtr((ends - means[:, None]) / math.sqrt(2 * step_size)), axis=1)
    masses = table[0]
    for _ in range(steps - 1):
        masses = masses @ table[1:]
    return masses


@pytest.mark.parametrize("steps", [1, 2, 30])
@pytest.mark.parametrize("step_size", [0.05, 0.5, 1.0])
def test_linear_gradients_attain_it(steps, step_size):
    """U = w^2/2 + s w: the closed form in place of an upper bound."""
    grid = np.linspace(-8, 8, 1201)
    p, q = (last_states(lambda w, s=s: w + s, step_size=step_size, steps=steps, grid=grid) for s in (0.4, -0.4))
    own = account(step_size, 1, 1, 0.8, steps)
    for epsilon in own.shift * np.array([0.0, 0.5, 1.0, 2.0]):
        assert 0.998 < delta_of(p, q, epsilon) / own.delta(epsilon) < 1.0005


@pytest.mark.parametrize(
    ("step_size", "sensitivity", "draws"),
    [(2.5e-323, 1e170, 1), (5e-324, 1e160, 3), (1e-72, 1e-288, 1), (1.2e-282, 4.1e-187, 10**6), (8e-150, 5.9e-250, 7)],
)
def test_never_below_for_subnormal_numbers(step_size, sensitivity, draws):
    own = account(step_size, 0, 1.0, sensitivity, 1, draws=draws).shift
    with mp.workdps(60):
        truth = by_definition(step_size, 0, 1.0, sensitivity, 1) * mp.sqrt(draws)
        assert truth <= mp.mpf(own) <= truth * (1 + mp.mpf(2) ** -46) + mp.mpf(2) ** -1073
