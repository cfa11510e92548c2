"""Docstrings for Sphinx: plain text with `code`, in numpydoc's sections or in sentences that begin with a label.

Types of arrays are shown by the names that the code has for them.
"""

import re
import textwrap
from collections.abc import Iterator
from itertools import takewhile, zip_longest

from numpy.typing import ArrayLike
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from privsample._checks import FloatArray

_LABELS = "Parameters|Attributes|Returns|Yields|Raises|Source|Kind"
_LABEL = re.compile(rf"(?:^|(?<=[.:;]\s))({_LABELS}): ")
_CODE = re.compile(r"`([^`]+)`")
_ARRAY_LIKE, _FLOATS = (stringify_annotation(kind, "smart") for kind in (ArrayLike, FloatArray))
_ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?numpy\.dtype\[(.*?)\]\]")
_LIST = re.compile(rf"({_LABELS}):\n(.*)", re.DOTALL)
_SECTION = re.compile(
    r"^(Parameters|Attributes|Returns|Yields|Raises|Notes|Examples|References|See Also)\n-{3,}\n", re.MULTILINE
)
_NAMED = re.compile(rf"(?!(?:{_LABELS}):)[\w*]+(?:, [\w*]+)*: ")


def marked_up(text: str) -> str:
    """A docstring as reStructuredText: a section of numpydoc, or what a label announces, becomes a field."""
    head, *sections = _SECTION.split(text.strip("\n") + "\n")
    parts = [_plain(head), *(_section(*pair) for pair in zip(sections[::2], sections[1::2], strict=True))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join("\n".join(_paragraph(each)) for each in paragraphs)


def _section(title: str, body: str) -> str:
    """A section of numpydoc: entries of name (and type) with indented text below become a list, all else paragraphs."""
    if title in ("Notes", "Examples", "References", "See Also"):
        return f".. rubric:: {title}\n\n{_plain(body)}"
    lines = [f":{title}:"]
    for item in re.split(r"\n(?=\S)", body.strip("\n")):
        name, _, words = item.partition("\n")
        lines.append(f"   ``{name.strip()}``")
        lines += [f"      {escaped(_joined(each))}\n" for each in re.split(r"\n\s*\n", words) if each.strip()]
    return "\n".join(lines).rstrip()


def _paragraph(text: str) -> Iterator[str]:
    """One paragraph: an example, a list, named parameters, or sentences."""
    if text.lstrip().startswith((">>>", "- ")):
        yield from text.splitlines() if ">>>" in text else map(escaped, text.splitlines())
    elif listed := _LIST.fullmatch(text):
        yield f":{listed[1]}:"
        items = re.split(r"\n(?=\S)", textwrap.dedent(listed[2]))
        named = list(takewhile(_NAMED.match, items))
        for item in named:
            names, _, words = item.partition(":")
            yield f"   ``{names}``\n      {escaped(_joined(words))}\n"
        if rest := items[len(named) :]:
            yield from _paragraph("\n".join(rest))
    else:
        first, *labelled = _LABEL.split(_joined(text))
        yield escaped(first.strip())
        if first.strip() and labelled:
            yield ""
        for label, words in zip(labelled[::2], labelled[1::2], strict=True):
            yield f":{label}: {escaped(words.strip())}"


def _joined(text: str) -> str:
    return " ".join(text.split())


def escaped(text: str) -> str:
    """Text in which only `code` is marked up."""
    pieces = _CODE.split(text)
    plain = (re.sub(r"([*|_\\`])", r"\\\1", piece) for piece in pieces[::2])
    code = (f"``{piece}``\\ " for piece in pieces[1::2])
    return "".join(piece for pair in zip_longest(plain, code, fillvalue="") for piece in pair)


def _process(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = marked_up("\n".join(lines)).splitlines()


def named(signature: str) -> str:
    """A signature with ArrayLike, FloatArray and NDArray in place of what they stand for."""
    return _ARRAY.sub(r"NDArray[\1]", signature.replace(_ARRAY_LIKE, "ArrayLike").replace(_FLOATS, "FloatArray"))


def _sign(
    app: Sphinx,  # noqa: ARG001
    what: str,  # noqa: ARG001
    name: str,  # noqa: ARG001
    item: object,  # noqa: ARG001
    options: object,  # noqa: ARG001
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    return signature and named(signature), returns and named(returns)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _sign)
    return {"parallel_read_safe": True}
