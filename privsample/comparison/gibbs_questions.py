"""Comparison of private Gibbs samplers: noisy tables against tempered updates, by the likelihood of new records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.comparison.question import Question
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.mechanisms.posterior.network import PrivateGibbsNetwork

_ERROR = "mean negative log likelihood (nats) of a held-out record"


class ChainQuestion(Question):
    """What further records of the time steps of a hidden Markov chain are."""

    error = _ERROR
    kinds = (PrivateGibbsHMM,)
    held_out = True

    def check(self, mechanisms: Sequence[Any]) -> None:
        """All must take as many records of each step."""
        _check_equal(mechanisms, ("categories", "entries"))

    def simulate(self, mechanisms: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
        """Chains of the first mechanism's prior, and as many further records of the same states."""
        first = mechanisms[0]
        own = [_chain_shares(first, rng) for _ in range(1 if first.tied else first.chains)]
        length, shares = len(first.entries) // first.chains, []
        for chain in range(first.chains):
            emissions, transitions = own[chain % len(own)]
            state = int(rng.integers(first.states))
            for _ in range(length):
                shares.append(emissions[state])
                state = int(rng.choice(first.states, p=transitions[state]))
        data, held_out = (_records(first, shares, rng) for _ in range(2))
        return [data] * len(mechanisms), held_out

    def error_of(self, mechanism: Any, data: Any, held_out: Any, rng: np.random.Generator) -> float:
        """The negative log likelihood of the held-out records, averaged over the released sweeps."""
        found = mechanism.log_predictive(mechanism.release(data, rng=rng), mechanism.histograms(held_out))
        return -float(found.sum()) / mechanism.n


def _chain_shares(mechanism: PrivateGibbsHMM, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Emission probabilities (states, cells) and transition probabilities (states, states) of the prior."""
    states = mechanism.states
    parts = [rng.dirichlet(np.full(k, mechanism.emission_prior), size=states) for k in mechanism.categories]
    return np.concatenate(parts, axis=1), rng.dirichlet(np.full(states, mechanism.transition_prior), size=states)


def _records(mechanism: PrivateGibbsHMM, shares: list[FloatArray], rng: np.random.Generator) -> NDArray[np.int64]:
    """Records (n, features) with the probabilities of their steps."""
    found = [
        np.column_stack(
            [rng.choice(part.stop - part.start, size=count, p=one[part]) for part in mechanism.model.features]
        )
        for one, count in zip(shares, mechanism.entries, strict=True)
    ]
    return np.concatenate(found)


class NetworkQuestion(Question):
    """What further records of a Bayesian network are."""

    error = _ERROR
    kinds = (PrivateGibbsNetwork,)
    held_out = True

    def check(self, mechanisms: Sequence[Any]) -> None:
        """All must take as many records of the same variables; the edges may differ."""
        _check_equal(mechanisms, ("categories", "n"))

    def simulate(self, mechanisms: Sequence[Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
        """Records of the first mechanism's prior."""
        first = mechanisms[0]
        network = first.network
        own = [first.categories[family[-1]] for family in network.families]
        nothing = [np.zeros((network.size(one) // k, k)) for one, k in zip(network.families, own, strict=True)]
        chances = np.exp(network.log_cells(network.draw_probabilities(nothing, rng)))
        codes = np.array(list(np.ndindex(*first.categories)))
        drawn = codes[rng.choice(len(codes), size=2 * first.n, p=chances / chances.sum())]
        return [drawn[: first.n]] * len(mechanisms), drawn[first.n :]

    def error_of(self, mechanism: Any, data: Any, held_out: Any, rng: np.random.Generator) -> float:
        """The negative log likelihood of the held-out records, averaged over the released draws."""
        return -float(mechanism.log_predictive(mechanism.release(data, rng=rng), held_out).mean())


def _check_equal(mechanisms: Sequence[Any], names: tuple[str, ...]) -> None:
    """Raise ValueError if the mechanisms differ in one of these fields."""
    for name in names:
        if any(getattr(one, name) != getattr(mechanisms[0], name) for one in mechanisms):
            raise ValueError(f"the mechanisms must have the same {name}, got different ones")
