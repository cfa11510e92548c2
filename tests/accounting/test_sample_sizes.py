"""Accounts of posteriors on Poisson samples of a public number of records: all sizes of the sample together."""

import functools
from itertools import product
from math import comb

import numpy as np
import pytest

import privsample as ps
from privsample._value import frozen_value
from privsample.accounting.curves.chords import CurveChords
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.rows import CurveRows, GaussianRows
from privsample.accounting.posterior import size_search
from privsample.accounting.posterior.beta import beta_log_delta
from privsample.accounting.posterior.family_sizes import BetaCurveRows
from privsample.accounting.posterior.size_search import certify
from privsample.accounting.posterior.threshold_sweep import beta_curves
from privsample.accounting.posterior.truncated_beta import TruncatedBetaFamily
from privsample.accounting.subsampling import sizes
from privsample.accounting.subsampling.sizes import SizeMixturePair

N, RATE = 7, 0.4
COIN, EVEN = ps.BetaBernoulli(3, 4), ps.BetaBernoulli(2, 2)
NORMAL = ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 1))


def posterior(model, **given):
    return lambda n: ps.PosteriorAccountant(model=model, n=n, **given)


def tempered(model, truncation):
    return lambda n: ps.TemperedAccountant(model=model, n=n, temperature=2.0, truncation=truncation)


BASES = {
    "beta": posterior(COIN),
    "even-beta": posterior(EVEN, data_weight=0.5, prior_weight=2.0),
    "fractional-beta": posterior(ps.BetaBernoulli(3, 4, fractional=True)),
    "two-categories": posterior(ps.DirichletCategorical([2, 3])),
    "three-categories": posterior(ps.DirichletCategorical([2, 3, 3])),
    "counts": posterior(ps.GammaPoisson(shape=2, rate=1, upper=2)),
    "normal": posterior(NORMAL),
    "two-draws": posterior(NORMAL, draws=2),
    "tempered-beta": tempered(COIN, 0.1),
    "tempered-even-beta": tempered(EVEN, 0.2),
    "tempered-counts": tempered(ps.GammaPoisson(shape=2, rate=1, upper=5), (0.5, 5.0)),
    "tempered-normal": tempered(NORMAL, (0.0, 1.0)),
    "tempered-categories": tempered(ps.DirichletCategorical([1, 1, 1]), 0.1),
}
BASES = {name: functools.cache(make) for name, make in BASES.items()}  # accounts keep what they computed


@functools.cache
def sampled(make, n=N, rate=RATE):
    return ps.SubsampledAccountant(base=make(n), scheme=ps.PoissonSampling(rate=rate), relation=ps.ReplaceOne(n))


def by_size(make, epsilon, n=N, rate=RATE):
    """The sum over the sizes, from the account of each size."""
    return sum(
        comb(n, k) * rate**k * (1 - rate) ** (n - k) * k / n * curve(make(k), np.log1p(np.expm1(epsilon) * n / k))
        for k in range(1, n + 1)
    )  # fmt: skip


def curve(account, epsilon):
    """The privacy curve of the account's pairs, without conversions of the Rényi curve."""
    return np.exp(max(float(pair.log_delta(np.array([epsilon]))[0]) for pair in account.bounds.pairs))


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.5])
def test_the_curve_is_the_sum_over_the_sizes(name, epsilon):
    found, truth = float(sampled(BASES[name]).delta(epsilon)), by_size(BASES[name], epsilon)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 3e-4)


@pytest.mark.parametrize("name", BASES)
def test_epsilon_inverts_the_curve_and_does_not_fall_below_it(name):
    account = sampled(BASES[name])
    epsilon = float(account.epsilon(1e-3))
    assert by_size(BASES[name], epsilon) <= 1e-3 * (1 + 1e-9)
    assert by_size(BASES[name], epsilon * (1 - 2e-3)) > 1e-3


@pytest.mark.parametrize("name", [pytest.param("tempered-beta", marks=pytest.mark.long), "tempered-even-beta"])
def test_closed_forms_bound_the_renyi_curve_of_every_size(name):
    """The integral of a sample's Rényi curve takes them where it ends."""
    (pair,) = sampled(BASES[name]).bounds.pairs
    orders = np.array([1.5, 8.0, 50.0])
    bound = pair.curves.ceiling(orders)
    assert all((BASES[name](k).rdp(orders) <= bound).all() for k in (1, 2, 4, N))  # few records cost the most
    assert (bound <= 4 * BASES[name](1).rdp(orders)).all()


