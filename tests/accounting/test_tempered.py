"""One draw at a temperature: every account compared with brute force over datasets by independent quadrature."""

import itertools
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    DP,
    Accountant,
    BetaBernoulli,
    BoundedRangeAccountant,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    ReplaceOne,
    TemperedAccountant,
)
from privsample._logspace import half_square
from privsample.accounting.posterior.tempered import TemperedCurveRows
from privsample.distributions.models.base import Model

EPSILONS = np.array([-0.3, 0.0, 0.1, 0.4, 0.9])
ORDERS = np.array([1.01, 2.0, 7.0, 40.0])
TWO = BetaBernoulli(alpha=1.5, beta=0.7)
WALKS = {  # model, bounds of the parameter, log likelihood of a record, log prior density, records tried
    "beta": (TWO, 0.2, lambda x, t: x * np.log(t) + (1 - x) * np.log(1 - t), [0, 1]),
    "real beta": (
        BetaBernoulli(alpha=1.5, beta=0.7, fractional=True),
        0.2,
        lambda x, t: x * np.log(t) + (1 - x) * np.log(1 - t),
        [0, 0.3, 1],
    ),
    "two shares": (
        DirichletCategorical(alpha=(1.5, 0.7)),
        0.1,
        lambda x, t: (1 - x) * np.log(t) + x * np.log(1 - t),
        [0, 1],
    ),
    "poisson": (GammaPoisson(shape=2, rate=1, upper=2), (0.5, 2.0), lambda x, t: x * np.log(t) - t, [0, 1, 2]),
    "exponential": (
        GammaExponential(shape=2, rate=1, upper=1.5),
        (0.5, 2.0),
        lambda x, t: np.log(t) - t * x,
        [0, 0.6, 1.5],
    ),
    "normal": (
        NormalKnownVariance(mean=0.2, variance=2, noise_variance=1.5, bounds=(-1, 1)),
        (-0.7, 1.1),
        lambda x, t: -((x - t) ** 2) / 3,
        [-1, 0.2, 1],
    ),
}


def log_prior(model, t):
    match model:
        case BetaBernoulli(alpha=a, beta=b):
            return (a - 1) * np.log(t) + (b - 1) * np.log(1 - t)
        case DirichletCategorical(alpha=(a, b)):
            return (a - 1) * np.log(t) + (b - 1) * np.log(1 - t)
        case GammaPoisson(shape=a, rate=b) | GammaExponential(shape=a, rate=b):
            return (a - 1) * np.log(t) - b * t
        case NormalKnownVariance(mean=m, variance=v):
            return -((t - m) ** 2) / (2 * v)


def walked(name, n, temperature):
    """(account, largest delta, largest divergence) over all datasets of n records, by Gauss's rule on 400 panels."""
    model, truncation, log_likelihood, records = WALKS[name]
    account = TemperedAccountant(model=model, n=n, temperature=temperature, truncation=truncation)
    cuts, (nodes, rule) = np.linspace(*account.parameter_bounds, 401), np.polynomial.legendre.leggauss(10)
    t = (cuts[:-1, None] + np.diff(cuts)[:, None] * (1 + nodes) / 2).ravel()
    weights = (np.diff(cuts)[:, None] * rule / 2).ravel()
    distributions = {}
    for data in itertools.combinations_with_replacement(records, n):
        log_p = (log_prior(model, t) + sum(log_likelihood(x, t) for x in data)) / temperature
        p = np.exp(log_p - log_p.max())
        distributions[data] = p / (p * weights).sum()
    deltas, divergences = np.zeros(len(EPSILONS)), np.zeros(len(ORDERS))
    for data, p in distributions.items():
        for at, other in itertools.product(range(n), records):
            q = distributions[tuple(sorted((*data[:at], *data[at + 1 :], other)))]
            found = [(np.maximum(p - np.exp(e) * q, 0) * weights).sum() for e in EPSILONS]
            deltas = np.maximum(deltas, found)
            ratios = [np.log((p * (p / q) ** (a - 1) * weights).sum()) / (a - 1) for a in ORDERS]
            divergences = np.maximum(divergences, ratios)
    return account, deltas, divergences


