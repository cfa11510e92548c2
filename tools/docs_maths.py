"""Formulas for the documentation site, without a script or a network.

TeX between dollar signs becomes MathML. The notes write their formulas in plain text, as e^{cε} or R_{k-1}: there,
and in docstrings, what follows ^ and _ is raised and lowered, and an indented block is a displayed formula.
"""

import re
from collections.abc import Iterator
from typing import Literal

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

# What a script can stand at: a letter by itself or after Greek or a d, some names, a bracket; not one in noise_std.
_LETTER = r"(?<![A-Za-z0-9_.])(?:d?[^\W\d_]|sup|inf|max|min|lim|Var|delta)[\u0300-\u036f₀-₉′*]*"
_SUPER = re.compile(r"(?<=[\w)\]}|′″*⁻])\^")
_LOWERED = r"_(?=[{(]|[^\W_](?![a-z0-9_])|[xy]{2}\b|\d+\b|±)"
_SUB = re.compile(rf"(?:{_LETTER}|[)\]}}|∫ΣΠ′″²³₀-₉ᵢₖ]){_LOWERED}|[α-ωΑ-Ω](?:{_LOWERED}|_(?=[a-z]+\b))")
_SHORT = re.compile(r"[−-]?(?:\d+|[∞±]|[a-z]{2,}(?:_[a-z]+)*|[^\W\d_][₀-₉]?)[′*]?")
_CLOSING = {"{": "}", "(": ")"}
_PRIME = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
_VERBATIM = (nodes.FixedTextElement, nodes.literal, nodes.math, nodes.raw)


def scripts(text: str) -> Iterator[tuple[str, str]]:
    """The text in pieces: ("", plain), ("^", what is raised), ("_", what is lowered)."""
    start = place = 0
    while place < len(text):
        raised, lowered = _SUPER.search(text, place), _SUB.search(text[place:])  # a base may follow a script
        marks = [raised.end()] if raised else []
        marks += [place + lowered.end()] if lowered else []
        if not marks:
            break
        place = min(marks)
        content, end = _script(text, place)
        if content:
            yield "", text[start : place - 1]
            yield text[place - 1], content
            start = place = end
    if start < len(text):
        yield "", text[start:]


def _script(text: str, start: int) -> tuple[str, int]:
    """What is raised or lowered from `start` on, and where it ends; '' where nothing is."""
    closing = _CLOSING.get(text[start : start + 1])
    if closing is None:
        short = _SHORT.match(text, start)
        return (short.group(), short.end()) if short else ("", start)
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == text[start]) - (text[end] == closing)
        if depth == 0:
            return text[start + 1 : end], end + 1
    return "", start


def typeset(text: str) -> list[nodes.Node]:
    """Text with raised and lowered parts, which may hold such parts themselves."""
    kinds = {"^": nodes.superscript, "_": nodes.subscript}
    return [kinds[mark]("", "", *typeset(piece)) if mark else nodes.Text(piece) for mark, piece in scripts(text)]


class PlainFormulas(SphinxTransform):
    """Raise and lower what the text marks; indented blocks of the notes become displayed formulas."""

    default_priority = 730

    def apply(self) -> None:
        """Change the document in place."""
        if self.env.docname.startswith("notes/"):
            for block in list(self.document.findall(nodes.literal_block)):
                if "language" not in block or block["language"] in ("none", "default", "text"):
                    block.replace_self(_displayed(block.astext()))
        for text in list(self.document.findall(nodes.Text)):
            parent = text.parent
            if not _in_code(text) and ("^" in text or "_" in text):
                parent.replace(text, typeset(text.astext()))  # without the marks that escapes leave


def _in_code(node: nodes.Node) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, _VERBATIM):
            return True
    return False


def _displayed(text: str) -> nodes.Node:
    lines = [nodes.line("", "", nodes.Text(line)) for line in text.splitlines()]
    return nodes.line_block("", *lines, classes=["formula"])


def mathml(tex: str, display: Literal["inline", "block"]) -> str:
    """TeX as MathML. A prime stands beside its letter, since the font has it raised and small already."""
    return _PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>', convert(tex, display=display))


def displayed_mathml(tex: str) -> str:
    """Return a displayed formula as MathML. It may break at wide spaces, because browsers do not break a formula."""
    parts = [tex] if r"\begin" in tex else re.split(r"\\q?quad\b", tex)
    return " ".join(mathml(part.strip(), "block") for part in parts)


def _inline(self: object, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), "inline"))  # type: ignore[attr-defined]
    raise nodes.SkipNode


def _block(self: object, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{displayed_mathml(node.astext())}</div>')  # type: ignore[attr-defined]
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_transform(PlainFormulas)
    return {"parallel_read_safe": True}