# By a rule of 1500 nodes, which takes seconds for these; they share what is tested here with the other bases.
SLOW = (
    "fractional-beta",
    "three-categories",
    "tempered-beta",
    "tempered-even-beta",
    "tempered-normal",
    "tempered-counts",
)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in SLOW else []) for name in BASES])
def test_the_renyi_curve_is_at_least_that_of_the_curve_at_every_size(name):
    """Theorem 6 of Balle, Barthe and Gaboardi 2018 by a fine rule, with bounds from both sides."""
    account, order = sampled(BASES[name]), 2.0
    e = np.append(0.0, np.geomspace(1e-4, 60.0, 1500))
    (pair,) = account.bounds.pairs
    values = np.exp(pair.approx_log_delta(e)) * (np.exp(e) + np.exp(-2 * e))
    truth = np.log1p(2.0 * np.minimum(values[:-1], values[1:]) @ np.diff(e))
    upper = np.log1p(2.0 * np.trapezoid(values, e))
    found = float(account.rdp(order))
    truth = min(truth, max(float(BASES[name](k).rdp(order)) for k in range(1, N + 1)))  # no sample exceeds its base
    assert found >= truth * (1 - 1e-9)
    assert found <= upper * 1.01 or np.isinf(found)


@pytest.mark.parametrize("name", ["beta", "normal", "tempered-beta", "counts"])
def test_compositions_cost_more_than_one_and_at_most_their_sum(name):
    account = sampled(BASES[name])
    one, two = float(account.epsilon(1e-4)), float((2 * account).epsilon(2e-4))
    assert float(account.epsilon(2e-4)) < two < 2 * one * (1 + 1e-6)
    assert np.isfinite(float((50 * account).epsilon(1e-4)))


@pytest.mark.parametrize("model", [COIN, EVEN])
def test_all_datasets_of_bernoulli_records_enumerated(model):
    """Every dataset of 4 records and every replaced record: samples and posteriors on a fine grid of proportions."""
    n, rate = 4, 0.5
    account = sampled(posterior(model), n=n, rate=rate)
    grid = (np.arange(4000) + 0.5) / 4000
    worst = dict.fromkeys((0.0, 0.3, 1.0), 0.0)
    for ones, own, other in product(range(n), (0, 1), (0, 1)):
        if own == other:
            continue
        p, q = (mixture(model, ones, n - 1 - ones, record, rate, grid) for record in (own, other))
        for epsilon in worst:
            worst[epsilon] = max(worst[epsilon], float(np.maximum(p - np.exp(epsilon) * q, 0.0).mean()))
    for epsilon, largest in worst.items():
        assert largest <= float(account.delta(epsilon)) * (1 + 1e-3)
    assert worst[0.3] > 0.3 * float(account.delta(0.3))  # the bound is not vacuous


def mixture(model, ones, zeros, record, rate, grid):
    """The density of the draw for a dataset of so many ones, zeros and one further record, over all samples."""
    total = np.zeros_like(grid)
    for i, j, taken in product(range(ones + 1), range(zeros + 1), (0, 1)):
        chance = (
            comb(ones, i) * comb(zeros, j) * rate ** (i + j + taken) * (1 - rate) ** (ones + zeros + 1 - i - j - taken)
        )
        a, b = model.alpha + i + taken * record, model.beta + j + taken * (1 - record)
        density = grid ** (a - 1) * (1 - grid) ** (b - 1)
        total += chance * density / density.mean()
    return total


@pytest.mark.parametrize(("a", "b", "step", "top"), [(1, 1, 1, 12), (9, 12, 1, 3), (5, 5, 0.5, 6), (900, 400, 1, 0.3)])
def test_a_sweep_gives_the_integral_at_each_epsilon(a, b, step, top):
    epsilon = np.sort(np.random.default_rng(3).uniform(0, top, (12, 30)), axis=1)
    shape = np.full(12, float(a)), b + 3.0 * np.arange(12)
    found, truth = (
        beta_curves(*shape, step, epsilon),
        beta_log_delta(shape[0][:, None], shape[1][:, None], step, epsilon),
    )
    near = truth > -250
    assert near.any()
    assert (found >= truth - 1e-9)[near].all()
    assert (found <= truth + 1e-8)[near].all()
    assert (found <= truth + 0.02)[~near].all()


