"""Noisy sums of clipped records, as a PyMC distribution. docs/notes/clipping.md, step 7."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.shape_utils import implicit_size_from_params, rv_size_is_none
from pymc.pytensorf import normalize_rng_param
from pytensor.raise_op import Assert
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.random.utils import normalize_size_param
from pytensor.tensor.variable import TensorConstant

from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.base import NoisyDistribution, NoisyRV, is_positive, is_whole
from privsample.interop.pymc_distributions.checks import whole
from privsample.interop.pymc_distributions.clipped_records import PHASE, clipped_record, log_density, probability_below
from privsample.interop.pymc_distributions.noise import noise_tensor, present_value, tensor_of
from privsample.interop.pymc_distributions.sum_density import sum_density
from privsample.interop.pymc_distributions.sum_kernel import CUT, FEWEST_CELLS

EXACT = "exact: Fourier inversion, with a relative error of at most 1e-9"
EXACT_LATTICE = "exact: Fourier inversion on a lattice, with a relative error of about 1e-4 (range / noise scale)^2"
LIMIT = "central limit: a normal sum with the moments of clipped records, an error of about skewness / sqrt(n)"
MOST_TERMS = 3072  # beyond, the central limit is used: n = 64 with Laplace noise on real records
MOST_RATIO = 100.0  # largest range of a record in standard deviations of normal noise
RADIANS = 128.0  # phase of a record that the panels resolve with Laplace noise
_MEMORY = 1 << 27  # most records in memory in one draw of the statistics


class NoisySumRV(NoisyRV):
    """The sum of n clipped records plus noise, with parameters n, lower, upper, those of the records, noise scale."""

    extended_signature = "[rng],[size],(),(),(),()->[rng],()"  # and one more for each parameter of the records
    _print_name = ("NoisySum", "\\operatorname{NoisySum}")

    @classmethod
    def rv_op(cls, *params: Any, size: Any = None, rng: Any = None, likelihood: str, **settings: Any) -> Any:
        """Return the variable with these parameters (tensors) and settings."""
        tensors = [pt.as_tensor_variable(param) for param in params]
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        batch = implicit_size_from_params(*tensors, ndims_params=[0] * len(tensors)) if rv_size_is_none(size) else size
        between, statistic = cls.hidden(rng, batch, *tensors[:-1], **settings)
        following, noise = noises.draw(settings["family"], tensors[-1], statistic.shape, between)
        op = cls(
            inputs=[rng, size, *tensors],
            outputs=[following, statistic + noise],
            settings=settings,
            likelihood=likelihood,
            extended_signature=f"[rng],[size],{','.join(['()'] * len(tensors))}->[rng],()",
        )
        return op(rng, size, *tensors)

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        n, lower, upper, *own = params
        n = pt.broadcast_to(n, batch)
        largest = pt.maximum(n.max() if n.ndim else n, 1).astype("int64")
        count = largest * pt.prod(n.shape)
        largest = Assert(f"n times the number of sums must be at most {_MEMORY}: draw fewer at once")(
            largest, pt.le(count, _MEMORY)
        )
        shape = pt.concatenate([largest[None], n.shape])
        following, records = settings["records"].make_node(rng, shape, *own).outputs
        records = pt.clip(records.astype("float64"), lower, upper)
        place = pt.shape_padright(pt.arange(largest), n.ndim)
        return following, pt.switch(place < n, records, 0.0).sum(axis=0)

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        n, lower, upper, *own, scale = params
        family, op, integers = settings["family"], settings["records"], settings["whole"]
        # Parameters out of range, which `checked` refuses, must not make the sums endless.
        ordered = pt.lt(lower, upper)
        lower, upper = pt.switch(ordered, lower, 0.0), pt.switch(ordered, upper, 1.0)
        scale = pt.switch(is_positive(scale), scale, upper - lower)
        n = pt.switch(is_whole(n), n, 1.0)
        span, normal, exact = upper - lower, family.endswith("gaussian"), settings["exact"]
        ratio = (CUT * span / scale).max() if exact and normal else pt.as_tensor(RADIANS)
        panels = pt.ceil(pt.maximum(ratio, RADIANS) / PHASE).astype("int64")
        record = clipped_record(op, own, lower, upper, panels=panels, whole=integers)
        if not exact:
            variance = pt.maximum(n * record.variance, 1e-300)
            return noises.normal_plus_noise(family, value - n * record.mean, variance, scale)
        cost = _terms(n, span, scale, normal=normal, whole=integers).max()
        value = Assert(_TOO_MANY)(value, pt.le(cost, 4 * MOST_TERMS))
        found = sum_density(value, n, record.points, record.weights, scale, normal=normal, whole=integers)
        if not family.startswith("discrete"):
            return found
        # On whole numbers discrete noise is the continuous density times a constant.
        zero, continuous = pt.zeros_like(scale), family.removeprefix("discrete ")
        factor = noises.log_density(family, zero, scale) - noises.log_density(continuous, zero, scale)
        return found + pt.switch(pt.eq(value, pt.round(value)), factor, -np.inf)

    @classmethod
    def mean(cls, *params: Any, **_settings: Any) -> Any:
        n, lower, upper = params[:3]
        return n * (lower + upper) / 2

    @classmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        n, lower, upper = params[:3]
        conditions = {"n >= 1 and whole": is_whole(n), "lower < upper": pt.lt(lower, upper)}
        if settings["whole"]:
            conditions["lower and upper whole"] = pt.eq(lower, pt.floor(lower)) & pt.eq(upper, pt.floor(upper))
        return conditions


_TOO_MANY = "n is too large for the exact density: with n as a number, and not as data, the central limit is used"


class NoisySum(NoisyDistribution):
    r"""Sum of clipped records of any univariate PyMC distribution, plus noise.

    Each of n independent records is clipped to public bounds, and noise is added to their sum:

    .. math:: y = \sum_{i=1}^{n} \min(\max(x_i, \text{lower}), \text{upper}) + \text{noise}.

    Parameters
    ----------
    name : str
        Name of the variable.
    n : int, tensor or array of int
        Public number of records of each sum, >= 1. Left out where `observed` is a release.
    records : PyMC variable
        The distribution of one record before clipping: what `pm.Normal.dist(mu, sigma)` returns, or another univariate
        distribution whose distribution function PyMC knows. Mixtures, hurdle, zero-inflated, censored, Weibull and
        exponentially modified normal distributions are refused; `privsample.infer` takes them. Its parameters may
        differ by group. It need not be the distribution of the release's model, of which only n, the bounds and the
        noise are used.
    lower, upper : float or array of float
        Public bounds of a record, lower < upper; whole numbers if the records are. Left out where `observed` is a
        release.
    noise : Noise, sequence of Noise or str
        The noise on each sum, or the name of its family with `noise_scale`. Discrete noise needs records of whole
        numbers. Left out where `observed` is a release.
    noise_scale : float or tensor, optional
        Scale parameter of the noise, > 0, if `noise` is a name.
    exact : bool, optional
        True for the exact density, False for the central limit. None chooses by the cost.
    observed : array, data or release, optional
        The noisy sums; a release of `GammaPoisson`, `GammaExponential` or `NormalKnownVariance`; or several of them.
    dims : str or tuple of str, optional
        Names of the dimensions of the groups.
    **kwargs
        Further arguments of PyMC's distributions, such as `shape`.

    Raises
    ------
    TypeError
        If `records` is no unregistered univariate distribution with a distribution function, if discrete noise is added
        to real records, or if `noise` is a number.
    ValueError
        If n, the bounds or the shapes are out of range or contradict the release.

    Notes
    -----
    The log density inverts the characteristic function of a clipped record, raised to the n-th power, along a contour
    through the saddle point. Kind: exact, with a relative error of 1e-9 (where the density is above e^-200) for whole
    records and for Gaussian noise, while n (upper - lower) <= 3000 noise_std. With Laplace noise on real records and
    n <= 64 the error is about 1e-4 ((upper - lower) / scale)^2 (measured; at most twice that). Beyond, and with
    Gaussian noise below 1/100 of the range, the
    central limit with the moments of clipped records is used; `likelihood` tells which. Its error is about
    skewness / sqrt(n). The gradient does not include the scale of the noise. Drawing from the variable holds n records
    for each sum in memory. The derivation is in docs/notes/clipping.md, step 7.

    Examples
    --------
    >>> import pymc as pm
    >>> import privsample as ps
    >>> from privsample.pymc import NoisySum, likelihood
    >>> with pm.Model():
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     times = pm.Exponential.dist(rate)
    ...     y = NoisySum("y", 50, times, lower=0, upper=3, noise=ps.LaplaceNoise(scale=6.0), observed=31.5)
    >>> likelihood(y)
    'exact: Fourier inversion on a lattice, with a relative error of about 1e-4 (range / noise scale)^2'
    """

    rv_type = NoisySumRV
    rv_op = NoisySumRV.rv_op
    models = (GammaPoisson, GammaExponential, NormalKnownVariance)

    @classmethod
    def model_constants(cls, model: Any) -> dict[str, Any]:
        """The bounds of a record."""
        low, high = model.bounds if isinstance(model, NormalKnownVariance) else (0.0, model.upper)
        return {"lower": low, "upper": high}

    def __new__(
        cls,
        name: str,
        n: Any = None,
        records: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
        noise: Any = None,
        noise_scale: Any = None,
        exact: bool | None = None,
        observed: Any = None,
        dims: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Add the variable to the open model."""
        record_of(records)
        return cls.add(
            name,
            {"n": n, "lower": lower, "upper": upper},
            noise=noise,
            noise_scale=noise_scale,
            observed=observed,
            dims=dims,
            options={"records": records, "exact": exact},
            **kwargs,
        )

    @classmethod
    def dist(
        cls,
        n: Any,
        records: Any,
        *,
        lower: Any,
        upper: Any,
        noise: Any,
        noise_scale: Any = None,
        exact: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the variable without a model.

        Parameters
        ----------
        n : tensor or numbers
            As for the class.
        records : tensor or numbers
            As for the class.
        lower : tensor or numbers
            As for the class.
        upper : tensor or numbers
            As for the class.
        noise : Noise, sequence of Noise or str
            As for the class.
        noise_scale : float or tensor, optional
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
        op, own = record_of(records)
        n, lower, upper = tensor_of("n", n), tensor_of("lower", lower), tensor_of("upper", upper)
        given = noise_tensor(noise, noise_scale)
        integers = records.type.dtype.startswith(("int", "uint", "bool"))
        whole("n", n, 1)
        _check_bounds(lower, upper, integers)
        if given.integer_valued and not integers:
            raise TypeError(
                f"{given.family} noise needs records of whole numbers, got {type(op).__name__}: use continuous noise"
            )
        if exact is None:
            exact = _is_affordable(n, lower, upper, given, integers)
        words = LIMIT if not exact else EXACT if integers or given.normal else EXACT_LATTICE
        settings = {"family": given.family, "records": op, "whole": integers, "exact": exact}
        return cls.created(NoisySumRV, [n, lower, upper, *own, given.scale], likelihood=words, **settings, **kwargs)


def record_of(records: Any) -> tuple[Any, Sequence[Any]]:
    """Return the operation and the parameters of a record's distribution. Raises TypeError or ValueError."""
    node: Any = getattr(records, "owner", None)
    op = getattr(node, "op", None)
    wanted = "records must be the distribution of one record, such as pm.Normal.dist(mu, sigma)"
    if not isinstance(op, RandomVariable):
        found = type(records).__name__ if op is None else type(op).__name__
        raise TypeError(f"{wanted}, with a distribution function that PyMC knows, got {found}")
    if op.ndim_supp or any(op.ndims_params):
        raise TypeError(f"{wanted}, univariate with numbers as parameters, got {op.name}")
    if records.name is not None:
        raise TypeError(f"{wanted}, not the variable {records.name!r} of a model: use .dist")
    _rng, size, *own = node.inputs
    if not rv_size_is_none(size):
        raise ValueError(f"{wanted}, without shape or size; n is the number of records")
    own = [_in_double(param) if param.dtype.startswith("float") else param for param in own]
    try:
        log_density(op, pt.as_tensor(0.5), own), probability_below(op, pt.as_tensor(0.5), own)
    except NotImplementedError:
        raise TypeError(f"{wanted}; PyMC knows no distribution function of {op.name}") from None
    return op, own


def _in_double(param: Any) -> Any:
    """Return the parameter computed in double precision.

    PyTensor reads a Python float such as 2.5 in single precision, which is exact, but then rounds functions of it, such
    as the mean 1 / 2.5 of `pm.Exponential.dist(2.5)`, to single precision.
    """
    return _without_rounding(param, {}).astype("float64")


def _without_rounding(variable: Any, known: dict[Any, Any]) -> Any:
    """Return the variable computed from constants in double precision; the variables of a model stay as they are."""
    if variable not in known:
        node, found = variable.owner, variable
        if isinstance(variable, TensorConstant) and variable.dtype in {"float16", "float32"}:
            found = variable.astype("float64")
        elif node is not None and not any(isinstance(at.type, RandomType) for at in node.inputs):
            inputs = [_without_rounding(at, known) for at in node.inputs]
            if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
                found = node.op.make_node(*inputs).outputs[node.outputs.index(variable)]
        known[variable] = found
    return known[variable]


def _check_bounds(lower: Any, upper: Any, integers: bool) -> None:
    """Check the present values, where they are known. Raises ValueError."""
    low, high = present_value(lower), present_value(upper)
    for what, known in (("lower", low), ("upper", high)):
        if known is not None and not np.isfinite(known).all():
            raise ValueError(f"{what} must be finite, got {known.tolist()}")
        if known is not None and integers and (known != np.floor(known)).any():
            raise ValueError(f"{what} must be whole, because the records are, got {known.tolist()}")
    if low is not None and high is not None and not (low < high).all():
        raise ValueError(f"lower must be below upper, got {low.tolist()} and {high.tolist()}")


def _terms(n: Any, span: Any, scale: Any, *, normal: bool, whole: bool) -> Any:
    """Return a measure of the cost of the exact density, of numbers or of tensors."""
    if normal:
        return n * span / scale + 2 * CUT
    return n * span * ((span + 1) / FEWEST_CELLS) if whole else n * FEWEST_CELLS


def _is_affordable(n: Any, lower: Any, upper: Any, noise: Any, integers: bool) -> bool:
    """Return whether the exact density has a bounded cost; numbers that are not known are taken to be small."""
    known = [present_value(at) for at in (n, lower, upper)]
    n, low, high = (np.asarray(due) if at is None else at for at, due in zip(known, (1.0, 0.0, 1.0), strict=True))
    scale = high - low if noise.known is None or known[1] is None or known[2] is None else noise.known
    return is_affordable(n, low, high, family=noise.family, scale=scale, integers=integers)


def is_affordable(n: Any, low: Any, high: Any, *, family: str, scale: Any, integers: bool) -> bool:
    """Return whether the exact density of sums of n records within [low, high] has a bounded cost."""
    span, normal = np.asarray(high - low, dtype=np.float64), family.endswith("gaussian")
    if (normal and (span / scale).max() > MOST_RATIO) or (integers and span.max() > FEWEST_CELLS**2):
        return False
    return bool(np.max(_terms(n, span, scale, normal=normal, whole=integers)) <= MOST_TERMS)
