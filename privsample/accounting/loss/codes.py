"""Output distributions of a categorical release, which accounts of post-processing by a kernel start from.

A code is one categorical output, such as the answer of randomized response, and one input changes between neighbours.
"""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.loss.worst import WorstPair
from privsample.distributions.steps.kernels import normalize_rows

_ULP = float(np.finfo(np.float64).eps)
_MOST = 1 << 20  # largest number of masses in all compared distributions together


@frozen_value
class CodeDistributions:
    """Output distributions of one code under each input, and the pairs of inputs that neighbours can exchange.

    `distributions` has shape (inputs, codes); `exchanged` holds pairs of row numbers, shape (pairs, 2).
    """

    distributions: FloatArray
    exchanged: Any

    @property
    def pairs(self) -> tuple[WorstPair, ...]:
        """One `WorstPair` of all ordered pairs of distributions; empty if there are too many."""
        first, second = np.concatenate([self.exchanged, self.exchanged[:, ::-1]]).T
        if first.size * self.distributions.shape[1] > _MOST:
            return ()
        with np.errstate(divide="ignore"):
            log_masses = np.log(self.distributions)
        slack = _ULP * (self.distributions.shape[1] + 16)  # relative rounding error of the masses
        return (WorstPair(log_p=log_masses[first], log_q=log_masses[second], slack=slack),)

    def through(self, matrix: FloatArray) -> "CodeDistributions":
        """The distributions after post-processing by a kernel, shape (codes, new codes), whose rows are normalized."""
        return replace(self, distributions=self.distributions @ normalize_rows(matrix))


@runtime_checkable
class KnowsCodeDistributions(Protocol):
    """An account that knows the output distributions of the one code that neighbours change."""

    def code_distributions(self) -> CodeDistributions | None:
        """The distributions; None if they are not known for this account's parameters."""


def code_distributions_of(account: object) -> CodeDistributions | None:
    """The account's output distributions of the one code that neighbours change; None if it does not know them."""
    return account.code_distributions() if isinstance(account, KnowsCodeDistributions) else None
