"""The questions that mechanisms answer, each with data to simulate and the error of a release. No file is read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.comparison.gibbs_questions import ChainQuestion, NetworkQuestion
from privsample.comparison.question import Question, public_size
from privsample.distributions.domains import Domain
from privsample.distributions.likelihoods.logistic import LogisticLikelihood
from privsample.distributions.steps.losses import LogisticLoss
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior.glm import LogisticPosterior
from privsample.mechanisms.posterior.langevin import LangevinPosterior
from privsample.mechanisms.posterior.langevin_model import LangevinModel
from privsample.mechanisms.profiles.base import ProfileMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.selection.exponential import CandidateSelection
from privsample.mechanisms.selection.utilities import (
    CountUtility,
    QuantileUtility,
    StatedUtility,
    SummedUtility,
)
from privsample.mechanisms.sgd import NoisyProjectedSGD

_HELD_OUT = 1_000  # simulated records that no mechanism sees


class SelectionQuestion(Question):
    """Which candidate has the largest utility; the error is the expected regret, computed without sampling."""

    error = "expected regret: the largest utility minus the expected utility of the selected candidate"
    kinds = (CandidateSelection,)
    exact = True

    def check(self, mechanisms: Sequence[Any]) -> None:
        """All must rate the same candidates by the same utility."""
        first = mechanisms[0]
        if any((one.candidates, one.utility) != (first.candidates, first.utility) for one in mechanisms):
            raise ValueError("the selections must have the same candidates and the same utility, got different ones")

    def simulate(self, mechanisms: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
        """The same data for all, where candidates differ in how good they are."""
        first = mechanisms[0]
        data = _rated(first, public_size(first), rng)
        return [data] * len(mechanisms), None

    def error_of(self, mechanism: Any, data: Any, held_out: Any, rng: np.random.Generator) -> float:
        """The expected regret of one draw."""
        del held_out, rng
        utilities = mechanism.utility.totals(data, mechanism.candidates, mechanism.relation)
        chances = mechanism.probabilities(utilities)
        return float(chances @ (utilities.max() - utilities))  # no term is negative, so nothing cancels


def _rated(mechanism: Any, size: int, rng: np.random.Generator) -> Any:
    """Simulated data for the utility of a selection."""
    candidates, utility = mechanism.candidates, mechanism.utility
    match utility:
        case SummedUtility(bounds=(low, high)):
            shares = rng.random(len(candidates))
            return np.where(rng.random((size, len(candidates))) < shares, high, low)
        case QuantileUtility():
            points = np.array(candidates, dtype=np.float64)
            return rng.normal(points.mean(), np.ptp(points) / 4, size)
        case CountUtility():
            chosen = rng.choice(len(candidates), size=size, p=rng.dirichlet(np.ones(len(candidates))))
            return np.array(candidates)[chosen]
        case StatedUtility(function=None):
            return 10.0 * utility.sensitivity * rng.standard_normal(len(candidates))
    raise TypeError(f"no data can be simulated for {type(utility).__name__} with a function of its own: pass data=...")


class FrequencyQuestion(Question):
    """How frequent each code is among the records; the error is that of the frequencies estimated from the release."""

    error = "mean absolute difference between the estimated and the true frequency of a code"
    kinds = (RandomizedResponse, ProfileMechanism)

    def check(self, mechanisms: Sequence[Any]) -> None:
        """All must have as many codes, and profile-based ones the same profiles."""
        counts = sorted({_codes(one) for one in mechanisms})
        if len(counts) > 1:
            raise ValueError(f"the mechanisms must have equally many codes, got {' and '.join(map(str, counts))}")
        graphs = [one.graph for one in mechanisms if isinstance(one, ProfileMechanism)]
        if any(graph != graphs[0] for graph in graphs):
            raise ValueError("the profile-based mechanisms must have the same graph, got different ones")

    def simulate(self, mechanisms: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
        """Codes of random profiles of the graph, or, without a graph, of uniformly random shares."""
        sizes = [public_size(one) for one in mechanisms if isinstance(one, RandomizedResponse)]
        size, codes = (sizes or [public_size(mechanisms[0])])[0], _codes(mechanisms[0])
        graph = next((one.graph for one in mechanisms if isinstance(one, ProfileMechanism)), None)
        if graph is None:
            return [rng.choice(codes, size=size, p=rng.dirichlet(np.ones(codes)))] * len(mechanisms), None
        profile = rng.integers(0, len(graph), size)
        below = np.cumsum(graph.distributions, axis=1)[profile, :-1]
        symbol = (rng.random((size, 1)) > below).sum(axis=1)
        names = np.array([graph.names[k] for k in profile], dtype=object)
        return [{"profile": names, "symbol": symbol}] * len(mechanisms), None

    def error_of(self, mechanism: Any, data: Any, held_out: Any, rng: np.random.Generator) -> float:
        """The error of the frequencies that one release estimates."""
        del held_out
        codes = _codes(mechanism)
        if isinstance(mechanism, RandomizedResponse):
            column = data if not _is_profiled(data) else data["symbol"]
            truth = mechanism._statistic(column)
            estimate = mechanism.frequencies(mechanism.release(column, rng=rng))
        else:
            _, truth = mechanism._statistic(data)
            released = mechanism.release(data, rng=rng)["symbols"].ravel()
            estimate = _estimated(mechanism, np.bincount(released, minlength=codes) / max(len(released), 1))
        frequencies = np.bincount(truth, minlength=codes) / max(len(truth), 1)
        return float(np.abs(estimate - frequencies).mean())


def _is_profiled(data: Any) -> bool:
    """Whether the data have the columns of profile-based mechanisms."""
    try:
        return data["symbol"] is not None
    except Exception:  # noqa: BLE001 - a column of any library
        return False


def _codes(mechanism: Any) -> int:
    return mechanism.categories if isinstance(mechanism, RandomizedResponse) else mechanism.graph.symbols


def _estimated(mechanism: ProfileMechanism, observed: FloatArray) -> FloatArray:
    """Unbiased frequencies where all profiles have one matrix that can be inverted, else the released ones.

    An analyst does not know the profiles of the sources, and so cannot invert matrices that differ between profiles.
    """
    matrices = mechanism.matrices
    if (matrices == matrices[0]).all() and np.linalg.cond(matrices[0]) < 1e6:
        return np.asarray(np.linalg.solve(matrices[0].T, observed))
    return observed


class LabelQuestion(Question):
    """What the labels of new records are; the error is the log loss of the predicted probabilities."""

    error = "mean log loss (nats) of the labels of held-out records"
    kinds = (LogisticPosterior, LangevinPosterior, NoisyProjectedSGD)
    held_out = True

    def takes(self, mechanism: Any) -> bool:
        """Langevin chains and gradient descent answer it with a logistic likelihood or loss."""
        match mechanism:
            case NoisyProjectedSGD():
                return isinstance(mechanism.loss, LogisticLoss)
            case LangevinPosterior():
                return isinstance(mechanism.likelihood, LogisticLikelihood)
        return super().takes(mechanism)

    def check(self, mechanisms: Sequence[Any]) -> None:
        """All must take as many records of the same form."""
        forms = {(_size(one), _features(one)) for one in mechanisms}
        if len(forms) > 1:
            raise ValueError(f"the mechanisms must have the same n and features, got {sorted(forms)}")

    def simulate(self, mechanisms: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
        """Rows uniform in directions and of the largest length, with labels of random coefficients."""
        first = mechanisms[0]
        size, features, norm = _size(first), _features(first), _norm(first)
        rows = rng.standard_normal((size + _HELD_OUT, features))
        rows *= norm / np.linalg.norm(rows, axis=1, keepdims=True)
        coefficients = rng.standard_normal(features) * 4.0 / norm  # scores of a standard deviation of 4/sqrt(features)
        labels = (rng.random(len(rows)) < special.expit(rows @ coefficients)).astype(np.float64)
        data = rows[:size], labels[:size]
        return [data] * len(mechanisms), (rows[size:], labels[size:])

    def error_of(self, mechanism: Any, data: Any, held_out: Any, rng: np.random.Generator) -> float:
        """The log loss of the probabilities averaged over the released draws, as a Bayesian predicts."""
        draws = mechanism._draw_checked(mechanism._statistic(data), rng).draws
        rows, labels = (np.asarray(part, dtype=np.float64) for part in held_out)
        scores = rows @ draws["coefficients"].T + draws.get("intercept", 0.0)
        signed = np.where(labels == 1.0, 1.0, -1.0)[:, None] * scores
        log_likelihood = special.logsumexp(special.log_expit(signed), axis=1) - np.log(scores.shape[1])
        return float(-log_likelihood.mean())


def _size(mechanism: Any) -> int:
    """The public number of records, or the public bound on it."""
    return int(mechanism._most_records if isinstance(mechanism, LangevinPosterior) else mechanism.n)


def _features(mechanism: Any) -> int:
    return int(mechanism.loss.features if isinstance(mechanism, NoisyProjectedSGD) else mechanism.features)


def _norm(mechanism: Any) -> float:
    return float(mechanism.loss.norm if isinstance(mechanism, NoisyProjectedSGD) else mechanism.norm)


class NoiseQuestion(Question):
    """What a statistic or a sum is; the error is that of the released numbers."""

    error = "mean absolute difference between a released number and the statistic or sum without noise"
    kinds = (Mechanism,)

    def takes(self, mechanism: Any) -> bool:
        """Mechanisms that release a noisy copy; those that do not are refused by `error_of`."""
        posterior = isinstance(mechanism, LangevinPosterior | LangevinModel)
        return super().takes(mechanism) and not posterior and getattr(mechanism, "model", None) is None

    def simulate(self, mechanisms: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
        """Columns uniform over their bounds, rows normal, and statistics normal in units of their sensitivity."""
        seed = int(rng.integers(0, 2**63))  # equal forms have equal data
        return [_noiseless(one, np.random.default_rng(seed)) for one in mechanisms], None

    def error_of(self, mechanism: Any, data: Any, held_out: Any, rng: np.random.Generator) -> float:
        """The mean absolute error of the released numbers."""
        del held_out
        exact = {"exact": False, "grid": None} if getattr(mechanism, "exact", False) else {}
        statistic = replace(mechanism, **exact)._statistic(data)  # in floating-point numbers
        draws = list(mechanism._draw_checked(mechanism._statistic(data), rng).draws.values())
        if len(draws) != 1 or not _is_noisy_copy(statistic, draws[0]):
            raise TypeError(_refusal(mechanism))
        return float(np.abs(draws[0] - statistic).mean())


def _is_noisy_copy(statistic: Any, draw: Any) -> bool:
    """Whether each draw has the statistic's shape, and both are real numbers."""
    return isinstance(statistic, np.ndarray) and statistic.dtype.kind == "f" and draw.shape[1:] == statistic.shape


