"""What tests of sweeps share: none finds what another one has swept and Python has not yet collected."""

import pytest

from app.views.sweep import background


@pytest.fixture(autouse=True)
def _nothing_swept_before():
    background._outcomes.clear()
