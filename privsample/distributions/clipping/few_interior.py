"""The part of the likelihood in which at most one record lies between the bounds, by the number at each bound.

docs/notes/clipping.md, step 5.
"""

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.clipping.kernels import NoiseKernel
from privsample.distributions.clipping.records import ClippedRecord, DensityRecord, Tilted, gauss

_PANELS = 2
_BLOCK = 1 << 11


def log_share_few_interior(record: ClippedRecord, tilted: Tilted, n: int, kernel: NoiseKernel) -> float:
    """log E[G(S); at most one record between the bounds]."""
    assert isinstance(record, DensityRecord)
    places, terms = _at_bounds(record, tilted, n)
    none = special.logsumexp(terms + kernel.log_value(places))
    places, terms = _at_bounds(record, tilted, n - 1)
    one = special.logsumexp(terms + _one_inside(record, kernel, places)) + np.log(n)
    return float(np.logaddexp(none, one))


def _at_bounds(record: DensityRecord, tilted: Tilted, n: int) -> tuple[FloatArray, FloatArray]:
    """Sums of n atoms and their log probabilities; those that are negligible under the tilt are omitted."""
    atoms, logs = record.atoms
    if len(atoms) == 1:
        return n * atoms, n * logs
    share = float(tilted.weights[1]) / max(tilted.atom_mass, 1e-300)
    reach = 12 * np.sqrt(n * share * (1 - share)) + 60
    upper = np.arange(max(np.floor(n * share - reach), 0.0), min(np.ceil(n * share + reach), float(n)) + 1)
    chosen = special.gammaln(n + 1) - special.gammaln(upper + 1) - special.gammaln(n - upper + 1)
    return n * atoms[0] + upper * (atoms[1] - atoms[0]), chosen + upper * logs[1] + (n - upper) * logs[0]


def _one_inside(record: DensityRecord, kernel: NoiseKernel, places: FloatArray) -> FloatArray:
    """log of the integral of the density times G(place + x) for each place, by Gauss-Legendre rules between the copies.

    Between two copies G is exponential; its slope determines where the integrand is not negligible.
    """
    low, high = record.ends
    unit, masses = gauss(_PANELS)
    seen = np.sort(kernel.observed)
    slopes = kernel.strip * (1 - 2 * np.arange(len(seen) + 1) / len(seen))
    found = []
    for start in range(0, len(places), _BLOCK):
        block = places[start : start + _BLOCK, None]
        edges = np.clip(np.concatenate([[-np.inf], seen, [np.inf]])[None, :] - block, low, high)
        supports = [record.support(tilt, edges[:, j], edges[:, j + 1]) for j, tilt in enumerate(slopes)]
        first, last = (np.stack([each[end] for each in supports], axis=1)[:, :, None] for end in (0, 1))
        x = first + (last - first) * unit
        with np.errstate(divide="ignore"):
            logs = record.log_density(x) + kernel.log_value(block[:, :, None] + x) + np.log((last - first) * masses)
        found.append(special.logsumexp(logs, axis=(1, 2)))
    return np.concatenate(found)