def _noiseless(mechanism: Any, rng: np.random.Generator) -> Any:
    """Data of the form that the mechanism, or the innermost base, takes."""
    inner = mechanism
    while isinstance(base := getattr(inner, "base", None), Mechanism):
        inner = base
    size, domain = public_size(mechanism), getattr(inner, "domain", None)
    match inner.command.data[:1]:
        case ("statistic",):
            scale = float(getattr(inner, "sensitivity", 1.0))
            return scale * rng.standard_normal(getattr(inner, "shape", ()))
        case ("column",) if isinstance(domain, Domain):
            return rng.uniform(domain.low, domain.high, size)
        case ("rows",) if hasattr(inner, "width"):
            return rng.standard_normal((size, inner.width))
    raise TypeError(_refusal(mechanism))


def _refusal(mechanism: Any) -> str:
    if isinstance(mechanism, LangevinPosterior):
        return (
            "likelihood must be LogisticLikelihood(...) where a LangevinPosterior is compared, by the log loss of "
            f"labels, got {type(mechanism.likelihood).__name__}: release other regressions from simulated data, and "
            "compare their predictions of further records"
        )
    if isinstance(mechanism, LangevinModel):
        return (
            "LangevinModel answers none of the questions that can be compared: release it from data that are simulated "
            "from its prior, and compare the draws with the parameters that were simulated"
        )
    return (
        f"{type(mechanism).__name__} answers none of the questions that can be compared: a noisy statistic or sum, a "
        "selection, frequencies of codes, labels, or categories of new records; posterior mechanisms are compared by "
        "their model and its prior, with compare(model=...)"
    )


QUESTIONS: tuple[Question, ...] = (
    SelectionQuestion(),
    FrequencyQuestion(),
    LabelQuestion(),
    ChainQuestion(),
    NetworkQuestion(),
    NoiseQuestion(),
)


def common_question(mechanisms: Sequence[Any]) -> Question:
    """The question that all mechanisms answer. Raises TypeError if there is none, ValueError if their data differ."""
    found = [next((one for one in QUESTIONS if one.takes(made)), None) for made in mechanisms]
    for made, question in zip(mechanisms, found, strict=True):
        if question is None:
            raise TypeError(_refusal(made))
        if question is not found[0]:
            kinds = f"{type(mechanisms[0]).__name__} and {type(made).__name__}"
            raise TypeError(f"the mechanisms must answer the same question, got {kinds}: compare them separately")
    assert found[0] is not None
    found[0].check(mechanisms)
    return found[0]
