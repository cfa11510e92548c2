"""A ledger in JSON's types, for other programs and for the record."""

import json
import os
from pathlib import Path
from typing import Any

from privsample._serial import encode
from privsample.accounting.ledger.book import Entry, LedgerState
from privsample.accounting.ledger.filters import CurveFilter

FORMAT = 2


def document(book: LedgerState) -> dict[str, Any]:
    """Settings, totals by this version's formulas, and every entry with its account."""
    from privsample._version import __version__

    settings, found = book.settings, book.filter
    within = found.fits(book.total)
    made: dict[str, Any] = {
        "format": FORMAT,
        "privsample": __version__,
        "dataset": settings.dataset,
        "budget": encode(settings.budget),
        "budget_in_words": settings.budget.description,
        "relation": encode(settings.relation),
        "neighbours": settings.relation.description,
        "spent": encode(found.spent(book.total)),
        "remaining": found.left(book.total) if within else 0.0,
        "within_budget": within,
        "entries": [_entry(entry) for entry in book.entries],
    }
    if isinstance(found, CurveFilter):
        made["filter"] = {"orders": list(found.at), "weights": list(found.weights)}
        made["set_aside"] = {"delta": found.set_aside, "left": found.set_aside_left(book.total)}
    return made


def _entry(entry: Entry) -> dict[str, Any]:
    items = [
        {
            "account": item.account.to_dict(),
            "times": item.times,
            "mechanism": None if item.mechanism is None else json.loads(item.mechanism),
            "used": item.used if entry.kind == "plan" else item.times,
        }
        for item in entry.items
    ]
    head = {"number": entry.number, "kind": entry.kind, "at": entry.at, "privsample": entry.version}
    return head | {"label": entry.label, "delta": entry.delta, "items": items}


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet, whole or not at all. Raises: FileExistsError, OSError."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise
