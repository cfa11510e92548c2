"""Sampling schemes of the user's own: equal to built-in ones, never below the truth, and refused if they are wrong."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import privsample as ps
from privsample._value import frozen_value
from privsample.distributions import own_schemes
from privsample.distributions.couplings import (
    compatible_distances,
    distance_under,
    larger_tails,
    maximum_flow,
    sorted_sample,
)
from privsample.errors import RelationMismatch
from tests.accounting.sampled import ADD, EPSILONS, Member, Sizes, member
from tests.accounting.test_subsampling import hockey, random_distributions

ABOVE, ORDERS = EPSILONS[EPSILONS >= 0], np.array([1.5, 2.0, 8.0])
TWO_OF_SIX = list(itertools.combinations(range(6), 2))
RATE = 0.3
SUBSETS = [chosen for k in range(5) for chosen in itertools.combinations(range(4), k)]
CHANCES = [RATE ** len(chosen) * (1 - RATE) ** (4 - len(chosen)) for chosen in SUBSETS]
POISSON = ps.TableSampling(n=4, samples=SUBSETS, probabilities=CHANCES)
FIVE_CASES = ps.TableSampling(n=6, samples=[(0, 1), (2, 3), (4, 5), (0, 5)], probabilities=(0.4, 0.3, 0.2, 0.1))


def laplace(n):
    return ps.LaplaceAccountant(sensitivity=1, scale=1, relation=ps.ReplaceOne(n=n))


@pytest.mark.parametrize(
    ("table", "built_in", "base", "relation"),
    [
        (ps.TableSampling(n=6, samples=TWO_OF_SIX), ps.WithoutReplacement(n=6, m=2), laplace(2), None),
        (
            ps.TableSampling(n=4, samples=list(itertools.product(range(4), repeat=3))),
            ps.WithReplacement(n=4, m=3),
            laplace(3),
            None,
        ),
        (POISSON, ps.PoissonSampling(rate=RATE), laplace(4), ps.ReplaceOne(n=4)),
        (
            POISSON,
            ps.PoissonSampling(rate=RATE),
            ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=3, beta=4), n=4),
            ps.ReplaceOne(n=4),
        ),
        (
            ps.TableSampling(n=5, samples=[(*a, b) for a in itertools.combinations(range(3), 2) for b in (3, 4)]),
            ps.StratifiedSampling(sizes=(3, 2), samples=(2, 1)),
            laplace(3),
            None,
        ),
    ],
)
def test_built_in_schemes_as_tables_have_equal_accounts(table, built_in, base, relation):
    own = ps.SubsampledAccountant(base=base, scheme=table, relation=relation)
    known = ps.SubsampledAccountant(base=base, scheme=built_in, relation=relation)
    assert own.delta(ABOVE) == pytest.approx(known.delta(ABOVE), rel=1e-12)
    assert own.pure_epsilon == pytest.approx(known.pure_epsilon, rel=1e-12)
    assert own.epsilon(1e-6) == pytest.approx(known.epsilon(1e-6), rel=1e-12)
    if np.isfinite(known.rdp(ORDERS)).all():
        assert own.rdp(ORDERS) == pytest.approx(known.rdp(ORDERS), rel=1e-9)
    assert own.relation == known.relation
    assert own.assumptions == known.assumptions
    assert ps.Accountant.from_dict(own.to_dict()) == own


@dataclass(frozen=True, kw_only=True)
class OwnPoisson(ps.CoupledScheme):
    """A Poisson sample of three or two records, stated by its distributions."""

    rate: float
    given: bool = False

    def draw(self, size, rng):
        return rng.permutation(np.flatnonzero(rng.random(size) < self.rate))

    def conversions(self, base):
        return ((ADD, ADD),)

    def couplings(self, relation):
        def law(records):
            return {
                chosen: self.rate ** len(chosen) * (1 - self.rate) ** (len(records) - len(chosen))
                for k in range(len(records) + 1)
                for chosen in itertools.combinations(records, k)
            }

        smaller = law("ab")
        removed = {((*chosen, "v"), chosen): p for chosen, p in smaller.items()} if self.given else None
        return (ps.SampleCoupling(first=law("abv"), second=smaller, to_common=removed, between=removed),)


@pytest.mark.parametrize("given", [False, True])
def test_a_stated_scheme_has_the_account_of_the_built_in_one(given):
    base = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    own = ps.SubsampledAccountant(base=base, scheme=OwnPoisson(rate=RATE, given=given))
    known = ps.SubsampledAccountant(base=base, scheme=ps.PoissonSampling(rate=RATE))
    assert own.delta(ABOVE) == pytest.approx(known.delta(ABOVE), rel=1e-9)
    assert own.rdp(ORDERS) == pytest.approx(known.rdp(ORDERS), rel=1e-9)
    assert own.epsilon(1e-6) == pytest.approx(known.epsilon(1e-6), rel=1e-9)
    assert own.assumptions == known.assumptions | {ps.Assumption.STATED}
    assert "Theorems 2 and 7" in own.source


@frozen_value
class AddedSizes(Sizes):
    """Under AddRemove, groups have the general account."""

    def group(self, size):
        return ps.Accountant.group(self, size)


TABLES = {
    "neighbours in a row": ps.TableSampling(n=4, samples=[(0, 1), (1, 2), (2, 3)]),
    "unequal": ps.TableSampling(n=3, samples=[(0,), (1,), (2,)], probabilities=(0.7, 0.2, 0.1)),
    "twice": ps.TableSampling(n=3, samples=[(0, 0), (1, 2), (0, 1), (2, 2)], probabilities=(0.1, 0.4, 0.3, 0.2)),
    "many sizes": ps.TableSampling(n=3, samples=[(), (0,), (1, 2), (0, 1, 2), (2,)], probabilities=[0.2] * 5),
    "one or all": ps.TableSampling(n=4, samples=[(0,), (1,), (2,), (3,), (0, 1, 2, 3)]),
    "always the first": ps.TableSampling(n=3, samples=[(0, 1), (0, 2)]),
    "five cases": FIVE_CASES,
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("added", [False, True])
def test_enumeration_never_exceeds_the_bound(name, seed, added):
    scheme, distributions = TABLES[name], random_distributions(seed, 6)
    most = max(map(len, scheme.samples))
    kind, under = (AddedSizes, ADD) if added else (Sizes, ps.ReplaceOne(n=most))
    base = kind(distributions=distributions, relation=under, sizes=(0, most) if added else (most, most))
    account = ps.SubsampledAccountant(base=base, scheme=scheme)
    chances = scheme.probabilities or [1 / len(scheme.samples)] * len(scheme.samples)
    delta, rdp = account.delta(EPSILONS), account.rdp(ORDERS)

    def run(x):
        return sum(
            p * np.array(distributions[len(sample)][sum(x[place] for place in sample)])
            for sample, p in zip(scheme.samples, chances, strict=True)
        )

    worst = []
    for x in itertools.product([0, 1], repeat=scheme.n):
        for place in range(scheme.n):
            other = (*x[:place], 1 - x[place], *x[place + 1 :])
            p, q = run(x), run(other)
            truth = hockey(p, q, EPSILONS)
            assert (truth <= delta + 1e-12).all()
            renyi = np.log((p ** ORDERS[:, None] * q ** (1 - ORDERS[:, None])).sum(-1)) / (ORDERS - 1)
            assert (renyi <= rdp * (1 + 1e-9) + 1e-12).all()
            worst.append(truth[3] / delta[3])
    assert max(worst) > 0.05


@pytest.mark.parametrize("name", TABLES)
def test_randomized_membership_attains_the_rate(name):
    """The position that is sampled most, and a mutant with nine tenths of its rate."""
    scheme = TABLES[name]
    chances = np.array(scheme.probabilities or [1 / len(scheme.samples)] * len(scheme.samples))
    held = [[place in sample for sample in scheme.samples] for place in range(scheme.n)]
    rate = float((np.array(held) @ chances).max())
    base = Member(relation=ADD)
    account = ps.SubsampledAccountant(base=base, scheme=scheme)
    place = int((np.array(held) @ chances).argmax())

    def run(record):
        values = ["-"] * scheme.n
        values[place] = record
        return sum(p * member([values[at] for at in sample]) for sample, p in zip(scheme.samples, chances, strict=True))

    truth = hockey(run("v"), run("d"), ABOVE)
    assert (truth <= account.delta(ABOVE) + 1e-13).all()
    assert truth == pytest.approx(account.delta(ABOVE), rel=1e-9, abs=1e-13)
    wrong = 0.9 * rate
    mutant = wrong * base.delta(np.log1p(np.expm1(ABOVE) / wrong))
    assert (mutant < truth * (1 - 1e-6)).any()


def _of_all_positions(scheme, base, monkeypatch):
    """The privacy curve with a case for each position, none dropped or joined."""
    with monkeypatch.context() as patch:
        patch.setattr(own_schemes, "_few_cases", list)
        return ps.SubsampledAccountant(base=base, scheme=scheme).delta(ABOVE)


def _random_table(rng):
    n, m = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    samples = [rng.choice(n, m, replace=bool(rng.integers(2))) for _ in range(rng.integers(2, 9))]
    return ps.TableSampling(n=n, samples=samples, probabilities=rng.dirichlet(np.full(len(samples), 0.7)))


def test_cases_are_dropped_only_where_another_one_is_no_smaller(monkeypatch):
    rng = np.random.default_rng(5)
    dropped = 0
    for _ in range(25):
        scheme = _random_table(rng)
        base = laplace(max(map(len, scheme.samples)))
        account = ps.SubsampledAccountant(base=base, scheme=scheme)
        positions = len({place for sample in scheme.samples for place in sample})
        dropped += positions - len(scheme.parts(base.relation, ps.ReplaceOne(n=scheme.n)))
        np.testing.assert_allclose(account.delta(ABOVE), _of_all_positions(scheme, base, monkeypatch), rtol=1e-12)
    assert dropped > 25


def test_more_cases_than_are_kept_share_larger_ones(monkeypatch):
    """With room for three cases, the curve is no smaller, and with one it is that of the largest rate and tails."""
    base = laplace(2)
    whole = _of_all_positions(FIVE_CASES, base, monkeypatch)
    monkeypatch.setattr(own_schemes, "_MOST_COUPLED", 3)
    three = ps.SubsampledAccountant(base=base, scheme=FIVE_CASES).delta(ABOVE)
    monkeypatch.setattr(own_schemes, "_MOST_COUPLED", 1)
    one = ps.SubsampledAccountant(base=base, scheme=FIVE_CASES).delta(ABOVE)
    assert (whole <= three).all()
    assert (three <= one * (1 + 1e-12)).all()
    assert (three < one * 0.9).any()
    (parts,) = FIVE_CASES.parts(base.relation, ps.ReplaceOne(n=6))
    assert {part.rate for part in parts} == {0.5}


def test_a_larger_rate_alone_does_not_make_a_case_larger(monkeypatch):
    """The first position is in nearly every sample, so that another record hardly ever takes its place."""
    samples = [(0, 1, 2), (0, 3, 4), (5, 6, 7)]
    scheme = ps.TableSampling(n=8, samples=samples, probabilities=(0.48, 0.48, 0.04))
    base = laplace(3)
    whole = ps.SubsampledAccountant(base=base, scheme=scheme).delta(ABOVE)
    np.testing.assert_allclose(whole, _of_all_positions(scheme, base, monkeypatch), rtol=1e-12)
    tails = own_schemes._has_larger_tails
    monkeypatch.setattr(  # the mutant forgets the condition on the second coupling
        own_schemes,
        "_dominates",
        lambda one, other: all(
            x[2] >= y[2] and tails(x[3][0], y[3][0]) and tails(x[3][1], y[3][1])
            for x, y in zip(one, other, strict=True)
        ),
    )
    assert (ps.SubsampledAccountant(base=base, scheme=scheme).delta(ABOVE) < whole * 0.99).any()


def test_a_table_of_pairs_costs_little_more_than_the_truth():
    """Gaussian sums of the sampled records, over all datasets of zeros and ones: .0825 at epsilon .05, .0331 at .3."""
    base = ps.GaussianAccountant(sensitivity=1, noise_std=2, relation=ps.ReplaceOne(n=2))
    account = ps.SubsampledAccountant(base=base, scheme=FIVE_CASES)
    line = np.linspace(-18.0, 20.0, 20_001)
    density = stats.norm(scale=2).pdf(line - np.arange(3)[:, None])

    def run(x):
        pairs = zip(FIVE_CASES.samples, FIVE_CASES.probabilities, strict=True)
        return sum(p * density[sum(x[place] for place in sample)] for sample, p in pairs)

    for epsilon, most in ((0.05, 1.02), (0.3, 1.2)):
        truth = max(
            float(np.maximum(run(x) - np.exp(epsilon) * run((*x[:place], 1 - x[place], *x[place + 1 :])), 0.0).sum())
            * (line[1] - line[0])
            for x in itertools.product([0, 1], repeat=6)
            for place in range(6)
        )
        assert truth - 1e-9 <= account.delta(epsilon) <= most * truth


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.5, False)])
def test_the_table_is_drawn_from(factor, accepted, rng, alpha):
    wrong = np.array([0.2 * factor, 0.3, 0.5])
    scheme = ps.TableSampling(n=4, samples=[(0, 1), (2, 3), (1, 1)], probabilities=wrong / wrong.sum())
    drawn = [tuple(scheme.draw(4, rng).tolist()) for _ in range(4_000)]
    seen = [sum(sample in kind for sample in drawn) for kind in ({(0, 1), (1, 0)}, {(2, 3), (3, 2)}, {(1, 1)})]
    assert (stats.chisquare(seen, [800, 1_200, 2_000]).pvalue > alpha) == accepted
    assert abs(sum(sample == (0, 1) for sample in drawn) - seen[0] / 2) < 6 * np.sqrt(seen[0])


@pytest.mark.statistical
def test_audits_of_tables(rng, alpha):
    """Beyond the middle of one count, the broken copy has chances of 0.816 and 0.184; its claim allows 0.25 more.

    A tenth of 600 samples chooses the event. The bounds from the others are five standard deviations of 0.017 away, and
    leave nine of the difference: the audit misses it with a chance below 1e-18.
    """
    base = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=2, scale=0.5)
    mechanism = ps.Subsampled(base=base, scheme=TABLES["neighbours in a row"])
    assert all(case.loss is not None for case in mechanism.worst_neighbours())
    assert not ps.audit(mechanism, samples=600, rng=rng, level=alpha).violated
    whole = ps.Subsampled(base=base, scheme=ps.TableSampling(n=2, samples=[(0, 1)]))
    claim = ps.Subsampled(base=base, scheme=ps.TableSampling(n=8, samples=[(k, k + 1) for k in range(0, 8, 2)]))
    assert ps.audit(whole, claim=claim.accountant.with_relation(ps.ReplaceOne(n=2)), samples=600, rng=rng).violated


def test_a_sample_of_a_table_of_many_sizes_is_released():
    many = ps.Subsampled(base=ps.GaussianSum(bounds=(0, 1), noise_std=1), scheme=TABLES["many sizes"])
    assert many.release([1.0, 0.0, 1.0]).account.relation == ps.ReplaceOne(n=3)
    assert TABLES["many sizes"].copies_of_one_record() is None


@pytest.mark.long
@pytest.mark.statistical
def test_an_audit_of_many_sizes(rng, alpha):
    many = ps.Subsampled(base=ps.GaussianSum(bounds=(0, 1), noise_std=1), scheme=TABLES["many sizes"])
    assert not ps.audit(many, samples=500, rng=rng, level=alpha).violated


def test_flows_are_maximal():
    """Against linear programming."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        supply, demand = (rng.integers(0, 9, rng.integers(1, 6)).tolist() for _ in range(2))
        edges = [[j for j in range(len(demand)) if rng.random() < 0.5] for _ in supply]
        left, right = maximum_flow(supply, demand, edges)
        assert min([*left, *right]) >= 0
        moved = sum(supply) - sum(left)
        assert moved == sum(demand) - sum(right)
        listed = [(i, j) for i, row in enumerate(edges) for j in row]
        if not listed:
            assert moved == 0
            continue
        rows = [[float(i == k) for i, _ in listed] for k in range(len(supply))]
        rows += [[float(j == k) for _, j in listed] for k in range(len(demand))]
        best = linprog(-np.ones(len(listed)), A_ub=rows, b_ub=supply + demand)
        assert moved == pytest.approx(-best.fun, abs=1e-6)


def test_distances():
    one, other = sorted_sample("aab"), sorted_sample("bac")
    assert distance_under(ps.ReplaceOne(n=3))(one, other) == 1
    assert distance_under(ADD)(one, other) == 2
    assert distance_under(ADD)(one, ()) == 3
    found, compatible = compatible_distances(
        {("a",): 1, ("b",): 1}, {("a", "c"): 1, ("b", "c"): 1}, distance_under(ADD)
    )
    assert (found, compatible) == ({1: Fraction(1)}, True)
    found, compatible = compatible_distances(
        {("a",): 3, ("b",): 1}, {("a", "c"): 1, ("b", "c"): 1}, distance_under(ADD)
    )
    assert (found, compatible) == ({1: Fraction(3, 4), 3: Fraction(1, 4)}, False)
    assert larger_tails([{1: Fraction(1)}, {0: Fraction(1, 2), 2: Fraction(1, 2)}]) == {
        1: Fraction(1, 2),
        2: Fraction(1, 2),
    }


REPLACED = {"first": {"a": 0.5, "b": 0.5}, "second": {"a": 0.5, "x": 0.5}}
JOINT = {("b", "a"): 1.0}


def test_given_couplings_are_used():
    found = ps.SampleCoupling(**REPLACED)
    given = ps.SampleCoupling(**REPLACED, to_common=JOINT, between={("b", "x"): 1.0})
    base = ps.ReplaceOne(n=1)
    assert given.parts(base) == found.parts(base) == (ps.SamplingPart(rate=0.5),)
    assert not found.is_nested
    assert found.swapped.total_variation == 0.5
    apart = ps.SampleCoupling(
        first={"ab": 0.5, "cd": 0.5}, second={"xy": 0.5, "xd": 0.5}, between={("ab", "xd"): 0.5, ("cd", "xy"): 0.5}
    )
    assert apart.distances(ps.ReplaceOne(n=2)) == {2: 1.0}
    assert ps.SampleCoupling(first=apart.first, second=apart.second).distances(ps.ReplaceOne(n=2)) == {1: 0.5, 2: 0.5}
    same = ps.SampleCoupling(first={"a": 1.0}, second={"a": 1.0})
    assert (same.total_variation, same.parts(base), same.is_nested) == (0.0, (), True)


