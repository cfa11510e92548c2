"""Options that several commands share, and the parsers of their values."""

import argparse
import codecs
import math
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from privsample.cli.errors import UsageProblem, nearest

# Options of the commands. If a field of a mechanism has one of these names, its option has the prefix "mechanism-".
OWN = frozenset(
    [
        "all",
        "baseline",
        "by",
        "clip",
        "clip-unit",
        "column",
        "columns",
        "dask",
        "data",
        "delta",
        "encoding",
        "engine",
        "epsilon",
        "file",
        "force",
        "groups-per-unit",
        "help",
        "jobs",
        "json",
        "keys",
        "label",
        "ledger",
        "level",
        "list",
        "map",
        "mechanism",
        "mu",
        "multiline",
        "names",
        "order",
        "out",
        "progress",
        "public-data",
        "rdp-epsilon",
        "records-per-unit",
        "regret",
        "report",
        "rho",
        "risk",
        "samples",
        "seed",
        "separator",
        "sequential",
        "simulations",
        "sizes",
        "state",
        "tally",
        "tally-out",
        "text-keys",
        "mutant",
        "twin",
        "unit-column",
        "unlisted",
    ]
)


_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from ([^()]*)\)$")


_MIN_COLUMNS = 40


def terminal_width(otherwise: int = 80) -> int:
    """Return the width of the terminal or of COLUMNS, at least 40: in less, tables would have one letter a line."""
    return max(shutil.get_terminal_size((otherwise, 24)).columns, _MIN_COLUMNS)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help formatter that wraps descriptions to the terminal width and leaves examples unchanged."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **({"width": terminal_width() - 2} | options))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return super()._fill_text(text, width, indent)
        return textwrap.fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent)


class Parser(argparse.ArgumentParser):
    """Parser with one-line errors that does not accept abbreviated options.

    `further` adds options that depend on the arguments, before these are parsed. `chosen` is the name of the mechanism
    that messages insert into "see ... --help". `unknown` returns a specific message for an unknown option, or None.
    """

    chosen: str = ""
    further: "Callable[[Parser, Sequence[str]], None] | None" = None
    unknown: "Callable[[str], str | None] | None" = None

    def __init__(self, **settings: Any) -> None:
        fixed: dict[str, Any] = {"allow_abbrev": False, "formatter_class": Formatter}
        super().__init__(**fixed | settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown arguments; argparse would leave them to the main parser, whose help lists commands only."""
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
        """Raise UsageProblem; `main` prints the message and returns the exit code."""
        choice = _CHOICE.search(message)
        self._refuse(
            message, nearest([choice[1]], [word.strip(" '") for word in choice[2].split(",")]) if choice else ""
        )

    def _refuse(self, message: str, hint: str) -> NoReturn:
        raise UsageProblem(f"{message} (see {self.prog}{self.chosen} --help){hint}")


def join_negative_values(words: list[str]) -> list[str]:
    """Join `--bounds -5,5` to `--bounds=-5,5`, because argparse would parse -5,5 as an option."""
    result: list[str] = []
    for word in words:
        named = bool(result) and result[-1].startswith("--") and "=" not in result[-1]
        if named and word[:1] == "-" and word[1:2] in set("0123456789.i"):
            result[-1] += "=" + word
        else:
            result.append(word)
    return result


def number(text: str) -> float:
    """Parse a number, possibly infinite, or a power such as 2^-10; the class that uses it checks the range."""
    base, power, exponent = text.partition("^")
    try:
        result = float(pow(float(base), int(exponent)) if power else text)
    except (ValueError, ArithmeticError):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None
    if math.isnan(result):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return result


def whole_number(text: str, least: int = 1) -> int:
    """Parse a whole number that is at least `least`."""
    try:
        result = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number such as 1000, got {text!r}") from None
    if not result >= least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
    return result


def seed(text: str) -> int:
    """Parse a whole number that is at least 0."""
    return whole_number(text, least=0)


def numbers(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas."""
    return tuple(number(part.strip()) for part in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """Parse distinct names separated by commas."""
    found = tuple(part.strip() for part in text.split(","))
    if "" in found or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"expected different names such as red,green,blue, got {text!r}")
    return found


def phrase(text: str) -> str:
    """Parse a nonempty text of printable characters."""
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError("expected a short name such as patient")
    return text.strip()


_TABLE = "CSV (with a header, also .gz), Parquet, Feather or Arrow file"


def add_file(parser: argparse.ArgumentParser, what: str = _TABLE, *, required: bool = True) -> None:
    """Add the options of the data file; if it is not `required`, other options may name the data."""
    parser.add_argument("file", metavar="FILE", nargs=None if required else "?", help=what)
    group = parser.add_argument_group("data file")
    group.add_argument("--column", metavar="C", help="name of the column; no other column is read")
    group.add_argument(
        "--columns", type=names, metavar="A,B,C", help="several columns, for a mechanism whose records are rows"
    )
    group.add_argument("--label", metavar="Y", help="with --columns: the column of labels or targets")
    group.add_argument(
        "--separator", type=_separator, metavar="S", help="field separator of a CSV file (default: comma)"
    )
    group.add_argument(
        "--encoding",
        type=_encoding,
        metavar="E",
        help="encoding of a CSV file, e.g. utf-16 or latin-1 (default: UTF-8)",
    )
    group.add_argument(
        "--multiline",
        action="store_true",
        help="the fields of a CSV file may hold line breaks; by default a quotation mark that does not close on its "
        "line is refused, because it would hide the records after it",
    )
    group.add_argument(
        "--map",
        type=_mapping,
        metavar="WORD=X,...",
        help="the number for each value of a text column, fixed without looking at the data, e.g. yes=1,no=0; a value "
        "without a number, as in unknown=, counts as missing",
    )
    group.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show progress on standard error (default: only on a terminal)",
    )


