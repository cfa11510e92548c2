"""HTML page of experiments, grouped by paper: the figure, summary, numbers and command of each."""

import csv
from collections.abc import Sequence

import numpy as np

from privsample.simulations.report.content import Part, Picture, Section
from privsample.simulations.report.page import page
from reproduction import PAPERS, experiment, paper
from reproduction.running import CompletedExperiment

_MOST_ROWS = 100

_INTRO = (
    "Reproductions of published figures and tables on differentially private sampling, compared with the accounts of "
    "this library. Each card has a figure, a summary that compares the result with the paper, and the numbers. All "
    "data are public or simulated; every experiment has its own seed, so that a second run gives the same numbers."
)


def gallery(done: Sequence[CompletedExperiment]) -> str:
    """Return one self-contained HTML page of completed experiments. Raises: ImportError, OSError."""
    papers = list(PAPERS.values())
    members = sorted(done, key=lambda one: papers.index(paper(one.name)))
    return page([_card(one) for one in members], title="Experiments", intro=_INTRO)


def _card(done: CompletedExperiment) -> Section:
    with done.numbers.open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    shown = np.unique(np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(int)) if len(rows) > _MOST_ROWS else None
    part = f", {_MOST_ROWS} of {len(rows):,} rows" if shown is not None else ""
    title = experiment(done.name).title
    alt = f"{title}: figure; its summary and numbers follow"  # short: a screen reader reads the summary next
    return Section(
        title=title,
        pictures=(Picture(image=done.picture.read_bytes(), alt=alt),),
        parts=(
            Part(paragraphs=(done.sentence,)),
            Part(
                heading=f"The numbers{part}",
                paragraphs=(f"The file {done.numbers.name} next to this page contains all rows.",),
                columns=tuple(column.replace("_", " ") for column in columns),
                rows=tuple(tuple(map(_short, rows[k])) for k in (range(len(rows)) if shown is None else shown)),
                folded=True,
                data=True,
            ),
            Part(code=f"privsample reproduce {done.name}"),
        ),
        group=paper(done.name),
        anchor=done.name,
    )


def _short(cell: str) -> str:
    """Round a number to six significant digits; return other text unchanged."""
    try:
        return cell if cell.lstrip("-").isdigit() else f"{float(cell):.6g}"
    except ValueError:
        return cell
