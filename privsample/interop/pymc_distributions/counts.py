"""Noisy counts: a binomial or Poisson count of records, plus noise. The hidden count is summed out."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.base import LIMIT, SUMMED, NoisyDistribution, NoisyRV
from privsample.interop.pymc_distributions.noise import noise_tensor

MASS_OUTSIDE = 1e-12  # probability that the noise leaves the window
MAX_COUNTS = 1 << 14  # largest number of counts in a window


class NoisyCountRV(NoisyRV):
    """A binomial count plus noise."""

    extended_signature = "[rng],[size],(),(),()->[rng],()"
    _print_name = ("NoisyCount", "\\operatorname{NoisyCount}")

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        n, p = params
        following, count = pt.random.binomial(n.astype("int64"), p, size=batch, rng=rng).owner.outputs
        return following, count.astype("float64")

    @classmethod
    def log_density(cls, value: Any, *params: Any, family: str, reach: float, **settings: Any) -> Any:
        n, p, scale = params
        n, p, scale = n[..., None], p[..., None], scale[..., None]
        inside = pt.clip(p, 1e-300, 1 - 2.0**-53)
        width = pt.minimum(2 * reach + 2, n.max() + 1)
        start = pt.clip(pt.floor(value)[..., None] - reach, 0, pt.maximum(n + 1 - width, 0))
        s = start + pt.arange(width)
        own = pt.gammaln(n + 1) - pt.gammaln(s + 1) - pt.gammaln(pt.maximum(n - s, 0) + 1)
        own = own + s * pt.log(inside) + (n - s) * pt.log1p(-inside)
        terms = own + noises.log_density(family, value[..., None] - s, scale)
        return pt.logsumexp(pt.switch(s <= n, terms, -np.inf), axis=-1)

    @classmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        return params[0] * params[1]


class NoisyCount(NoisyDistribution):
    """A binomial count plus noise."""

    rv_type = NoisyCountRV
    rv_op = NoisyCountRV.rv_op

    @classmethod
    def dist(cls, n: Any, p: Any, *, noise: Any, noise_scale: Any = None, **kwargs: Any) -> Any:
        given = noise_tensor(noise, noise_scale)
        reach = float(np.ceil(max(noises.reach(given.family, s, MASS_OUTSIDE) for s in np.atleast_1d(given.known))))
        return super().dist(
            [n, p, given.scale], family=given.family, reach=reach, likelihood=SUMMED, **kwargs
        )
