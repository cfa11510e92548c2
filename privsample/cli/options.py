"""The options that commands share, and how their values are read."""

import argparse
import codecs
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from privsample.cli.errors import UsageProblem, nearest

# Options of the commands themselves: a field of the same name is an option with "mechanism-" before it.
OWN = frozenset(
    [
        "all",
        "by",
        "clip",
        "column",
        "columns",
        "dask",
        "delta",
        "encoding",
        "epsilon",
        "file",
        "force",
        "help",
        "jobs",
        "json",
        "label",
        "ledger",
        "level",
        "list",
        "map",
        "mechanism",
        "names",
        "order",
        "out",
        "progress",
        "public-data",
        "rdp-epsilon",
        "report",
        "rho",
        "samples",
        "seed",
        "separator",
        "simulations",
        "mutant",
        "twin",
    ]
)


_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from ([^()]*)\)$")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps descriptions to the terminal; examples stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return super()._fill_text(text, width, indent)
        return textwrap.fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose options cannot be shortened.

    `further` adds options that depend on what the command line says, before it is read; `chosen` names, for references
    to the help, what they belong to.
    """

    chosen: str = ""
    further: "Callable[[Parser, Sequence[str]], None] | None" = None
    unknown: "Callable[[str], str | None] | None" = None

    def __init__(self, **settings: Any) -> None:
        fixed: dict[str, Any] = {"allow_abbrev": False, "formatter_class": Formatter}
        super().__init__(**fixed | settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse what is unknown here: a command would leave it to the main parser, whose help is about commands."""
        if self.further is not None:
            further, self.further = self.further, None
            further(self, args or ())
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            known = self.unknown(word) if self.unknown is not None else None
            options = [option for option in self._option_string_actions if option.startswith("--")]
            hint = nearest([word], options) if word.startswith("--") and len(word) > 3 else ""
            self._refuse(known or f"unrecognized arguments: {' '.join(unknown)}", "" if known else hint)
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Leave it to `main` to print and to choose the exit code."""
        choice = _CHOICE.search(message)
        self._refuse(
            message, nearest([choice[1]], [word.strip(" '") for word in choice[2].split(",")]) if choice else ""
        )

    def _refuse(self, message: str, hint: str) -> NoReturn:
        raise UsageProblem(f"{message} (see {self.prog}{self.chosen} --help){hint}")


def join_negative_values(words: list[str]) -> list[str]:
    """`--bounds -5,5` as `--bounds=-5,5`: argparse would take -5,5 for an option."""
    result: list[str] = []
    for word in words:
        named = bool(result) and result[-1].startswith("--") and "=" not in result[-1]
        if named and word[:1] == "-" and word[1:2] in set("0123456789.i"):
            result[-1] += "=" + word
        else:
            result.append(word)
    return result


def number(text: str) -> float:
    """A number, infinite or not; what it may be is checked where it is used."""
    try:
        result = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None
    if math.isnan(result):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return result


def whole_number(text: str, least: int = 1) -> int:
    """A whole number of at least one, or of another least."""
    try:
        result = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number such as 1000, got {text!r}") from None
    if not result >= least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
    return result


def seed(text: str) -> int:
    """A whole number from zero on."""
    return whole_number(text, least=0)


def numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    return tuple(number(part.strip()) for part in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """Different names with commas between them."""
    found = tuple(part.strip() for part in text.split(","))
    if "" in found or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"expected different names such as red,green,blue, got {text!r}")
    return found


def phrase(text: str) -> str:
    """Words for one line."""
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError("expected a word or two, such as patient")
    return text.strip()


_TABLE = "CSV (with a header, also .gz), Parquet, Feather or Arrow file"


def add_file(parser: argparse.ArgumentParser, what: str = _TABLE) -> None:
    """Where the records are."""
    parser.add_argument("file", metavar="FILE", help=what)
    group = parser.add_argument_group("the file")
    group.add_argument("--column", metavar="C", help="the column to use, by name; no other is read")
    group.add_argument(
        "--columns", type=names, metavar="A,B,C", help="several columns, for a mechanism whose records are rows"
    )
    group.add_argument("--label", metavar="Y", help="beside --columns: the column of labels or targets")
    group.add_argument(
        "--separator", type=_separator, metavar="S", help="between the fields of a CSV file (default: comma)"
    )
    group.add_argument(
        "--encoding", type=_encoding, metavar="E", help="of a CSV file, e.g. utf-16 or latin-1 (default: UTF-8)"
    )
    group.add_argument(
        "--map",
        type=_mapping,
        metavar="WORD=X,...",
        help="the public number for each word in a column of text, e.g. yes=1,no=0; with nothing after = a word is "
        "missing",
    )
    group.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show progress on standard error (default: if that is a terminal)",
    )


def _separator(text: str) -> str:
    found = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(found) != 1 or found in '"\r\n' or not found.isascii():
        raise argparse.ArgumentTypeError(f"expected one character such as ';' (or the word tab), got {text!r}")
    return found


def _encoding(text: str) -> str:
    try:
        "".encode(text)  # refuses codecs that are not of text, as codecs.lookup does not
        return codecs.lookup(text).name
    except (LookupError, ValueError):
        raise argparse.ArgumentTypeError(f"expected an encoding such as utf-16 or latin-1, got {text!r}") from None


def _mapping(text: str) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for part in text.split(","):
        word, sign, meaning = (piece.strip() for piece in part.rpartition("="))
        if not sign or not word or word in found:
            raise argparse.ArgumentTypeError(f"expected different words with numbers such as yes=1,no=0, got {text!r}")
        found[word] = number(meaning) if meaning else None
    return found


def add_target(parser: argparse.ArgumentParser) -> None:
    """What it may cost."""
    group = parser.add_argument_group("the limit to meet (one of three)")
    group.add_argument("--epsilon", type=number, metavar="E", help="differential privacy; give --delta, too")
    group.add_argument(
        "--delta",
        type=number,
        metavar="D",
        help="the probability with which epsilon may fail, e.g. 1e-6. With another limit: where costs are stated",
    )
    group.add_argument("--order", type=number, metavar="A", help="Rényi differential privacy: its order, above 1")
    group.add_argument("--rdp-epsilon", type=number, metavar="E", help="Rényi differential privacy at --order")
    group.add_argument("--rho", type=number, metavar="RHO", help="zero-concentrated differential privacy")


def add_json(parser: argparse.ArgumentParser) -> None:
    """The form of the answer."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
