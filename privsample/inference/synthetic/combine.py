"""Combining rules: one estimate with an interval from the analyses of several synthetic data sets.

docs/notes/synthetic.md, steps 7 and 8.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, special

from privsample._checks import FloatArray, inner_probability, real_array
from privsample._value import frozen_value, set_fields

_LEAST_DEGREES = 1.0
_SYMMETRY = 1e-8  # of the largest entry: rounding of a covariance matrix
_ROUNDING = 1e-9


@frozen_value
class CombinedEstimate:
    """The combined estimates of k numbers, with their variances and degrees of freedom.

    Parameters
    ----------
    estimate : array of shape (k,), or ()
        The mean of the estimates.
    covariance : array of shape (k, k), or (k,), or ()
        Their covariance matrix if the analyses gave one each, or else their variances.
    between, within : array
        The covariance or variance of the estimates between the sets, and the mean of those that the analyses state.
    degrees_of_freedom : array of shape (k,), or ()
        Degrees of freedom of the t distribution of each estimate.
    replaced : array of bool, shape (k,), or ()
        Where the variance by the rule was too small to be right, and another was used in its place.

    Raises
    ------
    TypeError, ValueError
        If a field holds no numbers, or its shape does not fit.

    Examples
    --------
    >>> import privsample as ps
    >>> combined = ps.combine([1.2, 0.8, 1.1, 0.9], [0.01, 0.01, 0.01, 0.01])
    >>> round(float(combined.estimate), 3), round(float(combined.std_error), 3)
    (1.0, 0.178)
    """

    estimate: FloatArray
    covariance: FloatArray
    between: FloatArray
    within: FloatArray
    degrees_of_freedom: FloatArray
    replaced: Any

    def __post_init__(self) -> None:
        found: dict[str, NDArray[Any]] = {}
        for name in ("estimate", "covariance", "between", "within", "degrees_of_freedom", "replaced"):
            array = np.array(real_array(**{name: getattr(self, name)}))
            shape = found["estimate"].shape if found else array.shape
            square = name in ("covariance", "between", "within") and array.ndim == 2
            if len(shape) > 1 or array.shape != (2 * shape if square else shape):
                raise ValueError(f"{name} must fit an estimate of shape (k,) or (), got shape {array.shape}")
            found[name] = array.astype(bool) if name == "replaced" else array
            found[name].flags.writeable = False
        set_fields(self, **found)

    @property
    def variance(self) -> FloatArray:
        """The variance of each estimate, in its squared unit."""
        full = self.covariance.ndim > self.estimate.ndim
        return np.asarray(np.diagonal(self.covariance) if full else self.covariance)

    @property
    def std_error(self) -> FloatArray:
        """The standard error of each estimate: the root of its variance."""
        return np.asarray(np.sqrt(self.variance))

    def interval(self, probability: float = 0.95) -> FloatArray:
        """Confidence intervals of the numbers, from the t distribution.

        Parameters
        ----------
        probability : float, default 0.95
            Probability with which an interval covers its number, in (0, 1).

        Returns
        -------
        numpy.ndarray
            The ends, shape (2, k), or (2,): `low, high = combined.interval()`.

        Raises
        ------
        ValueError
            If `probability` lies outside (0, 1).
        """
        given = inner_probability(probability)
        half = -special.stdtrit(self.degrees_of_freedom, (1.0 - given) / 2) * self.std_error
        return np.array([self.estimate - half, self.estimate + half])


def combine(estimates: ArrayLike, variances: ArrayLike) -> CombinedEstimate:
    """Combine the analyses of m synthetic data sets of `synthesize` into estimates with valid intervals.

    Each set is analysed as if it were real: it gives estimates q and their variances v, for a set of its own size. With
    their means, and the variance b between the sets, the variance of the mean estimate is T = (1 + 1/m) b - v. The sets
    vary by the uncertainty about the population and by their own sampling, and v removes the latter. The sets may have
    any size; if they are large, v is small, and T is stable.

    Parameters
    ----------
    estimates : array of shape (m, k), or (m,)
        The estimates of k numbers from each of m >= 2 sets. They should be nearly normal: combine log odds, not odds.
    variances : array of shape (m, k), (m,), or (m, k, k)
        Their variances, or covariance matrices, as stated by the analysis of each set.

    Returns
    -------
    CombinedEstimate
        The estimates with variances, degrees of freedom and intervals.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If shapes do not fit, m < 2, a number is not finite, or a variance is negative.

    Notes
    -----
    Raghunathan, Reiter and Rubin 2003 (variance); Reiter 2002 (degrees of freedom (m - 1)(1 - v / ((1 + 1/m) b))^2);
    Räisä, Jälkö, Kaski and Honkela 2023 (sets from noisy queries). Where T is smaller than b/m, which happens by chance
    if m is small or the sets are smaller than the data, v is used, as Reiter 2002 proposes. Covariance matrices are
    combined by the same rule. Kind: approximate: it holds for estimates that are normal.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> rng = np.random.default_rng(0)
    >>> true = rng.normal(5.0, 0.3, size=50)  # population means, drawn from a posterior
    >>> sets = rng.normal(true, 1.0, size=(100, 50)).T  # a set of 100 records for each of them
    >>> combined = ps.combine(sets.mean(axis=1), sets.var(axis=1, ddof=1) / 100)
    >>> combined.interval(0.95).round(1).tolist()
    [4.5, 5.6]
    """
    found, own = _numbers(estimates=estimates), _numbers(variances=variances)
    if found.ndim not in (1, 2) or len(found) < 2:
        raise ValueError(
            f"estimates must have shape (m, k) or (m,) for m >= 2 synthetic data sets, got {found.shape}: analyse each "
            "set on its own and pass all results"
        )
    full = own.ndim == 3
    shape = (*found.shape, found.shape[-1]) if full and found.ndim == 2 else found.shape
    if own.shape != shape:
        raise ValueError(f"variances must have shape {found.shape}, like estimates, got {own.shape}")
    if full and not (np.abs(own - own.transpose(0, 2, 1)) <= _SYMMETRY * np.abs(own).max(initial=0.0)).all():
        raise ValueError("variances must be symmetric matrices")
    if not (np.diagonal(own, axis1=1, axis2=2) if full else own).min(initial=0.0) >= 0.0:
        raise ValueError("variances must be >= 0, got a negative one")
    with np.errstate(over="ignore", invalid="ignore"):
        return _combined(found, own, full=full)


def _combined(found: FloatArray, own: FloatArray, *, full: bool) -> CombinedEstimate:
    m, centred = len(found), found - found.mean(axis=0)
    between = np.asarray(centred.T @ centred / (m - 1) if full else (centred**2).sum(axis=0) / (m - 1))
    within = np.asarray(own.mean(axis=0))
    if not all(np.isfinite(each).all() for each in (found.mean(axis=0), between, within)):
        raise ValueError("estimates must have finite squares, got larger ones; analyse in another unit")
    total = _total_matrix(between, within, m) if full else _total(between, within, m)
    first, second, third = (np.diagonal(x) if full else x for x in (between, within, total))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(first > 0, second / ((1 + 1 / m) * first), 0.0)
    rule = (1 + 1 / m) * first - second
    replaced = np.asarray(third > rule + _ROUNDING * (first + second))
    degrees = np.where(replaced, m - 1.0, (m - 1) * (1 - share) ** 2)
    return CombinedEstimate(
        estimate=found.mean(axis=0),
        covariance=total,
        between=between,
        within=within,
        degrees_of_freedom=np.maximum(degrees, _LEAST_DEGREES),
        replaced=replaced,
    )


def _total(between: FloatArray, within: FloatArray, m: int) -> FloatArray:
    """(1 + 1/m) b - v, or v where this is below b/m."""
    rule = (1 + 1 / m) * between - within
    return np.where(rule >= between / m, rule, within)


def _total_matrix(between: FloatArray, within: FloatArray, m: int) -> FloatArray:
    """The same in the directions in which both matrices are diagonal. Raises ValueError."""
    try:
        factors, directions = linalg.eigh(between, within)
    except linalg.LinAlgError:
        raise ValueError("variances must be positive definite matrices; leave out numbers that do not vary") from None
    inverse = within @ directions  # columns: directions' W directions = 1
    return np.asarray((inverse * _total(factors, np.ones_like(factors), m)) @ inverse.T)


def _numbers(**named: ArrayLike) -> FloatArray:
    """Finite real numbers. Raises TypeError or ValueError."""
    ((name, _),) = named.items()
    found = real_array(**named)
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite, got infinity")
    return found
