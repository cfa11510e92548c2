"""Rows of a comparison by simulated errors, and the sentence about the smallest error that follows from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np

from privsample._checks import FloatArray, count_noun
from privsample._value import frozen_value
from privsample.comparison import text as comparison_text
from privsample.plots.errors import plot_errors
from privsample.plots.html import card, rows_picture, text_or_empty
from privsample.simulations.report.findings import CLEAR, EXACT, Finding, Statement, compared, join_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAW_ERROR = "mean absolute difference between a released draw and the true parameter"


@frozen_value
class Comparison:
    """One mechanism at the target: what it releases, and its errors with their standard errors over the simulations.

    Simulated records are clipped as real ones are, and all numbers include the error from clipping. All errors are NaN
    if the target cannot be met; `reason` then says why.

    Parameters
    ----------
    name : str
        Name of the mechanism in the table.
    parameter : str
        Name of the calibrated field; "" if there is none.
    amount : float
        Value of the calibrated field; NaN if it is no number or the target cannot be met.
    relative_entropy : float, default nan
        Mean KL(true posterior || released distribution) in nats, +inf if the released distribution excludes values that
        the posterior allows. NaN where no posteriors are compared.
    error : float, default nan
        Mean error, as `ComparisonTable.error` describes it: for posteriors the absolute distance of one released draw
        from the parameter that generated the data (mean over coordinates).
    floor : float, default nan
        The same for one draw of the true posterior; NaN where no posteriors are compared.
    reason : str, default ""
        Why the mechanism is not in the comparison; "" if it is.
    relative_entropy_standard_error, error_standard_error : float, default nan
        Standard errors of the two means over the simulations.
    excess, excess_standard_error : float, default nan
        Mean difference between this error and the smallest one of the table, over the same simulated data, and its
        standard error.
    inference : str, default ""
        How the analyst derives the posterior from a noisy statistic, such as "noise-aware".
    """

    name: str
    parameter: str
    amount: float
    relative_entropy: float = np.nan
    error: float = np.nan
    floor: float = np.nan
    reason: str = ""
    relative_entropy_standard_error: float = np.nan
    error_standard_error: float = np.nan
    excess: float = np.nan
    excess_standard_error: float = np.nan
    inference: str = ""

    @property
    def ratio(self) -> float:
        """error / floor: 1 where privacy costs no accuracy."""
        return self.error / self.floor

    @property
    def applies(self) -> bool:
        """False if the mechanism does not apply to the model, whatever the target."""
        return not self.reason.startswith("does not apply")

    @property
    def within_chance(self) -> bool:
        """True if the excess over the smallest error is not above zero by more than 3 of its standard errors."""
        return not self.reason and not Finding("", self.excess, self.excess_standard_error).clear


@final
@frozen_value
class ComparisonTable(Sequence[Comparison]):
    """The rows of a comparison in the order of the mechanisms, and the sentence about the smallest error.

    `print(table)` shows the whole table. `ps.compare` and `ps.compare_mechanisms` make such tables.

    Parameters
    ----------
    rows : tuple of Comparison
        One row for each mechanism.
    simulations : int
        Number of simulations over which errors are averaged, >= 1.
    title : str, default "comparison of mechanisms"
        What was compared, such as the target.
    error : str
        What the error of a row measures, with its unit if it has one; the default is that of posterior draws.
    on_given_data : bool, default False
        True if the errors depend on data that the caller passed; then the table is not private.
    relations : str, default ""
        The change of the data that each mechanism protects against, if the mechanisms differ in it.
    """

    rows: tuple[Comparison, ...]
    simulations: int
    title: str = "comparison of mechanisms"
    error: str = DRAW_ERROR
    on_given_data: bool = False
    relations: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Comparison: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Comparison, ...]: ...
    def __getitem__(self, place: int | slice) -> Comparison | tuple[Comparison, ...]:
        return self.rows[place]

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.rows)

    def __str__(self) -> str:
        return comparison_text.text(self)

    def __repr__(self) -> str:
        best = "none meets the target" if self.best is None else f"smallest error: {self.best.name}"
        return f"ComparisonTable({len(self.rows)} mechanisms, {self.simulations} simulations, {best})"

    def _repr_html_(self) -> str:
        shown = [(row.name, comparison_text.html_entry(row, self)) for row in self.rows if row.applies]
        bars = [
            (row.name, row.error - row.error_standard_error, row.error, row.error + row.error_standard_error)
            for row in self.rows
            if np.isfinite([row.error, row.error_standard_error]).all()
        ]
        picture = text_or_empty(lambda: rows_picture(bars, label="error ± standard error"))
        return card(self.title, [*shown, ("which one", self.statement.sentence)], picture)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the error of each mechanism that meets the target, with its standard error.

        The smallest error and those within chance of it are filled, the others are open circles.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If no mechanism meets the target.
        """
        shown = [row for row in self.rows if not row.reason]
        if not shown:
            raise ValueError("no mechanism meets the target, so there is no error to plot")
        return plot_errors(
            ax,
            names=[row.name for row in shown],
            errors=np.array([row.error for row in shown]),
            deviations=np.array([row.error_standard_error for row in shown]),
            marked=[row.within_chance for row in shown],
            label=self.error,
            title=self.title,
        )

    @property
    def best(self) -> Comparison | None:
        """The row with the smallest error; None if no mechanism meets the target."""
        return min((row for row in self.rows if not row.reason), key=lambda row: row.error, default=None)

    @property
    def rivals(self) -> tuple[Comparison, ...]:
        """The other rows whose errors differ from the smallest by no more than chance explains, smallest first."""
        others = [row for row in self.rows if row.within_chance and row is not self.best]
        return tuple(sorted(others, key=lambda row: row.error))

    @property
    def statement(self) -> Statement:
        """The sentence about the smallest error, computed from the rows, with the difference on which it rests."""
        best = self.best
        if best is None:
            return Statement("No mechanism meets the target.", ())
        smallest = f"{best.error:.3g} ± {best.error_standard_error:.2g}"
        others = sorted((row for row in self.rows if not row.reason and row is not best), key=lambda row: row.excess)
        if not others:
            return Statement(f"Only {best.name} meets the target; its error is {smallest} (± standard error).", ())
        nearest = others[0]
        found = compared(f"{nearest.name} - {best.name}", nearest.excess, nearest.excess_standard_error)
        lead = f"{nearest.excess:.3g} ± {nearest.excess_standard_error:.2g}"
        if found.compared:
            sentence = (
                f"{best.name} has the smallest error, {smallest}; {nearest.name} is next, {lead} above it, which is "
                f"more than {CLEAR:g} standard errors."
            )
            return Statement(sentence, (found,))
        names = [row.name for row in self.rivals]
        if nearest.excess <= EXACT:
            sentence = (
                f"{join_names([best.name, *names])} have the smallest error, {smallest}; {nearest.name} and "
                f"{best.name} differ by rounding errors only."
            )
            return Statement(sentence, (found,))
        sentence = (
            f"{best.name} has the smallest mean error, {smallest}, but within chance: {nearest.name} is {lead} above "
            f"it, at most {CLEAR:g} standard errors. {count_noun(self.simulations, 'simulation')} "
            f"{'does' if self.simulations == 1 else 'do'} not tell which of "
            f"{join_names([best.name, *names])} is best."
        )
        return Statement(sentence, (found,))


