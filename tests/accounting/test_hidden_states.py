"""The hull of hidden states, beside a solver of its programme, densities by quadrature, and exact linear chains."""

import json

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import interpolate, optimize

from privsample import Accountant, ContractionAccountant, GaussianAccountant, HiddenStateAccountant, ReplaceOne
from privsample.accounting.epochs import epoch_shifts, hull_square
from privsample.accounting.postprocessing.hidden_states import hull_shift, least_shift


def cyclic(batches, epochs, position):
    """The moves of a record at this position, from 1, of every epoch; each is 1."""
    moves = np.zeros(batches * epochs)
    moves[position - 1 :: batches] = 1.0
    return moves


def quotient(moves, noises, constants):
    """Cauchy's quotient, which is too small: the broken copy of the hull. It counts noise before the first move, and
    pays for moves before they happen.
    """
    weights = np.append(np.cumprod(constants[:0:-1])[::-1], 1.0)
    return np.sum(moves * weights) / np.sqrt(np.sum(np.square(noises * weights)))


@pytest.mark.parametrize(
    ("batches", "epochs", "position", "constant", "expected", "wrong"),
    [
        (10, 20, 10, 1.0, 2.9, 2.0),
        (10, 20, 1, 0.99, 1.38717343709, 1.38717343709),
        (10, 20, 10, 0.99, 2.34764931543, 1.66225351955),
        (50, 20, 50, 0.999, 1.33676536351, 0.38815953783),
        (3, 2, 3, 1.0, 4 / 3, 2 / 3),
    ],
)
def test_published_values(batches, epochs, position, constant, expected, wrong):
    moves, ones = cyclic(batches, epochs, position), np.ones(batches * epochs)
    found = least_shift(moves, ones, constant * ones)
    assert found**2 == pytest.approx(expected, rel=1e-11)
    assert quotient(moves, ones, constant * ones) ** 2 == pytest.approx(wrong, rel=1e-10)
    closed = epoch_shifts(
        move=1.0,
        distance=1e9,
        constant=constant,
        period=batches,
        epochs=epochs,
        tail=0,
        after=np.array([batches - position]),
        gap=np.array([batches]),
    )
    assert closed[0] == pytest.approx(found, rel=1e-11)


@pytest.mark.parametrize("epochs", [20, 200])
def test_a_diameter_bounds_any_number_of_epochs(epochs):
    moves, ones = cyclic(10, epochs, 10), np.ones(10 * epochs)
    assert least_shift(moves, ones, ones, 5.0) ** 2 == pytest.approx(2.64102564103, rel=1e-11)
    account = HiddenStateAccountant(moves=moves, noise_stds=ones, constants=ones, diameter=5.0)
    assert account.shift**2 == pytest.approx(2.64102564103, rel=1e-11)


def distances(shifts, moves, constants):
    found, now = [], 0.0
    for shift, move, constant in zip(shifts, moves, constants, strict=True):
        now = constant * now + move - shift
        found.append(now)
    return np.array(found)