@pytest.mark.parametrize(
    ("n", "temperature"),
    [(3, 1.0), *(pytest.param(*more, marks=pytest.mark.long) for more in ((1, 2.5), (1, 1.0), (3, 2.5)))],
)
@pytest.mark.parametrize("name", WALKS)
def test_no_dataset_exceeds_the_account(name, n, temperature):
    account, deltas, divergences = walked(name, n, temperature)
    claimed = account.delta(EPSILONS)
    assert (claimed >= deltas - 1e-7).all()
    assert (account.rdp(ORDERS) >= divergences * (1 - 1e-12)).all()
    whole = name in ("beta", "two shares", "poisson")
    assert (account.rdp(ORDERS) <= divergences * (1.01 if whole else 1.05)).all()
    if account.kind("delta") == "exact":
        np.testing.assert_allclose(claimed, deltas, atol=2e-6)
    else:
        assert name not in ("beta", "two shares")


def test_three_proportions_do_not_exceed_the_account():
    alpha, low, n = np.array([0.6, 1.0, 2.0]), 0.1, 4
    account = TemperedAccountant(model=DirichletCategorical(alpha=tuple(alpha)), n=n, temperature=1.5, truncation=low)
    x = np.linspace(low, 1 - 2 * low, 601)
    first, second = np.meshgrid(x, x)
    third = 1 - first - second
    inside = third >= low
    shares = np.log(np.array([first[inside], second[inside], third[inside]]))
    distributions = {}
    for counts in itertools.product(range(n + 1), repeat=3):
        if sum(counts) == n:
            p = np.exp(((alpha + counts - 1)[:, None] * shares / 1.5).sum(axis=0))
            distributions[counts] = p / p.sum()
    deltas, divergences = np.zeros(len(EPSILONS)), np.zeros(len(ORDERS))
    for counts, p in distributions.items():
        for i, j in itertools.permutations(range(3), 2):
            other = np.array(counts)
            other[[i, j]] += 1, -1
            if other.min() < 0:
                continue
            q = distributions[tuple(other)]
            deltas = np.maximum(deltas, [np.maximum(p - np.exp(e) * q, 0).sum() for e in EPSILONS])
            divergences = np.maximum(divergences, [np.log((p * (p / q) ** (a - 1)).sum()) / (a - 1) for a in ORDERS])
    assert (account.delta(EPSILONS) >= deltas - 1e-3).all()
    assert (account.rdp(ORDERS) >= divergences - 1e-3).all()


@pytest.mark.parametrize(("n", "temperature", "low", "epsilon"), [(30, 2.0, 0.1, 0.7), (200, 1.0, 0.05, 1.4)])
def test_the_exact_curve_far_in_its_tail(n, temperature, low, epsilon):
    """The worst sum at thirty digits, for a delta far below the resolution of a difference of doubles."""
    account = TemperedAccountant(model=TWO, n=n, temperature=temperature, truncation=low)
    claimed = float(account.log_delta(epsilon))
    with mp.workdps(30):
        step = 1 / mp.mpf(temperature)
        base = [1 + (mp.mpf(x) - 1) * step for x in (1.5, 0.7)]
        half = mp.log((1 - mp.mpf(low)) / low)
        total = sum(base) + n * step

        def value(first, s):
            def log_density(slope, y):
                return slope * y - total * mp.log1p(mp.exp(y))

            q = first + step * s
            peak = min(max(mp.log(q / (total - q)), -half), half)
            points = sorted({-half, peak, half})
            scale = log_density(q, peak)
            p_mass, q_mass = (
                mp.quad(lambda y, slope=slope: mp.exp(log_density(slope, y) - scale), points) for slope in (q + step, q)
            )
            start = max((epsilon + mp.log(p_mass / q_mass)) / step, -half)
            if start >= half:
                return mp.mpf(0)
            shift = (epsilon + mp.log(p_mass / q_mass)) / step

            def gap(y):
                return mp.exp(log_density(q + step, y) - scale) * -mp.expm1(-step * (y - shift))

            return (
                mp.quad(gap, sorted({start, min(start + half / 20, half), max(start, min(peak, half)), half})) / p_mass
            )

        sums = sorted({0, n - 1, *np.linspace(0, n - 1, 4).astype(int).tolist(), int(low * n), int((1 - low) * n)})
        worst = max(value(first, s) for first in base for s in sums)
    assert claimed >= float(mp.log(worst)) - 1e-9
    every = max(
        float(family._log_delta(epsilon, np.array(sums), np.array(sums)).max())
        for family in (
            account._exact_family,
            replace(account._exact_family, a=account._exact_family.b, b=account._exact_family.a),
        )
    )
    assert every == pytest.approx(float(mp.log(worst)), abs=1e-7)


