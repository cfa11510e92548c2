"""`privsample reproduce`: the figures of the literature redrawn, with their numbers and what they show."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from privsample.cli.errors import UsageProblem, require
from privsample.cli.output import Page

ABOUT = "redraw published figures, with their numbers and one sentence on what they show"
DESCRIPTION = """\
Redraw published figures beside our own accounts. Each experiment leaves NAME.png and NAME.csv in a
folder and says in one sentence what it shows and how that compares with the paper. No file is read."""
EXAMPLE = """\
example:
  privsample reproduce t-7.2 composed-draws --out figures

`privsample reproduce --list` prints all names; --all takes about a minute"""


def add(parser: Any) -> None:
    """The command's options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="which experiments to run")
    parser.add_argument("--all", action="store_true", help="run them all")
    parser.add_argument("--list", action="store_true", help="print names and titles, and run none")
    parser.add_argument("--out", default="figures", metavar="DIR", help="the folder to write to (default: figures)")


def run(args: Namespace) -> int:
    """Print the list, or run and write."""
    if bool(args.names) + args.all + args.list != 1:
        raise UsageProblem("give names of experiments, or --all, or --list (see privsample reproduce --help)")
    require("rich", "cli", "printing tables")
    require("matplotlib", "report", "drawing figures")
    from privsample.simulations.experiments import NAMES, experiment

    page = Page()
    if args.list:
        page.facts([(name, experiment(name).title) for name in NAMES])
        return 0
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        raise UsageProblem(f"there is no experiment {', '.join(unknown)}; there are {', '.join(NAMES)}")
    folder = _folder(args.out)
    for name in NAMES if args.all else dict.fromkeys(args.names):
        try:
            picture, numbers, sentence = experiment(name).write(folder)
        except OSError as error:
            raise UsageProblem(f"{name} could not be written to {folder}: {error.strerror or error}") from None
        page.paragraph(name, sentence)
        print(picture, numbers, sep="\n", flush=True)
    return 0


def _folder(path: str) -> Path:
    """The folder, made where it is missing. Raises: UsageProblem, unless files can be written there."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageProblem(f"--out: the folder {path} cannot be made ({error.strerror}); choose another") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageProblem(f"--out: nothing can be written to {path}; choose another folder")
    return folder
