"""Exact logistic draws: certified masses of dyadic boxes against 30-digit quadrature, and a certified envelope."""

import itertools
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from flint import arb
from scipy import stats

import privsample as ps
from privsample.distributions.exact.balls import WorkingPrecision
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.laws import half_normal
from privsample.distributions.exact.words import WordStream
from privsample.distributions.models import glm_exact
from privsample.distributions.models.glm import LogisticPosteriorDensity
from privsample.distributions.models.glm_exact import ExactEnvelope, ExactLogistic, exact_draws
from privsample.distributions.models.rejection_envelope import plan
from privsample.errors import SchemaError

GRID = Grid(pitch=0.25)
ROWS = np.array([[1.5], [-0.7], [1.1], [0.2], [1.5]])
MANY = np.array([[1.9], [2.0], [1.3], [-0.4]])
OFTEN = 8.0  # weight of each of MANY, which gives several shells


def envelope_of(rows, *, std=1.0, prior_weight=1.0, weight=1.0, reach=None, centre=None, shells=None):
    """The envelope of rows in units of the coefficients, around an approximate mode."""
    exact = ExactLogistic(
        rows=rows, stds=(Fraction(std),) * rows.shape[1], prior_weight=Fraction(prior_weight), weight=Fraction(weight)
    )
    deviation = std / prior_weight**0.5
    reach = Fraction(float(np.linalg.norm(rows, axis=1).max()) * 1.001 * deviation) if reach is None else reach
    shells = shells or plan(weight=len(rows) * weight, reach=float(reach), dimension=rows.shape[1])
    density = LogisticPosteriorDensity(rows=rows * deviation, weight=weight)
    centre = density.near_mode(tolerance=1e-9) * deviation if centre is None else centre
    return ExactEnvelope(exact, centre, shells, reach**2)


class Known:
    """A number that is known exactly."""

    def __init__(self, ball):
        self.ball = lambda bits: ball


@cache
def quantile(end, sign, depth):
    """The normal number of a uniform number end 2^-depth, as a ball; None at 0, where it is infinite."""
    return None if end == 0 else half_normal(sign, Known(arb((end, -depth)))).ball(128)


def certified_masses(envelope, depth):
    """Enclosures of the accepted mass of each grid cell, from all boxes of bits of the normal number, d = 1.

    Returns certain masses below, possible masses above by cell, and the mass of all boxes that are open.
    """
    low, high, still_open = {}, {}, arb(0)
    with WorkingPrecision(128):
        weights = [weight(128) for weight in envelope.weights()]
        total = sum(weights[1:], weights[0])
        for k, weight in enumerate(weights):
            share = weight / total * arb((1, -depth - 1))
            for sign in (0, 1):
                ends = [quantile(end, sign, depth) for end in range(1 << depth)] + [arb(0)]
                still_open += share  # the first box, which reaches to infinity
                for end in range(1, 1 << depth):
                    box = ends[end].union(ends[end + 1])
                    inside, log_ratio = envelope.log_ratio(k, [box], 128)
                    if inside is False:
                        continue
                    ratio = log_ratio.exp() if log_ratio.is_finite() else arb(0.5, 0.5)  # of a wide box: unknown
                    chance = ratio.min(arb(1))  # U < ratio
                    deviation = envelope.density.deviations()[0]
                    value = arb(envelope.centre[0].numerator) / envelope.centre[0].denominator
                    cell = GRID.index(value + deviation * envelope.steps(k, [box])[0])
                    if inside is None or cell is None:
                        still_open += share * chance.upper()
                        continue
                    low[cell] = low.get(cell, arb(0)) + share * chance.lower()
                    high[cell] = high.get(cell, arb(0)) + share * chance.upper()
    return low, high, still_open


def true_masses(rows, cells, *, std=1.0, prior_weight=1.0, weight=1.0):
    """Posterior masses of grid cells by 30-digit quadrature of the definition."""
    with mp.workdps(30):
        precision = mp.mpf(prior_weight) / mp.mpf(std) ** 2
        listed = [mp.mpf(float(x)) for x in rows[:, 0]]

        def density(b):
            logs = sum(mp.log1p(mp.exp(-x * b)) for x in listed)
            return mp.exp(-precision * b * b / 2 - mp.mpf(weight) * logs)

        ends = [mp.mpf(j) / 4 - mp.mpf(1) / 8 for j in [*cells, cells[-1] + 1]]
        parts = [mp.quad(density, [a, b], method="gauss-legendre") for a, b in itertools.pairwise(ends)]
        whole = mp.quad(density, [-mp.inf, -4, -1, 0, 1, 2, 4, 8, mp.inf])
        return [part / whole for part in parts]


