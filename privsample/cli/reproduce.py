"""`privsample reproduce`: reproduce published figures, with their numbers and a summary of each.

The figures are in the folder `reproduction` of a checkout, beside this package. An installed package is without them.
"""

import os
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import privsample
from privsample.cli.errors import UsageProblem, require
from privsample.cli.parallel import add_jobs

ABOUT = "reproduce published figures, with their numbers and a summary"
DESCRIPTION = """\
Reproduce published figures and compare them with the accounts of the library. Each experiment writes NAME.png
and NAME.csv to a folder and prints a summary that compares the result with the paper. No file is read. The
command needs a checkout of the repository: an installed package does not contain the experiments."""
EXAMPLE = """\
example:
  privsample reproduce geumlek-7.2 composed-draws --out figures

All experiments, with a report (half an hour or more):
  privsample reproduce --all --jobs 2 --report out
List of names: privsample reproduce --list"""


def add(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments to run")
    parser.add_argument("--all", action="store_true", help="run all experiments")
    parser.add_argument("--list", action="store_true", help="print names, titles and run times, and exit")
    parser.add_argument("--only", metavar="PREFIX", help="with --all or --list: only names that begin with PREFIX")
    parser.add_argument("--out", metavar="DIR", help="output folder (default: figures)")
    parser.add_argument(
        "--report", metavar="DIR", help="output folder that also gets a report of all figures, report.html"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write to a folder that contains files; files of the same name are replaced",
    )
    add_jobs(parser)


def run(args: Namespace) -> int:
    """List the experiments, or run them and write their files."""
    if bool(args.names) + args.all + args.list != 1 or (args.only is not None and args.names):
        raise UsageProblem("give names of experiments, or --all, or --list (see privsample reproduce --help)")
    if args.out is not None and args.report is not None:
        raise UsageProblem("--report and --out both name the output folder: leave --out out")
    command = checkout_module("command")
    if command is None:
        raise UsageProblem(
            f"the experiments are not installed: there is no folder reproduction in {_checkout()}; they are part of a "
            "checkout of the repository: clone it, run pip install -e '.[all]' there, and repeat the command"
        )
    require("rich", "cli", "printing tables")
    require("matplotlib", "report", "drawing figures")
    if args.report is not None:
        require("jinja2", "report", "--report")
    return int(command.run(args))


def checkout_module(name: str) -> ModuleType | None:
    """Return a module of the folder `reproduction` beside the package; None where there is no such folder."""
    root = _checkout()
    if not (root / "reproduction" / f"{name}.py").is_file():
        return None
    if str(root) not in sys.path:  # an editable installation may import the package alone
        sys.path.append(str(root))
    return import_module(f"reproduction.{name}")


def _checkout() -> Path:
    """Return the folder that contains the package: in a checkout, the root of the repository."""
    return Path(privsample.__file__).resolve().parents[1]


def empty_folder(path: str, option: str, *, force: bool) -> Path:
    """Return the folder, created if missing. Raises: UsageProblem, unless it is writable and empty (or `force`)."""
    if not path:
        raise UsageProblem(f"{option} must name a folder, got an empty name")
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filled = any(folder.iterdir())
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise UsageProblem(f"{option}: the folder {path} cannot be used ({reason}); choose another") from None
    if filled and not force:
        raise UsageProblem(f"{option}: the folder {path} holds files; choose another, or give --force to write there")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageProblem(f"{option}: nothing can be written to {path}; choose another folder")
    return folder
