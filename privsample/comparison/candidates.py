"""The mechanisms that release a model's posterior, each calibrated to one target, and what each releases."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.targets import Target
from privsample.comparison.table import Comparison
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.truncation import Truncation
from privsample.distributions.parametric.conjugate import Beta, Dirichlet
from privsample.errors import UnreachableTarget
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.posterior.conjugate import ConcentratedPosterior, DiffusedPosterior, DirectPosterior
from privsample.mechanisms.posterior.tempered import TemperedPosterior
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.relations import ReplaceOne

MOST_NOISE_AWARE = 10_000_000  # records up to which the noise-aware posterior of a sum takes seconds, not minutes
_TAIL = 0.005  # prior probability that the tempered posterior's public bounds leave out on each side


class Drawable(Protocol):
    """A released distribution: what one release lets an analyst draw from."""

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density at x."""

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws."""


class Candidate(Protocol):
    """From a simulated statistic to the distribution that one release of a mechanism lets an analyst draw from."""

    mechanism: Any

    @property
    def inference(self) -> str:
        """How the distribution follows from the release, "" if it is released itself."""

    def __call__(self, statistic: FloatArray, rng: np.random.Generator) -> Drawable:
        """The released distribution."""


class Posterior:
    """A mechanism that draws from a distribution of its own, which is a function of the statistic."""

    inference = ""

    def __init__(self, mechanism: Any) -> None:
        self.mechanism = mechanism

    def __call__(self, statistic: FloatArray, rng: np.random.Generator) -> Drawable:
        """The distribution of a draw."""
        del rng
        found: Drawable = self.mechanism._draw_distribution(statistic)
        return found


class Noisy:
    """A noisy statistic: the noise-aware posterior where it exists and can be computed, else the plug-in posterior."""

    def __init__(self, mechanism: NoisyStatistics, *, plug_in: bool) -> None:
        self.mechanism, self._plug_in = mechanism, plug_in
        self._used: set[str] = set()

    @property
    def inference(self) -> str:
        """The posteriors that were used."""
        return " or ".join(sorted(self._used))

    def __call__(self, statistic: FloatArray, rng: np.random.Generator) -> Drawable:
        """A posterior given the statistic with noise."""
        made = self.mechanism
        model, noise, n = made.model, made.distribution, made.n
        assert n is not None
        noisy = statistic + noise.sample(np.shape(statistic), rng)
        if not self._plug_in and n <= MOST_NOISE_AWARE:
            try:
                found = model.noise_aware(n, noise, noisy[None]).distribution
                self._used.add("noise-aware")
                return found
            except (TypeError, ValueError):  # it does not exist, or the noise is too small for it to matter
                pass
        self._used.add("plug-in")
        return model.posterior(model.feasible(noisy, n), n)


class Answers:
    """Randomized response: the plug-in posterior given the estimated frequencies of the true categories."""

    inference = "plug-in"

    def __init__(self, mechanism: RandomizedResponse, model: Model, n: int) -> None:
        self.mechanism, self._model, self._n = mechanism, model, n
        categories, odds = mechanism.categories, float(np.exp(mechanism.log_odds))
        self._other = 1.0 / (odds + categories - 1.0)
        self._matrix = np.full((categories, categories), self._other)
        np.fill_diagonal(self._matrix, odds * self._other)

    def __call__(self, statistic: FloatArray, rng: np.random.Generator) -> Drawable:
        """The posterior given the estimated counts, after each record answered by itself."""
        binary = not np.ndim(statistic)
        counts = np.array([self._n - float(statistic), float(statistic)]) if binary else statistic
        answers = sum(rng.multinomial(round(c), row) for c, row in zip(counts.tolist(), self._matrix, strict=True))
        estimate = (answers - self._n * self._other) / (self._matrix[0, 0] - self._other)
        found = self._model.feasible(np.asarray(estimate[1] if binary else estimate), self._n)
        return self._model.posterior(found, self._n)


def candidates(
    model: Model, n: int, target: Target, draws: int, *, plug_in: bool
) -> list[tuple[Comparison, Candidate | None]]:
    """Every mechanism for a model's posterior: its row, and what it releases; None with the reason in the row."""
    found: list[tuple[Comparison, Candidate | None]] = []
    for name, (parameter, build) in _CANDIDATES.items():
        amount, reason, candidate = np.nan, "", None
        try:
            candidate = build(model, n, target, draws, plug_in)
            amount = float(getattr(candidate.mechanism, parameter)) if parameter else np.nan
        except UnreachableTarget as error:
            reason = str(error)
        except TypeError as error:  # no account or no distribution is known for this model
            reason = f"does not apply: {error}"
        found.append((Comparison(name=name, parameter=parameter, amount=amount, reason=reason), candidate))
    return found


def _posterior(cls: Any) -> Callable[..., Candidate]:
    def build(model: Model, n: int, target: Target, draws: int, plug_in: bool) -> Candidate:
        del plug_in
        made = cls.calibrate(model=model, n=n, target=target, draws=draws)
        return Posterior(made)

    return build


def _tempered(model: Model, n: int, target: Target, draws: int, plug_in: bool) -> Candidate:
    del plug_in
    made = TemperedPosterior.calibrate(
        model=model, n=n, target=target, draws=draws, truncation=central_truncation(model)
    )
    return Posterior(made)


def _noisy(noise: str | None) -> Callable[..., Candidate]:
    def build(model: Model, n: int, target: Target, draws: int, plug_in: bool) -> Candidate:
        del draws
        made = NoisyStatistics.calibrate(model=model, n=n, target=target, noise=noise)
        return Noisy(made, plug_in=plug_in)

    return build


def _answers(model: Model, n: int, target: Target, draws: int, plug_in: bool) -> Candidate:
    del draws, plug_in
    if not (model.records_are_codes or (isinstance(model, BetaBernoulli) and not model.fractional)):
        raise TypeError(f"randomized response answers with categories, which {type(model).__name__} does not have")
    categories = max(int(model.empty.size), 2)
    try:
        made = RandomizedResponse.calibrate(relation=ReplaceOne(n=n), categories=categories, target=target)
    except ValueError as error:  # more answers than can be held in memory
        raise TypeError(str(error)) from None
    return Answers(made, model, n)


def central_truncation(model: Model) -> Truncation:
    """Public bounds of the parameter that leave out 0.5 percent of the prior on each side. Raises TypeError."""
    prior = model.prior
    match prior:
        case Beta(a=a, b=b):
            return min(float(Beta(*pair).quantile(np.array(_TAIL))) for pair in ((a, b), (b, a)))
        case Dirichlet(alpha=alpha):
            shares = np.asarray(alpha)
            rest = shares.sum() - shares
            return float(min(Beta(*pair).quantile(np.array(_TAIL)) for pair in zip(shares, rest, strict=True)))
    if prior.mean.ndim:
        raise TypeError(f"no public bounds are known for the parameter of {type(model).__name__}")
    low, high = prior.quantile(np.array([_TAIL, 1.0 - _TAIL])).tolist()
    return low, high


_CANDIDATES: dict[str, tuple[str, Callable[..., Candidate]]] = {
    "direct": ("", _posterior(DirectPosterior)),
    "diffused": ("data_weight", _posterior(DiffusedPosterior)),
    "concentrated": ("prior_weight", _posterior(ConcentratedPosterior)),
    "tempered": ("temperature", _tempered),
    "noisy": ("scale", _noisy(None)),
    "noisy (Gaussian)": ("scale", _noisy("gaussian")),
    "randomized-response": ("log_odds", _answers),
}