def test_the_local_search_finds_the_maximum_over_all_sums():
    account = TemperedAccountant(model=TWO, n=150, temperature=1.2, truncation=0.1)
    family = account._exact_family
    some = family.log_delta(np.array([0.2, 0.8]), certified=False)
    every = family.log_delta(np.array([0.2, 0.8]), certified=True)
    assert (some <= every).all()
    np.testing.assert_allclose(some, every, rtol=1e-6)
    assert account.delta(account.epsilon(1e-6)) <= 1e-6 * (1 + 1e-9)


def test_the_cost_falls_with_the_number_of_records():
    costs = [
        TemperedAccountant(model=TWO, n=n, temperature=1, truncation=0.1).epsilon(1e-6) for n in (10, 100, 500, 10**12)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 2
    assert costs[-1] < 1e-4
    pure = [TemperedAccountant(model=TWO, n=n, temperature=1, truncation=0.1).epsilon(0.0) for n in (10, 5000)]
    np.testing.assert_allclose(pure, 2 * np.log(9))


def test_views_are_the_minimum_of_two_bounds():
    account = TemperedAccountant(model=DirichletCategorical(alpha=(1, 1, 1)), n=10, temperature=4, truncation=0.2)
    assert account.kind("rdp") == account.kind("epsilon") == "upper bound"
    assert account.pure_epsilon == pytest.approx(2 * np.log(3) / 4)
    assert account.bounds.directions[0][0].max_divergence == pytest.approx(account.pure_epsilon)
    bounded = BoundedRangeAccountant(loss_range=account.loss_range, relation=ReplaceOne(n=10))
    assert (account.rdp(ORDERS) <= bounded.rdp(ORDERS)).all()
    assert (account.rdp(ORDERS) <= account.shift**2 / 2 * ORDERS).all()
    assert account.zcdp == min(bounded.zcdp, half_square(account.shift))
    assert "ReplaceOne" in repr(account.relation)
    assert "tempered.md" in account.source


@pytest.mark.parametrize(
    ("model", "truncation"),
    [
        (TWO, 1e-7),
        (TWO, 0.3),
        (TWO, 0.4999999),
        (DirichletCategorical(alpha=(1, 1, 1)), 1e-7),
        (GammaPoisson(shape=1, rate=1, upper=3), (100.0, 100.0 + 1e-9)),
        (GammaPoisson(shape=1, rate=1, upper=3), (1e-300, 1.9e-300)),
    ],
)
def test_the_range_covers_the_bounds_as_they_are_drawn(model, truncation):
    """At fifty digits, for the floats that truncate the draw."""
    account = TemperedAccountant(model=model, n=9, temperature=1.5, truncation=truncation)
    with mp.workdps(50):
        low, high = map(mp.mpf, account.parameter_bounds)
        match model:
            case GammaPoisson(upper=most):
                true = most * mp.log(high / low)
            case BetaBernoulli():
                true = mp.log(high / (1 - high)) - mp.log(low / (1 - low))
            case _:
                true = 2 * mp.log(high / low)
        true /= mp.mpf(1.5)
        assert account.loss_range >= true
        assert account.loss_range == pytest.approx(float(true), rel=1e-6)


def test_the_curvature_survives_a_high_temperature():
    """(shape - 1 + n)/T would cancel if computed from the tempered shape."""
    model = GammaExponential(shape=1e-3, rate=1, upper=2.0)
    account = TemperedAccountant(model=model, n=1, temperature=1e12, truncation=(0.5, 2.0))
    assert account.shift == pytest.approx(2.0 * 2.0 / np.sqrt(1e-3 * 1e12), rel=1e-12)


def test_the_temperature_of_the_thesis():
    """Figure 4.1: T = 2 log 4 = 2.7726 for epsilon = 1 at truncation 0.2."""
    account = TemperedAccountant(model=TWO, n=20, temperature=2 * np.log(4), truncation=0.2)
    assert account.epsilon(0.0) == pytest.approx(1.0)
    assert DP(epsilon=1 + 1e-9).met_by(account)


def real(account):
    """The account of real records in place of whole ones, which compositions use."""
    if len(account.model.empty.shape) > 0 and account.model.empty.size == 2:
        alpha, beta = account.model.alpha
    elif isinstance(account.model, BetaBernoulli):
        alpha, beta = account.model.alpha, account.model.beta
    else:
        return account
    return replace(account, model=BetaBernoulli(alpha=alpha, beta=beta, fractional=True))


def test_groups_have_larger_shifts():
    account = TemperedAccountant(model=TWO, n=6, temperature=2, truncation=0.1)
    group = account.group(3)
    assert group.relation == ReplaceOne(n=6, members=3)
    assert group.loss_range == pytest.approx(3 * account.loss_range)
    assert (group.delta(EPSILONS) <= real(account).group(3).delta(EPSILONS) * (1 + 1e-12)).all()
    assert (group.delta(EPSILONS) >= account.delta(EPSILONS)).all()
    assert account.group(9).group_size == 6
    assert group.group(1) == group


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in ("real beta", "two shares") else []) for name in WALKS],
)
def test_compositions_and_files(name):
    model, truncation, *_ = WALKS[name]
    account = TemperedAccountant(model=model, n=8, temperature=3, truncation=truncation)
    assert Accountant.from_dict(account.to_dict()) == account
    three = 3 * account
    assert account.epsilon(1e-5) < three.epsilon(1e-5) < 3 * real(account).epsilon(1e-5)
    assert three.epsilon(0.0) == pytest.approx(3 * account.loss_range)


