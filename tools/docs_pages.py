"""Pages of the documentation site: their examples are executed, and their pictures come from the objects they made."""

import hashlib
import inspect
import re
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import docs_plots
import numpy as np
from docs_examples import executed_with_pictures
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature

import privsample
from privsample._checks import FloatArray
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import Kind, View
from privsample.accounting.statement import shown_delta, shown_epsilon
from privsample.plots.style import BLUE, DELTA, EPSILON, ORANGE
from privsample.simulations.report import figures

log = logging.getLogger(__name__)
VIEWS: dict[View, str] = {"rdp": "Rényi curve", "delta": "privacy curve", "epsilon": "ε(δ)"}
_PAGES = Path(__file__).resolve().parent.parent / "docs"
_NOTE = re.compile(r"(?:docs/notes/)?\b([a-z_]+)\.md\b")
_CODE = re.compile(r"``?([^`]+)``?(?=(\w)?)")
_SPECIAL = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")
_EXAMPLE = re.compile(r"^ *>>> .*(?:\n *\S.*)*", re.MULTILINE)
_BESIDE = {"figures": figures, "example": import_module}  # `example("stem")` is a program of the folder examples
_LEAST_STACKED = 3  # columns of a table that becomes a list on a narrow page
_namespaces: dict[str, dict[str, Any]] = {}
_pictures: dict[str, list[Any]] = {}


def _execute(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx passes the application
    if ">>>" in source[0] or "```{picture}" in source[0]:
        docs_plots.configure()
        _namespaces[docname], _pictures[docname], failed = executed_with_pictures(docname, source[0], _BESIDE)
        if failed:
            log.warning("an example failed:\n%s", failed, location=docname)


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
    """A directive with one argument, an expression over the names that the page's examples left."""

    required_arguments = 1
    final_argument_whitespace = True

    def value(self) -> Any:
        """What the expression gives. Raises: DirectiveError, which Sphinx reports with the page and the line."""
        names = _namespaces.get(self.env.docname, {})
        try:
            return eval(self.arguments[0], names)  # the page's own code, like its examples
        except Exception as error:
            raise self.error(f"{self.arguments[0]} gave {type(error).__name__}: {error}") from error

    def picture(self, value: Any, words: str) -> nodes.Node:
        """The picture of a figure, axes or SVG text, stored beside the pages."""
        svg = docs_plots.to_svg(value)
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
        words, value = " ".join(self.content), _pictures[self.env.docname].pop(0)
        if isinstance(value, Exception):
            raise self.error(f"{self.arguments[0]} gave {type(value).__name__}: {value}")
        if "size" in self.options:
            docs_plots.figure_of(value).set_size_inches(*map(float, self.options["size"].split()))
        shown = self.picture(value, words)
        return [shown, nodes.paragraph("", "", *self.parse_inline(words)[0], classes=["caption"])]


class AccountDirective(PageDirective):
    """What an account says of itself: its privacy curve as a picture, relation, source, kinds, assumptions."""

    option_spec = {"delta": float}  # noqa: RUF012 - as Sphinx has it

    def run(self) -> list[nodes.Node]:
        """The nodes."""
        account, delta = self.value(), self.options.get("delta", 1e-6)
        dot = f"ε = {shown_epsilon(account, delta):.4g} at δ = {shown_delta(delta)}"
        shown = self.picture(cost_picture(account, delta), f"the privacy curve of {self.arguments[0]}: {dot}")
        facts = {
            "Neighbours": [account.relation.description],
            "In the example": [dot],
            "Kind": [f"{words}: {', '.join(views)}" for words, views in by_kind(account).items()],
            "Source": account.source.split("; "),
            "Assumptions": [f"`{one.name}`: {one.value}" for one in Assumption if one in account.assumptions]
            or ["none"],
        }
        lines = [f"{title}\n" + "".join(f": {line}\n" for line in said) for title, said in facts.items()]
        return [shown, nodes.container("", *self.parse_text_to_nodes("\n".join(lines)), classes=["facts"])]


class AssumptionDirective(SphinxDirective):
    """The words of an assumption."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes."""
        words = Assumption[self.arguments[0]].value
        return [nodes.paragraph("", "", nodes.emphasis("", f"{words[0].upper()}{words[1:]}."))]


def by_kind(account: Accountant) -> dict[Kind, list[str]]:
    """The account's views, by their kind."""
    found: dict[Kind, list[str]] = {}
    for view, words in VIEWS.items():
        found.setdefault(account.kind(view), []).append(words)
    return found


def cost_picture(account: Accountant, delta: float) -> Any:
    """Return a figure of delta against epsilon: the account, and the bound that follows from its Rényi curve alone."""
    least = min(1e-10, delta / 1e4)
    with figures.styled(maths=True) as figure_class:
        figure = figure_class(figsize=(4.8, 3.1), layout="constrained")
        axes = figure.subplots()
        label = {"exact": "privacy curve", "upper bound": "privacy curve, upper bound"}[account.kind("delta")]
        axes.plot(*curve(account, least), color=BLUE, label=label)
        if account.infinity_mass == 0.0:
            epsilons, at = figures.by_renyi(account, least)
            kept = (epsilons > 0) & np.isfinite(epsilons)
            style = {"color": ORANGE, "linestyle": (0, (4, 2)), "label": "from the Rényi curve alone"}
            axes.plot(epsilons[kept], at[kept], **style)
        epsilon, words = figures.mark(account, delta)
        axes.plot([epsilon], [delta], "o", color=BLUE, clip_on=False)
        place = {"textcoords": "offset points", "ha": "right", "va": "top", "color": BLUE}
        axes.annotate(words, (epsilon, delta), (-7, -5), **place)
        axes.set(yscale="log", ylim=(least, 1.0), xlim=(0.0, None), xlabel=EPSILON, ylabel=DELTA)
        axes.minorticks_off()
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def curve(account: Accountant, least: float) -> tuple[FloatArray, FloatArray]:
    """Points (epsilon, delta) of the privacy curve: at even steps of epsilon, and of log delta, where it is steep.

    An epsilon is infinite where delta is smaller than the infinity mass, at which the curve goes on to the right.
    """
    deltas = np.geomspace(least, 0.1, 12)
    steep = account.epsilon(deltas)
    finite = np.isfinite(steep)
    deltas, steep = deltas[finite], steep[finite]
    even, at = figures.cost_curve(account, float(steep[0]) * (1.0 if finite.all() else 1.25), least)
    epsilons, both = np.append(even, steep[steep > 0]), np.append(at, deltas[steep > 0])
    order = np.lexsort((-both, epsilons))
    return epsilons[order], both[order]


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
