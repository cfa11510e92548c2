"""Equal-tailed intervals and labelled coordinates of arrays of draws."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, number
from privsample.plots.draws import Coordinate

Names = Mapping[str, Sequence[str]]


def equal_tailed(draws: Mapping[str, NDArray[Any]], probability: float) -> dict[str, FloatArray]:
    """Equal-tailed intervals of draws of shape (draws, ...), by name: arrays of shape (2, ...), low ends first.

    Raises
    ------
    ValueError
        If `probability` does not lie in (0, 1).
    TypeError
        If every array holds whole numbers, which may be codes without an order.
    """
    given = number(probability=probability)
    if not 0.0 < given < 1.0:
        raise ValueError(f"probability must lie in (0, 1), got {probability!r}")
    found = {
        name: quantiles(array, (1.0 - given) / 2, (1.0 + given) / 2)
        for name, array in draws.items()
        if array.dtype.kind == "f"
    }
    if not found:
        raise TypeError("the draws are whole numbers, such as codes of categories, which have no interval; count them")
    return found


def quantiles(draws: NDArray[Any], *probabilities: float) -> FloatArray:
    """Quantiles along the first axis; between infinite draws they may be NaN."""
    with np.errstate(invalid="ignore"):
        found: FloatArray = np.quantile(draws, probabilities, axis=0)
    return found


def coordinates(draws: Mapping[str, NDArray[Any]], names: Names) -> list[Coordinate]:
    """The draws of each real number with its label, such as "theta" or "theta[yes]"."""
    found = []
    for name, array in draws.items():
        if array.dtype.kind != "f":
            continue
        columns = array.reshape(len(array), -1)
        inner = coordinate_labels(array.shape[1:], names.get(name, ()))
        found += [Coordinate(name + label, columns[:, k]) for k, label in enumerate(inner)]
    return found


def coordinate_labels(shape: tuple[int, ...], names: Sequence[str]) -> list[str]:
    """What follows the name of an array for each of its coordinates: "", "[yes]" or "[0, 1]"."""
    if not shape:
        return [""]
    if len(shape) == 1 and len(names) == shape[0]:
        return [f"[{name}]" for name in names]
    return [f"[{', '.join(map(str, index))}]" for index in np.ndindex(*shape)]
