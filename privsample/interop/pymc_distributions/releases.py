"""Releases as observed values: what a noisy statistic takes from one release, or from one for each group."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from privsample._checks import FloatArray
from privsample.distributions.noise import GaussianNoise, Noise
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor, present_value, tensor_of

_FIELDS = ("model", "n", "noise", "observed")


class Released(NamedTuple):
    """What the releases hold: `values` of one release, or stacked along a first axis, one for each group.

    n is NaN where the number of records is private, and part of the values.
    """

    values: FloatArray
    n: Any
    noise: NoiseTensor
    copies: int
    constants: dict[str, FloatArray]
    account: dict[str, FloatArray]
    grouped: bool

    @property
    def is_private(self) -> bool:
        """Whether the numbers of records are private."""
        return bool(np.isnan(self.n).any())

    def data(self, name: str, dims: tuple[str, ...] | None) -> Any:
        """Register the released values in the open model, and return them as data."""
        given = dims if dims is not None and len(dims) == self.values.ndim else None
        return pm.Data(f"{name}_released", self.values, dims=given, shape=_open(self.values, self.grouped))


def view(release: Any) -> Any:
    """Return what has the attributes model, n, noise and observed: the object, or one made of a Release.

    Raises TypeError for anything else.
    """
    if not is_release(release):
        raise TypeError(
            "release must be a PrivateStatistics, a Release of NoisyStatistics, or have model, n, noise and observed; "
            f"got {type(release).__name__}"
        )
    if all(hasattr(release, field) for field in _FIELDS):
        return release
    mechanism = release.mechanism
    if not all(hasattr(mechanism, field) for field in ("model", "n", "distribution")):
        raise TypeError(
            f"the release is of {type(mechanism).__name__}, and its statistic has no distribution here: give a release "
            "of NoisyStatistics, or its numbers with n and noise"
        )
    observed = next(iter(release.draws.values()))
    return _Release(mechanism.model, mechanism.n, mechanism.distribution, observed, release.account, release.delta)


class _Release(NamedTuple):
    """A release of NoisyStatistics as PrivateStatistics shows it."""

    model: Any
    n: int | None
    noise: Noise
    observed: FloatArray
    account: Any
    delta: float


def is_release(given: Any) -> bool:
    """Return whether this is a release, and neither numbers nor a tensor."""
    return all(hasattr(given, field) for field in _FIELDS) or (hasattr(given, "mechanism") and hasattr(given, "draws"))


def released(cls: Any, observed: Any, model: Any, dims: tuple[str, ...] | None) -> Released | None:
    """Return what the releases hold for this distribution, or None if `observed` is not made of releases.

    Raises TypeError for a release of another model, and ValueError for releases that do not fit each other or dims.
    """
    if is_release(observed):
        return _one(cls, view(observed))
    if isinstance(observed, Mapping):
        observed = _in_order(observed, model, dims)
    elif not (isinstance(observed, Sequence) and any(map(is_release, observed))):
        return None
    each = [_one(cls, view(release)) for release in observed]
    families, copies = {one.noise.family for one in each}, {one.copies for one in each}
    if len(families) > 1:
        raise ValueError(f"all releases of one variable must have the same noise, got {', '.join(sorted(families))}")
    if len(copies) > 1:
        raise ValueError(f"all releases of one variable must hold the same number of copies, got {sorted(copies)}")
    if len(shapes := {one.values.shape for one in each}) > 1:
        raise ValueError(f"all releases of one variable must have the same shape, got {sorted(shapes)}")
    if len({one.is_private for one in each}) > 1:
        raise ValueError("all releases of one variable must have a public n, or all a private number of records")
    core = cls.rv_type.ndims_params[-1]
    scales = np.array([one.noise.largest for one in each]).reshape(-1, *[1] * core)
    return Released(
        values=np.stack([one.values for one in each]),
        n=np.array([one.n for one in each]),
        noise=noise_tensor(families.pop(), scales),
        copies=copies.pop(),
        constants={what: np.stack([one.constants[what] for one in each]) for what in each[0].constants},
        account={
            what: np.array([one.account[what] for one in each])
            for what in ("epsilon", "delta")
            if all(what in one.account for one in each)
        },
        grouped=True,
    )


def _in_order(observed: Mapping[Any, Any], model: Any, dims: tuple[str, ...] | None) -> list[Any]:
    """Return the releases in the order of the coords of the first of dims. Raises ValueError."""
    if dims is None or model.coords.get(dims[0]) is None:
        raise ValueError("a mapping of releases needs dims with coords, to which its keys belong")
    labels = list(model.coords[dims[0]])
    if set(labels) != set(observed) or not labels:
        wrong = sorted(map(str, set(labels) ^ set(observed)))
        raise ValueError(f"the keys of observed must be the coords of dim {dims[0]!r}; these are in one only: {wrong}")
    return [observed[label] for label in labels]


def _one(cls: Any, release: Any) -> Released:
    """Return what one release holds."""
    if not isinstance(release.model, cls.models):
        if not cls.models:
            raise TypeError(f"{cls.__name__} observes numbers, got a release of {type(release.model).__name__}")
        expected = " or ".join(each.__name__ for each in cls.models)
        raise TypeError(f"{cls.__name__} observes releases of {expected}, got one of {type(release.model).__name__}")
    if release.n is None and not cls.takes_private_totals:
        raise TypeError(
            f"{cls.__name__} needs a public number of records, but that of the release is private: use "
            "PrivateStatistics.posterior, which ignores the noise"
        )
    separate = cls.separate_copies or release.n is None
    return one_release(release, separate=separate, constants=cls.model_constants(release.model))


def one_release(release: Any, *, separate: bool, constants: Mapping[str, Any]) -> Released:
    """Return what one release holds; several copies stay separate, or are averaged where the noise is normal."""
    if getattr(release.model, "fractional", False):
        raise TypeError("fractional records have no likelihood: use .posterior(), the plug-in posterior")
    values, one = np.asarray(release.observed, dtype=np.float64), np.shape(release.model.empty)
    one = release.model.sized_statistic().shape if release.n is None else one
    if values.ndim != 1 + len(one) or values.shape[1:] != one or not len(values):
        raise ValueError(f"observed must be of shape (copies, *{one}), got {values.shape}")
    noise, copies = release.noise, len(values)
    if copies > 1 and not separate:
        if not noise.name.endswith("gaussian"):
            raise ValueError(f"the release must hold one copy where its noise is {noise.name}, got {copies}")
        noise, copies = GaussianNoise(noise_std=(noise.variance / copies) ** 0.5), 1
        values = values.mean(axis=0, keepdims=True)
    return Released(
        values=values if copies > 1 else values[0],
        n=np.asarray(np.nan if release.n is None else release.n),
        noise=noise_tensor(noise),
        copies=copies,
        constants={what: np.asarray(at, np.float64) for what, at in constants.items()},
        account=_cost(release),
        grouped=False,
    )


def _cost(release: Any) -> dict[str, FloatArray]:
    """Return epsilon and delta of the account of the release, if it has one and epsilon is finite."""
    account = getattr(release, "account", None)
    if account is None:
        return {}
    holder = release if hasattr(release, "delta") else getattr(release, "release", None)
    for delta in (0.0, float(getattr(holder, "delta", 0.0))):
        epsilon = float(account.epsilon(delta))
        if np.isfinite(epsilon):
            return {"epsilon": np.asarray(epsilon), "delta": np.asarray(delta)}
    return {}


def registered(
    name: str, found: Released, given: dict[str, Any], noise: Any, noise_scale: Any, dims: tuple[str, ...] | None
) -> tuple[dict[str, Any], Any, Any]:
    """Register the constants of the releases as data of the open model; return the parameters, noise and noise scale.

    What is given must agree with the releases. Raises ValueError otherwise.
    """
    known = {"n": found.n, **found.constants}
    for what, at in known.items():
        if what not in given:
            continue
        if given[what] is None:
            given[what] = _data(f"{name}_{what}", at, found.grouped, dims)
        else:
            _agree(what, tensor_of(what, given[what]), at)
    if noise is None:
        noise, noise_scale = found.noise.family, _data(f"{name}_noise_scale", found.noise.known, found.grouped, dims)
    else:
        own = noise_tensor(noise, noise_scale)
        if own.family != found.noise.family:
            raise ValueError(f"noise is {own.family}, but the noise of the release is {found.noise.family}")
        _agree("noise_scale", own.scale, found.noise.known)
    for what, at in found.account.items():
        _data(f"{name}_{what}", at, found.grouped, dims)
    return given, noise, noise_scale


def as_data(name: str, found: Released) -> dict[str, Any]:
    """Register what a release holds as data of the open model, and return the arguments of its distribution."""
    given: dict[str, Any] = {"n": None, **dict.fromkeys(found.constants)}
    given, noise, scale = registered(name, found, given, None, None, None)
    copies = {"copies": found.copies} if found.copies > 1 else {}
    return {**given, "noise": noise, "noise_scale": scale, "observed": found.data(name, None), **copies}


def _agree(what: str, tensor: Any, due: Any) -> None:
    """Raise ValueError if a known value contradicts the releases."""
    known = present_value(tensor)
    if known is not None and not np.array_equal(np.broadcast_to(known, np.shape(due)), due):
        raise ValueError(
            f"{what} is {known.tolist()}, but the release has {np.asarray(due).tolist()}: leave {what} out"
        )


def _data(name: str, values: Any, grouped: bool, dims: tuple[str, ...] | None) -> Any:
    """Register numbers as data of the open model."""
    values = np.asarray(values, dtype=np.float64)  # PyMC would make 32 bits of whole numbers
    axes = dims[:1] if grouped and dims is not None and values.ndim == 1 else None
    return pm.Data(name, values, dims=axes, shape=_open(values, grouped))


def _open(values: Any, grouped: bool) -> tuple[int | None, ...]:
    """Return the shape, with the number of groups open, so that data of other groups can be set."""
    return (None, *values.shape[1:]) if grouped else values.shape
