"""``.pdiparams`` files: bit-exact both ways. Refusals are tested in ``tests/attacks``."""

from __future__ import annotations

import json
import os
import stat
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from pirkit.diag.errors import ArtifactError
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.params import parameter_metas, read_params, write_params
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, TensorMeta, of_array
from tests.frontend.json_documents import data, document, dumped, flags, parameter

Array = np.ndarray[Any, Any]

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
CASES: Final = sorted(p.parent for p in CORPUS.glob("*/model.pdiparams"))
SHAPES: Final = ((), (0,), (3,), (2, 0, 3), (4, 1, 5), (300,))


def random_bits(shape: tuple[int, ...], dtype: DType) -> Array:
    """Every pattern of bits is a value, NaNs with payload included; bools are 0 or 1."""
    rng = np.random.default_rng(5)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    raw = rng.integers(0, 2 if dtype is dt.bool_ else 256, size, np.uint8)
    return raw.view(dtype.np).reshape(shape)


def bits(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_captured_parameters_are_read_and_written_bit_exactly(case: Path, tmp_path: Path) -> None:
    module = read_paddle_json((case / "model.json").read_text(encoding="utf-8"))
    metas = parameter_metas(module)
    arrays = read_params(case / "model.pdiparams", metas)
    assert list(arrays) == sorted(metas)
    with np.load(case / "params.npz") as stored:
        for name, array in arrays.items():
            assert bits(array) == bits(stored[name])
    copy = tmp_path / "copy.pdiparams"
    write_params(copy, arrays)
    assert copy.read_bytes() == (case / "model.pdiparams").read_bytes()


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_dtype_and_shape_survives(
    shape: tuple[int, ...], dtype: DType, tmp_path: Path
) -> None:
    array = random_bits(shape, dtype)
    path = tmp_path / "p"
    write_params(path, {"w": array})
    found = read_params(path, {"w": TensorMeta(shape, dtype)})["w"]
    assert of_array(found) == TensorMeta(shape, dtype)
    assert bits(found) == bits(array)
    assert found.flags.writeable


def test_tensors_are_sorted_by_name(tmp_path: Path) -> None:
    arrays = {name: np.full(2, i, np.float32) for i, name in enumerate(("b", "a", "a.b", "B"))}
    path = tmp_path / "p"
    write_params(path, arrays)
    found = read_params(path, {name: of_array(a) for name, a in reversed(arrays.items())})
    assert list(found) == ["B", "a", "a.b", "b"]
    assert all(bits(found[name]) == bits(arrays[name]) for name in arrays)


def test_strided_array_is_written_in_row_major_order(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.int64).reshape(3, 4).T[::-1]
    path = tmp_path / "p"
    write_params(path, {"w": array})
    np.testing.assert_array_equal(read_params(path, {"w": of_array(array)})["w"], array)


def test_header_is_the_documented_one(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_params(path, {"w": np.zeros((8, 300), np.float32)})
    message = bytes.fromhex("0805 1008 10ac02")
    assert path.read_bytes()[: 20 + 7] == struct.pack("<IQIi", 0, 0, 0, 7) + message


def test_levels_and_packed_dimensions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "p"
    levels = struct.pack("<QQQQ", 24, 0, 1, 3) + struct.pack("<Q", 0)
    message = bytes.fromhex("0805 1202 0301")
    head = struct.pack("<IQ", 0, 2) + levels + struct.pack("<Ii", 0, len(message)) + message
    path.write_bytes(head + np.arange(3, dtype=np.float32).tobytes())
    found = read_params(path, {"w": TensorMeta((3, 1), dt.float32)})["w"]
    np.testing.assert_array_equal(found, np.arange(3, dtype=np.float32).reshape(3, 1))


def test_unknown_dimension_takes_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_params(path, {"w": np.zeros((5, 2), np.float32)})
    found = read_params(path, {"w": TensorMeta((UNKNOWN, 2), dt.float32)})
    assert found["w"].shape == (5, 2)


def test_mismatch_names_parameter_place_and_both_types(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_params(path, {"a": np.zeros(1, np.float32), "w": np.zeros((5, 2), np.float32)})
    metas = {name: TensorMeta((1,), dt.float32) for name in ("a", "w")}
    with pytest.raises(ArtifactError) as caught:
        read_params(path, metas)
    assert caught.value.code == "PK0504"
    assert "parameter `w` at byte 28" in caught.value.message
    assert "tensor<5x2xf32>" in caught.value.message
    assert "tensor<1xf32>" in caught.value.message


def test_program_without_parameters_has_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_params(path, {})
    assert path.read_bytes() == b""
    assert read_params(path, {}) == {}


def test_missing_file_has_its_code(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(ArtifactError) as caught:
            read_params(path, {})
        assert caught.value.code == "PK0506"


def test_array_that_no_program_holds_is_refused(tmp_path: Path) -> None:
    for array in (np.zeros(2, np.uint64), np.array(["a"]), np.array([None])):
        with pytest.raises(ArtifactError) as caught:
            write_params(tmp_path / "p", {"w": array})
        assert caught.value.code == "PK0500"
    assert not list(tmp_path.iterdir())


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p"
    write_params(path, {"w": np.zeros(2, np.float32)})
    before = path.read_bytes()

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(ArtifactError) as caught:
        write_params(path, {"w": np.ones(9, np.float32)})
    assert caught.value.code == "PK0506"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    path, other = tmp_path / "p", tmp_path / "q"
    write_params(path, {})
    other.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_only_persistable_values_are_stored() -> None:
    kept = data(3, "state", 2, element="i64")
    kept["OA"].insert(0, flags("persistable", True))
    tree = document(
        parameter(1, "w", 2, 3),
        parameter(2, "buffer", 4, stored=0),
        kept,
        data(4, "x", 2),
        parameter(5, "b", 1),
    )
    metas = parameter_metas(read_paddle_json(dumped(tree)))
    assert list(metas) == ["b", "state", "w"]
    assert metas["state"] == TensorMeta((2,), dt.int64)


def test_corpus_says_which_parameters_are_stored() -> None:
    for case in CASES:
        listed = json.loads((case / "meta.json").read_text(encoding="utf-8"))["parameters"]
        shapes = {p["name"]: tuple(p["shape"]) for p in listed}
        module = read_paddle_json((case / "model.json").read_text(encoding="utf-8"))
        for name, meta in parameter_metas(module).items():
            assert shapes[name] == meta.shape


def test_bytes_behind_the_last_parameter_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pdiparams"
    arrays = {"w": np.arange(6, dtype=np.float32)}
    write_params(path, arrays)
    metas = {name: of_array(array) for name, array in arrays.items()}
    assert read_params(path, metas).keys() == arrays.keys()
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ArtifactError, match="1 bytes are left after the last parameter") as refused:
        read_params(path, metas)
    assert refused.value.code == "PK0504"
