"""Runs of the pages of the documentation: their examples, and what their pictures and accounts show.

A page runs once. The tests run it and keep what it showed in build/pages; `make docs` reads that while the page's
examples, the package and the locked environment are the same, and runs the page itself otherwise.
"""

import doctest
import hashlib
import json
import re
import sys
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import docs_plots

from privsample.simulations.report import figures

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "pages"
DIRECTIVE = re.compile(r"^```\{(picture|account)\} (.*)\n((?::\w+: .*\n)*)", re.MULTILINE)
_OPTION = re.compile(r"^:(\w+): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a directive shows: a picture with its text, facts beside it, or the error of its expression."""

    expression: str
    svg: str = ""
    words: str = ""
    facts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class PageRun:
    """What the run of a page gave.

    Parameters
    ----------
    failed : str
        The report on failed examples; '' if all of them printed what the page says.
    shown : tuple of Shown
        What each `{picture}` and `{account}` of the page shows, in their order.
    """

    failed: str
    shown: tuple[Shown, ...]

    @property
    def problems(self) -> str:
        """The report on failed examples and on expressions that raised an error; '' if there are none."""
        return self.failed + "".join(f"{each.expression} gave {each.error}\n" for each in self.shown if each.error)


def run_page(name: str) -> PageRun:
    """Run a page of the repository, for instance `docs/guides/tallies`, and keep what it showed for `make docs`."""
    text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    done = run(name, text)
    if not done.problems:
        KEPT.mkdir(parents=True, exist_ok=True)
        part = _file(name).with_suffix(".part")
        part.write_text(json.dumps({"key": _key(text), **asdict(done)}), encoding="utf-8")
        part.replace(_file(name))
    return done


def kept_or_run(name: str, text: str) -> PageRun:
    """Return what a page showed when it ran last, if nothing has changed since then; otherwise run it."""
    try:
        kept = json.loads(_file(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return run(name, text)
    if kept["key"] != _key(text):
        return run(name, text)
    shown = [
        Shown(**(each | {"facts": tuple((title, tuple(lines)) for title, lines in each["facts"])}))
        for each in kept["shown"]
    ]
    return PageRun(failed=kept["failed"], shown=tuple(shown))


def run(name: str, text: str) -> PageRun:
    """Run the examples of a page, and evaluate the expression of each picture and account where it stands.

    Parameters
    ----------
    name : str
        Name of the page in messages.
    text : str
        The page in Markdown.

    Returns
    -------
    PageRun
        Failed examples and errors are in it; they raise nothing.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    shown: list[Shown] = []
    report: list[str] = []
    start = 0
    with docs_plots.style():
        for directive in [*DIRECTIVE.finditer(text), None]:
            end = directive.start() if directive else len(text)
            test = doctest.DocTestParser().get_doctest(text[start:end], names, name, name, text.count("\n", 0, start))
            doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
            names, start = test.globs, end
            if directive:
                shown.append(_show(directive, names))
    return PageRun(failed="".join(report), shown=tuple(shown))


def _show(directive: re.Match[str], names: dict[str, Any]) -> Shown:
    """Evaluate the expression of a directive with the names that the examples before it left."""
    kind, expression, options = directive[1], directive[2], dict(_OPTION.findall(directive[3]))
    beside: dict[str, Any] = {"figures": figures, "example": lambda stem: import_module(f"examples.{stem}")}
    try:
        value = eval(expression, names | beside)  # the page's own code, like its examples
        if kind == "account":
            words, facts, value = docs_plots.account_card(value, expression, float(options.get("delta", 1e-6)))
            return Shown(expression, docs_plots.to_svg(value).decode(), words, facts)
        if "size" in options:
            docs_plots.figure_of(value).set_size_inches(*map(float, options["size"].split()))
        return Shown(expression, docs_plots.to_svg(value).decode())
    except Exception as error:  # noqa: BLE001 - the directive reports it with the page and the line
        return Shown(expression, error=f"{type(error).__name__}: {error}")


def _file(name: str) -> Path:
    return KEPT / f"{name.removeprefix('docs/').replace('/', '-')}.json"


def _key(text: str) -> str:
    """Return a digest of all that decides what a page shows: its code, the package, the tools and the environment."""
    examples = [(each.source, each.want) for each in doctest.DocTestParser().get_examples(text)]
    directives = [each.group() for each in DIRECTIVE.finditer(text)]
    return hashlib.sha256(repr((examples, directives, _sources())).encode()).hexdigest()


@cache
def _sources() -> str:
    """Return a digest of the package, the example programs, these tools, the lock and the interpreter."""
    digest = hashlib.sha256(sys.version.encode())
    folders = [ROOT / "privsample", ROOT / "examples", ROOT / "tools"]
    for file in [*sorted(file for folder in folders for file in folder.rglob("*.py*")), ROOT / "requirements.lock"]:
        if file.suffix in (".py", ".pyi", ".lock"):
            digest.update(file.read_bytes())
    return digest.hexdigest()
