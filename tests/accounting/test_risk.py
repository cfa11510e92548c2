"""Trade-off function, power, advantage, accuracy, risk and positive predictive value of accounts (risk.md)."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate
from scipy.stats import laplace, norm

import privsample as ps
from privsample.accounting import risk
from privsample.accounting.curves.power import least_errors
from privsample.accounting.engine.directions import DirectionCurve, direction_bounds
from privsample.accounting.loss import grid_plan
from privsample.errors import RelationMismatch, UnreachableTarget

GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=1)
LAPLACE = ps.LaplaceAccountant(sensitivity=1, scale=1)
SAMPLED = ps.SubsampledAccountant(base=GAUSSIAN, scheme=ps.PoissonSampling(rate=0.1))
RATES = np.array([1e-20, 1e-9, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1 - 1e-10])


def best_powers(p, q, rates):
    """The power of the Neyman-Pearson test of q against p, randomized at its threshold."""
    order = np.argsort(-np.array(p) / np.maximum(q, 1e-300))
    false, true = (np.append(0.0, np.cumsum(np.array(one)[order])) for one in (q, p))
    kept = np.append(np.diff(false) > 0.0, True)  # at a rate of 0 the largest power counts
    return np.interp(rates, false[kept], true[kept])


def test_values_of_the_closed_forms():
    assert float(GAUSSIAN.power(0.01)) == pytest.approx(0.0923622480736939, rel=1e-13)
    stated = ps.ApproximateAccountant(stated_epsilon=1, stated_delta=1e-5)
    assert float(stated.power(0.01)) == pytest.approx(0.0271928182845905, rel=1e-12)
    expected = [0.9728171817154095, 0.7281718171540954, 0.3065662009761, 0.1103638323514]
    assert LAPLACE.tradeoff([0.01, 0.1, 0.3, 0.7]) == pytest.approx(expected, rel=1e-12)
    assert GAUSSIAN.accuracy([0.1, 0.5, 0.8]) == pytest.approx([0.90133630610, 0.69146246127, 0.81384377319], rel=1e-10)
    assert GAUSSIAN.advantage() == pytest.approx(2 * norm.cdf(0.5) - 1, rel=1e-13)
    assert LAPLACE.risk([0.01, 1.0]) == pytest.approx([0.01 * np.e, 1.0])


@pytest.mark.parametrize("mu", [1e-6, 0.01, 1.0, 7.0])
def test_gaussian_errors_are_exact_and_rounded_outward(mu):
    account = ps.GaussianAccountant(sensitivity=mu, noise_std=1)
    powers, misses = account.power(RATES), account.tradeoff(RATES)
    with mp.workdps(80):
        for a, power, miss in zip(RATES, powers, misses, strict=True):
            at = mp.findroot(lambda x, a=a: mp.log(mp.ncdf(x)) - mp.log(mp.mpf(float(a))), float(norm.ppf(a)))
            exact, missed = mp.ncdf(at + mp.mpf(mu)), mp.ncdf(-at - mp.mpf(mu))
            assert exact <= power <= exact * (1 + 1e-11)
            assert missed * (1 - 1e-11) - mp.mpf(2e-12) <= miss <= missed


@pytest.mark.parametrize("seed", range(6))
def test_errors_of_finite_distributions_are_those_of_the_best_test(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(5, 0.7), size=2)
    if seed == 0:  # an infinity mass in one direction only
        q = np.append(0.0, q[1:] / q[1:].sum())
    account = ps.PairAccountant(p=p, q=q)
    rates = np.concatenate([[0.0, 1e-12, 1.0], rng.random(8)])
    for direction, (one, other) in {"remove": (p, q), "add": (q, p)}.items():
        exact = best_powers(one, other, rates)
        assert account.power(rates, direction=direction) == pytest.approx(exact, rel=1e-9, abs=1e-15)
        assert (account.power(rates, direction=direction) >= exact * (1 - 1e-13)).all()
        assert (account.tradeoff(rates, direction=direction) <= 1 - exact + 1e-15).all()
        prior = rng.random(5)
        right = [np.maximum(x * one, (1 - x) * other).sum() for x in prior]
        assert account.accuracy(prior, direction=direction) == pytest.approx(right, rel=1e-11)
    worse = np.maximum(best_powers(p, q, rates), best_powers(q, p, rates))
    assert account.power(rates) == pytest.approx(worse, rel=1e-9, abs=1e-15)


def test_the_directions_of_a_stated_trade_off_function():
    knots = np.array([(0.0, 1.0), (0.1, 0.5), (0.6, 0.1), (1.0, 0.0)])
    account = ps.TradeoffAccountant(knots=knots)  # tests that the record is absent
    at = np.linspace(0.0, 1.0, 21)
    assert account.tradeoff(at, direction="add") == pytest.approx(np.interp(at, *knots.T), abs=1e-12)
    inverse = np.interp(at, *knots[::-1, ::-1].T)
    assert account.tradeoff(at, direction="remove") == pytest.approx(inverse, abs=1e-12)
    assert account.tradeoff(at) == pytest.approx(np.minimum(np.interp(at, *knots.T), inverse), abs=1e-12)


def test_the_directions_of_a_sampled_account_differ():
    exact = 0.9 * 0.01 + 0.1 * GAUSSIAN.power(0.01)  # the best test of the mixture is that of the base
    assert SAMPLED.power(0.01, direction="remove") == pytest.approx(0.1 * GAUSSIAN.power(0.01) + 0.9 * 0.01, rel=1e-11)
    assert SAMPLED.power(0.01) == SAMPLED.power(0.01, direction="remove") == pytest.approx(exact)
    assert SAMPLED.power(0.01, direction="add") < 0.9 * exact
    # A bound from the curve of one direction alone is false where the other direction is worse.
    late = 0.9
    assert SAMPLED.power(late, direction="add") > SAMPLED.power(late, direction="remove") + 1e-4
    assert SAMPLED.power(late) == SAMPLED.power(late, direction="add")
    both = SAMPLED | LAPLACE
    assert both.power(0.01, direction="add") == pytest.approx(float(LAPLACE.power(0.01)))
    assert len(direction_bounds(ps.ZCDPAccountant(rho=0.1))) == 1
    assert SAMPLED.advantage(direction="add") == pytest.approx(SAMPLED.advantage(direction="remove"), rel=1e-9)


def test_the_curve_of_a_direction_at_every_epsilon():
    remove, add = direction_bounds(SAMPLED)
    e = np.array([[-2.0, -0.05], [0.0, 0.05]])
    p = [norm(0, 1), norm(1, 1)]

    def divergence(direction, epsilon):
        def excess(x):
            mixed, plain = 0.9 * p[0].pdf(x) + 0.1 * p[1].pdf(x), p[0].pdf(x)
            one, other = (mixed, plain) if direction == "remove" else (plain, mixed)
            return np.maximum(one - np.exp(epsilon) * other, 0.0)

        grid = np.linspace(-12, 13, 400_001)
        return integrate.trapezoid(excess(grid), grid)

    for name, curve in (("remove", remove), ("add", add)):
        exact = [[divergence(name, x) for x in row] for row in e]
        assert np.exp(curve.log_delta(e)) == pytest.approx(np.array(exact), rel=1e-6, abs=1e-9)
        assert curve.pure_epsilon == (np.inf if name == "remove" else pytest.approx(-np.log(0.9)))
    assert remove.reverse == add
    assert isinstance(add.reverse, DirectionCurve)


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.8])
def test_accuracy_is_that_of_the_best_decision(prior):
    for account, one, other in ((GAUSSIAN, norm(1), norm(0)), (LAPLACE, laplace(1), laplace(0))):

        def right(x, one=one, other=other):
            return max(prior * one.pdf(x), (1 - prior) * other.pdf(x))

        ends = sorted([-40.0, -8.0, 0.0, 0.5, 1.0, 8.0, 40.0, 0.5 + np.log((1 - prior) / prior)])
        pieces = itertools.pairwise(ends)
        exact = sum(integrate.quad(right, *piece, epsabs=1e-13, limit=200)[0] for piece in pieces)
        assert account.accuracy(prior) == pytest.approx(exact, abs=1e-9)
    assert account.accuracy([0.0, 1.0]).tolist() == [1.0, 1.0]


def success_of_codes(count, mu):
    """Success in telling which of `count` orthogonal secrets at distances mu was released with Gaussian noise."""
    length = mu / np.sqrt(2)
    return integrate.quad(lambda x: norm.pdf(x - length) * norm.cdf(x) ** (count - 1), -12, 14)[0]


@pytest.mark.parametrize(("count", "mu", "success"), [(4, 1.0, 0.4585), (10, 2.0, 0.4792)])
def test_orthogonal_codes_stay_below_the_risk(count, mu, success):
    found = success_of_codes(count, mu)
    assert found == pytest.approx(success, abs=1e-4)
    account = ps.GaussianAccountant(sensitivity=mu, noise_std=1)
    assert found < account.risk(1 / count) == pytest.approx(norm.cdf(norm.ppf(1 / count) + mu))
    broken = ps.GaussianAccountant(sensitivity=mu / 2, noise_std=1)
    assert found > broken.risk(1 / count)


def test_risk_holds_for_secrets_that_are_not_equally_likely():
    """Secrets whose guesses succeed with different baselines: Jensen's inequality bounds their mean."""
    weights, mu = np.array([0.6, 0.3, 0.1]), 1.0
    account = ps.GaussianAccountant(sensitivity=mu, noise_std=1)

    def right(x):  # the best guess among scalar secrets 0, mu/2 and mu, where a substitute gives the weights
        return max(w * norm.pdf(x - s) for w, s in zip(weights, (0.0, mu / 2, mu), strict=True))

    success = integrate.quad(right, -10, 12, limit=200)[0]
    assert success < account.with_relation(ps.ReplaceOne(n=9)).risk(weights.max())
    # Without Jensen's inequality, a bound from the least baseline alone would be false.
    assert success > account.risk(weights.min())


