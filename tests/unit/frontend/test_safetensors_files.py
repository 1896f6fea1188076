"""Weights in ``.safetensors`` files: every element type, damage, and a program that runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pirkit
from pirkit.cli.input_files import read_inputs
from pirkit.diag.errors import ArtifactError, UsageError
from pirkit.frontend.safetensors_files import _DTYPES, read_safetensors, write_safetensors
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

LENET = Path(__file__).parents[2] / "corpus" / "paddle" / "lenet"


@pytest.mark.parametrize("dtype", _DTYPES.values(), ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_arrays_come_back_as_they_were(
    dtype: DType, shape: tuple[int, ...], tmp_path: Path
) -> None:
    path = str(tmp_path / "w.safetensors")
    given = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.np)
    write_safetensors(path, {"w": given.T, "b": given})
    found = read_safetensors(path)
    assert found["w"].dtype == dtype.np
    assert found["b"].shape == shape
    np.testing.assert_array_equal(found["w"], given.T)
    np.testing.assert_array_equal(found["b"], given)


def test_an_element_type_that_the_format_lacks_leaves_no_file(tmp_path: Path) -> None:
    program = pirkit.trace(lambda x: x * x, np.ones(3, np.complex128))
    program.params["w"] = np.ones(3, np.complex128)
    with pytest.raises(UsageError, match="`w` has elements of type complex128"):
        pirkit.save(program, tmp_path / "p.mlir", params=tmp_path / "w.safetensors")
    assert not list(tmp_path.iterdir())


def test_bfloat16_in_npz_is_read_as_declared(tmp_path: Path) -> None:
    w, x = np.array([1.5, -2, 3], dt.bfloat16.np), np.ones(3, dt.bfloat16.np)
    program = pirkit.trace(lambda w, x: w + x, pirkit.parameters(w), x)
    pirkit.save(program, tmp_path / "p.mlir", params=tmp_path / "w.npz")
    again = pirkit.load(tmp_path / "p.mlir", params=tmp_path / "w.npz")
    assert again.params["w"].dtype == dt.bfloat16.np
    np.savez(tmp_path / "x.npz", x=x.view(np.uint16))
    np.save(tmp_path / "x.npy", x.view(np.uint16))
    executable = pirkit.compile(again)
    for name in ("x.npz", "x.npy"):
        (found,) = executable(**read_inputs(str(tmp_path / name), executable)).values()
        np.testing.assert_array_equal(found.astype(np.float32), [2.5, -1, 4])


def test_a_program_runs_on_weights_of_a_safetensors_file(tmp_path: Path) -> None:
    program = pirkit.load(LENET / "model.json")
    weights = tmp_path / "lenet.safetensors"
    pirkit.save(program, tmp_path / "lenet.mlir", params=weights)
    again = pirkit.load(tmp_path / "lenet.mlir", params=weights)
    assert again.params.keys() == program.params.keys()
    for name, array in program.params.items():
        np.testing.assert_array_equal(again.params[name], array)


@pytest.mark.parametrize("length", [0, 7, 8, 60])
def test_a_truncated_file_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_safetensors(str(path), {"w": np.ones((4, 4), np.float32)})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ArtifactError, match=r"no usable .safetensors file") as caught:
        read_safetensors(str(path))
    assert caught.value.code == "PK0504"


@pytest.mark.parametrize(
    ("kind", "data", "want"),
    [("BF16", "803f", 1.0), ("F16", "003c", 1.0), ("F32", "0000803f", 1.0), ("I16", "feff", -2),
     ("U8", "ff", 255), ("I8", "ff", -1), ("I64", "feffffffffffffff", -2), ("BOOL", "01", True),
     ("F64", "000000000000f03f", 1.0), ("C64", "0000803f00000040", 1 + 2j)],
)  # fmt: skip
def test_names_of_element_types_are_those_of_the_format(
    kind: str, data: str, want: complex, tmp_path: Path
) -> None:
    """By bytes that nobody here has written; types of one size would be mistaken silently."""
    held = bytes.fromhex(data)
    header = f'{{"w":{{"dtype":"{kind}","shape":[1],"data_offsets":[0,{len(held)}]}}}}'.encode()
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + held)
    assert read_safetensors(str(tmp_path / "w.safetensors"))["w"].tolist() == [want]


@pytest.mark.parametrize(("second", "told"), [("[4,8]", ""), ("[0,4]", "the name 'w'")])
def test_two_arrays_of_one_name_are_refused(second: str, told: str, tmp_path: Path) -> None:
    """Without this the library keeps one of them, or calls the other one's bytes unused."""
    entry = '"w":{"dtype":"F32","shape":[1],"data_offsets":'
    first = '"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = f"{{{first},{entry}[0,4]}},{entry}{second}}}}}".encode()
    data = len(header).to_bytes(8, "little") + header + bytes(4 if second == "[0,4]" else 8)
    (tmp_path / "w.safetensors").write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        read_safetensors(str(tmp_path / "w.safetensors"))
    assert told in str(caught.value)
    assert caught.value.code == "PK0504"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        pirkit.load(LENET / "model.json", params=tmp_path / "no.safetensors")
    assert caught.value.code == "PK0506"


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pirkit.PirkitError, match=r"\.safetensors or \.npz"):
        pirkit.save(pirkit.load(LENET / "model.json"), tmp_path / "l.mlir", params="w.bin")


def test_the_name_of_the_metadata_names_no_tensor(tmp_path: Path) -> None:
    """The file could not be read again."""
    with pytest.raises(UsageError, match="__metadata__"):
        write_safetensors(str(tmp_path / "w"), {"__metadata__": np.ones(2, np.float32)})
    assert not list(tmp_path.iterdir())
