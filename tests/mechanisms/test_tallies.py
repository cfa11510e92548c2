"""Tallies: the same integers for any division of the data, and releases equal to those of the data."""

import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privsample import (
    AddRemove,
    BernoulliSampling,
    BetaBernoulli,
    BetaQuery,
    ClippedSum,
    CountUtility,
    DiffusedPosterior,
    DirectPosterior,
    DirichletCategorical,
    ExponentialMechanism,
    GammaExponential,
    GammaPoisson,
    LaplaceSum,
    NoisyStatistics,
    NormalKnownVariance,
    NormalUnknownVariance,
    ReplaceOne,
    Tally,
    TemperedPosterior,
    merge_tallies,
)
from privsample.distributions.domains import Domain
from privsample.distributions.exact import records
from privsample.distributions.exact.grid import Grid
from privsample.errors import SchemaError
from tests.mechanisms.examples import data_for, each_mechanism
from tests.properties import examples

SUM = LaplaceSum(bounds=(0, 1), scale=2)
MARK = SUM.tally([]).mechanism


def generator():
    return np.random.default_rng(3)


def tally_or_reason(mechanism, data):
    """A tally, or the TypeError of a mechanism that has none."""
    try:
        return mechanism.tally(data)
    except TypeError as error:
        return error


@each_mechanism
def test_a_release_of_a_tally_equals_that_of_the_data(mechanism):
    data = data_for(mechanism)
    try:
        tally = mechanism.tally(data)
    except TypeError as error:
        assert "has no tallies" in str(error)  # noqa: PT017 - most mechanisms have tallies
        assert mechanism._record_rule is None
        return
    first, second = (mechanism.release(each, rng=generator()) for each in (data, tally))
    assert first == second
    assert mechanism.validate(tally).facts == {"records": int(tally.counts.sum())}
    if tally.keys is None:
        groups = mechanism._draw_groups(np.tile(tally.sums, (3, 1)), np.tile(tally.counts, 3), generator())
        for name, draws in first.draws.items():
            assert groups[name].shape == (len(draws), 3, *draws.shape[1:])


SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 1e308, -7.5, 0.5, 2**-41, 1 - 2**-41, 3 * 2**-42, True, None, "text", 2]


def mechanisms_of_columns(n):
    """Mechanisms of one column, among them with bounds off the grid, far from 0 and huge, under each kind of rule."""
    relation = ReplaceOne(n=n) if n else AddRemove()
    sums = [
        LaplaceSum(bounds=bounds, scale=2, relation=relation)
        for bounds in [(0, 1), (-0.3, 0.7), (5, 6.1), (-1e200, 1e200), (0, 2.0**-1000)]
    ]
    models = [
        BetaBernoulli(alpha=1, beta=1),
        BetaBernoulli(alpha=1, beta=1, fractional=True),
        DirichletCategorical(alpha=(1, 1, 1)),
        GammaExponential(shape=2, rate=2, upper=1.7),
        GammaPoisson(shape=2, rate=2, upper=3),
        NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 2)),
        NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=(-1, 2)),
    ]
    size = max(n, 1)
    noisy = [NoisyStatistics(model=model, n=size, scale=2.0) for model in models]
    draws = [DiffusedPosterior(model=models[0], n=size, data_weight=0.1, exact=False)]
    query = [BetaQuery(alpha=2, beta=2, bounds=(-3, 4), n=size, data_weight=0.1)]
    choice = [ExponentialMechanism(candidates=(0, 1, 2), utility=CountUtility(), relation=relation, rate=1)]
    return [*sums, *noisy, *draws, *query, *choice]


