"""Docstrings for Sphinx: this library's are plain text with `code`, and sentences that begin with a label."""

import re

from sphinx.application import Sphinx

_LABEL = re.compile(r"(?:^|(?<=[.:;]\s))(Parameters|Returns|Yields|Raises|Source|Kind): ")
_CODE = re.compile(r"`([^`]+)`")


def marked_up(lines: list[str]) -> list[str]:
    """A docstring's lines as reStructuredText: what a label announces becomes a field."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        if paragraph.lstrip().startswith((">>>", "- ")):
            found += [paragraph, ""]
            continue
        first, *labelled = _LABEL.split(" ".join(line.strip() for line in paragraph.splitlines()))
        if first.strip():
            found += [escaped(first.strip()), ""]
        for label, text in zip(labelled[::2], labelled[1::2], strict=True):
            found += [f":{label}: {escaped(text.strip())}"]
        found += [""]
    return "\n".join(found).splitlines()


def escaped(text: str) -> str:
    """Text in which only `code` is marked up."""
    pieces = _CODE.split(text)
    plain = (re.sub(r"([*|_\\`])", r"\\\1", piece) for piece in pieces[::2])
    code = (f"``{piece}``" for piece in pieces[1::2])
    return next(plain) + "".join(a + _parted(b) for a, b in zip(code, plain, strict=True))


def _parted(text: str) -> str:
    """What follows code, kept apart from it where markup asks for that."""
    return f"\\ {text}" if text[:1].isalnum() else text


def _process(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = marked_up(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
