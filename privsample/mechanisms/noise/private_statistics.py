"""Inference from a noisy statistic that was released, without further privacy cost."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, generator, positive_integer
from privsample._value import frozen_value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.distributions.exact.grid import Grid
from privsample.distributions.models.base import Model
from privsample.distributions.models.grouped import shared_posteriors
from privsample.distributions.models.noise_aware import NoiseAware, noise_aware_of_each
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.interop import pymc
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.posterior.inference import PosteriorDraws
from privsample.mechanisms.release import Release


@frozen_value
class PrivateStatistics:
    """Inference from a release of NoisyStatistics; the release is all that these methods read.

    Every method is post-processing: any number of priors and posteriors adds no privacy cost. Of a release for many
    groups, which `ps.by` makes, all posteriors are computed at once: arrays have an axis of groups, in the order of the
    keys. Each group has a posterior of its own. A hierarchical model pools them: see `privsample.pymc`.

    Parameters
    ----------
    release : Release
        A release of NoisyStatistics, or of NoisyStatistics for each group.

    Raises
    ------
    TypeError
        If the release was made by another mechanism.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=20, scale=2.0)
    >>> release = mechanism.release([1] * 12 + [0] * 8, rng=np.random.default_rng(0))
    >>> statistics = ps.PrivateStatistics(release=release)
    >>> round(float(statistics.noise_aware().mean), 2), round(float(statistics.posterior().mean), 2)
    (0.54, 0.55)

    Two groups at once:

    >>> wards = ps.by("ward", mechanism, keys=["A", "B"], sizes=[20, 30])
    >>> release = wards.release((["A"] * 20 + ["B"] * 30, [1, 0] * 25), rng=np.random.default_rng(0))
    >>> posterior = ps.PrivateStatistics(release=release).noise_aware()
    >>> posterior.mean.shape, posterior.interval().shape
    ((2,), (2, 2))
    """

    release: Release

    def __post_init__(self) -> None:
        found = getattr(self.release, "mechanism", self.release)
        if not isinstance(getattr(found, "base", None) if hasattr(found, "keys") else found, NoisyStatistics):
            raise TypeError(f"release must be a Release of NoisyStatistics, got {type(found).__name__}")

    @property
    def _groups(self) -> Any:
        """The mechanism for all groups, of which `base` is the one for each; None for a release without groups."""
        return None if isinstance(self.release.mechanism, NoisyStatistics) else self.release.mechanism

    @property
    def _mechanism(self) -> NoisyStatistics:
        found = self.release.mechanism if self._groups is None else self._groups.base
        assert isinstance(found, NoisyStatistics)
        return found

    @property
    def observed(self) -> FloatArray:
        """The noisy copies of the statistic, shape (draws, ...) or (draws, groups, ...)."""
        return self.release["statistic"]

    @property
    def statistic(self) -> FloatArray:
        """The mean of the noisy copies, as released; no dataset need have this statistic."""
        return np.asarray(self.observed.mean(axis=0))

    @property
    def model(self) -> Model:
        """The curator's model, with its prior."""
        return self._mechanism.model

    @property
    def noise(self) -> Noise:
        """The distribution of the noise on each coordinate of each copy."""
        return self._mechanism.distribution

    @property
    def n(self) -> int | NDArray[np.int64] | None:
        """The public number of records; of groups, an array of shape (groups,). None if it is private."""
        if self._groups is None or self._mechanism.n is None:
            return self._mechanism.n
        return np.array(self._groups.sizes)

    @property
    def groups(self) -> tuple[str, ...] | None:
        """The keys of the groups, as text; None for a release without groups."""
        return None if self._groups is None else tuple(map(str, self._groups.keys))

    @property
    def coords(self) -> Mapping[str, Sequence[str]]:
        """The public names of coordinates by axis, such as the keys of the groups, as `pm.Model` takes them."""
        return self.release.coords

    def group(self, key: str | int) -> "PrivateStatistics":
        """What was released for one group, for `mcmc` and for other methods of one release.

        Parameters
        ----------
        key : str or int
            The key of the group.

        Returns
        -------
        PrivateStatistics
            The statistics of the group. Their account is that of one group; to publish them costs what all groups cost.

        Raises
        ------
        ValueError
            If the release has no such group.
        """
        keys = () if self._groups is None else self._groups.keys
        if key not in keys:
            raise ValueError(f"key must be one of the {len(keys)} keys of the groups, got {key!r}")
        place = keys.index(key)
        own = self._mechanism if self._groups.sizes is None else replace(self._mechanism, n=self._groups.sizes[place])
        named = {axis: names for axis, names in self.coords.items() if axis != self._groups.name}
        drawn_by_caller = Assumption.RNG_FRESH in self.account.assumptions
        account = own.accountant.assuming(Assumption.RNG_FRESH) if drawn_by_caller else own.accountant
        draws = {name: array[:, place] for name, array in self.release.draws.items()}
        release = replace(self.release, mechanism=own, draws=draws, account=account, coords=named)
        return PrivateStatistics(release=release)

    @property
    def account(self) -> Accountant:
        """The account of the release."""
        return self.release.account

    def posterior(self, model: Model | None = None) -> PosteriorDistribution:
        """The plug-in posterior: that of the feasible statistic nearest to the released one.

        It ignores the noise, and it ignores that records were clipped to bounds: the released statistic is treated as
        that of records that were never clipped. The plug-in posterior is too narrow if the noise is as large as the
        spread of the data, and misplaced if many records are clipped. `noise_aware` and `mcmc` model both.

        Parameters
        ----------
        model : Model, optional
            The curator's model with any prior. None uses the curator's prior.

        Returns
        -------
        PosteriorDistribution
            The posterior of the model's parameter; of groups, those of all groups: `mean` and `variance` have shape
            (groups, ...), `interval` (2, groups), `sample` (size, groups, ...).

        Raises
        ------
        ValueError
            If the model differs from the curator's in more than its prior.
        """
        chosen = self._with_prior(model)
        sized = self._mechanism._sized

        def nearest(n: int, statistic: FloatArray) -> PosteriorDistribution:
            if sized is not None:
                return chosen.posterior(*sized.nearest(statistic))
            return chosen.posterior(chosen.feasible(statistic, n), n)

        if self._groups is None:
            return nearest(self._mechanism.n or 0, self.statistic)
        return shared_posteriors(lambda n, one: nearest(n, one[0]), self._sizes, self.statistic[None])

    def noise_aware(self, model: Model | None = None) -> PosteriorDistribution:
        """The posterior that models the noise and the bounds: its likelihood is that of clipped records plus noise.

        It is exact for counts of two categories; if the number of records is private, under a uniform prior of that
        number. For a sum of waiting times, of counts, or of normal records with known
        variance, the likelihood of the clipped sum is computed for any number of records, and the posterior is
        tabulated (docs/notes/clipping.md).

        Parameters
        ----------
        model : Model, optional
            The curator's model with any prior. None uses the curator's prior.

        Returns
        -------
        PosteriorDistribution
            The posterior of the model's parameter; of groups, those of all groups, as for `posterior`.

        Raises
        ------
        TypeError
            If the model needs MCMC; use `mcmc`. If the number of records is private, for all other models.
        ValueError
            If the model differs from the curator's in more than its prior, or the noise is so small that the likelihood
            cannot be computed.
        """
        return self._aware(model).distribution

    def draw(
        self,
        draws: int,
        *,
        model: Model | None = None,
        plug_in: bool = False,
        rng: np.random.Generator | None = None,
    ) -> PosteriorDraws:
        """Independent draws from the noise-aware posterior, or from the plug-in posterior.

        Parameters
        ----------
        draws : int
            Number of draws, >= 1. They cost no privacy.
        model : Model, optional
            The curator's model with any prior. None uses the curator's prior.
        plug_in : bool, default False
            Draw from `posterior` in place of `noise_aware`.
        rng : numpy.random.Generator, optional
            Random generator. None draws from the system's entropy.

        Returns
        -------
        PosteriorDraws
            The draws, with the account of the release and a description of the method.

        Raises
        ------
        TypeError, ValueError
            As for `noise_aware`, or for `posterior` with `plug_in`.
        """
        source, size = generator(rng), positive_integer(draws=draws)
        groups = 1 if self._groups is None else len(self._groups.keys)
        check_memory(size * groups * self.model.empty.size, lower="draws")
        method = "plug-in: the noise and the clipping of records are ignored"
        distribution, method = (self.posterior(model), method) if plug_in else self._aware(model)
        drawn = {self.model.parameter: distribution.sample(size, source)}
        return PosteriorDraws(draws=drawn, account=self.account, method=method, **self._context(drawn))

    def mcmc(
        self,
        draws: int = 1000,
        *,
        model: Model | None = None,
        tune: int = 1000,
        chains: int = 4,
        rng: np.random.Generator | None = None,
    ) -> PosteriorDraws:
        """Draws from the noise-aware posterior of any model, by NUTS in PyMC.

        Parameters
        ----------
        draws : int, default 1000
            Number of draws of each chain, >= 1. They cost no privacy.
        model : Model, optional
            The curator's model with any prior. None uses the curator's prior.
        tune : int, default 1000
            Number of tuning steps of each chain, which are discarded.
        chains : int, default 4
            Number of chains, >= 1.
        rng : numpy.random.Generator, optional
            Random generator. None draws from the system's entropy.

        Returns
        -------
        PosteriorDraws
            The draws of all chains, one chain after the other. `method` states what is exact, and the diagnostics.

        Raises
        ------
        ImportError
            If PyMC is not installed.
        TypeError
            If the release is of many groups.
        ValueError
            If the model differs from the curator's in more than its prior.
        """
        if self._groups is not None:
            raise TypeError(
                "mcmc takes a release of one group: use .group(key).mcmc(), or a model of all groups with the "
                f"distributions of privsample.pymc, such as NoisyCount(..., dims={self._groups.name!r})"
            )
        source, chosen = generator(rng), self._with_prior(model)
        drawn, method, stats = pymc.sample_noise_aware(
            self, model=chosen, draws=draws, tune=tune, chains=chains, rng=source
        )
        context = self._context(drawn)
        return PosteriorDraws(
            draws=drawn, account=self.account, method=method, chains=chains, sample_stats=stats, **context
        )

    def _context(self, drawn: Mapping[str, FloatArray]) -> dict[str, Any]:
        """What draws carry beside their values: names of axes and coordinates, the released numbers, and constants."""
        axis, first = self.model.axis_name, () if self._groups is None else (self._groups.name,)
        axes = {
            name: (*first, *(axis, f"{axis}_2")[: array.ndim - 1 - len(first)]) if axis else first
            for name, array in drawn.items()
        }
        size = {} if self.n is None else {"n": np.float64(self.n)}
        second = {f"{axis}_2": self.release.coords[axis]} if axis in self.release.coords else {}
        return {
            "dims": {name: names for name, names in axes.items() if names},
            "coords": {**self.release.coords, **second},
            "observed_data": {"noisy_statistic": self.observed},
            "constant_data": {**size, "noise_variance": self.noise.variance},
        }

    @property
    def _sizes(self) -> NDArray[np.int64]:
        """The public number of records of each group; zeros if they are private."""
        return np.array(self._groups.sizes or [0] * len(self._groups.keys))

    def _aware(self, model: Model | None) -> NoiseAware:
        chosen, pitch, n = self._with_prior(model), self._mechanism.pitch, self._mechanism.n
        if n is not None and self._groups is None:
            return chosen.noise_aware(n, self.noise, self.observed)
        if n is not None:
            return chosen.noise_aware_groups(self._sizes, self.noise, self.observed)
        grid = None if pitch is None else Grid(pitch=pitch)
        if self._groups is None:
            return chosen.sized_noise_aware(self.noise, self.observed, grid)
        return noise_aware_of_each(
            lambda _, seen: chosen.sized_noise_aware(self.noise, seen, grid), self._sizes, self.observed
        )

    def _with_prior(self, model: Model | None) -> Model:
        if model is None:
            return self.model
        if getattr(model, "likelihood", None) != self.model.likelihood:
            raise ValueError(f"model may differ from the curator's in its prior only: {self.model}, got {model}")
        return model

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the release to a `.json` or `.nc` file.

        Parameters
        ----------
        path : str or os.PathLike
            The file to write; its ending selects the format.
        force : bool, default False
            Replace an existing file.
        """
        self.release.save(path, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a release of NoisyStatistics from a file.

        Parameters
        ----------
        path : str or os.PathLike
            A `.json` or `.nc` file that `save` or `Release.save` wrote.

        Returns
        -------
        PrivateStatistics
            The statistics, ready for inference.

        Raises
        ------
        ValueError
            If the file is truncated, altered, or of a newer format.
        TypeError
            If another mechanism made the release.
        """
        return cls(release=Release.load(path))
