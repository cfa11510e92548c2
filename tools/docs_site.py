"""Build the documentation site: python tools/docs_site.py [folder]; default build/docs, first page html/index.html.

The pages come from CONTRIBUTING.md, CHANGELOG.md, docs/ and examples/. The reference comes from the list of public
names: one page for each class and function. Sphinx builds the site. A warning, a failed example or a broken link is an
error.
"""

import argparse
import ast
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from unittest import mock

import privsample
from privsample import cli, errors
from privsample import pymc as released

ROOT = Path(__file__).resolve().parent.parent
FOOTER = "\nFields and methods: {{py:obj}}`privsample.{0}`.\n"
LISTS = {
    "tutorials": (
        "Tutorials",
        "Each tutorial takes fifteen minutes and leads from data to a released result.",
    ),
    "guides": ("Guides", "Each guide explains one task. Its examples were executed when this site was built."),
    "notes": ("Proofs", "Proofs of the results that extend or sharpen the literature."),
}
ROOMS = {
    "relations": "Neighbouring relations",
    "mechanisms": "Mechanisms",
    "accounting": "Accountants",
    "distributions": "Distributions",
    "estimators": "Estimators",
    "inference": "Inference",
    "engines": "Engines",
    "simulations": "Simulations",
    "comparison": "Comparison of mechanisms",
    "interop": "Other libraries",
    "pymc": "Distributions for PyMC",
    "registry": "Extensions",
    "testing": "Checks of extensions",
    "errors": "Errors",
}
BESIDE = {  # public names outside the top level of the package
    "interop": ["interop.pymc.noisy_observation", "interop.pymc.noisy_count"],
    "pymc": [f"pymc.{name}" for name in released.__all__],
    "testing": [
        f"testing.{name}"
        for name in ("check_mechanism", "check_accountant", "CheckedRequirement", "RequirementViolated")
    ],
    "errors": [f"errors.{name}" for name in vars(errors) if not name.startswith("_")],
}
SHARED = {  # methods that the page of a subclass does not repeat
    privsample.Accountant: ("epsilon", "delta", "rdp", "explain", "plot"),
    privsample.Mechanism: ("calibrate", "validate", "release"),
}
REST = "More mechanisms"
COMMANDS = """# Command line

`pip install '.[cli]'` in a checkout installs `privsample`. Audits also need the extra `audit`, and
netCDF files `bayes`. `make demo` and `make test` install it in `.venv/bin`.
"""


def write_sources(folder: Path) -> None:
    """Write the sources of all pages to the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        name = str(page.relative_to(ROOT))
        text = moved(name) + footer(name)
        write(folder / place(name), overview(text) if name == "docs/mechanisms/index.md" else text)
    for example in sorted((ROOT / "examples").glob("*.py")):
        write(folder / "examples" / f"{example.stem}.md", listing(example))
    for room, (title, words) in LISTS.items():
        write(folder / room / "index.md", f"# {title}\n\n{words}\n\n:::{{toctree}}\n:glob:\n:maxdepth: 1\n\n*\n:::\n")
    write(folder / "examples" / "index.md", examples())
    for name, text in reference():
        write(folder / "reference" / name, text)


def write(file: Path, text: str) -> None:
    """Write a page and create its folder if necessary."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def place(name: str) -> str:
    """Return the path in the site of a file or folder of the repository."""
    if "/" not in name:
        return "index.md" if name == "README.md" else name.lower()
    path = Path(name.removeprefix("docs/"))
    return str(path.with_suffix(".md") if path.suffix else path / "index.md")


def moved(name: str) -> str:
    """Return a page of the repository with its links converted to paths of the site."""
    here = (ROOT / name).parent

    def link(found: re.Match[str]) -> str:
        path = Path(os.path.normpath(here / found[1]))
        if not path.exists() or not path.is_relative_to(ROOT):
            return found[0]
        there = place(str(path.relative_to(ROOT)))
        return f"]({os.path.relpath(there, Path(place(name)).parent)}"

    return re.sub(r"\]\(([\w./-]+)(?=[)#])", link, (ROOT / name).read_text(encoding="utf-8"))


def footer(name: str) -> str:
    """Return the link to the reference that ends the page of a mechanism; '' for other pages."""
    page = Path(name)
    return FOOTER.format(page.stem) if page.parent.name == "mechanisms" and page.stem != "index" else ""


def overview(text: str) -> str:
    """Append the list of all mechanisms by theme, each with the first sentence of its page."""
    themes: dict[str, list[Path]] = {}
    for page in sorted((ROOT / "docs" / "mechanisms").glob("[A-Z]*.md")):
        themes.setdefault(theme(page.stem), []).append(page)
    titles = sorted(themes, key=lambda title: (title == REST, title))
    return "\n".join([text, *(f"## {title}\n\n{listed(themes[title])}" for title in titles)])


def theme(name: str) -> str:
    """Return the theme of a public class: the first line of the docstring of its package."""
    room = privsample._HOME[name].split(".")[1:-1]
    if room == ["mechanisms"]:
        return REST
    home = import_module(".".join(["privsample", *room]))
    return (home.__doc__ or "").strip().partition("\n")[0].removesuffix(".")