@examples(40)
@given(
    st.lists(st.sampled_from(SPECIAL) | st.floats(-2, 3), max_size=40),
    st.lists(st.integers(0, 40), max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_tally_depends_neither_on_the_division_of_the_data_nor_on_their_order(column, cuts, random):
    mixed = random.sample(column, len(column))
    ends = [0, *sorted(min(cut, len(column)) for cut in cuts), len(column)]
    parts = [mixed[first:last] for first, last in pairwise(ends)]
    for mechanism in mechanisms_of_columns(len(column)):
        whole = mechanism.tally(column)
        tallies = [mechanism.tally(part) for part in parts]
        random.shuffle(tallies)
        assert merge_tallies(tallies) == whole
        assert sum(tallies[1:], start=tallies[0]) == whole


@pytest.mark.parametrize("shards", [1, 7, 64])
def test_shards_threads_processes_and_forms_of_data_give_one_tally(shards):
    column = np.random.default_rng(0).uniform(-0.2, 1.2, 100_003)
    column[::11] = np.nan
    whole = SUM.tally(column)
    parts = np.array_split(column, shards)
    with ThreadPoolExecutor(4) as pool:
        assert merge_tallies(pool.map(SUM.tally, parts)) == whole
    masked = np.ma.MaskedArray(np.where(np.isnan(column), 5.0, column), mask=np.isnan(column))
    arrow = pa.chunked_array([pa.array(part, from_pandas=True) for part in parts])
    assert SUM.tally(masked) == SUM.tally(arrow) == SUM.tally(column.tolist()) == whole
    for numbers in (np.array([True, False, True]), np.array([1, 0, 1], dtype=np.uint8), [1.0, 0.0, 1.0]):
        assert SUM.tally(numbers) == SUM.tally([0, 1, 1])


def test_tallies_of_other_processes_are_equal():
    parts = np.array_split(np.linspace(0, 1, 1000), 3)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        tallies = list(pool.map(SUM.tally, parts))
    assert merge_tallies(tallies) == SUM.tally(np.linspace(0, 1, 1000))


def test_rows_add_up_in_any_division():
    mechanism = ClippedSum(norm=1, noise_std=2, width=3)
    rows = np.random.default_rng(1).normal(0, 1, (50, 3))
    rows[::7, 1] = np.inf
    parts = [mechanism.tally(part) for part in np.array_split(rows, 9)]
    assert merge_tallies(parts[::-1]) == mechanism.tally(rows)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.uint8])
def test_the_fast_sum_of_indices_is_that_of_fractions(kind, outside):
    random = np.random.default_rng(5)
    for low, high, pitch in [
        (0, 1, 2**-40),
        (-3.3, 200.1, 0.25),
        (-(2.0**40), 2.0**40, 1.0),
        (5, 6, 2**-20),
        (0, 2**51, 1),
    ]:
        domain, grid = Domain(low=low, high=high, missing=low, outside_is_missing=outside), Grid(pitch=pitch)
        near = random.integers(-40, 600, 300) * (pitch / 2) if kind in (np.float64, np.float32) else []
        with np.errstate(over="ignore", invalid="ignore"):
            column = np.concatenate([near, random.uniform(0, 250, 300), [low, high]]).astype(kind)
        if kind in (np.float64, np.float32):
            column[:3] = np.nan, np.inf, -np.inf
        expected = 0
        first, last = records.index_ends(domain, grid)
        for number in np.asarray(domain.clean(column), dtype=np.float64).tolist():
            expected += min(max(round(records.Fraction(number) / records.Fraction(pitch)), first), last)
        assert records.index_sum(domain, column, grid) == expected


def test_integers_beyond_64_bits_add_up_and_come_back():
    border = [2**62 - 1, 2**62, 2**63 - 1, -(2**63), -(2**62), 2**63, -(2**63) - 1, 2**100, 0]
    for first in border:
        for second in border:
            one = Tally(mechanism=MARK, sums=[[first, second]], counts=[1])
            two = Tally(mechanism=MARK, sums=[[second, -first]], counts=[2])
            both = one + two
            assert both.sums.tolist() == [[first + second, second - first]]
            fits = all(-(2**63) <= number < 2**63 for number in both.sums.ravel().tolist())
            assert both.sums.dtype == (np.int64 if fits else object)
            back = both + Tally(mechanism=MARK, sums=[[-second, first]], counts=[0])
            assert back == Tally(mechanism=MARK, sums=[[first, second]], counts=[3])
            assert hash(back) == hash(Tally(mechanism=MARK, sums=np.array([[first, second]], dtype=object), counts=[3]))
            assert Tally.from_arrow(both.to_arrow()) == both
    with pytest.raises(SchemaError, match="its counts must be integers from 0"):
        Tally(mechanism=MARK, sums=[[0]], counts=[2**63 - 1]) + Tally(mechanism=MARK, sums=[[0]], counts=[1])