def within(envelope, masses, cells, depth):
    """Whether the enclosures of all cells contain the masses, and their largest width."""
    low, high, still_open = certified_masses(envelope, depth)
    least = sum(low.values(), arb(0)).lower()
    most = (sum(high.values(), arb(0)) + still_open).upper()
    inside, width = True, 0.0
    for cell, mass in zip(cells, masses, strict=True):
        below = float((low.get(cell, arb(0)) / most).lower())
        above = float(((high.get(cell, arb(0)) + still_open) / least).upper())
        inside &= below <= mass <= above
        width = max(width, above - below)
    return inside, width


CELLS = list(range(-8, 13))
CASES = {
    "one shell": (ROWS, {}),
    "narrow prior": (ROWS, {"std": 1.5, "prior_weight": 3.0, "weight": 0.7}),
    "shells": (MANY, {"weight": OFTEN}),
    "away from the mode": (ROWS, {"centre": np.array([0.4])}),
}


@pytest.mark.parametrize("name", CASES)
def test_masses_of_all_boxes_enclose_the_posterior(name):
    rows, fields = CASES[name]
    envelope = envelope_of(rows, **fields)
    several = name == "shells"
    assert (len(envelope.heights) > 1) == several
    depth = 7 if several else 9
    law = {key: value for key, value in fields.items() if key != "centre"}
    masses = true_masses(rows, CELLS, **law)
    inside, width = within(envelope, masses, CELLS, depth)
    assert inside
    assert width < (0.2 if several else 0.04)
    # the broken copies draw from the posterior of slightly other data, or of another weight
    assert not within(envelope_of(rows * 1.3, **fields), masses, CELLS, depth)[0]
    broken = fields | {"weight": 1.3 * fields.get("weight", 1.0)}
    assert not within(envelope_of(rows, **broken), masses, CELLS, depth)[0]


def test_an_envelope_below_the_density_is_found(monkeypatch):
    monkeypatch.setattr(glm_exact, "_curvature", lambda reach, radius: arb(1))
    masses = true_masses(MANY, CELLS, weight=OFTEN)
    assert not within(envelope_of(MANY, weight=OFTEN), masses, CELLS, 8)[0]


@pytest.mark.parametrize(
    ("n", "dimension", "reach", "weight"), [(60, 2, 0.5, 1.0), (30, 3, 2.0, 0.7), (9, 1, 9.0, 1.0)]
)
@pytest.mark.parametrize("far", [0.0, 1.0])
def test_the_envelope_lies_above_the_density_with_certainty(n, dimension, reach, weight, far, rng):
    rows = rng.standard_normal((n, dimension))
    rows *= 0.999 * reach / np.linalg.norm(rows, axis=1, keepdims=True)
    centre = far * rng.standard_normal(dimension) if far else None
    envelope = envelope_of(rows, weight=weight, reach=Fraction(reach), centre=centre)
    tested = 0
    with WorkingPrecision(128):
        for k in range(len(envelope.heights)):
            for _ in range(12):
                standard = [arb(float(z)) for z in rng.standard_normal(dimension) * 10 ** rng.uniform(-2, 1)]
                inside, log_ratio = envelope.log_ratio(k, standard, 128)
                if inside:
                    tested += 1
                    assert log_ratio < 0
    assert tested > 5


