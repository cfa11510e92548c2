"""Langevin chains under audit at record and group distance, and broken copies of the chain that must be refuted."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import privsample as ps

SAMPLES = 20_000
STEPS, STEP_SIZE = 12, 0.12
HUBER = ps.LangevinPosterior(
    likelihood=ps.HuberLikelihood(threshold=1.0),
    features=2,
    norm=1.0,
    relation=ps.ReplaceOne(4),
    data_weight=0.8,
    steps=STEPS,
    step_size=STEP_SIZE,
)


def chain(data, count, rng, *, noise=2.0, clipped=True, start=None):
    """The chain of HUBER by its own small program, with what a broken copy does otherwise."""
    rows, targets = data
    x = np.zeros((count, 2)) if start is None else start(rows, targets) * np.ones((count, 2))
    for _ in range(STEPS):
        slopes = x @ rows.T - targets
        if clipped:
            slopes = np.clip(slopes, -1.0, 1.0)
        x = x - STEP_SIZE * (x + 0.8 * slopes @ rows) + np.sqrt(noise * STEP_SIZE) * rng.standard_normal(x.shape)
    return x


def mode(rows, targets):
    """The mode of the posterior: a start that depends on the data."""
    x = np.zeros(2)
    for _ in range(500):
        x = x - 0.1 * (x + 0.8 * np.clip(rows @ x - targets, -1.0, 1.0) @ rows)
    return x


class Copy(ps.Mechanism):
    """The small program under the account of HUBER, for audits."""

    def __init__(self, **broken):
        self.broken = broken

    @property
    def accountant(self):
        return HUBER.accountant

    def _statistic(self, data):
        return data

    def _draw(self, statistic, rng):
        return {"coefficients": chain(statistic, 1, rng, **self.broken)}

    def worst_neighbours(self, group=1):
        draw = partial(chain, **self.broken)
        return tuple(replace(case, draw=draw) for case in HUBER.worst_neighbours(group))


@pytest.mark.statistical
@pytest.mark.parametrize("group", [1, 2, 4])
def test_the_chain_and_its_small_program_stand(group, rng, alpha):
    assert not ps.audit(HUBER, group=group, samples=SAMPLES, rng=rng, level=alpha / 2).violated
    assert not ps.audit(Copy(), group=group, samples=SAMPLES, rng=rng, level=alpha / 2).violated


@pytest.mark.statistical
def test_the_account_of_one_record_is_refuted_at_group_distance(rng):
    assert ps.audit(Copy(), group=2, claim=HUBER.accountant, samples=SAMPLES, rng=rng).violated


@pytest.mark.statistical
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    "broken",
    [{"noise": 1.0}, {"clipped": False}, {"start": mode}],
    ids=["half the variance of the noise", "unclipped", "a start that depends on the data"],
)
def test_broken_copies_are_refuted(broken, group, rng):
    assert ps.audit(Copy(**broken), group=group, samples=SAMPLES, rng=rng).violated


OTHERS = {
    "logistic": ps.LogisticLikelihood(),
    "clipped logistic": ps.LogisticLikelihood(clip=0.4),
    "probit": ps.ProbitLikelihood(clip=0.8),
    "softmax": ps.SoftmaxLikelihood(classes=3),
    "ordinal": ps.OrdinalLikelihood(cutpoints=(-1.0, 1.0)),
    "normal": ps.NormalLikelihood(noise_std=0.5, clip=1.0),
    "poisson": ps.PoissonLikelihood(max_count=4, clip=2.0),
}


def each_likelihood_and_relation():
    """Each likelihood, and one with a bound and one without under the other relation; all pairs in the long lane."""
    for name, relation in itertools.product(OTHERS, (ps.ReplaceOne(3), ps.AddRemove())):
        replaced = isinstance(relation, ps.ReplaceOne)
        marks = () if replaced or name in ("clipped logistic", "softmax") else pytest.mark.long
        yield pytest.param(name, relation, id=f"{name}-{'replace' if replaced else 'add or remove'}", marks=marks)


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "relation"), list(each_likelihood_and_relation()))
def test_other_likelihoods_stand(name, relation, rng, alpha):
    mechanism = replace(
        HUBER,
        likelihood=OTHERS[name],
        intercept_std=1.0,
        relation=relation,
        max_records=3 if isinstance(relation, ps.AddRemove) else None,
        step_size=None,
    )
    for case in mechanism.worst_neighbours():
        assert case.account == mechanism.accountant
    assert not ps.audit(mechanism, samples=6_000, rng=rng, level=alpha).violated
