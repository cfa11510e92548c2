"""Public names keep their types: `make lint` checks this file with mypy, which fails here where it sees `Any`."""

from typing import TYPE_CHECKING, assert_type

import privsample as ps
from privsample.accounting.guarantees import PureAccountant

assert_type(ps.PureAccountant(stated_epsilon=1.0), PureAccountant)
assert_type(ps.privacy_statement(PureAccountant(stated_epsilon=1.0), 1e-6), str)

assert_type(ps.__version__, str)
assert_type(ps.DP(1, 1e-6), ps.DP)
assert_type(ps.RDP(2, 0.5), ps.RDP)
assert_type(ps.ZCDP(0.1), ps.ZCDP)
assert_type(ps.GDP(0.5), ps.GDP)
assert_type(ps.BetaBernoulli(1, 1), ps.BetaBernoulli)
assert_type(ps.GammaPoisson(2, 1, upper=20), ps.GammaPoisson)
assert_type(ps.ReplaceOne(50), ps.ReplaceOne)
if TYPE_CHECKING:
    ps.GaussianMechanism(1.0, 2.0)  # type: ignore[call-arg]  # the order of these fields is not common knowledge
