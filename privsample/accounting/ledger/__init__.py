"""A privacy budget in a file: spent and synced before each draw, shared by processes, robust to abrupt termination."""

from privsample.accounting.ledger.ledger import Ledger
from privsample.accounting.ledger.plan import Reservation

__all__ = ["Ledger", "Reservation"]
