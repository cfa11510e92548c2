"""Any distribution of the number of runs as a table: accounts equal to those of the built-in distributions."""

import itertools

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.accounting.selection.renyi import theorem_6
from tests.accounting.selection_reference import hockey_stick, renyi

BUILT_IN = {
    "logarithmic": (ps.TruncatedNegativeBinomial.logarithmic(mean=4), 900),
    "geometric": (ps.TruncatedNegativeBinomial.geometric(mean=10), 400),
    "heavy": (ps.TruncatedNegativeBinomial(eta=-0.5, gamma=0.05), 800),
    "light": (ps.TruncatedNegativeBinomial.from_mean(mean=6, eta=20), 120),
    "Poisson": (ps.Poisson(mean=10), 80),
    "binomial": (ps.Binomial(maximum=12, rate=0.4), 12),
    "Beta-binomial": (ps.BetaBinomial(maximum=12, alpha=0.7, beta=2), 12),
    "truncated": (ps.TruncatedRepetitions(distribution=ps.TruncatedNegativeBinomial.geometric(mean=4), maximum=6), 6),
}
BASES = {
    "gaussian": ps.GaussianAccountant(sensitivity=0.2**0.5, noise_std=1),
    "pure": ps.PureAccountant(stated_epsilon=0.5),
    "zcdp": ps.ZCDPAccountant(rho=0.1),
    "approximate": ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-4),
}
ORDERS, DELTAS, EPSILONS = np.array([1.01, 1.5, 4, 64]), [1e-9, 1e-2], np.array([0.2, 1.0])


def tabulated(distribution, maximum):
    return ps.TabulatedRepetitions(probabilities=tuple(np.exp(distribution.log_mass(np.arange(maximum + 1.0)))))


def combinations():
    """Every class with one base, and a finite one with every base; the rest in the long lane.

    Two negative binomial distributions have tables of 800 and 900 numbers of runs, which take a second each.
    """
    for name, base in itertools.product(BUILT_IN, BASES):
        short = name == "binomial" or (base == "gaussian" and name not in {"logarithmic", "heavy"})
        yield pytest.param(name, base, marks=[] if short else pytest.mark.long)


@pytest.mark.parametrize(("name", "base"), list(combinations()))
def test_tables_of_the_built_in_distributions_have_equal_accounts(name, base):
    distribution, maximum = BUILT_IN[name]
    table = tabulated(distribution, maximum)
    one, other = (ps.SelectionAccountant(base=BASES[base], repetitions=runs) for runs in (distribution, table))
    assert other.delta(EPSILONS) == pytest.approx(one.delta(EPSILONS), abs=1e-10)
    if base == "approximate":
        assert other.infinity_mass == pytest.approx(one.infinity_mass, rel=1e-10)
        return
    assert [other.epsilon(delta) for delta in DELTAS] == pytest.approx([one.epsilon(d) for d in DELTAS], abs=1e-10)
    assert other.rdp(ORDERS) == pytest.approx(one.rdp(ORDERS), abs=1e-10)
    if base == "pure":
        assert other.pure_epsilon == pytest.approx(one.pure_epsilon, abs=1e-10)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (ps.TabulatedRepetitions.from_pgf(lambda x: np.exp(10 * (x - 1)), maximum=80), "Poisson"),
        (ps.TabulatedRepetitions.from_pgf(lambda x: 0.1 * x / (1 - 0.9 * x), maximum=400), "geometric"),
        (ps.TabulatedRepetitions.from_pgf(lambda x: (0.6 + 0.4 * x) ** 12, maximum=12), "binomial"),
        (ps.TabulatedRepetitions.from_mass(lambda k: 0.1 * 0.9 ** (k - 1) if k else 0.0, maximum=400), "geometric"),
    ],
)
def test_functions_are_tabulated(made, expected):
    distribution, _ = BUILT_IN[expected]
    assert made.mean == pytest.approx(distribution.mean, rel=1e-12)
    one, other = (ps.SelectionAccountant(base=BASES["gaussian"], repetitions=runs) for runs in (distribution, made))
    assert [other.epsilon(delta) for delta in DELTAS] == pytest.approx([one.epsilon(d) for d in DELTAS], abs=1e-10)


def test_the_bound_by_curvature_holds_for_every_table(rng):
    """Against the output distributions of randomized response, for every order of two outcomes."""
    for _ in range(6):
        masses = rng.dirichlet(np.full(rng.integers(2, 9), 0.5))
        runs = ps.TabulatedRepetitions(probabilities=tuple(masses))
        k, odds = np.arange(len(masses)), float(np.exp(rng.uniform(0.1, 2)))
        p = np.array([odds, 1.0]) / (1 + odds)
        base = ps.PureAccountant(stated_epsilon=np.log(odds))
        account = ps.SelectionAccountant(base=base, repetitions=runs)
        low, high = runs.curvature_bounds

        def log_delta(epsilon, base=base):
            with np.errstate(divide="ignore"):
                return np.log(base.delta(epsilon))

        ranks = np.linspace(0, 1, 201)
        curvature = runs.pgf_curvature(ranks)
        assert (low <= curvature * (1 + 1e-9)).all()
        assert (curvature <= high * (1 + 1e-9)).all()
        for first in (p, p[::-1]):
            outputs = []
            for chances in (first, first[::-1]):  # outcome 0 ranks below outcome 1
                worse = float(masses @ chances[0] ** k)
                outputs.append(np.array([masses[0], worse - masses[0], 1 - worse]))
            x, y = (np.maximum(each, 1e-300) for each in outputs)
            assert np.log(x / y)[1:].max() <= account.pure_epsilon + 1e-9
            for order in (1.5, 3.0, 20.0):
                assert renyi(x, y, order) <= account.rdp(order) + 1e-9
                by_curvature = theorem_6(base.rdp, log_delta, runs, np.array([order]))[0]
                with_none = np.logaddexp(np.log(masses[0]), (order - 1) * by_curvature) / (order - 1)
                assert renyi(x, y, order) <= with_none + 1e-9
            for epsilon in (0.0, 0.3, 1.0):
                assert hockey_stick(x, y, epsilon) <= account.delta(epsilon) + 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.4, False)])
