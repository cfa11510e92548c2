"""Mutants of accounting and mechanisms, and whether the tests kill them: python tools/mutants.py choose|check|run.

`tests/mutants.json` lists the mutants that `choose` drew. A mutant is found by its function and by the text of its
line, so that edits elsewhere do not touch the list. `check` reports mutants that no longer fit the source. `run`
applies each one in a temporary copy of the checkout and runs tests of the lane `test` until one fails; first the test
that is recorded, then the files nearest to the module, then the tests of the room, then all others. It exits with 1 if
a mutant survives for which no argument is recorded that it changes neither a reported number nor a drawn distribution.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from mutations import TEXT_FILES, Mutation, mutations

ROOT = Path(__file__).resolve().parent.parent
LIST = "tests/mutants.json"
SEED = 36
ROOMS = {"privsample/accounting": 40, "privsample/mechanisms": 20}  # how many mutants of each
STAGES = ("recorded", "nearest", "room", "others")
KILLED, EQUIVALENT, UNKNOWN = "killed", "equivalent", "unknown"
LEFT_OUT = (".git", ".venv*", "build", "dist", "demo", "__pycache__", ".*_cache", ".hypothesis")
NEAREST = 8  # files of the first stage
SHORT, LONG = 300.0, 3600.0  # seconds after which a run of a few tests, or of many, counts as endless
# A test that runs alone has the whole false-alarm rate to itself; this part of it is below its share in the suite.
SHARE = 1000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutant of the list.

    Parameters
    ----------
    number : int
        Its number, from 1.
    kind : str
        The operator of `mutations.py`.
    file : str
        The mutated file, relative to the root of the repository.
    function : str
        The qualified name of the function or class around the line; empty at the top of the module.
    before, after : str
        The line without and with the mutation.
    occurrence : int
        Which of the equal lines of the function is meant, from 0.
    status : str
        "killed", "equivalent" or "unknown".
    killed_by : str
        The first test that was found to fail.
    argument : str
        Why an equivalent mutant changes neither a reported number nor a drawn distribution.
    """

    number: int
    kind: str
    file: str
    function: str
    before: str
    after: str
    occurrence: int
    status: str = UNKNOWN
    killed_by: str = ""
    argument: str = ""

    @property
    def recorded(self) -> str:
        """The test or file that killed the mutant, without the remark that it did not end."""
        return self.killed_by.partition(" (")[0]

    def apply(self, source: str) -> str:
        """Return the mutated program.

        Raises
        ------
        LookupError
            If the function has no such line.
        """
        lines = source.splitlines(keepends=True)
        places = [at for at in _lines_of(source, self.function) if lines[at].strip() == self.before]
        if self.occurrence >= len(places):
            raise LookupError(f"mutant {self.number}: {self.function} of {self.file} has no line {self.before!r}")
        at = places[self.occurrence]
        lines[at] = lines[at].replace(self.before, self.after)
        return "".join(lines)


def _lines_of(source: str, function: str) -> list[int]:
    """Return the indices of the lines of a function or class by its qualified name; of all lines for an empty name."""
    nodes: list[ast.AST] = [ast.parse(source)]
    for name in function.split(".") if function else []:
        inner = [child for node in nodes for child in ast.walk(node) if child not in nodes]
        nodes = [child for child in inner if isinstance(child, (ast.ClassDef, ast.FunctionDef)) and child.name == name]
    if not function:
        return list(range(len(source.splitlines())))
    spans = [range(node.lineno - 1, node.end_lineno or 0) for node in nodes if isinstance(node, ast.stmt)]
    return sorted({at for span in spans for at in span})


def load() -> list[Mutant]:
    """Return the mutants of the list.

    Returns
    -------
    list of Mutant
        The mutants in the order of their numbers.
    """
    return [Mutant(**fields) for fields in json.loads((ROOT / LIST).read_text(encoding="utf-8"))]


def save(mutants: list[Mutant]) -> None:
    """Write the list.

    Parameters
    ----------
    mutants : list of Mutant
        The mutants in the order of their numbers.
    """
    text = json.dumps([asdict(mutant) for mutant in mutants], indent=1, ensure_ascii=False)
    (ROOT / LIST).write_text(text + "\n", encoding="utf-8")


