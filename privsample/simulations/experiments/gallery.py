"""The page of experiments: for each its picture, its sentence, its numbers and its command, paper by paper."""

import csv
from collections.abc import Sequence

import numpy as np

from privsample.simulations.experiments import PAPERS, experiment, paper
from privsample.simulations.experiments.running import Done
from privsample.simulations.report.content import Part, Picture, Section
from privsample.simulations.report.page import page

_MOST_ROWS = 100

_INTRO = (
    "Published figures and tables on differentially private sampling, computed anew beside our own accounts. Each card "
    "shows a picture, says in plain words what it shows and how that compares with what the paper states, and holds "
    "the numbers. All data are public or drawn at random; every experiment has its own seed, so that doing it again "
    "gives the same numbers."
)


def gallery(done: Sequence[Done]) -> str:
    """One self-contained HTML page of experiments that were written. Raises: ImportError, OSError."""
    papers = list(PAPERS.values())
    members = sorted(done, key=lambda one: papers.index(paper(one.name)))
    return page([_card(one) for one in members], title="Experiments", intro=_INTRO)


def _card(done: Done) -> Section:
    with done.numbers.open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    shown = np.unique(np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(int)) if len(rows) > _MOST_ROWS else None
    part = f", {_MOST_ROWS} of {len(rows):,} lines" if shown is not None else ""
    title = experiment(done.name).title
    alt = f"{title}: the picture; what it shows and its numbers follow"  # not read twice to those who listen
    return Section(
        title=title,
        pictures=(Picture(image=done.picture.read_bytes(), alt=alt),),
        parts=(
            Part(paragraphs=(done.sentence,)),
            Part(
                heading=f"The numbers{part}",
                paragraphs=(f"All of them are in {done.numbers.name}, beside this page.",),
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
    """A number to six digits; anything else as it is."""
    try:
        return cell if cell.lstrip("-").isdigit() else f"{float(cell):.6g}"
    except ValueError:
        return cell
