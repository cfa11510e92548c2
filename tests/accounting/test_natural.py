"""Accounts of a user's exponential family: equal to the built-in ones, convexity checked, and Lemma 17."""

import itertools
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import integrate, special

import privsample as ps
from privsample.accounting.posterior.family_tails import check_tails
from privsample.accounting.posterior.natural import NaturalNeighbours
from privsample.errors import NumericalFailure
from tests import families

SHARES = np.array([1e-9, 1e-4, 0.1, 0.3, 0.5, 0.9, 0.99, 0.999])
WEIGHTS = [(1.0, 1.0, 50), (0.3, 1.0, 50), (1.0, 3.0, 7), (1.0, 1.0, 1), (0.01, 1.0, 10_000)]


def account(model, weights, **fields):
    data_weight, prior_weight, n = weights
    return ps.PosteriorAccountant(model=model, n=n, data_weight=data_weight, prior_weight=prior_weight, **fields)


def families_and_weights():
    """Every family with two of the weights, one family with all; one for the Dirichlet family, which costs most."""
    for name, weights in itertools.product(families.FIVE, WEIGHTS):
        chosen = {"dirichlet-categorical": WEIGHTS[3:4], "gamma-poisson": WEIGHTS}.get(name, WEIGHTS[2:4])
        short = weights in chosen and weights != WEIGHTS[1]
        yield pytest.param(name, weights, marks=[] if short else pytest.mark.long)


@pytest.mark.parametrize(("name", "weights"), list(families_and_weights()))
def test_the_five_families_have_the_accounts_of_the_library(name, weights):
    own, builtin = (account(model, weights, draws=2) for model in families.FIVE[name])
    assert own.order_limit == pytest.approx(builtin.order_limit, rel=1e-12)
    orders = 1 + (min(builtin.order_limit, 1e3) - 1) * SHARES
    assert own.rdp(orders) == pytest.approx(builtin.rdp(orders), rel=1e-11)
    assert (own.rdp(orders) >= builtin.rdp(orders)).all()
    assert own.kind("rdp") == builtin.kind("rdp") == "exact"
    assert own.kind("delta") == "upper bound"
    assert own.delta(1.0) >= builtin.delta(1.0)
    assert own.epsilon(1e-6) >= builtin.epsilon(1e-6)
    assert ps.Assumption.STATED_FAMILY in own.assumptions
    assert ps.Assumption.STATED_CONVEXITY not in own.assumptions
    assert (ps.Assumption.CHECKED_CONVEXITY in own.assumptions) == (own.n > 1)  # the check is at points


def test_groups_of_two_vertices_are_those_of_the_library_and_others_are_bounded():
    for name in ("beta-bernoulli", "gamma-exponential"):  # a group moves the others like these
        own, builtin = (account(model, WEIGHTS[1]).group(3) for model in families.FIVE[name])
        orders = 1 + (min(builtin.order_limit, 20.0) - 1) * SHARES
        assert own.rdp(orders) == pytest.approx(builtin.rdp(orders), rel=1e-11)
    own = account(families.FIVE["dirichlet-categorical"][0], (0.1, 1.0, 7))
    assert own.group(2) == ps.Group(base=own, size=2)
    with pytest.raises(ValueError, match="group_size must be 1"):
        replace(own, group_size=2)


@pytest.mark.long
def test_the_bound_for_groups_of_other_vertices_is_above_that_of_the_library():
    own, builtin = (account(model, (0.1, 1.0, 7)) for model in families.FIVE["dirichlet-categorical"])
    assert own.group(2).rdp(1.5) >= builtin.group(2).rdp(1.5)


def test_a_model_that_claims_groups_of_more_vertices_is_refused():
    (shifts,) = families.categorical().neighbouring_posteriors
    with pytest.raises(ValueError, match="groups are known for two vertices only, got 4"):
        NaturalNeighbours(shifts=shifts, n=5, data_weight=0.1, prior_weight=1.0, group_size=2)


def test_sizes_are_not_exchanged():
    own = account(families.bernoulli(), WEIGHTS[0])
    assert own.for_sizes(50, 50) == own
    with pytest.raises(TypeError, match="for how many records"):
        own.for_sizes(40, 50)