def test_groups_add_up_by_key():
    first = Tally(mechanism=MARK, sums=[[1], [2**70]], counts=[1, 2], keys=[2, 9])
    second = Tally(mechanism=MARK, sums=[[10], [20], [30]], counts=[3, 4, 5], keys=[0, 2, 5])
    both = Tally(mechanism=MARK, sums=[[10], [21], [30], [2**70]], counts=[3, 5, 5, 2], keys=[0, 2, 5, 9])
    assert first + second == second + first == merge_tallies([second, first]) == both
    nothing = Tally(mechanism=MARK, sums=np.zeros((0, 1), dtype=int), counts=[], keys=[])
    assert nothing + first == first
    assert first + first == Tally(mechanism=MARK, sums=[[2], [2**71]], counts=[2, 4], keys=[2, 9])


def test_parts_are_counted_once():
    one, two, three = (SUM.tally([1.0] * size, part=f"day {size}") for size in (1, 2, 3))
    total = merge_tallies(iter([one, two, two, three, one]), parts=["day 1", "day 2", "day 3"])
    assert total.counts.tolist() == [6]
    assert merge_tallies([one + two, one + two, three]) == total
    refusals = [
        (lambda: one + one, "counted once, got 'day 1' in both"),
        (lambda: one + SUM.tally([1.0]), "all have names or none"),
        (lambda: merge_tallies([one, SUM.tally([])]), "all have names or none"),
        (lambda: merge_tallies([one, SUM.tally([0.5], part="day 1")]), "same content, got two for 'day 1'"),
        (lambda: merge_tallies([one + two, two]), "got 'day 2' in 'day 1', 'day 2' and in 'day 2'"),
        (lambda: merge_tallies([one], parts=["day 1", "day 2"]), "'day 2' missing"),
        (lambda: merge_tallies([one, two], parts=["day 1"]), "of 'day 2' beside them"),
        (lambda: merge_tallies(SUM.tally([], part=str(k)) for k in range(9)) + one, None),
        (lambda: merge_tallies([SUM.tally([])], parts=map(str, range(9))), "'0', '1', '2' and 6 more missing"),
        (lambda: one + LaplaceSum(bounds=(0, 1), scale=3).tally([1], part="x"), "of one mechanism, got those of two"),
        (lambda: one + Tally(mechanism=MARK, sums=[[1]], counts=[1], keys=[0], parts={"x"}), "the same form"),
    ]
    for refusal, words in refusals:
        if words is None:
            assert refusal().counts.tolist() == [1]
            continue
        with pytest.raises(SchemaError, match=words):
            refusal()
    for wrong in ("", 3, b"x", "\ud800"):
        with pytest.raises(TypeError, match="part must be a text"):
            SUM.tally([1], part=wrong)
    with pytest.raises(ValueError, match="at least one tally"):
        merge_tallies([])
    with pytest.raises(TypeError, match=r"made by mechanism\.tally"):
        merge_tallies([one, 3])
    for wrong in ("day 1", [1]):
        with pytest.raises(TypeError, match="parts must be"):
            merge_tallies([one], parts=wrong)
    with pytest.raises(TypeError):
        one + 1


def test_wrappers_take_the_tallies_of_their_base():
    base = DirectPosterior(model=BetaBernoulli(6, 12), n=2)
    outer = BernoulliSampling(base=base, margin=0.2)
    assert outer.tally([1, 0]).sums.tolist() == base.tally([1, 0]).sums.tolist()
    assert outer._record_rule == base._record_rule
    with pytest.raises(SchemaError, match="another mechanism"):
        outer.release(base.tally([1, 0]))


@pytest.mark.parametrize(
    "mechanism",
    [
        DirectPosterior(model=BetaBernoulli(2, 3), n=10, exact=False, draws=4000),
        DirectPosterior(model=GammaExponential(shape=2, rate=2, upper=4), n=10, exact=False, draws=4000),
        DirectPosterior(model=GammaPoisson(shape=2, rate=2, upper=4), n=10, exact=False, draws=4000),
        DirectPosterior(
            model=NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 4)),
            n=10, exact=False, draws=4000,
        ),
        DirectPosterior(model=DirichletCategorical(alpha=(1, 2, 3, 0.5)), n=10, exact=False, draws=4000),
        BetaQuery(alpha=2, beta=2, bounds=(0, 4), n=10, data_weight=0.3, exact=False, draws=4000),
    ],
)  # fmt: skip
def test_draws_for_groups_have_the_moments_of_each_group(mechanism):
    columns = [np.zeros(10), np.full(10, 3.0), np.arange(10) % 4, [1.0]]
    tallies = [mechanism.tally(column) for column in columns]
    sums, counts = (np.concatenate([getattr(tally, name) for tally in tallies]) for name in ("sums", "counts"))
    drawn = mechanism._draw_groups(sums, counts, generator())[mechanism.parameter]
    for place, tally in enumerate(tallies):
        statistic = mechanism._statistic_of(tuple(tally.sums[0].tolist()), int(tally.counts[0]))
        expected = mechanism._posterior_in_doubles(statistic, int(tally.counts[0]))
        own = drawn[:, place]
        assert np.abs(own.mean(axis=0) - expected.mean).max() < 6 * np.sqrt(expected.variance / 4000).max()
        assert own.var(axis=0) == pytest.approx(expected.variance, rel=0.25, abs=1e-6)


