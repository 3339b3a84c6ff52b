"""What every claim and every other source comes to: predicted once."""

from typing import Any

import pytest

from engine.published import validate
from engine.published.other_sources import compare


@pytest.fixture(scope="session")
def claimed() -> list[dict[str, Any]]:
    """Rows of the claims of the five documents."""
    return validate()


@pytest.fixture(scope="session")
def elsewhere() -> list[dict[str, Any]]:
    """Rows of the other sources."""
    return compare()
