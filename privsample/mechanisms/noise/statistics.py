"""A model's sufficient statistic released with noise once, and whatever is inferred from it at no further cost."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self, get_args

import numpy as np

from privsample._checks import FloatArray, check_memory, generator, one_of, positive, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.noise.statistics import StatisticsAccountant
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.moments import MomentModel
from privsample.distributions.models.noise_aware import NoiseAware
from privsample.distributions.noise import LARGEST_DISCRETE, NAMES, Noise, noise_distribution
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.interop import pymc
from privsample.interop.opendp import exact_noise, opendp
from privsample.mechanisms.arguments import CommandLine, noise_argument
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.examples import QUIET, Example
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.noise.neighbours import moment_neighbours
from privsample.mechanisms.posterior.conjugate import ConjugateMechanism, Sampled
from privsample.mechanisms.posterior.inference import PosteriorDraws
from privsample.mechanisms.posterior.neighbours import LogDensity
from privsample.mechanisms.release import Release

Sampler = Literal["numpy", "opendp"]
_LARGEST = float(np.finfo(np.float64).max)
_RARE = -710.0  # log of a chance below every delta that a double holds well
_FURTHEST = 1e150  # ratio of noise and difference, whose square is a number
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee, or use (discrete) Laplace noise"


def _checked(model: Any, noise: Any) -> tuple[Model, str | None]:
    """A model and the name of a noise, or None. Raises: TypeError."""
    if not isinstance(model, Model):
        raise TypeError(f"model must be one of privsample's models, got {type(model).__name__}")
    if not (noise is None or isinstance(noise, str)):
        raise TypeError(f"noise must be the name of a noise, such as 'gaussian', got {type(noise).__name__}")
    return model, noise


def _scaled_by_reach(ratio: float, fields: Mapping[str, Any]) -> float:
    model, noise = _checked(fields["model"], fields["noise"])
    reach = float(model.record_sensitivity.differences.max())
    discrete = noise.startswith("discrete") if noise else model.record_sensitivity.whole
    return min(reach * min(max(ratio, 1 / _FURTHEST), _FURTHEST), LARGEST_DISCRETE if discrete else _LARGEST)


@frozen_value
class NoisyStatistics(ConjugateMechanism):
    """`draws` noisy copies of the model's statistic of n records, n public.

    `noise` is "laplace", "gaussian", "discrete laplace" or "discrete gaussian", `scale` its scale or standard
    deviation, in the statistic's unit; left out, it is discrete Laplace for whole statistics and Laplace for others.
    `sampler` "opendp" draws discrete noise in exact arithmetic, which takes IDEAL_REALS out of the account where
    sums and noise stay below 2^53.
    `release` takes the records in one column, and draws "statistic", shape (draws, ...). Wrap it in PrivateStatistics
    to infer from it.
    """

    model: Model
    n: int
    scale: float
    noise: str | None = None
    draws: int = 1
    unit: str = "record"
    sampler: Sampler = "numpy"
    free_parameters = (FreeParameter(name="scale", direction="smallest", value=_scaled_by_reach, advice=_ADVICE),)
    command = CommandLine(
        name="noisy",
        data=("column", "labelled rows"),
        help={
            "scale": "the spread of the noise, in the statistic's unit",
            "sampler": "what draws the noise: opendp draws discrete noise in exact arithmetic (default: numpy)",
        },
        arguments={"noise": noise_argument("laplace; discrete-laplace for counts")},
    )

    def __post_init__(self) -> None:
        _checked(self.model, self.noise)
        set_fields(self, noise=self.noise or ("discrete laplace" if self.model.record_sensitivity.whole else "laplace"))
        set_fields(self, n=positive_integer(n=self.n), scale=self.distribution.spread)
        if not one_of(self.sampler, get_args(Sampler)):
            raise ValueError(f"sampler must be 'numpy' or 'opendp', got {self.sampler!r}")
        if self.sampler == "opendp" and not self.distribution.whole:
            raise ValueError(f"sampler 'opendp' draws discrete noise only, got noise {self.noise!r}")
        self._settle_draws()
        self.accountant  # noqa: B018 - building it checks the rest

    @cached
    def distribution(self) -> Noise:
        """The distribution of the noise."""
        return noise_distribution(str(self.noise), positive(scale=self.scale))

    @property
    def parameter(self) -> str:
        """The name under which the noisy statistic is released."""
        return "statistic"

    @cached
    def accountant(self) -> Accountant:
        """From the model's differences of records, under ReplaceOne(n)."""
        reach = self.n * float(self.model.record_sensitivity.differences.max()) + self.distribution.reach(_RARE)
        whole = reach < 2**53  # up to there a float holds sum and noise exactly
        ideal = frozenset(() if self.sampler == "opendp" and whole else {Assumption.IDEAL_REALS})
        return StatisticsAccountant(
            differences=self.model.record_sensitivity,
            n=self.n,
            noise=self.distribution,
            draws=self.draws,
            unit=self.unit,
            assumptions=ideal,
        )

    @property
    def description(self) -> str:
        """How much noise was added, and to what."""
        return (
            f"Random noise ({self.noise}, scale {self.scale:.4g}) was added to the one summary of {self.n:,} records "
            f"from which {self._about} is inferred; whatever is inferred from it costs nothing more."
        )

    @property
    def quantity(self) -> str:
        """A noisy statistic."""
        return "statistic"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Each kind of noise, with too little of it."""
        model = BetaBernoulli(alpha=2, beta=3)
        each = {name: cls(model=model, n=20, noise=name, scale=2.0) for name in NAMES}
        return tuple(
            Example.with_wrong_fields(f"{name.replace(' ', '-')}-statistics", example, scale=1.5, bug=QUIET)
            for name, example in each.items()
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The records that move the statistic farthest."""
        group = positive_integer(group=group)
        if not isinstance(self.model, MomentModel):
            return ConjugateMechanism.worst_neighbours(self, group)
        one = replace(self, draws=1)
        return moment_neighbours(
            model=self.model,
            noise=self.distribution,
            n=self.n,
            group=group,
            account=one.accountant,
            draw=one._many_draws(one),
        )

    def _log_density(self, statistic: FloatArray) -> LogDensity:
        noise = self.distribution
        return lambda drawn: noise.log_mass(drawn - statistic).sum(axis=1)

    def _many_draws(self, outer: Mechanism) -> Draw:
        draw = many_draws(self, self.parameter, outer)
        if self.sampler == "opendp":  # it draws from its own source
            return lambda data, count, rng: draw(data, count, None)  # type: ignore[arg-type]  # noqa: ARG005
        return draw

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        if self.sampler == "opendp":
            if rng is not None:
                raise ValueError("OpenDP draws from its own secure source: leave rng out, or use sampler='numpy'")
            opendp()

    def _law(self, statistic: FloatArray) -> Sampled:
        return _Noisy(statistic=statistic, noise=self.distribution, exact=self.sampler == "opendp")


