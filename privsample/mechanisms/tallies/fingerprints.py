"""The fingerprint by which a tally recognises its mechanism."""

import hashlib
import json
from typing import Any

from privsample._serial import encode

FORMAT = 1  # of tallies: it changes whenever the integers of a record do


def fingerprint(mechanism: Any) -> str:
    """SHA-256 of a serialised mechanism and of the format of tallies, in hexadecimal.

    Raises NotRegistered or TypeError for a mechanism that files cannot name.
    """
    content = json.dumps({"format": FORMAT, "mechanism": encode(mechanism)}, sort_keys=True)
    return hashlib.sha256(f"privsample tally {content}".encode()).hexdigest()
