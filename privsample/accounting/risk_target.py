"""Target on the success of attacks on one record."""

from dataclasses import field

import numpy as np

from privsample._checks import number
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.targets import Target


@frozen_value
class Risk(Target):
    """Largest success of an attack on one record, against its success without the release.

    Parameters
    ----------
    baseline : float
        Success probability of the attack without the release of the record, in (0, 1).
    success : float
        Largest success probability with it, above `baseline` and below 1.

    Raises
    ------
    TypeError
        If a field is not a number.
    ValueError
        If a field is outside its range.

    Notes
    -----
    The conditions are those of `Accountant.risk`; docs/notes/risk.md, step 3.

    Examples
    --------
    >>> import privsample as ps
    >>> target = ps.Risk(baseline=0.01, success=0.02)
    >>> mechanism = ps.LaplaceMechanism.calibrate(target=target, sensitivity=1)
    >>> round(mechanism.scale, 4), float(mechanism.accountant.risk(0.01)) <= 0.02
    (1.4427, True)
    """

    baseline: float = field(kw_only=False)
    success: float = field(kw_only=False)

    def __post_init__(self) -> None:
        baseline, success = number(baseline=self.baseline), number(success=self.success)
        if not 0.0 < baseline < 1.0:
            raise ValueError(f"baseline must lie in (0, 1), got {self.baseline!r}")
        if not baseline < success < 1.0:
            raise ValueError(
                f"success must lie between baseline = {baseline:g} and 1, got {self.success!r}: the attack succeeds "
                "with probability baseline without the release"
            )
        set_fields(self, baseline=baseline, success=success)

    def met_by(self, account: Accountant) -> bool:
        """Return whether risk(baseline) <= success."""
        return bool(account.risk(self.baseline) <= self.success)

    def _excess(self, account: Accountant) -> float:
        """Log odds of the risk less those of `success`, each against the baseline, so that it has no flat ends."""
        gained = float(account.risk(self.baseline))
        with np.errstate(divide="ignore"):
            odds = np.log(gained - self.baseline) - np.log1p(-gained)
        return float(odds - np.log(self.success - self.baseline) + np.log1p(-self.success))

    def _shortfall(self, account: Accountant) -> str:
        """What the account gives instead."""
        return f"with this mechanism it may succeed with probability {float(account.risk(self.baseline)):.4g}"

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"success {self.success:g} of an attack with baseline {self.baseline:g}"