def choose(seed: int) -> list[Mutant]:
    """Draw the mutants: in each room as many of each kind, and within a kind each place with the same probability.

    Parameters
    ----------
    seed : int
        The seed of the draw.

    Returns
    -------
    list of Mutant
        The mutants, sorted by file.
    """
    generator = random.Random(seed)
    drawn: list[tuple[str, Mutation]] = []
    for room, count in ROOMS.items():
        places: dict[str, list[tuple[str, Mutation]]] = {}
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.name not in TEXT_FILES:
                for mutation in mutations(path.read_text(encoding="utf-8")):
                    places.setdefault(mutation.kind, []).append((path.relative_to(ROOT).as_posix(), mutation))
        kinds = sorted(places)
        generator.shuffle(kinds)
        for turn in range(count):
            kind = places[kinds[turn % len(kinds)]]
            while not _parses(*(place := kind.pop(generator.randrange(len(kind))))):
                pass
            drawn.append(place)
    mutants = []
    for number, (file, mutation) in enumerate(sorted(drawn, key=lambda place: (place[0], place[1].line)), start=1):
        source = (ROOT / file).read_text(encoding="utf-8")
        lines = source.splitlines()
        same = [at for at in _lines_of(source, mutation.function) if lines[at].strip() == mutation.before]
        mutants.append(
            Mutant(
                number=number,
                kind=mutation.kind,
                file=file,
                function=mutation.function,
                before=mutation.before,
                after=mutation.after,
                occurrence=same.index(mutation.line - 1),
            )
        )
    return mutants


def _parses(file: str, mutation: Mutation) -> bool:
    """Return True if the mutated program is one."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    lines[mutation.line - 1] = lines[mutation.line - 1].replace(mutation.before, mutation.after)
    try:
        ast.parse("\n".join(lines))
    except SyntaxError:
        return False
    return True


def problems(mutants: list[Mutant]) -> Iterator[str]:
    """Find what is wrong with the list.

    Parameters
    ----------
    mutants : list of Mutant
        The list.

    Yields
    ------
    str
        A sentence for each mutant that does not fit the source or whose status has no reason.
    """
    for mutant in mutants:
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        try:
            ast.parse(mutant.apply(source))
        except (LookupError, SyntaxError) as error:
            yield str(error)
        if mutant.status == KILLED:
            file, _, test = mutant.killed_by.partition("::")
            name = test.partition("[")[0].split("::")[-1]
            if not (ROOT / file).exists() or name.split(".")[-1] not in (ROOT / file).read_text(encoding="utf-8"):
                yield f"mutant {mutant.number} was killed by a test that is gone: {mutant.killed_by}"
        elif not (mutant.status == EQUIVALENT and mutant.argument):
            yield f"mutant {mutant.number} survives, and no argument is recorded"


class Checkout:
    """A temporary copy of the checkout, in which one mutant at a time is applied.

    Parameters
    ----------
    folder : Path
        A folder that does not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
        conftest = folder / "conftest.py"
        text, count = re.subn(
            r"^(SUITE_FALSE_ALARM_RATE = \S+)",
            rf"\1 / {SHARE}",
            conftest.read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
        if count != 1:
            raise LookupError("conftest.py has no line that sets SUITE_FALSE_ALARM_RATE")
        conftest.write_text(text, encoding="utf-8")

    def apply(self, mutant: Mutant) -> None:
        """Write the mutated file, with a time that no compiled file has."""
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        path = self.folder / mutant.file
        path.write_text(mutant.apply(source), encoding="utf-8")
        changed = path.stat().st_mtime + 10.0 * mutant.number
        os.utime(path, (changed, changed))

    def restore(self, mutant: Mutant) -> None:
        """Write the file without the mutation."""
        shutil.copy2(ROOT / mutant.file, self.folder / mutant.file)

    def failing(self, tests: list[str], limit: float, *, keep_bytecode: bool = False) -> str | None:
        """Run tests until one fails.

        Parameters
        ----------
        tests : list of str
            Files or tests, in the order in which they run.
        limit : float
            Wall seconds after which the run counts as endless.
        keep_bytecode : bool, optional
            Whether Python keeps what it compiles: only without a mutant.

        Returns
        -------
        str or None
            The test or file that failed, or None if none did.

        Raises
        ------
        RuntimeError
            If pytest itself did not work.
        """
        if not tests:
            return None
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        environment.pop("PYTEST_ADDOPTS", None)  # options of the run that started this one
        environment["PYTHONDONTWRITEBYTECODE"] = "" if keep_bytecode else "1"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", *tests]
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"{tests[0]} (no end after {limit:.0f} seconds)"
        loaded = "loading conftest" not in output
        if process.returncode in {0, 5} or (process.returncode == 4 and loaded):  # all passed, or there are none
            return None
        if process.returncode not in {1, 2} and loaded:
            raise RuntimeError(f"pytest ended with {process.returncode}: {output[-2000:]}")
        failures = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, flags=re.MULTILINE)
        return failures[0] if failures else tests[0]


