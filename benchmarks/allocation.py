"""Random allocation: epsilon beside an extrapolation, processor time, and PLD_accounting.

The reference is an extrapolation of the same curve on coarser lattices, whose errors are proportional to the tolerance.
The peer runs in an environment of its own, whose Python the environment variable PRIVSAMPLE_PLD names.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row
from privsample.accounting.subsampling import allocation

SETTINGS = [  # base, scale of the noise, steps, epochs, delta
    ("gaussian", 1.0, 100, 1, 1e-5),
    ("gaussian", 1.0, 1000, 1, 1e-6),
    ("gaussian", 0.5, 10, 1, 1e-5),
    ("gaussian", 0.8, 100, 1, 1e-8),
    ("gaussian", 2.0, 1000, 1, 1e-12),
    ("gaussian", 5.0, 1000, 1, 1e-9),
    ("gaussian", 20.0, 10_000, 1, 1e-8),
    ("laplace", 1.0, 100, 1, 1e-6),
    ("gaussian", 1.0, 100, 10, 1e-5),
    ("laplace", 2.0, 1000, 100, 1e-6),
]
PEER = """
import json, time
from PLD_accounting.random_allocation_api import gaussian_allocation_epsilon_range
start = time.process_time()
high, low = gaussian_allocation_epsilon_range(delta=1e-5, sigma=1.0, num_steps=100)
print(json.dumps([low, high, time.process_time() - start]))
"""


def rows() -> Iterator[Row]:
    """Relative excess of epsilon over the extrapolation, processor time, and the peer's bounds."""
    for base, scale, steps, epochs, delta in SETTINGS:
        start = time.process_time()
        epsilon = _epsilon(base, scale, steps, epochs, delta)
        spent = time.process_time() - start
        true = _extrapolated(base, scale, steps, epochs, delta)
        yield Row(
            name=f"{base} {scale:g}, {steps:,} steps x {epochs}, delta {delta:g}",
            library=f"{epsilon:.10g} in {spent:.2f} s",
            peer=f"{true:.10g} extrapolated",
            ratio=(epsilon - true) / true,
            target="excess <= 1e-6, 2 s",
        )
    yield from _peer()


def _epsilon(base: str, scale: float, steps: int, epochs: int, delta: float) -> float:
    """Epsilon of the library, without caches of earlier calls."""
    account: ps.Accountant = (
        ps.GaussianAccountant(sensitivity=1, noise_std=scale)
        if base == "gaussian"
        else ps.LaplaceAccountant(sensitivity=1, scale=scale)
    )
    epoch = ps.SubsampledAccountant(base=account, scheme=ps.RandomAllocation(steps=steps))
    return float((epochs * epoch).epsilon(delta))


def _extrapolated(base: str, scale: float, steps: int, epochs: int, delta: float) -> float:
    """Epsilon for a lattice error of 0, by least squares of the values for four larger tolerances."""
    kept, factors = allocation._TOLERANCE, np.array([4.0, 6.0, 10.0, 16.0])
    found = []
    try:
        for factor in factors:
            allocation._TOLERANCE = kept * factor
            found.append(_epsilon(base, scale, steps, epochs, delta))
    finally:
        allocation._TOLERANCE = kept
    return float(np.polynomial.polynomial.polyfit(factors, found, 1)[0])


def _peer() -> Iterator[Row]:
    """PLD_accounting on the first setting, if its environment is named."""
    python = os.environ.get("PRIVSAMPLE_PLD")
    if python is None:
        return
    start = time.process_time()
    own = _epsilon(*SETTINGS[0])
    spent = time.process_time() - start
    done = subprocess.run([python, "-c", PEER], capture_output=True, text=True, check=True)
    low, high, theirs = json.loads(done.stdout.splitlines()[-1])
    yield Row(
        name="PLD_accounting, gaussian 1, 100 steps, delta 1e-5",
        library=f"{own:.7g} in {spent:.2f} s",
        peer=f"[{low:.4f}, {high:.4f}] in {theirs:.1f} s",
        ratio=spent / theirs,
        target="within the peer's bounds",
    )
