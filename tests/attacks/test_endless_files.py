"""Pipes and devices in place of files: the limit stands in front of them, and nothing waits."""

from __future__ import annotations

import os
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from pirkit.diag.errors import ArtifactError, LimitError
from pirkit.diag.limits import Limits, read_at_most, use_limits
from pirkit.frontend.arrays import read_npz
from pirkit.frontend.files import read_text
from pirkit.frontend.safetensors_files import read_safetensors, write_safetensors
from pirkit.runtime.native.cache import ObjectCache
from pirkit.split.split_files import load_parts

ZERO = "/dev/zero"
NAMED_PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")


@pytest.mark.skipif(not os.path.exists(ZERO), reason="no endless device here")
@pytest.mark.parametrize("name", ["text", "parts", "safetensors", "onnx"])
def test_endless_devices(name: str) -> None:
    if name == "onnx":
        pytest.importorskip("onnx")
        from pirkit.onnx import load_model as read
    else:
        read = {"text": read_text, "parts": load_parts, "safetensors": read_safetensors}[name]
    with use_limits(Limits(input_bytes=1000)), pytest.raises(LimitError) as caught:
        read(ZERO)
    assert caught.value.code == "PK0302"


@pytest.mark.skipif(not os.path.exists(ZERO), reason="no endless device here")
def test_arrays_lie_in_files() -> None:
    with pytest.raises(ArtifactError, match="regular file"):
        read_npz(ZERO)


def test_weights_from_a_pipe(tmp_path: Path) -> None:
    """As a shell makes one of the output of a command, ``<(zstd -dc w.safetensors.zst)``."""
    write_safetensors(str(tmp_path / "w"), {"w": np.arange(3.0)})
    end, start = os.pipe()
    os.write(start, (tmp_path / "w").read_bytes())
    os.close(start)
    assert read_safetensors(f"/dev/fd/{end}")["w"].tolist() == [0, 1, 2]
    os.close(end)


class Endless(BytesIO):
    """Counts what is read of it."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size >= 0
        self.taken += size
        return bytes(size)


def test_pipes_are_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Endless()

    class Stdin:
        buffer = source

    monkeypatch.setattr("sys.stdin", Stdin)
    with use_limits(Limits(input_bytes=1000)), pytest.raises(LimitError, match="1,000"):
        read_text("-")
    assert source.taken == 1001
    with use_limits(Limits(input_bytes=4)):
        assert read_at_most(BytesIO(b"abcd")) == b"abcd"


@NAMED_PIPES
def test_a_pipe_in_place_of_a_cache_entry(tmp_path: Path) -> None:
    cache, key = ObjectCache(tmp_path, b"s" * 32), "ab" * 16
    cache.put(key, b"payload")
    (entry,) = [p for p in tmp_path.rglob("*") if p.is_file() and key[4:] in p.name]
    entry.unlink()
    os.mkfifo(entry)
    found: list[bytes | None] = []
    reader = threading.Thread(target=lambda: found.append(cache.get(key)), daemon=True)
    reader.start()
    reader.join(30)
    assert found == [None]
    cache.put(key, b"payload")
    assert cache.get(key) == b"payload"
