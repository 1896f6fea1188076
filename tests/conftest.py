"""Settings of all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from pirkit.diag.errors import UsageError
from pirkit.runtime.native.target import LEVELS, host

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
# The same examples on every run; a campaign looks for new ones with HYPOTHESIS_PROFILE=explore.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Tests change what compiles programs: what they make of one is nobody else's.
os.environ["PIRKIT_NATIVE_CACHE"] = "objects"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip everything under a ``PIRKIT_TARGET`` that this CPU lacks."""
    try:
        host()
    except UsageError as error:
        if os.environ.get("PIRKIT_TARGET") not in LEVELS:
            raise
        for item in items:
            item.add_marker(pytest.mark.skip(reason=error.message))
