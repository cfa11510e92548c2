"""A new ledger under a path of the test's own."""

import pytest

from privsample.accounting.ledger import Ledger
from tests.accounting.ledger.shared import BUDGET, TOY


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toy.ledger"


@pytest.fixture
def made(path):
    return lambda budget=BUDGET, **more: Ledger(path, budget=budget, **{**TOY, **more})
