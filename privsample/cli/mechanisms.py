"""`privsample mechanisms`: every mechanism with its options, as its description gives them."""

from argparse import Namespace
from typing import Any

from privsample.cli.choice import field_options, mechanism_class, mechanisms, option
from privsample.cli.options import add_json
from privsample.cli.output import Console, check_tables, print_json
from privsample.cli.syntax import metavar
from privsample.mechanisms.arguments import summary

ABOUT = "list the mechanisms, and the options of each"
DESCRIPTION = """\
List every mechanism that `account`, `release`, `compare` and `audit` know, those of installed extensions
among them: what it does, what of a file it takes, and what a limit decides. With names: their options."""
EXAMPLE = """\
example:
  privsample mechanisms
  privsample mechanisms gaussian-sum subsampled"""


def add(parser: Any) -> None:
    """The command's options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="which mechanisms to print the options of")
    add_json(parser)


def run(args: Namespace) -> int:
    """Print the list, or the options of those that are named."""
    check_tables(args)
    found = {name: mechanism_class(name) for name in args.names} if args.names else mechanisms()
    if args.json:
        print_json({"command": "mechanisms", "mechanisms": [_described(name, cls) for name, cls in found.items()]})
        return 0
    console = Console()
    if not args.names:
        rows = [[name, summary(cls), ", ".join(_decided(cls))] for name, cls in found.items()]
        console.table("Mechanisms", ("name", "what it does", "a limit decides"), rows)
        console.paragraph(
            "Their options", "`privsample mechanisms NAME`, or `privsample account --mechanism NAME --help`"
        )
        return 0
    for name, cls in found.items():
        console.paragraph(f"{name} ({cls.__name__})", summary(cls))
        described = _described(name, cls)
        if described["data"]:
            console.text(f"release takes: {' or '.join(described['data'])}")
        rows = [[one["option"], one["value"], one["help"] + _note(one)] for one in described["options"]]
        console.table("Options", ("option", "value", "what it is"), rows)
    return 0


def _note(one: dict[str, Any]) -> str:
    return " (or a limit)" if one["decided_by_limit"] else "" if one["required"] else " (may be left out)"


def _decided(cls: Any) -> list[str]:
    return list(dict.fromkeys(option(free.decides, cls) for free in cls.free_parameters))


def _described(name: str, cls: Any) -> dict[str, Any]:
    """A mechanism for machines."""
    decided = {free.decides for free in cls.free_parameters}
    options = [
        {
            "option": option(one.name, cls),
            "value": metavar(one),
            "help": one.help,
            "required": one.required and bool(one.fields),
            "decided_by_limit": bool(decided & set(one.fields)),
        }
        for one in field_options(cls)
    ]
    return {
        "name": name,
        "class": f"{cls.__module__}.{cls.__name__}",
        "summary": summary(cls),
        "data": list(cls.command.data),
        "options": options,
    }
