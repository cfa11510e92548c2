"""What all noisy statistics share: the random variable, and the distribution that adds it to a PyMC model."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc import Continuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import SymbolicRandomVariable, _support_point
from pymc.distributions.shape_utils import (
    convert_shape,
    convert_size,
    find_size,
    implicit_size_from_params,
    rv_size_is_none,
    shape_from_dims,
)
from pymc.logprob.abstract import _logcdf, _logprob
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.checks import (
    check_copies,
    check_lengths,
    check_observed,
    check_options,
    check_shapes,
    known_dims,
)
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor, tensor_of
from privsample.interop.pymc_distributions.releases import Released, registered, released

LIMIT = "central limit: the statistic of the records is taken to be normal"
LATENT = f"{LIMIT}, given the latent variances of the Laplace noise"


class NoisyRV(SymbolicRandomVariable):  # type: ignore[misc]
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
        scale = cls.spread(tensors[-1], **settings)
        following, noise = noises.draw(settings["family"], scale, statistic.shape, between)
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
    def spread(cls, scale: Any, **settings: Any) -> Any:
        """Return the scale of the noise with axes for what it does not vary over."""
        del settings
        return pt.shape_padright(scale, cls.ndim_supp - cls.ndims_params[-1])

    @classmethod
    @abstractmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        """Return the next generator and independent hidden statistics of batch shape `batch`, in the released shape."""

    @classmethod
    @abstractmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        """Return the log density of a noisy statistic; the last parameter is the scale of the noise."""

    @classmethod
    @abstractmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        """Return the mean of the statistic, from which chains start if the variable is not observed."""

    @classmethod
    @abstractmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        """Return what must hold for the parameters without the scale of the noise: conditions by their text."""

    @classmethod
    def checked(cls, computed: Any, *params: Any, **settings: Any) -> Any:
        """Return the value with PyMC's check of the parameters: ParameterValueError or, in a model, -inf."""
        conditions = {"noise_scale > 0": is_positive(params[-1]), **cls.in_range(*params[:-1], **settings)}
        return check_parameters(computed, *conditions.values(), msg=", ".join(conditions))

    @classmethod
    def log_distribution(cls, value: Any, *params: Any, **settings: Any) -> Any:
        """Return the log distribution function of a noisy statistic that is one number."""
        del value, params, settings
        raise NotImplementedError(f"{cls._print_name[0]} has no distribution function here")


def is_positive(tensor: Any) -> Any:
    """Return whether the numbers are finite and > 0."""
    return pt.gt(tensor, 0) & pt.lt(tensor, np.inf)


def is_whole(tensor: Any) -> Any:
    """Return whether the numbers are whole and >= 1."""
    return pt.ge(tensor, 1) & pt.eq(tensor, pt.floor(tensor))


def is_probability(tensor: Any) -> Any:
    """Return whether the numbers lie in [0, 1]."""
    return pt.ge(tensor, 0) & pt.le(tensor, 1)


class GivenLatent(NoisyRV):
    """A variable whose log density is given latent variances of its noise, the last parameter but one.

    Its draws have new noise of the whole distribution, so that predictive draws do not repeat the noise of a release.
    A subclass derives from this class and from that of the variable with normal noise.
    """

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        found: tuple[Any, Any] = super().hidden(rng, batch, *params[:-1], **settings)
        return found

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        *own, latent, scale = params
        scale = pt.sqrt(noises.variance(settings["family"], scale) * latent)
        normal = {**settings, "family": "gaussian"}
        return super().log_density(value, *own, scale, **normal)

    @classmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        return super().mean(*params[:-2], params[-1], **settings)

    @classmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        return {**super().in_range(*params[:-1], **settings), "latent > 0": is_positive(params[-1])}


@_logprob.register(NoisyRV)  # type: ignore[untyped-decorator]
def _log_probability(op: NoisyRV, values: Any, *inputs: Any, **_kwargs: Any) -> Any:
    (value,) = values
    _rng, _size, *params = inputs
    return op.checked(op.log_density(value, *params, **op.settings), *params, **op.settings)


@_logcdf.register(NoisyRV)  # type: ignore[untyped-decorator]
def _log_distribution_function(op: NoisyRV, value: Any, *inputs: Any, **_kwargs: Any) -> Any:
    _rng, _size, *params = inputs
    return op.checked(op.log_distribution(value, *params, **op.settings), *params, **op.settings)


@_support_point.register(NoisyRV)  # type: ignore[untyped-decorator]
def _start(op: NoisyRV, rv: Any, _rng: Any, _size: Any, *params: Any) -> Any:
    return pt.broadcast_to(op.mean(*params, **op.settings), rv.shape)


