"""Shuffled answers: their numbers, the estimates of frequencies with their errors, and wrong fields."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.errors import RelationMismatch

N = 2_000
SHARES = np.array([0.5, 0.3, 0.2])
PERSON = ps.RandomizedResponse(log_odds=1.5, categories=3, relation=ps.ReplaceOne(n=1))
MADE = ps.Shuffled(base=PERSON, n=N)
DATA = np.repeat([0, 1, 2], (SHARES * N).astype(int))


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False)])
def test_counts_have_the_distribution_of_the_account(factor, accepted, rng, alpha):
    made = ps.Shuffled(base=ps.RandomizedResponse(log_odds=1.5 * factor, categories=3, relation=ps.ReplaceOne(n=N)))
    counts = sum(made.release(np.zeros(N), rng=rng)["counts"][0] for _ in range(5))
    rows = PERSON.accountant.code_distributions().distributions
    assert (stats.chisquare(counts, 5 * N * rows[0]).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "accepted"), [(1.0, True), (0.5, False)])
def test_errors_of_frequencies_cover_the_estimates(scale, accepted, rng, alpha):
    """Persons are drawn from a population in each of many releases, for both classes."""
    for made in (MADE, ps.RandomizedResponse(log_odds=1.5, categories=3, relation=ps.ReplaceOne(n=N))):
        found = []
        for _ in range(300):
            release = made.release(rng.choice(3, N, p=SHARES), rng=rng)
            found.append((made.frequencies(release) - SHARES) / (scale * made.frequency_errors(release)))
        squares = np.square(found).sum(axis=0)
        level = alpha / 12
        inside = (stats.chi2.ppf(level, 300) < squares) & (squares < stats.chi2.isf(level, 300))
        assert bool(inside.all()) == accepted


def test_a_release(rng):
    release = MADE.release(DATA, rng=rng)
    assert release["counts"].shape == (1, 3)
    assert release["counts"].sum() == N
    assert MADE.frequencies(release).sum() == pytest.approx(1.0)
    assert release.account.epsilon(1e-6) < 0.25 < PERSON.accountant.epsilon(1e-6)
    assert ps.Shuffled(base=MADE.base) == MADE
    assert MADE.accountant == ps.ShuffledAccountant(base=MADE.base.accountant)
    assert MADE.for_size(7).n == 7
    named = ps.Shuffled(base=ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=3), names=("no", "yes")))
    assert named.release(["no", "yes", "yes"], rng=rng).coords["category"] == ("no", "yes")


def test_answers_after_a_kernel(rng):
    matrix = [[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.3, 0.0, 0.7]]
    made = ps.Shuffled(base=ps.MarkovKernel(base=PERSON.for_size(30), matrix=matrix))
    release = made.release(DATA[:30], rng=rng)
    assert made.frequencies(release).sum() == pytest.approx(1.0)
    assert (made.frequency_errors(release) > 0).all()
    flat = ps.Shuffled(base=ps.MarkovKernel(base=PERSON.for_size(30), matrix=np.full((3, 2), 0.5)))
    for estimate in (flat.frequencies, flat.frequency_errors):
        with pytest.raises(ValueError, match="frequencies cannot be estimated"):
            estimate(flat.release(DATA[:30], rng=rng))


def test_neighbours_are_those_of_the_account(rng):
    made = ps.Shuffled(base=PERSON, n=5)
    cases = made.worst_neighbours()
    assert len(cases) == 2
    for case in cases:
        drawn = case.draw(case.datasets[0](), 50, rng)
        assert drawn.shape == (50, 3)
        assert (drawn.sum(axis=1) == 5).all()
        assert np.abs(case.loss(drawn)).max() <= made.accountant.pure_epsilon + 1e-9
    with pytest.raises(ValueError, match="audited for one record"):
        made.worst_neighbours(2)
    assert len(ps.Shuffled(base=PERSON, n=1).worst_neighbours()) == 2


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"base": PERSON.accountant}, TypeError, "base must be a mechanism, got RandomizedResponseAccountant"),
        ({"base": ps.LaplaceMechanism(sensitivity=1, scale=1)}, TypeError, "base must release one code of each record"),
        ({"n": 0}, ValueError, "n must be"),
        ({"n": float("nan")}, (TypeError, ValueError), "n must be"),
        ({"n": True}, (TypeError, ValueError), "n must be"),
        ({"base": PERSON.for_size(4), "n": 5}, RelationMismatch, "ReplaceOne"),
        (
            {"base": ps.RandomizedResponse(log_odds=1, relation=ps.AddRemove(), slots=4)},
            RelationMismatch,
            "one person's response under ReplaceOne",
        ),
        ({"n": 10**15}, (MemoryError, ValueError), "n"),
    ],
)
def test_wrong_fields(fields, error, message):
    with pytest.raises(error, match=message):
        ps.Shuffled(**({"base": PERSON, "n": 5} | fields))


def test_frequencies_are_those_of_a_release():
    person = ps.RandomizedResponse(log_odds=2.0, categories=4, relation=ps.ReplaceOne(n=1))
    with pytest.raises(TypeError, match="release must be a Release of this mechanism, got int"):
        ps.Shuffled(base=person, n=10).frequencies(5)
    first, second = (person.release([k], rng=np.random.default_rng(k)) for k in (0, 1))
    assert person.frequencies(first).shape == person.frequencies(second).shape == (4,)
    other = ps.RandomizedResponse(log_odds=1.0, categories=4, relation=ps.ReplaceOne(n=1))
    for method in (other.frequencies, other.frequency_errors, ps.Shuffled(base=person, n=10).frequencies):
        with pytest.raises(ValueError, match="another mechanism made this release"):
            method(first)
