"""Files of arrays in the cache: mapped read-only, and used only if nothing in them has changed."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pirkit.diag.source_files import Sources
from pirkit.runtime.native import array_file
from pirkit.runtime.native.array_file import map_arrays, save_arrays
from pirkit.runtime.native.cache import ObjectCache, open_cache
from pirkit.runtime.native.digest import BLOCK, Digest

KEY = "0" * 64
RANDOM = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "w": RANDOM.standard_normal((40, 100), np.float32),
    "turned": RANDOM.standard_normal((30, 20)).T,
    "number": np.array(7, np.int64),
    "none": np.zeros((0, 3), np.float32),
    "narrow": RANDOM.standard_normal(33).astype(ml_dtypes.bfloat16),
    "flags": RANDOM.random(5) > 0.5,
}


@pytest.fixture
def store(tmp_path: Path) -> ObjectCache:
    found = open_cache(tmp_path / "objects", tmp_path / "secret")
    assert found
    save_arrays(found, KEY, ARRAYS)
    return found


def file_of(store: ObjectCache) -> Path:
    return store.path(KEY, array_file.ARRAYS)


def test_arrays_come_back_bit_by_bit(store: ObjectCache) -> None:
    found = map_arrays(store, KEY)
    assert found is not None
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        held = found[name]
        assert (held.dtype, held.shape) == (array.dtype, array.shape)
        assert held.tobytes() == array.tobytes()
        assert held.flags.c_contiguous
        assert held.flags.aligned
    assert not [p for p in store.folder.iterdir() if p.name.startswith(".")]


def test_arrays_are_pages_of_the_file_that_nobody_writes(store: ObjectCache) -> None:
    found = map_arrays(store, KEY)
    assert found
    held = found["w"]
    assert isinstance(held.base, mmap.mmap)
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        held.flags.writeable = True
    if os.path.exists("/proc/self/maps"):
        lines = Path("/proc/self/maps").read_text().splitlines()
        kinds = {line.split()[1] for line in lines if line.endswith(str(file_of(store)))}
        assert kinds == {"r--s"}  # shared with all processes
    file_of(store).unlink()
    np.testing.assert_array_equal(held, ARRAYS["w"])


def _size(path: Path) -> int:
    return path.stat().st_size


def _table(path: Path) -> int:
    return path.read_bytes().index(b'["w"')


PLACES: tuple[Callable[[Path], int], ...] = (
    lambda path: 0,  # magic
    lambda path: 20,  # tag
    lambda path: 50,  # hash of the arrays
    lambda path: 80,  # length
    lambda path: 87,
    lambda path: _table(path),
    lambda path: path.read_bytes().index(ARRAYS["w"].tobytes()),
    lambda path: path.read_bytes().index(ARRAYS["w"].tobytes()) + ARRAYS["w"].nbytes - 1,
    lambda path: path.read_bytes().index(ARRAYS["flags"].tobytes(), _table(path) + 4096),
)


@pytest.mark.parametrize("place", PLACES)
def test_a_changed_byte_is_a_miss(store: ObjectCache, place: Callable[[Path], int]) -> None:
    path = file_of(store)
    data = bytearray(path.read_bytes())
    data[place(path)] ^= 1
    path.write_bytes(data)
    assert map_arrays(store, KEY) is None
    assert not path.exists()


@pytest.mark.parametrize("left", [0, 5, 60, 100, 4096, -4096])
def test_a_cut_file_is_a_miss(store: ObjectCache, left: int) -> None:
    os.truncate(file_of(store), left % _size(file_of(store)))
    assert map_arrays(store, KEY) is None


def test_a_file_under_another_name_or_of_another_user_is_a_miss(
    store: ObjectCache, tmp_path: Path
) -> None:
    other = "1" * 64
    shutil.copy(file_of(store), store.path(other, array_file.ARRAYS))
    assert map_arrays(store, other) is None
    theirs = open_cache(tmp_path / "objects", tmp_path / "other")
    assert theirs
    assert map_arrays(theirs, KEY) is None


@pytest.mark.parametrize(
    "table",
    [
        b"{",
        b"[1]",
        json.dumps([["w", "float32", [1 << 40], 0]]).encode(),
        json.dumps([["w", "float32", [4], 1 << 40]]).encode(),
        json.dumps([["w", "float32", [-4], 0]]).encode(),
        json.dumps([["w", "float33", [4], 0]]).encode(),
        json.dumps([["w", "float32", [4], -(1 << 20)]]).encode(),
        json.dumps([["w", "float32", ["4"], 0]]).encode(),
    ],
)
def test_a_table_that_lies_is_a_miss(store: ObjectCache, table: bytes) -> None:
    """Also one with a genuine tag."""
    digest = Digest(store.secret).digest()
    head = digest + len(table).to_bytes(8, "little") + table
    tag = array_file._tag(store, KEY, head)  # pyright: ignore[reportPrivateUsage]
    file_of(store).write_bytes(b"pirkit-arrays-1\n" + tag + head + bytes(8192))
    assert map_arrays(store, KEY) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_place_of_a_file(store: ObjectCache) -> None:
    file_of(store).unlink()
    os.mkfifo(file_of(store))
    assert map_arrays(store, KEY) is None
    save_arrays(store, KEY, ARRAYS)
    assert map_arrays(store, KEY) is not None


def test_arrays_and_code_have_limits_of_their_own(store: ObjectCache) -> None:
    store.put(KEY, bytes(900))
    store.limit, store.array_limit = 1000, 2 * _size(file_of(store))
    for k in range(1, 4):
        save_arrays(store, f"{k:064x}", ARRAYS)
        os.utime(store.path(f"{k:064x}", array_file.ARRAYS), (k, k))
    os.utime(file_of(store), (9, 9))
    store.trim()
    assert store.get(KEY) == bytes(900)
    left = sorted(int(p.stem, 16) for p in store.folder.glob(f"*{array_file.ARRAYS}"))
    assert left == [0, 3]
    store.array_limit = 10
    save_arrays(store, f"{5:064x}", ARRAYS)
    assert map_arrays(store, f"{5:064x}") is None


def test_a_full_disk_costs_nothing_else(
    store: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(store.folder)._replace(free=_size(file_of(store)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    save_arrays(store, "1" * 64, ARRAYS)
    assert map_arrays(store, "1" * 64) is None


def test_nothing_is_saved_or_mapped_once_sources_have_changed(
    store: ObjectCache, tmp_path: Path
) -> None:
    store.sources = Sources(tmp_path, 0)
    assert not store.sources.unchanged()
    assert map_arrays(store, KEY) is None
    save_arrays(store, "1" * 64, ARRAYS)
    assert not store.path("1" * 64, array_file.ARRAYS).exists()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from pirkit.runtime.native.array_file import map_arrays, save_arrays
from pirkit.runtime.native.cache import open_cache
store = open_cache(Path(sys.argv[1], "objects"), Path(sys.argv[1], "secret"))
made = {"w": np.full(100_000, int(sys.argv[2]), np.int32)}
for k in range(20):
    save_arrays(store, "0" * 64, made)
    found = map_arrays(store, "0" * 64)
    assert found is not None and found["w"][0] in (1, 2)
    assert (found["w"] == found["w"][0]).all()
"""


