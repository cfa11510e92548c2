"""Write docs/contributing/test_times.md from the processor seconds that `pytest --times FILE` recorded.

.venv/bin/python -m pytest -n auto --dist worksteal --times build/times
.venv/bin/python tools/test_times.py build/times
"""

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "contributing" / "test_times.md"
SLOWEST = 25
HEAD = """# Processor time of the tests

Processor seconds of `make test`, without the other generation of PyMC, as `tools/test_times.py` wrote them:
{total:.0f} seconds in {processes} processes, of which collection takes {collection:.0f}, and {count:,} tests.
{share:.0f} % of the time is in 1 % of the tests.

"""


def read(stem: Path) -> tuple[dict[str, float], list[float], list[float]]:
    """Return the seconds of each test, of each process's collection, and of each process."""
    tests: dict[str, float] = defaultdict(float)
    collections, processes = [], []
    for file in sorted(stem.parent.glob(f"{stem.name}.*")):
        for line in file.read_text(encoding="utf-8").splitlines():
            seconds, _, name = line.partition("\t")
            match name:
                case "collection":
                    collections.append(float(seconds))
                case "all":
                    processes.append(float(seconds))
                case _:
                    tests[name] += float(seconds)
    return tests, collections, processes


def table(title: str, rows: list[tuple[str, int, float]]) -> str:
    """Return a table of names, numbers of tests and seconds, the slowest first."""
    lines = [f"| {title} | tests | seconds |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {count:,} | {seconds:.1f} |" for name, count, seconds in rows]
    return "\n".join(lines) + "\n"


def totals(tests: dict[str, float], parts: int) -> list[tuple[str, int, float]]:
    """Return the tests and seconds of each folder or file: the first `parts` parts of its path, 0 for the file."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, seconds in tests.items():
        path = name.partition("::")[0]
        found["/".join(path.split("/")[:parts]) if parts else path].append(seconds)
    return sorted(((name, len(each), sum(each)) for name, each in found.items()), key=lambda row: -row[2])


def main(stem: Path) -> None:
    """Write the table."""
    tests, collections, processes = read(stem)
    if not tests:
        sys.exit(f"test_times: no file {stem}.* holds the time of a test: run pytest with --times {stem}")
    slowest = sorted(tests.values(), reverse=True)[: max(len(tests) // 100, 1)]
    head = HEAD.format(
        total=sum(processes),
        processes=len(processes),
        collection=sum(collections),
        count=len(tests),
        share=100 * sum(slowest) / sum(tests.values()),
    )
    folders = [(name, count, seconds) for name, count, seconds in totals(tests, 2) if not name.endswith(".py")]
    files = totals(tests, 0)[:SLOWEST]
    ranked = sorted(tests.items(), key=lambda each: -each[1])[:SLOWEST]
    single = [(name.replace("|", "\\|"), 1, seconds) for name, seconds in ranked]
    parts = [head, table("folder", folders), table("file", files), table("test", single)]
    TABLE.write_text("\n".join(parts), encoding="utf-8")
    print(f"wrote {TABLE.relative_to(ROOT)}: {sum(processes):.0f} processor seconds")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "times"))
