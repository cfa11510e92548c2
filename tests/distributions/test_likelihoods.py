"""Likelihoods of regressions: gradients by finite differences, constants by random search, the clipping lemma."""

import numpy as np
import pytest
from scipy import special

import privsample as ps
from privsample.distributions.likelihoods.base import room_of
from privsample.distributions.models.regression_potential import RegressionPotential, RegressionScale
from privsample.distributions.regression_records import ArrayRecords

HUGE = 50.0  # a clip that no score of these tests reaches


def _logistic(t, y):
    return np.logaddexp(0.0, -(2 * y - 1) * t)


def _probit(t, y):
    return -special.log_ndtr((2 * y - 1) * t)


def _huber(t, y, threshold=0.7, noise_std=2.0):
    return special.huber(threshold, (t - y) / noise_std)


def _normal(t, y, noise_std=0.5):
    return 0.5 * ((t - y) / noise_std) ** 2


def _poisson(t, y):
    return np.exp(t) - y * t


def _ordinal(t, y, cuts=(-1.0, 0.5, 2.0)):
    ends = np.array([-np.inf, *cuts, np.inf])
    return -np.log(special.expit(ends[int(y) + 1] - t) - special.expit(ends[int(y)] - t))


SCALAR = {
    "logistic": (ps.LogisticLikelihood(), _logistic, (0.0, 1.0)),
    "probit": (ps.ProbitLikelihood(clip=HUGE), _probit, (0.0, 1.0)),
    "huber": (ps.HuberLikelihood(threshold=0.7, noise_std=2.0), _huber, (-9.0, 0.1, 9.0)),
    "normal": (ps.NormalLikelihood(noise_std=0.5, clip=HUGE), _normal, (-1.0, 0.1, 3.0)),
    "poisson": (ps.PoissonLikelihood(max_count=9, clip=HUGE), _poisson, (0.0, 2.0, 9.0)),
    "ordinal": (ps.OrdinalLikelihood(cutpoints=(-1.0, 0.5, 2.0)), _ordinal, (0.0, 1.0, 2.0, 3.0)),
}
CLIPPED = {
    "logistic": ps.LogisticLikelihood(),
    "clipped logistic": ps.LogisticLikelihood(clip=0.4),
    "probit": ps.ProbitLikelihood(clip=0.6),
    "huber": ps.HuberLikelihood(threshold=0.7, noise_std=2.0),
    "normal": ps.NormalLikelihood(noise_std=0.5, clip=1.5),
    "poisson": ps.PoissonLikelihood(max_count=4, clip=2.5),
    "two categories": ps.OrdinalLikelihood(cutpoints=(0.3,)),
    "categories": ps.OrdinalLikelihood(cutpoints=(-1.0, 0.5, 2.0)),
    "softmax": ps.SoftmaxLikelihood(classes=3),
}


@pytest.mark.parametrize("name", SCALAR)
def test_slopes_are_derivatives_of_the_loss(name):
    likelihood, loss, targets = SCALAR[name]
    scores, step = np.linspace(-3.1, 3.2, 37), 1e-5
    for y in targets:
        expected = [(loss(t + step, y) - loss(t - step, y)) / (2 * step) for t in scores]
        found = likelihood.slopes(scores[None], np.array([y]), np.ones(1))[0]
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_softmax_slopes_are_derivatives_of_the_loss(rng):
    scores, step = rng.standard_normal((5, 3)) * 2, 1e-5

    def loss(t, y):
        return special.logsumexp(t) - t[y]

    found = ps.SoftmaxLikelihood(classes=3).slopes(scores[None], np.array([2.0]), np.ones(1))[0]
    for own, slopes in zip(scores, found, strict=True):
        expected = [(loss(own + step * e, 2) - loss(own - step * e, 2)) / (2 * step) for e in np.eye(3)]
        assert slopes == pytest.approx(expected, rel=1e-6, abs=1e-9)


def potential(likelihood, rows, targets, norm):
    scale = RegressionScale(features=rows.shape[1], norm=norm, deviation=1.0, intercept_deviation=None)
    return RegressionPotential(
        likelihood=likelihood,
        scale=scale,
        weight=1.0,
        records=ArrayRecords.prepare(rows, targets, norm),
        proper=np.zeros(rows.shape[1]),
    )


