"""Noisy counts: a binomial or Poisson count of records, plus noise. The hidden count is summed out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.interop.pymc_distributions import count_density, windows
from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.base import LIMIT, NoisyDistribution, NoisyRV, is_probability, is_whole
from privsample.interop.pymc_distributions.checks import check_copies, nonnegative, probability, whole
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor, present_value, tensor_of
from privsample.interop.pymc_distributions.releases import Released

SUMMED = "exact: the hidden count is summed out, with a relative error of at most 1e-12"


class NoisyCountRV(NoisyRV):
    """A binomial count plus noise."""

    extended_signature = "[rng],[size],(),(),()->[rng],()"
    _print_name = ("NoisyCount", "\\operatorname{NoisyCount}")

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        n, p = params
        following, count = noises.sampled(pt.random.binomial, n.astype("int64"), p, size=batch, rng=rng)
        return following, _copied(count, settings["copies"])

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        n, p, scale = params
        if not settings["exact"]:
            own = n * p * (1 - p)
            return _limit(value, n * p, own, scale, settings)
        copies = _separate(value, settings["copies"])
        return count_density.log_density(copies, settings["family"], [scale] * len(copies), p, n)

    @classmethod
    def log_distribution(cls, value: Any, *params: Any, **settings: Any) -> Any:
        n, p, scale = params
        if settings["copies"] is not None:
            return super().log_distribution(value, *params, **settings)
        if settings["exact"]:
            return count_density.log_distribution(value, settings["family"], scale, p, n)
        return noises.log_normal_plus_noise_below(settings["family"], value - n * p, n * p * (1 - p), scale)

    @classmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        del settings
        return {"n >= 1 and whole": is_whole(params[0]), "0 <= p <= 1": is_probability(params[1])}

    @classmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        return _copied(params[0] * params[1], settings["copies"])


class NoisyCountCopiesRV(NoisyCountRV):
    """Several noisy copies of one binomial count."""

    extended_signature = "[rng],[size],(),(),()->[rng],(c)"


class NoisyPoissonRV(NoisyRV):
    """A Poisson count plus noise."""

    extended_signature = "[rng],[size],(),()->[rng],()"
    _print_name = ("NoisyPoisson", "\\operatorname{NoisyPoisson}")

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        following, count = noises.sampled(pt.random.poisson, params[0], size=batch, rng=rng)
        return following, _copied(count, settings["copies"])

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        mu, scale = params
        if not settings["exact"]:
            return _limit(value, mu, mu, scale, settings)
        copies = _separate(value, settings["copies"])
        return count_density.log_density(copies, settings["family"], [scale] * len(copies), mu)

    @classmethod
    def log_distribution(cls, value: Any, *params: Any, **settings: Any) -> Any:
        mu, scale = params
        if settings["copies"] is not None:
            return super().log_distribution(value, *params, **settings)
        if settings["exact"]:
            return count_density.log_distribution(value, settings["family"], scale, mu)
        return noises.log_normal_plus_noise_below(settings["family"], value - mu, mu, scale)

    @classmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        del settings
        return {"mu >= 0": pt.ge(params[0], 0) & pt.lt(params[0], np.inf)}

    @classmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        return _copied(params[0], settings["copies"])


class NoisyPoissonCopiesRV(NoisyPoissonRV):
    """Several noisy copies of one Poisson count."""

    extended_signature = "[rng],[size],(),()->[rng],(c)"


def _copied(count: Any, copies: int | None) -> Any:
    """Return the count as floats, as often as there are copies, along a new last axis."""
    count = count.astype("float64")
    return count if copies is None else pt.repeat(count[..., None], copies, axis=-1)


def _separate(value: Any, copies: int | None) -> list[Any]:
    """Return the noisy copies of each count."""
    return [value] if copies is None else [value[..., k] for k in range(copies)]


def _limit(value: Any, mean: Any, variance: Any, scale: Any, settings: Any) -> Any:
    """Return the log density of a normal count plus noise; copies have an axis of length one."""
    one = value if settings["copies"] is None else value[..., 0]
    return noises.normal_plus_noise(settings["family"], one - mean, pt.maximum(variance, 1e-300), scale)


class _CountDistribution(NoisyDistribution):
    """What binomial and Poisson counts share."""

    separate_copies = True
    copies_type: Any

    @classmethod
    def _variable(
        cls, tensors: list[Any], noise: NoiseTensor, copies: int | None, exact: bool | None, most: float, kwargs: Any
    ) -> Any:
        """Return the variable; `most` is the largest count if it is known, infinite for a Poisson count."""
        copies = check_copies(copies)
        chosen = windows.is_affordable(noise.family, noise.largest, most, copies or 1) if exact is None else exact
        if not chosen and copies not in {None, 1}:
            raise ValueError(f"the noise leaves too many counts possible for {copies} copies: observe one")
        op = cls.rv_type if copies is None else cls.copies_type
        settings = {"family": noise.family, "copies": copies, "exact": bool(chosen)}
        words = SUMMED if chosen else LIMIT
        return cls.created(op, [*tensors, noise.scale], likelihood=words, **settings, **kwargs)


class NoisyCount(_CountDistribution):
    r"""Binomial count of records plus noise.

    Each of n records counts with probability p, and noise is added to their number:

    .. math:: y = s + \text{noise}, \qquad s \sim \operatorname{Binomial}(n, p), \qquad
        \log p(y) = \log \sum_s P(s \mid n, p)\, g(y - s).

    Parameters
    ----------
    name : str
        Name of the variable.
    n : int, tensor or array of int
        Public number of records of each count, >= 1. Left out where `observed` is a release. If the number of records
        of the releases is private, it is an unknown of the model: its prior is Poisson with the mean
        `{name}_records`, a latent variable with a flat prior, so that it is uniform on 0, 1, 2, ....
    p : tensor or float
        Probability of a record to be counted, in [0, 1].
    noise : Noise, sequence of Noise or str
        The noise on each count, or the name of its family, such as "laplace", with `noise_scale`. Left out where
        `observed` is a release.
    noise_scale : float or tensor, optional
        Scale parameter of the noise, > 0, if `noise` is a name.
    copies : int, optional
        Number of noisy copies of one count, along a new last axis. None for one count without such an axis.
    exact : bool, optional
        True to sum the hidden count out, False for the central limit. None chooses by the cost.
    observed : array, data or release, optional
        The noisy counts; a release of `BetaBernoulli`, for one group or for all groups that `ps.by` names; or a
        sequence of releases. Groups are matched with the coords of the first of `dims`, as are the keys of a mapping.
        The numbers of a release become data of the model: `{name}_released`, `{name}_n`, `{name}_noise_scale`,
        `{name}_epsilon` and `{name}_delta`. `pm.set_data` replaces them by those of another.
    dims : str or tuple of str, optional
        Names of the dimensions of the groups, with coords in the model.
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
    Bernstein and Sheldon 2018 (central limit); Loader 2000 (binomial probabilities without cancellation). Kind: exact,
    with a relative error of the density of at most 1e-12 at every observed value, however improbable. If the noise
    leaves more than 16384 counts possible, or n is 2^53 or more, the central limit; `likelihood` tells which. The sum
    over n counts has some 12 sqrt(n) terms where p is far from the observed share: 3 milliseconds at n = 1e9. PyMC's
    `logcdf`, with which `pm.Censored` and `pm.Truncated` work, is exact in the same way; there is none for several
    copies. Parameters out of range are refused, or in variables of the model have probability 0, as in PyMC. The proof
    is in docs/notes/moments.md, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import privsample as ps
    >>> from privsample.pymc import NoisyCount
    >>> curator = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=40, scale=2.0)
    >>> release = curator.release([1] * 12 + [0] * 28, rng=np.random.default_rng(1))
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = NoisyCount("y", p=p, observed=release)
    >>> [data.name for data in model.data_vars]
    ['y_n', 'y_noise_scale', 'y_epsilon', 'y_delta', 'y_released']
    """

    rv_type = NoisyCountRV
    rv_op = NoisyCountRV.rv_op
    copies_type = NoisyCountCopiesRV
    models = (BetaBernoulli,)
    takes_private_totals = True

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
        """Add noisy numbers of zeros and of ones, whose total is unknown: see `private_total`."""
        if parameters["p"] is None:
            raise TypeError("p must be given: it is a parameter of your model, which no release holds")
        p = tensor_of("p", parameters["p"])
        probability("p", p)
        shares = pt.stack([1 - p, p], axis=-1)
        return private_total(name, found, shares, noise, noise_scale, dims=dims, **options)

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
        known = present_value(n)
        most = np.nan if known is None else float(known.max())
        return cls._variable([n, p], noise_tensor(noise, noise_scale), copies, exact, most, kwargs)


def private_total(
    name: str,
    found: Released,
    shares: Any,
    noise: Any,
    noise_scale: Any,
    *,
    dims: tuple[str, ...] | None,
    exact: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Add noisy counts of records of which each is of one kind with these shares (..., kinds), of unknown total.

    A uniform prior of the total on 0, 1, 2, ... is a Poisson distribution with a uniform mean, `{name}_records`, under
    which the counts are independent Poisson variables. docs/notes/statistics.md. The latent variable is the mean as a
    multiple of the noisy total: chains start at 1, and the model needs no initial value, with which PyMC cannot
    freeze or copy it.
    """
    groups = dims[:1] if found.grouped and dims is not None else None
    kinds = found.values if found.copies == 1 else found.values.mean(axis=-2)
    start = np.maximum(kinds.sum(axis=-1), 1.0)
    relative = pm.HalfFlat(f"{name}_relative_records", shape=start.shape, dims=groups)
    mean = pm.Deterministic(f"{name}_records", start * relative, dims=groups)
    if found.copies > 1:  # a count with its copies along the last axis
        found, kwargs = found._replace(values=np.swapaxes(found.values, -1, -2)), {**kwargs, "copies": found.copies}
    scale = noise_scale[..., None] if found.grouped and noise_scale.ndim == 1 else noise_scale
    return NoisyPoisson(
        name,
        mean[..., None] * shares,
        noise=noise,
        noise_scale=scale,
        exact=exact,
        observed=found.data(name, dims),
        dims=dims if dims is not None and len(dims) == found.values.ndim else None,
        **kwargs,
    )


