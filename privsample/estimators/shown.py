"""How a fitted search shows itself: in one line, and as a card in a notebook."""

from typing import Any

from privsample._repr import short_repr
from privsample.accounting.display import account_rows, curve_picture, epsilon_text
from privsample.mechanisms.shown import one_line
from privsample.plots.html import card, text_or_empty

_WITHIN = 1e6  # cost of a curve, in values of a closed form, up to which epsilon is shown: some tenths of a second
_NO_MODEL = "no model found"


def search_repr(search: Any) -> str:
    """A search in one line: its best parameters, their score, and its epsilon where that takes tenths of a second.

    Before `fit`: what is searched and how often.
    """
    name = type(search).__name__
    try:
        estimator = type(search.estimator).__name__
        if not hasattr(search, "accountant_"):
            return one_line(name, f"{estimator}, not fitted", _runs(search), short_repr(search.param_distributions, 40))
        found = _NO_MODEL
        if search.best_params_ is not None:
            found = ", ".join([f"best score {search.best_score_:.4g}", *_settings(search)])
        cost = epsilon_text(search.accountant_, search._stated_delta, _WITHIN)
        return one_line(name, estimator, cost, found)
    except Exception:  # noqa: BLE001 - a repr must not raise
        return f"{name}(...)"


def search_html(search: Any) -> str:
    """The card of a fitted search: what it found, what that cost, and the privacy curve."""
    found = [("best parameters", _NO_MODEL)]
    if search.best_params_ is not None:
        settings = ", ".join(_settings(search)) or "those of the estimator"
        found = [("best parameters", settings), ("best score", f"{search.best_score_:.4g}")]
    rows = [
        ("estimator", type(search.estimator).__name__),
        *found,
        ("number of runs", f"secret; {_runs(search)}"),
        *account_rows(search.accountant_, search._stated_delta, _WITHIN),
    ]
    return card(type(search).__name__, rows, text_or_empty(lambda: curve_picture(search.accountant_, _WITHIN)))


def _runs(search: Any) -> str:
    """The public expectation of the number of runs."""
    repetitions = getattr(search, "plan_", search).repetitions
    return "number of runs to be chosen" if repetitions is None else f"{repetitions.mean:.4g} runs on average"


def _settings(search: Any) -> list[str]:
    """The best parameters, each as name=value."""
    return [
        f"{name}={setting:.4g}" if isinstance(setting, float) else f"{name}={short_repr(setting, 40)}"
        for name, setting in search.best_params_.items()
    ]
