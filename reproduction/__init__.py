"""Experiments: reproductions of published figures and tables, and checks of claims; run by `privsample reproduce`."""

from importlib import import_module

from reproduction.base import Experiment

# Source of the figures and claims, by the first part of the name of an experiment. The longest matching part counts.
PAPERS = {
    "geumlek": "Geumlek 2020, Sampling from Distributions under Differential Privacy Notions (thesis)",
    "imola": "Imola and Chaudhuri 2021, Privacy Amplification by Bernoulli Sampling",
    "balle-diffusion": "Balle et al. 2019, Privacy Amplification by Mixing and Diffusion Mechanisms",
    "balle": "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling",
    "papernot": "Papernot and Steinke 2022, Hyperparameter Tuning with Rényi Differential Privacy",
    "": "Further experiments with this library",
}

# Name -> module and attribute.
NAMES = {
    "geumlek-odds": "posterior_odds:ODDS",
    "geumlek-4.1": "tempered:POSTERIORS",
    "geumlek-4.2": "tempered:ERRORS",
    "geumlek-table-4.1": "inference_table:TABLE",
    "geumlek-lemma-1": "posterior_convergence:LEMMA_1",
    "geumlek-4.3": "gibbs:ASSIGNMENTS",
    "geumlek-4.3-regions": "gibbs_regions:ASSIGNMENTS",
    "geumlek-4.4": "gibbs:FIRST",
    "geumlek-4.4-scan": "gibbs_scan:SCAN",
    "geumlek-4.5": "gibbs:WORST",
    "geumlek-4.6": "gibbs_likelihood:LIKELIHOOD",
    "geumlek-4.6-regions": "gibbs_regions:LIKELIHOOD",
    "geumlek-4.7": "gibbs:TEMPERED",
    "geumlek-5.1": "posterior_levels:DIFFUSED",
    "geumlek-5.2": "posterior_levels:CONCENTRATED",
    "geumlek-5.3": "posterior_entropy:FIGURE_3",
    "geumlek-5.4": "posterior_entropy:FIGURE_4",
    "geumlek-5.5": "posterior_held_out:FIGURE_5",
    "geumlek-5.6": "posterior_held_out:FIGURE_6",
    "geumlek-5.7": "posterior_held_out:FIGURE_7",
    "geumlek-5.8": "posterior_held_out:FIGURE_8",
    "geumlek-6.1": "mixing_conditions:CONDITIONS",
    "geumlek-7.1": "profiles_composition:COMPOSITION",
    "geumlek-7.2": "profiles:TWO_PROFILES",
    "geumlek-7.3": "profiles:CATEGORICAL",
    "geumlek-7.5": "profiles:CHAINS",
    "imola-1": "bernoulli:FIGURE_1",
    "imola-2": "bernoulli:FIGURE_2",
    "imola-3": "bernoulli:FIGURE_3",
    "imola-conjecture": "bernoulli:SEARCH",
    "imola-regimes": "bernoulli_regimes:REGIMES",
    "balle-diffusion-mixing": "mixing:DECAY",
    "balle-diffusion-iteration": "mixing:ITERATION",
    "balle-diffusion-public": "public_steps:PUBLIC",
    "balle-diffusion-8": "diffusion:THEOREM_8",
    "balle-diffusion-path": "diffusion:PATH",
    "balle-table-1": "subsampling_table:TABLE",
    "balle-1a": "subsampling:PROFILES",
    "balle-1b": "subsampling:GAUSS_SAMPLED",
    "balle-1c": "subsampling:LAPLACE_SAMPLED",
    "balle-1d": "subsampling:COPIES",
    "balle-1e": "subsampling:BOXES",
    "papernot-1": "leak:FIGURE_1",
    "papernot-2": "selection:FIGURE_2",
    "papernot-3": "selection:FIGURE_3",
    "papernot-4": "selection:FIGURE_4",
    "papernot-5": "selection_use:FIGURE_5",
    "papernot-6": "selection_use:FIGURE_6",
    "papernot-7": "selection_use:FIGURE_7",
    "papernot-8": "selection:FIGURE_8",
    "papernot-tight": "selection_tight:EXPERIMENT",
    "papernot-stopping": "stopping:EXPERIMENT",
    "efficiency": "efficiency:EXPERIMENT",
    "calibration": "calibration:EXPERIMENT",
    "coverage": "coverage:EXPERIMENT",
    "confidence-sets": "confidence_sets:EXPERIMENT",
    "sgd-accuracy": "sgd:ACCURACY",
    "sgd-small-data": "sgd_small_data:ACCURACY",
    "sgd-epochs": "epochs:EPOCHS",
    "regression-breast-cancer": "regression:TUMOURS",
    "regression-digits-3-8": "regression:DIGITS_3_8",
    "regression-digits-1-7": "regression:DIGITS_1_7",
    "regression-ten-digits": "regression:TEN_DIGITS",
    "regression-diabetes": "regression:DIABETES",
    "logistic-accuracy": "logistic_accuracy:ACCURACY",
    "langevin-model": "langevin_model:EXPERIMENT",
    "composed-draws": "composed_draws:EXPERIMENT",
    "langevin-quadrature": "langevin_quadrature:QUADRATURE",
    "langevin-steps": "langevin_steps:STEPS",
    "candidate-selection": "candidate_selection:EXPERIMENT",
    "low-bits": "low_bits:EXPERIMENT",
}

# Published figures that are panels of the picture of another name.
SHARED = {
    "geumlek-6.2": "geumlek-6.1",
    "geumlek-7.4": "geumlek-7.3",
    "geumlek-7.6": "geumlek-7.5",
    "geumlek-7.7": "geumlek-7.5",
    "geumlek-7.8": "geumlek-7.5",
}

_FORMER_PREFIXES = {"geumlek": "t", "imola": "b", "balle-diffusion": "d", "balle": "s", "papernot": "h"}


def _prefix(name: str) -> str:
    """Return the key of `PAPERS` that this name begins with."""
    return max((prefix for prefix in PAPERS if name.startswith(f"{prefix}-")), key=len, default="")


# Former name -> name, for example t-4.1 -> geumlek-4.1.
FORMER_NAMES = {
    _FORMER_PREFIXES[_prefix(name)] + name.removeprefix(_prefix(name)): name
    for name in (*NAMES, *SHARED)
    if _prefix(name)
}


def paper(name: str) -> str:
    """Return the paper that the experiment of this name reproduces."""
    return PAPERS[_prefix(name)]


def experiment(name: str) -> Experiment:
    """Return the experiment with this name, or the one whose picture contains the figure with this name.

    Raises: ValueError, if there is none.
    """
    name = SHARED.get(name, name)
    if name not in NAMES:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")
    module, attribute = NAMES[name].split(":")
    found = getattr(import_module(f"{__name__}.{module}"), attribute)
    assert isinstance(found, Experiment)
    return found
