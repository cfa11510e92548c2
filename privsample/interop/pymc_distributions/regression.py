"""Noisy second moments of clipped features and target, as a PyMC distribution. docs/notes/moments.md, section 4."""

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt

from privsample._checks import FloatArray
from privsample.distributions.models.regression import LinearRegression
from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.base import GivenLatent, NoisyDistribution, NoisyRV, is_positive, is_whole
from privsample.interop.pymc_distributions.checks import positive, whole
from privsample.interop.pymc_distributions.moments import check_bounds, one_for_each
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor, present_value, tensor_of
from privsample.interop.pymc_distributions.normal_moments import clipped_normal, clipped_product

_WORDS = (
    "the moments of n clipped records are taken to be normal, with exact means and with covariances to 2 to 6 %; for "
    "fewer than about 30 records the products are not, and ps.infer is exact"
)
LIMIT = f"central limit: {_WORDS}"
_GIVEN = "given the latent variances of the Laplace noise"
_NODES = 1024  # quadrature nodes of the covariance; half of them are reflections of the others
_SQUARE = 0.5**0.5  # the weight of squares (docs/notes/moments.md, section 2)


class NoisyRegressionMomentsRV(NoisyRV):
    """Sums of all products of first and second order of clipped, scaled features and target, plus noise on each."""

    extended_signature = "[rng],[size],(),(f),(),(),(f),(f,f),(f,b),(b),(m)->[rng],(m)"
    _print_name = ("NoisyRegressionMoments", "\\operatorname{NoisyRegressionMoments}")

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **settings: Any) -> tuple[Any, Any]:
        n, width = params[0], settings["width"]
        centre, root = _scaled(*params[1:], width=width)
        batch = pt.as_tensor(batch)
        shape = pt.concatenate([pt.maximum(n.max() if n.ndim else n, 1).astype("int64")[None], batch, [width + 1]])
        following, unit = noises.sampled(pt.random.normal, 0.0, 1.0, size=shape, rng=rng)
        records = centre + (root * unit[..., None, :]).sum(-1)
        axes = unit.type.ndim - 2
        place = pt.shape_padright(pt.arange(shape[0]), axes)
        kept = pt.lt(place, n)[..., None]
        return following, pt.switch(kept, _terms(records, width + 1), 0.0).sum(axis=0)

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        n, *own, scale = params
        columns = settings["width"] + 1
        centre, root = _scaled(*own, width=settings["width"])
        variances = noises.variance(settings["family"], scale)
        records = centre[..., None, :] + pt.matmul(nodes(columns), root.swapaxes(-1, -2))
        terms = _terms(records, columns)
        spread = terms - terms.mean(axis=-2, keepdims=True)
        covariance = n[..., None, None] * pt.matmul(spread.swapaxes(-1, -2), spread) / _NODES
        covariance = covariance + variances[..., None] * np.eye(terms.type.shape[-1] or 0)
        off = value - n[..., None] * _means(centre, root, columns)
        factor = pt.linalg.cholesky(covariance)
        scaled = pt.linalg.solve_triangular(factor, off[..., None], lower=True, b_ndim=2)[..., 0]
        halves = pt.log(pt.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
        return -0.5 * (scaled**2).sum(-1) - halves - 0.5 * np.log(2 * np.pi) * _size(columns)

    @classmethod
    def mean(cls, *params: Any, **settings: Any) -> Any:
        centre, root = _scaled(*params[1:8], width=settings["width"])
        return params[0][..., None] * _means(centre, root, settings["width"] + 1)

    @classmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        n, variance, feature_bounds, target_bounds = params[0], params[3], params[6], params[7]
        del settings
        return {
            "n >= 1 and whole": is_whole(n),
            "variance > 0": is_positive(variance),
            "lower < upper": pt.lt(feature_bounds[..., 0], feature_bounds[..., 1]).all(axis=-1)
            & pt.lt(target_bounds[..., 0], target_bounds[..., 1]),
        }


class NoisyRegressionMomentsLatentRV(GivenLatent, NoisyRegressionMomentsRV):
    """Moments plus Laplace noise, given latent variances in the log density."""

    extended_signature = "[rng],[size],(),(f),(),(),(f),(f,f),(f,b),(b),(m),(m)->[rng],(m)"


def _scaled(*params: Any, width: int) -> tuple[Any, Any]:
    """Mean (..., d) and a root of the covariance (..., d, d) of features and target, in units of the statistic."""
    coefficients, intercept, variance, feature_mean, feature_root, feature_bounds, target_bounds = params
    bounds = pt.specify_shape(feature_bounds, [None] * (feature_bounds.type.ndim - 2) + [width, 2])
    halves = [(at[..., 1] - at[..., 0]) / 2 for at in (bounds, target_bounds)]
    middles = [(at[..., 1] + at[..., 0]) / 2 for at in (bounds, target_bounds)]
    radius = (width + 1) ** -0.5
    root = feature_root / halves[0][..., None] * radius
    slopes = (coefficients[..., None] * feature_root).sum(-2) / halves[1][..., None] * radius
    deviation = pt.sqrt(pt.maximum(variance, 1e-300)) / halves[1] * radius
    centre = (feature_mean - middles[0]) / halves[0] * radius
    target = (intercept + (coefficients * feature_mean).sum(-1) - middles[1]) / halves[1] * radius
    # Placed by constant matrices, because the gradient of assignments takes long to compile.
    up = np.eye(width + 1)
    last = up[width]
    whole_root = _placed(root, up[:, :width], up[:width]) + last[:, None] * (
        (slopes[..., None, :] * up[:, :width]).sum(-1)[..., None, :] + deviation[..., None, None] * last
    )
    whole_centre = (centre[..., None, :] * up[:, :width]).sum(-1) + target[..., None] * last
    columns = width + 1
    return (
        pt.specify_shape(whole_centre, [None] * (whole_centre.type.ndim - 1) + [columns]),
        pt.specify_shape(whole_root, [None] * (whole_root.type.ndim - 2) + [columns, columns]),
    )


def _placed(matrix: Any, left: FloatArray, right: FloatArray) -> Any:
    return pt.matmul(pt.matmul(left, matrix), right)


def _size(columns: int) -> int:
    """The number of moments."""
    return columns + columns * (columns + 1) // 2


def _terms(records: Any, columns: int) -> Any:
    """Products of first and second order of records (..., d), clipped to the radius, with their weights."""
    radius = columns**-0.5
    clipped = pt.clip(records, -radius, radius)
    first, second = np.triu_indices(columns + 1)
    shift, places = np.eye(columns + 1)[0], np.eye(columns + 1)[1:]
    parts = [pt.matmul(clipped, places[:, at[1:]]) + shift[at[1:]] for at in (first, second)]
    return parts[0] * parts[1] * np.where(first == second, _SQUARE, 1.0)[1:]


def _means(centre: Any, root: Any, columns: int) -> Any:
    """Exact means of the products of one record: by closed forms and rules of one dimension."""
    radius = columns**-0.5
    deviation = pt.sqrt((root**2).sum(-1))
    end = pt.zeros_like(deviation) + radius
    points, weights = clipped_normal(centre, deviation, -end, end)
    alone = [(weights * points).sum(-1), _SQUARE * (weights * points**2).sum(-1)]
    first, second = np.triu_indices(columns, 1)
    pick = [np.eye(columns)[at] for at in (first, second)]
    means = [(centre[..., None, :] * each).sum(-1) for each in pick]
    deviations = [(deviation[..., None, :] * each).sum(-1) for each in pick]
    rows = [pt.matmul(each, root) for each in pick]
    correlation = pt.clip((rows[0] * rows[1]).sum(-1) / (deviations[0] * deviations[1]), -1.0, 1.0)
    ends = pt.zeros_like(correlation) + radius
    both = clipped_product(means, deviations, correlation, (-ends, -ends), (ends, ends))
    first, second = (at[1:] for at in np.triu_indices(columns + 1))
    order: dict[tuple[int, int], int] = {(0, j): j - 1 for j in range(1, columns + 1)} | {
        (j, j): columns + j - 1 for j in range(1, columns + 1)
    }
    order |= {
        (i + 1, j + 1): 2 * columns + k
        for k, (i, j) in enumerate(zip(*(at.tolist() for at in np.triu_indices(columns, 1)), strict=True))
    }
    matrix = np.eye(_size(columns))[[order[i, j] for i, j in zip(first.tolist(), second.tolist(), strict=True)]].T
    return pt.matmul(pt.concatenate([*alone, both], axis=-1), matrix)


@cache
def nodes(width: int) -> FloatArray:
    """Return quasi-random nodes for N(0, I), shape (nodes, width), with exact first three moments."""
    from scipy.stats import norm, qmc

    even = qmc.Sobol(width, scramble=False).random(_NODES // 2) + 1.0 / _NODES
    points = norm.ppf(even)
    points = np.concatenate([points, -points])
    return np.asarray(points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / len(points))).T)