class NoisyDistribution(Continuous):  # type: ignore[misc]
    """Base class of the distributions of noisy statistics.

    A subclass states `rv_type` and `models`, the classes of models whose releases it observes, and defines `__new__`,
    which calls `add`, and `dist`. It may override the other methods.
    """

    rv_type: ClassVar[Any]
    models: ClassVar[tuple[type, ...]] = ()
    separate_copies: ClassVar[bool] = False  # whether several noisy copies stay separate; they are averaged otherwise
    takes_private_totals: ClassVar[bool] = False  # whether it observes releases of a private number of records

    @classmethod
    def with_lengths(cls, tensors: dict[str, Any], observed: Any) -> dict[str, Any]:
        """Return the parameters with lengths that are known from what is observed; by default, as they are.

        Parameters
        ----------
        tensors : dict of str to tensor
            The parameters by name.
        observed : array, data or None
            The observed numbers.

        Returns
        -------
        dict of str to tensor
            The parameters by name.
        """
        del observed
        return tensors

    @classmethod
    def model_constants(cls, model: Any) -> dict[str, Any]:
        """Return the parameters of the distribution that the model of a release fixes, such as bounds.

        Parameters
        ----------
        model : Model
            The model of the release.

        Returns
        -------
        dict of str to array
            The parameters by name.
        """
        del model
        return {}

    @classmethod
    def support_axes(cls, copies: int | None = None) -> int:
        """Return the number of axes of one observation.

        Parameters
        ----------
        copies : int, optional
            Number of copies of one statistic, along an axis of their own.

        Returns
        -------
        int
            The number of axes.
        """
        return int(cls.rv_type.ndim_supp) + (copies is not None)

    @classmethod
    def support(cls, tensors: Mapping[str, Any], copies: int | None = None) -> tuple[int | None, ...]:
        """Return the shape of one observation, with None for a length that is not known.

        Parameters
        ----------
        tensors : mapping of str to tensor
            The parameters by name.
        copies : int, optional
            Number of copies of one statistic, along an axis of their own.

        Returns
        -------
        tuple of int or None
            The lengths of its axes.
        """
        del tensors
        return (*([] if copies is None else [copies]), *[None] * int(cls.rv_type.ndim_supp))

    @classmethod
    def created(
        cls, op: Any, parameters: Sequence[Any], *, shape: Any = None, size: Any = None, **settings: Any
    ) -> Any:
        """Return the variable of a class of operations.

        Parameters
        ----------
        op : type
            A subclass of NoisyRV.
        parameters : sequence of tensor
            The parameters, the scale of the noise last.
        shape : tuple of int or tensor, optional
            Shape of the variable.
        size : tuple of int or tensor, optional
            Batch shape of the variable.
        **settings
            What is not a tensor, `likelihood` among it.

        Returns
        -------
        PyMC variable
            The variable, which belongs to no model.
        """
        if unknown := sorted(settings.keys() & {"dims", "initval", "observed"}):
            raise TypeError(f"{cls.__name__}.dist takes no {unknown[0]}: it belongs to a variable of a model")
        if shape is not None and size is not None:
            raise ValueError(f"give shape or size, got shape {shape} and size {size}")
        batch = find_size(shape=convert_shape(shape), size=convert_size(size), ndim_supp=op.ndim_supp)
        return op.rv_op(*parameters, size=batch, **settings)

    @classmethod
    def needs_latent(cls, tensors: Mapping[str, Any], noise: NoiseTensor, **options: Any) -> bool:
        """Return whether the noise is normal in the log density only given latent variances of its own.

        Parameters
        ----------
        tensors : mapping of str to tensor
            The parameters by name.
        noise : NoiseTensor
            The noise.
        **options
            Arguments of `dist` that are not tensors.

        Returns
        -------
        bool
            Whether latent variances are added to the model.
        """
        del tensors, noise, options
        return False

    @classmethod
    def add(
        cls,
        name: str,
        parameters: Mapping[str, Any],
        *,
        noise: Any,
        noise_scale: Any,
        observed: Any,
        dims: Any,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Add the variable to the open model.

        Parameters
        ----------
        name : str
            Name of the variable.
        parameters : mapping of str to tensor
            The parameters by name; None for one that a release gives.
        noise, noise_scale, observed, dims
            As for the class.
        options : mapping of str to object, optional
            Arguments of `dist` that are not tensors.
        **kwargs
            Further arguments of PyMC's distributions.

        Returns
        -------
        PyMC variable
            The variable of the model.
        """
        model = pm.Model.get_context(error_if_none=False)
        if model is None:
            raise TypeError(
                f"no PyMC model is open: write {cls.__name__} inside `with pm.Model():`, or use {cls.__name__}.dist"
            )
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, got {type(name).__name__}")
        check_options(cls.__name__, kwargs)
        dims = known_dims(model, dims)
        given, chosen = dict(parameters), {what: at for what, at in (options or {}).items() if at is not None}
        found = released(cls, observed, model, dims)
        if found is not None and found.is_private:
            if given.pop("n") is not None:
                raise ValueError("n must be left out: the number of records of the release is private")
            given, noise, noise_scale = registered(name, found, given, noise, noise_scale, dims)
            return cls.add_private_total(name, found, given, noise, noise_scale, dims=dims, **chosen, **kwargs)
        if found is not None:
            given, noise, noise_scale = registered(name, found, given, noise, noise_scale, dims)
            observed = found.data(name, dims)
            if found.copies > 1:
                chosen = {**chosen, "copies": found.copies}
        tensor = noise_tensor(noise, noise_scale)
        missing = [what for what, at in given.items() if at is None]
        if found is not None and missing:
            raise TypeError(f"{missing[0]} must be given: it is a parameter of your model, which no release holds")
        tensors = cls.with_lengths({what: tensor_of(what, at) for what, at in given.items()}, observed)
        check_copies(chosen.get("copies"))
        check_observed(observed, tensor)
        if observed is not None:
            check_lengths(model, dims, observed)
            check_shapes(cls, tensors | {"noise_scale": tensor.scale}, observed, chosen.get("copies"))
        if cls.needs_latent(tensors, tensor, **chosen):
            chosen["latent"] = cls._with_latent(name, tensors, tensor, chosen, observed=observed, dims=dims, **kwargs)
        arguments = {"noise": tensor.family, "noise_scale": tensor.scale, **chosen, **kwargs}
        return super().__new__(cls, name, observed=observed, dims=dims, **tensors, **arguments)

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
        """Add the variable of releases whose numbers of records are private.

        Parameters
        ----------
        name : str
            Name of the variable.
        found : Released
            What the releases hold.
        parameters : mapping of str to tensor
            The parameters by name, without n.
        noise, noise_scale
            The family of the noise, and its scales.
        dims : tuple of str, optional
            As for the class.
        **options
            Further arguments of `dist` and of PyMC's distributions.

        Returns
        -------
        PyMC variable
            The variable of the model.

        Raises
        ------
        TypeError
            By default: the distribution does not observe such releases.
        """
        del found, parameters, noise, noise_scale, dims, options
        raise TypeError(f"{cls.__name__} needs a public number of records, but that of {name} is private")

    @classmethod
    def _with_latent(
        cls, name: str, tensors: Any, noise: NoiseTensor, options: Any, *, observed: Any, dims: Any, **kwargs: Any
    ) -> Any:
        """Add the latent variances, in units of those of the noise: Laplace noise is then normal."""
        if options.get("copies") not in {None, 1}:
            raise ValueError(
                f"{options['copies']} copies with {noise.family} noise leave too many counts possible for the exact "
                "density: use ps.infer, or observe one copy"
            )
        sized = {what: at for what, at in kwargs.items() if what in {"shape", "size"}}
        if not sized and dims is not None:
            sized = {"shape": shape_from_dims(dims, pm.modelcontext(None))}
        elif not sized and observed is not None:
            sized = {"shape": tuple(pt.as_tensor_variable(observed).shape)}
        template = cls.dist(**tensors, noise="gaussian", noise_scale=noise.scale, **options, **sized)
        return pm.Exponential(f"{name}_noise", 1.0, shape=template.shape, dims=dims)


def likelihood(variable: Any) -> str:
    """Return how the likelihood of a noisy statistic is computed.

    Parameters
    ----------
    variable : PyMC variable
        A variable that one of the distributions of `privsample.pymc` made.

    Returns
    -------
    str
        "exact: ..." or "central limit: ...", with the error.

    Raises
    ------
    TypeError
        If the variable has another distribution.

    Examples
    --------
    >>> import privsample as ps
    >>> from privsample.pymc import NoisyCount, likelihood
    >>> likelihood(NoisyCount.dist(n=100, p=0.3, noise=ps.LaplaceNoise(scale=2.0))).partition(",")[0]
    'exact: the hidden count is summed out'
    """
    stated = getattr(getattr(variable, "tag", None), "likelihood", None)
    if stated is not None:
        return str(stated)
    op = getattr(getattr(variable, "owner", None), "op", None)
    if not isinstance(op, NoisyRV):
        raise TypeError(f"variable must be a noisy statistic of privsample.pymc, got {variable}")
    return op.likelihood