def test_a_sweep_leaves_wide_panels_and_far_tails_to_other_bounds():
    epsilon = np.array([[0.0, 1e-3, 0.4, 2.0, 30.0, 1e3, 1e5]])
    found = beta_curves(np.array([1.0]), np.array([1e5]), 1.0, epsilon)
    truth = beta_log_delta(1.0, 1e5, 1.0, epsilon)
    assert found[0, :2] == pytest.approx(truth[0, :2], abs=1e-8)
    assert (found[0, 2:] <= truth[0, 2:] + 1e-8).all()  # the bound on the tail is the tighter one there
    assert (np.diff(found) <= 0).all()
    wide = np.array([[0.0, 1e-6, 1e-5, 1e-4, 1e-3, 9.0]])  # one panel over which the density falls by hundreds
    heavy = beta_curves(np.array([5e6]), np.array([5e6]), 1.0, wide[:, [0, 0, 0, 1, 2, 3]])
    assert heavy[0, -1] == pytest.approx(float(beta_log_delta(5e6, 5e6, 1.0, 1e-4)), abs=1e-6)


def test_sums_between_the_ends_raise_the_curve():
    """Where the largest known value is too small, the search finds the true one; at its limit it stays above."""
    rows = BetaCurveRows(a=2.0, b=3.0, step=1.0, others=np.array([3.0, 4.0, 9.0]), integer_valued=True)
    epsilon = np.array([[0.3, 1.0]] * 3)
    inner = np.array(
        [
            [max(pair(s, m - s, e) for s in range(1, int(m))) for e in (0.3, 1.0)]
            for m in rows.others
        ]
    )  # fmt: skip
    found = certify(rows, rows.others, epsilon, np.full((3, 2), -50.0), tolerance=1e-4)
    assert found == pytest.approx(inner, abs=1.01e-4)
    assert (found >= inner - 1e-12).all()


def pair(s, rest, epsilon):
    a, b = 2.0 + s, 3.0 + rest
    return max(float(beta_log_delta(a, b, 1.0, epsilon)), float(beta_log_delta(b, a, 1.0, epsilon)))


def test_a_search_at_its_limit_counts_blocks_by_their_bounds(monkeypatch):
    rows = BetaCurveRows(a=50.0, b=60.0, step=1.0, others=np.arange(5.0, 40.0, 5.0), integer_valued=False)
    epsilon = np.full((7, 1), 0.1)
    every = np.arange(7)
    free = rows.log_delta(every, epsilon)
    monkeypatch.setattr(size_search, "_MOST_BLOCKS", 10)
    limited = rows.log_delta(every, epsilon)
    assert (limited >= free - 1e-12).all()
    assert limited.max() > free.max() or (limited > free).any()


def test_truncated_posteriors_of_one_size_are_those_of_the_family():
    family = TruncatedBetaFamily(a=1.0, b=2.0, step=0.5, n=30, low=0.1, high=0.9)
    account = tempered(ps.BetaBernoulli(1, 3), 0.1)(30)
    own = account._exact_family
    family = TruncatedBetaFamily(a=own.a, b=own.b, step=own.step, n=30, low=own.low, high=own.high)
    rows = account._curves_for_sizes(((30, 30), (31, 33), (40, 60)))
    for count in (1, 9):
        epsilon = np.linspace(0.1, 0.9, count)
        found = rows.log_delta(np.array([0]), epsilon[None, :])
        truth = np.minimum(
            family.log_delta(epsilon, certified=True), rows.closed.log_delta(np.array([0]), epsilon[None, :])
        )
        assert found == pytest.approx(truth, abs=2.1e-4)
        assert (found >= truth - 1e-9).all()
    block = rows.log_delta(np.array([1]), np.array([[0.3]]))
    for size in (31, 32, 33):
        assert (
            block
            >= tempered(ps.BetaBernoulli(1, 3), 0.1)(size)._exact_family.log_delta(np.array([0.3]), certified=True)
            - 1e-9
        )
    assert rows.log_delta(np.array([2]), np.array([[0.3]])) == rows.closed.log_delta(np.array([2]), np.array([[0.3]]))
    assert rows.loose_log_delta(np.array([0]), np.array([[0.3]])) >= found.min()


def test_gaussian_rows_are_the_pairs():
    mu = np.array([3.0, 0.5, 0.05, 0.01])
    epsilon = np.array([[0.0, 0.1, 2.0]] * 4)
    found = GaussianRows(mu=mu).log_delta(np.arange(4), epsilon)
    assert found == pytest.approx(np.array([GaussianPair(mu=m).log_delta(epsilon[0]) for m in mu]), rel=1e-14)


