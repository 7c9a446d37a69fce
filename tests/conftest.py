"""What every test may ask for."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from toolroll import Toolroll

# Property tests are the same on every run; a longer search is `HYPOTHESIS_PROFILE=long pytest`.
settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("long", deadline=None, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def demo() -> Toolroll:
    """The demonstration catalog with the offline embedder."""
    return Toolroll.demo()
