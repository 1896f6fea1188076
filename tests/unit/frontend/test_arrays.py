"""``.npz`` files: what they hold, and those that lie."""

from __future__ import annotations

import errno
import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pirkit.diag.errors import ArtifactError, LimitError, PirkitError
from pirkit.diag.limits import DEFAULT, OFF, use_limits
from pirkit.frontend.arrays import read_npy, read_npz, write_npz


def refusal(path: Path) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        read_npz(str(path))
    return caught.value


def test_arrays_come_back(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    held = {
        "x/y": np.arange(6, dtype=np.int64).reshape(2, 3),
        "zero": np.array(2.5, np.float32),
        "none": np.zeros((0, 3), np.bool_),
        "half": np.array([1.5, -2], ml_dtypes.bfloat16),
        "file": np.ones(1),  # as parameters of `numpy.savez`
        "allow_pickle": np.ones(2),
    }
    write_npz(path, held)
    assert read_npz(path)["half"].dtype == np.uint16
    found = read_npz(path, {"half": "bfloat16", "absent": "bfloat16"})
    assert found.keys() == held.keys()
    for name, array in held.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_a_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.npz").code == "PK0506"


@pytest.mark.parametrize("read", [read_npz, read_npy])
def test_a_file_that_must_not_be_read_is_not_damaged(
    read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    (tmp_path / "a.npz").touch()
    with pytest.raises(ArtifactError, match="permissions forbid") as caught:
        read(str(tmp_path / "a.npz"))
    assert caught.value.code == "PK0506"


def test_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], object))
    assert refusal(tmp_path / "a.npz").code == "PK0507"


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(60):  # one level of deflate packs about 1000 to 1
            archive.writestr(f"{index}.npy", bytes(10_000))
    blank = bytearray(path.read_bytes())
    size = (10_000).to_bytes(4, "little")
    path.write_bytes(bytes(blank).replace(size, (500_000_000).to_bytes(4, "little")))
    with pytest.raises(LimitError, match=r"PK0302.*input_bytes"):
        read_npz(str(path))


def test_a_file_of_zeros_is_no_bomb_while_it_stays_small(tmp_path: Path) -> None:
    """What deflate packs 1000 to 1 is read up to the limit of input, or where limits are off."""
    path = str(tmp_path / "a.npz")
    np.savez_compressed(path, x=np.zeros(300_000))
    assert read_npz(path)["x"].size == 300_000
    with use_limits(replace(DEFAULT, input_bytes=1_000_000)), pytest.raises(LimitError):
        read_npz(path)
    with use_limits(OFF):
        assert read_npz(path)["x"].size == 300_000


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("x.npy", "x.npy"), ("x.npy", "x")])
def test_two_arrays_of_one_name_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for value, name in enumerate(names):
            held = io.BytesIO()
            np.save(held, np.full(3, value))
            archive.writestr(name, held.getvalue())
    error = refusal(tmp_path / "a.npz")
    assert error.code == "PK0507"
    assert "two arrays of the name 'x'" in error.message


def test_a_header_that_promises_more_than_there_is(tmp_path: Path) -> None:
    held = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)}
    np.lib.format.write_array_header_1_0(held, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", held.getvalue())
    assert refusal(tmp_path / "a.npz").code == "PK0507"


def test_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.arange(40.0), y=np.arange(3))
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [data[:n] for n in range(0, len(data), 9)]
    for _ in range(300):
        changed = bytearray(data)
        changed[rng.integers(len(data))] = rng.integers(256)
        damaged.append(bytes(changed))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            read_npz(str(path))
        except PirkitError as error:
            assert error.code in ("PK0302", "PK0507")  # noqa: PT017  damage may also be harmless
            refused += 1
    assert refused > 100


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        write_npz(str(tmp_path / "missing" / "a.npz"), {})
    assert caught.value.code == "PK0506"