class NoisyPoisson(_CountDistribution):
    r"""Poisson count of records plus noise.

    The number of records is itself random, and noise is added to it:

    .. math:: y = s + \text{noise}, \qquad s \sim \operatorname{Poisson}(\mu), \qquad
        \log p(y) = \log \sum_s P(s \mid \mu)\, g(y - s).

    Parameters
    ----------
    name : str
        Name of the variable.
    mu : tensor or float
        Mean of the count, >= 0.
    noise : Noise, sequence of Noise or str
        The noise on each count, or the name of its family, such as "laplace", with `noise_scale`.
    noise_scale : float or tensor, optional
        Scale parameter of the noise, > 0, if `noise` is a name.
    copies : int, optional
        Number of noisy copies of one count, along a new last axis. None for one count without such an axis.
    exact : bool, optional
        True to sum the hidden count out, False for the central limit. None chooses by the cost.
    observed : array or data, optional
        The noisy counts.
    dims : str or tuple of str, optional
        Names of the dimensions of the groups, with coords in the model.
    **kwargs
        Further arguments of PyMC's distributions, such as `shape` or `initval`.

    Raises
    ------
    TypeError
        If `noise` is a number, or a parameter is missing.
    ValueError
        If mu, the noise or the shapes are out of range, or contradict each other.

    Notes
    -----
    Bernstein and Sheldon 2018 (central limit); Loader 2000 (Poisson probabilities without cancellation). Kind: exact,
    with a relative error of the density of at most 1e-12 at every observed value, however improbable. If the noise
    leaves more than 16384 counts possible, the central limit; `likelihood` tells which. PyMC's `logcdf` is exact in the
    same way; there is none for several copies. Parameters out of range are refused, or in variables of the model have
    probability 0, as in PyMC. The proof is in docs/notes/moments.md, section 4.

    Examples
    --------
    >>> import pymc as pm
    >>> import privsample as ps
    >>> from privsample.pymc import NoisyPoisson
    >>> with pm.Model():
    ...     mu = pm.Gamma("mu", 2, 0.1)
    ...     y = NoisyPoisson("y", mu, noise=ps.DiscreteLaplaceNoise(scale=2.0), observed=[14, 23])
    >>> y.eval().shape
    (2,)
    """

    """A Poisson count plus noise."""

    rv_type = NoisyPoissonRV
    rv_op = NoisyPoissonRV.rv_op
    copies_type = NoisyPoissonCopiesRV

    def __new__(
        cls,
        name: str,
        mu: Any = None,
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
            {"mu": mu},
            noise=noise,
            noise_scale=noise_scale,
            observed=observed,
            dims=dims,
            options={"copies": copies, "exact": exact},
            **kwargs,
        )

    @classmethod
    def dist(
        cls,
        mu: Any,
        *,
        noise: Any,
        noise_scale: Any = None,
        copies: int | None = None,
        exact: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the variable without a model.

        Parameters
        ----------
        mu : tensor or numbers
            As for the class.
        noise : Noise, sequence of Noise or str
            As for the class.
        noise_scale : float or tensor, optional
            As for the class.
        copies : int, optional
            As for the class.
        exact : bool, optional
            As for the class.
        **kwargs
            Further arguments of PyMC's `dist`: `shape` or `size`.

        Returns
        -------
        PyMC variable
            The variable, which belongs to no model.
        """
        mu = tensor_of("mu", mu)
        nonnegative("mu", mu)
        return cls._variable([mu], noise_tensor(noise, noise_scale), copies, exact, np.inf, kwargs)