@cache
def masses_below():
    """The cells of a wide range, and the posterior mass of the range up to the end of each."""
    cells = list(range(-24, 40))
    return cells, np.cumsum(np.array(true_masses(ROWS, cells), dtype=float))


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.4, False)])
def test_exact_draws_follow_the_posterior(factor, accepted, rng, alpha):
    cells, masses = masses_below()
    drawn, made, kept = exact_draws(envelope_of(ROWS), 1500, None, [GRID], rng)
    assert kept >= 1500 <= made
    found = np.clip(np.round(factor * drawn[:, 0] / GRID.pitch).astype(int), -4, 8)
    below = np.interp(np.arange(-4, 9), cells, masses)
    expected = np.diff(np.concatenate([[0.0], below[:-1], [1.0]])) * len(found)
    counts = np.array([(found == cell).sum() for cell in range(-4, 9)])
    assert (stats.chisquare(counts, expected).pvalue > alpha) == accepted


def test_a_public_number_of_exact_proposals_is_made(rng):
    envelope = envelope_of(ROWS)
    drawn, made, accepted = exact_draws(envelope, 3, 40, [GRID], rng)
    assert (made, drawn.shape) == (40, (3, 1))
    assert accepted > 3
    drawn, made, accepted = exact_draws(envelope, 3, 1, [GRID], rng)  # two draws come from the prior
    assert (made, drawn.shape) == (1, (3, 1))
    assert accepted <= 1
    assert (drawn * 4 == np.round(drawn * 4)).all()


FIELDS = {
    "n": 5,
    "features": 2,
    "norm": 1.0,
    "prior_std": 2.0,
    "intercept_std": 3.0,
    "prior_weight": 2.0,
    "exact": True,
}
DATA = (np.array([[3.0, 4.0], [0.1, np.nan], [0.0, 0.0], [1.0, 0.0], [-0.5, 0.5]]), np.array([1, 0, 1, 1, 0]))


def test_an_exact_mechanism_has_no_assumption():
    mechanism = ps.LogisticPosterior(**FIELDS, draws=2)
    assert mechanism.accountant.assumptions == frozenset()
    release = mechanism.release(DATA)
    for name, pitch in mechanism._grid.items():
        assert pitch == Grid.of_scale((2.0 if name == "coefficients" else 3.0) / 2**0.5).pitch
        assert (release[name] / pitch == np.round(release[name] / pitch)).all()
    assert ps.Release.from_json(release.to_json()) == release
    coarse = ps.LogisticPosterior(**FIELDS, grid=0.125, constant_time=False)
    assert coarse.accountant.assumptions == {ps.Assumption.TIMING}
    assert (coarse.release(DATA)["coefficients"] * 8 % 1 == 0).all()
    assert ps.LogisticPosterior(**FIELDS | {"exact": False})._grid is None


def test_what_cannot_be_drawn_exactly_is_refused_by_public_fields():
    for wrong in ({"sampler": "nuts"}, {"n": 10**6}, {"features": 200}):
        with pytest.raises(ValueError, match="exact must be False here"):
            ps.LogisticPosterior(**FIELDS | wrong)
    with pytest.raises(ValueError, match="power of two"):
        ps.LogisticPosterior(**FIELDS, grid=0.1)
    with pytest.raises(ValueError, match="grid must be at least"):
        ps.LogisticPosterior(**FIELDS, grid=2.0**-300)
    with pytest.raises(ValueError, match="grid must be None with exact=False"):
        ps.LogisticPosterior(**FIELDS | {"exact": False}, grid=0.5)
    with pytest.raises(TypeError, match="exact must be True or False"):
        ps.LogisticPosterior(**FIELDS | {"exact": "yes"})
    with pytest.raises(SchemaError, match="n = 5"):
        ps.LogisticPosterior(**FIELDS).release((DATA[0][1:], DATA[1][1:]))


def test_exact_draws_are_calibrated_like_others():
    fields = {name: FIELDS[name] for name in ("n", "features", "norm", "prior_std")}
    made = ps.LogisticPosterior.calibrate(**fields, exact=True, target=ps.DP(1, 1e-6))
    floats = ps.LogisticPosterior.calibrate(**fields, target=ps.DP(1, 1e-6))
    assert made.exact
    assert made.data_weight == floats.data_weight


def test_words_are_read_alike_whatever_reads_them(rng):
    """The same words give the same draw, so that a release can be repeated from recorded words."""
    one, other = (exact_draws(envelope_of(ROWS), 4, 30, [GRID], np.random.default_rng(3)) for _ in range(2))
    assert (one[0] == other[0]).all()
    assert WordStream(rng).word() < 2**64