def test_the_best_attack_on_secrets_stays_below_the_risk_and_broken_copies_do_not(monkeypatch):
    """All attacks on a secret that the release tells with some probability, and replaces by a random one otherwise."""

    def exceeds(seed, baseline=lambda weights, _: weights.max()):
        """Whether the success of the best attack is more than the risk at the success of the best one without."""
        rng = np.random.default_rng(seed)
        count, told = rng.integers(2, 7), rng.uniform(0.2, 0.8)
        weights, without = rng.dirichlet(np.full(count, 50.0)), rng.dirichlet(np.full(count, 50.0))
        outputs = told * np.eye(count) + (1 - told) * without  # one row for each secret
        account = ps.PairAccountant(p=outputs, q=np.tile(without, (count, 1)))
        success = (weights[:, None] * outputs).max(axis=0).sum()
        return success > account.risk(baseline(weights, without), direction="remove") * (1 + 1e-12)

    assert not any(map(exceeds, range(30)))
    own = risk._curves
    with monkeypatch.context() as broken:  # the other order of the neighbours
        broken.setattr(risk, "_curves", lambda *given: tuple(curve.reverse for curve in own(*given)))
        assert any(map(exceeds, range(30)))
    # Jensen's inequality in the wrong direction: the geometric mean of the baselines of the secrets
    assert any(exceeds(seed, lambda weights, without: np.exp(weights @ np.log(without))) for seed in range(30))


