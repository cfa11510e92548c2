"""The command `privsample reproduce`, whose options are in privsample/cli/reproduce.py."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import reproduction
from privsample.cli.errors import UsageProblem, require_known
from privsample.cli.output import Console, item_progress, print_note
from privsample.cli.parallel import parallel
from privsample.cli.reproduce import empty_folder
from privsample.mechanisms.release import write_whole
from reproduction import experiment, running
from reproduction.gallery import gallery
from reproduction.running import CompletedExperiment


def positional_names() -> tuple[str, ...]:
    """Return the names that the command accepts."""
    return (*reproduction.NAMES, *reproduction.SHARED)


def run(args: Namespace) -> int:
    """List the experiments, or run them and write their files."""
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
) -> list[CompletedExperiment]:
    """Run the experiments, write their files and print each when it is completed, or all after the progress bar."""

    def print_item(one: CompletedExperiment) -> None:
        console.paragraph(f"{one.name} ({one.seconds:.1f} s)", one.sentence)
        print(one.picture, one.numbers, sep="\n", flush=True)

    done: list[CompletedExperiment] = []
    behind_bar: list[CompletedExperiment] = []
    try:
        with parallel(args), item_progress("experiment", names) as bar:
            for one in running.reproduce(names, folder):
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
    present = [name for name in args.names if name not in reproduction.FORMER_NAMES]
    require_known("experiment", present, [*reproduction.NAMES, *reproduction.SHARED], "privsample reproduce --list")
    if args.names:
        for name in args.names:
            if name in reproduction.FORMER_NAMES:
                print_note(f"{name} is a former name; the experiment is now called {reproduction.FORMER_NAMES[name]}")
        names = [reproduction.FORMER_NAMES.get(name, name) for name in args.names]
        return list(dict.fromkeys(reproduction.SHARED.get(name, name) for name in names))
    found = [name for name in reproduction.NAMES if name.startswith(args.only or "")]
    if not found:
        raise UsageProblem(
            f"--only: no experiment's name begins with {args.only}; there are {', '.join(reproduction.NAMES)}"
        )
    return found


def _experiment_titles(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and title of each experiment, with the other names of its figures, and how long it takes."""
    titles = []
    for name in names:
        others = [other for other, home in reproduction.SHARED.items() if home == name]
        shown, also = experiment(name), f" (also by the name {', '.join(others)})" if others else ""
        titles.append((name, f"{shown.title}{also}: {shown.duration}"))
    return titles