def random_record(likelihood, rng, norm, width):
    """A row within the norm, often of that norm, and a target, often an extreme one."""
    row = rng.standard_normal((1, width))
    row *= norm * rng.choice([1.0, 1.0, rng.random()]) / np.linalg.norm(row)
    ends = likelihood.extreme_targets
    target = rng.choice([*ends, np.round(rng.uniform(min(ends), max(ends))), rng.normal()])
    return row, likelihood.clean_targets(np.array([target]))


@pytest.mark.parametrize(
    ("width", "norm"),
    [
        (1, 1.0),
        (2, 1.7),
        (4, 1.0),
        *(pytest.param(*more, marks=pytest.mark.long) for more in ((1, 1.7), (2, 1.0), (4, 1.7))),
    ],
)
@pytest.mark.parametrize("name", CLIPPED)
def test_constants_hold_for_random_records(name, width, norm, rng):
    """Gradients are monotone and Lipschitz along segments, and no longer than stated."""
    likelihood, columns = CLIPPED[name], CLIPPED[name].score_columns
    beta, bound = likelihood.smoothness(norm), likelihood.gradient_norm(norm)
    reached, steep = 0.0, 0.0
    for _ in range(150):
        own = potential(likelihood, *random_record(likelihood, rng, norm, width), norm)
        at = rng.standard_normal((20, columns, width)) * 10.0 ** rng.uniform(-1, 1.5, (20, 1, 1))
        step = rng.standard_normal(at.shape) * 10.0 ** rng.uniform(-4, 0.5, (20, 1, 1))
        first, second = own.gradient(at), own.gradient(at + step)
        lengths = np.linalg.norm(np.concatenate([first, second]).reshape(40, -1), axis=1)
        reached = max(reached, lengths.max())
        change, square = second - first, (step**2).sum(axis=(1, 2))
        assert ((change * step).sum(axis=(1, 2)) >= -1e-9 * np.sqrt(square) * bound).all()  # convex
        steep = max(steep, (np.linalg.norm(change.reshape(20, -1), axis=1) / np.sqrt(square)).max())
    assert 0.5 * bound < reached <= bound * (1 + 1e-9)
    assert 0.2 * beta < steep <= beta * (1 + 1e-6)


@pytest.mark.parametrize("name", CLIPPED)
def test_sensitivity_against_random_pairs(name, rng):
    likelihood, width, norm = CLIPPED[name], 2, 1.3
    columns, widest = likelihood.score_columns, 0.0
    for _ in range(400):
        pair = [potential(likelihood, *random_record(likelihood, rng, norm, width), norm) for _ in range(2)]
        at = rng.standard_normal((30, columns, width)) * 10.0 ** rng.uniform(-1, 2, (30, 1, 1))
        widest = max(
            widest, np.linalg.norm((pair[0].gradient(at) - pair[1].gradient(at)).reshape(30, -1), axis=1).max()
        )
    bound = likelihood.gradient_sensitivity(norm, ps.ReplaceOne(4))
    assert 0.6 * bound < widest <= bound * (1 + 1e-9)
    assert likelihood.gradient_sensitivity(norm, ps.AddRemove()) == pytest.approx(likelihood.gradient_norm(norm))


def test_one_coefficient():
    one = ps.LogisticLikelihood().gradient_sensitivity(2.0, ps.ReplaceOne(4), dimension=1)
    assert one == pytest.approx(2 * 1.05163399154532221594, rel=1e-12)
    assert ps.LogisticLikelihood().gradient_sensitivity(2.0, ps.AddRemove(), dimension=1) == 2.0
    clips = {0.3: 0.6, 0.5: 1.0, 0.7: 1.0, 0.782: 1.0, 0.9: 1.05163399154532221594}
    for clip, factor in clips.items():  # 0.9 is bounded by the constant without clipping, by 2.4 %
        own = ps.LogisticLikelihood(clip=clip)
        assert own.gradient_sensitivity(2.0, ps.ReplaceOne(4), dimension=1) == pytest.approx(2 * factor, rel=1e-12)
        points, at = np.linspace(-2.0, 2.0, 161)[:, None], np.linspace(0, 6, 601)[:, None, None]
        found = np.array([potential(own, row[None], np.ones(1), 2.0).gradient(at)[:, 0, 0] for row in points])
        widest = np.ptp(found, axis=0).max()
        assert 0.97 * 2 * factor < widest <= 2 * factor * (1 + 1e-9)
    with pytest.raises(TypeError, match="relation must be ReplaceOne"):
        ps.HuberLikelihood(threshold=1).gradient_sensitivity(2.0, "replace")