def test_a_corner_beside_a_node_does_not_end_the_search():
    # the type II error is linear next to the first epsilons
    p = np.array([0.0001320339756479886, 0.9998679290274675, 8.341037790691023e-14, 3.699680121837636e-08])
    q = np.array([6.08235884146282e-08, 9.388955913537752e-09, 5.827022757182631e-09, 0.9999999239604329])
    rates = np.geomspace(1e-8, 1e-4, 40)
    with mp.workdps(50):
        order = np.argsort(-q / p)
        false, true = (np.append(0.0, np.cumsum([mp.mpf(float(y)) for y in one[order]])) for one in (p, q))
        ends = [int(np.searchsorted(false.astype(float), a)) for a in rates]
        exact = [
            float(1 - true[k - 1] - (true[k] - true[k - 1]) * (a - false[k - 1]) / (false[k] - false[k - 1]))
            for k, a in zip(ends, rates, strict=True)
        ]
    found = ps.PairAccountant(p=p, q=q).tradeoff(rates, direction="add")
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-12)


def test_small_rates_pure_ends_and_values_without_a_limit():
    assert LAPLACE.power([0.0, 1e-200]) == pytest.approx([0.0, np.e * 1e-200], rel=1e-12)
    assert LAPLACE.tradeoff([0.0, 1.0]).tolist() == [1.0, 0.0]
    stated = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-5)
    assert float(stated.power(0.0)) == pytest.approx(1e-5, rel=1e-9)
    assert direction_bounds(stated)[0].pure_epsilon == np.inf
    assert GAUSSIAN.power(0.0) == 0.0
    value = LAPLACE.positive_predictive_value([1e-12, 0.1], [[0.01], [0.0]])
    assert value == pytest.approx(np.array([[np.e / (np.e + 99)] * 2, [0.0, 0.0]]), rel=1e-11)
    assert LAPLACE.positive_predictive_value(0.1, 1.0) == 1.0
    assert GAUSSIAN.positive_predictive_value(1e-300, 1e-3) > 0.99
    nothing = ps.PureAccountant(stated_epsilon=0.0)
    assert nothing.risk([0.0, 0.1, 1.0]) == pytest.approx([0.0, 0.1, 1.0], rel=1e-15)
    assert ps.PureAccountant(stated_epsilon=800.0).risk([0.0, 0.1]).tolist() == [0.0, 1.0]
    assert ps.ApproximateAccountant(stated_epsilon=0.0, stated_delta=0.3).tradeoff([0.5, 0.8]) == pytest.approx(
        [0.2, 0.0], abs=1e-12
    )
    assert GAUSSIAN.tradeoff(np.full((2, 3), 0.1)).shape == (2, 3)
    assert GAUSSIAN.power([]).shape == (0,)


