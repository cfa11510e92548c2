"""Verdicts of one-run audits: the test, lower bounds, a statement in plain English, a plot and a file."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privsample._checks import nonnegative_integer, number, positive_integer, probability
from privsample._repr import short_repr
from privsample._serial import decode, storable
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.mechanisms.files import writable, write_whole
from privsample.plots.html import card
from privsample.plots.one_run import plot_right_guesses
from privsample.simulations.audit.claim_verdict import ClaimVerdict
from privsample.simulations.audit.one_run_bounds import (
    LEAST_P_VALUE,
    critical_count,
    least_guesses,
    lower_epsilon,
    lower_mu,
    p_value,
)
from privsample.simulations.audit.one_run_claims import OneRunClaim, claim_of
from privsample.simulations.report.statements import small

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CANARIES = 1_000_000  # for which a p-value takes a minute
_PLOTTED = 40  # numbers of guesses at which the plot shows the largest allowed number of right ones


@frozen_value
class OneRunVerdict(ClaimVerdict, Memo):
    """Result of a one-run audit: the claim is VIOLATED, or the guesses are CONSISTENT with it.

    `audit_one_run` and `OneRunPlan.verdict` return verdicts. Everything else follows from the five fields. The whole
    claimed privacy curve is tested by one number, how many guesses are right. All lower bounds hold simultaneously with
    probability at least 1 - `level`. An audit can refute a claim and cannot prove one.

    Parameters
    ----------
    claim : Accountant or callable
        The claimed guarantee of the training run: an account, or a function from epsilon in nats to delta. A verdict
        about a function cannot be saved.
    canaries : int
        Number of canaries, each included by a fair coin of its own, from 1 to 1,000,000.
    guesses : int
        Number of guesses, from 1 to `canaries`. It must have been fixed before the scores were seen.
    right : int
        Number of right guesses, from 0 to `guesses`.
    level : float, default 0.05
        Significance level in [1e-200, 1): if the claim is true, the verdict is VIOLATED with at most this probability.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Notes
    -----
    Mahloujifar, Melis and Chaudhuri 2024; Steinke, Nasr and Jagielski 2023, Theorem 5.2, with a delta-term;
    docs/notes/one_run.md. Kind: upper bound on the p-value.

    Examples
    --------
    >>> import privsample as ps
    >>> claim = ps.PureAccountant(stated_epsilon=2.0)
    >>> verdict = ps.OneRunVerdict(claim=claim, canaries=100, guesses=100, right=95)
    >>> verdict.outcome, verdict.critical
    ('VIOLATED', 94)
    >>> f"{verdict.epsilon_at(0.0):.4f}"
    '2.1724'
    """

    claim: Any
    canaries: int
    guesses: int
    right: int
    level: float = 0.05

    def __post_init__(self) -> None:
        set_fields(self, **checked_counts(self.canaries, self.guesses, self.level))
        set_fields(self, right=nonnegative_integer(right=self.right))
        if not self.right <= self.guesses:
            raise ValueError(f"right must be at most guesses = {self.guesses:,}, got {self.right:,}")
        _ = self._tested  # checks the claim

    @cached
    def _tested(self) -> OneRunClaim:
        """The claim as the test uses it. Raises TypeError or ValueError."""
        return claim_of(self.claim)

    @cached
    def p_value(self) -> float:  # type: ignore[override]
        """Upper bound on the probability, under a true claim, of as many right guesses; at least 1e-250."""
        return p_value(self.right, self.guesses, self.canaries, self.level, self._tested)

    @cached
    def critical(self) -> int | None:
        """Least number of right guesses that refutes the claim; None if all guesses right would not."""
        return critical_count(self.guesses, self.canaries, self.level, self._tested)

    @cached
    def needed(self) -> int | None:
        """Least number of guesses that refutes the claim if all are right; None if no number does."""
        return least_guesses(self.canaries, self.level, self._tested)

    @cached
    def mu(self) -> float:
        """Lower confidence bound on the mu of Gaussian differential privacy: mu-GDP is refuted for every smaller mu."""
        return lower_mu(self.right, self.guesses, self.canaries, self.level)

    def epsilon_at(self, delta: float) -> float:
        """Lower confidence bound on the true epsilon at a given delta.

        Parameters
        ----------
        delta : float
            The delta of the guarantee, in [0, 1).

        Returns
        -------
        float
            The largest epsilon, in nats, for which (epsilon, delta) is refuted; 0 if there is none.
        """
        return lower_epsilon(self.right, self.guesses, self.canaries, self.level, probability(delta=delta))

    @property
    def statement(self) -> str:
        """The verdict as text, with the number of guesses and what they could have refuted."""
        basis = (
            f"{self.right:,} of {self.guesses:,} guesses are right about {self.canaries:,} canaries, each of which one "
            "training run included by a fair coin"
        )
        if self.violated:
            shown = f"at most {small(LEAST_P_VALUE)}" if self.p_value <= LEAST_P_VALUE else f"{self.p_value:.2g}"
            return (
                f"VIOLATED: {basis}; {self.critical:,} are enough to refute the claim (p = {shown}). If the claim is "
                f"true, the verdict is VIOLATED with probability at most {small(self.level)}. Lower bounds for the "
                f"training run: mu is at least {_down(self.mu)}, and epsilon at delta = 0 at least "
                f"{_down(self.epsilon_at(0.0))}; the test uses the whole claimed curve and can be stronger than either."
            )
        return (
            f"CONSISTENT: {basis}; {self._power} (p = {self.p_value:.2g}, level {small(self.level)}). This does not "
            "prove the claim."
        )

    @property
    def _power(self) -> str:
        """Clause about the number of right guesses that would refute the claim."""
        if self.critical is not None:
            return f"{self.critical:,} would refute the claim"
        return too_few_guesses(self.guesses, self.needed)

    def __repr__(self) -> str:
        claim = short_repr(self.claim, 40)
        return f"OneRunVerdict({self.right} of {self.guesses} right, {self.canaries} canaries, claim={claim})"

    def _repr_html_(self) -> str:
        rows = [
            ("outcome", self.outcome),
            ("claim", short_repr(self.claim)),
            ("right guesses", f"{self.right:,} of {self.guesses:,}, about {self.canaries:,} canaries"),
            ("refuted from", "none" if self.critical is None else f"{self.critical:,} right guesses"),
            ("p-value", f"{self.p_value:.2g} (VIOLATED at {self.level:g} or below)"),
            ("lower bound on mu", _down(self.mu)),
            ("statement", self.statement),
        ]
        return card("Verdict of a one-run audit", rows)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the number of right guesses, and how many the claim allows for each number of guesses.

        The line is the largest number of right guesses that does not refute the claim, by the whole claimed curve, at
        each number of guesses that could have been fixed beforehand. Only the one that was fixed is tested.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        """
        last = min(2 * self.guesses, self.canaries)
        counts = sorted({self.guesses, *np.linspace(1, last, _PLOTTED).astype(int).tolist()})
        critical = [critical_count(one, self.canaries, self.level, self._tested) for one in counts]
        allowed = [one if least is None else least - 1 for one, least in zip(counts, critical, strict=True)]
        return plot_right_guesses(ax, counts, allowed, (self.guesses, self.right), violated=self.violated)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the verdict to a JSON file.

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
    def load(cls, path: str | os.PathLike[str]) -> "OneRunVerdict":
        """Read a verdict from a file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        OneRunVerdict
            An equal verdict.

        Raises
        ------
        ValueError
            If the content is not a verdict.
        """
        return load_value(cls, path)


