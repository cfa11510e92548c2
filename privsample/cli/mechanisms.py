"""`privsample mechanisms`: list all mechanisms and their options."""

from argparse import Namespace
from typing import Any

from privsample.cli.choice import field_options, mechanism_class, mechanisms, option
from privsample.cli.options import add_json
from privsample.cli.output import Console, check_tables, print_json
from privsample.cli.syntax import metavar
from privsample.mechanisms.arguments import summary

ABOUT = "list the mechanisms and their options"
DESCRIPTION = """\
List the mechanisms of `account`, `release`, `compare` and `audit`, including those of installed extensions,
with the parameter that calibration determines. With names: the options and data formats of these mechanisms."""
EXAMPLE = """\
example:
  privsample mechanisms
  privsample mechanisms gaussian-sum subsampled"""


def add(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="mechanisms whose options are printed")
    add_json(parser)


def run(args: Namespace) -> int:
    """Print the list of mechanisms, or the options of the named ones."""
    check_tables(args)
    found = {name: mechanism_class(name) for name in args.names} if args.names else mechanisms()
    if args.json:
        print_json({"command": "mechanisms", "mechanisms": [_described(name, cls) for name, cls in found.items()]})
        return 0
    console = Console()
    if not args.names:
        rows = [[name, summary(cls), ", ".join(_decided(cls))] for name, cls in found.items()]
        console.table("Mechanisms", ("name", "description", "calibrated"), rows)
        console.paragraph(
            "Their options", "`privsample mechanisms NAME`, or `privsample account --mechanism NAME --help`"
        )
        return 0
    for name, cls in found.items():
        console.paragraph(f"{name} ({cls.__name__})", summary(cls))
        described = _described(name, cls)
        if described["data"]:
            console.text(f"data: {' or '.join(described['data'])}")
        rows = [[one["option"], one["value"], one["help"] + _note(one)] for one in described["options"]]
        console.table("Options", ("option", "value", "description"), rows)
    return 0


def _note(one: dict[str, Any]) -> str:
    return " (or a privacy target)" if one["decided_by_limit"] else "" if one["required"] else " (optional)"


def _decided(cls: Any) -> list[str]:
    return list(dict.fromkeys(option(free.decides, cls) for free in cls.free_parameters))


def _described(name: str, cls: Any) -> dict[str, Any]:
    """Return the description of a mechanism as JSON."""
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
