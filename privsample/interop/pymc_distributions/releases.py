"""Releases as observed values: what a noisy statistic takes from one release, or from one for each group."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from privsample._checks import FloatArray
from privsample.distributions.noise import GaussianNoise, Noise
from privsample.interop.pymc_distributions.noise import NoiseTensor, noise_tensor, present_value, tensor_of

_SHOWN = 10  # keys in a message
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

    def in_order(self, places: list[int]) -> "Released":
        """The groups at these places, in this order."""
        scales = self.noise.known
        assert scales is not None
        return self._replace(
            values=self.values[places],
            n=self.n[places],
            noise=noise_tensor(self.noise.family, scales[places]),
            constants={what: at[places] for what, at in self.constants.items()},
            account={what: at[places] for what, at in self.account.items()},
        )

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
    mechanism, groups, sizes = release.mechanism, None, None
    if hasattr(mechanism, "keys"):  # a mechanism for all groups
        mechanism, groups, sizes = mechanism.base, tuple(map(str, mechanism.keys)), mechanism.sizes
    if not all(hasattr(mechanism, field) for field in ("model", "n", "distribution")):
        raise TypeError(
            f"the release is of {type(mechanism).__name__}, and its statistic has no distribution here: give a release "
            "of NoisyStatistics, or its numbers with n and noise"
        )
    observed = next(iter(release.draws.values()))
    n, noise = mechanism.n if sizes is None else np.array(sizes), mechanism.distribution
    return _Release(mechanism.model, n, noise, observed, release.account, release.delta, groups)


class _Release(NamedTuple):
    """A release of NoisyStatistics as PrivateStatistics shows it."""

    model: Any
    n: Any
    noise: Noise
    observed: FloatArray
    account: Any
    delta: float
    groups: tuple[str, ...] | None


def is_release(given: Any) -> bool:
    """Return whether this is a release, and neither numbers nor a tensor."""
    return all(hasattr(given, field) for field in _FIELDS) or (hasattr(given, "mechanism") and hasattr(given, "draws"))


def released(cls: Any, observed: Any, model: Any, dims: tuple[str, ...] | None) -> Released | None:
    """Return what the releases hold for this distribution, or None if `observed` is not made of releases.

    Raises TypeError for a release of another model, and ValueError for releases that do not fit each other or dims.
    """
    if is_release(observed):
        shown = view(observed)
        found = _one(cls, shown)
        groups = getattr(shown, "groups", None)
        return found if groups is None else found.in_order(_places(groups, model, dims))
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
    _check_labels(labels, observed, dims[0])
    return [observed[label] for label in labels]


def _places(groups: tuple[str, ...], model: Any, dims: tuple[str, ...] | None) -> list[int]:
    """Return the places of the groups in the order of the coords of the first of dims, if it has coords."""
    if dims is None or model.coords.get(dims[0]) is None:
        return list(range(len(groups)))
    labels, place = list(map(str, model.coords[dims[0]])), {key: k for k, key in enumerate(groups)}
    _check_labels(labels, place, dims[0])
    return [place[label] for label in labels]


def _check_labels(labels: list[Any], keys: Collection[Any], dim: str) -> None:
    """Raise ValueError if the coords of a dim are not the keys of what is observed."""
    if set(labels) != set(keys) or not labels:
        wrong = sorted(map(str, set(labels) ^ set(keys)))
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise ValueError(
            f"the keys of observed must be the coords of dim {dim!r}; these are in one only: {wrong[:_SHOWN]}{more}"
        )


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
    separate, core = cls.separate_copies or release.n is None, cls.rv_type.ndims_params[-1]
    return one_release(release, separate=separate, constants=cls.model_constants(release.model), core=core)


def one_release(release: Any, *, separate: bool, constants: Mapping[str, Any], core: int = 0) -> Released:
    """Return what one release holds; several copies stay separate, or are averaged where the noise is normal.

    `core` is the number of axes of the noise scale of one group.
    """
    if getattr(release.model, "fractional", False):
        raise TypeError("fractional records have no likelihood: use .posterior(), the plug-in posterior")
    groups = getattr(release, "groups", None)
    batch = () if groups is None else (len(groups),)
    own = np.shape(release.model.empty) if release.n is not None else release.model.sized_statistic().shape
    values, one = np.asarray(release.observed, dtype=np.float64), (*batch, *own)
    if values.ndim != 1 + len(one) or values.shape[1:] != one or not len(values):
        raise ValueError(f"observed must be of shape (copies, *{one}), got {values.shape}")
    noise, copies = release.noise, len(values)
    if copies > 1 and not separate:
        if not noise.name.endswith("gaussian"):
            raise ValueError(f"the release must hold one copy where its noise is {noise.name}, got {copies}")
        noise, copies = GaussianNoise(noise_std=(noise.variance / copies) ** 0.5), 1
        values = values.mean(axis=0, keepdims=True)
    values = np.moveaxis(values, 0, len(batch)) if copies > 1 else values[0]

    def of_each(number: Any) -> FloatArray:
        """A number or array that all groups share, once for each group."""
        array = np.asarray(number, np.float64)
        return np.broadcast_to(array, (*batch, *array.shape))

    return Released(
        values=values,
        n=of_each(np.nan) if release.n is None else np.asarray(release.n),
        noise=noise_tensor(noise)
        if groups is None
        else noise_tensor(noise.name, of_each(np.reshape(noise.scale_parameter, [1] * core))),
        copies=copies,
        constants={what: of_each(at) for what, at in constants.items()},
        account={what: of_each(at) for what, at in _cost(release).items()},
        grouped=groups is not None,
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