def test_two_writers_at_once_leave_a_whole_file(store: ObjectCache, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, number]) for number in ("1", "2")]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = map_arrays(store, KEY)
    assert found
    assert found["w"].shape == (100_000,)
    assert not [p for p in store.folder.iterdir() if p.name.startswith(".")]


# --- hashes --------------------------------------------------------------------------------------


def digest(*arrays: Any, secret: bytes = b"s" * 32) -> bytes:
    made = Digest(secret)
    for array in arrays:
        made.add(b"x", array)
    return made.digest()


def test_every_byte_and_its_place_counts() -> None:
    data = RANDOM.integers(0, 256, 3 * BLOCK + 100).astype(np.uint8)
    seen = {digest(data)}
    for place in (0, 3, 4, 63, 64, BLOCK - 1, BLOCK, 2 * BLOCK + 77, 3 * BLOCK, data.size - 1):
        for bit in (1, 128):
            changed = data.copy()
            changed[place] ^= bit
            seen.add(digest(changed))
    swapped = data.copy()
    swapped[:64], swapped[64:128] = data[64:128], data[:64]
    blocks = np.concatenate([data[BLOCK : 2 * BLOCK], data[:BLOCK], data[2 * BLOCK :]])
    others = (swapped, blocks, data[:-1], data[:BLOCK], data[: BLOCK - 1], data[:0])
    seen |= {digest(other) for other in others}
    seen |= {digest(data[:BLOCK], data[BLOCK:]), digest(data, secret=b"t" * 32)}
    assert len(seen) == 1 + 20 + len(others) + 2


def test_equal_elements_have_equal_hashes() -> None:
    data = RANDOM.standard_normal((90, 100))
    assert digest(data) == digest(data.copy()) == digest(np.asfortranarray(data))
    shifted = np.empty(data.nbytes + 1, np.uint8)[1:]
    shifted[:] = data.reshape(-1).view(np.uint8)
    assert digest(shifted) == digest(data)
