"""Logistic posteriors: gradients and privacy curves by brute force never exceed the account."""

import dataclasses
import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy.special import expit, logsumexp

from privsample import Accountant, Composed, GaussianAccountant, LogisticAccountant, ReplaceOne
from privsample.distributions.likelihoods.logistic import SCALAR_GRADIENT_FACTOR

SIMPLE = LogisticAccountant(n=3, features=1, norm=2.0, prior_std=1.5)


def steepest(points, at):
    """The largest distance between two records' gradients; points (k, d), at (m, d)."""
    gradients = -points[None] * expit(-(at @ points.T))[..., None]
    return max(
        np.linalg.norm(gradients[:, i] - gradients[:, j], axis=1).max()
        for i, j in itertools.combinations(range(len(points)), 2)
    )


def test_the_scalar_constant_to_fifty_digits():
    with mp.workdps(50):
        omega = mp.lambertw(mp.exp(-1)).real  # sup of w sigma(-w)

        def value(a):
            return 1 / (1 + mp.exp(-a)) + (omega / a if a > 1 + omega else 1 / (1 + mp.exp(a)))

        top = mp.findroot(lambda a: mp.diff(value, a), 4)
        assert abs(mp.diff(lambda w: w / (1 + mp.exp(w)), 1 + omega)) < mp.mpf(10) ** -40
        assert max(value(mp.mpf(k) / 50) for k in range(1, 2000)) <= value(top)
        assert value(top) <= mp.mpf(SCALAR_GRADIENT_FACTOR) <= value(top) * (1 + mp.mpf(2) ** -51)


def test_one_feature_moves_the_gradient_by_no_more_than_the_constant():
    norm, at = 1.7, np.linspace(0, 8, 4001)[:, None] / 1.7
    found = steepest(np.linspace(-norm, norm, 81)[:, None], at)
    assert 0.999 * SCALAR_GRADIENT_FACTOR * norm < found <= SCALAR_GRADIENT_FACTOR * norm


@pytest.mark.parametrize("intercept", [None, 0.7])
def test_two_dimensions_and_an_intercept_attain_the_bound(intercept):
    angles = np.array([0.49, 0.499, 0.4999]) * np.pi
    if intercept is None:
        points = 1.7 * np.array([[-np.cos(a), s * np.sin(a)] for a in angles for s in (1, -1)])
        at = np.array([[10.0**k, 0.0] for k in range(6)])
    else:  # row (x, 1) and the opposite row with the other label: almost opposite gradients
        points = np.array([[1.7, intercept], [-1.6999, -intercept], [1.6999, intercept], [-1.7, -intercept]])
        at = np.array([[t, -t * 1.69995 / intercept] for t in 10.0 ** np.arange(7)])
    bound = 2 * np.hypot(1.7, intercept or 0.0)
    assert 0.99 * bound < steepest(points, at) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_no_rows_exceed_the_gradient_bound(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((40, 3))
    points *= 1.3 / np.linalg.norm(points, axis=1, keepdims=True)
    assert steepest(points, rng.standard_normal((300, 3)) * 10 ** rng.uniform(-1, 3, (300, 1))) <= 2 * 1.3


def curve(records, other, epsilons, *, prior_std, weight, prior_weight, draws=1):
    """Both directions of the exact privacy curve of one draw with a scalar feature, by quadrature on a grid."""
    deviation = prior_std * prior_weight**-0.5
    b = np.linspace(-12 * deviation, 12 * deviation, 40_001)

    def log_distribution(z):
        log_density = -0.5 * (b / deviation) ** 2 + weight * np.log(expit(np.outer(b, z))).sum(axis=1)
        return log_density - logsumexp(log_density)

    p, q = log_distribution(records), log_distribution(other)
    return np.array(
        [max(np.maximum(np.exp(x) - np.exp(e + y), 0).sum() for x, y in ((p, q), (q, p))) for e in epsilons]
    )


@pytest.mark.parametrize(
    ("weight", "prior_weight"),
    [(0.3, 1.0), (1.0, 5.0), *(pytest.param(*both, marks=pytest.mark.long) for both in ((1.0, 1.0), (0.5, 2.0)))],
)
def test_exact_curves_of_all_small_datasets_lie_below_the_account(weight, prior_weight):
    account = dataclasses.replace(SIMPLE, data_weight=weight, prior_weight=prior_weight)
    epsilons, ends = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0]), (-2.0, -0.7, 0.0, 0.7, 2.0)
    bound, worst = account.delta(epsilons), np.zeros(len(epsilons))
    for common in itertools.combinations_with_replacement((-2.0, 0.0, 2.0), 2):
        for z, other in itertools.combinations(ends, 2):
            found = curve(
                [*common, z], [*common, other], epsilons, prior_std=1.5, weight=weight, prior_weight=prior_weight
            )
            assert (found <= bound + 1e-12).all()
            worst = np.maximum(worst, found)
    assert worst[0] > 0.5 * bound[0]  # nor far below