def test_orders_at_the_limit_are_infinite():
    own = account(families.bernoulli(), WEIGHTS[0])
    assert own.rdp([7.0, 8.0]).tolist() == [np.inf, np.inf]
    assert np.isfinite(own.rdp(7.0 - 1e-9))
    assert own.rdp(np.full((2, 3), 2.0)).shape == (2, 3)


def renyi_by_quadrature(first, second, order):
    """The Rényi divergence of two truncated exponential densities on [0, 1]."""

    def density(eta):
        mass = integrate.quad(lambda t: np.exp(eta * t), 0, 1)[0]
        return lambda t: np.exp(eta * t) / mass

    p, q = density(first), density(second)
    return np.log(integrate.quad(lambda t: p(t) ** order * q(t) ** (1 - order), 0, 1)[0]) / (order - 1)


def test_a_family_without_convexity_is_refused_and_bounded_by_lemma_17():
    with pytest.raises(ValueError, match="fails the convexity condition of Geumlek 2020, Theorem 10") as refused:
        account(families.truncated(hessian_bound=None), (1.0, 1.0, 5))
    assert "between the natural parameters (" in str(refused.value)
    bounded = account(families.truncated(), (0.5, 1.0, 5))
    assert bounded.kind("rdp") == "upper bound"
    assert bounded.source.startswith("Geumlek 2020, Lemma 17")
    assert ps.Assumption.STATED_CONVEXITY not in bounded.assumptions
    for order in (1.5, 2.0, 8.0):
        assert bounded.rdp(order) == pytest.approx(order / 2 * 1.0 / 12, rel=1e-9)  # |P - Q| = r |2| = 1
        truths = [renyi_by_quadrature(c + 0.5, c - 0.5, order) for c in np.linspace(-2, 2, 9)]
        assert max(truths) <= bounded.rdp(order)
        assert max(truths) >= 0.8 * bounded.rdp(order)


def test_the_bound_on_the_hessian_may_depend_on_the_points():
    def largest(points):
        return max(1 / 12, 0.0 * points.sum())

    own = account(families.truncated(hessian_bound=largest), (0.5, 1.0, 5))
    assert own.rdp(2.0) == account(families.truncated(), (0.5, 1.0, 5)).rdp(2.0)
    with pytest.raises(NumericalFailure, match="hessian_bound must return a number"):
        account(families.truncated(hessian_bound=lambda points: np.nan), (0.5, 1.0, 5)).rdp(2.0)


@pytest.mark.parametrize(
    ("bound", "error", "said"),
    [
        (1 / 12.1, ValueError, r"which is 0.0833333 at \(0\), got 0.0826446"),
        (lambda points: 1e-9, ValueError, "largest eigenvalue of the Hessian, .* got 1e-09"),
        (lambda points: 0.0, ValueError, "largest eigenvalue of the Hessian, .* got 0;"),
        (lambda points: -1.0, NumericalFailure, "number >= 0, got -1.0"),
        (lambda points: points[:, 0], NumericalFailure, "must return a number >= 0, but failed: TypeError"),
        (lambda points: 1 / 0, NumericalFailure, "but failed: ZeroDivisionError"),
    ],
)
def test_a_bound_below_the_hessian_is_refused(bound, error, said):
    """Unchecked, it lowered the account in proportion."""
    with pytest.raises(error, match=said):
        account(families.truncated(hessian_bound=bound), (0.5, 1.0, 5))


def test_a_bound_on_the_hessian_is_compared_at_every_order():
    """The blends of large orders reach natural parameters that those of order 2 do not."""

    def near(points):
        return 1 / 12 if np.abs(points).max() < 6.0 else 1e-6

    own = account(families.truncated(hessian_bound=near), (0.5, 1.0, 5))
    assert own.rdp(2.0) == account(families.truncated(), (0.5, 1.0, 5)).rdp(2.0)
    with pytest.raises(ValueError, match="hessian_bound must be at least the largest eigenvalue"):
        own.rdp(20.0)


def test_lemma_17_is_above_the_exact_account_of_a_convex_family():
    def bound(points):
        return float(np.linalg.eigvalsh(families.dirichlet_normalizer().hessians(points)).max())

    own = account(families.bernoulli(hessian_bound=bound), WEIGHTS[1])
    builtin = account(families.FIVE["beta-bernoulli"][1], WEIGHTS[1])
    orders = np.array([1.5, 2.0, 10.0])
    assert (own.rdp(orders) >= builtin.rdp(orders)).all()
    assert (own.rdp(orders) <= 4 * builtin.rdp(orders)).all()


