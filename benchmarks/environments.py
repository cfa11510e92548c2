"""Environments of peers that are not compatible with the packages of this one, created in build/."""

import subprocess
import sys
from pathlib import Path

DIFFPRIVLIB = (Path("build/diffprivlib"), ("diffprivlib==0.6.6", "scikit-learn<1.6"))


def interpreter(folder: Path, pins: tuple[str, ...]) -> Path:
    """The Python interpreter of an environment with these packages, created if it is missing."""
    found = folder / "bin" / "python"
    if not found.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([found, "-m", "pip", "install", "--quiet", *pins], check=True)
    return found.absolute()
