"""Elementary functions without cancellation or overflow, and products and sums that are rounded up."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray, Real

ComplexArray = NDArray[np.complex128]
Number = TypeVar("Number", float, FloatArray)
LEAST_LOSS = 2.0**-450  # its square does not underflow
_ULP = float(np.finfo(np.float64).eps)
_EXACT_PARTS = 1e-290  # a product above this has exact parts: none of them underflows
_LARGEST_EXACT = 1e290  # below it, a product whose error is not NaN has exact parts: none of them overflows
_MOST_EXACT = 2**53  # integers below it are doubles
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
_NODES, _WEIGHTS = (half / 2 for half in np.polynomial.legendre.leggauss(12))
_NODES = _NODES + 0.5


def log1mexp(x: Real) -> FloatArray:
    """log(1 - e^x) for x <= 0; -inf at 0.

    The two formulas avoid cancellation near 0 and loss of digits far below 0 (Maechler 2012).
    """
    x = np.asarray(x, dtype=np.float64)
    near = x > -0.693
    found = np.empty_like(x)
    with np.errstate(divide="ignore"):  # each number by its own formula: the two together take twice the time
        found[near] = np.log(-np.expm1(np.minimum(x[near], 0.0)))
        found[~near] = np.log1p(-np.exp(x[~near]))
    return found


def expm1_excess(x: Real) -> FloatArray:
    """e^x - 1 - x >= 0, by its series for |x| < 0.5, where the difference cancels; +inf where it overflows."""
    x = np.asarray(x, dtype=np.float64)
    near = np.abs(x) < 0.5
    with np.errstate(over="ignore"):
        far = np.expm1(x) - x
    if not near.any():  # the series is most of the work
        return far
    small = np.clip(x, -0.5, 0.5)
    series = np.zeros_like(small)
    for k in range(17, 1, -1):
        series *= small
        series += 1.0
        series /= k
    return np.where(near, small * small * series, far)


def log1p_excess(x: Real) -> FloatArray:
    """x - log(1 + x) >= 0 for x > -1, by its series for |x| < 0.1, where the difference cancels."""
    x = np.asarray(x, dtype=np.float64)
    small = np.clip(x, -0.1, 0.1)
    series = np.zeros_like(small)
    for k in range(18, 1, -1):
        series *= small
        np.subtract(1.0 / k, series, out=series)
    return np.where(np.abs(x) < 0.1, small * small * series, x - np.log1p(x))


def stirling_remainder(x: Real) -> FloatArray:
    """log Gamma(x) - [(x - 1/2) log x - x + log(2 pi)/2] for x > 0, by its asymptotic series for x >= 16."""
    x = np.asarray(x, dtype=np.float64)
    is_large = x >= 16.0
    if is_large.all():  # each formula is evaluated where some number needs it
        return np.asarray(_stirling_series(x))
    small = np.minimum(x, 16.0)
    direct = special.gammaln(small) - ((small - 0.5) * np.log(small) - small + _HALF_LOG_TWO_PI)
    return np.where(is_large, _stirling_series(np.maximum(x, 16.0)), direct) if is_large.any() else np.asarray(direct)


def _stirling_series(x: FloatArray) -> FloatArray:
    """The asymptotic series of `stirling_remainder`, for x >= 16."""
    inverse_square = 1.0 / (x * x)
    series = np.zeros_like(x)
    for coefficient in reversed(_STIRLING):
        series = series * inverse_square + coefficient
    return series / x


def digamma_excess(x: Real) -> FloatArray:
    """digamma(x) - log x for x > 0, by its asymptotic series for x >= 16, where the difference cancels."""
    x = np.asarray(x, dtype=np.float64)
    inverse = 1.0 / np.maximum(x, 16.0)
    square, series = inverse * inverse, np.zeros_like(inverse)
    for k, coefficient in reversed(list(enumerate(_STIRLING))):
        series = series * square - (2 * k + 1) * coefficient
    small = np.minimum(x, 16.0)
    return np.where(x >= 16.0, square * series - inverse / 2, special.digamma(small) - np.log(small))


def log_gamma_growth(x: Real, step: Real) -> FloatArray:
    """log Gamma(x + step) - log Gamma(x) - step log x for x, step > 0: the remainder beyond the leading term.

    Its error relative to the step is a few ulp for any step; for small steps it is an integral of digamma.
    """
    x, step = np.asarray(x, dtype=np.float64), np.asarray(step, dtype=np.float64)
    ratio = step / x
    leading = step * np.log1p(ratio) - x * log1p_excess(ratio) - 0.5 * np.log1p(ratio)
    by_difference = leading + stirling_remainder(x + step) - stirling_remainder(x)
    shares = np.minimum(ratio, 0.25)[..., None] * _NODES
    slopes = digamma_excess(x[..., None] * (1.0 + shares)) + np.log1p(shares)
    return np.where(ratio < 0.25, step * (slopes @ _WEIGHTS), by_difference)


def complex_log1p_excess(w: ComplexArray) -> ComplexArray:
    """w - log(1 + w) for complex w outside the branch cut (-inf, -1], by its series for |w| < 0.1."""
    small = np.where(np.abs(w) < 0.1, w, 0.0)
    series = np.zeros_like(small)
    for k in range(18, 1, -1):
        series *= small
        np.subtract(1.0 / k, series, out=series)
    return np.where(np.abs(w) < 0.1, small * small * series, w - np.log(1.0 + w))


def complex_stirling_remainder(z: ComplexArray) -> ComplexArray:
    """`stirling_remainder` for complex z with Re z > 0."""
    large = np.where(np.abs(z) >= 16.0, z, 16.0)
    inverse = 1.0 / large
    series = np.zeros_like(large)
    for coefficient in reversed(_STIRLING):
        series = series * inverse * inverse + coefficient
    small = np.where(np.abs(z) < 16.0, z, 1.0)
    direct = special.loggamma(small) - ((small - 0.5) * np.log(small) - small + _HALF_LOG_TWO_PI)
    return np.where(np.abs(z) >= 16.0, series * inverse, direct)


def complex_log_gamma_growth(
    x: Real, w: ComplexArray, remainder: ComplexArray | None = None
) -> tuple[ComplexArray, FloatArray]:
    """log Gamma(x + w) - log Gamma(x) - w log x for x > 0 and complex w, Re(x + w) > 0, and a bound on its error.

    The bound is a few ulp of each term. `remainder` is `complex_stirling_remainder(x)`, if the caller has it.
    """
    ratio = w / x
    excess = complex_log1p_excess(ratio)
    logarithm = np.where(np.abs(ratio) < 0.1, ratio - excess, np.log(1.0 + ratio))
    leading = (w - 0.5) * logarithm - x * excess
    own = complex_stirling_remainder(np.asarray(x) + 0j) if remainder is None else remainder
    end = x + w
    size = (np.abs(w - 0.5) + x) * np.abs(logarithm) + np.abs(w)
    direct = np.where(np.minimum(x, np.abs(end)) < 16.0, 64.0, 1.0)  # logarithms of Gamma functions up to 16
    return leading + complex_stirling_remainder(end) - own, 4.0 * _ULP * (size + direct)


def resolved(loss: float) -> float:
    """A loss >= 0, raised to LEAST_LOSS if positive and smaller, so that its half and square stay positive."""
    return max(loss, LEAST_LOSS) if loss else 0.0


def half_square(loss: float) -> float:
    """loss^2 / 2 for a loss or shift >= 0, rounded up; 0 only for 0, and +inf where it overflows."""
    least = resolved(float(loss))
    if (parts := _scalar_product(least, least)) is None:
        return float(product_up(least, least)) / 2
    product, lost = parts
    return (product if lost <= 0.0 else math.nextafter(product, math.inf)) / 2


def weighted_sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """The sum of values times multiplicities, computed exactly and rounded up."""
    terms = [(float(term), times) for term, times in terms]
    if any(math.isinf(term) for term, _ in terms):
        return math.inf
    parts: list[float] = []
    for term, times in terms:
        found = (term, 0.0) if times == 1 else _scalar_product(term, float(times)) if times < _MOST_EXACT else None
        if found is None:
            return _fraction_sum_up(terms)
        parts += found
    try:
        nearest = math.fsum(parts)  # the exact sum rounded to nearest, and so is the rest below
    except OverflowError:
        return _fraction_sum_up(terms)
    return nearest if math.fsum([*parts, -nearest]) <= 0.0 else math.nextafter(nearest, math.inf)


def _fraction_sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """`weighted_sum_up` of finite values in rational numbers: slower, and free of overflow and underflow."""
    total = sum((Fraction(term) * times for term, times in terms), Fraction(0))
    try:
        nearest = float(total)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)


def ratio_up(a: float, b: float) -> float:
    """a / b for a, b > 0, rounded up."""
    ratio = a / b
    if ratio == math.inf:
        return ratio
    if (parts := _scalar_product(ratio, b)) is not None:
        product, lost = parts
        enough = (product - a) + lost >= 0.0  # the first difference is exact, because both are within two ulp
    else:
        enough = Fraction(ratio) * Fraction(b) >= Fraction(a)
    return ratio if enough else math.nextafter(ratio, math.inf)


def _scalar_product(x: float, y: float) -> tuple[float, float] | None:
    """`exact_product` of two floats >= 0; None where its second part may be inexact."""
    product, lost = exact_product(float(x), float(y))
    return (product, lost) if _EXACT_PARTS < product < _LARGEST_EXACT and not math.isnan(lost) else None


def exact_product(x: Number, y: Number) -> tuple[Number, Number]:
    """x * y as the rounded product and its rounding error, which is exact if the product exceeds 1e-290.

    The second part is NaN if a factor or the product exceeds 1e300. Source: Dekker 1971; Veltkamp 1968.
    """
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _halves(x: Number) -> tuple[Number, Number]:
    """Veltkamp's splitting of x into two numbers of half the digits that add up to x."""
    big = 134217729.0 * x
    high = big - (big - x)
    return high, x - high


def product_up(x: Real, y: Real) -> FloatArray:
    """x * y for x, y >= 0, rounded up; exact if the product is a double."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        product, lost = exact_product(x, y)
    exact = (lost <= 0) & ((product > _EXACT_PARTS) | (x == 0) | (y == 0))
    return np.where(exact, product, np.nextafter(product, np.inf))


def scaled_up(times: int, x: float) -> float:
    """A whole number times x >= 0, rounded up; the number is below 2^53, and an infinite x stays infinite."""
    return float(product_up(float(times), x)) if math.isfinite(x) else x