def test_one_record_needs_no_convexity_and_a_statement_replaces_the_check():
    alone = account(families.truncated(hessian_bound=None), (1.0, 1.0, 1))
    assert alone.source.startswith("Geumlek 2020, Theorem 10")
    assert alone.rdp(2.0) == pytest.approx(renyi_by_quadrature(1.0, -1.0, 2.0), rel=1e-9)
    assert ps.Assumption.CHECKED_CONVEXITY not in alone.assumptions
    stated = account(families.truncated(hessian_bound=None, convexity_stated=True), (1.0, 1.0, 5))
    assert ps.Assumption.STATED_CONVEXITY in stated.assumptions
    assert ps.Assumption.CHECKED_CONVEXITY not in stated.assumptions


def test_the_hull_of_the_contributions_bounds_the_enumerated_records():
    corners = families.categorical(vertices=np.eye(4), prior_parameter=[30.0, 20.0, 40.0, 25.0])
    exact = families.categorical(prior_parameter=[30.0, 20.0, 40.0, 25.0])
    hull, own = account(corners, (0.5, 1.0, 9)), account(exact, (0.5, 1.0, 9))
    orders = np.array([1.1, 2.0, 5.0])
    assert (hull.rdp(orders) >= own.rdp(orders)).all()
    assert (hull.rdp(orders) <= 1.2 * own.rdp(orders)).all()
    assert hull.kind("rdp") == "upper bound"
    with pytest.raises(ValueError, match="all neighbouring posteriors must be normalizable"):
        account(families.categorical(vertices=np.eye(4), prior_parameter=[0.3] * 4), (1.0, 1.0, 9))


def test_too_many_vertices_are_refused():
    many = families.categorical(
        prior_parameter=np.ones(30),
        records=ps.Domain(low=0, high=29, missing=0, integer_valued=True),
        contribution=lambda x: np.eye(30)[x.astype(int)],
        length=30,
    )
    with pytest.raises(ValueError, match="at most 24 contributions, got 30"):
        account(many, WEIGHTS[0])


def test_shifts_of_a_family_stand_alone():
    class Mixed(ps.Model):
        domain, parameter = ps.Domain(low=0, high=1, missing=0), "theta"
        neighbouring_posteriors = (
            *families.bernoulli().neighbouring_posteriors,
            ps.NormalShift(variance=1, noise_variance=1, record_range=1),
        )

        def posterior(self, statistic, n, *, data_weight=1.0, prior_weight=1.0):
            raise NotImplementedError

    with pytest.raises(TypeError, match="must return NaturalShifts alone"):
        ps.PosteriorAccountant(model=Mixed(), n=3)


def test_a_hessian_without_a_finite_integral_gives_no_guarantee():
    (shifts,) = families.bernoulli().neighbouring_posteriors
    broken = replace(shifts.normalizer, hessian=lambda eta: np.full((len(eta), 2, 2), np.nan))
    neighbours = NaturalNeighbours(shifts=replace(shifts, normalizer=broken), n=3, data_weight=1.0, prior_weight=1.0)
    assert neighbours.renyi(np.array([2.0])).tolist() == [np.inf]
    with pytest.raises(NumericalFailure, match="hessian returned a value that is not finite"):
        neighbours.check_convexity()


def test_an_integral_that_does_not_converge_is_infinite():
    (shifts,) = families.bernoulli().neighbouring_posteriors

    def pole(eta):
        return np.eye(2) / np.abs(eta[:, 0] - 6.4321)[:, None, None]

    broken = replace(shifts.normalizer, hessian=pole)
    neighbours = NaturalNeighbours(shifts=replace(shifts, normalizer=broken), n=3, data_weight=1.0, prior_weight=1.0)
    assert neighbours.renyi(np.array([2.0])).tolist() == [np.inf]