def test_compositions_on_a_grid_need_few_grids():
    """The curve is evaluated on few grids, and repeated questions cost nothing."""
    account, calls = 3 * GAUSSIAN + 4 * LAPLACE, []
    (curve,) = direction_bounds(account)
    excess = curve.log_excess

    def counted(epsilon):
        calls.append(epsilon.size)
        return excess(epsilon)

    pure = account.bounds.pure_epsilon
    powers, _ = least_errors(counted, np.array([0.01]), kinks=(-pure, pure), tolerance=1e-8, points=9)
    assert powers == pytest.approx([0.549845260], rel=1e-8)
    assert len(calls) <= 10
    epsilons = np.linspace(0.0, 8.0, 400)
    least = (account.delta(epsilons) + np.exp(epsilons) * 0.01).min()
    assert powers[0] <= least * (1 + 1e-8) <= powers[0] * 1.001
    assert account.power(0.01) == account.power([0.01])[0] == pytest.approx(powers[0], rel=1e-7)


def test_a_search_that_ends_early_is_a_bound(monkeypatch):
    monkeypatch.setattr("privsample.accounting.curves.power._ROUNDS", 1)
    account = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    assert norm.cdf(norm.ppf(0.01) + 1) < account.power(0.01) < 0.12


FAILING = 5 * ps.ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-12) + 2 * LAPLACE


