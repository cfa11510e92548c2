"""Direct labels: the names of curves at their right ends, in place of a legend."""

from typing import Any

import numpy as np

_GAP = 0.055  # least distance of two labels, as a fraction of the height of the axes


def label_lines(axes: Any, *, gap: float = _GAP, **text: Any) -> None:
    """Write the label of each curve behind its last point inside the axes, in its colour.

    Limits and scales of the axes must be final. Labels that would overlap are moved apart vertically.
    """
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    heights = [_height(axes, line) for line in lines]
    order = np.argsort(heights)
    for k, height in zip(order, _spread(np.sort(heights), gap), strict=True):
        axes.annotate(
            lines[k].get_label(), (1.015, height), xycoords="axes fraction", va="center", ha="left",
            color=lines[k].get_color(), annotation_clip=False, **({"fontsize": 9} | text),
        )  # fmt: skip


def _height(axes: Any, line: Any) -> float:
    """Return the height of the last point of the curve inside the axes, as a fraction of their height."""
    x, y = (np.asarray(values, dtype=float) for values in line.get_data())
    low, high = sorted(axes.get_xlim())
    inside = np.flatnonzero((x >= low) & (x <= high) & np.isfinite(y))
    transform = axes.yaxis.get_transform().transform
    bottom, top = transform(np.array(axes.get_ylim(), dtype=float))
    last = float(transform(np.array([y[inside[-1]]]))[0])
    return float(np.clip((last - bottom) / (top - bottom), 0.0, 1.0))


def _spread(heights: Any, gap: float) -> list[float]:
    """Return increasing heights at least `gap` apart, close to the given increasing ones."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(float(height), placed[-1] + gap) if placed else float(height))
    above = placed[-1] - 1.0 if placed else 0.0
    for k in range(len(placed) - 1, -1, -1):  # labels above the axes are moved down, and those below them in turn
        limit = 1.0 if k == len(placed) - 1 else placed[k + 1] - gap
        if above > 0:
            placed[k] = min(placed[k], limit)
    return placed