@pytest.mark.parametrize(
    ("model", "truncation", "message"),
    [
        (TWO, 0.0, r"\(0, 1/2\)"),
        (TWO, 0.5, r"\(0, 1/2\)"),
        (TWO, np.nan, r"\(0, 1/2\)"),
        (TWO, 1e-17, "1e-09 or more from its ends"),
        (DirichletCategorical(alpha=(1,) * 10), np.nextafter(0.1, 0), "1e-09 or more from its ends"),
        (DirichletCategorical(alpha=(1, 1, 1)), 0.4, r"\(0, 1/3\)"),
        (GammaPoisson(shape=1, rate=1, upper=3), (0.0, 1.0), "inside"),
        (GammaPoisson(shape=1, rate=1, upper=3), (2.0, 1.0), "low < high"),
        (NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 1)), 0.2, "pair"),
    ],
)
def test_truncations_are_checked(model, truncation, message):
    with pytest.raises(ValueError, match=message):
        TemperedAccountant(model=model, n=5, temperature=1, truncation=truncation)


def test_other_fields_are_checked():
    for wrong in (0.99, 0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature must be finite and >= 1"):
            TemperedAccountant(model=TWO, n=5, temperature=wrong, truncation=0.1)
    with pytest.raises(TypeError, match="model"):
        TemperedAccountant(model="beta", n=5, temperature=1, truncation=0.1)
    with pytest.raises(TypeError, match="truncation"):
        TemperedAccountant(model=TWO, n=5, temperature=1, truncation=(0.1, 0.9))
    with pytest.raises(ValueError, match="n must"):
        TemperedAccountant(model=TWO, n=0, temperature=1, truncation=0.1)
    waiting = GammaExponential(shape=1, rate=1, upper=1)
    with pytest.raises(ValueError, match="must be finite"):
        TemperedAccountant(model=waiting, n=1, temperature=1, truncation=(1e-300, 1e300))

    class Other(Model):
        domain = parameter = posterior = None

    with pytest.raises(TypeError, match="no account is known for a tempered draw of Other"):
        Other().log_ratio(5, 1.0, (0.1, 0.9))


def test_the_rows_of_several_numbers_of_records_have_the_largest_renyi_curve_of_all():
    accounts = tuple(
        TemperedAccountant(model=BetaBernoulli(1, 1), n=n, temperature=4.0, truncation=0.1) for n in (2, 3)
    )
    orders = np.array([2.0, 8.0])
    found = TemperedCurveRows(accounts=accounts).limit_renyi(orders, np.full(2, np.inf))
    assert found == pytest.approx(np.max([account.rdp(orders) for account in accounts], axis=0), rel=1e-12)
