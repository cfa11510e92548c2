"""Audits: true accounts stand, mutants fall, and no verdict says more than it knows."""

from dataclasses import replace

import joblib
import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.posterior.conjugate import PosteriorAccountant
from privsample.distributions.models.base import Model
from privsample.mechanisms.draws import one_draw
from privsample.mechanisms.posterior.conjugate import PosteriorMechanism
from privsample.simulations.audit.audit import informative_epsilons

BETA = ps.BetaBernoulli(alpha=6, beta=12)
NORMAL = ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 2))
MECHANISMS = [
    ps.DirectPosterior(model=BETA, n=100, draws=3),
    ps.DiffusedPosterior(model=ps.BetaBernoulli(alpha=2, beta=3), n=1, data_weight=0.5),
    ps.ConcentratedPosterior(model=ps.DirichletCategorical(alpha=(2, 3)), n=50, prior_weight=5),
    ps.DiffusedPosterior(model=ps.DirichletCategorical(alpha=(4, 3, 1, 2)), n=50, data_weight=0.4),
    ps.DiffusedPosterior(model=ps.GammaPoisson(shape=5, rate=1, upper=4), n=50, data_weight=0.5),
    ps.ConcentratedPosterior(model=ps.GammaExponential(shape=5, rate=3, upper=4), n=50, prior_weight=5),
    ps.DiffusedPosterior(model=NORMAL, n=50, data_weight=0.5),
    ps.BetaQuery(alpha=2, beta=3, bounds=(5, 30), n=60, data_weight=0.4, prior_weight=1.25),
    ps.GaussianMechanism(sensitivity=2, noise_std=4, shape=(3, 2), draws=2),
    ps.LaplaceMechanism(sensitivity=2, scale=4, shape=(3,)),
    ps.RandomizedResponse(log_odds=0.5, relation=ps.ReplaceOne(n=7)),
    ps.RandomizedResponse(log_odds=0.5, relation=ps.AddRemove(), slots=1, categories=4),
]
# Floating-point draws, a hundred times as fast; the audits of all examples draw exactly.
MECHANISMS = [replace(one, exact=False) if isinstance(one, PosteriorMechanism) else one for one in MECHANISMS]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: f"{type(m).__name__}-{type(getattr(m, 'model', 0)).__name__}"
)
def test_true_accounts_stand_and_half_of_them_falls(mechanism, rng, alpha):
    account, one = mechanism.accountant, one_draw(mechanism).accountant
    points = informative_epsilons(one)
    verdict = ps.audit(mechanism, epsilons=informative_epsilons(account), samples=100_000, rng=rng, level=alpha / 2)
    assert not verdict.violated, verdict.statement
    assert np.all(verdict.lowers <= verdict.claims)
    assert np.all(verdict.renyi <= account.rdp(verdict.orders) + 1e-12)
    assert verdict.uppers[0] >= verdict.claims[0] / 2
    broken = ps.audit(mechanism, claim=lambda e: float(one.delta(e)) / 2, epsilons=points, rng=rng)
    assert broken.outcome == "VIOLATED", broken.statement


@frozen_value
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


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism",
    [Careless(model=BETA, n=100, data_weight=0.5), Quiet(sensitivity=1, noise_std=1)],
    ids=["too much weight", "too little noise"],
)
def test_samplers_that_leak_more_than_their_account_are_caught(mechanism, rng):
    verdict = ps.audit(mechanism, rng=rng)
    assert verdict.violated, verdict.statement
    assert "VIOLATED" in verdict.statement


@pytest.mark.statistical
@pytest.mark.parametrize("size", [2, 5])
def test_groups_are_held_to_the_account_for_groups(size, rng, alpha):
    for mechanism in (MECHANISMS[0], ps.LaplaceMechanism(sensitivity=1, scale=6)):
        assert not ps.audit(mechanism, group=size, rng=rng, level=alpha / 2).violated
        alone = one_draw(mechanism).accountant
        epsilons = informative_epsilons(alone.group(size))
        caught = ps.audit(mechanism, group=size, claim=alone, epsilons=epsilons, rng=rng)
        assert caught.violated, caught.statement


