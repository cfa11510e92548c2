"""Export of a ledger to JSON, for other programs and for documentation."""

import json
import os
from pathlib import Path
from typing import Any

from privsample._serial import encode
from privsample.accounting.ledger.copies import CopiesFilter
from privsample.accounting.ledger.filters import CurveFilter
from privsample.accounting.ledger.gaussian_filter import GaussianFilter
from privsample.accounting.ledger.state import Entry, LedgerState

FORMAT = 2


def document(state: LedgerState) -> dict[str, Any]:
    """Settings, totals by the formulas of this version, and every entry with its account."""
    from privsample._version import __version__

    settings, found = state.settings, state.filter
    within = found.fits(state.total)
    made: dict[str, Any] = {
        "format": FORMAT,
        "privsample": __version__,
        "dataset": settings.dataset,
        "budget": encode(settings.budget),
        "budget_in_words": settings.budget.description,
        "relation": encode(settings.relation),
        "neighbours": settings.relation.description,
        "spent": encode(found.spent(state.total)),
        "remaining": found.left(state.total) if within else 0.0,
        "within_budget": within,
        "rule": found.rule,
        "entries": [_entry(entry) for entry in state.entries],
    }
    if isinstance(found, CurveFilter):
        made["filter"] = {"orders": list(found.at), "weights": list(found.weights)}
    elif isinstance(found, GaussianFilter):
        made["family"] = {"name": "gaussian", "mu": found.mu, "mu_left": found.mu_left(state.total)}
    elif isinstance(found, CopiesFilter):
        left = found.copies - int(state.total.loss)
        made["family"] = {"account": found.family.to_dict(), "copies": found.copies, "left": max(left, 0)}
    return made | {"set_aside": {"delta": found.set_aside, "left": found.set_aside_left(state.total)}}


def _entry(entry: Entry) -> dict[str, Any]:
    """One entry as a dict."""
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
    """Write a new file, completely or not at all. Raises FileExistsError or OSError."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise
