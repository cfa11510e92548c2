"""Pages of the documentation site: their examples are executed, and their pictures come from the objects they made."""

import hashlib
import inspect
import re
from enum import Enum
from pathlib import Path
from typing import Any

from docs_examples import DIRECTIVE, Shown, kept_or_run
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature

import privsample
from privsample.accounting.assumptions import Assumption

log = logging.getLogger(__name__)
_PAGES = Path(__file__).resolve().parent.parent / "docs"
_NOTE = re.compile(r"(?:docs/notes/)?\b([a-z_]+)\.md\b")
_CODE = re.compile(r"``?([^`]+)``?(?=(\w)?)")
_SPECIAL = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")
_EXAMPLE = re.compile(r"^ *>>> .*(?:\n *\S.*)*", re.MULTILINE)
_LEAST_STACKED = 3  # columns of a table that becomes a list on a narrow page
_shown: dict[str, list[Shown]] = {}


def _execute(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx passes the application
    if ">>>" in source[0] or DIRECTIVE.search(source[0]):
        page = kept_or_run(docname, source[0])
        _shown[docname] = list(page.shown)
        if page.failed:
            log.warning("an example failed:\n%s", page.failed, location=docname)


def escaped(text: str) -> str:
    """Return a docstring in which only `code`, sections and examples are markup: | and * in formulas are characters."""
    examples = _EXAMPLE.findall(text)
    parts = [_escaped_prose(part) for part in _EXAMPLE.split(text)]
    return "".join(part + example for part, example in zip(parts, [*examples, ""], strict=True))


def _escaped_prose(text: str) -> str:
    start, parts = 0, []
    for code in _CODE.finditer(text):
        # A letter may follow the end of markup only after an escaped blank.
        parts += [_SPECIAL.sub(r"\\\1", text[start : code.start()]), f"``{' '.join(code[1].split())}``"]
        parts += ["\\ "] if code[2] else []
        start = code.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\1", text[start:])])


def _process_docstring(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = escaped("\n".join(lines)).splitlines()


def _process_signature(
    app: Sphinx,  # noqa: ARG001
    what: str,
    name: str,  # noqa: ARG001
    item: Any,
    options: object,  # noqa: ARG001
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Give a class the signature of its fields; Sphinx would take that of `__new__`, which accepts anything."""
    if what != "class" or signature is None:
        return signature, returns
    if issubclass(item, Enum):
        return None, None
    shown = stringify_signature(inspect.signature(item), show_annotation=False, show_return_annotation=False)
    return shown.replace("privsample.", ""), None


class PageDirective(SphinxDirective):
    """A directive with one argument, an expression that was evaluated where it stands when the page ran."""

    required_arguments = 1
    final_argument_whitespace = True

    def shown(self) -> Shown:
        """What the expression showed. Raises: DirectiveError, which Sphinx reports with the page and the line."""
        shown = _shown[self.env.docname].pop(0)
        if shown.error:
            raise self.error(f"{shown.expression} gave {shown.error}")
        return shown

    def picture(self, shown: Shown, words: str) -> nodes.Node:
        """The picture, stored beside the pages."""
        svg = shown.svg.encode()
        name = f"{hashlib.sha256(svg).hexdigest()[:16]}.svg"
        folder = Path(self.env.srcdir) / "pictures"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(svg)
        return nodes.image(uri=f"/pictures/{name}", alt=words, classes=["picture"])


class PictureDirective(PageDirective):
    """A picture of the figure or axes that an expression gives; the content is its caption, `size` is in inches."""

    has_content = True
    option_spec = {"size": str}  # noqa: RUF012 - as Sphinx has it

    def run(self) -> list[nodes.Node]:
        """The nodes."""
        words = " ".join(self.content)
        picture = self.picture(self.shown(), words)
        return [picture, nodes.paragraph("", "", *self.parse_inline(words)[0], classes=["caption"])]


class AccountDirective(PageDirective):
    """What an account says of itself: its privacy curve as a picture, relation, source, kinds, assumptions."""

    option_spec = {"delta": float}  # noqa: RUF012 - as Sphinx has it

    def run(self) -> list[nodes.Node]:
        """The nodes."""
        shown = self.shown()
        lines = [f"{title}\n" + "".join(f": {line}\n" for line in said) for title, said in shown.facts]
        facts = nodes.container("", *self.parse_text_to_nodes("\n".join(lines)), classes=["facts"])
        return [self.picture(shown, shown.words), facts]


class AssumptionDirective(SphinxDirective):
    """The words of an assumption."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes."""
        words = Assumption[self.arguments[0]].value
        return [nodes.paragraph("", "", nodes.emphasis("", f"{words[0].upper()}{words[1:]}."))]


class Names(SphinxTransform):
    """Link public names, assumptions and notes to their pages."""

    default_priority = 5

    def apply(self) -> None:
        """Change the document in place."""
        for block in self.document.findall(nodes.literal_block):
            _without_empty_end(block)
        for code in list(self.document.findall(nodes.literal)):
            if not _within(code, nodes.reference, nodes.title, pending_xref):
                code.replace_self(self._linked(code))
        for text in list(self.document.findall(nodes.Text)):
            if _NOTE.search(text) and not _within(text, nodes.reference, nodes.literal, nodes.title, pending_xref):
                text.parent.replace(text, list(self._notes(str(text))))

    def _linked(self, code: nodes.literal) -> nodes.Node:
        name = code.astext().removeprefix("ps.")
        here = self.env.docname
        if name in privsample.__all__:
            page = f"mechanisms/{name}"
            if here != page and (_PAGES / f"{page}.md").exists():
                return _reference("std", "doc", f"/{page}", code)
            return _reference("py", "obj", f"privsample.{name}", code)
        if name in Assumption.__members__ and here != "limits":
            return _reference("std", "ref", name.lower(), code)
        return code

    def _notes(self, text: str) -> "list[nodes.Node]":
        found: list[nodes.Node] = []
        start = 0
        for note in _NOTE.finditer(text):
            if (_PAGES / "notes" / f"{note[1]}.md").exists():
                found.append(nodes.Text(text[start : note.start()]))
                found.append(_reference("std", "doc", f"/notes/{note[1]}", nodes.inline("", note[0])))
                start = note.end()
        return [*found, nodes.Text(text[start:])]


class ColumnNames(SphinxTransform):
    """Put the name of the column into each cell of a table of three columns or more.

    A narrow page hides the head of such a table and shows each row as a list; a wide page hides the names in the cells.
    """

    default_priority = 500

    def apply(self) -> None:
        """Change the document in place."""
        for table in self.document.findall(nodes.table):
            head, body = table.next_node(nodes.thead), table.next_node(nodes.tbody)
            names = [entry.astext() for entry in head.findall(nodes.entry)] if head is not None else []
            if len(names) < _LEAST_STACKED or body is None:
                continue
            table["classes"].append("stacked")
            for row in body.findall(nodes.row):
                for name, cell in list(zip(names, row.children, strict=True))[1:]:
                    if not isinstance(cell, nodes.entry):
                        continue
                    if cell.astext():
                        cell.insert(0, nodes.paragraph("", name, classes=["column"]))
                    else:
                        cell["classes"].append("empty")


def _without_empty_end(block: nodes.literal_block) -> None:
    """Drop the empty line with which an example has to end in its source."""
    block.rawsource = block.astext().rstrip()
    block[:] = [nodes.Text(block.rawsource)]


def _within(node: nodes.Node, *kinds: type) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def _reference(domain: str, kind: str, target: str, shown: Any) -> pending_xref:
    """A reference that Sphinx resolves, and warns of where it cannot."""
    kept = {"refdomain": domain, "reftype": kind, "reftarget": target, "refexplicit": True, "refwarn": True}
    return pending_xref("", shown.deepcopy(), **kept)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _execute)
    app.connect("autodoc-process-docstring", _process_docstring, priority=400)  # before numpydoc reads the sections
    app.connect("autodoc-process-signature", _process_signature)
    app.add_directive("account", AccountDirective)
    app.add_directive("assumption", AssumptionDirective)
    app.add_directive("picture", PictureDirective)
    app.add_transform(Names)
    app.add_transform(ColumnNames)
    return {"parallel_read_safe": True}
