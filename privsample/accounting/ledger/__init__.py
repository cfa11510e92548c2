"""A privacy budget on disk: spent and synced before anything is drawn, shared by processes, safe against kill -9."""

from privsample.accounting.ledger.ledger import Ledger
from privsample.accounting.ledger.plan import Reservation

__all__ = ["Ledger", "Reservation"]
