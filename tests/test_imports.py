"""Importing is light, and accounts and posterior draws need numpy and scipy only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import privsample

ROOT = Path(privsample.__file__).parents[1]
ONLY_NUMPY_AND_SCIPY = """
import sys

ALLOWED = {"numpy", "scipy", "privsample"} | set(sys.stdlib_module_names)

class Guard:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and not top.startswith(("_sysconfigdata", "_virtualenv", "__editable")):
            raise ModuleNotFoundError(f"No module named {name!r} (forbidden here)", name=name)

sys.meta_path.insert(0, Guard())
for outsider in ("pymc", "arviz", "sklearn", "pyarrow", "randomgen", "matplotlib", "joblib", "rich"):
    try:
        __import__(outsider)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"the guard let {outsider} in")

import numpy as np
import privsample

LIGHT = [name for name, home in privsample._HOME.items() if not home.startswith("privsample.estimators")]
globals().update({name: getattr(privsample, name) for name in LIGHT})

from privsample.mechanisms.discovery import mechanism_classes

examples = [example for cls in mechanism_classes() for example in cls.examples()]
assert len(examples) > 30
for example in examples:
    release = example.mechanism.release(example.mechanism.worst_neighbours()[0].datasets[0]())
    assert release.account.epsilon(1e-6) > 0
    assert release.account.rdp(1.5) > 0
    assert Release.from_json(release.to_json()) == release
    assert release.statement()
bits = SmoothOneBit(graph=ProfileGraph(profiles=[0.2, 0.6], edges=[(0, 1)]), epsilon=0.5)
assert bits.release({"profile": 0, "symbol": [0, 1]}).account.epsilon(0.0) <= 0.5
DiffusedPosterior.calibrate(model=BetaBernoulli(alpha=6, beta=12), n=3, target=DP(epsilon=0.1, delta=1e-6))
print("done")
"""
LIGHT = """
import sys
import privsample
heavy = {"scipy.optimize", "scipy.stats", "scipy.integrate", "pymc", "arviz", "sklearn", "matplotlib", "pyarrow",
         "pandas", "polars", "xarray", "joblib", "randomgen", "rich", "jinja2"} & set(sys.modules)
assert not heavy, heavy
privsample.BetaBernoulli, privsample.PosteriorAccountant, privsample.DirectPosterior, privsample.Release
heavy = {"scipy.optimize", "scipy.stats", "pymc", "arviz", "sklearn", "matplotlib", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
print("done")
"""


def run(program):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("COVERAGE_PROCESS_START", None)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert result.stdout.strip().endswith("done"), result.stderr


def test_accounts_and_draws_need_numpy_and_scipy_only():
    run(ONLY_NUMPY_AND_SCIPY)


def test_importing_is_light():
    run(LIGHT)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="unheard_of"):
        privsample.unheard_of  # noqa: B018
    assert set(privsample.__all__) <= set(dir(privsample))
