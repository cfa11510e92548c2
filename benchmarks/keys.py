"""Keys that are kept at (1, 1e-6): Zipf keys of 200,000 units, against PipelineDP and Tumult on the same numbers.

Every library gets the number of units of each key; no unit has more keys than it may, so nothing is left out. Ours is
the mean of ten releases, and for the optimal rule the expected number beside it. A peer's number is the expected one,
the sum over the keys of the probability with which it keeps the key: PipelineDP states this probability, and Tumult's
rule is a threshold for two-sided geometric noise, whose parameters it computes. PipelineDP has three rules; the number
is that of the one that keeps the most keys.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import privsample as ps
from benchmarks.environments import interpreter
from benchmarks.measure import Row

TARGET, UNITS, VOCABULARY, EXPONENT, REPEATS = ps.DP(1, 1e-6), 200_000, 1_000_000, 1.2, 10
RULES = {1: "optimal", 5: "gaussian", 30: "gaussian"}  # by keys per unit
PIPELINE_DP = (Path("build/pipeline_dp"), ("pipeline-dp==0.3.1", "python-dp==1.1.5"))
TUMULT = (Path("build/tumult"), ("tmlt.core==0.19.1", "numpy<2", "setuptools<80"))
PIPELINE_DP_SCRIPT = """
import json, sys
from pydp.algorithms.partition_selection import create_partition_strategy as strategy
keys_per_unit, top = map(int, sys.argv[1:])
rules = ("truncated_geometric", "laplace", "gaussian")
made = {rule: strategy(rule, 1.0, 1e-6, keys_per_unit) for rule in rules}
print(json.dumps({rule: [one.probability_of_keep(n) for n in range(top + 1)] for rule, one in made.items()}))
"""
TUMULT_SCRIPT = """
import json, sys
from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkStringColumnDescriptor
from tmlt.core.measurements.aggregations import create_partition_selection_measurement
domain = SparkDataFrameDomain({"key": SparkStringColumnDescriptor()})
one = create_partition_selection_measurement(domain, epsilon=1, delta="0.000001", d_in=int(sys.argv[1]))
print(json.dumps([float(one.threshold), float(one.alpha.to_float(round_up=True))]))
"""


def rows() -> Iterator[Row]:
    """The expected number of kept keys, with 1, 5 and 30 keys per unit."""
    for keys_per_unit, rule in RULES.items():
        units, keys = zipf_rows(keys_per_unit, np.random.default_rng(keys_per_unit))
        counts = np.bincount(np.bincount(keys))  # how many keys have 0, 1, 2, ... units
        mechanism = ps.private_keys(TARGET, rule=rule, keys_per_unit=keys_per_unit)
        kept = [len(mechanism.release((units, keys)).coords["key"]) for _ in range(REPEATS)]
        own, error = float(np.mean(kept)), float(np.std(kept, ddof=1) / REPEATS**0.5)
        library = f"{own:.1f} ± {error:.1f} {rule}"
        if isinstance(mechanism, ps.OptimalKeys):
            own = float(counts @ [mechanism.keep_probability(n) for n in range(len(counts))])
            library = f"{own:.1f} optimal ({library.removesuffix(' optimal')})"
        name = f"keys kept of {int(counts[1:].sum())}, {keys_per_unit} per unit"
        for peer, expected in peers(counts, keys_per_unit).items():
            yield Row(name=name, library=library, peer=f"{expected:.1f} {peer}", ratio=own / expected, target=">= 1")


def zipf_rows(keys_per_unit: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of units and keys: so many draws from a Zipf law for each unit, equal ones counted once."""
    weights = np.arange(1, VOCABULARY + 1, dtype=float) ** -EXPONENT
    uniforms = rng.random((UNITS, keys_per_unit))
    keys = np.sort(np.searchsorted(np.cumsum(weights) / weights.sum(), uniforms), axis=1)
    first = np.diff(keys, axis=1, prepend=-1) > 0
    return np.nonzero(first)[0], np.minimum(keys[first], VOCABULARY - 1)


def peers(counts: NDArray[np.int64], keys_per_unit: int) -> dict[str, float]:
    """The expected number of kept keys of each peer, where `counts[n]` keys have n units."""
    top = len(counts) - 1
    by_rule = json.loads(_printed(PIPELINE_DP, PIPELINE_DP_SCRIPT, keys_per_unit, top))
    best = max(float(counts @ np.array(probabilities)) for probabilities in by_rule.values())
    threshold, scale = json.loads(_printed(TUMULT, TUMULT_SCRIPT, keys_per_unit))
    return {"PipelineDP": best, "Tumult": float(counts @ geometric_tail(threshold - np.arange(top + 1), scale))}


def geometric_tail(least: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """P(Z >= least) for noise Z with probabilities proportional to e^(-|z| / scale) on the whole numbers."""
    beyond = np.exp(-np.maximum(np.where(least > 0, least, 1 - least), 0) / scale) / (1 + np.exp(-1 / scale))
    return np.where(least > 0, beyond, 1 - beyond)


def _printed(peer: tuple[Path, tuple[str, ...]], script: str, *arguments: int) -> str:
    command = [str(interpreter(*peer)), "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