def test_the_hull_solves_its_programme(rng):
    """Minimise sum (a_k / s_k)^2 over a_k >= 0 whose distances stay >= 0 and end at 0, by sequential programming."""
    solved = 0
    for _ in range(25):
        steps = int(rng.integers(2, 10))
        constants, noises = rng.uniform(0.3, 1.3, steps), rng.uniform(0.3, 2.0, steps)
        moves = rng.uniform(0.1, 1.0, steps) * (rng.random(steps) < 0.6)
        conditions = [
            {"type": "ineq", "fun": lambda a, m=moves, c=constants: distances(a, m, c)[:-1]},
            {"type": "eq", "fun": lambda a, m=moves, c=constants: distances(a, m, c)[-1]},
        ]
        best = optimize.minimize(
            lambda a, s=noises: np.square(a / s).sum(),
            0.9 * moves,
            bounds=[(0.0, None)] * steps,
            constraints=conditions,
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        found = hull_shift(moves, noises, constants) ** 2
        if best.success and moves.any():
            solved += 1
            assert found == pytest.approx(best.fun, rel=1e-6, abs=1e-9)
            # The quotient is never larger, because it lacks two of the conditions.
            assert quotient(moves, noises, constants) ** 2 <= found * (1 + 1e-9)
    assert solved > 15


def density(maps, noise, grid):
    """Density of the last state from the start 0, on a grid that is wide enough, by the trapezoidal rule."""
    width, found = grid[1] - grid[0], None
    for each in maps:
        centres = each(np.zeros(1)) if found is None else each(grid)
        kernel = np.exp(-np.square((grid - centres[:, None]) / noise) / 2) / (noise * np.sqrt(2 * np.pi))
        found = kernel[0] if found is None else width * (found @ kernel)
    assert width * found.sum() == pytest.approx(1.0, abs=1e-7)
    return found


def logistic_step(rate, penalty, rows):
    """One step of descent on the logistic losses of signed rows, divided by their number."""
    return lambda x: x - rate * (penalty * x - sum(z / (1 + np.exp(z * x)) for z in rows) / len(rows))


def hockey_stick(p, q, epsilon, grid):
    """Integral of the positive part of p - e^epsilon q, between the roots of a cubic spline."""
    curve = interpolate.CubicSpline(grid, p - np.exp(epsilon) * q)
    whole, ends = curve.antiderivative(), np.concatenate([grid[:1], curve.roots(extrapolate=False), grid[-1:]])
    return np.maximum(np.diff(whole(ends[np.isfinite(ends)])), 0.0).sum()


def largest_ratio(maps, noise, grid, shift):
    """Largest quotient, over epsilon and both directions, of the hockey-stick divergence and a Gaussian curve."""
    p, q = (density(each, noise, grid) for each in maps)
    curve, worst = GaussianAccountant(sensitivity=shift, noise_std=1.0), 0.0
    for epsilon in np.linspace(0.0, shift * shift, 12):
        allowed = float(curve.delta(epsilon))
        if allowed > 1e-7:
            worst = max(worst, *(hockey_stick(a, b, epsilon, grid) / allowed for a, b in ((p, q), (q, p))))
    return worst


@pytest.mark.parametrize("batch", [1, 2])
def test_quadrature_of_cyclic_logistic_descent(batch, rng):
    """Signed rows +1 and -1 in one dimension: their gradients differ by 1 at every state."""
    ratios = []
    for _ in range(12):
        batches, epochs = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        rate, penalty, noise_std = rng.uniform(0.3, 4.0), rng.choice([0.0, 0.1]), rng.uniform(0.2, 1.5)
        if rate > 2 / (0.25 + penalty):
            continue
        position = int(rng.integers(batches))
        rest = rng.choice([-1.0, 0.0, 1.0], (batches, batch))
        chains = []
        for own in (1.0, -1.0):
            rest[position, 0] = own
            chains.append([logistic_step(rate, penalty, tuple(rows)) for rows in rest] * epochs)
        moves = rate / batch * cyclic(batches, epochs, position + 1)
        noise, constant = rate * noise_std, max(1 - rate * penalty, abs(1 - rate * (0.25 + penalty)))
        ones = np.ones(len(moves))
        shift = least_shift(moves, noise * ones, constant * ones)
        reach = rate * epochs * batches + 9 * noise * np.sqrt(len(moves))
        grid = np.linspace(-reach, reach, max(401, int(25 * reach / noise)))
        ratios.append(largest_ratio(chains, noise, grid, shift))
    assert 0.5 < max(ratios) <= 1 + 1e-5  # what the grid loses


@pytest.mark.parametrize(("account", "is_valid"), [(least_shift, True), (quotient, False)])
def test_quadrature_refutes_the_quotient(account, is_valid):
    """Three batches, two epochs, the record in the last batch; rows of zeros elsewhere: their step is the identity. The
    record's own step at rate 4 is almost constant near 0, so the noise before it hides little.
    """
    rate, noise = 4.0, 4.0 * 0.8
    chains = [[lambda x: x, lambda x: x, logistic_step(rate, 0.0, (own,))] * 2 for own in (1.0, -1.0)]
    moves, ones = rate * cyclic(3, 2, 3), np.ones(6)
    worst = largest_ratio(chains, noise, np.linspace(-50.0, 50.0, 1201), account(moves, noise * ones, ones))
    assert (worst <= 1.0) == is_valid
    assert worst > 0.8


def test_a_constant_last_map_reveals_more_than_the_quotient():
    """The last map forgets everything, and its two centres differ by one deviation: mu = 1, in closed form."""
    moves, ones = cyclic(3, 2, 3), np.ones(6)
    assert quotient(moves, ones, ones) < 1.0 < least_shift(moves, ones, ones)


def test_one_move_is_amplification_by_iteration(rng):
    """A single move is the account of noise between maps; noise before it does not count."""
    noises, constants = rng.uniform(0.5, 2.0, 5), rng.uniform(0.3, 1.2, 5)
    moves = np.array([0.0, 0.0, 0.7, 0.0, 0.0])
    made = HiddenStateAccountant(moves=moves, noise_stds=noises, constants=constants)
    known = ContractionAccountant(sensitivity=0.7, noise_stds=noises[2:], constants=constants[3:])
    assert made.shift == pytest.approx(0.7 / known.noise_std, rel=1e-12)
    orders = np.array([1.5, 8.0])
    assert made.rdp(orders) == pytest.approx(known.rdp(orders), rel=1e-11)


def test_full_batches_of_linear_maps_are_exact():
    """x -> c x + s + Z, many times: two normal distributions."""
    constant, move, steps = 0.95, 0.3, 40
    ones = np.ones(steps)
    with mp.workdps(50):
        c = mp.mpf(constant)
        mean = mp.mpf(move) * mp.fsum(c**k for k in range(steps))
        expected = mean / mp.sqrt(mp.fsum(c ** (2 * k) for k in range(steps)))
    found = least_shift(move * ones, ones, constant * ones)
    assert float(expected) <= found <= float(expected) * (1 + 1e-12)


def test_underflow_costs_a_little_more_and_never_less():
    """Weights fall to 0.01^3000; in 50 digits the hull is the same to rounding."""
    steps, constant = 3000, 0.01
    ones = np.ones(steps)
    found = least_shift(ones, ones, constant * ones)
    with mp.workdps(50):
        c = mp.mpf(constant)
        expected = mp.sqrt((1 + c) / (1 - c) * (1 - c**steps) / (1 + c**steps))
    assert float(expected) <= found <= float(expected) * (1 + 1e-10)
    early = np.zeros(steps)
    early[0] = 1.0
    assert 0.0 < least_shift(early, ones, constant * ones) < 1e-120
    assert 0.0 < hull_shift(0 * ones, ones, constant * ones, distance=1.0) < 1e-120


def test_what_a_constant_map_forgets_is_free():
    ones = np.ones(4)
    assert least_shift([1, 1, 0, 0], ones, [1, 1, 0, 1]) == 0.0
    assert least_shift([1, 1, 1, 0], ones, [1, 1, 0, 1]) == pytest.approx(1 / np.sqrt(2))
    free = HiddenStateAccountant(moves=[1, 0], noise_stds=[1, 1], constants=[1, 0])
    assert free.pure_epsilon == free.epsilon(0.0) == 0.0


def test_steps_without_noise_pass_their_move_on():
    ones = np.ones(3)
    assert least_shift([1, 1, 0], [0, 1, 0], ones) == pytest.approx(2.0)
    assert least_shift([1, 1, 1], [0, 1, 0], ones) == np.inf
    assert least_shift([1, 0, 0], np.zeros(3), ones) == np.inf
    assert least_shift(np.zeros(3), ones, ones) == 0.0


def test_maps_that_expand_fall_back_to_composition():
    """Weights of 3^1000 overflow; the bound is then that of all states released."""
    ones = np.ones(1000)
    assert least_shift(ones, ones, 3 * ones) == pytest.approx(np.sqrt(1000))
    moves = np.zeros(5)
    moves[-1] = 1.0
    assert least_shift(moves, ones[:5], 3 * ones[:5]) == pytest.approx(1.0)


@given(st.data())
def test_moves_that_come_later_or_grow_never_cost_less(data):
    """Hidden_states.md, section 3: for constants of at most 1."""
    steps = data.draw(st.integers(2, 8))
    numbers = st.lists(st.floats(0.05, 2.0), min_size=steps, max_size=steps).map(np.array)
    moves, noises = data.draw(numbers), data.draw(numbers)
    constants = np.minimum(data.draw(numbers), 1.0)
    place = data.draw(st.integers(0, steps - 2))
    later = moves.copy()
    later[place], later[place + 1] = 0.0, moves[place] + moves[place + 1]
    before = least_shift(moves, noises, constants)
    assert least_shift(later, noises, constants) >= before * (1 - 1e-9)
    assert least_shift(moves * np.linspace(1.0, 1.5, steps), noises, constants) >= before * (1 - 1e-9)
    assert before <= np.sqrt(np.square(moves / noises).sum()) * (1 + 1e-9)


@given(
    period=st.integers(1, 9),
    epochs=st.integers(1, 6),
    tail=st.integers(0, 6),
    constant=st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.05, 0.0]),
    place=st.floats(0, 1),
    anew=st.booleans(),
    distance=st.sampled_from([0.3, 2.0, 1e9]),
)
def test_the_closed_form_is_the_hull(period, epochs, tail, constant, place, anew, distance):
    position = 1 + int(place * (period - 1))
    moves = np.zeros(period * epochs + tail)
    moves[(period if anew else position) - 1 : (epochs - 1) * period : period] = 1.0
    moves[(epochs - 1) * period + position - 1] = 1.0
    ones = np.ones(len(moves))
    found = epoch_shifts(
        move=1.0,
        distance=distance,
        constant=constant,
        period=period,
        epochs=epochs,
        tail=tail,
        after=np.array([period - position + tail]),
        gap=np.array([position if anew else period]),
    )
    expected = hull_shift(moves, ones, constant * ones)
    for left in range(1, len(moves)):
        expected = min(expected, hull_shift(moves[-left:], ones[:left], constant * ones[:left], distance=distance))
    if expected > 1e-100:
        assert found[0] == pytest.approx(expected, rel=1e-9)
    else:
        assert 0.0 < found[0] <= 1e-100


