"""Draws from the caller's datasets: many from one release, distributed as one from each of many."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.draws import one_draw, release_row
from privsample.simulations.audit.draws import sampler

ONE, TWO = ps.ReplaceOne(n=1), ps.ReplaceOne(n=2)
BETA = ps.BetaBernoulli(alpha=2, beta=3)
GRAPH = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
ANSWER = ps.RandomizedResponse(log_odds=0.5, relation=TWO)
STIR = [[0.7, 0.3], [0.2, 0.8]]
ROWS = np.array([[0.5], [-0.3]])
MOTION = ps.BrownianMotion(sensitivity=1, time=1, shape=(2,))
IN_BULK = [
    (ps.DirectPosterior(model=BETA, n=2), np.array([1, 0])),
    (ps.DiffusedPosterior(model=BETA, n=2, data_weight=0.5, draws=3), np.array([1, 1])),
    (ps.BetaQuery(alpha=2, beta=2, bounds=(0, 4), n=2), np.array([1, 3])),
    (ps.TemperedPosterior(model=BETA, n=2, temperature=2.0, truncation=0.1), np.array([1, 0])),
    (ps.NoisyStatistics(model=BETA, n=2, noise="laplace", scale=1), [1, None]),
    (ps.LaplaceMechanism(sensitivity=1, scale=1, shape=(2,)), [0.0, "text"]),
    (ps.GaussianMechanism(sensitivity=1, noise_std=1), 2.0),
    (ps.GaussianSum(noise_std=1, bounds=(0, 3)), np.array([1.0, 9.0])),
    (ps.LogisticPosterior(n=2, features=1, norm=1, prior_std=1, intercept_std=1), (ROWS, np.array([1, 0]))),
    (ANSWER, np.array([1, 0])),
    (ps.MarkovKernel(base=ANSWER, matrix=STIR), np.array([1, 0])),
    (ps.OneBit(graph=GRAPH, epsilon=0.5, observations=2), {"profile": "a", "symbol": np.array([1, 0])}),
    (ps.PostNoise(base=ps.GaussianMechanism(sensitivity=1, noise_std=1, draws=2), noise=1), 1.0),
    (MOTION, [0.0, 2.0]),
    (ps.MultilevelRelease(base=MOTION, times=(2.0,)), np.array([0.0, 2.0])),
]
ONE_BY_ONE = [
    ps.BernoulliSampling(base=ps.GaussianMechanism(sensitivity=1, noise_std=1), margin=0.1, draws=2),
    ps.RandomizedResponse(log_odds=0.5, relation=ps.AddRemove(), slots=2),
    ps.Subsampled(base=ps.GaussianSum(bounds=(1, 2), noise_std=1), scheme=ps.PoissonSampling(rate=0.3)),
]
# Single releases: with them a shift by 0.6 standard deviations lies 4 standard errors beyond the limit at 1e-9.
SINGLE = 600
IDS = [f"{place}-{type(mechanism).__name__}" for place, (mechanism, _) in enumerate(IN_BULK)]


@pytest.fixture
def releases(monkeypatch):
    """How many releases are made, of which data."""
    seen = []
    true = Mechanism._release_with_notes
    monkeypatch.setattr(
        Mechanism, "_release_with_notes", lambda self, data, rng: (seen.append(data), true(self, data, rng))[1]
    )
    return seen


@pytest.mark.parametrize(("mechanism", "data"), IN_BULK, ids=IDS)
def test_few_releases_of_the_data_make_many_draws(mechanism, data, releases, rng):
    draw, account = sampler(mechanism)
    rows = draw(data, 500, rng)
    assert len(rows) == 500
    assert len(np.unique(rows, axis=0)) > (1 if rows.dtype.kind == "i" or set(np.unique(rows)) <= {0, 1} else 490)
    assert account == one_draw(mechanism).accountant
    assert 1 <= len(releases) <= 4


def test_an_audit_makes_few_releases_whatever_the_number_of_samples(releases, rng):
    mechanism = ps.DiffusedPosterior(model=BETA, n=20, data_weight=0.5)
    first = np.zeros(20)
    second = np.append(np.zeros(19), 1.0)
    ps.audit(mechanism, datasets=(first, second), samples=4_000, rng=rng)
    assert len(releases) <= 12
    assert {data.tobytes() for data in releases} == {first.tobytes(), second.tobytes()}  # the data themselves go in


def one_each(mechanism, data, count, rng):
    one = one_draw(mechanism)
    rows = np.array([release_row(one.release(data, rng=rng)) for _ in range(count)])
    return rows[:, :-1]  # the last number says that there were draws


def alike(first, second, level):
    """Whether two tables of draws may have one distribution, `second` being of independent rows.

    Compared are each coordinate, a sum of all, and how far a row is from the next, for pairs that are apart.
    """
    weights = np.arange(1.0, first.shape[1] + 1)
    x, y = first @ weights, second @ weights
    looks = [*zip(first.T, second.T, strict=True), (x, y)]
    looks += [(x[k:-1:2] - x[k + 1 :: 2], y[k:-1:2] - y[k + 1 :: 2]) for k in (0, 1)]
    return min(stats.ks_2samp(*look).pvalue for look in looks) > level / len(looks)


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "data"), IN_BULK, ids=IDS)
def test_many_draws_are_distributed_as_those_of_many_releases(mechanism, data, rng, alpha):
    draw, _ = sampler(mechanism)
    assert alike(draw(data, 4_000, rng), one_each(mechanism, data, SINGLE, rng), alpha)


@pytest.mark.statistical
def test_draws_of_other_data_or_that_hang_together_are_told_apart(rng):
    mechanism = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    draw, _ = sampler(mechanism)
    honest = one_each(mechanism, 2.0, SINGLE, rng)
    assert not alike(draw(2.6, 4_000, rng), honest, 1e-6)
    assert not alike(np.repeat(draw(2.0, 2_000, rng), 2, axis=0), honest, 1e-6)


@pytest.mark.parametrize("mechanism", ONE_BY_ONE, ids=lambda mechanism: type(mechanism).__name__)
def test_draws_that_hang_together_are_released_one_by_one(mechanism):
    assert one_draw(mechanism)._many_draws(one_draw(mechanism)) is None


def test_wide_outputs_are_drawn_in_several_releases(releases, rng, monkeypatch):
    monkeypatch.setattr("privsample.simulations.audit.draws._NUMBERS", 100)
    draw, _ = sampler(ps.GaussianMechanism(sensitivity=1, noise_std=1, shape=(10,)))
    assert draw(np.zeros(10), 41, rng).shape == (41, 10)
    assert len(releases) == 5


def test_equal_generators_give_equal_verdicts():
    mechanism, data = ps.GaussianSum(noise_std=1, bounds=(0, 1)), (np.ones(3), np.ones(2))
    verdicts = [ps.audit(mechanism, datasets=data, samples=600, rng=np.random.default_rng(5)) for _ in range(2)]
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize(
    ("mechanism", "data"),
    [
        (ANSWER, np.array([1, 0, 1])),
        (MOTION, np.zeros(3)),
        (replace(IN_BULK[0][0], n=3), np.array([1, 0])),
    ],
    ids=["answers", "diffusion", "posterior"],
)
def test_data_of_another_size_are_refused_as_by_a_release(mechanism, data, rng):
    draw, _ = sampler(mechanism)
    with pytest.raises(RuntimeError, match="a draw raised SchemaError"):
        draw(data, 10, rng)


@pytest.mark.statistical
def test_a_broken_mechanism_is_caught_on_the_callers_datasets(rng, alpha):
    claim = ps.GaussianSum(noise_std=1, bounds=(0, 1))
    data = (np.ones(5), np.ones(4))
    assert not ps.audit(claim, datasets=data, samples=20_000, level=alpha, rng=rng).violated
    broken = replace(claim, noise_std=0.6)
    assert ps.audit(broken, datasets=data, claim=claim.accountant, samples=20_000, rng=rng).violated


class PaysForOneDraw(ps.GaussianMechanism):
    """Its draws are independent, and its account is that of one of them."""

    @property
    def accountant(self):
        return one_draw(ps.GaussianMechanism(sensitivity=1, noise_std=self.noise_std)).accountant


class RepeatsItsNoise(PaysForOneDraw):
    """All its draws are equal, so that the account of one is that of all."""

    def _draw(self, statistic, rng):
        drawn = super()._draw(statistic, rng)
        return {name: np.repeat(array[:1], self.draws, axis=0) for name, array in drawn.items()}

    def _many_draws(self, outer):
        return None


@pytest.mark.statistical
@pytest.mark.parametrize("given", [{}, {"datasets": (0.0, 1.0)}], ids=["worst pairs", "given"])
@pytest.mark.parametrize("sequential", [False, True])
def test_an_audit_looks_at_all_draws_of_a_release(given, sequential, rng, alpha):
    def verdict(mechanism, level, samples=4_000):
        return ps.audit(mechanism, **given, samples=samples, sequential=sequential, level=level, rng=rng)

    honest = ps.GaussianMechanism(sensitivity=1, noise_std=4, draws=9)  # all of its draws are made, of others few
    assert not verdict(honest, alpha, 1_000 if sequential else 4_000).violated
    assert verdict(PaysForOneDraw(sensitivity=1, noise_std=4, draws=9), alpha).violated
    if not (given or sequential):
        assert not verdict(RepeatsItsNoise(sensitivity=1, noise_std=4, draws=9), alpha).violated
