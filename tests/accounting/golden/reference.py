"""Definitions in high precision, independent of the library's formulas: mpmath's special functions and quadrature.

Parameters come in as floats and are taken as the exact binary numbers that they are.
"""

from collections.abc import Callable
from typing import Any

import mpmath as mp

Real = Any
Log = Callable[[Real], Real]


def at(digits: int) -> Any:
    """Work with this many digits."""
    return mp.workdps(digits)


def _exp(x: Real) -> Real:
    """exp, short of what memory can hold: only compared against far smaller numbers."""
    return mp.exp(min(x, mp.mpf(10) ** 5))


# Rényi divergences of two distributions of one family: the log normalizer at the blend of the natural parameters.


def renyi_beta(order: Real, p: tuple[Real, Real], q: tuple[Real, Real]) -> Real:
    """Beta(*p) against Beta(*q)."""
    return renyi_dirichlet(order, p, q)


def renyi_dirichlet(order: Real, p: tuple[Real, ...], q: tuple[Real, ...]) -> Real:
    """Dirichlet(p) against Dirichlet(q)."""
    order = mp.mpf(order)
    blend = [order * mp.mpf(u) + (1 - order) * mp.mpf(v) for u, v in zip(p, q, strict=True)]
    if min(blend) <= 0:
        return mp.inf

    def normalizer(alpha: Any) -> Real:
        return sum(mp.loggamma(mp.mpf(u)) for u in alpha) - mp.loggamma(sum(mp.mpf(u) for u in alpha))

    return (normalizer(blend) - order * normalizer(p)) / (order - 1) + normalizer(q)


def renyi_gamma(order: Real, p: tuple[Real, Real], q: tuple[Real, Real]) -> Real:
    """Gamma(shape, rate) distributions p against q."""
    order = mp.mpf(order)
    (a, b), (c, d) = [tuple(map(mp.mpf, pair)) for pair in (p, q)]
    shape, rate = order * a + (1 - order) * c, order * b + (1 - order) * d
    if shape <= 0 or rate <= 0:
        return mp.inf

    def normalizer(k: Real, beta: Real) -> Real:
        return mp.loggamma(k) - k * mp.log(beta)

    return (normalizer(shape, rate) - order * normalizer(a, b)) / (order - 1) + normalizer(c, d)


def renyi_normal(order: Real, shift: Real, variance: Real) -> Real:
    """Two normal distributions of one variance."""
    return mp.mpf(order) * mp.mpf(shift) ** 2 / (2 * mp.mpf(variance))


def renyi_discrete(order: Real, p: list[Real], q: list[Real]) -> Real:
    """Two distributions on a finite set."""
    order = mp.mpf(order)
    return mp.log(mp.fsum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True) if x)) / (order - 1)


# Hockey-stick divergences: the integral of [p - e^epsilon q]_+ where the loss is monotone in one coordinate.


def beyond(  # noqa: C901 - a search for the window, then the integral
    log_p: Log, log_q: Log, epsilon: Real, start: Real, direction: int, scale: Real
) -> Real:
    """log of the integral of [p - e^eps q]_+ over the half line from `start` in `direction`, where p > e^eps q.

    `scale` is any length within a factor of 1e40 of the integrand's width: the window is found from it.
    """
    epsilon = mp.mpf(epsilon)

    def log_f(u: Real) -> Real:
        z = start + direction * u
        gap = epsilon - (log_p(z) - log_q(z))
        return log_p(z) + (mp.log(-mp.expm1(gap)) if gap > -500 else 0) if gap < 0 else -mp.inf

    # the top, by golden section in log u: the integrand is log-concave in u, so unimodal in log u
    low, high = mp.log(scale) - 120, mp.log(scale) + 120
    golden = (mp.sqrt(5) - 1) / 2
    for _ in range(90):
        one, other = high - golden * (high - low), low + golden * (high - low)
        if log_f(mp.exp(one)) >= log_f(mp.exp(other)):
            high = other
        else:
            low = one
    mode = mp.exp((low + high) / 2)
    peak = log_f(mode)
    if peak < -5000:
        return peak  # nothing that a float could hold
    drop = 30 + mp.mp.dps * mp.log(10) / 2

    def fallen(inside: Real, outside: Real) -> Real:
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if log_f(middle) > peak - drop else (inside, middle)
        return outside

    far = mode
    while log_f(far) > peak - drop:
        far = mode + 2 * (far - mode) if far > mode else 2 * mode
    right = fallen(mode, far) - mode
    left = mode - fallen(mode, mp.mpf(0))
    near = min(right, left) if left > 0 else right
    # the width at which it falls by one, for panels
    step = near
    while log_f(mode + step) < peak - 2:
        step /= 2
    points = [mode]
    width = step
    while points[-1] < mode + right:
        points.append(points[-1] + width)
        width *= 2
    points.insert(0, mode - min(step, left))
    width = 2 * step
    while points[0] > mode - left:
        points.insert(0, max(points[0] - width, mode - left))
        width *= 2
    points[0] = max(points[0], mp.mpf(0))
    value, error = mp.quad(lambda u: mp.exp(log_f(u) - peak), points, method="gauss-legendre", maxdegree=5, error=True)
    assert error < 1e-14 * value
    return peak + mp.log(value)