@pytest.mark.parametrize(
    "weights",
    [
        *(pytest.param(weights, marks=pytest.mark.long) for weights in WEIGHTS[:3]),
        WEIGHTS[3],
    ],
)
@pytest.mark.parametrize("name", families.FIVE)
def test_the_five_families_have_the_privacy_curves_of_the_library(name, weights):
    model, builtin = families.FIVE[name]
    own = account(replace(model, log_tails=families.TAILS[name]), weights)
    same = account(builtin, weights)
    epsilons = np.array([0.0, 0.1, 0.5, 1.0])
    found, truth = own.delta(epsilons), same.delta(epsilons)
    shown = truth > 1e-12  # smaller values are differences of tails, which are rounded up
    assert shown[0]
    assert found[shown] == pytest.approx(truth[shown], rel=1e-10)
    assert (found >= truth * (1 - 1e-10)).all()  # both are rounded up
    for delta in (1e-2, 1e-4, 1e-6):
        assert own.epsilon(delta) == pytest.approx(same.epsilon(delta), rel=1e-10)
    assert own.kind("delta") == "exact"
    assert (ps.Assumption.STATED_NEIGHBOURS in own.assumptions) == (weights[2] > 1)
    orders = 1 + (min(same.order_limit, 20.0) - 1) * SHARES
    assert own.rdp(orders) == pytest.approx(same.rdp(orders), rel=1e-11)


def test_the_privacy_curve_is_not_below_50_digits():
    own = account(families.bernoulli(log_tails=families.beta_tails), (0.7, 1.0, 1))
    with mpmath.workdps(50):
        r, a, b = mpmath.mpf(0.7), mpmath.mpf(6), mpmath.mpf(12)
        for epsilon in (0.0, 0.2, 1.0):
            truths = []
            for p, q in (((a + r, b), (a, b + r)), ((a, b + r), (a + r, b))):
                sign = 1 if p[0] > q[0] else -1
                offset = mpmath.log(mpmath.beta(*p)) - mpmath.log(mpmath.beta(*q))
                place = 1 / (1 + mpmath.exp(-sign * (mpmath.mpf(epsilon) + offset) / r))
                ends = (place, 1) if sign > 0 else (0, place)
                tails = [mpmath.betainc(*each, *ends, regularized=True) for each in (p, q)]
                truths.append(tails[0] - mpmath.exp(epsilon) * tails[1])
            truth = float(max(truths))
            assert truth <= own.delta(epsilon) <= truth * (1 + 1e-11)


def test_several_draws_compose_by_the_privacy_curve():
    own = account(families.poisson(log_tails=families.shape_tails), (0.2, 1.0, 5), draws=3)
    same = account(families.FIVE["gamma-poisson"][1], (0.2, 1.0, 5), draws=3)
    assert own.epsilon(1e-4) == pytest.approx(same.epsilon(1e-4), rel=2e-3)
    assert own.epsilon(1e-4) >= same.epsilon(1e-4) * (1 - 1e-9)
    assert own.rdp(2.0) == pytest.approx(same.rdp(2.0), rel=1e-11)


def test_a_pair_and_its_reverse():
    (shifts,) = families.poisson(log_tails=families.shape_tails).neighbouring_posteriors
    neighbours = NaturalNeighbours(shifts=shifts, n=4, data_weight=0.2, prior_weight=1.0)
    pair = neighbours.pairs[0]
    back = pair.reverse()
    assert back.reverse() == pair
    assert back in neighbours.pairs
    epsilon = np.array([0.0, 0.3])
    ahead, behind = np.exp(pair.log_delta(epsilon)), np.exp(back.log_delta(-epsilon))
    assert ahead == pytest.approx(1 - np.exp(epsilon) + np.exp(epsilon) * behind, abs=1e-12)
    assert pair.max_divergence == np.inf
    orders = np.array([2.0, 3.0])
    largest = np.max([each.renyi(orders) for each in neighbours.pairs], axis=0)
    assert largest == pytest.approx(neighbours.renyi(orders), rel=1e-13)
    assert min(each.order_limit for each in neighbours.pairs) == neighbours.order_limit
    assert back.renyi(np.array([back.order_limit])).tolist() == [np.inf]


def upper_by_complement(eta, direction, y):
    """Correct to 16 digits of the lower tail: the upper tail is lost below 1e-16."""
    lower, _ = families.shape_tails(eta, direction, y)
    with np.errstate(divide="ignore"):
        return lower, np.log1p(-np.exp(lower))


