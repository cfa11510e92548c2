"""What the tests of the ledger share."""

from privsample import DP, RDP, ZCDP, AddRemove, BetaBernoulli, DiffusedPosterior, LaplaceMechanism, PureAccountant
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.ledger import Ledger

TOY = {"relation": AddRemove(), "dataset": "toy"}
BUDGET = DP(epsilon=1, delta=1e-6)
ONE_NUMBER = [DP(epsilon=1), ZCDP(rho=0.5), RDP(order=4, epsilon=1)]
LAPLACE = LaplaceMechanism(sensitivity=1, scale=10)


def pure(epsilon):
    return PureAccountant(stated_epsilon=epsilon)


def posterior(n):
    return DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=n, data_weight=0.1)


def unchanged(ledger, before):
    """Nothing was written, and a fresh look agrees."""
    return Ledger(ledger.path).history() == ledger.history() == before


@frozen_value
class Watching:
    """A mechanism that looks at its ledger when it should draw, and fails."""

    path: object
    seen: list[float]
    account: Accountant = LAPLACE.accountant

    @property
    def accountant(self):
        return self.account

    def release(self, data):
        self.seen.append(Ledger(self.path).spent())
        raise MemoryError
