"""Noisy counts: a binomial or Poisson count of records, plus noise. The hidden count is summed out."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions import windows
from privsample.interop.pymc_distributions.base import LIMIT, NoisyDistribution, NoisyRV
from privsample.interop.pymc_distributions.checks import check_copies, nonnegative, probability, whole
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor, present_value, tensor_of

SUMMED = f"exact: the hidden count is summed out, over a window that loses at most {windows.MASS_OUTSIDE:g}"


class NoisyCountRV(NoisyRV):
    """A binomial count plus noise."""

    extended_signature = "[rng],[size],(),(),()->[rng],()"
    _print_name = ("NoisyCount", "\\operatorname{NoisyCount}")

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        n, p = params
        following, count = pt.random.binomial(n.astype("int64"), p, size=batch, rng=rng).owner.outputs
        return following, _copied(count, settings["copies"])

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        n, p, scale = params
        if not settings["exact"]:
            own = n * p * (1 - p)
            return _limit(value, n * p, own, scale, settings)
        copies = _with_axis(value, settings["copies"])
        s = windows.window(copies, settings["family"], scale, most=n, centre=n * p)
        return _summed(windows.log_binomial(s, n, p), s, copies, settings["family"], scale)

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
        following, count = pt.random.poisson(params[0], size=batch, rng=rng).owner.outputs
        return following, _copied(count, settings["copies"])

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        mu, scale = params
        if not settings["exact"]:
            return _limit(value, mu, mu, scale, settings)
        copies = _with_axis(value, settings["copies"])
        s = windows.window(copies, settings["family"], scale)
        return _summed(windows.log_poisson(s, mu), s, copies, settings["family"], scale)

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


def _with_axis(value: Any, copies: int | None) -> Any:
    """Return the observed copies with their axis, of known length."""
    if copies is None:
        return value[..., None]
    return pt.specify_shape(value, [None] * (value.type.ndim - 1) + [copies])


def _limit(value: Any, mean: Any, variance: Any, scale: Any, settings: Any) -> Any:
    """Return the log density of a normal count plus noise; copies have an axis of length one."""
    one = value if settings["copies"] is None else value[..., 0]
    return noises.normal_plus_noise(settings["family"], one - mean, pt.maximum(variance, 1e-300), scale)


def _summed(log_masses: Any, s: Any, copies: Any, family: str, scale: Any) -> Any:
    """Return the log of the sum over counts s (..., width) of their masses and the noise of the copies (..., c)."""
    for k in range(copies.type.shape[-1]):
        log_masses = log_masses + noises.log_density(family, copies[..., k, None] - s, scale[..., None])
    return pt.logsumexp(log_masses, axis=-1)


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
    """A binomial count plus noise."""

    rv_type = NoisyCountRV
    rv_op = NoisyCountRV.rv_op
    copies_type = NoisyCountCopiesRV
    models = (BetaBernoulli,)

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
        """Return the variable without a model."""
        n, p = tensor_of("n", n), tensor_of("p", p)
        whole("n", n, 1)
        probability("p", p)
        known = present_value(n)
        most = np.nan if known is None else float(known.max())
        return cls._variable([n, p], noise_tensor(noise, noise_scale), copies, exact, most, kwargs)


class NoisyPoisson(_CountDistribution):
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
        """Return the variable without a model."""
        mu = tensor_of("mu", mu)
        nonnegative("mu", mu)
        return cls._variable([mu], noise_tensor(noise, noise_scale), copies, exact, np.inf, kwargs)