TAILS = families.shape_tails
WRONG_TAILS = {
    "swapped": lambda eta, direction, y: TAILS(eta, direction, y)[::-1],
    "of minus y": lambda eta, direction, y: TAILS(eta, direction, -y),
    "of another posterior": lambda eta, direction, y: TAILS(eta + np.array([0.2, 0.0]), direction, y),
    "in another unit": lambda eta, direction, y: TAILS(eta, direction, 1.05 * y),
    "of one distribution": lambda eta, direction, y: TAILS(np.array([9.0, 3.0]), direction, y),
    "zero": lambda eta, direction, y: (np.full(y.shape, -np.inf),) * 2,
    "one": lambda eta, direction, y: (np.zeros(y.shape),) * 2,
    "constant": lambda eta, direction, y: (np.full(y.shape, np.log(0.5)),) * 2,
    "by complement": upper_by_complement,
}


@pytest.mark.parametrize("wrong", WRONG_TAILS)
def test_tails_that_disagree_with_the_log_normalizer_are_refused(wrong):
    """Unchecked, swapped tails gave epsilon 0 at every delta."""
    account(families.poisson(log_tails=TAILS), WEIGHTS[3])
    with pytest.raises(ValueError, match="log_tails disagree with the log normalizer at the natural parameter"):
        account(families.poisson(log_tails=WRONG_TAILS[wrong]), WEIGHTS[3])


def test_tails_that_saturate_are_refused_where_it_matters():
    """The share at logit 37 rounds to 1, which only posteriors with one small parameter reach."""
    normalizer = families.bernoulli().normalizer
    direction = np.array([1.0, -1.0])
    check_tails(normalizer, families.beta_tails, np.array([6.0, 12.0]), direction)
    with pytest.raises(ValueError, match=r"the natural parameter \(1000, 0.5\) in the direction \(1, -1\)"):
        check_tails(normalizer, families.beta_tails, np.array([1000.0, 0.5]), direction)


def test_tails_of_posteriors_of_any_size_pass():
    rng = np.random.default_rng(1)
    for name, direction in (("gamma-poisson", [4.0, 0.0]), ("gamma-exponential", [0.0, 4.0]), ("normal", [0.0, 1.5])):
        for _ in range(20):
            natural = 10.0 ** rng.uniform(-0.5, 6, 2)
            check_tails(families.FIVE[name][0].normalizer, families.TAILS[name], natural, np.array(direction))


def test_tails_are_not_compared_where_the_family_has_no_variance_or_no_moments():
    def normalizer(variance):
        return ps.LogNormalizer(
            value=lambda eta: eta[:, 0] ** 2 / 2,
            gradient=lambda eta: eta,
            hessian=lambda eta: variance(eta[:, 0])[:, None, None],
            normalizable=lambda eta: np.isfinite(eta[:, 0]),
        )

    calls = []

    def tails(eta, direction, y):
        calls.append(float(eta[0]))
        return special.log_ndtr(y - eta[0]), special.log_ndtr(eta[0] - y)

    one = np.ones(1)
    check_tails(normalizer(np.zeros_like), tails, 0.5 * one, one)
    assert calls == []
    check_tails(normalizer(lambda eta: np.where(np.abs(eta - 0.5) < 2.0, 1.0, np.nan)), tails, 0.5 * one, one)
    assert set(calls) == {-0.5, 0.5, 1.5}
    check_tails(normalizer(np.ones_like), tails, 0.5 * one, one)
    assert set(calls) == {-11.5, -0.5, 0.5, 1.5, 12.5}


def test_bad_tails_give_no_guarantee():
    for tails, error, found in (
        (lambda eta, direction, y: (y * np.nan, y * np.nan), NumericalFailure, "log_tails returned NaN"),
        (lambda eta, direction, y: (0.0, 0.0), TypeError, "log_tails must return two arrays of shape"),
        (lambda eta, direction, y: None, TypeError, "log_tails must return two arrays .*, got NoneType"),
        (lambda eta, direction, y: (y, y, y), TypeError, "log_tails must return two arrays .*, got tuple"),
        (lambda eta, direction, y: ("a", "b"), TypeError, "got values that are no real numbers"),
        (lambda eta, direction, y: 1 / 0, NumericalFailure, "log_tails failed at .*: ZeroDivisionError"),
        (lambda eta, direction, y: np.exp(TAILS(eta, direction, y)), ValueError, "logarithms of probabilities"),
    ):
        with pytest.raises(error, match=found):
            account(families.poisson(log_tails=tails), WEIGHTS[3]).delta(0.1)
    many = families.categorical(
        prior_parameter=np.ones(6),
        records=ps.Domain(low=0, high=5, missing=0, integer_valued=True),
        contribution=lambda x: np.eye(6)[x.astype(int)],
        length=6,
        log_tails=families.beta_tails,
    )
    with pytest.raises(ValueError, match="for at most 64 pairs of neighbours, got 180"):
        account(many, (0.1, 1.0, 5))
    with pytest.raises(TypeError, match="log_tails must be a function"):
        families.poisson(log_tails=1.0)


