"""Every mechanism of the library under audit: its account stands, and its mutant is caught.

With the number of draws that its example states, an audit of the mutant sees it exceed the claim by 8.1 to 100 standard
errors (estimated from one or two audits of each). A refutation at level 1e-6 by one of two tests needs 5.0, so that
each mutant is caught with probability > 0.999. Where the loss is known, an audit of a third of these draws comes first,
and decides about most mutants; the audit of all draws follows only where it does not.
"""

from dataclasses import replace
from functools import cache

import joblib
import numpy as np
import pytest

import privsample as ps
from privsample.simulations.audit.audit import informative_epsilons
from privsample.simulations.audit.catalogue import audit_example, catalogue
from privsample.simulations.audit.draws import draw_outputs
from tests.mechanisms.examples import worst_neighbours_of
from tests.simulations.floats import in_floats

EXAMPLES = catalogue()
MANY = 100_000  # audits of true accounts; mutants are audited with as many draws as their examples say
FEW = 1_000  # of true accounts where a score is learned, because each draw is a release of its own
SOME = 300  # where FEW are less than half of what shows the mutant: these find gross errors only, as FEW would
LOSSES = 1_000
EXACT = 1_000  # exact draws of posteriors, each of which takes 0.1 ms; the long lane makes all
# Where each draw is a release of its own, and fewer draws show the mutant by 10.4 to 20 standard errors on average, and
# by at least 8.2 in each of 20 audits: it is caught with probability > 0.999, too.
ENOUGH = {
    "applied-kernel": 900,
    "gibbs-network": 350,
    "gradient-descent": 3_000,
    "random-allocation": 400,
    "poisson-sample": 1_000,
    "sample-with-replacement": 1_000,
    "sample-without-replacement": 1_000,
    "sampled-statistics": 250,
}
# In the long lane: subsampling of other bases, by the same code; and Gibbs updates in a random order, each of which is
# that of `gibbs-updates`.
LATER = {
    "gibbs-scan",
    "sample-from-a-table",
    "sampled-gibbs-histograms",
    "sampled-logistic-posterior",
    "sampled-tempered-posterior",
}


def in_lanes(usual=()):
    return [pytest.param(name, marks=pytest.mark.long if name in LATER else usual) for name in EXAMPLES]


@cache
def default_epsilons(name):
    """The epsilons that an audit chooses by itself: their computation takes longer than many audits."""
    return informative_epsilons(EXAMPLES[name].claim)


def draws_needed(name):
    """The draws with which an audit catches the mutant."""
    return ENOUGH.get(name, EXAMPLES[name].samples)


def knows_losses(mechanism):
    return all(case.loss is not None for case in worst_neighbours_of(mechanism))


@pytest.mark.statistical
@pytest.mark.parametrize("name", in_lanes(pytest.mark.check))
def test_accounts_stand(name, rng, alpha):
    example, needed = EXAMPLES[name], draws_needed(name)
    samples = min(needed, MANY if knows_losses(example.mechanism) else FEW if needed < 2 * FEW else SOME)
    options = {"epsilons": default_epsilons(name), "level": alpha / 2, "rng": rng}
    exact = example.mechanism
    faster = {in_floats(exact): samples} if samples > EXACT else {}
    for mechanism, draws in ({exact: min(samples, EXACT)} | faster).items():
        verdict = audit_example(replace(example, mechanism=mechanism), samples=draws, **options)
        assert not verdict.violated, verdict.statement


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in EXAMPLES if draws_needed(name) >= 2 * FEW])
def test_accounts_stand_with_as_many_draws_as_show_the_mutant(name, rng, alpha):
    if knows_losses(EXAMPLES[name].mechanism):
        pytest.skip("test_accounts_stand makes all draws")
    verdict = audit_example(
        EXAMPLES[name], samples=draws_needed(name), epsilons=default_epsilons(name), level=alpha, rng=rng
    )
    assert not verdict.violated, verdict.statement


@pytest.mark.statistical
@pytest.mark.parametrize("name", in_lanes())
def test_mutants_are_caught(name, rng):
    example = replace(EXAMPLES[name], mutant=in_floats(EXAMPLES[name].mutant))
    first = ENOUGH.get(name, example.samples // 3 if knows_losses(example.mechanism) else example.samples)
    for samples in sorted({first, example.samples}):
        verdict = audit_example(example, mutant=True, samples=samples, epsilons=default_epsilons(name), rng=rng)
        if verdict.violated:
            break
    assert verdict.violated, f"{example.bug}: {verdict.statement}"


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name, one in EXAMPLES.items() if in_floats(one.mechanism) != one.mechanism])
def test_exact_draws_of_posteriors_stand_and_those_of_their_mutants_are_caught(name, rng, alpha):
    """The same audits of the draws that users get, as many as of floating-point draws."""
    example = EXAMPLES[name]
    verdict = audit_example(example, rng=rng, level=alpha)
    assert not verdict.violated, verdict.statement
    assert audit_example(example, mutant=True, rng=rng).violated


def test_the_four_bugs_that_matter_most_are_among_the_mutants():
    def fields(name):
        return EXAMPLES[name].mechanism, EXAMPLES[name].mutant

    posterior, heavy = fields("beta-posterior")
    assert heavy.data_weight == pytest.approx(1.1 * posterior.data_weight)
    selection, telling = fields("repeated-selection")
    assert selection.repetitions == telling.repetitions
    assert "runs" in telling.release(np.zeros(1)).draws
    for name in ("poisson-sample", "sample-without-replacement", "sample-with-replacement"):
        sampled, whole = fields(name)
        assert sampled.base == whole.base
        assert getattr(whole.scheme, "rate", 1) == 1
        assert getattr(whole.scheme, "n", 3) == getattr(whole.scheme, "m", 3)
    program, bold = fields("smooth-categorical")
    assert bold.accountant.pure_epsilon == pytest.approx(1.1 * program.accountant.pure_epsilon, rel=1e-6)


