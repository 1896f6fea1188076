"""The cache of object code: what is damaged, foreign or readable by others is never run."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pirkit.diag.errors import ArtifactError
from pirkit.diag.source_files import Sources
from pirkit.lowering.codegen.emit.batch_compile import pack, unpack
from pirkit.lowering.codegen.emit.compile import compile_kernel, kernel_key
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, LoopPhase, Operand, Store
from pirkit.runtime import dtype as dt
from pirkit.runtime.native import cache
from pirkit.runtime.native.cache import ObjectCache, open_cache
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host
from tests.codegen.nests import softmax

KEY = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> ObjectCache:
    found = open_cache(tmp_path / "objects", tmp_path / "secret")
    assert found
    return found


def entry(store: ObjectCache) -> Path:
    return store.folder / f"{KEY}.o"


def test_what_is_put_is_got(store: ObjectCache, tmp_path: Path) -> None:
    assert store.get(KEY) is None
    store.put(KEY, b"code")
    again = open_cache(tmp_path / "objects", tmp_path / "secret")
    assert again
    assert again.get(KEY) == b"code"
    assert not [p for p in store.folder.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("where", [0, 20, -1])
def test_a_changed_byte_is_a_miss(store: ObjectCache, where: int) -> None:
    store.put(KEY, b"code")
    data = bytearray(entry(store).read_bytes())
    data[where] ^= 1
    entry(store).write_bytes(data)
    assert store.get(KEY) is None
    assert not entry(store).exists()


@pytest.mark.parametrize("length", [0, 5, 20, 50])
def test_a_cut_entry_is_a_miss(store: ObjectCache, length: int) -> None:
    store.put(KEY, b"code" * 10)
    entry(store).write_bytes(entry(store).read_bytes()[:length])
    assert store.get(KEY) is None


def test_an_entry_under_another_name_is_a_miss(store: ObjectCache) -> None:
    store.put(KEY, b"code")
    other = "1" * 64
    entry(store).rename(store.folder / f"{other}.o")
    assert store.get(other) is None


def test_an_entry_of_another_user_is_a_miss(store: ObjectCache, tmp_path: Path) -> None:
    other = open_cache(tmp_path / "objects", tmp_path / "other")
    assert other
    other.put(KEY, b"code")
    assert store.get(KEY) is None


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_directory_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    open_folder = tmp_path / "objects"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    assert open_cache(open_folder, tmp_path / "secret") is None
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    assert open_cache(link, tmp_path / "secret") is None


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_secret_that_others_may_read_is_not_used(tmp_path: Path, store: ObjectCache) -> None:
    (tmp_path / "secret" / "native.key").chmod(0o644)
    assert open_cache(tmp_path / "objects", tmp_path / "secret") is None


def test_the_oldest_entries_go_first(store: ObjectCache) -> None:
    store.limit = 1000
    for k in range(6):
        store.put(f"{k:064}", bytes(300))
        os.utime(store.folder / f"{k:064}.o", (k, k))
    store.trim()
    left = sorted(p.name for p in store.folder.glob("*.o"))
    assert left == [f"{k:064}.o" for k in (4, 5)]


def test_of_many_writers_one_looks_at_all_entries(store: ObjectCache) -> None:
    store.limit = 100_000
    for k in range(1, 0x100):
        store.put(f"{k:064x}", bytes(300))
        os.utime(store.folder / f"{k:064x}.o", (k, k))
    store.limit = 50_000
    store.put(f"{0x101:064x}", b"small")
    assert len(list(store.folder.glob("*.o"))) == 0x100
    store.put(f"{0x100:064x}", b"small")
    assert sum(p.stat().st_size for p in store.folder.glob("*.o")) <= store.limit
    assert store.get(f"{0x100:064x}") == b"small"


def test_a_large_entry_makes_room(store: ObjectCache) -> None:
    store.put(f"{1:064x}", bytes(900))
    os.utime(store.folder / f"{1:064x}.o", (1, 1))
    store.limit = 1000
    store.put(f"{2:064x}", bytes(900))
    assert store.get(f"{1:064x}") is None
    assert store.get(f"{2:064x}") == bytes(900)


def test_what_a_killed_writer_left_is_no_entry_and_goes(store: ObjectCache) -> None:
    left = store.folder / f".{KEY}.o.0123abcd"
    left.write_bytes(bytes(2000))
    os.utime(left, (1, 1))
    store.limit = 1000
    assert store.get(KEY) is None
    store.put(KEY, b"code")
    assert not left.exists()
    assert store.get(KEY) == b"code"


def test_an_entry_of_another_format_is_a_miss(store: ObjectCache) -> None:
    store.put(KEY, b"code")
    data = entry(store).read_bytes()
    assert data.startswith(b"pirkit-native-1\n")
    entry(store).write_bytes(data.replace(b"native-1", b"native-2", 1))
    assert store.get(KEY) is None


def test_a_folder_that_cannot_be_written_costs_nothing_else(
    store: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    store.put(KEY, b"code")
    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert store.get(KEY) == b"code"
    entry(store).write_bytes(b"damaged")
    assert store.get(KEY) is None


def test_nothing_is_put_or_got_once_sources_have_changed(
    store: ObjectCache, tmp_path: Path
) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.py").write_text("1")
    store.sources = Sources(tmp_path / "sources", time.time_ns() + 10**9)
    store.put(KEY, b"code")
    assert store.get(KEY) == b"code"
    (tmp_path / "sources" / "b.py").write_text("2")
    store.put_all([("1" * 64, b"more"), ("2" * 64, b"more")])
    assert [p.stem for p in store.folder.glob("*.o")] == [KEY]
    assert store.get(KEY) is None
    assert entry(store).exists()


def test_a_full_disk_costs_nothing_else(
    store: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    store.put(KEY, b"code")
    assert store.get(KEY) is None
    assert not [p for p in store.folder.iterdir() if p.name.startswith(".")]


WRITER = """
import sys
from pathlib import Path
from pirkit.runtime.native.cache import open_cache
store = open_cache(Path(sys.argv[1], "objects"), Path(sys.argv[1], "secret"))
print("ready", flush=True)
while True:
    for k in range(8):
        key = f"{k:064x}"
        store.put(key, key.encode() * 4000)
        assert store.get(key) in (None, key.encode() * 4000)