def checked_counts(canaries: Any, guesses: Any, level: Any) -> dict[str, Any]:
    """Check the numbers of canaries and guesses and the level, and return them. Raises TypeError, ValueError."""
    many, some = positive_integer(canaries=canaries), positive_integer(guesses=guesses)
    if not many <= MOST_CANARIES:
        raise ValueError(f"canaries must be at most {MOST_CANARIES:,}, got {many:,}")
    if not some <= many:
        raise ValueError(f"guesses must be at most the number of canaries, {many:,}, got {some:,}")
    if not 1e-200 <= (risk := number(level=level)) < 1.0:
        raise ValueError(f"level must lie in [1e-200, 1), got {level!r}")
    return {"canaries": many, "guesses": some, "level": risk}


def too_few_guesses(guesses: int, needed: int | None) -> str:
    """Clause: so many guesses cannot refute the claim, and how many could."""
    all_right = f"{guesses:,} right guesses would not refute the claim"
    if needed is None:
        return f"{all_right}, and neither would right guesses about all canaries: use more canaries"
    return f"{all_right}; at least {needed:,} guesses are needed"


def save_value(item: Any, path: str | os.PathLike[str], *, force: bool) -> None:
    """Write a value as JSON, completely or not at all."""
    document = json.dumps(storable(item), indent=1)
    write_whole(writable(path, force=force, endings=(".json",)), document + "\n")


def load_value(cls: type[Any], path: str | os.PathLike[str]) -> Any:
    """Read a value of the class. Raises ValueError."""
    try:
        found = decode(json.loads(Path(path).read_text(encoding="utf-8")))
    except json.JSONDecodeError:
        raise ValueError(f"{Path(path).name} is not JSON") from None
    if not isinstance(found, cls):
        raise ValueError(f"{Path(path).name} must hold a {cls.__name__}, got a {type(found).__name__}")
    return found


def _down(value: float) -> str:
    """A lower bound with four significant digits, rounded down."""
    if value == 0.0:
        return "0"
    step = 10.0 ** (np.floor(np.log10(value)) - 3)
    return f"{np.floor(value / step) * step:.4g}"