ROWS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5], [0.5, 0.0, 0.5], [0.4, 0.3, 0.3]])


def test_the_worst_neighbours_are_those_of_all_datasets():
    """Every dataset of four records and every replacement; some contributions lie inside the hull of the others."""
    model = families.categorical(
        prior_parameter=[2.0, 1.5, 3.0],
        records=ps.Domain(low=0, high=4, missing=0, integer_valued=True),
        contribution=lambda x: ROWS[x.astype(int)],
        length=3,
    )
    hull = families.categorical(
        prior_parameter=[2.0, 1.5, 3.0],
        records=ps.Domain(low=0, high=4, missing=0, integer_valued=True),
        contribution=lambda x: ROWS[x.astype(int)],
        vertices=ROWS[:4],
        length=3,
    )
    r, value = 0.4, model.normalizer.values
    others = [sum(each) for each in itertools.combinations_with_replacement(ROWS, 3)]
    pairs = [(c + r_x, c + r_y) for c in others for r_x, r_y in itertools.permutations(ROWS, 2)]
    p, q = model.prior_parameter + r * np.array(pairs).swapaxes(0, 1)
    own, outer = (account(one, (r, 1.0, 4)) for one in (model, hull))
    for order in (1.2, 2.0, 4.0):
        blend = order * p + (1 - order) * q
        truth = ((value(blend) - order * value(p)) / (order - 1) + value(q)).max()
        assert own.rdp(order) == pytest.approx(truth, rel=1e-10)
        assert outer.rdp(order) >= truth * (1 - 1e-10)


def test_counts_of_all_sizes_have_the_accounts_of_the_library():
    """Priors from 1e-3 to 1e4: the worst pair is not lost where a log normalizer cancels inside."""
    rng = np.random.default_rng(5)
    for _ in range(4):
        prior, n = 10 ** rng.uniform(-3, 4, 4), int(10 ** rng.uniform(0, 6))
        weights = (10 ** rng.uniform(-4, 0), 10 ** rng.uniform(0, 2), n)
        own = account(families.categorical(prior_parameter=prior), weights)
        builtin = account(ps.DirichletCategorical(tuple(prior)), weights)
        orders = 1 + (min(builtin.order_limit, 1e4) - 1) * np.array([1e-6, 0.01, 0.3, 0.9, 0.99])
        assert own.rdp(orders) == pytest.approx(builtin.rdp(orders), rel=1e-10)


def test_orders_far_beyond_the_width_of_the_parameter():
    """Theta is 0 or 1: at large orders all variance lies next to the blend, where quadrature could miss it."""
    normalizer = ps.LogNormalizer(
        value=lambda e: np.logaddexp(0, e[:, 0]),
        gradient=special.expit,
        hessian=lambda e: (special.expit(e) * special.expit(-e))[:, :, None],
        normalizable=lambda e: np.isfinite(e[:, 0]),
    )
    family = ps.ExponentialFamily(
        prior_parameter=[0.0],
        records=ps.Domain(low=0, high=1, missing=0, integer_valued=True),
        contribution=lambda x: 0.1 * (x - 0.5)[:, None],
        normalizer=normalizer,
        sampler=lambda e, size, rng: rng.binomial(1, special.expit(e[0]), size).astype(float),
        parameter_statistic=lambda t: t[:, None],
    )
    account = ps.DirectPosterior(model=family, n=1).accountant
    p, q = special.expit([0.05, -0.05])
    for order in (2.0, 1e3, 1e6, 1e8, 1e12, 1e100, 1e300):
        true = special.logsumexp([order * np.log(p / q), order * np.log((1 - p) / (1 - q))], b=[q, 1 - q]) / (order - 1)
        assert true * (1 - 1e-12) <= account.rdp(order) <= true * (1 + 1e-6)
    assert account.epsilon(1e-6) >= np.log((p - 1e-6) / q)
    assert account.delta(0.01) >= p - np.exp(0.01) * q
