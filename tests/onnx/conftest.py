"""Tests of reading and writing models of ONNX; they need onnx."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """onnx and the exporters warn of their own internals."""
    for item in items:
        if "tests/onnx" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("default"))
