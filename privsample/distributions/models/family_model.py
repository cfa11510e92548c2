"""Base class of savable models of the user's own, whose posteriors form a stated exponential family."""

from abc import abstractmethod
from typing import Any

from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import cached
from privsample.distributions.domains import Domain
from privsample.distributions.models.base import Model, Records
from privsample.distributions.models.exponential_family import ExponentialFamily
from privsample.distributions.models.truncation import LogRatio
from privsample.distributions.parametric.natural import NaturalDistribution
from privsample.distributions.parametric.truncated import TruncatedDistribution
from privsample.distributions.posterior_shifts import NaturalShifts
from privsample.distributions.record_sensitivity import RecordSensitivity


class FamilyModel(Model):
    """Base class of models that state an exponential family as a function of their own fields.

    A model that holds functions cannot be saved, and a ledger cannot record its account. A subclass of this class holds
    its parameters only: it is a registered frozen dataclass whose property `family` builds the family from them. All
    else follows from the family.

    Notes
    -----
    Geumlek 2020, section 5.2; docs/notes/families.md.

    Examples
    --------
    Records in [-1, 1] that tilt a normal prior on their mean; the variance of a record is 1:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import privsample as ps
    >>> @ps.register(package="tilted-example")
    ... @dataclass(frozen=True, kw_only=True)
    ... class TiltedNormal(ps.FamilyModel):
    ...     strength: float
    ...
    ...     @property
    ...     def family(self):
    ...         normal = ps.LogNormalizer(
    ...             value=lambda eta: eta[:, 0] ** 2 / (2 * self.strength),
    ...             gradient=lambda eta: eta / self.strength,
    ...             hessian=lambda eta: np.ones((len(eta), 1, 1)) / self.strength,
    ...             normalizable=lambda eta: np.isfinite(eta[:, 0]),
    ...         )
    ...         return ps.ExponentialFamily(
    ...             prior_parameter=[0.0],
    ...             records=ps.Domain(low=-1, high=1, missing=0),
    ...             contribution=lambda x: x[:, None],
    ...             normalizer=normal,
    ...             sampler=lambda eta, size, rng: rng.normal(eta[0] / self.strength, self.strength**-0.5, size),
    ...             parameter_statistic=lambda theta: theta[:, None],
    ...         )
    >>> mechanism = ps.DirectPosterior(model=TiltedNormal(strength=40.0), n=10)
    >>> round(float(mechanism.accountant.rdp(2.0)), 6)
    0.1
    """

    __slots__ = ()

    @property
    @abstractmethod
    def family(self) -> ExponentialFamily:
        """The family, as a function of the fields."""

    @cached
    def _family(self) -> ExponentialFamily:
        """The family, built and checked once. Raises TypeError if it is no ExponentialFamily."""
        found: object = self.family
        if not isinstance(found, ExponentialFamily):
            raise TypeError(
                f"family of {type(self).__name__} must return an ExponentialFamily, got {type(found).__name__}"
            )
        return found

    @property
    def domain(self) -> Domain:
        """The valid records, and the public rule that maps every other value to a valid one."""
        return self._family.domain

    @property
    def parameter(self) -> str:
        """The name under which draws are released."""
        return self._family.parameter

    @property
    def empty(self) -> FloatArray:
        """The statistic of an empty dataset: zeros of shape (k,)."""
        return self._family.empty

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """The shape of one draw."""
        return self._family.draw_shape

    def statistic(self, chunk: NDArray[Any]) -> FloatArray:
        """Sum of the contributions of a chunk of records, after the public rule: shape (k,)."""
        return self._family.statistic(chunk)

    @cached
    def record_sensitivity(self) -> RecordSensitivity:
        """The largest changes of the statistic by one replaced record."""
        return self._family.record_sensitivity

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """The nearest statistic in the smallest box that contains those of n records."""
        return self._family.feasible(statistic, n)

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> NaturalDistribution:
        """The posterior with natural parameter w prior + r statistic, for data weight r and prior weight w."""
        return self._family.posterior(statistic, n, data_weight=data_weight, prior_weight=prior_weight)

    @cached
    def neighbouring_posteriors(self) -> tuple[NaturalShifts, ...]:
        """All pairs of posteriors whose natural parameters differ by two contributions."""
        return self._family.neighbouring_posteriors

    def log_ratio(self, n: int, temperature: float, bounds: tuple[float, float]) -> LogRatio:
        """Range of the log likelihood ratio of two records, from the stated bounds of T(theta)."""
        return self._family.log_ratio(n, temperature, bounds)

    def tempered_posterior(
        self, statistic: FloatArray, n: int, temperature: float, bounds: tuple[float, float]
    ) -> TruncatedDistribution:
        """The tempered posterior between public bounds, by the stated sampler."""
        return self._family.tempered_posterior(statistic, n, temperature, bounds)

    def supports_groups(self, prior_weight: float) -> bool:
        """True if there are two vertices."""
        return self._family.supports_groups(prior_weight)

    @property
    def extreme_records(self) -> tuple[Records, ...]:
        """Records of the two most different posteriors of two records, in (record of the others, x, x')."""
        return self._family.extreme_records