def laplace(scale):
    return lambda data, rng: data + rng.laplace(0, scale, np.shape(data))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("scale", "samples", "caught"), [(1.0, 40_000, False), (1 / 1.1, 100_000, True), (0.5, 2_000, True)]
)
def test_functions_of_the_user_are_audited_without_a_density(scale, samples, caught, rng, alpha):
    claim = ps.LaplaceAccountant(sensitivity=1, scale=1)
    verdict = ps.audit(
        laplace(scale), datasets=(np.zeros(2), np.array([1.0, 0.0])), claim=claim, samples=samples, rng=rng, level=alpha
    )
    assert verdict.violated == caught, verdict.statement


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("honest", "broken"),
    [
        (ps.LaplaceMechanism(sensitivity=1, scale=1), ps.LaplaceMechanism(sensitivity=1, scale=1 / 1.05)),
        (ps.GaussianMechanism(sensitivity=1, noise_std=1), ps.GaussianMechanism(sensitivity=1, noise_std=1 / 1.05)),
    ],
    ids=["Laplace", "Gaussian"],
)
def test_noise_five_per_cent_too_small_is_caught(honest, broken, rng, alpha):
    assert ps.audit(broken, claim=honest.accountant, rng=rng).violated
    assert not ps.audit(honest, rng=rng, level=alpha).violated


@pytest.mark.statistical
def test_true_claims_are_rarely_called_violated(rng, alpha):
    """The chance of it is the level: the event that is tested was chosen on other draws."""
    gaussian, points = ps.GaussianMechanism(sensitivity=1, noise_std=1), (0.0, 0.5)

    def chance_of_as_many(noise_std, runs):
        claim = ps.GaussianAccountant(sensitivity=1, noise_std=noise_std)
        found = [
            ps.audit(gaussian, claim=claim, epsilons=points, samples=500, level=0.01, rng=rng) for _ in range(runs)
        ]
        return stats.binom.sf(sum(verdict.violated for verdict in found) - 1, runs, 0.01)

    assert chance_of_as_many(1.0, 40) > alpha
    assert chance_of_as_many(2.0, 8) < alpha


def test_the_last_bits_of_floats_are_not_what_an_audit_is_about(rng):
    """Laplace noise added to 0 and to 1 is told apart by its last bits (Mironov 2012), which the claim is not about."""
    noise = ps.LaplaceMechanism(sensitivity=1, scale=1, exact=False)
    assert not ps.audit(noise, epsilons=[1.0], rng=rng).violated


def test_a_verdict_says_what_it_rests_on_and_no_more(rng):
    gaussian = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    verdict = ps.audit(gaussian, epsilons=[0.5], samples=50_000, rng=rng)
    assert verdict.outcome == "CONSISTENT"
    assert verdict.claim == pytest.approx(float(gaussian.accountant.delta(0.5)))
    assert verdict.lower < verdict.claim
    assert 0.7 < verdict.mu < 1.0
    assert verdict.epsilon_at(0.0) == 0.5
    assert verdict.epsilon_at(0.5) == 0.0
    assert "45,000 draws" in verdict.statement
    assert "This does not prove the claim." in str(verdict)
    assert "proved" not in verdict.statement
    with pytest.raises(ValueError, match="delta must lie in"):
        verdict.epsilon_at(np.nan)
    with pytest.raises(ValueError, match="read-only"):
        verdict.lowers[0] = 0.0
    few = ps.audit(gaussian, epsilons=[0.5], samples=10, rng=rng)
    assert not few.violated
    assert "too few draws to reject any claim: 23 evaluation draws are needed; set samples=26" in few.statement
    nothing = ps.audit(gaussian, epsilons=[0.5], samples=10, claim=lambda _: 1.0, rng=rng)
    assert nothing.needed == np.inf