def stages(mutant: Mutant, seconds: dict[str, float]) -> Iterator[tuple[str, list[str], float]]:
    """Yield the tests to run against a mutant: the recorded one, the nearest files, its room, and all others.

    Parameters
    ----------
    mutant : Mutant
        The mutant.
    seconds : dict of str to float
        Processor seconds of each test file, as far as they are known; cheap files run first.

    Yields
    ------
    (str, list of str, float)
        The name of the stage, its tests, and a limit in seconds.
    """
    if mutant.killed_by:
        yield "recorded", [mutant.recorded], SHORT
    files = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    scores = {file: _nearness(mutant, file) for file in files}
    near = sorted((file for file in files if scores[file] >= 3), key=lambda file: (-scores[file], seconds.get(file, 0)))
    near = [file for file in near if seconds.get(file, 0.0) < SHORT / 10][:NEAREST]
    yield "nearest", [mutant.file, *near], LONG
    cheap = sorted((file for file in files if file not in near), key=lambda file: seconds.get(file, 0.0))
    room = Path(mutant.file).parts[1]
    yield "room", [file for file in cheap if file.startswith(f"tests/{room}/")], LONG
    yield "others", [file for file in cheap if not file.startswith(f"tests/{room}/")], 2 * LONG


@cache
def _words(file: str) -> frozenset[str]:
    """Return the words of a test file, those of dotted names joined by dots too."""
    return frozenset(re.findall(r"[\w.]+|\w+", (ROOT / file).read_text(encoding="utf-8")))


