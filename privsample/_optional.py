"""Optional packages: each use of one names the extra that installs it."""

import sys
from importlib.util import find_spec

# What installs a package, where its name is another one.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "dp_accounting": "dp-accounting",
    "flint": "python-flint",
    "sklearn": "scikit-learn",
}


class MissingPackage(ImportError):
    """A package that this use needs is not installed. The message is one line and says what to install."""


def is_installed(package: str) -> bool:
    """Whether a package can be found; it is not imported."""
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return find_spec(package) is not None
    except ImportError:  # an import hook refuses it
        return False


def require(package: str, extra: str, use: str, *, advice: str = "") -> None:
    """Raise MissingPackage unless a package is installed; call it before the import, and before any other work.

    `use` is the subject of the message: what the caller called. `advice` is another way out.
    """
    if not is_installed(package):
        name = DISTRIBUTIONS.get(package, package)
        how = f"pip install 'privsample[{extra}]'" if extra else f"pip install {name}"
        raise MissingPackage(f"{use} needs {name}, which is not installed: {how}{advice}", name=package)
