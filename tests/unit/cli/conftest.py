"""What all tests of the commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pirkit.passes import PASSES


@pytest.fixture(autouse=True)
def own_passes() -> Iterator[None]:
    """The table of passes as it was: `--load` adds some in this process."""
    held = dict(PASSES)
    yield
    PASSES.clear()
    PASSES.update(held)
