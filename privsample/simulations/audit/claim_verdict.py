"""What all verdicts on a claim have in common: a p-value, a level, an outcome and a statement."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Outcome = Literal["VIOLATED", "CONSISTENT"]


class ClaimVerdict(ABC):
    """Result of a test of a claimed guarantee: VIOLATED, or CONSISTENT with the draws, which does not prove it.

    Its fields `p_value` and `level` are in [0, 1]: an upper bound on the probability, under a true claim, of evidence
    at least this strong, and the probability with which a true claim is called VIOLATED at most.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> noise = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    >>> verdict = ps.audit(noise, samples=1_000, rng=np.random.default_rng(1))
    >>> isinstance(verdict, ps.ClaimVerdict), verdict.outcome
    (True, 'CONSISTENT')
    """

    __slots__ = ()

    p_value: float
    level: float

    def __str__(self) -> str:
        return self.statement

    @property
    def violated(self) -> bool:
        """True if the evidence refutes the claim at `level`."""
        return self.p_value <= self.level

    @property
    def outcome(self) -> Outcome:
        """The outcome, "VIOLATED" or "CONSISTENT"."""
        return "VIOLATED" if self.violated else "CONSISTENT"

    @property
    @abstractmethod
    def statement(self) -> str:
        """The verdict as text, with the number of draws, the datasets and the bounds."""

    @abstractmethod
    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the evidence.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
