"""The fixture that opens pages in a browser."""

from tests.browser import phone

__all__ = ["phone"]
