"""Tests of native code compile what they run, and leave the user's cache alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pirkit.diag import plugin_additions
from pirkit.frontend import compile_cache
from pirkit.lowering.codegen.emit import batch_compile
from pirkit.runtime.native import cached_ir
from pirkit.runtime.native.cache import ObjectCache, open_cache

os.environ["PIRKIT_NATIVE_CACHE"] = "off"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectCache:
    """A cache that begins empty, in a process that has no functions yet and no additions."""
    made = open_cache(tmp_path / "objects", tmp_path / "secret")
    assert made is not None
    for module in (batch_compile, compile_cache, cached_ir):
        monkeypatch.setattr(module, "user_cache", lambda: made)
    monkeypatch.setenv("PIRKIT_NATIVE_CACHE", "")
    monkeypatch.setattr(batch_compile, "_functions", {})
    monkeypatch.setattr(plugin_additions, "FOREIGN", set())
    monkeypatch.setattr(compile_cache, "FOREIGN", plugin_additions.FOREIGN)
    return made
