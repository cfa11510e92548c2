"""The fingerprint by which a tally recognises its mechanism, and the digest of its content."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from privsample._serial import encode

if TYPE_CHECKING:
    from privsample.mechanisms.tallies.tally import Tally

FORMAT = 1  # of tallies: it changes whenever the integers of a record do


def fingerprint(mechanism: Any) -> str:
    """SHA-256 of a serialised mechanism and of the format of tallies, in hexadecimal.

    Raises NotRegistered or TypeError for a mechanism that files cannot name.
    """
    content = json.dumps({"format": FORMAT, "mechanism": encode(mechanism)}, sort_keys=True)
    return hashlib.sha256(f"privsample tally {content}".encode()).hexdigest()


def file_digest(tally: "Tally") -> str:
    """SHA-256 of the content and of the names of the parts; `content_digest` if no part has a name."""
    if not tally.parts:
        return content_digest(tally)
    return hashlib.sha256(json.dumps([content_digest(tally), *sorted(tally.parts)]).encode()).hexdigest()


def content_digest(tally: "Tally") -> str:
    """SHA-256 of the mechanism, the sums, the counts and the keys; it detects accidental changes, not forgery."""
    content = hashlib.sha256(tally.mechanism.encode())
    for array in (tally.sums, tally.counts, tally.keys):
        if array is not None:
            content.update(f"{array.dtype.kind} {array.shape}".encode())
            wide = array.dtype == object
            content.update(repr(array.tolist()).encode() if wide else array.astype("<i8", copy=False).tobytes())
    return content.hexdigest()