@dataclass(frozen=True, kw_only=True)
class Stated(ps.CoupledScheme):
    found: tuple

    def draw(self, size, rng):
        return rng.permutation(size)[:1]

    def conversions(self, base):
        return ((ps.ReplaceOne(n=1), ps.ReplaceOne(n=2)),)

    def couplings(self, relation):
        return self.found


def test_both_orders_of_a_stated_pair_count():
    scheme = Stated(found=(ps.SampleCoupling(first={"a": 0.5, "b": 0.5}, second={"a": 0.5, "x": 0.25, "y": 0.25}),))
    account = ps.SubsampledAccountant(base=laplace(1), scheme=scheme)
    assert account.pure_epsilon == pytest.approx(np.log1p(np.expm1(1) / 2))
    with pytest.raises(RelationMismatch, match=r"ReplaceOne\(n=1\) to ReplaceOne\(n=2\)"):
        ps.SubsampledAccountant(base=laplace(3), scheme=scheme)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (
            lambda: ps.SampleCoupling(**REPLACED, to_common={("b", "b"): 1.0}),
            ValueError,
            "to_common must be a coupling of ω1 with ω0: the sample .* under ω0, and the coupling gives it",
        ),
        (
            lambda: ps.SampleCoupling(**REPLACED, between={("a", "x"): 1.0}),
            ValueError,
            "between must be a coupling of ω1 with ω1': the sample .* under ω1, and",
        ),
        (lambda: ps.SampleCoupling(**REPLACED, between={("b", "x"): 0.9}), ValueError, "between must sum to 1"),
        (
            lambda: ps.SampleCoupling(**REPLACED, between={("b", "x"): 1.5, ("b", "a"): -0.5}),
            ValueError,
            "between must be finite and >= 0, got -0.5",
        ),
        (lambda: ps.SampleCoupling(first={"a": 0.5}, second={"a": 1.0}), ValueError, "first must sum to 1"),
        (lambda: ps.SampleCoupling(first=[1.0], second={"a": 1.0}), TypeError, "first must map samples"),
        (lambda: ps.SampleCoupling(first={"a": "x"}, second={"a": 1.0}), TypeError, "must be a number"),
        (
            lambda: ps.SampleCoupling(first={"ab": 1.0}, second={"a": 1.0}).parts(ps.ReplaceOne(n=2)),
            ValueError,
            "samples must have one size for a base under ReplaceOne",
        ),
        (lambda: ps.TableSampling(n=2, samples=[]), ValueError, "between 1 and 500 samples"),
        (lambda: ps.TableSampling(n=2, samples=[()]), ValueError, "at least one sample that is not empty"),
        (lambda: ps.TableSampling(n=2, samples=[(0, 2)]), ValueError, r"samples\[0\] must hold positions"),
        (lambda: ps.TableSampling(n=2, samples=[(0,)], probabilities=(0.5, 0.5)), ValueError, "one number for each"),
        (lambda: ps.TableSampling(n=2, samples=[(0,)], probabilities=(0.5,)), ValueError, "must sum to 1"),
        (lambda: ps.TableSampling(n=2, samples=[0]), TypeError, r"samples\[0\] must be a list"),
        (lambda: ps.SubsampledAccountant(base=laplace(1), scheme=Stated(found=())), ValueError, "two datasets"),
        (lambda: ps.SubsampledAccountant(base=laplace(1), scheme=Stated(found=(0.5,))), TypeError, "SampleCoupling"),
        (lambda: ps.SamplingPart(rate=0.5, log_weight=0.1), ValueError, "log of a probability"),
        (lambda: ps.SamplingPart(rate=0.0), ValueError, "rate"),
        (lambda: ps.SamplingPart(rate=0.5, group=0), ValueError, "group"),
        (lambda: ps.SamplingPart(rate=0.5, sizes=(1, 2, 3)), ValueError, "smallest and the largest size, got 3"),
        (lambda: ps.SampleCoupling(**REPLACED, between={"bx": 1.0}), TypeError, "between must map pairs"),
    ],
)  # fmt: skip
def test_what_is_no_scheme(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_samples_too_rare_for_a_coupling_are_refused():
    with pytest.raises(ValueError, match="must be 0 or at least 1e-09, got 1e-13"):
        ps.TableSampling(n=2, samples=((0,), (0, 1)), probabilities=(1.0 - 1e-13, 1e-13))


def test_an_account_knows_which_sizes_of_samples_it_covers():
    one = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=ps.ReplaceOne(n=2))
    fixed = ps.SubsampledAccountant(base=one, scheme=ps.WithoutReplacement(n=4, m=2))
    added = ps.LaplaceAccountant(sensitivity=1, scale=1)
    free = ps.SubsampledAccountant(base=added, scheme=ps.PoissonSampling(rate=0.5))
    table = ps.SubsampledAccountant(base=one, scheme=ps.TableSampling(n=4, samples=[(0,), (1, 2), ()]))
    for account, sizes in ((fixed, (0, 2)), (free, (0, 1, 7)), (table, (0, 1, 2))):
        for size in sizes:
            account.check_sample_size(size)
    with pytest.raises(ValueError, match=r"WithoutReplacement.draw must return 2 positions, .* got 3"):
        fixed.check_sample_size(3)
    with pytest.raises(ValueError, match=r"TableSampling.draw must return 1 or 2 positions, .* got 3"):
        table.check_sample_size(3)