TWO, HIDDEN = ps.ReplaceOne(n=2), ps.LogisticLoss(features=1, norm=1, radius=5)
BETA = ps.BetaBernoulli(alpha=6, beta=12)
ANSWER = ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=1))
GRAPH = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
STIR = [[0.7, 0.3], [0.2, 0.8]]
OTHERS = [
    ps.ClippedSum(norm=1, noise_std=1, width=2, relation=TWO, draws=3),
    ps.Subsampled(base=ps.GaussianSum(bounds=(1, 2), noise_std=1), scheme=ps.PoissonSampling(rate=0.3)),
    ps.Subsampled(
        base=ps.GaussianSum(bounds=(1, 2), noise_std=1, relation=TWO), scheme=ps.PoissonSampling(rate=0.3), relation=TWO
    ),
    ps.Subsampled(
        base=ps.GaussianSum(bounds=(-1, 2), noise_std=1, relation=TWO),
        scheme=ps.PoissonSampling(rate=0.3),
        relation=TWO,
    ),
    ps.Subsampled(base=ps.DirectPosterior(model=BETA, n=2, draws=2), scheme=ps.WithoutReplacement(n=6, m=2)),
    ps.Subsampled(
        base=ps.Subsampled(
            base=ps.GaussianSum(bounds=(0, 1), noise_std=1, relation=TWO), scheme=ps.WithoutReplacement(n=4, m=2)
        ),
        scheme=ps.WithoutReplacement(n=8, m=4),
    ),
    ps.RepeatedSelection(
        base=ps.DiffusedPosterior(model=BETA, n=2, data_weight=0.5, draws=2), repetitions=ps.Poisson(mean=1)
    ),
    ps.MarkovKernel(base=ps.MarkovKernel(base=ANSWER, matrix=STIR), matrix=STIR),
    ps.MarkovKernel(base=ps.OneBit(graph=GRAPH, epsilon=0.3), matrix=STIR),
    ps.OneBit(graph=GRAPH, epsilon=0.3, observations=3),
    ps.PostNoise(
        base=ps.PostNoise(base=ps.GaussianMechanism(sensitivity=1, noise_std=1, shape=(2,)), noise=1), noise=1
    ),
    ps.LogisticPosterior(n=3, features=2, norm=1, prior_std=1, intercept_std=1),
    ps.NoisyProjectedSGD(
        loss=ps.SquaredLoss(features=2, norm=1, radius=2, target=1), n=3, rate=0.2, noise_std=2, order="reshuffle"
    ),
    ps.TemperedPosterior(model=ps.DirichletCategorical(alpha=(1, 2, 3)), n=5, temperature=2, truncation=0.1),
    ps.TemperedPosterior(model=ps.GammaPoisson(shape=2, rate=1, upper=3), n=5, temperature=2, truncation=(0.5, 4)),
]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism", OTHERS, ids=lambda m: f"{type(m).__name__}-{type(getattr(m, 'base', m)).__name__}"
)
def test_other_forms_of_them_stand_too(mechanism, rng, alpha):
    verdict = ps.audit(mechanism, samples=300, rng=rng, level=alpha)
    assert not verdict.violated, verdict.statement


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["gaussian-sum", "laplace-sum", "clipped-sum", "normal-posterior", "brownian-motion"])
def test_groups_of_two(name, rng, alpha):
    mechanism = EXAMPLES[name].mechanism
    if isinstance(mechanism, ps.DiffusedPosterior):
        mechanism = replace(mechanism, n=2)
    assert not ps.audit(mechanism, group=2, samples=5_000, rng=rng, level=alpha).violated
    alone = EXAMPLES[name].claim
    assert ps.audit(mechanism, group=2, claim=alone, samples=10_000, rng=rng).violated


def weighs(losses, others):
    """One distribution is e^loss times the other wherever the loss is not large: as far as draws from either tell."""
    top = np.quantile(losses, 0.8)
    here, there = losses <= top, np.where(others <= top, np.exp(np.minimum(others, top)), 0.0)
    return abs(here.mean() - there.mean()) < 6 * np.hypot(here.std(), there.std()) / np.sqrt(len(losses)) + 1e-6


def test_losses_are_log_ratios_of_densities(rng):
    """In both directions; twice as much would be caught in most cases."""
    caught = []
    for name, example in EXAMPLES.items():
        for case in in_floats(example.mechanism).worst_neighbours():
            if case.loss is None:
                continue
            first, second = (case.loss(draw_outputs(case, data, LOSSES, rng)).round(9) for data in case.datasets)
            assert weighs(first, second), name
            assert weighs(-second, -first), name
            caught.append(not (weighs(2 * first, 2 * second) and weighs(-2 * second, -2 * first)))
    assert np.mean(caught) > 0.5


def test_a_cluster_gives_the_same_verdicts():
    """One verdict for one seed, alone and on a dask cluster."""
    distributed = pytest.importorskip("distributed")
    example = EXAMPLES["gaussian-post-noise"]
    alone = audit_example(example, samples=45_000, rng=np.random.default_rng(5))
    settings = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask", client=client),
    ):
        far = audit_example(example, samples=45_000, rng=np.random.default_rng(5))
    assert far == alone