@cache
def _defined(file: str) -> frozenset[str]:
    """Return the names of the classes and functions of a module."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)))


def _nearness(mutant: Mutant, file: str) -> int:
    """Return a score of how likely a test file looks at the mutated module: by its name, imports and words."""
    module, test = Path(mutant.file), Path(file)
    score = 10 * (test.stem == f"test_{module.stem}") + 4 * (module.stem in test.stem)
    score += 8 * (module.with_suffix("").as_posix().replace("/", ".") in _words(file))
    score += 3 * min(len(_defined(mutant.file) & _words(file)), 3) + (module.parent.name in test.stem)
    return score + (module.parts[1] in test.parts)


def examine(mutant: Mutant, checkout: Checkout, seconds: dict[str, float], last: str) -> Mutant:
    """Apply a mutant and run tests until one fails.

    Parameters
    ----------
    mutant : Mutant
        The mutant.
    checkout : Checkout
        The copy in which it is applied.
    seconds : dict of str to float
        Processor seconds of test files, as far as they are known.
    last : str
        The last stage to run.

    Returns
    -------
    Mutant
        The mutant with its status: killed, equivalent if it was, or unknown.

    Raises
    ------
    RuntimeError
        If the test that failed also fails without the mutant, or has no end in a third of the time.
    """
    started, found, stage, tests, limit = time.monotonic(), None, "", [""], 0.0
    checkout.apply(mutant)
    try:
        for stage, tests, limit in stages(mutant, seconds):
            if STAGES.index(stage) > STAGES.index(last):
                break
            if found := checkout.failing(tests, limit):
                break
    finally:
        checkout.restore(mutant)
    endless = found is not None and found.endswith(" seconds)")
    if found and stage != STAGES[0] and (broken := checkout.failing(tests if endless else [found], limit / 3)):
        raise RuntimeError(f"{broken} fails without a mutant, too")
    took = time.monotonic() - started
    verdict = f"killed by {found}" if found else f"survived ({mutant.status})"
    print(f"{mutant.number:3d} {mutant.file} {mutant.kind}: {verdict}; {took:.0f} s", flush=True)
    if found:
        return replace(mutant, status=KILLED, killed_by=found)
    return replace(mutant, status=UNKNOWN) if mutant.status == KILLED else mutant


def run(mutants: list[Mutant], seconds: dict[str, float], last: str, jobs: int) -> list[Mutant]:
    """Examine mutants in temporary copies of the checkout.

    Parameters
    ----------
    mutants : list of Mutant
        The mutants.
    seconds : dict of str to float
        Processor seconds of test files, as far as they are known.
    last : str
        The last stage to run.
    jobs : int
        How many mutants are examined at once.

    Returns
    -------
    list of Mutant
        The mutants with their status.

    Raises
    ------
    RuntimeError
        If a recorded test fails without a mutant.
    """
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Checkout] = SimpleQueue()
        recorded = sorted({mutant.recorded for mutant in mutants if mutant.recorded})
        for number in range(jobs):
            checkout = Checkout(Path(folder) / str(number))
            if broken := checkout.failing(recorded or ["tests/test_logspace.py"], LONG, keep_bytecode=True):
                raise RuntimeError(f"{broken} fails without a mutant")
            copies.put(checkout)

        def examined(mutant: Mutant) -> Mutant:
            checkout = copies.get()
            try:
                return examine(mutant, checkout, seconds, last)
            finally:
                copies.put(checkout)

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(examined, mutants))


def _seconds(tables: list[Path]) -> dict[str, float]:
    """Return the processor seconds of each test file from tables that pytest wrote with --times."""
    total: dict[str, float] = {}
    for table in tables:
        for line in table.read_text(encoding="utf-8").splitlines():
            spent, _, name = line.partition("\t")
            file = name.partition("::")[0]
            total[file] = total.get(file, 0.0) + float(spent)
    return total


def main() -> int:
    """Run a command; return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("choose", "check", "run"))
    parser.add_argument(
        "numbers", nargs="*", type=int, help="run: the mutants to examine; default: all but equivalent ones"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="choose: the seed of the draw")
    parser.add_argument("--last", choices=STAGES, default=STAGES[-1], help="run: the last stage; default: others")
    parser.add_argument("--times", type=Path, nargs="*", default=[], help="run: tables that pytest --times wrote")
    parser.add_argument("--jobs", type=int, default=1, help="run: how many mutants are examined at once")
    parser.add_argument("--record", action="store_true", help="run: write into the list which tests killed")
    options = parser.parse_args()
    if options.command == "choose":
        save(choose(options.seed))
        return 0
    mutants = load()
    if options.command == "run":
        chosen = [
            mutant
            for mutant in mutants
            if (mutant.number in options.numbers if options.numbers else mutant.status != EQUIVALENT)
        ]
        examined = run(chosen, _seconds(options.times), options.last, options.jobs)
        if options.record:
            by_number = {mutant.number: mutant for mutant in examined}
            save([by_number.get(mutant.number, mutant) for mutant in mutants])
        survivors = [before for before, after in zip(chosen, examined, strict=True) if after.status != KILLED]
        unargued = [mutant for mutant in survivors if mutant.status != EQUIVALENT]
        argued = sum(mutant.status == EQUIVALENT for mutant in mutants)
        print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed; {argued} of the list are equivalent")
        return int(bool(unargued))
    found = list(problems(mutants))
    print("\n".join(found) or f"{len(mutants)} mutants fit the source")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
