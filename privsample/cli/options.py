"""The options that commands share, and how their values are read."""

import argparse
import math
import textwrap
from typing import Any, NoReturn

from privsample.cli.errors import UsageProblem
from privsample.cli.models import flag, model_options, models, names_of, prior_help

MECHANISMS = ("direct", "diffused", "concentrated", "tempered", "noisy", "beta-query")
NOISES = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")
_SIGNED = (  # options whose numbers may begin with a sign
    *("--n", "--draws", "--prior", "--truncation"),
    *("--epsilon", "--delta", "--order", "--rdp-epsilon", "--rho"),
    *("--data-weight", "--prior-divisor", "--temperature", "--scale"),
)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps descriptions to the terminal; examples stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return super()._fill_text(text, width, indent)
        return textwrap.fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose options cannot be shortened."""

    def __init__(self, **settings: Any) -> None:
        fixed: dict[str, Any] = {"allow_abbrev": False, "formatter_class": Formatter}
        super().__init__(**fixed | settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse what is unknown here: a command would leave it to the main parser, whose help is about commands."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Leave it to `main` to print and to choose the exit code."""
        raise UsageProblem(f"{message} (see {self.prog} --help)")


def joined(words: list[str]) -> list[str]:
    """`--bounds -5,5` as `--bounds=-5,5`: argparse would take -5,5 for an option."""
    result: list[str] = []
    signed = {*_SIGNED, *map(flag, model_options())}
    for word in words:
        if result and result[-1] in signed and word[:1] == "-" and word[1:2] in set("0123456789.i"):
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


def whole(text: str, least: int = 1) -> int:
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
    return whole(text, least=0)


def numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    return tuple(number(part.strip()) for part in text.split(","))


def pair(text: str) -> tuple[float, float]:
    """Two numbers with a comma between them."""
    found = numbers(text)
    if len(found) != 2:
        raise argparse.ArgumentTypeError(f"expected two numbers such as 0,10, got {text!r}")
    return found[0], found[1]


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


def add_model(parser: argparse.ArgumentParser, *, n: bool = True) -> None:
    """What the records are and what was believed of them before."""
    group = parser.add_argument_group("the data and the model")
    if n:
        group.add_argument("--n", type=whole, required=True, metavar="N", help="how many records there are (public)")
    group.add_argument("--model", choices=tuple(models()), metavar="MODEL", help="one of " + ", ".join(models()))
    group.add_argument(
        "--prior",
        type=numbers,
        required=True,
        metavar="A,B",
        help=f"the prior's numbers: {prior_help()}; beta-query: alpha,beta. "
        "A larger prior makes stronger guarantees possible",
    )
    for field, (kind, line) in model_options().items():
        words = f"beta-query, {line}" if field == "bounds" else line
        if kind is bool:
            group.add_argument(flag(field), action="store_true", help=words)
        else:
            read, shape = (pair, "LO,HI") if kind is tuple else (number, "X")
            group.add_argument(flag(field), type=read, metavar=shape, help=words)
    group.add_argument(
        "--categories",
        type=names,
        metavar="A,B,C",
        help=f"{names_of(lambda kind: kind.records_are_codes)}: the public list of names in the "
        "column; missing and unknown names count as the first. Without it the column holds 0, 1, 2, ...",
    )
    group.add_argument("--unit", type=phrase, default="record", metavar="WORD", help="what one record is, e.g. patient")


def add_file(parser: argparse.ArgumentParser) -> None:
    """Where the records are."""
    parser.add_argument("file", metavar="FILE", help="CSV (with a header, also .gz), Parquet, Feather or Arrow file")
    group = parser.add_argument_group("the file")
    group.add_argument("--column", required=True, metavar="C", help="the column to use, by name; no other is read")
    group.add_argument(
        "--separator", type=_separator, metavar="S", help="between the fields of a CSV file (default: comma)"
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


def add_mechanism(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """How to draw."""
    group = parser.add_argument_group("the mechanism")
    text = (
        "direct: the posterior as it is; diffused: every record counts less; concentrated: the prior counts more; "
        "tempered: both count less, inside bounds; noisy: the statistic with noise, for an analyst to infer from; "
        "beta-query: the mean of a bounded column"
    )
    group.add_argument("--mechanism", choices=MECHANISMS, required=required, metavar="M", help=text)
    group.add_argument(
        "--data-weight", type=number, metavar="R", help="in place of a limit: how much a record counts, in (0, 1]"
    )
    group.add_argument(
        "--prior-divisor", type=number, metavar="M", help="in place of a limit: divides the prior, in (0, 1]"
    )
    group.add_argument("--temperature", type=number, metavar="T", help="tempered, in place of a limit: at least 1")
    group.add_argument(
        "--truncation",
        type=numbers,
        metavar="A",
        help="tempered: the least share of any category, below 1/2; or LOW,HIGH for a rate or a mean",
    )
    group.add_argument("--scale", type=number, metavar="S", help="noisy, in place of a limit: the spread of the noise")
    group.add_argument(
        "--noise",
        choices=NOISES,
        metavar="LAW",
        help=f"noisy: {', '.join(NOISES)} (default: discrete-laplace for counts, laplace for other sums)",
    )


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
    group.add_argument("--order", type=number, metavar="A", help="Renyi differential privacy: its order, above 1")
    group.add_argument("--rdp-epsilon", type=number, metavar="E", help="Renyi differential privacy at --order")
    group.add_argument("--rho", type=number, metavar="RHO", help="zero-concentrated differential privacy")


def add_draws(parser: argparse.ArgumentParser) -> None:
    """How many draws, and the form of the answer."""
    parser.add_argument(
        "--draws", type=whole, default=1, metavar="K", help="how many draws to release; each costs (default: 1)"
    )
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """The form of the answer."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
