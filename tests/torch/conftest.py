"""Tests of the backend of torch; they need torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """No compiled code of another test."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """torch warns of its own internals."""
    for item in items:
        if "tests/torch" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("default"))
