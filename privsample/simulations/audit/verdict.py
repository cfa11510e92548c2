"""Verdicts of audits: the test, the confidence bounds, and a statement in plain English."""

from typing import TYPE_CHECKING

import numpy as np

from privsample._checks import FloatArray, finite, positive_integer, probability, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.plots.curves import plot_audit_bounds
from privsample.plots.html import card, lines_picture, text_or_empty
from privsample.plots.style import DELTA, EPSILON
from privsample.simulations.audit.claim_verdict import ClaimVerdict
from privsample.simulations.report.statements import small

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY = 1e9  # above this number of draws no value of `samples` is suggested


@frozen_value
class Verdict(ClaimVerdict):
    """Result of an audit: the claim is VIOLATED, or the draws are CONSISTENT with it.

    `audit` returns verdicts. One event is tested on held-out draws. All lower and upper bounds hold simultaneously with
    probability at least 1 - `level` over the draws of the audit. An audit can refute a claim
    and cannot prove one.

    Parameters
    ----------
    pair : str
        Description of the two neighbouring datasets, in the direction in which the event was tested.
    epsilon : float
        Epsilon at which the claim was tested, in nats, >= 0.
    claim : float
        Claimed delta at `epsilon`, in [0, 1].
    p_value : float
        Upper bound on the probability, under a true claim, of evidence at least this strong, in [0, 1].
    lower : float
        Lower confidence bound on the true delta at `epsilon`, in [0, 1].
    samples : int
        Number of evaluation draws from each dataset, >= 1. Draws used to choose the event are not counted.
    needed : float
        Number of evaluation draws from each dataset below which no outcome could refute the claim; inf if no number of
        draws could.
    level : float
        Significance level: if the claim is true, the verdict is VIOLATED with at most this probability.
    epsilons : ndarray of float, shape (k,)
        Epsilons at which the privacy curve was examined, in nats, increasing.
    claims : ndarray of float, shape (k,)
        Claimed delta at each of `epsilons`, in [0, 1].
    lowers : ndarray of float, shape (k,)
        Lower confidence bounds on the true privacy curve at `epsilons`, in [0, 1].
    uppers : ndarray of float, shape (k,)
        Upper confidence bounds, in [0, 1], on the excess probabilities of the examined events. They are not upper
        bounds on the privacy curve.
    orders : ndarray of float, shape (m,)
        Rényi orders, each > 1.
    renyi : ndarray of float, shape (m,)
        Lower confidence bounds on the Rényi divergence at `orders`, in nats, >= 0.
    overhead : float, default 1.0
        Ratio of all draws of the audit to its evaluation draws, >= 1.
    empirical_epsilon : float, default 0.0
        Lower confidence bound on the true epsilon at `empirical_delta`, in nats.
    empirical_delta : float, default 0.0
        Of the claimed deltas, in [0, 1], the one with the largest ratio of empirical to claimed epsilon.
    claimed_epsilon : float, default 0.0
        Smallest of `epsilons` whose claimed delta is at most `empirical_delta`, in nats.
    event : str, default ""
        The tested event in plain words, with its frequencies under both datasets; empty for the view "outputs".

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> noise = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    >>> verdict = ps.audit(noise, samples=1_000, rng=np.random.default_rng(1))
    >>> verdict.outcome, verdict.samples
    ('CONSISTENT', 900)
    """

    pair: str
    epsilon: float
    claim: float
    p_value: float
    lower: float
    samples: int
    needed: float
    level: float
    epsilons: FloatArray
    claims: FloatArray
    lowers: FloatArray
    uppers: FloatArray
    orders: FloatArray
    renyi: FloatArray
    overhead: float = 1.0
    empirical_epsilon: float = 0.0
    empirical_delta: float = 0.0
    claimed_epsilon: float = 0.0
    event: str = ""

    def __post_init__(self) -> None:
        set_fields(self, epsilon=finite(epsilon=self.epsilon), samples=positive_integer(samples=self.samples))
        for name in ("epsilons", "claims", "lowers", "uppers", "orders", "renyi"):
            array = np.array(real_array(**{name: getattr(self, name)}))
            array.flags.writeable = False
            set_fields(self, **{name: array})
        set_fields(
            self,
            empirical_epsilon=finite(empirical_epsilon=self.empirical_epsilon),
            claimed_epsilon=finite(claimed_epsilon=self.claimed_epsilon),
        )
        for name in ("claim", "p_value", "lower", "claims", "lowers", "uppers", "empirical_delta"):
            if not np.all((getattr(self, name) >= 0.0) & (getattr(self, name) <= 1.0)):
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)!r}")

    @property
    def mu(self) -> float:
        """Lower confidence bound on the mu of Gaussian differential privacy: mu-GDP is refuted for every smaller mu."""
        return max(map(_least_mu, self.epsilons, self.lowers), default=0.0)

    def epsilon_at(self, delta: float) -> float:
        """Lower confidence bound on the true epsilon at a given delta.

        Parameters
        ----------
        delta : float
            The delta of the guarantee, in [0, 1].

        Returns
        -------
        float
            Largest of `epsilons` at which the true delta exceeds `delta`, in nats; 0 if there is none.
        """
        refuted = self.epsilons[self.lowers > probability(delta=delta)]
        return float(refuted.max(initial=0.0))

    @property
    def statement(self) -> str:
        """The verdict as text, with the number of draws, the datasets and the bounds."""
        basis = (
            f"{self.samples:,} draw{'' if self.samples == 1 else 's'} from each of two neighbouring datasets "
            f"({self.pair})"
        )
        at = f"{basis} at epsilon = {self.epsilon:.4g}"
        if self.violated:
            return (
                f"VIOLATED: {at} show a delta of at least {self.lower:.4g}, above the claimed {self.claim:.4g} "
                f"(p = {self.p_value:.2g}). If the claim is true, the verdict is VIOLATED with probability at most "
                f"{small(self.level)}.{self._event_sentence}{self._empirical_sentence}"
            )
        # If claim and bound are both 0, the tested point carries no information and is omitted.
        says = f"{at} do not refute the claimed delta of {self.claim:.4g}"
        tells = self.claim > 0.0 or self.lower > 0.0
        return (
            f"CONSISTENT: {says if tells else f'{basis} do not refute the claim'}{self._power}. This does not "
            "prove the claim."
            f"{self._event_sentence}{self._empirical_sentence}"
        )

    def __repr__(self) -> str:
        try:
            text = f"{self.outcome}, p = {self.p_value:.2g}; claimed delta {self.claim:.4g}, at least {self.lower:.4g}"
            return f"Verdict({text} at epsilon = {self.epsilon:.4g}, {self.samples} draws)"
        except Exception:  # noqa: BLE001 - a repr must not raise
            return "Verdict(...)"

    def _repr_html_(self) -> str:
        rows = [
            ("outcome", self.outcome),
            ("datasets", self.pair),
            ("tested at epsilon", f"{self.epsilon:.4g}"),
            ("claimed delta", f"{self.claim:.4g}"),
            ("lower bound on delta", f"{self.lower:.4g}"),
            ("p-value", f"{self.p_value:.2g} (VIOLATED at {self.level:g} or below)"),
            ("draws from each dataset", f"{self.samples:,}"),
            *([("event", self.event)] if self.event else []),
            ("statement", self.statement),
        ]
        bars = (self.epsilons, self.lowers, self.uppers)
        labels = (EPSILON, DELTA)
        picture = text_or_empty(lambda: lines_picture(self.epsilons, self.claims, labels=labels, bars=bars))
        return card("Verdict of an audit", rows, picture)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the claimed privacy curve with the confidence bounds of the audit at each of `epsilons`.

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
        axes = plot_audit_bounds(
            ax,
            epsilons=self.epsilons,
            lowers=self.lowers,
            uppers=self.uppers,
            curve=(self.epsilons, self.claims),
            title=f"{self.outcome}: {self.pair}",
        )
        axes.legend(frameon=False)
        return axes

    @property
    def _event_sentence(self) -> str:
        """The description of the event; empty if there is none."""
        return f" {self.event}" if self.event else ""

    @property
    def _empirical_sentence(self) -> str:
        """Sentence with the empirical epsilon and the claimed one; empty if the empirical epsilon is 0."""
        if not self.empirical_epsilon > 0.0:
            return ""
        return (
            f" Empirical epsilon: at delta = {self.empirical_delta:.4g}, epsilon is at least "
            f"{self.empirical_epsilon:.4g}; {self.claimed_epsilon:.4g} is claimed."
        )

    @property
    def _power(self) -> str:
        """Clause about the power of the test: which claims these draws could have refuted."""
        if self.needed == np.inf:
            return "; no number of draws could refute it"
        if self.samples < self.needed:
            asked = np.ceil(self.needed * self.overhead)
            few = "; too few draws to reject any claim:"
            if asked > _MANY:
                return f"{few} {self.needed:.2g} evaluation draws are needed"
            return f"{few} {self.needed:,.0f} evaluation draws are needed; set samples={asked:.0f}"
        if self.lower > 0.0:
            return f"; they would have refuted a claim below {self.lower:.4g}"
        return "; they would not refute a claim of 0 either" if self.claim > 0.0 else ""


def _least_mu(epsilon: float, delta: float) -> float:
    """Return the mu whose Gaussian privacy curve passes through (epsilon, delta), rounded down; 0 if delta = 0."""
    low, high = 0.0, 1.0
    while delta > 0.0 and high < 1e6 and _gaussian_delta(high, epsilon) < delta:
        low, high = high, 2 * high
    for _ in range(40 if delta > 0.0 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(middle, epsilon) < delta else (low, middle)
    return low


def _gaussian_delta(mu: float, epsilon: float) -> float:
    return float(np.exp(GaussianPair(mu=mu).log_delta(np.array([epsilon]))[0]))
