"""`privsample reproduce`: reproduce published figures, with their numbers and a summary of each."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privsample.cli.errors import UsageProblem, require, require_known
from privsample.cli.output import Console, item_progress, print_note
from privsample.cli.parallel import add_jobs, parallel

if TYPE_CHECKING:
    from privsample.simulations.experiments.running import CompletedExperiment

ABOUT = "reproduce published figures, with their numbers and a summary"
DESCRIPTION = """\
Reproduce published figures and compare them with the accounts of the library. Each experiment writes NAME.png
and NAME.csv to a folder and prints a summary that compares the result with the paper. No file is read."""
EXAMPLE = """\
example:
  privsample reproduce geumlek-7.2 composed-draws --out figures

All experiments, with a report (several minutes):
  privsample reproduce --all --jobs 2 --report out
List of names: privsample reproduce --list"""


def add(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments to run")
    parser.add_argument("--all", action="store_true", help="run all experiments")
    parser.add_argument("--list", action="store_true", help="print names and titles and exit")
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
    require("rich", "cli", "printing tables")
    require("matplotlib", "report", "drawing figures")
    if args.report is not None:
        require("jinja2", "report", "--report")
    from privsample.mechanisms.release import write_whole
    from privsample.simulations.experiments.gallery import gallery

    names, console = _names(args), Console()
    if args.list:
        console.facts(_experiment_titles(names))
        return 0
    option, out = ("--out", args.out) if args.report is None else ("--report", args.report)
    folder = empty_folder("figures" if out is None else out, option, force=args.force)
    try:
        done = _run_experiments(names, folder, args, console)
        if args.report is not None:
            write_whole(folder / "report.html", gallery(done))
    except (ImportError, OSError) as error:
        raise UsageProblem(str(error)) from None
    if args.report is not None:
        print(folder / "report.html")
    return 0


def _run_experiments(
    names: Sequence[str], folder: Path, args: Namespace, console: Console
) -> "list[CompletedExperiment]":
    """Run the experiments, write their files and print each when it is completed, or all after the progress bar."""
    from privsample.simulations.experiments.running import reproduce

    def print_item(one: "CompletedExperiment") -> None:
        console.paragraph(f"{one.name} ({one.seconds:.1f} s)", one.sentence)
        print(one.picture, one.numbers, sep="\n", flush=True)

    done: list[CompletedExperiment] = []
    behind_bar: list[CompletedExperiment] = []
    try:
        with parallel(args), item_progress("experiment", names) as bar:
            for one in reproduce(names, folder):
                done.append(one)
                bar.complete()
                if bar.is_shown:
                    behind_bar.append(one)
                else:
                    print_item(one)
    finally:  # completed experiments are printed even if a later one failed or was interrupted
        for one in behind_bar:
            print_item(one)
    return done


def _names(args: Namespace) -> list[str]:
    """Return the requested experiments without duplicates. Raises: UsageProblem."""
    from privsample.simulations.experiments import FORMER_NAMES, NAMES, SHARED

    present = [name for name in args.names if name not in FORMER_NAMES]
    require_known("experiment", present, [*NAMES, *SHARED], "privsample reproduce --list")
    if args.names:
        for name in args.names:
            if name in FORMER_NAMES:
                print_note(f"{name} is a former name; the experiment is now called {FORMER_NAMES[name]}")
        names = [FORMER_NAMES.get(name, name) for name in args.names]
        return list(dict.fromkeys(SHARED.get(name, name) for name in names))
    found = [name for name in NAMES if name.startswith(args.only or "")]
    if not found:
        raise UsageProblem(f"--only: no experiment's name begins with {args.only}; there are {', '.join(NAMES)}")
    return found


def _experiment_titles(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and title of each experiment, with the other names of its figures."""
    from privsample.simulations.experiments import SHARED, experiment

    titles = []
    for name in names:
        others = [other for other, home in SHARED.items() if home == name]
        titles.append((name, experiment(name).title + (f" (also by the name {', '.join(others)})" if others else "")))
    return titles


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
