"""Files of other programs are recognised by their content."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.frontend.files import load, loads
from pirkit.frontend.safetensors_files import write_safetensors


def _zip(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, b"\xff")
    return data.getvalue()


def _saved(save: Callable[[io.BytesIO], None]) -> bytes:
    data = io.BytesIO()
    save(data)
    return data.getvalue()


FILES = {
    "TorchScript": _zip("m/code/__torch__.py", "m/data.pkl"),
    "torch.save": _zip("m/data.pkl", "m/data/0"),
    ".npz": _saved(lambda f: np.savez(f, x=np.ones(3))),
    "zip archive": _zip("readme.txt"),
    "damaged zip": _zip("name")
    .replace(b"name", b"\xff\xfe\xff\xff")
    .replace(b"\x14\x00\x00\x00\x00\x00", b"\x14\x00\x00\x08\x00\x00"),
    "pickle": pickle.dumps({"w": np.ones(300)}),
    ".npy": _saved(lambda f: np.save(f, np.full(9, -1.5))),
    "HDF5": b"\x89HDF\r\n\x1a\n\xff\xff",
    "gzip": b"\x1f\x8b\x08\xff",
    "bytecode of MLIR": b"ML\xefR\x01\xff",
    "ONNX": b"\x08\x08\x12\x07pytorch\x1a\x05\xff",
    "Paddle 2": b"\x0a\x87\x02\x0a\x04feed\x12\x00\xff",
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_is_named_and_the_remedy_told(what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(FILES[what])
    with pytest.raises(PirkitError, match=what) as caught:
        load(path)
    assert caught.value.code == "PK0405"
    assert caught.value.help


def test_weights_are_no_program(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    write_safetensors(str(path), {"w": np.full((4, 4), 1.5, np.float32)})
    with pytest.raises(PirkitError, match="safetensors") as caught:
        load(path)
    assert "--params" in str(caught.value.help)


@pytest.mark.parametrize(
    ("op", "remedy"),
    [
        ("tosa.tanh %a : tensor<3xf32>", "another framework"),
        ("arith.negf %a : f32", "another framework"),
    ],
)
def test_dialects_of_other_tools(op: str, remedy: str) -> None:
    text = f"module @m {{\n  func.func @f(%a: tensor<3xf32>) {{\n    %0 = {op}\n  }}\n}}\n"
    with pytest.raises(PirkitError, match="unknown dialect `func`") as caught:
        loads(text)
    assert caught.value.code == "PK0404"
    assert remedy in str(caught.value.help)


def test_the_short_name_of_a_module_is_read() -> None:
    assert "@main" in str(loads("module {\n  pir.program @main {\n  }\n}\n"))


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("pir.program @main {\n  %a = pd_op.tanh(%no", "PK0102", 22),
        ("pir.program @main {\n", "PK0102", 20),
        ("pir.program @main {\n  %a = pd_op.tanh(%no) : (tensor<2xf32>) -> tensor<2xf32>\n}",
         "PK0103", 19),
    ],
)  # fmt: skip
def test_cut_texts_and_undefined_values_have_a_place(text: str, code: str, column: int) -> None:
    with pytest.raises(PirkitError) as caught:
        loads(text)
    span = caught.value.span
    assert caught.value.code == code
    assert span is not None
    assert span.column == column