@frozen_value
class _Noisy:
    """What is released, given the statistic."""

    statistic: FloatArray
    noise: Noise
    exact: bool

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent copies, shape (size, ...)."""
        shape = (size, *self.statistic.shape)
        with np.errstate(over="ignore"):
            noise = exact_noise(self.noise, shape) if self.exact else self.noise.sample(shape, rng)
            return np.clip(self.statistic + noise, -_LARGEST, _LARGEST)


@frozen_value
class PrivateStatistics:
    """What an analyst has: a release of NoisyStatistics, which is all that these inferences look at.

    Everything here is post-processing: any number of priors and posteriors costs nothing further.
    """

    release: Release

    def __post_init__(self) -> None:
        if not isinstance(getattr(self.release, "mechanism", None), NoisyStatistics):
            found = getattr(self.release, "mechanism", self.release)
            raise TypeError(f"release must be a Release of NoisyStatistics, got {type(found).__name__}")

    @property
    def _mechanism(self) -> NoisyStatistics:
        assert isinstance(self.release.mechanism, NoisyStatistics)
        return self.release.mechanism

    @property
    def observed(self) -> FloatArray:
        """The noisy copies, shape (draws, ...)."""
        return self.release["statistic"]

    @property
    def statistic(self) -> FloatArray:
        """The mean of the noisy copies, as released: it may be a statistic of no records."""
        return np.asarray(self.observed.mean(axis=0))

    @property
    def model(self) -> Model:
        """The curator's model."""
        return self._mechanism.model

    @property
    def noise(self) -> Noise:
        """The distribution of the noise on each coordinate of each copy."""
        return self._mechanism.distribution

    @property
    def n(self) -> int:
        """The number of records."""
        return self._mechanism.n

    @property
    def account(self) -> Accountant:
        """What the release costs."""
        return self.release.account

    def posterior(self, model: Model | None = None) -> PosteriorDistribution:
        """The plug-in posterior: of the feasible statistic nearest to the released one, as if no record was changed.

        It leaves out of account the noise, and that records were clipped to bounds: it takes the released statistic for
        that of records which were never clipped. It is too narrow where the noise is no less than the spread of the
        data, and in the wrong place where many records are clipped. `noise_aware` and `mcmc` model both.

        Parameters: model, the curator's with any prior. Raises: ValueError, for a model that differs in more than its
        prior.
        """
        chosen = self._with_prior(model)
        return chosen.posterior(chosen.feasible(self.statistic, self.n), self.n)

    def noise_aware(self, model: Model | None = None) -> PosteriorDistribution:
        """The posterior that models the noise and the bounds: the likelihood is that of clipped records.

        Exact for counts of two categories; for a sum of waiting times, of counts or of normal records of known variance
        the likelihood of the clipped sum is computed at any number of records, and the posterior is tabulated
        (docs/notes/clipping.md).

        Parameters and errors as `posterior`; TypeError, where it needs MCMC; ValueError, where noise is so faint that
        the likelihood has no smooth form.
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
        """Independent draws from the noise-aware posterior, or the plug-in one, with the account and the method.

        Parameters and errors as `noise_aware` or, with `plug_in`, as `posterior`.
        """
        source, size = generator(rng), positive_integer(draws=draws)
        check_memory(size * self.model.empty.size, lower="draws")
        method = "plug-in: the noise, and that records were clipped, were left out of account"
        distribution, method = (self.posterior(model), method) if plug_in else self._aware(model)
        drawn = {self.model.parameter: distribution.sample(size, source)}
        return PosteriorDraws(draws=drawn, account=self.account, method=method)

    def mcmc(
        self,
        draws: int = 1000,
        *,
        model: Model | None = None,
        tune: int = 1000,
        chains: int = 4,
        rng: np.random.Generator | None = None,
    ) -> PosteriorDraws:
        """Draws from the noise-aware posterior of any model by NUTS in PyMC: `chains` chains of `draws` each.

        `method` says what is exact, and how the chains fared. Raises: ImportError, PyMC is not installed; ValueError,
        for a model that differs in more than its prior.
        """
        source, chosen = generator(rng), self._with_prior(model)
        drawn, method = pymc.noise_aware(self, model=chosen, draws=draws, tune=tune, chains=chains, rng=source)
        return PosteriorDraws(draws=drawn, account=self.account, method=method, chains=chains)

    def _aware(self, model: Model | None) -> NoiseAware:
        return self._with_prior(model).noise_aware(self.n, self.noise, self.observed)

    def _with_prior(self, model: Model | None) -> Model:
        if model is None:
            return self.model
        if getattr(model, "likelihood", None) != self.model.likelihood:
            raise ValueError(f"model may differ from the curator's in its prior only: {self.model}, got {model}")
        return model

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write `.json` or `.nc`, as the release does."""
        self.release.save(path, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` wrote. Raises: ValueError, for a file altered or of a newer format; TypeError, another's file."""
        return cls(release=Release.load(path))
