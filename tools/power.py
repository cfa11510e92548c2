"""Estimate the power of every statistical test, and write docs/contributing/statistical_tests.md.

    .venv/bin/python tools/power.py [--runs 5] [tests ...]

Each statistical test runs with several seeds. Its comparisons of numbers are recorded as pytest evaluates them. A
comparison of a p-value with a level, or of a statistic with a limit, accepts (the true copy) or rejects (the broken
copy). The distance of a rejected statistic from its limit, in standard deviations of that statistic, gives the power
by the normal approximation; p-values are converted to normal quantiles first. A standard deviation is estimated from
the runs and counts as at least 1. Without recorded numbers the table gives the runs that found the broken copy alone.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist, mean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "contributing" / "statistical_tests.md"
_NUMBER = r"(?:np\.float64\()?(-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf))\)?"
_COMPARISON = re.compile(rf"^\(?{_NUMBER} (<=|>=|<|>) {_NUMBER}\)?(?: == (?:np\.)?(True|False)_?)?$")
_LARGEST_LEVEL = 1e-3  # a number below it on one side of a comparison is a level, and the other side a p-value
_SMALLEST_P = 1e-300
_SMALLEST_LIMIT = 3.0  # of statistics in standard deviations, at the levels of the suite
_NORMAL = NormalDist()
HEAD = """# Power of the statistical tests

A statistical test may fail by chance. The suite of {count} of them does so with probability at most {suite:g}: each has
the level {level:.2g}, divided among its comparisons. Each contains a broken copy, which it must find.

`tools/power.py` wrote this table from {runs} runs with different seeds. *Found* counts the runs that accepted the true
copy and found the broken one. *Distance* is how far the statistic of the broken copy lay beyond its limit, in standard
deviations, at least over the cases and comparisons of the test. *Power* is the probability of finding the broken copy
that follows by the normal approximation. Where a test compares arrays or counts, its numbers are not recorded: the
power is then the lower 95 % confidence limit that follows from *found* alone, over all cases of the test.

| test | cases | found | distance | power |
| --- | --- | --- | --- | --- |
"""


@dataclass
class Seen:
    """What the runs of one case of a test showed: outcomes, and standardized rejections by line."""

    passed: int = 0
    failed: int = 0
    rejected: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))


def standardized(left: float, comparison: str, right: float, expected: str | None) -> tuple[float, float] | None:
    """Return statistic and limit of a rejection, larger meaning more certain; None for other comparisons."""
    if expected == "False":
        comparison = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[comparison]
    if comparison in (">", ">="):
        left, right = right, left
    # now left < right held
    if 0 < right < _LARGEST_LEVEL:  # a p-value below its level
        return tuple(-_NORMAL.inv_cdf(min(max(p, _SMALLEST_P), 0.5)) for p in (left, right))  # type: ignore[return-value]
    if (
        comparison in (">", ">=") and left > 3
    ):  # a statistic above its limit; smaller limits are not of this suite's levels
        return right, left
    return None


def power_of(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the standardized distance of the statistics from their limit, and the power that follows."""
    statistics = [statistic for statistic, _ in pairs]
    spread = max(stdev(statistics), 1.0) if len(statistics) > 1 else 1.0
    distance = (mean(statistics) - mean(limit for _, limit in pairs)) / spread
    return distance, _NORMAL.cdf(distance)


def lower_limit(found: int, runs: int) -> float:
    """Return the one-sided 95 % lower confidence limit of a probability (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    return float(betaincinv(found, runs - found + 1, 0.05)) if found else 0.0


def rows(seen: dict[str, Seen]) -> Iterable[str]:
    """Yield the rows of the table: one for each test function."""
    tests: dict[str, list[Seen]] = defaultdict(list)
    for name, case in seen.items():
        tests[name.partition("[")[0]].append(case)
    for name, cases in sorted(tests.items()):
        passed = sum(case.passed for case in cases)
        runs = passed + sum(case.failed for case in cases)
        powers = [power_of(pairs) for case in cases for pairs in case.rejected.values()]
        if powers:
            distance, power = min(powers)
            numbers = f"{distance:.1f} | {'> 0.9999' if power > 0.9999 else f'{power:.4f}'}"
        else:
            numbers = f" | ≥ {lower_limit(passed, runs):.2f}"
        yield f"| `{name}` | {len(cases)} | {passed} of {runs} | {numbers} |"


def run(seed: int, tests: list[str], file: Path, caches: str) -> None:
    """Run the statistical tests with a seed, and append what they showed to the file."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": caches, "PRIVSAMPLE_EVIDENCE": str(file)}
    words = ["-m", "statistical", "--lane", "test", "--seed", str(seed), "-n", "auto", "--dist", "worksteal", "-q"]
    plugin = ["-p", "tools.power", "-o", "enable_assertion_pass_hook=true"]
    subprocess.run([sys.executable, "-m", "pytest", *words, *plugin, *tests], cwd=ROOT, env=environment, check=False)


def read(files: Iterable[Path]) -> dict[str, Seen]:
    """Read what the runs showed."""
    seen: dict[str, Seen] = defaultdict(Seen)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            name, kind, *values = json.loads(line)
            if kind == "outcome":
                seen[name].passed += values[0] == "passed"
                seen[name].failed += values[0] == "failed"
            else:
                seen[name].rejected[values[0]].append((values[1], values[2]))
    return seen


def statistical_tests() -> set[str]:
    """Return the names of all statistical test functions, as the table has them, from the sources of the tests."""
    found = set()
    for file in [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "reproduction").rglob("test_*.py")]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(
                "statistical" in ast.unparse(each) for each in node.decorator_list
            ):
                found.add(f"{file.relative_to(ROOT).as_posix()}::{node.name}")
    return found


def pytest_assertion_pass(item: Any, lineno: int, orig: str, expl: str) -> None:  # noqa: ARG001
    """Record a comparison that rejected; pytest calls it for each assertion that holds."""
    comparison = _COMPARISON.match(expl.partition("\n")[0].strip())
    if comparison:
        pair = standardized(float(comparison[1]), comparison[2], float(comparison[3]), comparison[4])
        if pair:
            _write([item.nodeid, "rejected", lineno, *pair])


def pytest_runtest_logreport(report: Any) -> None:
    """Record the outcome of a test, in the process that ran it or that is told of it."""
    if report.when == "call" and "PYTEST_XDIST_WORKER" not in os.environ:
        _write([report.nodeid, "outcome", report.outcome])


def _write(row: list[Any]) -> None:
    with Path(f"{os.environ['PRIVSAMPLE_EVIDENCE']}.{os.getpid()}").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def main() -> None:
    """Run the tests and write the table."""
    sys.path.insert(0, str(ROOT))
    from conftest import SUITE_FALSE_ALARM_RATE

    parser = argparse.ArgumentParser(description="Estimate the power of the statistical tests.")
    parser.add_argument("--runs", type=int, default=5, help="runs with different seeds (default: 5)")
    parser.add_argument("tests", nargs="*", help="files or folders; then the table is printed and not written")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, chosen.runs + 1):
            run(seed, chosen.tests, Path(folder, f"seed{seed}"), f"{folder}/caches")
        seen = read(path for path in Path(folder).iterdir() if path.is_file())
    text = "\n".join(rows(seen)) + "\n"
    if chosen.tests:
        print(text)
        return
    level = SUITE_FALSE_ALARM_RATE / len(seen)
    head = HEAD.format(count=len(seen), suite=SUITE_FALSE_ALARM_RATE, level=level, runs=chosen.runs)
    TABLE.write_text(head + text, encoding="utf-8")
    print(f"wrote {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
