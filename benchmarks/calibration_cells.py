"""Calibration by simulation in all settings: `python -m benchmarks.calibration_cells results.csv [method ...]`.

One line for each cell, written when it is done. Cells that the file holds are not run again, so that a run can be
stopped and continued. All cells of all methods take many hours; the experiment `calibration` runs a part of them.
"""

import csv
import sys
import time
from pathlib import Path

from privsample.simulations.report.results import stacked
from reproduction.calibration import SIMULATIONS, Cell, cells
from reproduction.calibration_outcomes import CONTROLS, TESTED, outcomes

HEADER = ("method", "model", "records", "epsilon", "clipped", "p_value", "seconds", "columns", "counts")


def key(cell: Cell) -> tuple[str, ...]:
    """The first entries of the line of a cell."""
    return cell.method, cell.case.name, str(cell.n), f"{cell.epsilon:g}", f"{cell.clipped:g}"


def main(path: Path, methods: list[str]) -> None:
    """Run the settings of the experiment first, then all others; print each line."""
    if not path.exists():
        path.write_text(",".join(HEADER) + "\n", encoding="utf-8")
    with path.open(encoding="utf-8", newline="") as file:
        done = {tuple(row[:5]) for row in csv.reader(file)}
    order = [cell for whole in (False, True) for method in methods for cell in cells(method, whole=whole)]
    for cell in order:
        if key(cell) in done:
            continue
        done.add(key(cell))
        start = time.process_time()
        try:
            part = cell.run(SIMULATIONS, seed=7)
        except (AssertionError, ValueError) as error:
            print(*key(cell), f"refused: {error}", sep=",", flush=True)
            continue
        found = outcomes(stacked([part]))[0]
        counts = " ".join(str(int(count)) for count in found.counts)
        row = (*key(cell), f"{found.p_value:.3g}", f"{time.process_time() - start:.1f}", found.columns, counts)
        with path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(row)
        print(*row[:7], sep=",", flush=True)


if __name__ == "__main__":
    chosen = sys.argv[2:] or [*TESTED, *CONTROLS]
    main(Path(sys.argv[1]), chosen)