"""


def test_writers_that_are_killed_leave_whole_entries_or_none(
    store: ObjectCache, tmp_path: Path
) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
    seen, until = 0, time.monotonic() + 300
    while seen < 100 and time.monotonic() < until:  # a busy machine lets writers begin late
        for k in range(8):
            key = f"{k:064x}"
            found = store.get(key)
            assert found in (None, key.encode() * 4000)
            seen += found is not None
    for writer in writers:
        assert writer.poll() is None
        writer.kill()
        writer.communicate()
    assert seen
    assert all(store.get(f"{k:064x}") in (None, f"{k:064x}".encode() * 4000) for k in range(8))


def test_code_that_was_kept_runs(store: ObjectCache) -> None:
    kernel = softmax(4, 50)
    key = kernel_key(kernel, host())
    store.put(key, pack(compile_kernel(kernel, host())))
    data = store.get(key)
    assert data
    x, y = np.random.default_rng(0).random((4, 50), np.float32), np.zeros((4, 50), np.float32)
    NativeFunction(unpack(data)).bind([x, y])()
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-5)


def test_the_key_tells_kernels_apart() -> None:
    assert kernel_key(softmax(4, 50), host()) == kernel_key(softmax(4, 50), host())
    assert kernel_key(softmax(4, 50), host()) != kernel_key(softmax(4, 51), host())


def test_the_key_does_not_see_names() -> None:
    def nest(x: str, y: str) -> Kernel:
        one = Operand(dt.float32, (4,), (), 40)
        body = (Load(x, 0), Compute(y, "exp", (x,), dt.float32), Store(1, y))
        return Kernel((10,), (), (one, one), (LoopPhase(body),))

    assert kernel_key(nest("a", "b"), host()) == kernel_key(nest("b", "a"), host())


@pytest.mark.parametrize("data", [b"", b"{}\ncode", b"[1]\n", b"\xff\n"])
def test_what_is_no_code_is_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError):
        unpack(data)


def test_an_entry_that_another_process_deletes_does_not_end_the_trim(
    store: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in range(6):
        store.put(f"{k:064}", bytes(300))
        os.utime(store.folder / f"{k:064}.o", (k, k))
    age = cache._age

    def deleting(found: tuple[os.stat_result, str]) -> tuple[int, str]:
        (store.folder / f"{3:064}.o").unlink(missing_ok=True)
        return age(found)

    monkeypatch.setattr(cache, "_age", deleting)
    store.limit = 1000
    store.trim()
    left = sorted(p.name for p in store.folder.glob("*.o"))
    assert left == [f"{k:064}.o" for k in (4, 5)]