def test_exact_curves_with_an_intercept_lie_below_the_account():
    """Slope and intercept by quadrature in two dimensions; rows near each other with opposite labels are the worst."""
    account = LogisticAccountant(n=1, features=1, norm=2.0, prior_std=1.0, intercept_std=1.5, data_weight=0.5)
    epsilons = np.array([0.0, 0.2, 1.0, 3.0])
    grid = np.linspace(-8, 8, 301)
    slope, intercept = np.meshgrid(grid, 1.5 * grid, indexing="ij")
    bound, worst = account.delta(epsilons), np.zeros(len(epsilons))

    def distribution(x, sign):
        log_density = -0.5 * (slope**2 + (intercept / 1.5) ** 2) + 0.5 * np.log(expit(sign * (slope * x + intercept)))
        return np.exp(log_density - logsumexp(log_density))

    distributions = [distribution(x, sign) for x in (-2.0, -0.5, 1.9, 2.0) for sign in (1, -1)]
    for p, q in itertools.permutations(distributions, 2):
        found = np.array([np.maximum(p - np.exp(e) * q, 0).sum() for e in epsilons])
        assert (found <= bound + 1e-9).all()
        worst = np.maximum(worst, found)
    assert worst[0] > 0.3 * bound[0]


def test_a_smaller_constant_would_be_refuted():
    """The brute force can refute: half the shift lies below the exact curve."""
    epsilons = np.array([0.0, 0.5])
    found = curve([2.0], [-2.0], epsilons, prior_std=1.5, weight=0.1, prior_weight=1.0)
    half = GaussianAccountant(sensitivity=0.1 * 2.0 * 1.5 / 2, noise_std=1.0)
    assert (found > half.delta(epsilons)).all()


def test_draws_and_groups_scale_the_shift():
    several = dataclasses.replace(SIMPLE, draws=7)
    composed = Composed(entries=((SIMPLE, 7),))
    epsilons = np.array([0.1, 1.0, 5.0])
    assert several.shift == pytest.approx(SIMPLE.shift * np.sqrt(7))
    assert several.delta(epsilons) == pytest.approx(composed.delta(epsilons), rel=1e-9)
    assert several.rdp([2.0, 9.0]) == pytest.approx(7 * SIMPLE.rdp([2.0, 9.0]))
    pair = SIMPLE.group(2)
    assert pair.shift == pytest.approx(2 * SIMPLE.shift)
    assert pair.relation == ReplaceOne(n=3, members=2)
    assert SIMPLE.group(50).group_size == 3
    assert pair.group(2).group_size == 3


def test_the_formula():
    one = LogisticAccountant(n=9, features=4, norm=2, prior_std=3, intercept_std=8, data_weight=0.25, prior_weight=4)
    assert one.scaled_row_norm == pytest.approx(5.0)
    assert one.shift == pytest.approx(2.5)
    assert one.shift >= 2.5
    assert one.zcdp == pytest.approx(3.125)
    assert dataclasses.replace(one, intercept_std=None).shift == pytest.approx(1.5)
    assert SIMPLE.shift == pytest.approx(3 * SCALAR_GRADIENT_FACTOR)
    assert dataclasses.replace(SIMPLE, intercept_std=1e-9).shift == pytest.approx(6)
    assert {one.kind(view) for view in ("rdp", "delta", "epsilon")} == {"upper bound"}
    assert one.relation == ReplaceOne(n=9)
    assert "Gopi, Lee and Liu 2022" in one.source
    assert Accountant.from_dict(one.to_dict()) == one


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("n", 0),
        ("features", 0),
        ("norm", 0.0),
        ("norm", float("nan")),
        ("prior_std", float("inf")),
        ("intercept_std", -1.0),
        ("data_weight", 1.5),
        ("prior_weight", 0.5),
        ("prior_weight", float("inf")),
        ("draws", 0),
        ("group_size", 0),
    ],
)
def test_bad_fields(field, bad):
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(SIMPLE, **{field: bad})


def test_a_cost_that_overflows_is_refused():
    with pytest.raises(ValueError, match="norm"):
        dataclasses.replace(SIMPLE, norm=1e200, prior_std=1e200)
