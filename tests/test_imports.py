"""Importing is light, and accounts and posterior draws need numpy and scipy only."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import privsample

ROOT = Path(privsample.__file__).parents[1]
ONLY_NUMPY_AND_SCIPY = """
import sys

ALLOWED = {"numpy", "scipy", "flint", "privsample"} | set(sys.stdlib_module_names)

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
    if isinstance(example.mechanism, LangevinModel):
        continue  # it draws from models in PyMC
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


def test_accounts_and_draws_need_numpy_scipy_and_flint_only():
    run(ONLY_NUMPY_AND_SCIPY)


def test_importing_is_light():
    run(LIGHT)


def test_the_list_of_public_names_is_read_whole_and_each_name_is_there():
    """`import privsample` reads the stub by its own short rule; here Python reads it."""
    stub = ROOT / "privsample" / "__init__.pyi"
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module != "privsample"]
    listed = [(alias.asname, node.module) for node in imports for alias in node.names]
    assert all(alias.name == alias.asname for node in imports for alias in node.names)
    assert dict(listed) == privsample._HOME
    assert sorted(name for name, _ in listed) == privsample.__all__
    for name, home in listed:
        assert getattr(privsample, name) is getattr(sys.modules[home], name)


def test_public_names_are_found_in_a_zip_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in ("__init__.py", "__init__.pyi", "errors.py"):
            archive.write(ROOT / "privsample" / name, f"privsample/{name}")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'all.zip')!r}); import privsample; print(privsample.__file__)"
    )
    names = "print(len(privsample.__all__)); import privsample.errors; print('done')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{program}; {names}"], capture_output=True, text=True, check=False
    )
    file, count, last = done.stdout.split()
    assert "all.zip" in file
    assert (int(count), last) == (len(privsample.__all__), "done")


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="unheard_of"):
        privsample.unheard_of  # noqa: B018
    assert set(privsample.__all__) <= set(dir(privsample))
