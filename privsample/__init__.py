"""privsample: differentially private sampling mechanisms, each with an accountant that says what a draw costs.

Public names are listed once, in `__init__.pyi`, and resolved when first used: importing the package loads nothing
heavy.
"""

from importlib import import_module


def _homes() -> dict[str, str]:
    """Public name -> module, as `__init__.pyi` lists them; read without `ast` or `re`, which take longer to import."""
    stub = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()  # also from a zip file
    found = {}
    for line in stub.splitlines():
        match line.split():
            case ["from", home, "import", name, "as", public] if name == public and home != "privsample":
                found[public] = home
    return found


_HOME = _homes()
__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name == "__version__":  # read when asked for: the metadata take longer to import than the package
        from privsample._version import __version__

        return globals().setdefault(name, __version__)
    if name == "pymc":  # a module and not among the public names: it needs PyMC
        return import_module("privsample.pymc")
    if name not in _HOME:
        raise AttributeError(f"module 'privsample' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