def test_draws_for_groups_that_are_made_one_by_one():
    for exact in (True, False):
        mechanism = TemperedPosterior(
            model=BetaBernoulli(2, 3), n=4, temperature=2.0, truncation=0.1, draws=2, exact=exact
        )
        drawn = mechanism._draw_groups(np.array([[1], [9]]), np.array([4, 9]), generator())["theta"]
        assert drawn.shape == (2, 2)
        assert ((drawn > 0.1) & (drawn < 0.9)).all()


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "discrete laplace", "discrete gaussian"])
def test_noise_for_groups_is_that_of_single_releases(noise):
    mechanism = NoisyStatistics(model=BetaBernoulli(1, 1), n=9, scale=2.0, noise=noise, draws=3)
    sums = np.array([[0], [9], [2**61 + 5], [5]], dtype=object)
    drawn = mechanism._draw_groups(sums[[0, 1, 3]].astype(np.int64), np.full(3, 9), generator())["statistic"]
    wide = mechanism._draw_groups(sums, np.full(4, 9), generator())["statistic"]
    assert drawn.shape == (3, 3)
    assert wide.shape == (3, 4)
    assert np.abs(drawn - [0, 9, 5]).max() < 80
    assert np.abs(wide - [0, 9, 2**61 + 5, 5]).max() < 2**10
    one = mechanism._draw_groups(np.array([[9]]), np.array([9]), generator())["statistic"]
    assert one[:, 0].tolist() == mechanism.release([1] * 9, rng=generator())["statistic"].tolist()


def test_rules_say_what_python_computes():
    column = np.array([np.nan, -3, 0.1, 0.26, 0.74, 1.5, 2.49, 2.5, 7, np.inf])
    for mechanism in mechanisms_of_columns(len(column)):
        rule = mechanism._record_rule
        if rule is None:
            continue
        inside = np.where(np.isnan(column), rule.domain.missing, np.clip(column, rule.domain.low, rule.domain.high))
        if rule.domain.outside_is_missing:
            outside = (column < rule.domain.low) | (column > rule.domain.high)
            inside = np.where(outside, rule.domain.missing, inside)
        numbers = np.clip(np.rint(inside / rule.pitch), rule.first, rule.last)
        tally = mechanism.tally(column)
        if rule.kind == "codes":
            assert tally.sums[0].tolist() == np.bincount(numbers.astype(int), minlength=rule.last + 1).tolist()
        else:
            assert tally.sums[0].tolist() == [sum(map(int, numbers.tolist()))]


def test_names_of_categories_are_counted_as_in_releases():
    model = DirichletCategorical(alpha=(1, 1), names=("no", "yes"))
    mechanism = NoisyStatistics(model=model, n=4, scale=1.0)
    assert mechanism.tally(["yes", "no", "other", None]) == mechanism.tally([1, 0, -1, None])
    assert mechanism._record_rule.names == ("no", "yes")


def test_tallies_may_be_made_and_merged_by_many_threads():
    parts = [np.full(1000, k / 64) for k in range(64)]
    found, lock = [], threading.Lock()

    def work(own):
        for k in own:
            tally = SUM.tally(parts[k], part=str(k))
            with lock:
                found.append(tally)

    threads = [threading.Thread(target=work, args=(range(j % 4, 64, 4),)) for j in range(8)]  # each part twice
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = merge_tallies(found, parts=map(str, range(64)))
    assert total.sums.tolist() == SUM.tally(np.concatenate(parts)).sums.tolist()
