"""Noisy counts of categories: multinomial counts plus noise on each. The hidden counts are summed out if affordable."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt

from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.interop.pymc_distributions import count_density, multinomial_density, windows
from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.base import (
    LATENT,
    LIMIT,
    GivenLatent,
    NoisyDistribution,
    NoisyRV,
    is_probability,
    is_whole,
)
from privsample.interop.pymc_distributions.checks import ROUNDING, check_copies, probability, shares, whole
from privsample.interop.pymc_distributions.counts import private_total
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor, present_value, tensor_of
from privsample.interop.pymc_distributions.releases import Released

MAX_TERMS = 1 << 14  # largest number of terms of the sums over counts of three or more categories, for one observation
_CHERNOFF = 0.97  # share of the largest exponent at which the tail of a sum of Laplace variables is bounded
_TWO = 2  # categories: each noisy count is a noisy copy of one hidden count
SUMMED = "exact: the hidden counts are summed out, with a relative error of at most 1e-12"


class NoisyMultinomialRV(NoisyRV):
    """Multinomial counts plus noise on each."""

    extended_signature = "[rng],[size],(),(k),(k)->[rng],(k)"
    _print_name = ("NoisyMultinomial", "\\operatorname{NoisyMultinomial}")

    @classmethod
    def spread(cls, scale: Any, **settings: Any) -> Any:
        return scale if settings["copies"] is None else scale[..., None, :]

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        n, p = params
        share = p / p.sum(axis=-1, keepdims=True)
        following, counts = noises.sampled(pt.random.multinomial, n.astype("int64"), share, size=batch, rng=rng)
        return following, _copied(counts.astype("float64"), settings["copies"])

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        n, p, scale = params
        copies = value[..., None, :] if settings["copies"] is None else value
        count, categories = settings["copies"] or 1, settings["categories"]
        copies = pt.specify_shape(copies, [None] * (copies.type.ndim - 2) + [count, categories])
        p = pt.specify_shape(p, [None] * (p.type.ndim - 1) + [categories])
        if not settings["exact"]:
            return _central_limit(copies, n, pt.clip(p, 1e-300, 1.0), noises.variance(settings["family"], scale), count)
        two = categories == _TWO
        return (_two_categories if two else _several_categories)(copies, n, p, scale, settings["family"])

    @classmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        return _copied(params[0][..., None] * params[1], settings["copies"])

    @classmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        n, p = params[:2]
        del settings
        adds_up = pt.le(abs(p.sum(axis=-1) - 1), ROUNDING)
        return {"n >= 1 and whole": is_whole(n), "0 <= p <= 1": is_probability(p), "sum(p) = 1": adds_up}


class NoisyMultinomialCopiesRV(NoisyMultinomialRV):
    """Several noisy copies of multinomial counts."""

    extended_signature = "[rng],[size],(),(k),(k)->[rng],(c,k)"


class NoisyMultinomialLatentRV(GivenLatent, NoisyMultinomialRV):
    """Multinomial counts plus Laplace noise, given latent variances in the log density."""

    extended_signature = "[rng],[size],(),(k),(k),(k)->[rng],(k)"


def _copied(counts: Any, copies: int | None) -> Any:
    """Return the counts (..., k) as often as there are copies, along an axis before the last."""
    return counts if copies is None else pt.repeat(counts[..., None, :], copies, axis=-2)


def _two_categories(copies: Any, n: Any, p: Any, scale: Any, family: str) -> Any:
    """Each noisy count of the second category is n minus a noisy copy of the first count."""
    count = copies.type.shape[-2]
    views = [copies[..., k, 0] for k in range(count)] + [n - copies[..., k, 1] for k in range(count)]
    scales = [scale[..., 0]] * count + [scale[..., 1]] * count
    first = p[..., 0] / (p[..., 0] + p[..., 1])
    return count_density.log_density(views, family, scales, first, n)


def _several_categories(copies: Any, n: Any, p: Any, scale: Any, family: str) -> Any:
    """Convolve the categories: independent Poisson counts, given their total n, are multinomial."""
    return multinomial_density.log_density(copies, n, p, scale, family)


def half_width(family: str, scale: Any, categories: int) -> Any:
    """Return the largest deviation of a count, or of the sum of some, from its centre, but for MASS_OUTSIDE.

    The centres are the noisy counts, shifted so that they add up to n. A deviation is a sum of a_j times the noise,
    with |a_j| <= 1 and sum of a_j^2 at most k (K - k) / K (docs/notes/moments.md, section 4).
    """
    squares = max(1.0, categories / 4)
    log_factor = float(np.log(4 * categories / windows.MASS_OUTSIDE))
    if family.endswith("gaussian"):
        return scale * np.sqrt(2 * squares * log_factor)
    rate = _CHERNOFF / np.sqrt(squares)
    return scale / rate * (log_factor - np.log1p(-(_CHERNOFF**2)))


def terms(half: Any, categories: int) -> Any:
    """Return the number of terms of the sums over counts."""
    return (categories - 2) * (2 * half + 1) ** 2


def is_affordable(most: float, family: str, scale: float, categories: int, copies: int) -> bool:
    """Return whether the hidden counts of at most `most` records can be summed out."""
    if categories == _TWO:
        return windows.is_affordable(family, scale, most, 2 * copies)
    half = np.fmin(np.ceil(half_width(family, scale, categories)) + categories, most)
    return not terms(half, categories) > MAX_TERMS


def _central_limit(copies: Any, n: Any, p: Any, noise_variances: Any, count: int) -> Any:
    """Normal counts of covariance n (diag(p) - pp'), plus normal noise, in closed form (docs/notes/moments.md)."""
    mean = copies.mean(axis=-2)
    variances = noise_variances / count
    n = n[..., None]
    own = n * p + variances
    off = mean - n * p
    kept = (p * variances / own).sum(axis=-1)  # 1 - n p' diag(own)^-1 p without cancellation
    square = (off**2 / own).sum(axis=-1) + n[..., 0] * ((p * off / own).sum(axis=-1)) ** 2 / kept
    found = -0.5 * (square + pt.log(2 * np.pi * own).sum(axis=-1) + pt.log(kept))
    if count > 1:  # the copies given their mean
        spread = ((copies - mean[..., None, :]) ** 2).sum(axis=-2) / noise_variances
        found = found - 0.5 * (spread + (count - 1) * pt.log(2 * np.pi * noise_variances) + np.log(count)).sum(axis=-1)
    return found


class NoisyMultinomial(NoisyDistribution):
    r"""Counts of records by category, plus noise on each.

    Each of n records belongs to one of K categories, and noise is added to the K counts:

    .. math:: y_k = s_k + \text{noise}_k, \qquad s \sim \operatorname{Multinomial}(n, p).

    Parameters
    ----------
    name : str
        Name of the variable.
    n : int, tensor or array of int
        Public number of records, >= 1. Left out where `observed` is a release. If the number of records of the releases
        is private, it is an unknown of the model, as for `NoisyCount`.
    p : tensor of shape (..., K)
        Probabilities of the categories, which add up to 1; K >= 2 must be known when the model is built. A function of
        a variable with `dims`, such as its softmax, does not know K: use `pytensor.tensor.specify_shape(p, (K,))`.
    noise : Noise, sequence of Noise or str
        The noise on each category, or the name of its family, such as "laplace", with `noise_scale`. Left out where
        `observed` is a release.
    noise_scale : float or tensor, optional
        Scale parameter of the noise, > 0, if `noise` is a name; of shape (..., 1) if it
        differs by group.
    copies : int, optional
        Number of noisy copies of the same counts, along a new axis before the last. None for no such axis.
    exact : bool, optional
        True to sum the hidden counts out, False for the central limit. None chooses by the cost.
    observed : array of shape (..., K), data or release, optional
        The noisy counts; a release of `DirichletCategorical`; or a sequence of releases, or a mapping from the coords
        of the first of `dims` to releases. The numbers of a release become data of the model: `{name}_released`,
        `{name}_n`, `{name}_noise_scale`, `{name}_epsilon` and `{name}_delta`. `pm.set_data` replaces them by those of
        another.
    dims : str or tuple of str, optional
        Names of the dimensions: of the groups, and of the categories.
    **kwargs
        Further arguments of PyMC's distributions, such as `shape` or `initval`.

    Raises
    ------
    TypeError
        If `noise` is a number, a parameter is missing, or the release has another model.
    ValueError
        If n, p, the noise or the shapes are out of range, or contradict each other or the release.

    Notes
    -----
    Bernstein and Sheldon 2018 (central limit). Kind: exact, with a relative error of the density of at most 1e-12, for
    two categories, whose noisy counts are two noisy copies of one count, and for more categories if the sums near the
    largest density need at most 16384 terms: (K - 2) (2h + 1)^2 with h about 37 times the Laplace scale, or 8 times the
    Gaussian one, but at most n. Where p is so far from the observed shares that more than 6e7 terms are needed, which
    takes n above 1e6, the total is taken to be normal under a tilted distribution (a saddle-point approximation, error
    of about n^(-1/2)). If the sums near the largest density need more than 16384 terms, the
    central limit; Laplace noise is then normal noise given latent exponential variances `{name}_noise`, and pointwise
    log likelihoods are conditional on them. `likelihood` tells which. The proof is in docs/notes/moments.md, section 4.

    Examples
    --------
    >>> import pymc as pm
    >>> import privsample as ps
    >>> from privsample.pymc import NoisyMultinomial, likelihood
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", [1, 1, 1])
    ...     y = NoisyMultinomial("y", 20, p, noise=ps.DiscreteLaplaceNoise(scale=1.0), observed=[14, 7, -1])
    >>> likelihood(y).partition(",")[0]
    'exact: the hidden counts are summed out'
    """

    rv_type = NoisyMultinomialRV
    rv_op = NoisyMultinomialRV.rv_op
    models = (DirichletCategorical,)
    takes_private_totals = True
    separate_copies = True

    def __new__(
        cls,
        name: str,
        n: Any = None,
        p: Any = None,
        *,
        noise: Any = None,
        noise_scale: Any = None,
        copies: int | None = None,
        exact: bool | None = None,
        observed: Any = None,
        dims: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Add the variable to the open model."""
        return cls.add(
            name,
            {"n": n, "p": p},
            noise=noise,
            noise_scale=noise_scale,
            observed=observed,
            dims=dims,
            options={"copies": copies, "exact": exact},
            **kwargs,
        )

    @classmethod
    def add_private_total(
        cls,
        name: str,
        found: Released,
        parameters: Mapping[str, Any],
        noise: Any,
        noise_scale: Any,
        *,
        dims: tuple[str, ...] | None,
        **options: Any,
    ) -> Any:
        """Add noisy counts of categories, whose total is unknown: see `private_total`."""
        if parameters["p"] is None:
            raise TypeError("p must be given: it is a parameter of your model, which no release holds")
        p = tensor_of("p", parameters["p"])
        probability("p", p)
        shares("p", p)
        return private_total(name, found, p, noise, noise_scale, dims=dims, **options)

    @classmethod
    def with_lengths(cls, tensors: dict[str, Any], observed: Any) -> dict[str, Any]:
        """Return p with as many categories as are observed, if its number of categories is not known."""
        p = tensors["p"]
        if observed is None or not p.type.ndim or p.type.shape[-1] is not None:
            return tensors
        seen = pt.as_tensor_variable(observed).type.shape
        categories = seen[-1] if seen else None
        return tensors | {"p": pt.specify_shape(p, [None] * (p.type.ndim - 1) + [categories])}

    @classmethod
    def support(cls, tensors: Any, copies: int | None = None) -> tuple[int | None, ...]:
        """Return the shape of one observation: the copies and the categories."""
        return (*([] if copies is None else [copies]), _categories(tensors["p"]))

    @classmethod
    def needs_latent(cls, tensors: Any, noise: NoiseTensor, **options: Any) -> bool:
        """Return whether the central limit is taken with Laplace noise."""
        return not noise.normal and not _is_exact(tensors["n"], tensors["p"], noise, **options)

    @classmethod
    def dist(
        cls,
        n: Any,
        p: Any,
        *,
        noise: Any,
        noise_scale: Any = None,
        copies: int | None = None,
        exact: bool | None = None,
        latent: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the variable without a model.

        Parameters
        ----------
        n : tensor or numbers
            As for the class.
        p : tensor or numbers
            As for the class.
        noise : Noise, sequence of Noise or str
            As for the class.
        noise_scale : float or tensor, optional
            As for the class.
        copies : int, optional
            As for the class.
        exact : bool, optional
            As for the class.
        latent : tensor, optional
            Exponential variances of the noise, in units of its own, given which the log density is computed.
        **kwargs
            Further arguments of PyMC's `dist`: `shape` or `size`.

        Returns
        -------
        PyMC variable
            The variable, which belongs to no model.
        """
        n, p = tensor_of("n", n), tensor_of("p", p)
        whole("n", n, 1)
        probability("p", p)
        shares("p", p)
        copies = check_copies(copies)
        given, categories = noise_tensor(noise, noise_scale), _categories(p)
        exact = _is_exact(n, p, given, copies, exact)
        if not exact and not given.normal and latent is None:
            raise ValueError(
                f"{given.family} noise on so many possible counts is normal noise given latent variances, which belong "
                "to a model: write NoisyMultinomial(name, ...) inside `with pm.Model():`, or use Gaussian noise"
            )
        scale = given.scale
        if scale.type.ndim == 0 or scale.type.shape[-1] == 1:
            scale = pt.broadcast_to(scale, (*[scale.shape[k] for k in range(scale.type.ndim - 1)], categories))
        words = SUMMED if exact else LIMIT if latent is None else LATENT
        settings = {"family": given.family, "copies": copies, "exact": bool(exact), "categories": categories}
        if latent is not None:
            return cls.created(NoisyMultinomialLatentRV, [n, p, latent, scale], likelihood=words, **settings, **kwargs)
        op = NoisyMultinomialRV if copies is None else NoisyMultinomialCopiesRV
        return cls.created(op, [n, p, scale], likelihood=words, **settings, **kwargs)


def _is_exact(n: Any, p: Any, noise: NoiseTensor, copies: int | None = None, exact: bool | None = None) -> bool:
    """Return whether to sum the counts out: as asked, or else by the cost; unknown numbers (nan) are checked later."""
    known = present_value(n)
    most = np.nan if known is None else float(known.max())
    return is_affordable(most, noise.family, noise.largest, _categories(p), copies or 1) if exact is None else exact


def _categories(p: Any) -> int:
    """Return the number of categories. Raises ValueError if it is not known, or less than two."""
    found = p.type.shape[-1] if p.type.ndim else 1
    if found is None:
        raise ValueError("p must have a known number of categories along its last axis: use pt.specify_shape")
    if found < 2:
        raise ValueError(f"p must hold a probability for each of two or more categories, got shape {p.type.shape}")
    return int(found)
