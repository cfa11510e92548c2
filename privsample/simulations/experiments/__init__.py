"""Experiments: every figure that is redrawn and every claim that is shown; `privsample reproduce` runs them."""

from importlib import import_module

from privsample.simulations.experiments.base import Experiment

# Where the figures and claims come from, by the first part of a name.
PAPERS = {
    "t": "Geumlek 2020, Sampling from Distributions under Differential Privacy Notions (thesis)",
    "b": "Imola and Chaudhuri 2021, Privacy Amplification by Bernoulli Sampling",
    "d": "Balle, Barthe, Gaboardi and Geumlek 2019, Privacy Amplification by Mixing and Diffusion Mechanisms",
    "s": "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling",
    "h": "Papernot and Steinke 2022, Hyperparameter Tuning with Rényi Differential Privacy",
    "": "Beyond the figures of the papers",
}

# Name -> module and attribute.
NAMES = {
    "t-4.1": "tempered:POSTERIORS",
    "t-4.2": "tempered:ERRORS",
    "t-4.3": "gibbs:ASSIGNMENTS",
    "t-4.4": "gibbs:FIRST",
    "t-4.5": "gibbs:WORST",
    "t-4.6": "gibbs_likelihood:LIKELIHOOD",
    "t-4.7": "gibbs:TEMPERED",
    "t-5.1": "posterior_levels:DIFFUSED",
    "t-5.2": "posterior_levels:CONCENTRATED",
    "t-5.3": "posterior_entropy:FIGURE_3",
    "t-5.4": "posterior_entropy:FIGURE_4",
    "t-5.5": "posterior_held_out:FIGURE_5",
    "t-5.6": "posterior_held_out:FIGURE_6",
    "t-5.7": "posterior_held_out:FIGURE_7",
    "t-5.8": "posterior_held_out:FIGURE_8",
    "t-7.2": "profiles:COUPLET",
    "t-7.3": "profiles:CATEGORICAL",
    "t-7.5": "profiles:CHAINS",
    "b-1": "bernoulli:FIGURE_1",
    "b-2": "bernoulli:FIGURE_2",
    "b-3": "bernoulli:FIGURE_3",
    "b-conjecture": "bernoulli:SEARCH",
    "d-mixing": "mixing:DECAY",
    "d-iteration": "mixing:ITERATION",
    "d-8": "diffusion:THEOREM_8",
    "d-path": "diffusion:PATH",
    "s-table-1": "subsampling_table:TABLE",
    "s-1a": "subsampling:PROFILES",
    "s-1b": "subsampling:GAUSS_SAMPLED",
    "s-1c": "subsampling:LAPLACE_SAMPLED",
    "s-1d": "subsampling:COPIES",
    "s-1e": "subsampling:BOXES",
    "h-1": "leak:FIGURE_1",
    "h-2": "selection:FIGURE_2",
    "h-3": "selection:FIGURE_3",
    "h-4": "selection:FIGURE_4",
    "h-5": "selection_use:FIGURE_5",
    "h-6": "selection_use:FIGURE_6",
    "h-7": "selection_use:FIGURE_7",
    "h-8": "selection:FIGURE_8",
    "efficiency": "efficiency:EXPERIMENT",
    "calibration": "calibration:EXPERIMENT",
    "coverage": "coverage:EXPERIMENT",
    "sgd-accuracy": "sgd:ACCURACY",
    "composed-draws": "composed_draws:EXPERIMENT",
}

# Figures that share their picture with another.
SHARED = {"t-7.4": "t-7.3", "t-7.6": "t-7.5", "t-7.7": "t-7.5", "t-7.8": "t-7.5"}


def paper(name: str) -> str:
    """The paper of this experiment."""
    return PAPERS.get(name.partition("-")[0], PAPERS[""])


def experiment(name: str) -> Experiment:
    """The experiment of this name, or that holds the figure of this name. Raises: ValueError."""
    name = SHARED.get(name, name)
    if name not in NAMES:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")
    module, attribute = NAMES[name].split(":")
    found = getattr(import_module(f"{__name__}.{module}"), attribute)
    assert isinstance(found, Experiment)
    return found
