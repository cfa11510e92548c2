"""ArviZ, imported when a test asks for it: the import is slow, and generation 0 announces generation 1."""

from typing import Any

import pytest


@pytest.fixture
def az() -> Any:
    import arviz

    return arviz
