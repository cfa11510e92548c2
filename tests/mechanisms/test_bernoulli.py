"""Coins whose chances a private mechanism released."""

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    RDP,
    BernoulliAccountant,
    BernoulliSampling,
    BetaBernoulli,
    ConditionalSelection,
    DirectPosterior,
    DirichletCategorical,
    GaussianMechanism,
    GaussianSum,
    NoisyStatistics,
    NormalKnownVariance,
    NormalUnknownVariance,
    Release,
)
from tests.given_words import GivenWords

UNKNOWN = NormalUnknownVariance(mean=0, observations=1, shape=2, scale=1, bounds=(0, 1))
NOISY = GaussianMechanism(sensitivity=0.1, noise_std=0.2, shape=(3,))


def test_wrapping_the_mechanism_wraps_its_account():
    made = BernoulliSampling(base=NOISY, margin=0.1, draws=4)
    assert made.accountant == BernoulliAccountant(base=NOISY.accountant, margin=0.1, draws=4, dimension=3)
    released = made.release([0.2, 0.5, 0.9])
    assert released["bits"].shape == (4, 3)
    assert set(np.unique(released["bits"])) <= {0, 1}
    assert list(released.draws) == ["bits"]
    assert Release.from_json(released.to_json()) == released
    assert made.validate([0.2, np.nan, 0.9]).facts == {"not finite": 1}


@pytest.mark.parametrize(
    ("base", "dimension"),
    [
        (NOISY, 3),
        (GaussianMechanism(sensitivity=1, noise_std=1, draws=2), 2),
        (DirectPosterior(model=BetaBernoulli(alpha=2, beta=2), n=3), 1),
        (DirectPosterior(model=DirichletCategorical(alpha=(2, 2, 2)), n=3, draws=2), 6),
        (DirectPosterior(model=NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 1)), n=3), 1),
        (NoisyStatistics(model=UNKNOWN, n=3, scale=1.0, draws=2), 4),
    ],
)
def test_the_dimension_is_read_from_public_fields(base, dimension):
    made = BernoulliSampling(base=base, margin=0.2)
    assert made.dimension == dimension
    data = np.zeros(3) if base is NOISY or hasattr(base, "n") else 0.5
    assert made.release(data)["bits"].shape == (1, dimension)


def test_dimensions_that_do_not_fit_are_refused():
    total = GaussianSum(bounds=(0, 1), noise_std=1)
    with pytest.raises(ValueError, match="dimension must be given"):
        BernoulliSampling(base=total, margin=0.1)
    assert BernoulliSampling(base=total, margin=0.1, dimension=1).release([0.5])["bits"].shape == (1, 1)
    with pytest.raises(ValueError, match=r"dimension = 2 numbers, got \{'sum': \(1,\)\}"):
        BernoulliSampling(base=total, margin=0.1, dimension=2).release([0.5])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"margin": 0.5}, r"margin must lie in \[0, 1/2\)"),
        ({"margin": -0.1}, r"margin must lie in \[0, 1/2\)"),
        ({"margin": np.nan}, r"margin must lie in \[0, 1/2\), got nan"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"dimension": 0}, "dimension must be at least 1"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        BernoulliSampling(**({"base": NOISY, "margin": 0.1} | fields))
    with pytest.raises(TypeError, match="base must be a mechanism"):
        BernoulliSampling(base=NOISY.accountant, margin=0.1)


def test_the_least_margin_that_meets_a_target():
    base = GaussianMechanism(sensitivity=1, noise_std=1)
    target = RDP(order=2.0, epsilon=0.5)
    made = BernoulliSampling.calibrate(base=base, target=target)
    assert target.met_by(made.accountant)
    assert not target.met_by(BernoulliSampling(base=base, margin=made.margin * (1 - 1e-6)).accountant)
    pure = BernoulliSampling.calibrate(base=base, target=DP(epsilon=1.0), draws=3)
    assert 0.999999 < pure.accountant.epsilon(0.0) <= 1.0


@pytest.mark.statistical
@pytest.mark.parametrize(("margin", "accepted"), [(0.2, True), (0.19, False)])
def test_chances_are_moved_to_the_margin(margin, accepted, rng, alpha):
    made = BernoulliSampling(base=GaussianMechanism(sensitivity=1, noise_std=1e-9), margin=margin, draws=400_000)
    ones = int(made.release(-5.0, rng=rng)["bits"].sum())
    assert (stats.binomtest(ones, 400_000, 0.2).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("value", "accepted"), [(0.5, True), (0.45, False)])
def test_a_base_that_releases_no_draws_makes_the_coins_fair(value, accepted, rng, alpha):
    """Whether it does so depends on the data: an error would reveal what the account of the draws does not cover."""
    noisy = GaussianMechanism(sensitivity=1, noise_std=0.05)
    never = ConditionalSelection(base=noisy, threshold=50.0, stop_probability=0.9)
    made = BernoulliSampling(base=never, margin=0.4, draws=200_000, dimension=1)
    ones = int(made.release(0.0, rng=rng)["bits"].sum())
    assert (stats.binomtest(ones, 200_000, value).pvalue > alpha) == accepted


@pytest.mark.parametrize(("chance", "word"), [(1.0, 0), (0.0, 1), (0.7, 0), (np.nan, 1), (np.inf, 0), (-np.inf, 1)])
def test_a_margin_that_a_double_next_to_one_cannot_hold_is_kept(chance, word):
    """A generator whose word is zero draws the rarer outcome at every probability: no outcome is impossible."""
    made = BernoulliSampling(base=GaussianMechanism(sensitivity=1, noise_std=1), margin=1e-30)
    assert made._bernoulli_draws(made._probabilities({"statistic": np.array([chance])}), GivenWords(0, 0)).tolist() == [
        [word]
    ]
