"""Densities and distribution functions of noisy counts deep in both tails, against sums in 50 digits."""

import itertools
from functools import cache

import mpmath
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from privsample.distributions.noise import NAMES
from privsample.pymc import NoisyCount, NoisyMultinomial, NoisyPoisson

PYTHON = Mode(linker="py", optimizer=None)
FAR = np.array([-1000.0, -60.0, -2.0, 0.0, 1.0, 15.0, 39.0, 201.0, 1500.0])
every_family = pytest.mark.parametrize("family", NAMES)
RELATIVE = 1e-12  # of the density; its logarithm has a rounding error of its own


def log_error(found, exact):
    """The error of the log density beyond the rounding of the logarithm itself."""
    return max(float(abs(found - exact)) - 4e-16 * float(abs(exact)), 0.0)


def noise_in_fifty_digits(family, scale):
    """The density of the noise as a function, which computes each value once."""
    b = mpmath.mpf(scale)
    if family == "laplace":
        return cache(lambda x: mpmath.exp(-abs(mpmath.mpf(x)) / b) / (2 * b))
    if family == "gaussian":
        return cache(lambda x: mpmath.npdf(mpmath.mpf(x), 0, b))
    if family == "discrete laplace":
        q = mpmath.exp(-1 / b)
        return cache(lambda x: q ** abs(x) * (1 - q) / (1 + q))
    total = 1 + 2 * sum(mpmath.exp(-((k / b) ** 2) / 2) for k in range(1, int(20 * scale) + 9))
    return cache(lambda x: mpmath.exp(-((mpmath.mpf(x) / b) ** 2) / 2) / total)


@cache
def binomial(n, p):
    with mpmath.workdps(50):
        p = mpmath.mpf(p)
        return [mpmath.binomial(n, s) * p**s * (1 - p) ** (n - s) for s in range(n + 1)]


@cache
def poisson(mu):
    with mpmath.workdps(50):
        masses, s = [], mpmath.exp(-mpmath.mpf(mu))
        for k in range(2000):
            masses.append(s)
            s *= mpmath.mpf(mu) / (k + 1)
        return [mass for mass in masses if mass]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


@pytest.mark.parametrize("scale", [0.3, 1.0, 25.0])
@every_family
def test_binomial_counts_and_their_derivative(family, scale):
    """At p = 0 and 1 the derivative is one-sided."""
    noise = noise_in_fifty_digits(family, scale)
    y = FAR + (0.0 if family.startswith("discrete") else 0.25)
    cases = [(200, 0.001), (200, 0.3), (30, 0.99), (1, 0.5), (200, 0.0), (30, 1.0), (50, 1e-12)]
    size, p, at = pt.dcol("size"), pt.dcol("p"), pt.dvector("at")
    out = pm.logp(NoisyCount.dist(size, p, noise=family, noise_scale=scale), at)
    compute = pytensor.function([size, p, at], [out, pytensor.grad(out.sum(), p, consider_constant=[])], mode=PYTHON)
    values, _ = compute(*np.array(cases).T[..., None], y)
    for (n, share), row in zip(cases, values, strict=True):
        masses, exact = binomial(n, share), []
        for value in y:
            terms = [noise(float(value) - s) for s in range(n + 1)]
            density = mpmath.fdot(masses, terms)
            below = mpmath.fdot(binomial(n - 1, share), terms[:-1]) if n > 1 else terms[0]
            above = mpmath.fdot(binomial(n - 1, share), terms[1:]) if n > 1 else terms[1]
            exact.append((mpmath.log(density), n * (above - below) / density))
        assert max(map(log_error, row, (value for value, _ in exact))) < RELATIVE, (n, share)
        _, slopes = compute(np.full((1, 1), n), np.full((1, 1), share), y)
        due = float(sum(slope for _, slope in exact))
        assert slopes.sum() == pytest.approx(due, rel=1e-9), (n, share)


@every_family
def test_poisson_counts(family):
    noise = noise_in_fifty_digits(family, 2.0)
    for mu in (0.0, 1e-6, 4.0, 60.0):
        found = pm.logp(NoisyPoisson.dist(mu, noise=family, noise_scale=2.0, size=len(FAR)), FAR).eval(mode=PYTHON)
        for value, density in zip(FAR, found, strict=True):
            exact = mpmath.log(mpmath.fdot((m, noise(int(value) - k)) for k, m in enumerate(poisson(mu))))
            assert log_error(density, exact) < RELATIVE, (mu, value)


