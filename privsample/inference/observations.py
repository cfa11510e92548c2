"""What a chain conditions on: a release of any kind, checked before anything is sampled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive_integer, real_array
from privsample.accounting.base import Accountant
from privsample.accounting.noise.statistics import StatisticsAccountant
from privsample.distributions.models.base import Model
from privsample.distributions.noise import Noise
from privsample.inference.chains import Observation
from privsample.mechanisms.noise.private_statistics import PrivateStatistics
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.release import Release

_NEEDED = ("model", "n", "noise", "observed")


def as_statistics(release: Any) -> Any:
    """The release with its model, n, noise and observed statistic. Raises TypeError if one is missing."""
    if isinstance(release, Release) and isinstance(release.mechanism, NoisyStatistics):
        return PrivateStatistics(release=release)
    missing = [name for name in _NEEDED if not hasattr(release, name)]
    if missing:
        found = release.mechanism if isinstance(release, Release) else release
        raise TypeError(
            "release must be a Release of NoisyStatistics, a PrivateStatistics, or have the attributes "
            f"{', '.join(_NEEDED)}; got {type(found).__name__} without {', '.join(missing)}"
        )
    return release


def refuse_groups(release: Any) -> None:
    """Raise TypeError for a release of many groups."""
    groups = getattr(release, "groups", None)
    if groups is not None:
        raise TypeError(
            f"release must be of one group, got {len(groups)} groups: give .group(key) of its PrivateStatistics, or "
            "use .draw, which takes all groups at once"
        )


def observation_of(release: Any, size_prior: Any) -> Observation:
    """The model, the number of records, the noise and the noisy copies of a release. Raises TypeError, ValueError."""
    refuse_groups(release)
    model, noise = release.model, release.noise
    if not isinstance(model, Model):
        raise TypeError(f"release.model must be a Model, got {type(model).__name__}")
    if not isinstance(noise, Noise):
        raise TypeError(f"release.noise must be a Noise, such as LaplaceNoise(scale=2.0), got {type(noise).__name__}")
    if isinstance(release, PrivateStatistics) and release.n is None:
        raise ValueError(
            "release must be of a public number of records, but that number is private: use "
            "PrivateStatistics(release=...).noise_aware(), which models it for counts"
        )
    sizes = None if size_prior is None else _sizes(size_prior, release)
    n = positive_integer(**{"release.n": release.n}) if sizes is None else len(sizes) - 1
    copies = _copies(release.observed, np.shape(model.empty))
    if noise.integer_valued:
        if not model.record_sensitivity.integer_valued:
            raise ValueError(f"release.noise is {noise.name}, but statistics of {type(model).__name__} are no integers")
        if not (copies == np.rint(copies)).all():
            raise ValueError(f"release.observed must be whole numbers where the noise is {noise.name}")
    return Observation(model=model, n=n, noise=noise, observed=copies, size_prior=sizes)


def _copies(observed: Any, shape: tuple[int, ...]) -> FloatArray:
    """The noisy copies of a statistic of this shape. Raises TypeError, ValueError."""
    copies = real_array(**{"release.observed": observed})
    if copies.ndim != 1 + len(shape) or copies.shape[1:] != shape or not len(copies):
        wanted = f"(copies, {', '.join(map(str, shape))})" if shape else "(copies,)"
        raise ValueError(f"release.observed must have shape {wanted}, got {copies.shape}")
    if not np.isfinite(copies).all():
        raise ValueError("release.observed must be finite numbers")
    return copies


def _sizes(size_prior: Any, release: Any) -> NDArray[Any]:
    """Log prior probabilities of the number of records. Raises TypeError, ValueError."""
    if isinstance(release, PrivateStatistics):
        raise ValueError(f"size_prior must be left out: the release says that it is of n = {release.n} records")
    sizes = real_array(size_prior=size_prior)
    if sizes.ndim != 1 or len(sizes) < 2 or (sizes == np.inf).any() or not np.isfinite(sizes).any():
        raise ValueError(
            "size_prior must hold the log prior probabilities of 0, 1, ..., most records, shape (most + 1,), each "
            f"finite or -inf and not all -inf; got an array of shape {sizes.shape}"
        )
    return sizes


def with_prior(model: Model, prior: Any) -> Model:
    """The model with another prior. Raises TypeError and ValueError."""
    if prior is None:
        return model
    if not isinstance(prior, Model):
        raise TypeError(
            f"prior must be a {type(model).__name__} with another prior, or a mapping from names of parameters to "
            f"distributions such as scipy.stats.norm(0, 1), got {type(prior).__name__}"
        )
    if prior.likelihood != model.likelihood:
        raise ValueError(f"prior may differ from the model of the release in its prior only: {model}, got {prior}")
    return prior


def account_of(release: Any, observation: Observation) -> Accountant:
    """The account of the release, or that of noise on the statistic of the model if the release has none."""
    account = getattr(release, "account", None)
    if isinstance(account, Accountant):
        return account
    if observation.size_prior is not None:
        raise TypeError("release.account must be the account of the release where its number of records is not public")
    return StatisticsAccountant(
        differences=observation.model.record_sensitivity,
        n=observation.n,
        noise=observation.noise,
        draws=len(observation.observed),
    )
