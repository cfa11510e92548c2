"""Experiments: every figure that is redrawn and every claim that is shown; `privsample reproduce` runs them."""

from importlib import import_module

from privsample.simulations.experiments.base import Experiment

# Name -> module and attribute. t: Geumlek's thesis (2020); h: Papernot and Steinke (2022).
NAMES = {
    "t-5.1": "posterior_levels:DIFFUSED",
    "t-5.2": "posterior_levels:CONCENTRATED",
    "t-7.2": "profiles:COUPLET",
    "t-7.3": "profiles:CATEGORICAL",
    "t-7.5": "profiles:CHAINS",
    "h-2": "selection:FIGURE_2",
    "h-3": "selection:FIGURE_3",
    "h-4": "selection:FIGURE_4",
    "h-5": "selection_use:FIGURE_5",
    "h-6": "selection_use:FIGURE_6",
    "h-7": "selection_use:FIGURE_7",
    "h-8": "selection:FIGURE_8",
    "composed-draws": "composed_draws:EXPERIMENT",
}


def experiment(name: str) -> Experiment:
    """The experiment of this name. Raises: ValueError."""
    if name not in NAMES:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")
    module, attribute = NAMES[name].split(":")
    found = getattr(import_module(f"{__name__}.{module}"), attribute)
    assert isinstance(found, Experiment)
    return found