def test_the_table_is_drawn_from(factor, accepted, rng, alpha):
    masses = np.array([0.1, 0.0, 0.5, 0.15, 0.25])
    wrong = masses * np.array([factor, 1, 1, 1, 1])
    runs = ps.TabulatedRepetitions(probabilities=tuple(wrong / wrong.sum()))
    seen = np.bincount([runs.sample(rng) for _ in range(20_000)], minlength=5)
    assert seen[1] == 0
    kept = masses > 0
    assert (stats.chisquare(seen[kept], 20_000 * masses[kept]).pvalue > alpha) == accepted


def test_selections_take_tables():
    runs = ps.TabulatedRepetitions(probabilities=(0.0, 0.5, 0.3, 0.2, 0.0))
    assert runs.maximum == 3
    base = ps.GaussianMechanism(sensitivity=1, noise_std=5)
    best = ps.RepeatedSelection(base=base, repetitions=runs)
    assert best.release(0.0)["statistic"].shape == (1,)
    assert ps.Release.from_json(best.release(0.0).to_json()).mechanism == best
    assert base.accountant.epsilon(1e-6) < best.accountant.epsilon(1e-6) < (3 * base.accountant).epsilon(1e-6)
    assert runs.tilted(0.5).mean < runs.mean


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: ps.TabulatedRepetitions(probabilities=(0.5, 0.4)), ValueError, "must sum to 1, got a sum of 0.9"),
        (lambda: ps.TabulatedRepetitions(probabilities=(0.5, -0.5, 1)), ValueError, "got -0.5 for 1 repetitions"),
        (lambda: ps.TabulatedRepetitions(probabilities=(0.5, np.nan)), ValueError, "got nan for 1 repetitions"),
        (lambda: ps.TabulatedRepetitions(probabilities=(0, 0, 1)), ValueError, "all mass on 2 repetitions: a fixed"),
        (lambda: ps.TabulatedRepetitions(probabilities=0.5), TypeError, "probabilities must be a list"),
        (lambda: ps.TabulatedRepetitions(probabilities=(0.5, "a")), TypeError, r"probabilities\[1\] must be a number"),
        (lambda: ps.TabulatedRepetitions(probabilities=np.full(100_002, 1 / 100_002)), ValueError, "at most 100001"),
        (
            lambda: ps.TabulatedRepetitions.from_mass(lambda k: 6 / np.pi**2 / k**2 if k else 0.0, maximum=9_999),
            ValueError,
            "mean may be infinite, and the account needs a finite mean",
        ),
        (
            lambda: ps.TabulatedRepetitions.from_mass(lambda k: 0.1 * 0.9**k, maximum=80),
            ValueError,
            "mass must sum to 1 over 0, ..., 80, got 0.9998.*raise maximum",
        ),
        (
            lambda: ps.TabulatedRepetitions.from_mass(stats.poisson(5).pmf, maximum=10),
            ValueError,
            "mass must sum to 1 over 0, ..., 10, got 0.9863.*: raise maximum; if the sum stays below 1",
        ),
        (
            lambda: ps.TabulatedRepetitions.from_mass(stats.poisson(5), maximum=60),
            TypeError,
            "mass must be a function of k, got rv_discrete_frozen; pass its .pmf",
        ),
        (
            lambda: ps.TabulatedRepetitions.from_mass([0.5, 0.5], maximum=1),
            TypeError,
            "mass must be a function of k, got list$",
        ),
        (lambda: ps.TabulatedRepetitions.from_mass(lambda k: 0.5, maximum=0), ValueError, "maximum"),
        (
            lambda: ps.TabulatedRepetitions.from_pgf(lambda x: 1 - np.sqrt(1 - x), maximum=1_000),
            ValueError,
            "mean may be infinite",
        ),
        (lambda: ps.TabulatedRepetitions.from_pgf(lambda x: 2 * x, maximum=5), ValueError, "pgf must be 1 at x = 1"),
        (lambda: ps.TabulatedRepetitions.from_pgf(lambda x: x[:1], maximum=5), ValueError, "one value each"),
        (lambda: ps.TabulatedRepetitions.from_pgf(lambda x: x / 0 * 0, maximum=5), ValueError, "finite on the unit"),
        (
            lambda: ps.TabulatedRepetitions.from_pgf(lambda x: np.cos(x - 1), maximum=60),
            ValueError,
            "coefficients that are probabilities, got -0.27.* for 2 repetitions",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_is_no_distribution(build, error, words):
    with pytest.raises(error, match=words):
        build()