def test_the_hull_of_chords_is_convex_and_removes_kinks():
    nodes = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    chords = CurveChords(nodes, np.log([0.5, 0.45, 0.2, 0.2, 0.05]))
    hull = chords.convex
    assert hull.nodes.tolist() == [0.0, 1.0, 2.0]
    slopes = np.diff(np.exp(hull.log_delta)) / np.diff(np.exp(hull.nodes))
    assert (np.diff(slopes) > 0).all()


@pytest.mark.parametrize(
    "name", ["counts", "normal", *(pytest.param(name, marks=pytest.mark.long) for name in ("beta", "tempered-normal"))]
)
def test_many_records_are_affordable(name):
    """Each view of a sample of thousands of records is a number, and costs no more than with fewer records."""
    few, many = (sampled(BASES[name], n=n, rate=0.01) for n in (300, 3000))
    assert 0.0 < float(many.epsilon(1e-6)) < float(few.epsilon(1e-6))
    assert float(many.delta(0.01)) < float(few.delta(0.01))
    assert float(many.rdp(1.5)) < float(few.rdp(1.5))


def test_the_pair_is_its_own_reverse_below_zero():
    (pair,) = sampled(BASES["beta"]).bounds.pairs
    assert isinstance(pair, SizeMixturePair)
    assert pair.reverse() is pair
    e = np.array([-0.7, -0.1])
    assert np.exp(pair.log_delta(e)) == pytest.approx(1 - np.exp(e) + np.exp(e) * np.exp(pair.log_delta(-e)), rel=1e-12)


@frozen_value
class RaisedRows(CurveRows):
    """Gaussian curves whose approximation is too small by a fixed amount."""

    rows: GaussianRows
    excess: float

    @property
    def max_divergence(self):
        return self.rows.max_divergence

    @property
    def value_cost(self):
        return 30.0

    def ceiling(self, orders):
        return self.rows.ceiling(orders)

    def log_delta(self, rows, epsilon):
        return np.minimum(self.rows.log_delta(rows, epsilon) + self.excess, 0.0)

    def approx_log_delta(self, rows, epsilon):
        return self.rows.log_delta(rows, epsilon)


@pytest.mark.parametrize("excess", [0.0, 1e-4, 0.05])
def test_epsilon_is_moved_until_the_certified_curve_confirms_it(excess):
    rows = RaisedRows(rows=GaussianRows(mu=np.array([0.5, 0.4])), excess=excess)
    pair = SizeMixturePair(curves=rows, rates=np.array([0.2, 0.3]), log_weights=np.log([0.5, 0.5]))
    epsilon = pair.least_epsilon(np.log(1e-4))
    assert pair.log_delta(np.array([epsilon]))[0] <= np.log(1e-4)
    assert pair.log_delta(np.array([epsilon * (1 - 1e-6) - 0.02 * excess]))[0] > np.log(1e-4)
    doubtful = RaisedRows(rows=rows.rows, excess=3.0)  # far off: the steps do not suffice
    far = SizeMixturePair(curves=doubtful, rates=np.array([0.2, 0.3]), log_weights=np.log([0.5, 0.5]))
    assert far.log_delta(np.array([far.least_epsilon(np.log(1e-4))]))[0] <= np.log(1e-4)


def test_without_steps_left_epsilon_comes_from_the_certified_curve(monkeypatch):
    rows = RaisedRows(rows=GaussianRows(mu=np.array([0.5, 0.4])), excess=0.05)
    pair = SizeMixturePair(curves=rows, rates=np.array([0.2, 0.3]), log_weights=np.log([0.5, 0.5]))
    usual = pair.least_epsilon(np.log(1e-4))
    monkeypatch.setattr(sizes, "_ATTEMPTS", 0)
    found = pair.least_epsilon(np.log(1e-4))
    assert pair.log_delta(np.array([found]))[0] <= np.log(1e-4)
    assert found == pytest.approx(usual, rel=0.02)


def test_one_or_two_records_have_no_sums_between_the_ends():
    rows = BetaCurveRows(a=2.0, b=3.0, step=1.0, others=np.array([0.0, 1.0]), integer_valued=True)
    epsilon = np.full((2, 1), 0.5)
    assert rows.log_delta(np.arange(2), epsilon) == pytest.approx(rows.approx_log_delta(np.arange(2), epsilon))
