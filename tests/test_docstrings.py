"""No docstring of the package breaks off in the middle of a sentence."""

import ast
import inspect
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

import pytest

import privsample as ps

ROOT = Path(__file__).parents[1]
PROGRAMS = [
    path for folder in ("privsample", "tools", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
]
_ENDS = (".", "!", "?")
_CLOSING = "\"'`)*"
_BLOCKS = ("-", "*", ">>>", "    ", "..", "|", "1.", "(")


def cut_short(text):
    """The end of the first paragraph of a docstring that is no whole sentence; None where all are.

    The summary ends with a full stop. Another paragraph may end in a colon, before a list, a formula or an example.
    """
    first, *rest = (part for part in text.strip("\n").split("\n\n") if part.strip())
    if not first.strip().rstrip(_CLOSING).endswith(_ENDS):
        return first.strip()[-60:]
    for paragraph, following in zip(rest, [*rest, ""][1:], strict=True):
        end = paragraph.strip().rstrip(_CLOSING)
        if ">>> " in paragraph:  # its end is a printed value
            continue
        if end.endswith((",", ";")):
            return paragraph.strip()[-60:]
        if end.endswith(":") and not following.startswith(_BLOCKS):
            return paragraph.strip()[-60:]
    return None


def docstrings(source):
    """Every docstring of a program, with the line where it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def test_every_docstring_ends_its_sentences():
    found = {
        f"{path.relative_to(ROOT)}:{line}": cut_short(text)
        for path in PROGRAMS
        for line, text in docstrings(path.read_text(encoding="utf-8"))
    }
    assert len(found) > 2000
    assert {place: end for place, end in found.items() if end is not None} == {}


@pytest.mark.parametrize(
    "broken",
    [
        "Without warnings, and with one thread for each product of small matrices:\n\ntheir threads would wait.",
        "max of 2 norm cos a over a: exact for two coefficients, no intercept;\n\nelse an upper bound.",
        "A summary without a stop",
        "A summary.\n\nA paragraph that ends in a comma,\n\nand goes on.",
        "A summary.\n\nA colon at the very end:",
    ],
)
def test_what_is_cut_short_is_found(broken):
    assert cut_short(broken) is not None


def test_whole_docstrings_pass():
    assert cut_short('It says "yes."\n\nTwo ways:\n\n- one;\n- two.\n\nExamples:\n\n>>> 1\n1') is None


def test_the_signature_of_a_public_class_lists_its_fields():
    """`help` and the reference show every field, with its default; no class hides them behind **fields."""
    classes = [cls for name in ps.__all__ if inspect.isclass(cls := getattr(ps, name))]
    checked = [cls for cls in classes if not issubclass(cls, Enum | BaseException)]
    assert len(checked) > 150
    for cls in checked:
        parameters = inspect.signature(cls).parameters
        assert all(one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in parameters.values()), cls
        if is_dataclass(cls):
            assert list(parameters) == [field.name for field in fields(cls) if field.init], cls
