"""Colours that every plot shares, and the axes that a plot is drawn on."""

from typing import TYPE_CHECKING, Any

from privsample._optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue, orange, green, grey: told apart by readers with any colour vision (Okabe and Ito 2008), and in print.
BLUE, ORANGE, GREEN, GREY = COLOURS = ("#0072B2", "#D55E00", "#009E73", "#767676")
SKY = "#56B4E9"  # a further colour of the same authors, for a fifth curve
EPSILON, DELTA, DIVERGENCE = "ε (nats)", "δ", "Rényi divergence (nats)"  # labels of axes, with their units


def axes_or_new(ax: "Axes | None", *, rows: int = 1) -> "Axes":
    """Return `ax`, or the axes of a new figure that is tall enough for a number of rows.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `ax` is not a Matplotlib Axes.
    ValueError
        If the axes are polar, three-dimensional or of another projection.
    """
    require("matplotlib", "report", "a plot")
    from matplotlib import pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        # The constrained layout leaves room for long labels of coordinates.
        return plt.subplots(figsize=(6.0, max(3.6, 1.2 + 0.34 * rows)), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a Matplotlib Axes or None, got {type(ax).__name__}")
    if ax.name != "rectilinear":
        raise ValueError(f"ax must be Matplotlib axes without a projection, got {ax.name} axes")
    return ax


def legend_of_several(ax: "Axes", *, always: bool = False) -> None:
    """Add or update the legend if the axes hold more than one labelled artist, or at least one with `always`."""
    if len(ax.get_legend_handles_labels()[1]) > (0 if always else 1):
        ax.legend(frameon=False)


def plain(text: object) -> str:
    """The text with its dollar signs escaped, since Matplotlib reads a pair of dollar signs as a formula."""
    return str(text).replace("$", r"\$")


def line_style(style: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The caller's line style over the defaults; Matplotlib's short names of the same properties count, too."""
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    return defaults | cbook.normalize_kwargs(style, Line2D)
