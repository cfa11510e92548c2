"""The true posterior of a rate, and two private posteriors at the same privacy cost, in one picture.

The data are the 569 tumours of the Wisconsin breast cancer data set, of which 212 are malignant. Each private posterior
costs epsilon = 0.2 for each tumour. Run:

    python examples/three_posteriors.py three_posteriors.svg
"""

import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

import privsample as ps

EPSILON, DELTA = 0.2, 1e-6
MODEL = ps.BetaBernoulli(alpha=6, beta=12)
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"


def posteriors(rng: np.random.Generator) -> dict[str, Any]:
    """Return the true posterior, the noise-aware posterior of a noisy count, and the posterior that is drawn from once.

    The generator is fixed so that the picture is always the same. Leave `rng` out for real data.
    """
    malignant = 1 - load_breast_cancer().target
    n = len(malignant)
    counter = ps.NoisyStatistics.calibrate(model=MODEL, n=n, target=ps.DP(epsilon=EPSILON))
    sampler = ps.DiffusedPosterior.calibrate(model=MODEL, n=n, target=ps.DP(epsilon=EPSILON, delta=DELTA))
    published = ps.PrivateStatistics(release=counter.release(malignant, rng=rng))
    total = np.array(malignant.sum())
    return {
        "true posterior (not private)": MODEL.posterior(total, n),
        "noise-aware posterior of one noisy count": published.noise_aware(),
        "diffused posterior, for one private draw": MODEL.posterior(total, n, data_weight=sampler.data_weight),
    }


def plot(ax: Any = None) -> Any:
    """Plot the three densities on the axes `ax`, or on new ones, and return the axes."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(4.8, 3.3), layout="constrained").subplots()
    rate = np.linspace(0.2, 0.55, 500)
    styles = ((GREY, "--"), (BLUE, "-"), (ORANGE, "-"))
    for (label, posterior), (colour, style) in zip(posteriors(np.random.default_rng(3)).items(), styles, strict=True):
        density = np.exp(posterior.log_density(rate))
        ax.plot(rate, density, style, color=colour, label=label)
        ax.fill_between(rate, density, color=colour, alpha=0.12, linewidth=0)
    ax.set(xlabel="share of malignant tumours", ylabel="density", ylim=(0, None), xlim=(0.2, 0.55))
    ax.figure.legend(loc="outside upper left", frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


if __name__ == "__main__":
    plot().figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "three_posteriors.svg")
