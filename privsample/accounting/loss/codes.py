"""Distributions of one code that neighbours change: what a random step after a release needs to know of it."""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.loss.worst import WorstPair
from privsample.distributions.steps.kernels import normalize_rows

_ULP = float(np.finfo(np.float64).eps)
_MOST = 1 << 20  # masses of output distributions that are compared


@frozen_value
class CodeDistributions:
    """Output distributions of one code, (inputs, codes), and the inputs that neighbours can exchange, (pairs, 2)."""

    distributions: FloatArray
    exchanged: Any

    @property
    def pairs(self) -> tuple[WorstPair, ...]:
        """One for all ordered pairs of distributions; none where they are too many."""
        first, second = np.concatenate([self.exchanged, self.exchanged[:, ::-1]]).T
        if first.size * self.distributions.shape[1] > _MOST:
            return ()
        with np.errstate(divide="ignore"):
            log_laws = np.log(self.distributions)
        slack = _ULP * (self.distributions.shape[1] + 16)
        return (WorstPair(log_p=log_laws[first], log_q=log_laws[second], slack=slack),)

    def through(self, matrix: FloatArray) -> "CodeDistributions":
        """The distributions behind a kernel."""
        return replace(self, distributions=self.distributions @ normalize_rows(matrix))


@runtime_checkable
class KnowsCodeDistributions(Protocol):
    """An account that knows the distributions of the one code that neighbours change."""

    def code_distributions(self) -> CodeDistributions | None:
        """The distributions, or None where they are not known after all."""


def code_distributions_of(account: object) -> CodeDistributions | None:
    """The distributions of the one code that neighbours change, where the account knows them."""
    return account.code_distributions() if isinstance(account, KnowsCodeDistributions) else None
