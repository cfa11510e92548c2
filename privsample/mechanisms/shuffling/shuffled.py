"""Local responses in random order: the numbers of responses of each kind are released."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.loss.codes import code_distributions_of
from privsample.accounting.shuffling.shuffled import ShuffledAccountant
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.frequencies import checked_release, estimated_frequencies, frequency_errors
from privsample.mechanisms.neighbours import Draw, Loss, Neighbours, check_simulated, describe_records
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.release import Release
from privsample.relations import ReplaceOne

_MOST_LOG_ODDS = 30.0


def _with_log_odds(log_odds: float, fields: Mapping[str, Any]) -> Any:
    return replace(fields["base"], log_odds=log_odds)


@frozen_value
class Shuffled(Wrapper):
    """Local responses in random order: each person answers with `base`, and a shuffler mixes the answers.

    Each person's answer is private by itself, also towards the shuffler. Whoever sees only the shuffled answers learns
    much less. `release` takes the base's data, and releases "counts", how many answers of each kind there are, whole
    numbers of shape (1, K): the same information as the answers in uniformly random order. `calibrate(base=...,
    target=...)` chooses the `log_odds` of the base, RandomizedResponse.

    Parameters
    ----------
    base : Mechanism
        What each person answers: RandomizedResponse, or MarkovKernel of it, under ReplaceOne(1) or ReplaceOne(n).
    n : int, optional
        Number of persons, >= 1, who are all known to answer. None takes the n of the base's relation.

    Raises
    ------
    TypeError
        If the base is not a mechanism, or does not release independent codes of the records.
    RelationMismatch
        If the base is not under ReplaceOne(1) or ReplaceOne(n).

    Notes
    -----
    Balle, Bell, Gascón and Nissim 2019, Lemma 5.3. Kind: exact for few persons, else upper bound (`accountant.kind`).

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> base = ps.RandomizedResponse(log_odds=2.0, categories=4, relation=ps.ReplaceOne(n=1))
    >>> mechanism = ps.Shuffled(base=base, n=1000)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    0.352
    >>> release = mechanism.release(np.arange(1000) % 4)
    >>> int(release["counts"].sum()), mechanism.frequencies(release).shape
    (1000, (4,))
    """

    base: Mechanism
    n: int | None = None
    free_parameters = (
        FreeParameter(
            name="log_odds",
            upper=_MOST_LOG_ODDS,
            decides="base",
            from_field=True,
            value=_with_log_odds,
            advice="ask for epsilon > 0 or delta > 0",
        ),
    )
    command = CommandLine(help={"base": 'what each person answers, e.g. "randomized-response log-odds=2 n=1"'})

    def __post_init__(self) -> None:
        if not isinstance(self.base, Mechanism):
            raise TypeError(f"base must be a mechanism, got {type(self.base).__name__}")
        if self.base.record_format is None or code_distributions_of(self.base.accountant) is None:
            raise TypeError(
                f"base must release one code of each record, as RandomizedResponse and MarkovKernel of it do, got "
                f"{type(self.base).__name__}"
            )
        self.base.code_count()
        account = ShuffledAccountant(base=self.base.accountant, n=self.n)
        assert account.n is not None
        check_memory(account.n, lower="n")
        set_fields(self, n=account.n, base=self.base.for_size(account.n))

    @cached
    def accountant(self) -> ShuffledAccountant:
        """The account of the numbers of answers."""
        return ShuffledAccountant(base=self.base.accountant)

    @property
    def quantity(self) -> str:
        """The label "number of answers"."""
        return "number of answers"

    @property
    def description(self) -> str:
        """That answers are random and shuffled, in one sentence."""
        return "Each record answered separately and at random, and only the numbers of equal answers are released."

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return {"counts": ("category",)}

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant whose answers are the truth too often."""
        base, wrong = (RandomizedResponse(log_odds=odds, categories=3, relation=ReplaceOne(n=4)) for odds in (1.0, 1.6))
        return (Example.with_wrong_fields("shuffled", cls(base=base), base=wrong, bug="the truth too often"),)

    def for_size(self, size: int) -> "Shuffled":
        """The same answers of another number of persons."""
        return Shuffled(base=self.base.for_size(positive_integer(size=size)))

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        (codes,) = self.base._draw_checked(statistic, rng).draws.values()
        return {"counts": np.bincount(codes.ravel(), minlength=self.base.code_count())[None]}

    def frequencies(self, release: Release) -> FloatArray:
        """Unbiased estimates of the category frequencies from a release. This is post-processing and costs no privacy.

        Parameters
        ----------
        release : Release
            A release of this mechanism.

        Returns
        -------
        numpy.ndarray of float
            Estimated share of the persons for each category, shape (categories,); estimates may be negative or exceed
            1.

        Raises
        ------
        TypeError
            If `release` is not a Release.
        ValueError
            If another mechanism made the release, or the categories cannot be told apart by their answers.
        """
        return estimated_frequencies(self._distributions, self._shares(release))

    def frequency_errors(self, release: Release) -> FloatArray:
        """Standard errors of `frequencies`, from a release. This is post-processing and costs no privacy.

        Parameters
        ----------
        release : Release
            A release of this mechanism.

        Returns
        -------
        numpy.ndarray of float
            Standard errors of the estimates as frequencies of a population from which the persons are drawn, shape
            (categories,). As frequencies of these persons, the estimates have smaller errors.

        Raises
        ------
        TypeError
            If `release` is not a Release.
        ValueError
            If another mechanism made the release, or the categories cannot be told apart by their answers.
        """
        assert self.n is not None
        return frequency_errors(self._distributions, self._shares(release), self.n)

    def _shares(self, release: Release) -> FloatArray:
        return np.asarray(checked_release(release, self)["counts"].ravel() / self.n)

    @property
    def _distributions(self) -> FloatArray:
        known = code_distributions_of(self.base.accountant)
        assert known is not None
        return known.distributions

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Two records that are exchanged, where all other persons have the second or a third record."""
        group, n = positive_integer(group=group), self.n
        assert n is not None
        check_simulated(n)
        if group > 1:
            raise ValueError(f"shuffled answers are audited for one record, got a group of {group}")
        rows = self._distributions
        draw = self._many_draws(self)
        assert draw is not None

        def pair(a: int, b: int, others: int) -> Neighbours:
            shared = f"{describe_records(n - 1, np.array(others))} and " if n > 1 else ""
            one, other = (shared + describe_records(1, np.array(code)) for code in (a, b))
            data = [np.append(np.full(n - 1, others), code) for code in (a, b)]
            return Neighbours(
                account=self.accountant,
                descriptions=(one, other),
                datasets=(lambda: data[0], lambda: data[1]),
                draw=draw,
                loss=_loss(rows[[a, b]] / rows[others]),
                width=rows.shape[1],
            )

        return tuple(pair(0, 1, others) for others in range(1, min(len(rows), 3)))

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        """The numbers of many releases of the base in one call."""
        if outer is not self or (many := self.base._many_draws(self.base)) is None:
            return None
        kinds = self.base.code_count()

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            codes = many(data, count, rng).astype(np.int64) + kinds * np.arange(count)[:, None]
            return np.bincount(codes.ravel(), minlength=kinds * count).reshape(count, kinds).astype(np.float64)

        return draw


def _loss(ratios: FloatArray) -> Loss:
    """The privacy loss if all other persons have one record: the log ratio of the weighted numbers of answers."""
    return lambda counts: np.log(counts @ ratios[0]) - np.log(counts @ ratios[1])