def test_without_false_positives_a_composition_on_a_grid_shows_its_infinity_mass(monkeypatch):
    # Around an epsilon that no finite loss reaches, a grid has as many nodes as it may, whatever their number.
    monkeypatch.setattr(grid_plan, "_MOST_NODES", 2**14)
    assert FAILING.power(0.0) == pytest.approx(FAILING.infinity_mass, rel=1e-9, abs=0)
    assert (FAILING.delta([1e300, 1e9]) == FAILING.power(0.0)).all()


@pytest.mark.long  # a grid of four million nodes
def test_hardly_any_false_positives_add_nothing_to_the_infinity_mass():
    assert FAILING.power(1e-300) == pytest.approx(FAILING.infinity_mass, rel=1e-5, abs=0)


def test_what_cannot_be_asked():
    for call in (GAUSSIAN.tradeoff, GAUSSIAN.power, GAUSSIAN.accuracy, GAUSSIAN.risk):
        for wrong in (-0.1, 1.5, np.nan, np.inf):
            with pytest.raises(ValueError, match=r"must (lie in \[0, 1\]|not contain NaN)"):
                call(wrong)
        with pytest.raises(ValueError, match="direction must be 'remove', 'add' or None"):
            call(0.1, direction="both")
        with pytest.raises(TypeError, match="must be real numbers"):
            call("0.1")
    with pytest.raises(ValueError, match="false_positive_rate must be > 0"):
        GAUSSIAN.positive_predictive_value([0.1, 0.0], 0.5)
    with pytest.raises(ValueError, match="shapes that broadcast"):
        GAUSSIAN.positive_predictive_value([0.1, 0.2], [0.5, 0.1, 0.3])
    replaced = GAUSSIAN.to(ps.ReplaceOne(n=5))
    with pytest.raises(RelationMismatch, match="direction must be None under ReplaceOne"):
        replaced.advantage(direction="remove")
    assert replaced.advantage() > GAUSSIAN.advantage()
    graph = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
    profile = GAUSSIAN.with_relation(ps.ProfileEdge(graph))
    with pytest.raises(RelationMismatch, match="ProfileEdge"):
        profile.risk(0.1)
    assert profile.power(0.1) == GAUSSIAN.power(0.1)


def test_the_target_risk():
    target = ps.Risk(0.01, 0.05)
    assert target == ps.Risk(baseline=0.01, success=0.05)
    mechanism = ps.GaussianMechanism.calibrate(target=target, sensitivity=1)
    mu = norm.ppf(0.05) - norm.ppf(0.01)
    assert mechanism.noise_std == pytest.approx(1 / mu, rel=1e-8)
    assert target.met_by(mechanism.accountant)
    assert not target.met_by(ps.GaussianAccountant(sensitivity=1, noise_std=0.9 / mu))
    posterior = ps.DiffusedPosterior.calibrate(target=ps.Risk(0.01, 0.02), model=ps.BetaBernoulli(6, 12), n=100)
    assert 0.0199 < posterior.accountant.risk(0.01) <= 0.02
    with pytest.raises(UnreachableTarget, match="may succeed with"):
        ps.DirectPosterior.calibrate(target=target, model=ps.BetaBernoulli(1, 1), n=100)
    for wrong, words in (((0.0, 0.5), "baseline must lie"), ((0.1, 0.1), "success must lie"), ((0.1, 1.0), "success")):
        with pytest.raises(ValueError, match=words):
            ps.Risk(*wrong)
    with pytest.raises(TypeError, match="baseline must be a number"):
        ps.Risk("0.1", 0.5)


def test_statements_say_what_an_attacker_gains():
    text = ps.privacy_statement(LAPLACE, 0.0)
    assert text.startswith(
        "Someone who, without this release, would be right about one record at most once in a hundred"
    )
    assert "is right at most 2.72 times in a hundred with it, whatever else they know about other records." in text
    household = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=ps.AddRemove(unit="household"))
    assert "about one household" in ps.privacy_statement(household)
    for silent in (
        LAPLACE.group(2),
        ps.PureAccountant(stated_epsilon=9.0),
        ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=0.5),
    ):
        assert "guesses" not in ps.privacy_statement(silent)
