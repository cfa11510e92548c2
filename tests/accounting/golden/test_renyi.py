"""Rényi curves against the definition in 130 digits: relative 1e-10 over all extremes, and never NaN or negative."""

import itertools
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    PosteriorAccountant,
)
from tests.accounting.golden import reference
from tests.cases import in_one_test

RELATIVE = 1e-10
ORDERS = [1 + 1e-6, 1 + 2.0**-10, 1.5, 2.0, 3.0, 17.0, 1e3, 1e6]
SIZES = [1, 2, 1000, 10**6, 10**12]
WEIGHTS = [(1.0, 1.0), (0.3, 1.0), (1.0, 1e3), (1e-9, 1.0)]
PRIORS = [1e-6, 0.5, 6.0, 1e3, 1e9]


def check(account: PosteriorAccountant, limit: object, truth: Callable[[float], object]) -> None:
    """Compare at the common orders and close to the limit, below and above it."""
    assert account.order_limit == pytest.approx(float(limit), rel=1e-15)
    near = [] if mp.isinf(limit) else [1 + (float(limit) - 1) * share for share in (0.1, 0.9, 1 - 1e-6, 1.0, 1.5)]
    orders = np.array(sorted({o for o in [*ORDERS, *near] if 1 < o < 1e15}))
    values = account.rdp(orders)
    assert not np.isnan(values).any()
    assert (values >= 0).all()
    finite = values[np.isfinite(values)]
    assert (np.diff(finite) >= -RELATIVE * finite[1:]).all()
    for order, value in zip(orders, values, strict=True):
        if order >= account.order_limit:
            assert np.isposinf(value)
        elif abs(order / float(limit) - 1) > 1e-14:
            expected = truth(float(order))
            assert abs(value / expected - 1) <= RELATIVE, (order, value, mp.nstr(expected, 20))


def exact(*numbers: float) -> list[object]:
    return [mp.mpf(x) for x in numbers]


@in_one_test(
    itertools.product([(1e-6, 1e-6), (1e-6, 1e9), (0.5, 6.0), (6.0, 12.0), (1e9, 1e9)], SIZES, WEIGHTS),
)
def test_beta_bernoulli(prior, n, weights):
    r, w = weights
    account = PosteriorAccountant(
        model=BetaBernoulli(alpha=prior[0], beta=prior[1]), n=n, data_weight=r, prior_weight=w
    )
    with reference.at(130):
        (a, b), r, w = exact(*prior), mp.mpf(r), mp.mpf(w)
        a, b = w * a, w * b
        neighbours = []
        for s in {0, n - 1}:
            one, other = (a + r * (s + 1), b + r * (n - 1 - s)), (a + r * s, b + r * (n - s))
            neighbours += [(one, other), (other, one)]
        check(account, 1 + min(a, b) / r, lambda o: max(reference.renyi_beta(o, p, q) for p, q in neighbours))


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("prior", [(0.5, 6.0), (1e-3, 1e-3), (40.0, 2.0)])
def test_beta_bernoulli_over_all_data_sets(prior, n):
    account = PosteriorAccountant(model=BetaBernoulli(alpha=prior[0], beta=prior[1]), n=n)
    with reference.at(60):
        distributions = [(mp.mpf(prior[0]) + s, mp.mpf(prior[1]) + n - s) for s in range(n + 1)]
        neighbours = [pair for one, other in itertools.pairwise(distributions) for pair in ((one, other), (other, one))]
        check(account, 1 + mp.mpf(min(prior)), lambda o: max(reference.renyi_beta(o, p, q) for p, q in neighbours))


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("prior", [(0.5, 6.0), (2.0, 0.25, 3.0), (1e-6, 1e9, 1.0), (5.0, 5.0, 5.0, 5.0)])
def test_dirichlet_over_all_data_sets(prior, n):
    account = PosteriorAccountant(model=DirichletCategorical(alpha=prior), n=n)
    categories = range(len(prior))
    with reference.at(100):

        def distribution(records: tuple[int, ...]) -> tuple[object, ...]:
            return tuple(mp.mpf(prior[k]) + records.count(k) for k in categories)

        common = itertools.combinations_with_replacement(categories, n - 1)
        neighbours = [
            (distribution((*rest, x)), distribution((*rest, y)))
            for rest in common
            for x, y in itertools.permutations(categories, 2)
        ]
        check(account, 1 + mp.mpf(min(prior)), lambda o: max(reference.renyi_dirichlet(o, p, q) for p, q in neighbours))


@in_one_test(itertools.product(PRIORS, [1, 1000], WEIGHTS))
def test_gamma_poisson(shape, upper, weights):
    r, w = weights
    model = GammaPoisson(shape=shape, rate=0.75, upper=upper)
    account = PosteriorAccountant(model=model, n=10**6, data_weight=r, prior_weight=w)
    with reference.at(130):
        low = mp.mpf(w) * mp.mpf(shape)
        step, rate = mp.mpf(r) * upper, mp.mpf(w) * mp.mpf(0.75) + mp.mpf(r) * 10**6
        p, q = (low, rate), (low + step, rate)
        check(
            account,
            1 + low / step,
            lambda o: max(reference.renyi_gamma(o, p, q), reference.renyi_gamma(o, q, p)),
        )


@in_one_test(itertools.product(PRIORS, [1, 1000, 10**12], WEIGHTS))
def test_gamma_exponential(rate, n, weights):
    r, w = weights
    model = GammaExponential(shape=0.75, rate=rate, upper=2.5)
    account = PosteriorAccountant(model=model, n=n, data_weight=r, prior_weight=w)
    with reference.at(130):
        low = mp.mpf(w) * mp.mpf(rate)
        shape, step = mp.mpf(w) * mp.mpf(0.75) + mp.mpf(r) * n, mp.mpf(r) * 2.5
        p, q = (shape, low), (shape, low + step)
        check(
            account,
            1 + low / step,
            lambda o: max(reference.renyi_gamma(o, p, q), reference.renyi_gamma(o, q, p)),
        )


@in_one_test(itertools.product(PRIORS, [1, 1000, 10**12], WEIGHTS))
def test_normal(variance, n, weights):
    r, w = weights
    model = NormalKnownVariance(mean=3.0, variance=variance, noise_variance=0.7, bounds=(-1.0, 4.0))
    account = PosteriorAccountant(model=model, n=n, data_weight=r, prior_weight=w)
    with reference.at(60):
        own, theirs = mp.mpf(w) / mp.mpf(variance), mp.mpf(r) / mp.mpf(0.7)
        precision = own + n * theirs
        check(account, mp.inf, lambda o: reference.renyi_normal(o, theirs * 5 / precision, 1 / precision))


def test_the_closed_forms_are_the_definition():
    with reference.at(50):

        def density(a: int, b: int) -> Callable[[object], object]:
            return lambda x: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)

        p, q = density(4, 5), density(3, 6)
        integral = mp.quad(lambda x: p(x) ** 3 / q(x) ** 2, [0, 0.5, 1])
        assert abs(mp.log(integral) / 2 - reference.renyi_beta(3, (4, 5), (3, 6))) < 1e-40
        p, q = (lambda x: x**3 * 2**4 * mp.exp(-2 * x) / 6), (lambda x: x**2 * 3**3 * mp.exp(-3 * x) / 2)
        integral = mp.quad(lambda x: p(x) ** 1.5 / q(x) ** 0.5 if x else mp.mpf(0), [0, 1, 4, 16, 64, 256])
        assert abs(2 * mp.log(integral) - reference.renyi_gamma(1.5, (4, 2), (3, 3))) < 1e-30
