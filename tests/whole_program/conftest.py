"""Tests of native code compile what they run, and leave the user's cache alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pirkit.diag import additions
from pirkit.frontend import keeping
from pirkit.lowering.codegen import awaiting
from pirkit.runtime.native import kept
from pirkit.runtime.native.cache import ObjectCache, open_cache

os.environ["PIRKIT_NATIVE_CACHE"] = "off"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectCache:
    """A cache that begins empty, in a process that has no functions yet and no additions."""
    made = open_cache(tmp_path / "objects", tmp_path / "secret")
    assert made is not None
    for module in (awaiting, keeping, kept):
        monkeypatch.setattr(module, "user_cache", lambda: made)
    monkeypatch.setenv("PIRKIT_NATIVE_CACHE", "")
    monkeypatch.setattr(awaiting, "_functions", {})
    monkeypatch.setattr(additions, "FOREIGN", set())
    monkeypatch.setattr(keeping, "FOREIGN", additions.FOREIGN)
    return made
