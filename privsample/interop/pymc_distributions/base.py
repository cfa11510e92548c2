"""What all noisy statistics share: the random variable, and the distribution that adds it to a PyMC model."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pymc import Continuous
from pymc.distributions.distribution import SymbolicRandomVariable, _support_point
from pymc.distributions.shape_utils import implicit_size_from_params, rv_size_is_none
from pymc.logprob.abstract import _logprob
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor

SUMMED = "exact: the hidden count is summed out"
LIMIT = "central limit: the statistic of the records is taken to be normal"


class NoisyRV(SymbolicRandomVariable):
    """A hidden statistic of records plus noise; the parameters of the records come first, the noise scale last.

    A subclass defines `extended_signature`, `_print_name`, `hidden`, `log_density` and `mean`. `settings` holds what
    is not a tensor: the family of the noise, and what the subclass needs.
    """

    settings: dict[str, Any]
    likelihood: str

    def __init__(self, *args: Any, settings: dict[str, Any], likelihood: str, **kwargs: Any) -> None:
        self.settings, self.likelihood = settings, likelihood
        super().__init__(*args, **kwargs)

    @classmethod
    def rv_op(cls, *params: Any, size: Any = None, rng: Any = None, likelihood: str, **settings: Any) -> Any:
        """Return the variable with these parameters (tensors) and settings."""
        tensors = [pt.as_tensor_variable(param) for param in params]
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        batch = implicit_size_from_params(*tensors, ndims_params=cls.ndims_params) if rv_size_is_none(size) else size
        between, statistic = cls.hidden(rng, batch, *tensors[:-1], **settings)
        drawn = cls.noise_shape(batch, *tensors[:-1])
        following, noise = noises.draw(settings["family"], tensors[-1], drawn, between)
        op = cls(
            inputs=[rng, size, *tensors],
            outputs=[following, statistic + noise],
            settings=settings,
            likelihood=likelihood,
        )
        return op(rng, size, *tensors)

    def rebuild_rv(self, *params: Any, **kwargs: Any) -> Any:
        """Return the variable with other parameters and the same settings."""
        return self.rv_op(*params, likelihood=self.likelihood, **self.settings, **kwargs)

    @classmethod
    def noise_shape(cls, batch: Any, *params: Any) -> Any:
        """Return the shape of the noise: the batch shape, unless the statistic is a vector."""
        del params
        return batch

    @classmethod
    @abstractmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        """Return the next generator and independent hidden statistics, of batch shape `batch`."""

    @classmethod
    @abstractmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        """Return the log density of a noisy statistic; the last parameter is the scale of the noise."""

    @classmethod
    @abstractmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        """Return the mean of the statistic, from which chains start if the variable is not observed."""


@_logprob.register(NoisyRV)
def _log_probability(op: NoisyRV, values: Any, *inputs: Any, **_kwargs: Any) -> Any:
    (value,) = values
    _rng, _size, *params = inputs
    return op.log_density(value, *params, **op.settings)


@_support_point.register(NoisyRV)
def _start(op: NoisyRV, rv: Any, _rng: Any, size: Any, *params: Any) -> Any:
    return pt.broadcast_to(op.mean(*params, **op.settings), rv.shape)


def scale_known(noise: NoiseTensor) -> float:
    """Return the largest scale of the noise, or nan if it is not a constant."""
    return float(np.nan if noise.known is None else noise.known.max())


class NoisyDistribution(Continuous):
    """Base class of the distributions of noisy statistics."""

    rv_type: ClassVar[Any]

    def __new__(cls, name: str, *args: Any, observed: Any = None, **kwargs: Any) -> Any:
        """Add the variable to the open model; `observed` may be a release."""
        return super().__new__(cls, name, *args, observed=observed, **kwargs)