def _separator(text: str) -> str:
    found = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(found) != 1 or found in '"\r\n' or not found.isascii():
        raise argparse.ArgumentTypeError(f"expected one character such as ';' (or the word tab), got {text!r}")
    return found


def _encoding(text: str) -> str:
    try:
        "".encode(text)  # raises for codecs that are not text encodings; codecs.lookup accepts them
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
        if math.isinf(found[word] or 0.0):  # an infinite record would make bounds and means infinite
            raise argparse.ArgumentTypeError(f"expected finite numbers such as yes=1,no=0, got {part.strip()!r}")
    return found


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the options of the privacy target."""
    group = parser.add_argument_group("privacy target (one of five)")
    group.add_argument("--epsilon", type=number, metavar="E", help="epsilon of differential privacy; needs --delta")
    group.add_argument(
        "--delta",
        type=number,
        metavar="D",
        help="delta of differential privacy, e.g. 1e-6; with another target, the delta of the privacy statement",
    )
    group.add_argument(
        "--order", type=number, metavar="A", help="order of Rényi differential privacy, above 1; needs --rdp-epsilon"
    )
    group.add_argument(
        "--rdp-epsilon", type=number, metavar="E", help="epsilon of Rényi differential privacy at --order"
    )
    group.add_argument("--rho", type=number, metavar="RHO", help="rho of zero-concentrated differential privacy")
    group.add_argument(
        "--infinity-mass",
        type=number,
        metavar="M",
        help="with --rho or --order: the largest infinity mass, delta of the approximate guarantee (default: 0)",
    )
    group.add_argument(
        "--risk",
        type=number,
        metavar="P",
        help="largest success of an attack on one record; needs --baseline",
    )
    group.add_argument("--baseline", type=number, metavar="P", help="success of that attack without the release")
    group.add_argument("--mu", type=number, metavar="MU", help="mu of Gaussian differential privacy")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
