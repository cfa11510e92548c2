"""Pairs of neighbours made of candidate records, and the search for the worst of many."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.simulations.audit.distance import check_neighbours
from privsample.simulations.audit.search import claim_ratio, select_pair

LAPLACE = ps.LaplaceAccountant(sensitivity=1, scale=1)


@pytest.mark.parametrize(
    ("relation", "size", "group", "records", "pairs"),
    [
        (ps.ReplaceOne(n=5), None, 1, [0.0, 0.5, 1.0], 3 * 4),
        (ps.ReplaceOne(n=5), None, 3, [0.0, 0.5, 1.0], 3 * 4),
        (ps.ReplaceOne(n=1), None, 1, [0.0, 0.5, 1.0], 3),
        (ps.ReplaceOne(n=2), None, 2, [0.0, 1.0], 1),
        (ps.ReplaceOne(n=2), None, 2, [0.0, -0.0, np.nan, -np.nan], 1),
        (ps.ReplaceOne(n=2), None, 2, np.array(["a", None, "a"], dtype=object), 1),
        (ps.ReplaceOne(n=50), None, 1, np.arange(9.0), 64),
        (ps.ReplaceOne(n=2), None, 1, np.arange(100_000.0), 64),
        (ps.AddRemove(), 4, 1, [0.0, 1.0], 2 * 3),
        (ps.AddRemove(), 1, 1, [0.0, 1.0], 2),
        (ps.AddRemove(), 2, 2, [3.0], 1),
        (ps.ReplaceOne(n=3), None, 1, np.eye(2), 3),
        (ps.ReplaceOne(n=3), None, 2, (np.eye(2), np.array([0.0, 1.0])), 2),
    ],
)
def test_pairs_are_neighbours_and_all_different(relation, size, group, records, pairs):
    made = ps.neighbouring_pairs(records, relation, size=size, group=group)
    assert len(made) == pairs
    seen = set()
    for first, second in made:
        check_neighbours(relation, first, second, group)
        columns = [np.asarray(c) for data in (first, second) for c in (data if isinstance(data, tuple) else (data,))]
        seen.add(tuple(repr(column.tolist()) for column in columns))
        if group > 1:
            with pytest.raises(ValueError, match="not neighbours"):
                check_neighbours(relation, first, second, group - 1)
    assert len(seen) == len(made)
    again = ps.neighbouring_pairs(records, relation, size=size, group=group)
    assert repr(made) == repr(again)


@pytest.mark.parametrize(
    ("records", "relation", "options", "error", "message"),
    [
        ([0, 1], ps.AddRemove(), {}, TypeError, "size must be given under AddRemove"),
        ([0, 1], ps.AddRemove(), {"size": 0}, ValueError, "size"),
        ([0, 1], ps.AddRemove(), {"size": 1, "group": 2}, ValueError, "no larger than n = 1"),
        ([0, 1], ps.ReplaceOne(n=3), {"size": 4}, TypeError, "size must be left out under ReplaceOne"),
        ([0, 1], ps.ReplaceOne(n=3), {"group": 4}, ValueError, "no larger than n = 3"),
        ([0, 1], ps.ReplaceOne(n=3), {"most": 0}, ValueError, "most"),
        ([0, 1], ps.ReplaceOne(n=10**8), {}, ValueError, "lower most, or n"),
        ([0], ps.ReplaceOne(n=3), {}, ValueError, "two different records"),
        ([0, 0], ps.ReplaceOne(n=3), {}, ValueError, "two different records"),
        ([], ps.ReplaceOne(n=3), {}, ValueError, "a record in each row"),
        (3, ps.ReplaceOne(n=3), {}, ValueError, "a record in each row"),
        (([0, 1], [0]), ps.ReplaceOne(n=3), {}, ValueError, "equally long"),
        ([0, 1], 3, {}, TypeError, "ReplaceOne or AddRemove"),
    ],
)
def test_what_makes_no_pairs_gets_a_clear_error(records, relation, options, error, message):
    with pytest.raises(error, match=message):
        ps.neighbouring_pairs(records, relation, **options)


def careless_sum(data, rng):
    """A sum of numbers in [0, 1], in which a missing one counts as 3."""
    return np.where(np.isnan(data), 3.0, np.clip(data, 0.0, 1.0)).sum() + rng.laplace(0.0, 1.0)


def careful_sum(data, rng):
    """The same, in which it counts as 0."""
    return careless_sum(np.nan_to_num(data), rng)


@pytest.mark.statistical
@pytest.mark.parametrize(("function", "caught"), [(careless_sum, True), (careful_sum, False)])
def test_the_search_finds_the_one_record_that_leaks(function, caught, rng, alpha):
    pairs = ps.neighbouring_pairs([0.0, 1.0, np.nan], ps.ReplaceOne(n=6))
    verdict = ps.audit(function, datasets=pairs, claim=LAPLACE, samples=2_000, rng=rng, level=alpha)
    assert verdict.violated == caught, verdict.statement
    assert f"of {len(pairs)}" in verdict.pair
    if caught:
        place = int(verdict.pair.split("pair ")[1].split()[0])
        assert sum(np.isnan(data).sum() for data in pairs[place - 1]) % 2 == 1


@pytest.mark.statistical
def test_pairs_of_a_mechanism_are_searched(rng):
    """Of the pairs of a posterior the search takes one that is nearly the worst: half the account falls."""
    model = ps.BetaBernoulli(alpha=2, beta=3, fractional=True)
    posterior = ps.DiffusedPosterior(model=model, n=1, data_weight=0.5, exact=False)  # faster, and seen as real numbers
    pairs = ps.neighbouring_pairs([0.0, 0.4, 0.6, 1.0], posterior.accountant.relation)
    claim = lambda e: float(posterior.accountant.delta(e)) / 2  # noqa: E731
    assert ps.audit(posterior, datasets=pairs, claim=claim, epsilons=[0.0, 0.2], samples=30_000, rng=rng).violated


@pytest.mark.statistical
@pytest.mark.parametrize(("deviation", "true"), [(1.0, True), (0.5, False)])
def test_the_search_does_not_raise_the_chance_of_a_false_alarm(deviation, true, rng, alpha, monkeypatch):
    """Sixteen equal pairs at the claim itself: choosing among them costs nothing, since the evidence is drawn anew."""
    monkeypatch.setattr("privsample.simulations.audit.outputs.learn_scores", lambda *_: (lambda drawn: drawn[:, 0],))
    pairs, runs, level = [(np.ones(1), np.zeros(1))] * 16, 20, 0.05
    options = {"claim": ps.GaussianAccountant(sensitivity=1, noise_std=1), "epsilons": (0.0, 0.5), "level": level}

    def noisy(data, rng):
        return data[0] + deviation * rng.standard_normal()

    runs = range(runs if true else 8)
    found = [ps.audit(noisy, datasets=pairs, samples=300, rng=rng, **options).violated for _ in runs]
    assert (stats.binom.sf(sum(found) - 1, len(runs), level) > alpha) == true


def test_narrowing_shares_its_draws(rng):
    """Every round takes about the same number of draws, and all of them no more than were given."""
    used = []

    def scored(case, draws):
        used.append(draws)
        return [(rng.normal(abs(case), 1.0, draws), rng.normal(0.0, 1.0, draws))]

    epsilons, claims = np.array([0.0, 0.5]), np.array([0.4, 0.2])
    left = select_pair(tuple(range(-5, 3)), 60_000, epsilons, claims, scored)
    assert left == (-5,)
    assert sum(used) <= 60_000
    assert len(used) == 8 + 4 + 2
    assert select_pair((0, 1), 60_000, epsilons, claims, scored) == (0, 1)
    assert len(used) == 14
    select_pair(tuple(range(8)), 1, epsilons, claims, scored)
    assert set(used[14:]) == {200}


def test_what_is_reached_is_a_share_of_the_claim(rng):
    epsilons = np.array([0.0, 1.0])
    account = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    claims = np.array([float(account.delta(e)) for e in epsilons])
    first, second = rng.normal(1.0, 1.0, 200_000), rng.normal(0.0, 1.0, 200_000)
    assert claim_ratio(first, second, epsilons, claims) == pytest.approx(1.0, abs=0.05)
    assert claim_ratio(-second, -first, epsilons, claims) == pytest.approx(1.0, abs=0.05)
    assert claim_ratio(first, second, epsilons, 2 * claims) == pytest.approx(0.5, abs=0.05)
    assert claim_ratio(second, second, epsilons, claims) < 0.05
    assert claim_ratio(second, second, epsilons, np.zeros(2)) < 0.5
    assert claim_ratio(first, second, epsilons, np.zeros(2)) > 10


@pytest.mark.parametrize(
    ("datasets", "options", "message"),
    [
        ([], {}, "got nothing"),
        ([(0, 1), (0, 1, 2)], {}, "a list of pairs, got tuple, tuple"),
        (np.zeros((2, 2)), {}, "got ndarray"),
        ([(0, 1), (0, 2)], {"loss": lambda x: x}, "loss needs one pair"),
    ],
)
def test_lists_that_are_not_of_pairs_get_a_clear_error(datasets, options, message):
    with pytest.raises(TypeError, match=message):
        ps.audit(careful_sum, datasets=datasets, claim=LAPLACE, samples=100, **options)


def test_each_pair_of_a_list_must_be_of_neighbours():
    mechanism = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=2, beta=3), n=2)
    pairs = [(np.zeros(2), np.array([0.0, 1.0])), (np.zeros(2), np.ones(2))]
    with pytest.raises(ValueError, match="not neighbours"):
        ps.audit(mechanism, datasets=pairs, samples=100)