def log_delta_beta(epsilon: Real, p: tuple[Real, Real], q: tuple[Real, Real]) -> Real:
    """Beta(a + s, b) against Beta(a, b + s), s > 0, in the coordinate logit(theta)."""
    (a, b), (c, d) = [tuple(map(mp.mpf, pair)) for pair in (p, q)]
    step = a - c
    norm_p, norm_q = (mp.loggamma(u) + mp.loggamma(v) - mp.loggamma(u + v) for u, v in ((a, b), (c, d)))

    def softplus(z: Real) -> Real:
        return mp.log1p(mp.exp(max(z, -(mp.mpf(10) ** 5)))) if z < 0 else z + mp.log1p(mp.exp(-min(z, mp.mpf(10) ** 5)))

    def log_p(z: Real) -> Real:
        return a * z - (a + b) * softplus(z) - norm_p

    def log_q(z: Real) -> Real:
        return c * z - (c + d) * softplus(z) - norm_q

    start = (mp.mpf(epsilon) + norm_p - norm_q) / step
    return beyond(log_p, log_q, epsilon, start, 1, 1 / mp.sqrt(a) + 1 / mp.sqrt(b))


def log_delta_gamma(epsilon: Real, p: tuple[Real, Real], q: tuple[Real, Real]) -> Real:
    """Gamma(shape, rate) distributions that differ in one of the two parameters, in the coordinate log(theta)."""
    (a, b), (c, d) = [tuple(map(mp.mpf, pair)) for pair in (p, q)]
    norm_p, norm_q = mp.loggamma(a) - a * mp.log(b), mp.loggamma(c) - c * mp.log(d)

    def log_p(z: Real) -> Real:
        return a * z - b * _exp(z) - norm_p

    def log_q(z: Real) -> Real:
        return c * z - d * _exp(z) - norm_q

    if a != c:  # loss (a - c) z + constant
        start, direction = (mp.mpf(epsilon) + norm_p - norm_q) / (a - c), 1 if a > c else -1
    else:  # loss (d - b) e^z + constant
        place = (mp.mpf(epsilon) + norm_p - norm_q) / (d - b)
        if place <= 0:
            return mp.log(-mp.expm1(mp.mpf(epsilon))) if d > b else -mp.inf
        start, direction = mp.log(place), 1 if d > b else -1
    return beyond(log_p, log_q, epsilon, start, direction, 1 / mp.sqrt(a))


def log_delta_beta_by_tails(epsilon: Real, p: tuple[Real, Real], q: tuple[Real, Real]) -> Real:
    """As log_delta_beta, by two incomplete Beta functions: a check of the quadrature."""
    (a, b), (c, d) = [tuple(map(mp.mpf, pair)) for pair in (p, q)]
    t = (mp.mpf(epsilon) + mp.log(mp.beta(a, b)) - mp.log(mp.beta(c, d))) / (a - c)
    theta, rest = 1 / (1 + mp.exp(-t)), 1 / (1 + mp.exp(t))

    def tail(u: Real, v: Real) -> Real:
        if rest < theta:
            return mp.betainc(v, u, 0, rest, regularized=True)
        return 1 - mp.betainc(u, v, 0, theta, regularized=True)

    return mp.log(tail(a, b) - mp.exp(mp.mpf(epsilon)) * tail(c, d))


def log_delta_gamma_by_tails(epsilon: Real, p: tuple[Real, Real], q: tuple[Real, Real]) -> Real:
    """As log_delta_gamma, by two incomplete Gamma functions."""
    (a, b), (c, d) = [tuple(map(mp.mpf, pair)) for pair in (p, q)]
    constant = mp.loggamma(a) - a * mp.log(b) - mp.loggamma(c) + c * mp.log(d)
    t = mp.exp((mp.mpf(epsilon) + constant) / (a - c)) if a != c else (mp.mpf(epsilon) + constant) / (d - b)
    up = a > c or d > b
    if a == c and t <= 0:  # the loss is bounded by less
        return mp.log(-mp.expm1(mp.mpf(epsilon))) if up else -mp.inf
    tails = []
    for shape, rate in ((a, b), (c, d)):
        ends = (rate * t, mp.inf) if up else (0, rate * t)
        tails.append(mp.gammainc(shape, *ends, regularized=True))
    return mp.log(tails[0] - mp.exp(mp.mpf(epsilon)) * tails[1])


def log_delta_normal(epsilon: Real, mu: Real) -> Real:
    """N(mu, 1) against N(0, 1)."""
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    return mp.log(mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu))
