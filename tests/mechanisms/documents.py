"""Documents of releases that were changed on purpose, with the digest of what they hold now."""

import json

from privsample._serial import document_digest
from privsample.mechanisms.files import forms, read_tables


def with_digest(document):
    """The document of a JSON file, with a new digest if it can have one."""
    try:
        digest = document_digest({**document, "draws": forms(read_tables(document["draws"]))})
    except (KeyError, TypeError, ValueError, AttributeError):
        return document
    return document | {"digest": digest}


def changed(text, change, *, new_digest=False):
    """The text of a release after `change` of its document, by default with the digest of what it held before."""
    document = json.loads(text)
    change(document)
    return json.dumps(with_digest(document) if new_digest else document)
