"""Experiments: one module for each figure that is redrawn or claim that is shown; `privsample reproduce` runs them."""

from importlib import import_module

from privsample.simulations.experiments.base import Experiment

NAMES = {"composed-draws": "composed_draws"}


def experiment(name: str) -> Experiment:
    """The experiment of this name. Raises: ValueError."""
    if name not in NAMES:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")
    found = import_module(f"privsample.simulations.experiments.{NAMES[name]}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found