def below_in_fifty_digits(family, scale, n, p, y):
    """P(Y <= y) and P(Y > y)."""
    b, masses = mpmath.mpf(scale), binomial(n, p)
    if family.startswith("discrete"):
        noise, far = noise_in_fifty_digits(family, scale), 130 * int(scale + 1)
        sides = [mpmath.mpf(0), mpmath.mpf(0)]
        for s, mass in enumerate(masses):
            off = int(y) - s
            reach = far + abs(off)
            sides[0] += mass * sum(noise(k) for k in range(min(off, 0) - far, off + 1)) if off < 0 else 0
            sides[1] += mass * sum(noise(k) for k in range(off + 1, reach)) if off >= 0 else 0
            sides[0] += mass * (1 - sum(noise(k) for k in range(off + 1, reach))) if off >= 0 else 0
            sides[1] += mass * (1 - sum(noise(k) for k in range(off - far, off + 1))) if off < 0 else 0
        return sides
    if family == "gaussian":
        one = lambda x: mpmath.erfc(-x / b / mpmath.sqrt(2)) / 2  # noqa: E731
    else:
        one = lambda x: mpmath.exp(x / b) / 2 if x < 0 else 1 - mpmath.exp(-x / b) / 2  # noqa: E731
    offs = [mpmath.mpf(float(y)) - s for s in range(n + 1)]
    return [mpmath.fdot(masses, map(one, offs)), mpmath.fdot(masses, (one(-off) for off in offs))]


@every_family
def test_distribution_functions_have_small_relative_errors_in_both_tails(family):
    y = np.array([-100.0, -3.0, 4.0, 9.0, 15.0, 40.0, 70.0])
    found = pm.logcdf(NoisyCount.dist(30, 0.3, noise=family, noise_scale=1.5, size=len(y)), y).eval(mode=PYTHON)
    for value, log_below in zip(y, found, strict=True):
        below, above = below_in_fifty_digits(family, 1.5, 30, 0.3, value)
        exact = mpmath.log(below) if below < 0.6 else mpmath.log1p(-above)
        assert log_below == pytest.approx(float(exact), rel=1e-12), value


@every_family
@pytest.mark.parametrize(
    ("n", "p", "observed", "scale"),
    [
        (12, (0.5, 0.3, 0.2), (7, 1, -3), 1.0),
        (40, (0.9, 0.05, 0.05), (10, 20, 70), 0.7),
        (12, (1.0, 0.0, 0.0), (3, 10, 7), 2.0),
        pytest.param(30, (1.0, 0.0, 0.0), (3, 25, 17), 2.0, marks=pytest.mark.long),
        pytest.param(25, (0.5, 0.3, 0.2), (7, 1, -3), 0.4, marks=pytest.mark.long),
    ],
)
def test_categories(family, n, p, observed, scale):
    """The means of the counts given the noisy ones are the derivatives, too; all categories far from their noise."""
    noise, places = noise_in_fifty_digits(family, scale), range(len(p))
    total, means = mpmath.mpf(0), [mpmath.mpf(0)] * len(p)
    terms = [
        [mpmath.mpf(p[k]) ** s / mpmath.factorial(s) * noise(observed[k] - s) for s in range(n + 1)] for k in places
    ]
    for head in itertools.product(range(n + 1), repeat=len(p) - 1):
        if sum(head) <= n:
            counts = (*head, n - sum(head))
            term = mpmath.factorial(n) * mpmath.fprod(terms[k][counts[k]] for k in places)
            total += term
            means = [means[k] + counts[k] * term for k in places]
    shares = pt.dvector("p", shape=(len(p),))
    variable = NoisyMultinomial.dist(n, shares, noise=family, noise_scale=scale, exact=True)
    out = pm.logp(variable, np.array(observed, dtype=float))
    value, slopes = pytensor.function([shares], [out, pytensor.grad(out, shares)], mode=PYTHON)(p)
    assert log_error(value, mpmath.log(total)) < RELATIVE
    due = [float(mean / total) for mean in means]
    assert (slopes + n) * np.array(p) == pytest.approx(due, rel=1e-9, abs=1e-9)
