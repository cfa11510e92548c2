"""Cards of objects in notebooks: a table and a small picture as inline SVG, without scripts, legible on dark pages."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

import numpy as np

from privsample._checks import FloatArray
from privsample.plots.draws import histogram_edges

# Legible on white and on black: contrast of at least 3.2 with both. All other ink has the colour of the page's text.
LINE, MARK = "#2f86cc", "#d9731a"
_WIDTH, _HEIGHT = 340, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 10, 38
_LONGEST = 300  # characters of one entry


def card(title: str, rows: Iterable[tuple[str, object]], picture: str = "") -> str:
    """A table with a title, beside a picture; every text is escaped."""
    cell = 'style="text-align:left;vertical-align:top"'
    body = "".join(
        f"<tr><th {cell}>{_text(name)}</th><td {cell}>{_text(_shorten(str(entry)))}</td></tr>" for name, entry in rows
    )
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start">'
        f'<div style="max-width:36em"><strong>{_text(title)}</strong><table>{body}</table></div>{picture}</div>'
    )


def lines_picture(
    x: FloatArray,
    y: FloatArray,
    *,
    labels: tuple[str, str],
    log_y: bool = False,
    bars: tuple[FloatArray, FloatArray, FloatArray] | None = None,
) -> str:
    """A curve through the points with finite y, and vertical bars (x, low, high) if given; `log_y` omits y <= 0."""
    kept = np.isfinite(y) & ((y > 0.0) | (not log_y))
    x, y = x[kept], np.log10(y[kept]) if log_y else y[kept]
    tops = [y, bars[2]] if bars else [y]
    low = min(float(y.min()), 0.0 if not log_y else np.inf)
    frame = _Frame((float(x.min()), float(x.max())), (low, max(float(top.max()) for top in tops)), log_y)
    parts = []
    if bars:
        for at, down, up in zip(*bars, strict=True):
            parts.append(_line([(at, down), (at, up)], frame, MARK, width=3))
    parts.append(_line(zip(x, y, strict=True), frame, LINE, width=2))
    return frame.svg(parts, labels)


def histogram_picture(values: FloatArray, interval: tuple[float, float], *, label: str) -> str:
    """A histogram of draws with a bar for their interval."""
    edges = histogram_edges(values, 30)
    counts, _ = np.histogram(values, bins=edges)
    frame = _Frame((float(edges[0]), float(edges[-1])), (0.0, float(counts.max())), False)
    parts = [
        f'<rect x="{frame.x(left):.1f}" y="{frame.y(count):.1f}" width="{frame.x(right) - frame.x(left):.1f}" '
        f'height="{frame.y(0.0) - frame.y(count):.1f}" fill="{LINE}" fill-opacity="0.55"/>'
        for left, right, count in zip(edges, edges[1:], counts, strict=False)
    ]
    parts.append(_line([(interval[0], 0.0), (interval[1], 0.0)], frame, MARK, width=4))
    return frame.svg(parts, (label, "draws"))


def rows_picture(rows: Sequence[tuple[str, float, float, float]], *, label: str) -> str:
    """One row for each (label, low, middle, high): a bar from low to high with a dot in the middle."""
    ends = [end for _, low, _, high in rows for end in (low, high)]
    margin = 0.04 * (max(ends) - min(ends))
    span = (min(ends) - margin, max(ends) + margin)
    frame = _Frame(span, (len(rows) - 0.5, -0.5), False, left=110, height=60 + 20 * len(rows))
    parts = []
    for row, (name, low, middle, high) in enumerate(rows):
        parts.append(_line([(low, row), (high, row)], frame, LINE, width=2))
        parts.append(f'<circle cx="{frame.x(middle):.1f}" cy="{frame.y(row):.1f}" r="4" fill="{MARK}"/>')
        parts.append(_label(frame.left - 6, frame.y(row) + 4, name if len(name) < 17 else name[:15] + "…", "end"))
    return frame.svg(parts, (label, ""), ticks_y=False)


def bars_picture(names: Sequence[str], counts: Sequence[int], *, label: str) -> str:
    """A bar for the count of each name."""
    frame = _Frame((-0.6, len(names) - 0.4), (0.0, float(max(counts, default=0)) or 1.0), False)
    width = frame.x(0.6) - frame.x(0.0)
    parts = []
    for at, (name, count) in enumerate(zip(names, counts, strict=True)):
        top = frame.y(count)
        parts.append(
            f'<rect x="{frame.x(at) - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{frame.y(0.0) - top:.1f}" fill="{LINE}" fill-opacity="0.7"/>'
        )
        parts.append(_label(frame.x(at), frame.bottom + 14, name if len(name) < 12 else name[:10] + "…", "middle"))
    return frame.svg(parts, (label, "count"), ticks_x=False)


class _Frame:
    """The axes of a picture: they map numbers to pixels."""

    def __init__(
        self,
        span_x: tuple[float, float],
        span_y: tuple[float, float],
        log_y: bool,
        *,
        left: int = _LEFT,
        height: int = _HEIGHT,
    ) -> None:
        self.span_x, self.span_y = _nonempty_span(span_x), _nonempty_span(span_y)
        self.log_y, self.left, self.height, self.bottom = log_y, left, height, height - _BOTTOM

    def x(self, at: float) -> float:
        """The horizontal place of a number."""
        low, high = self.span_x
        return self.left + (float(at) - low) / (high - low) * (_WIDTH - self.left - _RIGHT)

    def y(self, at: float) -> float:
        """The vertical place of a number."""
        low, high = self.span_y
        return self.bottom - (float(at) - low) / (high - low) * (self.bottom - _TOP)

    def svg(self, parts: Iterable[str], labels: tuple[str, str], *, ticks_x: bool = True, ticks_y: bool = True) -> str:
        """The whole picture with its axes, ticks and labels."""
        right = _WIDTH - _RIGHT
        axes = (
            f'<path d="M{self.left} {_TOP}V{self.bottom}H{right}" fill="none" stroke="currentColor" '
            'stroke-opacity="0.6"/>'
        )
        places = _ticks(*self.span_x) if ticks_x else []
        marks = [_label(self.x(at), self.bottom + 14, f"{at:.4g}", "middle") for at in places]
        for at in _ticks(*self.span_y) if ticks_y else ():
            text = f"1e{at:.0f}" if self.log_y else f"{at:.4g}"
            if not self.log_y or at == round(at):
                marks.append(_label(self.left - 5, self.y(at) + 4, text, "end"))
        marks.append(_label((self.left + right) / 2, self.height - 6, labels[0], "middle"))
        if labels[1]:
            middle = (_TOP + self.bottom) / 2
            turned = f' transform="rotate(-90 12 {middle:.0f})"'
            marks.append(_label(12, middle, labels[1], "middle", turned))
        alternative = escape(f"{labels[1] or 'intervals'} over {labels[0]}", quote=True)
        return (
            f'<svg role="img" aria-label="{alternative}" width="{_WIDTH}" height="{self.height}" '
            f'viewBox="0 0 {_WIDTH} {self.height}" style="max-width:100%;color:inherit" '
            'font-family="sans-serif" font-size="11">'
            f"{axes}{''.join(parts)}{''.join(marks)}</svg>"
        )


def _nonempty_span(span: tuple[float, float]) -> tuple[float, float]:
    """The span, widened where its ends are equal."""
    low, high = span
    return (low, high) if low != high else (low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2)


def _ticks(first: float, last: float) -> list[float]:
    """Two to six round numbers in the span."""
    low, high = min(first, last), max(first, last)
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [float(k * step) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def _line(points: Iterable[tuple[float, float]], frame: _Frame, colour: str, *, width: float) -> str:
    text = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    return f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _label(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{more}>{_text(text)}</text>'


def _text(text: object) -> str:
    return escape(str(text), quote=True)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def text_or_empty(make: Callable[[], str]) -> str:
    """The text that `make` returns, or an empty text if it fails: a card also shows objects that are broken."""
    try:
        with np.errstate(all="ignore"):  # infinite draws cause warnings, which a card must not print
            return make()
    except Exception:  # noqa: BLE001 - a notebook must show the table of a broken account
        return ""