def listed(pages: list[Path]) -> str:
    """Return links to the pages, each with its first sentence."""
    lines = []
    for page in pages:
        words = " ".join(page.read_text(encoding="utf-8").split("\n\n")[1].split())
        lines.append(f"[{page.stem}]({page.name})\n: {re.split(r'(?<=[.]) ', words)[0]}\n")
    tree = "\n".join([":::{toctree}", ":hidden:", "", *(page.stem for page in pages), ":::"])
    return "\n".join([tree, "", *lines])


def examples() -> str:
    """Return the list of programs, each with the first line of its docstring."""
    programs = sorted((ROOT / "examples").glob("*.py"))
    lines = [f"[{program.name}]({program.stem}.md)\n: {about(program)}\n" for program in programs]
    tree = "\n".join([":::{toctree}", ":hidden:", "", *(program.stem for program in programs), ":::"])
    return "\n".join(["# Examples\n", "Programs to run in a checkout.\n", tree, "", *lines])


def about(program: Path) -> str:
    """Return the first line of the docstring of a program."""
    return (ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def listing(program: Path) -> str:
    """Return a program as a page: the first line of its docstring and its code."""
    return f"# {program.name}\n\n{about(program)}\n\n```python\n{program.read_text(encoding='utf-8')}```\n"


def reference() -> Iterator[tuple[str, str]]:
    """Yield file and text of the reference: a page for each public name, a list for each subpackage, the commands."""
    rooms = [f"   {room}" for room in (*ROOMS, "commands")]
    yield "index.rst", "\n".join([*heading("Reference"), ".. toctree::", "   :maxdepth: 1", "", *rooms, ""])
    for room, title in ROOMS.items():
        names = [name for name in privsample.__all__ if privsample._HOME[name].split(".")[1].lstrip("_") == room]
        names += BESIDE.get(room, [])
        assert names, f"{room} has no public name"
        table = [".. autosummary::", "   :nosignatures:", "", *(f"   ~privsample.{name}" for name in names), ""]
        tree = [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in names), ""]
        yield f"{room}.rst", "\n".join([*heading(title), *table, *tree])
        for name in names:
            yield f"{name}.rst", "\n".join([*heading(name.rpartition(".")[2]), *entry(room, name)])
    yield "commands.md", commands()


def commands() -> str:
    """Return the page with the help of each command."""
    parts = [COMMANDS]
    for words in ([], *([name] for name in cli._COMMANDS)):
        with redirect_stdout(StringIO()) as said, mock.patch.dict(os.environ, COLUMNS="64", NO_COLOR="1"):
            code = cli.main([*words, "--help"])
        assert code == 0, f"{words} --help failed"
        parts.append(f"## {' '.join(['privsample', *words])}\n\n```text\n{said.getvalue()}```\n")
    return "\n".join(parts)


def heading(title: str) -> list[str]:
    """Return a title in reStructuredText."""
    return [title, "=" * len(title), ""]


def entry(room: str, name: str) -> list[str]:
    """Return the autodoc directives of a public name."""
    home, _, last = f"privsample.{name}".rpartition(".")
    item = getattr(import_module(home), last)
    if not isinstance(item, type):
        return [f".. autofunction:: {home}.{last}", ""]
    if issubclass(item, Exception):
        return [f".. autoexception:: {home}.{last}", ""]
    lines = [f".. autoclass:: {home}.{last}", "   :members:"]
    if item.__bases__ != (object,):
        lines.append("   :show-inheritance:")
    if room in ("mechanisms", "estimators"):
        lines.append(f"   :inherited-members: {'Mechanism' if room == 'mechanisms' else 'BaseEstimator'}")
    if room == "simulations" and item.__bases__ != (object,):
        lines.append("   :inherited-members: ABC")
    if theirs := [member for member in dir(item) if made_by_sklearn(item, member)]:
        lines.append(f"   :exclude-members: {', '.join(theirs)}")
    return [*lines, "", *inherited(item)]


def inherited(item: type) -> list[str]:
    """Return a sentence that leads from the page of an accountant or mechanism to the methods of its base class."""
    for base, methods in SHARED.items():
        if issubclass(item, base) and item is not base:
            names = ", ".join(f"``{method}``" for method in methods[:-1])
            return [f"{names} and ``{methods[-1]}`` are methods of :py:obj:`privsample.{base.__name__}`.", ""]
    return []


def made_by_sklearn(item: type, member: str) -> bool:
    """Return True if scikit-learn defines the method; metadata methods are recognized by their names."""
    home = getattr(getattr(item, member, None), "__module__", None) or ""
    return home.startswith("sklearn.") or re.fullmatch("set_.*_request", member) is not None


def main(folder: Path) -> int:
    """Build the site and return the exit code."""
    from sphinx.cmd.build import main as sphinx

    logging.getLogger("arviz.preview").setLevel(logging.WARNING)  # Sphinx would print its messages about optional parts
    source, site = folder / "source", folder / "html"
    write_sources(source)
    shutil.rmtree(site, ignore_errors=True)
    flags = ["-W", "--keep-going", "-q", "-E", "-j", "auto", "-c", str(ROOT / "docs"), "-d", str(folder / "doctrees")]
    code = sphinx([*flags, str(source), str(site)])
    if code == 0:
        print(f"open {site / 'index.html'}")
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "docs", help="output folder")
    sys.exit(main(parser.parse_args().folder.resolve()))
