"""Public names keep their types: `make lint` checks this file with mypy, which fails here where it sees `Any`."""

from typing import assert_type

import privsample as ps
from privsample.accounting.guarantees import PureAccountant

assert_type(ps.PureAccountant(stated_epsilon=1.0), PureAccountant)
assert_type(ps.privacy_statement(PureAccountant(stated_epsilon=1.0), 1e-6), str)
