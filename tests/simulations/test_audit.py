"""Audits: true accounts stand, broken twins fall, and no verdict says more than it knows."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample._value import value
from privsample.accounting.additive import GaussianAccountant
from privsample.accounting.base import Accountant
from privsample.accounting.posterior import PosteriorAccountant
from privsample.distributions.families import Model
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior import PosteriorMechanism
from privsample.simulations.audit import _clopper_pearson, audit_curve, telling_epsilons
from privsample.simulations.neighbours import MOST_RECORDS

BETA = ps.BetaBernoulli(alpha=6, beta=12)
NORMAL = ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 2))
MECHANISMS = [
    ps.DirectPosterior(model=BETA, n=100, draws=3),
    ps.DiffusedPosterior(model=ps.BetaBernoulli(alpha=2, beta=3), n=1, data_weight=0.5),
    ps.ConcentratedPosterior(model=ps.DirichletCategorical(alpha=(2, 3)), n=50, prior_divisor=0.2),
    ps.DiffusedPosterior(model=ps.DirichletCategorical(alpha=(4, 3, 1, 2)), n=50, data_weight=0.4),
    ps.DiffusedPosterior(model=ps.GammaPoisson(shape=5, rate=1, upper=4), n=50, data_weight=0.5),
    ps.ConcentratedPosterior(model=ps.GammaExponential(shape=5, rate=3, upper=4), n=50, prior_divisor=0.2),
    ps.DiffusedPosterior(model=NORMAL, n=50, data_weight=0.5),
    ps.BetaQuery(alpha=2, beta=3, bounds=(5, 30), n=60, data_weight=0.4, prior_divisor=0.9),
    ps.GaussianMechanism(sensitivity=2, noise_std=4, shape=(3, 2), draws=2),
    ps.LaplaceMechanism(sensitivity=2, scale=4, shape=(3,)),
    ps.RandomizedResponse(log_odds=0.5, relation=ps.ReplaceOne(n=7)),
    ps.RandomizedResponse(log_odds=0.5, relation=ps.AddRemove(), slots=1, categories=4),
]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: f"{type(m).__name__}-{type(getattr(m, 'model', 0)).__name__}"
)
def test_true_accounts_stand_and_half_of_them_falls(mechanism, rng, alpha):
    points = telling_epsilons(mechanism, 2)
    for verdict in audit_curve(mechanism, epsilons=points, samples=100_000, rng=rng, level=alpha / 2):
        assert not verdict.violated, verdict.words
        assert verdict.upper >= verdict.claim / 2
    false = float(np.nextafter(verdict.claim, 0)) / 2
    broken = ps.audit(mechanism, epsilon=points[-1], samples=200_000, rng=rng, claimed_delta=false)
    assert broken.outcome == "VIOLATED", broken.words


@value
class Careless(PosteriorMechanism):
    """Counts every record half as much again as its account says."""

    model: Model
    n: int
    data_weight: float
    draws: int = 1
    unit: str = "record"

    @property
    def _weights(self) -> tuple[float, float]:
        return 1.5 * self.data_weight, 1.0

    @property
    def accountant(self) -> Accountant:
        return PosteriorAccountant(model=self.model, n=self.n, data_weight=self.data_weight)


class Quiet(ps.GaussianMechanism):
    """Its account speaks of more noise than it adds."""

    __slots__ = ()

    @property
    def accountant(self) -> Accountant:
        return GaussianAccountant(sensitivity=self.sensitivity, noise_std=1.25 * self.noise_std)


class Broken(ps.GaussianMechanism):
    """Returns what is no number."""

    __slots__ = ()

    def _noise(self, rng, shape):
        return np.full(shape, np.nan)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism",
    [Careless(model=BETA, n=100, data_weight=0.5), Quiet(sensitivity=1, noise_std=1)],
    ids=["too much weight", "too little noise"],
)
def test_samplers_that_leak_more_than_their_account_are_caught(mechanism, rng):
    epsilon = float(mechanism.accountant.epsilon(0.03))
    verdict = ps.audit(mechanism, epsilon=epsilon, rng=rng)
    assert verdict.violated, verdict.words
    assert "VIOLATED" in verdict.words


def test_a_verdict_says_what_it_rests_on_and_no_more(rng):
    gaussian = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    verdict = ps.audit(gaussian, epsilon=0.5, samples=50_000, rng=rng)
    assert verdict.outcome == "CONSISTENT"
    assert verdict.claim == pytest.approx(float(gaussian.accountant.delta(0.5)))
    assert verdict.lower < verdict.claim < verdict.upper
    assert "50,000 draws" in verdict.words
    assert "no proof" in verdict.words
    assert "proved" not in verdict.words
    few = ps.audit(gaussian, epsilon=0.5, samples=10, rng=rng, claimed_delta=0.0)
    assert not few.violated
    assert "too few to refute any claim" in few.words


def test_one_draw_is_audited_whatever_the_number_of_draws():
    one, four = (ps.DiffusedPosterior(model=BETA, n=20, data_weight=0.5, draws=k) for k in (1, 4))
    first, second = (
        ps.audit(m, epsilon=0.1, samples=1000, rng=np.random.default_rng(3), claimed_delta=None) for m in (one, four)
    )
    assert first == second
    assert hash(first) == hash(second)


def test_limits_are_those_of_clopper_and_pearson():
    low, high = _clopper_pearson(37, 100, 1e-3)
    assert stats.binom.sf(36, 100, low) == pytest.approx(1e-3)
    assert stats.binom.cdf(37, 100, high) == pytest.approx(1e-3)
    assert _clopper_pearson(0, 100, 1e-3)[0] == 0.0
    assert _clopper_pearson(100, 100, 1e-3)[1] == 1.0


@pytest.mark.parametrize("draws_at_a_time", [1000, 7])
def test_blocks_of_draws_cover_all_samples(monkeypatch, draws_at_a_time):
    monkeypatch.setattr("privsample.simulations.audit._BLOCK", draws_at_a_time)
    verdict = ps.audit(ps.LaplaceMechanism(sensitivity=1, scale=1), epsilon=0.1, samples=1001)
    assert verdict.samples == 1001


class Unknown(Mechanism):
    @property
    def accountant(self):
        return ps.PureAccountant(stated_epsilon=1.0)

    def release(self, data, *, rng=None):
        raise AssertionError

    def validate(self, data):
        raise AssertionError


@pytest.mark.parametrize(
    ("mechanism", "options", "error", "message"),
    [
        (Unknown(), {}, TypeError, "worst neighbours of Unknown"),
        (MECHANISMS[0], {"rng": 3}, TypeError, "seeded release"),
        (MECHANISMS[0], {"samples": 0}, ValueError, "samples"),
        (MECHANISMS[0], {"epsilon": np.nan}, ValueError, "epsilon"),
        (MECHANISMS[0], {"level": 1.0}, ValueError, "level"),
        (MECHANISMS[0], {"level": 0.0}, ValueError, "level"),
        (MECHANISMS[0], {"claimed_delta": np.nan}, ValueError, "claimed_delta"),
        (MECHANISMS[0], {"claimed_delta": 1.5}, ValueError, "claimed_delta"),
        (ps.DirectPosterior(model=BETA, n=MOST_RECORDS + 1), {}, ValueError, "too many to simulate"),
        (ps.RandomizedResponse(log_odds=1, relation=ps.AddRemove(), slots=2), {}, ValueError, "slots = 1"),
        (Broken(sensitivity=1, noise_std=1), {}, ValueError, "finite numbers"),
    ],
)
def test_what_cannot_be_audited_gets_a_clear_error(mechanism, options, error, message):
    with pytest.raises(error, match=message):
        ps.audit(mechanism, **{"epsilon": 0.1, "samples": 100, **options})


@pytest.mark.parametrize(("epsilons", "claims"), [([], None), ([0.1], [0.1, 0.2])])
def test_curves_need_points_and_claims_that_match(epsilons, claims):
    with pytest.raises(ValueError, match="epsilons"):
        audit_curve(MECHANISMS[0], epsilons=epsilons, claims=claims, samples=100)


def test_a_posterior_of_an_unknown_model_is_refused():
    class Other(ps.BetaBernoulli.__mro__[1]):
        __slots__ = ()
        absorb = domain = parameter = posterior = simulate = None

    from privsample.simulations.neighbours import extreme_records

    with pytest.raises(TypeError, match="Other"):
        extreme_records(Other())


@pytest.mark.parametrize("name", ["claim", "lower", "upper"])
def test_verdicts_hold_probabilities(name):
    fields = {"pair": "", "epsilon": 0.1, "claim": 0.1, "lower": 0.1, "upper": 0.1, "samples": 1, "level": 0.1}
    with pytest.raises(ValueError, match=name):
        ps.Verdict(**fields | {name: np.nan})
