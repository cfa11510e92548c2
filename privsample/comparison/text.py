"""The text of a comparison: its cells, the reasons of missing rows, and how to read it."""

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from privsample._checks import count_noun

if TYPE_CHECKING:
    from privsample.comparison.table import Comparison, ComparisonTable

_WIDTH = 88  # columns of the text that `print` shows
_GAP = "  "


def head(table: "ComparisonTable") -> tuple[str, ...]:
    """The names of the columns; posteriors also have a distance and a ratio."""
    return ("mechanism", "parameter", *(("distance", "error", "ratio") if _of_posteriors(table) else ("error",)))


def cells(table: "ComparisonTable") -> list[list[str]]:
    """One row of texts for each mechanism that meets the target."""
    posteriors = _of_posteriors(table)
    found = []
    for row in table:
        if row.reason:
            continue
        error = with_deviation(row.error, row.error_standard_error)
        measured = [f"{row.relative_entropy:.3g}", error, f"{row.ratio:.2f}"] if posteriors else [error]
        found.append([_starred(row, table), _parameter(row), *measured])
    return found


def reasons(table: "ComparisonTable") -> list[str]:
    """Why each mechanism that applies does not meet the target, one line for each."""
    return [f"{row.name}: {row.reason}" for row in table if row.reason and row.applies]


def legend(table: "ComparisonTable") -> str:
    """How to read the table, in lines that need no wrapping up to 100 columns."""
    count = table.simulations
    given = f"{count_noun(count, 'release')} from the given data: the table depends on them and is not private"
    simulated = f"{count_noun(count, 'simulated data set')}; no private data were used"
    lines = [f"Averages over {given if table.on_given_data else simulated}."]
    if _of_posteriors(table):
        lines.append(_DISTANCE)
    lines.append(f"error: {table.error}, ± its standard error.")
    if _of_posteriors(table):
        lines.append(_RATIO)
    lines.append("* the smallest error; ~ within chance of it.")
    if ways := _inference(table):
        lines.append(f"Noise is added once, for any number of draws. {ways}.")
    if table.relations:
        lines.append(f"The mechanisms protect against different changes of the data. {table.relations}.")
    if others := [row.name for row in table if not row.applies]:
        lines.append(f"Not for this model: {', '.join(others)}.")
    return "\n".join(lines)


def text(table: "ComparisonTable") -> str:
    """The whole table as plain text."""
    rows = [list(head(table)), *cells(table)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [table.title, ""]
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append(_GAP.join(names + numbers).rstrip())
    lines.insert(3, _GAP.join("-" * width for width in widths))
    paragraphs = [*reasons(table), table.statement.sentence]
    for paragraph in paragraphs:
        lines += ["", textwrap.fill(paragraph, _WIDTH)]
    lines += ["", *(textwrap.fill(line, _WIDTH) for line in legend(table).splitlines())]
    return "\n".join(lines)


def html_entry(row: "Comparison", table: "ComparisonTable") -> str:
    """The entry of one mechanism in a card."""
    if row.reason:
        return row.reason
    place = (
        "" if not row.within_chance else ", the smallest" if row is table.best else ", within chance of the smallest"
    )
    parameter = f" ({_parameter(row)})" if _parameter(row) else ""
    return f"error {with_deviation(row.error, row.error_standard_error)}{place}{parameter}"


def with_deviation(mean: float, deviation: float) -> str:
    """A number and its standard error."""
    return f"{mean:.3g} ± {deviation:.2g}"


def _of_posteriors(table: "ComparisonTable") -> bool:
    return any(not np.isnan(row.floor) for row in table)


def _starred(row: "Comparison", table: "ComparisonTable") -> str:
    """The name, with * for the smallest error and ~ for those within chance of it."""
    best = table.best is not None and row.name == table.best.name
    return row.name + (" *" if best else " ~" if row.within_chance else "")


def _parameter(row: "Comparison") -> str:
    return f"{row.parameter.replace('_', ' ')} {row.amount:.4g}" if row.parameter and np.isfinite(row.amount) else ""


def _inference(table: "ComparisonTable") -> str:
    """How draws are made from each noisy release, in words."""
    ways = {row.name: row.inference for row in table if row.inference}
    grouped = {way: [name for name, own in ways.items() if own == way] for way in ways.values()}
    return "; ".join(f"{', '.join(names)}: {way} posterior" for way, names in grouped.items())


_DISTANCE = (
    "distance: relative entropy (nats) of the true posterior to the released distribution; inf if the released "
    "distribution excludes values."
)
_RATIO = "ratio: this error divided by the error of a draw from the true posterior; 1.00 is no loss."
