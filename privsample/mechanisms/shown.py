"""How releases and draws show themselves: plots, one line, and cards in a notebook."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import count_noun, inner_probability
from privsample._repr import WIDTH, short_repr
from privsample.accounting.display import account_rows, epsilon_text
from privsample.distributions.noise import Noise
from privsample.mechanisms.intervals import Names, coordinates, quantiles
from privsample.plots.draws import MANY_DRAWS, SHOWN, code_counts, plot_codes, plot_draws, plot_noisy
from privsample.plots.html import bars_picture, card, histogram_picture, rows_picture, text_or_empty

_VALUES, _ARRAYS = 3, 2  # numbers that are written in full, and arrays that one line describes
_QUICK = 10_000_000  # numbers whose mean takes some milliseconds
_ROWS, _PICTURED = 6, 12  # coordinates in the table and in the picture of a card

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_release(
    mechanism: Any, draws: Mapping[str, NDArray[Any]], names: Names, ax: "Axes | None", probability: float
) -> "Axes":
    """Plot a release of `mechanism`; see `Release.plot`."""
    given, noise = inner_probability(probability), mechanism._noise_distribution
    found, count = coordinates(draws, names, SHOWN)
    if found and noise is not None:
        reach = noise_reach(noise, given)
        return plot_noisy(ax, found, count=count, reach=reach, probability=given, xlabel=mechanism.quantity)
    if found:
        return plot_draws(ax, found, count=count, xlabel=mechanism.quantity, probability=given)
    codes = {name: array for name, array in draws.items() if array.size}
    if not codes:
        raise ValueError("the release holds no draws, so there is nothing to plot")
    name, array = next(iter(codes.items()))
    return plot_codes(ax, array, names.get(name, ()), xlabel=mechanism.quantity)


def noise_reach(noise: Noise, probability: float) -> float:
    """The least distance that the absolute noise exceeds with at most the remaining probability, rounded up."""
    goal = float(np.log1p(-probability))
    low, high = (
        -1.0,
        noise.quantile_bound(goal),
    )  # `quantile_bound` is an upper bound with a closed form, far from tight
    for _ in range(60):
        middle = (low + high) / 2
        within = bool(noise.log_tail(np.array(middle)) <= goal)
        low, high = (low, middle) if within else (middle, high)
    return float(np.floor(high)) if noise.integer_valued else high


def draws_text(draws: Mapping[str, NDArray[Any]], names: Names | None = None) -> str:
    """The draws in a few words: few numbers in full, codes by name, many by their mean and standard deviation."""
    known = names or {}
    texts = [_array_text(name, array, known.get(name, ())) for name, array in list(draws.items())[:_ARRAYS]]
    more = len(draws) - len(texts)
    return ", ".join([*texts, f"{more} more"] if more else texts) or "no draws"


def _array_text(name: str, array: NDArray[Any], names: Sequence[str]) -> str:
    if 0 < array.size <= _VALUES:
        if array.dtype.kind == "i" and names and array.min() >= 0 and array.max() < len(names):
            return f"{name} = {', '.join(names[code] for code in array.ravel().tolist())}"
        return f"{name} = {', '.join(f'{x:.4g}' for x in array.ravel())}"
    shape = f" of shape {array.shape[1:]}" if array.ndim > 1 else ""
    text = f"{name}: {count_noun(len(array), 'draw')}{shape}"
    if array.ndim == 1 and array.dtype.kind == "f" and 0 < len(array) <= _QUICK:
        with np.errstate(invalid="ignore", over="ignore"):  # infinite draws have no standard deviation
            text += f", mean {array.mean():.4g}, sd {array.std(ddof=1):.4g}"
    return text


def one_line(head: str, *parts: str) -> str:
    """`head(first, ...; last)` within the width of a repr: the parts that fit, and always the first."""
    text = parts[0]
    for part in filter(None, parts[1:]):
        if len(head) + len(text) + len(part) + 4 <= WIDTH:
            text += f"; {part}"
    return f"{head}({text if len(head) + len(text) + 2 <= WIDTH else text[: WIDTH - len(head) - 5] + '...'})"


def release_repr(release: Any) -> str:
    """A release in one line: the mechanism, the draws and the epsilon where it is quick to compute."""
    try:
        text = f"{type(release.mechanism).__name__}, {draws_text(release.draws, release._names)}"
        rounding = release.mechanism._grid_text
        grid = f"exact, {rounding}" if rounding else ""
        return one_line("Release", text, epsilon_text(release.account, release.delta), grid)
    except Exception:  # noqa: BLE001 - a repr must not raise
        return "Release(...)"


def release_html(release: Any) -> str:
    """The card of a release: what was drawn, by which mechanism, at what cost, and a picture of the numbers."""
    mechanism, names = release.mechanism, release._names
    rows = [("mechanism", short_repr(mechanism)), *draws_rows(release.draws, names)]
    if mechanism._grid_text:
        rows.append(("drawn exactly, rounded", mechanism._grid_text))
    return card(
        f"Release: {mechanism.title}",
        [*rows, *account_rows(release.account, release.delta)],
        text_or_empty(lambda: _release_picture(mechanism, release.draws, names)),
    )


def draws_rows(draws: Mapping[str, NDArray[Any]], names: Names) -> list[tuple[str, str]]:
    """The rows of a card that describe the draws of each coordinate."""
    found, count = coordinates(draws, names, _ROWS)
    rows = [(one.label, _coordinate_text(one.values)) for one in found]
    if count > len(found):
        rows.append(("", f"and {count - len(found)} more coordinates"))
    return rows + [(name, f"codes of shape {a.shape}") for name, a in draws.items() if a.dtype.kind != "f"]


def _coordinate_text(values: NDArray[Any]) -> str:
    if len(values) <= _VALUES:
        return ", ".join(f"{x:.4g}" for x in values)
    low, median, high = quantiles(values, 0.05, 0.5, 0.95)
    return f"{count_noun(len(values), 'draw')}, median {median:.4g}, 90% interval {low:.4g} to {high:.4g}"


def draws_picture(draws: Mapping[str, NDArray[Any]], names: Names, label: str) -> str:
    """A histogram of one coordinate, a row for each of several."""
    found, _ = coordinates(draws, names, _PICTURED)
    if len(found) == 1 and len(found[0].values) > MANY_DRAWS:
        values = found[0].values
        low, high = quantiles(values, 0.05, 0.95)
        return histogram_picture(values, (float(low), float(high)), label=found[0].label)
    ends = [quantiles(one.values, 0.05, 0.5, 0.95).tolist() for one in found]
    rows = [(one.label, low, median, high) for one, (low, median, high) in zip(found, ends, strict=False)]
    return rows_picture(rows, label=f"{label}, 90% interval")


def _release_picture(mechanism: Any, draws: Mapping[str, NDArray[Any]], names: Names) -> str:
    noise = mechanism._noise_distribution
    found, _ = coordinates(draws, names, _PICTURED)
    if found and noise is not None:
        reach = noise_reach(noise, 0.9)
        middles = [(one.label, float(one.values[0])) for one in found]
        rows = [(label, middle - reach, middle, middle + reach) for label, middle in middles]
        return rows_picture(rows, label=f"{mechanism.quantity}, 90% interval of the noise")
    if found:
        return draws_picture(draws, names, mechanism.quantity)
    name, array = next(iter(draws.items()))
    labels, counts = code_counts(array, names.get(name, ()))
    return bars_picture(labels[:_PICTURED], counts[:_PICTURED].tolist(), label=mechanism.quantity)
