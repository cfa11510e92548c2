"""Exact sums of records against sums of fractions, whatever the order, the split, the bounds and the grid."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import privsample as ps
from privsample._data import chunks
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import exact_sum, integer_sums, points, record_grid, row_indices
from tests.cases import in_one_test

BOUNDS = [(0.0, 10.0), (-1.0, 2.0), (0.1, 0.7), (1e6, 1e6 + 1), (-1e300, 1e300), (1e-300, 3e-300), (1e15, 1e15 + 1)]


def domain(low, high, missing=None):
    return ps.Domain(low=low, high=high, missing=low if missing is None else missing)


def records(low, high, rng, size=400):
    wide = low + (rng.random(size) * 1.4 - 0.2) * (high - low)
    return np.concatenate([wide, [low, high, np.nan, np.inf, -np.inf, 0.0]])


def one_by_one(own, grid, column):
    """The rounded records as fractions, by the definition."""
    pitch = Fraction(grid.pitch)
    first, last = math.ceil(Fraction(own.low) / pitch), math.floor(Fraction(own.high) / pitch)
    for number in own.clean(column).tolist():
        yield min(max(round(Fraction(number) / pitch), first), last) * pitch


@pytest.mark.parametrize("pitch", [None, 0.125])
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_sums_are_those_of_fractions_in_any_order_and_split(bounds, pitch, rng):
    own, width = domain(*bounds), bounds[1] - bounds[0]
    grid = record_grid(own, None if pitch is None else 2.0 ** math.floor(math.log2(width)) * pitch)
    column = records(*bounds, rng)
    rounded = list(one_by_one(own, grid, column))
    assert exact_sum(own, column, grid) == sum(rounded)
    assert exact_sum(own, rng.permutation(column), grid) == sum(rounded)
    assert exact_sum(own, column[:37], grid) + exact_sum(own, column[37:], grid) == sum(rounded)
    assert exact_sum(own, column[:0], grid) == 0
    assert all(Fraction(own.low) <= number <= Fraction(own.high) for number in rounded)
    # The doubles in accounts are no smaller than what a record changes: exact_noise.md, step 6.
    assert max(rounded) - min(rounded) <= Fraction(own.high - own.low)


SPECIAL = [0.5, 1.5, 2.5, -0.0, 5e-324, 1e308, 2.0**53, np.nan, -np.nan, np.inf, -np.inf]
SIGNALLING = np.array([0x7FF0_0000_0000_0001], dtype=np.uint64).view(np.float64)  # a NaN that raises a flag


@in_one_test(
    itertools.product(
        [0.0, -7.25, 100.25, -(2.0**40), 2.0**52],
        [False, True],
        [False, True],
        ["f8", "f4", "f2", "i8", "u8", "u1"],
    )
)
def test_sums_of_every_type_are_those_of_fractions(low, whole, outside_is_missing, kind):
    rng = np.random.default_rng(5)
    low, high = (math.floor(low), math.floor(low) + 9.0) if whole else (low, low + 9.5)
    own = ps.Domain(low=low, high=high, missing=low + 2, integer_valued=whole, outside_is_missing=outside_is_missing)
    column = np.concatenate([low + rng.normal(5, 5, 50), np.arange(low, low + 10, 0.5), SPECIAL, SIGNALLING])
    with np.errstate(all="ignore"):
        column = (np.nan_to_num(column, posinf=1e18, neginf=-1e18) if kind[0] in "iu" else column).astype(kind)
    for part in (column, column[np.isfinite(column)][:40]):
        with np.errstate(invalid="ignore"):
            expected = sum(one_by_one(own, Grid(pitch=1.0) if whole else record_grid(own), part))
        assert exact_sum(own, part) == expected


def test_decimals_are_read_as_the_nearest_doubles(rng):
    for digits, scale in [(15, 7), (9, 9), (5, 0), (16, 3), (38, 20)]:
        texts = [
            None,
            *(f"{number}e-{scale}" for number in rng.integers(-(10 ** min(digits, 18)), 10 ** min(digits, 18), 60)),
        ]
        column = pa.array([text and Decimal(text) for text in texts], pa.decimal128(digits, scale)).slice(1, 50)
        found = np.concatenate(list(chunks(pa.chunked_array([column]))))
        assert found.tolist() == [float(number) for number in column.to_pylist()]
    assert np.isnan(next(chunks(pa.chunked_array([pa.array([None, Decimal(1)])])))).tolist() == [True, False]


def test_a_sum_in_data_order_depends_on_it(rng):
    """What the exact sum replaces: the broken copy that adds floating-point numbers."""
    column = rng.random(10_000)
    assert len({float(np.cumsum(rng.permutation(column))[-1]) for _ in range(20)}) > 1
    own = domain(0.0, 1.0)
    assert len({exact_sum(own, rng.permutation(column)) for _ in range(20)}) == 1


def test_sums_beyond_64_bits_are_exact():
    own = domain(0.0, 1.0)
    grid = record_grid(own, 2.0**-53)
    column = np.ones(5000)
    assert exact_sum(own, column, grid) / Fraction(grid.pitch) == 5000 * 2**53 > 2**63
    assert integer_sums(np.full((3, 2), 2.0**70)) == (3 * 2**70, 3 * 2**70)
    assert integer_sums(np.full((2**12, 1), 2.0**61)) == (2**73,)
    assert integer_sums(np.empty((0, 2))) == (0, 0)


def test_whole_numbers_are_added_as_they_are():
    whole = ps.Domain(low=0, high=10, missing=3, integer_valued=True)
    assert exact_sum(whole, np.array([2.4, 11, np.nan, -4])) == 2 + 10 + 3
    assert record_grid(whole).pitch == 1
    assert record_grid(whole, 0.25).pitch == 0.25


@pytest.mark.parametrize(
    ("bounds", "pitch", "message"),
    [
        ((0.0, 1.0), 0.3, "power of two"),
        ((0.0, 1.0), 2.0, "at least two points from 0 to 1"),
        ((0.1, 0.7), 0.5, "at least two points"),
        ((0.0, 1.0), 2.0**-54, "2\\^-53 of the width"),
    ],
)
def test_grids_that_do_not_fit_are_refused(bounds, pitch, message):
    with pytest.raises(ValueError, match=message):
        record_grid(domain(*bounds), pitch)
    with pytest.raises(ValueError, match=message):
        ps.GaussianSum(bounds=bounds, noise_std=1, grid=pitch)


def test_rows_are_rounded_towards_zero_and_never_longer(rng):
    mechanism = ps.ClippedSum(norm=1.5, noise_std=1, width=3)
    grid = Grid(pitch=mechanism.pitch)
    rows = mechanism._contributions(rng.standard_normal((2000, 3)) * 10.0 ** rng.integers(-12, 12, (2000, 1)))
    indices = row_indices(rows, grid)
    limit = Fraction(mechanism.norm) / Fraction(grid.pitch)
    for row in indices.tolist():
        assert sum(int(number) ** 2 for number in row) <= limit**2
    total = mechanism._statistic(rows)
    assert total == tuple(Fraction(grid.pitch) * sum(map(int, column)) for column in indices.T.tolist())
    longest = np.full((1, 3), 1.5 / math.sqrt(3)) / 0.5  # the broken copy, which rounds to the nearest point
    assert (np.rint(longest) ** 2).sum() > 9 >= (np.trunc(longest) ** 2).sum()


def test_indices_of_any_size_become_the_nearest_doubles():
    grid = Grid(pitch=2.0**-3)
    assert points(np.array([3, -4]), grid).tolist() == [0.375, -0.5]
    wide = np.array([2**70 + 1, -(10**400)], dtype=object)
    assert points(wide, grid).tolist() == [2.0**67, -np.finfo(np.float64).max]


MODELS = [
    ps.BetaBernoulli(alpha=1, beta=2, fractional=True),
    ps.GammaExponential(shape=1, rate=1, upper=0.7),
    ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-0.3, 2.1)),
    ps.NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=(-1, 2)),
    ps.BetaBernoulli(alpha=1, beta=2),
    ps.GammaPoisson(shape=1, rate=1, upper=9),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_statistics_of_models_are_exact_and_add_up(model, rng):
    column = records(model.domain.low, model.domain.high, rng)
    (whole, n), (first, some), (second, others) = (
        model.exact_summarize(part) for part in (column, column[:100], column[100:])
    )
    assert n == some + others == len(column)
    assert whole == tuple(a + b for a, b in zip(first, second, strict=True))
    assert whole == model.exact_summarize(rng.permutation(column))[0]
    assert whole == model.exact_summarize(pa.chunked_array([column[:7], column[7:]]))[0]
    assert np.array(whole, dtype=float) == pytest.approx(np.ravel(model.summarize(column)[0]), rel=1e-5, abs=1e-3)
    pitch = Fraction(model.statistic_grid().pitch)
    assert all((number / pitch).denominator == 1 for number in whole)


def test_counts_of_names_are_exact():
    survey = ps.DirichletCategorical((1, 1, 1), names=("a", "b", "c"))
    assert survey.exact_summarize(["a", "c", "c", "nothing"])[0] == tuple(
        survey.summarize(["a", "c", "c", "nothing"])[0]
    )


def moment_models():
    yield ps.NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=(-1, 2))
    for features in (1, 2, 5):
        yield ps.LinearRegression(feature_bounds=((0, 1),) * features, target_bounds=(-1, 1), shape=3, scale=2)


@pytest.mark.parametrize("pitch", [None, 2.0**-48, 2.0**-13])
@pytest.mark.parametrize("model", list(moment_models()), ids=str)
def test_no_record_changes_exact_moments_by_more_than_the_account_states(model, pitch, rng):
    """Differences of the corners, of the middle and of random records, in exact arithmetic: exact_noise.md, step 8."""
    grid = model.statistic_grid(pitch)
    width = len(model.moments.bounds)
    low, high = (np.array(ends) for ends in zip(*model.moments.bounds, strict=True))
    corners = np.array(np.meshgrid(*[[0, 1]] * width)).T.reshape(-1, width)
    rows = low + np.concatenate([corners, np.full((1, width), 0.5), rng.random((20, width))]) * (high - low)
    each = [model.moments.exact_sums(row[None], grid) for row in rows]
    total = model.exact_statistic(rows if width > 1 else rows[:, 0], grid)
    assert total == tuple(map(sum, zip(*each, strict=True)))
    sensitivity = model.record_sensitivity
    (row,) = sensitivity.differences[:1] if width > 1 else (None,)
    # Whole multiples of a common unit: fractions are ten times slower.
    unit = Fraction(1, math.lcm(*(x.denominator for sums in each for x in sums)))
    multiples = [[int(x / unit) for x in sums] for sums in each]
    most_square = 4 / unit**2
    if row is not None:
        largest, most_sum = Fraction(float(row[0])) / unit, sum(map(Fraction, row.tolist())) / unit
    for a, b in itertools.combinations(multiples, 2):
        change = [abs(x - y) for x, y in zip(a, b, strict=True)]
        assert sum(x * x for x in change) <= most_square
        if row is not None:
            assert max(change) <= largest
            assert sum(change) <= most_sum
        else:
            first, second = (x * unit for x in change)  # below the curve of docs/notes/moments.md, section 1
            assert second <= Fraction(3, 2) * (1 if first <= 1 else first * (2 - first))
    if pitch is None:
        assert np.array(total, dtype=float) == pytest.approx(
            model.statistic(rows if width > 1 else rows[:, 0]), abs=1e-4
        )


@pytest.mark.parametrize("pitch", [2.0**-49, 0.5])
def test_grids_that_do_not_fit_moments_are_refused(pitch):
    with pytest.raises(ValueError, match="pitch of the statistic"):
        ps.LinearRegression.example().statistic_grid(pitch)


@pytest.mark.parametrize("width", [2, 3, 6])
def test_moments_without_the_smaller_radius_would_change_by_more(width, monkeypatch):
    """The broken copy rounds squares, but leaves the records their full range."""
    model = ps.LinearRegression(feature_bounds=((0, 1),) * (width - 1), target_bounds=(-1, 1), shape=3, scale=2)
    grid = model.statistic_grid(2.0**-13)
    rows = np.array([[0.0] * (width - 1) + [-1.0], [1.0] * (width - 1) + [1.0], [0.5] * (width - 1) + [0.0]])

    def largest():
        low, high, middle = (model.moments.exact_sums(row[None], grid) for row in rows)
        return max(sum((x - y) ** 2 for x, y in zip(low, other, strict=True)) for other in (high, middle))

    assert largest() <= 4
    monkeypatch.setattr(
        type(model.moments),
        "_indices",
        lambda self, rows, grid: (
            np.ceil(np.abs(self.scaled(rows)) / 2.0 ** self._record_exponent(grid)) * np.sign(self.scaled(rows))
        ),
    )
    assert largest() > 4


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.3, False)])
@pytest.mark.parametrize("exact", [True, False])
def test_a_noisy_sum_is_the_sum_and_its_noise(exact, shift, accepted, rng, alpha):
    mechanism = ps.LaplaceSum(bounds=(0, 2), scale=3, exact=exact, draws=100_000)
    drawn = mechanism.release([0.25, 5.0, 1.5], rng=rng)["sum"]
    assert (stats.kstest(drawn, stats.laplace(3.75 + shift, 3.0).cdf).pvalue > alpha) == accepted


@pytest.mark.parametrize("mechanism", [
    ps.GaussianSum(bounds=(0.1, 0.7), noise_std=1),
    ps.LaplaceSum(bounds=(-1e290, 1e290), scale=1e290),
    ps.LaplaceSum(bounds=(1e6, 1e6 + 1), scale=1e-3, relation=ps.ReplaceOne(50)),
    ps.ClippedSum(norm=1, noise_std=1e14, width=2),
    ps.ClippedSum(norm=1, noise_std=1e-20, width=2, grid=0.25),
], ids=str)  # fmt: skip
def test_sums_at_the_extremes_lie_on_their_grid(mechanism, rng):
    rows = rng.standard_normal((50, 2)) if isinstance(mechanism, ps.ClippedSum) else rng.random(50)
    release = mechanism.release(rows, rng=rng)
    (pitch,) = release.grid.values()
    steps = release["sum"] / pitch
    assert np.isfinite(release["sum"]).all()
    assert (steps == np.rint(steps)).all()
    assert release.account.assumptions == {ps.Assumption.RNG_FRESH}
