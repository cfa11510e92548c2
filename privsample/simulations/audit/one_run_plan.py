"""The plan of a one-run audit: everything that is fixed before training, and the coins of the canaries."""

import os
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, generator, real_array
from privsample._value import frozen_value, set_fields
from privsample.errors import TooFewGuessesWarning
from privsample.simulations.audit.one_run_bounds import least_guesses, refutes
from privsample.simulations.audit.one_run_claims import claim_of
from privsample.simulations.audit.one_run_verdict import (
    OneRunVerdict,
    checked_counts,
    load_value,
    save_value,
    too_few_guesses,
)


@frozen_value
class OneRunPlan:
    """What a one-run audit fixes before training: the claim, the number of guesses, and the coin of each canary.

    Use it where training happens elsewhere: make a plan, save it, train on the canaries that `included` marks, score
    all canaries, and pass the scores to `verdict`. `audit_one_run` does all of this in one call.

    Parameters
    ----------
    claim : Accountant or callable
        The claimed guarantee of the training run: an account, or a function from epsilon in nats to delta. A plan with
        a function cannot be saved.
    guesses : int
        Number of guesses, from 1 to the number of canaries.
    included : ndarray of bool, shape (m,)
        For each canary whether its coin includes it. The coins must be fair and independent of each other and of
        training; `draw` tosses them.
    level : float, default 0.05
        Significance level in [1e-200, 1): if the claim is true, the verdict is VIOLATED with at most this probability.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Notes
    -----
    docs/notes/one_run.md, section 1, states the conditions.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> claim = ps.GaussianAccountant(sensitivity=1, noise_std=2)
    >>> plan = ps.OneRunPlan.draw(claim=claim, canaries=500, guesses=100, rng=np.random.default_rng(1))
    >>> released = plan.included + np.random.default_rng(2).normal(0, 2, 500)  # training: a noisy bit for each canary
    >>> plan.verdict(released).outcome
    'CONSISTENT'
    """

    claim: Any
    guesses: int
    included: NDArray[np.bool_]
    level: float = 0.05

    def __post_init__(self) -> None:
        try:
            coins: NDArray[Any] = np.array(self.included)
        except ValueError:  # lists of unequal length
            coins = np.empty((0, 0))
        if not (coins.ndim == 1 and coins.size and np.isin(coins, (0, 1)).all()):
            raise ValueError("included must be a list of True and False, one for each canary")
        coins = coins.astype(bool)
        coins.flags.writeable = False
        checked = checked_counts(len(coins), self.guesses, self.level)
        set_fields(self, included=coins, guesses=checked["guesses"], level=checked["level"])
        claim_of(self.claim)

    @classmethod
    def draw(
        cls,
        *,
        claim: Any,
        canaries: int,
        guesses: int,
        level: float = 0.05,
        rng: np.random.Generator | None = None,
    ) -> "OneRunPlan":
        """Toss a fair coin for each canary.

        Parameters
        ----------
        claim : Accountant or callable
            The claimed guarantee of the training run.
        canaries : int
            Number of canaries, from 1 to 1,000,000.
        guesses : int
            Number of guesses, from 1 to `canaries`.
        level : float, default 0.05
            Significance level in [1e-200, 1).
        rng : numpy.random.Generator, optional
            Generator of the coins, which training must not use; by default the entropy of the operating system.

        Returns
        -------
        OneRunPlan
            The plan.

        Raises
        ------
        TypeError, ValueError
            If an argument has the wrong type or is out of range.

        Warns
        -----
        TooFewGuessesWarning
            If even right guesses alone could not refute the claim; the warning states the least number that could.
        """
        return draw_plan(claim, canaries, guesses, level, generator(rng), stacklevel=3)

    def verdict(self, scores: Any) -> OneRunVerdict:
        """Guess from the scores of all canaries, and count the right guesses.

        Half of the guesses, rounded up, say that the canaries with the largest scores were included; the others say
        that those with the smallest scores were not.

        Parameters
        ----------
        scores : array of float, shape (m,)
            A score for each canary, larger where inclusion is more likely. They may depend on the trained result and on
            the canaries, and not on `included`.

        Returns
        -------
        OneRunVerdict
            The verdict.

        Raises
        ------
        TypeError, ValueError
            If the scores are not one number for each canary.
        """
        given = real_array(scores=scores)
        if given.shape != self.included.shape:
            raise ValueError(f"scores must have shape {self.included.shape}, one for each canary, got {given.shape}")
        return OneRunVerdict(
            claim=self.claim,
            canaries=len(given),
            guesses=self.guesses,
            right=_right_guesses(given, self.included, self.guesses),
            level=self.level,
        )

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the plan to a JSON file. It holds the coins, so training and scoring must not read it.

        Parameters
        ----------
        path : str or path-like
            The file, whose name must end in .json.
        force : bool, default False
            Whether an existing file may be replaced.

        Raises
        ------
        TypeError
            If the claim is a function.
        ValueError, FileExistsError, FileNotFoundError
            If the file cannot be written there.
        """
        save_value(self, path, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a plan from a file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        OneRunPlan
            An equal plan.

        Raises
        ------
        ValueError
            If the content is not a plan.
        """
        loaded: Self = load_value(cls, path)
        return loaded


def draw_plan(
    claim: Any, canaries: Any, guesses: Any, level: Any, rng: np.random.Generator, *, stacklevel: int
) -> OneRunPlan:
    """Toss a fair coin for each canary. Warns, at this stack level, if all guesses right would not refute the claim."""
    checked, tested = checked_counts(canaries, guesses, level), claim_of(claim)
    many, some, risk = checked["canaries"], checked["guesses"], checked["level"]
    plan = OneRunPlan(claim=claim, guesses=some, included=rng.random(many) < 0.5, level=risk)
    if not refutes(some, some, many, risk, tested):
        advice = too_few_guesses(some, least_guesses(many, risk, tested))
        warnings.warn(advice, TooFewGuessesWarning, stacklevel=stacklevel)
    return plan


def _right_guesses(scores: FloatArray, included: NDArray[np.bool_], guesses: int) -> int:
    """The number of right guesses; equal scores are taken in the order of the canaries, which no coin changes."""
    order = np.argsort(scores, kind="stable")
    out, within = order[: guesses // 2], order[len(order) - (guesses + 1) // 2 :]
    return int(included[within].sum() + (~included[out]).sum())