def test_clipping_a_scalar_gradient_is_truncating_its_slope(rng):
    """The lemma: clip(phi'(z.w) z, C) is slope z with the slope truncated at C/|z|."""
    free, norm = ps.NormalLikelihood(noise_std=0.5, clip=1e9), 1.4
    cut = ps.NormalLikelihood(noise_std=0.5, clip=1.5)
    bound = cut.gradient_norm(norm)
    for _ in range(200):
        row, target = random_record(free, rng, norm, 3)
        at = rng.standard_normal((1, 1, 3)) * 3
        raw, found = (potential(one, row, target, norm).gradient(at)[0, 0] for one in (free, cut))
        assert found == pytest.approx(raw * min(1.0, bound / np.linalg.norm(raw)), rel=1e-9, abs=1e-12)


def test_clipped_softmax_gradients_are_not_monotone():
    """The counterexample of langevin.md, section 5: rows are scaled down in place of gradients."""
    likelihood = ps.SoftmaxLikelihood(classes=3)

    def clipped(scores):
        raw = likelihood.slopes(scores[None, None], np.array([0.0]), np.ones(1))[0, 0]
        return raw * min(1.0, 0.3 / np.linalg.norm(raw))

    found = []
    for y in range(3):
        at, step = np.roll([2.6967, 1.2355, 2.7981], -y), np.roll([-0.1184, 0.0309, 0.0664], -y)
        found.append((clipped(at + step) - clipped(at)) @ step / (step @ step))
    assert min(found) == pytest.approx(-0.00196, abs=2e-5)


@pytest.mark.parametrize("name", CLIPPED)
def test_any_target_and_score(name):
    """No float makes a gradient infinite, not even on rows of zeros or of the least length."""
    likelihood = CLIPPED[name]
    targets = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, -0.0, 0.5, 1.0, 7.0])
    clean = likelihood.clean_targets(targets)
    assert likelihood.clean_targets(clean) == pytest.approx(clean)
    for length in (0.0, 5e-324, 1e-200, 1.0):
        rows = np.full((len(targets), 1), length)
        at = np.array([-1e308, -1e3, 0.0, 1e3, 1e308])[:, None, None] * np.ones((1, likelihood.score_columns, 1))
        found = potential(likelihood, rows, clean, 1.0).gradient(at)
        assert np.isfinite(found).all()
        assert np.abs(found).max() <= len(targets) * likelihood.gradient_norm(1.0) * (1 + 1e-9)
    assert sum(likelihood.count_problems(targets).values()) >= 1
    assert not any(likelihood.count_problems(np.array([0.0, 1.0])).values())


def test_means():
    assert ps.ProbitLikelihood(clip=1).mean(1.0) == pytest.approx(0.8413447460685429)
    assert ps.PoissonLikelihood(max_count=3, clip=1).mean(2.0) == pytest.approx(np.exp(2))
    assert ps.HuberLikelihood(threshold=1).mean(-3.0) == -3.0
    assert ps.OrdinalLikelihood(cutpoints=(-1.0, 0.5)).mean(np.zeros((4, 2))).shape == (4, 2, 3)
    for scores in (np.zeros(3), np.array([[1.0, 2.0, -3.0]])):
        assert ps.SoftmaxLikelihood(classes=3).mean(scores).sum(axis=-1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ps.SoftmaxLikelihood(classes=1), "classes must be at least 2, got 1"),
        (lambda: ps.OrdinalLikelihood(cutpoints=()), "cutpoints must be one or more increasing"),
        (lambda: ps.OrdinalLikelihood(cutpoints=(1.0, 1.0)), "cutpoints must be one or more increasing"),
        (lambda: ps.OrdinalLikelihood(cutpoints=(0.0, np.inf)), r"cutpoints\[1\] must be finite"),
        (lambda: ps.LogisticLikelihood(clip=1.0), "clip must be below 1, the bound of all slopes, or None, got 1"),
        (lambda: ps.ProbitLikelihood(clip=0.0), "clip must be finite and > 0"),
        (lambda: ps.PoissonLikelihood(max_count=-1, clip=1), "max_count must be finite and > 0"),
        (lambda: ps.NormalLikelihood(noise_std=0, clip=1), "noise_std must be finite and > 0"),
    ],
)
def test_wrong_fields(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_room():
    found = room_of(np.array([0.0, 5e-324, 0.5, 2.0]), 2.0)
    assert found[[0, 2, 3]] == pytest.approx([1.0, 4.0, 1.0])
    assert np.isfinite(found).all()