class NoisyRegressionMoments(NoisyDistribution):
    r"""Noisy second moments of clipped features and target of a linear regression.

    Features are normal, :math:`x \sim N(m, R R')`, and the target is :math:`t = \beta' x + \alpha + \sqrt{v} z`. Each
    of the d = features + 1 numbers is clipped to public bounds and scaled from them to
    :math:`s_i \in [-1/\sqrt d, 1/\sqrt d]`. The statistic holds the sums over the records of :math:`s_i`,
    :math:`s_i s_j` (i < j) and :math:`s_i^2 / \sqrt 2`, row by row of the upper triangle, plus noise.

    Parameters
    ----------
    name : str
        Name of the variable. Laplace noise adds a variable `{name}_noise` of latent variances.
    n : int, tensor or array of int
        Public number of records, >= 1. Left out where `observed` is a release.
    coefficients : tensor of shape (..., features)
        Coefficients of the features, in the units of the records.
    intercept : tensor
        Intercept.
    variance : tensor
        Variance of the target given the features, > 0.
    feature_mean : tensor of shape (..., features)
        Means of the features.
    feature_root : tensor of shape (..., features, features)
        A root of the covariance of the features.
    feature_bounds : array of shape (..., features, 2)
        Public bounds (low, high) of each feature. Left out where `observed` is a release.
    target_bounds : pair of float
        Public bounds (low, high) of the target. Left out where `observed` is a release.
    noise : Noise, sequence of Noise or str
        The noise on each moment, or the name of its family with `noise_scale`. Left out where `observed` is a release.
    noise_scale : float or tensor, optional
        Scale parameter of the noise, > 0, if `noise` is a name.
    observed : array of shape (..., moments), data or release, optional
        The noisy moments; a release of `LinearRegression`; or several of them.
    dims : str or tuple of str, optional
        Names of the dimensions: of the groups, and of the moments.
    **kwargs
        Further arguments of PyMC's distributions, such as `shape`.

    Raises
    ------
    TypeError
        If `noise` is a number.
    ValueError
        If n, the variance, the bounds or the shapes are out of range or contradict the release; or if Laplace noise is
        used outside a model.

    Notes
    -----
    Bernstein and Sheldon 2019 (central limit). Kind: an approximation by the central limit theorem. The means of the
    moments are those of clipped records; their covariances are computed with 1024 quadrature nodes, with errors of 2 %
    (two numbers) to 6 % (five numbers) of the standard deviations. For fewer than about 30 records products are not
    normal: `privsample.infer` is exact for every n. Laplace noise is normal noise given latent exponential variances;
    pointwise log likelihoods, such as those of `arviz.loo`, are conditional on them. Drawing from the variable holds n
    records in memory.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> from privsample.pymc import NoisyRegressionMoments
    >>> y = NoisyRegressionMoments.dist(
    ...     100,
    ...     [0.5],
    ...     0.0,
    ...     0.2,
    ...     [0.5],
    ...     [[0.3]],
    ...     feature_bounds=[(0, 1)],
    ...     target_bounds=(-1, 1),
    ...     noise=ps.GaussianNoise(noise_std=2.0),
    ... )
    >>> y.type.shape
    (5,)
    """

    rv_type = NoisyRegressionMomentsRV
    rv_op = NoisyRegressionMomentsRV.rv_op
    models = (LinearRegression,)

    @classmethod
    def model_constants(cls, model: Any) -> dict[str, Any]:
        """The bounds of features and target."""
        return {"feature_bounds": model.feature_bounds, "target_bounds": model.target_bounds}

    @classmethod
    def support(cls, tensors: Any, _copies: int | None = None) -> tuple[int | None, ...]:
        """Return the shape of one observation: the number of moments."""
        return (_size(_width(tensors) + 1),)

    @classmethod
    def needs_latent(cls, tensors: Any, noise: NoiseTensor, **options: Any) -> bool:
        """Return whether the noise has Laplace tails."""
        del tensors, options
        return not noise.normal

    def __new__(
        cls,
        name: str,
        n: Any = None,
        coefficients: Any = None,
        intercept: Any = None,
        variance: Any = None,
        feature_mean: Any = None,
        feature_root: Any = None,
        *,
        feature_bounds: Any = None,
        target_bounds: Any = None,
        noise: Any = None,
        noise_scale: Any = None,
        observed: Any = None,
        dims: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Add the variable to the open model."""
        given = {"n": n, "coefficients": coefficients, "intercept": intercept, "variance": variance}
        given |= {"feature_mean": feature_mean, "feature_root": feature_root}
        given |= {"feature_bounds": feature_bounds, "target_bounds": target_bounds}
        return cls.add(name, given, noise=noise, noise_scale=noise_scale, observed=observed, dims=dims, **kwargs)

    @classmethod
    def dist(
        cls,
        n: Any,
        coefficients: Any,
        intercept: Any,
        variance: Any,
        feature_mean: Any,
        feature_root: Any,
        *,
        feature_bounds: Any,
        target_bounds: Any,
        noise: Any,
        noise_scale: Any = None,
        latent: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the variable without a model.

        Parameters
        ----------
        n : tensor or numbers
            As for the class.
        coefficients : tensor or numbers
            As for the class.
        intercept : tensor or numbers
            As for the class.
        variance : tensor or numbers
            As for the class.
        feature_mean : tensor or numbers
            As for the class.
        feature_root : tensor or numbers
            As for the class.
        feature_bounds : tensor or numbers
            As for the class.
        target_bounds : tensor or numbers
            As for the class.
        noise : Noise, sequence of Noise or str
            As for the class.
        noise_scale : float or tensor, optional
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
        given: dict[str, Any] = {"n": n, "coefficients": coefficients, "intercept": intercept, "variance": variance}
        given |= {"feature_mean": feature_mean, "feature_root": feature_root}
        given |= {"feature_bounds": feature_bounds, "target_bounds": target_bounds}
        tensors = {what: tensor_of(what, at) for what, at in given.items()}
        whole("n", tensors["n"], 1)
        positive("variance", tensors["variance"])
        check_bounds("feature_bounds", tensors["feature_bounds"])
        check_bounds("target_bounds", tensors["target_bounds"])
        width = _width(tensors)
        own = noise_tensor(noise, noise_scale)
        if not own.normal and latent is None:
            raise ValueError(
                f"{own.family} noise on several moments is normal noise given latent variances, which belong to a "
                "model: write NoisyRegressionMoments(name, ...) inside `with pm.Model():`, or use Gaussian noise"
            )
        scale = one_for_each(own.scale, _size(width + 1))
        settings = {"family": own.family, "width": width}
        parameters = [*tensors.values(), scale]
        if latent is not None:
            parameters.insert(-1, latent)
            words = f"{LIMIT}; {_GIVEN}"
            return cls.created(NoisyRegressionMomentsLatentRV, parameters, likelihood=words, **settings, **kwargs)
        return cls.created(NoisyRegressionMomentsRV, parameters, likelihood=LIMIT, **settings, **kwargs)


def _width(tensors: dict[str, Any]) -> int:
    """Return the number of features. Raises ValueError if parameters disagree, or none tells it."""
    axes = {"coefficients": 1, "feature_mean": 1, "feature_root": 2, "feature_bounds": 2}
    found: dict[str, int] = {}
    for what, count in axes.items():
        tensor = tensors[what]
        if tensor.type.ndim < count:
            raise ValueError(f"{what} must have at least {count} axes, got shape {tensor.type.shape}")
        known = present_value(tensor)
        length = tensor.type.shape[tensor.type.ndim - count] if known is None else known.shape[known.ndim - count]
        if length is not None:
            found[what] = int(length)
    if not found:
        raise ValueError("the number of features must be known: use pt.specify_shape on coefficients")
    if len(set(found.values())) > 1:
        raise ValueError(f"the parameters must agree in the number of features, got {found}")
    return next(iter(found.values()))