def test_a_path_that_rises_without_a_run_costs_infinity():
    assert hull_square(np.array([1.0, 1.0]), np.array([1.0, 0.0])) == np.inf
    assert hull_square(np.array([1.0, 1.0]), np.array([0.0, 1.0])) == 4.0


def test_the_requirements_of_accounts():
    """Properties of every account: see tests/accounting/test_requirements.py."""
    made = HiddenStateAccountant(
        moves=[1, 0, 1], noise_stds=[2, 2, 2], constants=[0.9, 0.9, 1.1], relation=ReplaceOne(n=5)
    )
    orders = np.array([1 + 1e-5, 1.1, 2.0, 40.0])
    assert made.rdp(orders) == pytest.approx(orders * made.shift**2 / 2, rel=1e-9)
    assert made.zcdp == pytest.approx(made.shift**2 / 2)
    assert made.group(3).shift == pytest.approx(3 * made.shift, rel=1e-12)
    assert "hidden_states.md" in made.source
    assert made.kind("delta") == "upper bound"
    assert Accountant.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert (2 * made).epsilon(1e-4) > made.epsilon(1e-4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"moves": [1, -1]}, "moves must be a list of finite numbers >= 0"),
        ({"noise_stds": [1, np.inf]}, "noise_stds must be a list of finite numbers >= 0"),
        ({"constants": [1]}, "must have one number for each step, got 2 moves, 2 noise_stds, 1 constants"),
        ({"moves": [], "noise_stds": [], "constants": []}, "must have one number for each step"),
        ({"noise_stds": [1, 0]}, "nothing hides that move"),
        ({"diameter": 0.0}, "diameter must be > 0"),
        ({"diameter": np.nan}, "diameter must be > 0"),
    ],
)
def test_bad_fields(changed, message):
    with pytest.raises(ValueError, match=message):
        HiddenStateAccountant(**({"moves": [1, 1], "noise_stds": [1, 1], "constants": [1, 1]} | changed))
