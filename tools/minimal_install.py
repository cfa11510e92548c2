"""Check that privsample works with NumPy and SciPy alone.

Makes a throwaway venv with the locked NumPy and SciPy, installs privsample without its other dependencies (as a
wheel, not editable), and draws from a posterior far away from the source tree. Standard library only.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "scipy")
PROGRAM = """
import importlib.util, sys
import privsample
assert "site-packages" in privsample.__file__, privsample.__file__
heavy = ("arviz", "joblib", "pandas", "pymc", "sklearn")
assert not [name for name in heavy if importlib.util.find_spec(name)], "the venv holds more than NumPy and SciPy"
import numpy as np
from privsample import BetaBernoulli, DiffusedPosterior
mechanism = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=100, data_weight=0.5, draws=4)
print("epsilon at delta = 1e-6:", mechanism.accountant.epsilon(1e-6))
print(mechanism.release(np.ones(100)))
"""


def locked(names: tuple[str, ...]) -> str:
    """The entries of these packages in the lock, with markers and hashes."""
    kept, keep = [], False
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            keep = line.partition("==")[0] in names
        if keep:
            kept.append(line)
    return "\n".join(kept) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = str(folder / "venv" / "bin" / "python")
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        (folder / "requirements.txt").write_text(locked(PACKAGES), encoding="utf-8")
        for command in (
            (sys.executable, "-m", "venv", str(folder / "venv")),
            (*pip, "--require-hashes", "--requirement", str(folder / "requirements.txt")),
            (*pip, "--no-deps", str(ROOT)),
            (python, "-I", "-W", "error", "-c", PROGRAM),
        ):
            done = subprocess.run(command, cwd=folder, check=False)
            if done.returncode:
                sys.exit(f"minimal install: failed with exit code {done.returncode}")
    print("minimal install: works with", " and ".join(PACKAGES), "alone")


if __name__ == "__main__":
    main()