def comparison_table(
    rows: Sequence[Comparison],
    errors: Mapping[str, FloatArray],
    *,
    paired: bool,
    simulations: int,
    title: str = "comparison of mechanisms",
    error: str = DRAW_ERROR,
    on_given_data: bool = False,
    relations: str = "",
) -> ComparisonTable:
    """Fill in the errors of rows and their excess over the smallest, from the error in every simulation by name.

    `errors` holds arrays of shape (simulations,); a row without one keeps its NaN. `paired` says that simulation k has
    the same data for all names, so that the standard error of an excess is that of the differences.
    """
    words: dict[str, Any] = {"simulations": simulations, "title": title, "error": error}
    words |= {"on_given_data": on_given_data, "relations": relations}
    if not errors:
        return ComparisonTable(rows=tuple(rows), **words)
    least = min(errors.values(), key=lambda each: float(each.mean()))

    def excess(each: FloatArray) -> tuple[float, float]:
        if each is least:
            return 0.0, 0.0
        deviation = standard_error(each - least) if paired else np.hypot(standard_error(each), standard_error(least))
        return float(each.mean() - least.mean()), float(deviation)

    filled = []
    for row in rows:
        if row.name in errors:
            each = errors[row.name]
            above, deviation = excess(each)
            row = replace(row, error=float(each.mean()), error_standard_error=standard_error(each), excess=above)  # noqa: PLW2901
            row = replace(row, excess_standard_error=deviation)  # noqa: PLW2901
        filled.append(row)
    return ComparisonTable(rows=tuple(filled), **words)


def standard_error(values: FloatArray) -> float:
    """Standard error of the mean, with n - 1 degrees of freedom; +inf for a single value, which does not tell it."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else np.inf
