"""Verdicts of sequential audits: wealth, bounds that hold at every time, and a statement in plain English."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from privsample._checks import FloatArray, coefficient, one_of, open_unit_interval, positive_integer, real_array
from privsample._value import frozen_value, set_fields
from privsample.plots.bets import plot_bets, plot_scales
from privsample.plots.html import card, lines_picture, text_or_empty
from privsample.simulations.audit.claim_verdict import ClaimVerdict
from privsample.simulations.report.statements import small

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BetView = Literal["wealth", "interval"]
_VIEWS = ("wealth", "interval")


@frozen_value
class SequentialVerdict(ClaimVerdict):
    """Result of a sequential audit at one time: the claim is VIOLATED, or CONSISTENT with the draws so far.

    `audit(..., sequential=True)` returns it. A mixture of bets against the claimed privacy curve starts with a wealth
    of 1. If the claim is true, the wealth ever reaches 1/`level` with probability at most `level`. So the outcome and
    each bound hold however often the audit is looked at, and whenever it stops. An audit can refute a claim and cannot
    prove one.

    Parameters
    ----------
    pair : str
        Description of the two neighbouring datasets. The bets are in both directions.
    samples : int
        Number of draws from each dataset up to this time, >= 1.
    maximum : int
        Number of draws from each dataset at which the audit ends if the claim is not refuted, >= `samples`.
    level : float
        Significance level, in (0, 1]: a true claim is ever called VIOLATED with at most this probability.
    p_value : float
        The inverse of the largest wealth so far, at most 1, in [0, 1]: a p-value that is valid at every time.
    epsilons : ndarray of float, shape (k,)
        Claimed epsilons, in nats, >= 0.
    claims : ndarray of float, shape (k,)
        Claimed delta at each of `epsilons`, in [0, 1].
    lowers : ndarray of float, shape (k,)
        Lower confidence bounds on the true epsilon at each of `claims`, in nats, >= 0. They hold together and at all
        times with probability at least 1 - `level`.
    times : ndarray of float, shape (t,)
        Numbers of draws from each dataset after which the wealth was noted, increasing.
    log_wealths : ndarray of float, shape (t,)
        Log of the wealth at each of `times`, in nats.
    scales : ndarray of float, shape (t,)
        Lower confidence bound on the scale at each of `times`, >= 0; see `scale`.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> claim = ps.LaplaceAccountant(sensitivity=1, scale=1)
    >>> loud = ps.LaplaceMechanism(sensitivity=1, scale=0.5)
    >>> rng = np.random.default_rng(1)
    >>> verdict = ps.audit(loud, claim=claim, samples=2_000, rng=rng, sequential=True)
    >>> verdict.outcome, verdict.samples < 1_000, verdict.scale >= 1
    ('VIOLATED', True, True)
    """

    pair: str
    samples: int
    maximum: int
    level: float
    p_value: float
    epsilons: FloatArray
    claims: FloatArray
    lowers: FloatArray
    times: FloatArray
    log_wealths: FloatArray
    scales: FloatArray

    def __post_init__(self) -> None:
        set_fields(
            self,
            samples=positive_integer(samples=self.samples),
            maximum=positive_integer(maximum=self.maximum),
            level=open_unit_interval(level=self.level),
            p_value=coefficient(p_value=self.p_value),
        )
        if not self.samples <= self.maximum:
            raise ValueError(f"samples must be at most maximum = {self.maximum}, got {self.samples}")
        for names in (("epsilons", "claims", "lowers"), ("times", "log_wealths", "scales")):
            for name in names:
                array = np.array(real_array(**{name: getattr(self, name)}))
                array.flags.writeable = False
                set_fields(self, **{name: array})
                if array.ndim != 1 or array.shape != getattr(self, names[0]).shape or not array.size:
                    raise ValueError(f"{name} must have one number for each of {names[0]}, got shape {array.shape}")
                if name != "log_wealths" and not np.all(array >= 0.0):
                    raise ValueError(f"{name} must be >= 0, got {array.min()}")
        if not np.all(self.claims <= 1.0):
            raise ValueError(f"claims must lie in [0, 1], got {self.claims.max()}")

    @property
    def e_value(self) -> float:
        """The wealth at the end: evidence against the claim, with mean at most 1 if the claim is true."""
        return float(np.exp(min(self.log_wealths[-1], 700.0)))

    @property
    def scale(self) -> float:
        """Lower confidence bound on the number by which all claimed epsilons must be multiplied to be true.

        Each claimed delta remains unchanged. The bound holds at all times with probability at least 1 - `level`.
        Claimed epsilons of 0 count up to the scale 1.
        """
        return float(self.scales[-1])

    @property
    def empirical_epsilon(self) -> float:
        """Lower confidence bound on the true epsilon at `empirical_delta`, in nats."""
        return float(self.lowers[self._shown])

    @property
    def empirical_delta(self) -> float:
        """Of the claimed deltas, the one with the largest ratio of the empirical to the claimed epsilon."""
        return float(self.claims[self._shown])

    @property
    def claimed_epsilon(self) -> float:
        """The claimed epsilon at `empirical_delta`, in nats."""
        return float(self.epsilons[self._shown])

    @property
    def statement(self) -> str:
        """The verdict as text, with the number of draws, the datasets and the bounds."""
        draws = f"{self.samples:,} draw{'' if self.samples == 1 else 's'} from each of two neighbouring datasets"
        start = f"{self.outcome}: the audit made {draws} ({self.pair}) and bet against the claim after each of them"
        level = f"with probability at most {small(self.level)}, however often the audit is looked at"
        largest = 1.0 / self.p_value if self.p_value > 0.0 else np.inf
        if self.violated:
            return (
                f"{start}. The wealth of the bets became {largest:.3g} times what it was (p = {self.p_value:.2g}). If "
                f"the claim is true, the verdict is VIOLATED {level}.{self._bounds}"
            )
        more = "" if self.samples >= self.maximum else f" The audit continues up to {self.maximum:,} draws."
        return (
            f"{start}. The wealth of the bets was at most {largest:.3g} times what it was at the start; "
            f"{1.0 / self.level:.3g} times would refute the claim. If the claim is true, that happens {level}. This "
            f"verdict does not prove the claim.{more}{self._bounds}"
        )

    def __repr__(self) -> str:
        try:
            text = f"{self.outcome}, p = {self.p_value:.2g} after {self.samples} draws of at most {self.maximum}"
            return f"SequentialVerdict({text}; scale at least {self.scale:.4g})"
        except Exception:  # noqa: BLE001 - a repr must not raise
            return "SequentialVerdict(...)"

    def _repr_html_(self) -> str:
        rows = [
            ("outcome", self.outcome),
            ("datasets", self.pair),
            ("p-value, valid at every time", f"{self.p_value:.2g} (VIOLATED at {self.level:g} or below)"),
            ("scale of the claimed ε, at least", f"{self.scale:.4g}"),
            ("draws from each dataset", f"{self.samples:,} of at most {self.maximum:,}"),
            ("statement", self.statement),
        ]
        labels = ("draws from each dataset", "log wealth")
        picture = text_or_empty(lambda: lines_picture(self.times, self.log_wealths, labels=labels))
        return card("Verdict of a sequential audit", rows, picture)

    def plot(self, ax: "Axes | None" = None, *, view: BetView = "wealth") -> "Axes":
        """Plot the wealth of the bets over the draws, or the interval of the scale.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.
        view : {"wealth", "interval"}, default "wealth"
            "wealth": the wealth on a logarithmic axis, with the line 1/`level`, at which the claim is refuted.
            "interval": the lower confidence bound on the scale; the claim is refuted if the interval lies above 1.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If `view` is unknown.
        """
        if not one_of(view, _VIEWS):
            raise ValueError(f"view must be {' or '.join(map(repr, _VIEWS))}, got {view!r}")
        title = f"{self.outcome} after {self.samples:,} draws"
        if view == "interval":
            return plot_scales(ax, times=self.times, scales=self.scales, title=title)
        return plot_bets(ax, times=self.times, log_wealths=self.log_wealths, level=self.level, title=title)

    @property
    def _shown(self) -> int:
        """The index of the claimed delta at which the empirical epsilon is largest relative to the claimed one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.epsilons > 0.0, self.lowers / self.epsilons, -1.0)
        if not ratio.max() > 0.0:
            ratio = self.lowers
        return int(np.lexsort((self.epsilons, ratio))[-1])

    @property
    def _bounds(self) -> str:
        """Sentences with the bounds; empty if they are 0."""
        found = ""
        if self.scale not in (0.0, 1.0):
            found += (
                f" {'Also r' if self.violated else 'R'}efuted is the claim with all epsilons times {self.scale:.4g}."
            )
        if self.empirical_epsilon > (self.claimed_epsilon if self.violated else 0.0):
            found += (
                f" Empirical epsilon: at delta = {self.empirical_delta:.4g}, epsilon is at least "
                f"{self.empirical_epsilon:.4g}; {self.claimed_epsilon:.4g} is claimed."
            )
        return found
