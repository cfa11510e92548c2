"""Gaussian differential privacy as a target."""

from dataclasses import field

import numpy as np

from privsample._checks import positive
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.targets import Target


@frozen_value
class GDP(Target):
    """mu-Gaussian differential privacy.

    Parameters
    ----------
    mu : float
        Shift of the dominating Gaussian pair in standard deviations, finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.GDP(0.5).met_by(ps.GaussianAccountant(sensitivity=1, noise_std=2))
    True
    """

    mu: float = field(kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, mu=positive(mu=self.mu))

    def met_by(self, account: Accountant) -> bool:
        """Return whether mu() <= mu."""
        return float(account.mu()) <= self.mu

    def _excess(self, account: Accountant) -> float:
        """log of the account's mu over the target's."""
        with np.errstate(divide="ignore"):
            return float(np.log(account.mu()) - np.log(self.mu))

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"Gaussian privacy of mu {self.mu:g}"