@pytest.mark.parametrize("epsilons", [None, [1.0], [0.5, 1.0], [1.0, 1.5]])
def test_a_verdict_never_shows_a_point_where_claim_and_limit_are_both_0(epsilons):
    noise = ps.LaplaceMechanism(sensitivity=1, scale=1)
    for seed in range(8):
        verdict = ps.audit(noise, epsilons=epsilons, samples=2_000, rng=np.random.default_rng(seed))
        assert not verdict.violated
        assert "claimed delta of 0;" not in verdict.statement
        assert "claimed delta of 0; they would" not in verdict.statement
        if epsilons is None or 0.5 in epsilons:
            assert verdict.claim > 0.0 or verdict.lower > 0.0
        elif verdict.claim == verdict.lower == 0.0:  # there is no other point
            assert "at epsilon = " not in verdict.statement
            assert "do not refute the claim" in verdict.statement


@pytest.mark.statistical
def test_the_empirical_epsilon_stands_beside_the_claimed_one(rng, alpha):
    noise = ps.LaplaceMechanism(sensitivity=1, scale=1)
    verdict = ps.audit(noise, samples=40_000, level=alpha, rng=rng)
    assert 0.8 < verdict.empirical_epsilon <= 1.0 == verdict.claimed_epsilon
    assert verdict.empirical_delta == 0.0
    assert f"at delta = 0, epsilon is at least {verdict.empirical_epsilon:.4g}; 1 is claimed." in verdict.statement
    gaussian = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    verdict = ps.audit(gaussian, samples=40_000, level=alpha, rng=rng)
    true = float(gaussian.accountant.epsilon(verdict.empirical_delta))
    assert 0.3 * true < verdict.empirical_epsilon <= true <= verdict.claimed_epsilon * (1 + 1e-9)
    broken = ps.audit(ps.LaplaceMechanism(sensitivity=1, scale=0.5), claim=noise.accountant, rng=rng)
    assert broken.empirical_epsilon > broken.claimed_epsilon > 0.0
    assert "is claimed." in broken.statement


def test_a_claim_is_about_one_draw_whatever_the_number_of_draws():
    one, four = (ps.DiffusedPosterior(model=BETA, n=20, data_weight=0.5, draws=k) for k in (1, 4))
    asked = {"claim": one.accountant, "epsilons": [0.1], "samples": 1000}
    first, second = (ps.audit(m, **asked, rng=np.random.default_rng(3)) for m in (one, four))
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_the_number_of_workers_changes_nothing(backend, monkeypatch):
    monkeypatch.setattr("privsample.simulations.audit.draws._BLOCK", 300)
    noise = ps.LaplaceMechanism(sensitivity=1, scale=1)
    alone = ps.audit(noise, epsilons=[0.1], samples=1001, rng=np.random.default_rng(3))
    own = {"datasets": (np.zeros(2), np.array([1.0, 0.0])), "claim": noise.accountant}
    learned = ps.audit(laplace(1), samples=1001, rng=np.random.default_rng(4), **own)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert ps.audit(noise, epsilons=[0.1], samples=1001, rng=np.random.default_rng(3)) == alone
        assert ps.audit(laplace(1), samples=1001, rng=np.random.default_rng(4), **own) == learned
    assert alone.samples == 901


def test_a_posterior_of_an_unknown_model_is_refused():
    class Other(Model):
        domain = parameter = posterior = None
        empty = np.zeros(2)

    with pytest.raises(TypeError, match="Other defines no worst neighbours of its posterior"):
        _ = Other().extreme_records


@pytest.mark.parametrize("name", ["claim", "lower", "p_value", "claims", "lowers", "uppers"])
def test_verdicts_hold_probabilities(name):
    numbers = dict.fromkeys(("epsilon", "claim", "lower", "p_value", "level"), 0.1)
    arrays = {key: np.array([0.1]) for key in ("epsilons", "claims", "lowers", "uppers", "orders", "renyi")}
    fields = {"pair": "", "samples": 1, "needed": 1} | numbers | arrays
    assert ps.Verdict(**fields).samples == 1
    with pytest.raises(ValueError, match=name):
        ps.Verdict(**fields | {name: np.array([np.nan]) if name.endswith("s") else np.nan})
