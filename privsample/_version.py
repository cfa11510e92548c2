"""The version, from the installed metadata."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("privsample")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
