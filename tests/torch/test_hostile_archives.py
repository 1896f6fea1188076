"""Archives of `torch.export.save` in which torch would run code, or that grow without end."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import PirkitError

torch: Any = pytest.importorskip("torch", reason="needs torch")

from pirkit.torch.archive_check import is_size  # noqa: E402  imports torch

Records = dict[str, bytes]


class Evil:
    """An object whose pickle makes a folder when it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return __import__("os").mkdir, (self.path,)


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.scale = torch.full((3,), 2.0)

    def forward(self, x: Any) -> Any:
        return (self.linear(x) * self.scale).reshape(x.shape[0] * 3)


@pytest.fixture(scope="module")
def records() -> Records:
    """The records of an archive with weights, a constant and a symbolic size."""
    size = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(Model(), (torch.ones(5, 4),), dynamic_shapes=({0: size},))
    held = io.BytesIO()
    torch.export.save(exported, held)
    with zipfile.ZipFile(held) as archive:
        return {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}


def written(path: Path, records: Records, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, held in records.items():
            archive.writestr(f"model/{name}", held)
    return path


def changed(records: Records, name: str, old: str, new: str) -> Records:
    assert old in records[name].decode()
    return {**records, name: records[name].replace(old.encode(), new.encode())}


MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


def test_what_torch_writes_is_read(tmp_path: Path, records: Records) -> None:
    program = pirkit.torch.load_archive(written(tmp_path / "model.pt2", records))
    exe = pirkit.compile(program)
    (name,) = (p.name for p in exe.plan.inputs)
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    (found,) = exe.run({name: x}).values()
    by_name = {n: a for n, a in program.params.items()}
    want = (x @ by_name["linear.weight"].T + by_name["linear.bias"]) * 2
    np.testing.assert_allclose(found, want.reshape(-1), rtol=1e-5, atol=1e-6)


def _pickled_weight(r: Records, path: str) -> Records:
    held = io.BytesIO()
    torch.save(Evil(path), held)
    told = changed(r, WEIGHTS, '"use_pickle": false', '"use_pickle": true')
    return {**told, **{n: held.getvalue() for n in r if n.startswith("data/weights/weight_")}}


def _legacy_weights(r: Records, path: str) -> Records:
    held = io.BytesIO()
    torch.save({"linear.weight": Evil(path)}, held)
    return {**r, "data/weights/model.pt": held.getvalue()}


def _example_inputs(r: Records, path: str) -> Records:
    held = io.BytesIO()
    torch.save(((Evil(path),), {}), held)
    return {**r, "data/sample_inputs/model.pt": held.getvalue()}


def _object(r: Records, path: str) -> Records:
    told = changed(r, CONSTANTS, '"tensor_0"', '"opaque_obj_0"')
    return {**told, "data/constants/opaque_obj_0": pickle.dumps(Evil(path))}


def _size(r: Records, path: str) -> Records:
    (size,) = {held for key, held in _entries(r) if key == "expr_str" and "Mul" not in held}
    return changed(r, MODEL, f'"{size}"', f"\"__import__('os').mkdir('{path}')\"")


def _entries(r: Records) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []

    def keep(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        found.extend(entries)
        return dict(entries)

    json.loads(r[MODEL], object_pairs_hook=keep)
    return found


def _target(r: Records, path: str) -> Records:
    return changed(r, MODEL, "torch.ops.aten.linear.default", "torch.os.mkdir")


def _loader(r: Records, path: str) -> Records:
    return changed(r, MODEL, "torch.ops.aten.linear.default", "torch.ops.load_library.__call__")


def _library(r: Records, path: str) -> Records:
    return {**r, "data/aotinductor/model/model.so": b"\x7fELF"}


def _tree(r: Records, path: str) -> Records:
    spec = next(held for key, held in _entries(r) if key == "in_spec" and held)
    named = {"default_factory_module": "this", "default_factory_name": "s", "dict_context": "[]"}
    tree = {"type": "collections.defaultdict", "context": json.dumps(named), "children_spec": []}
    text = json.dumps(json.loads(r[MODEL]))
    text = text.replace(json.dumps(spec), json.dumps(json.dumps([1, tree])))
    assert "default_factory" in text
    return {**r, MODEL: text.encode()}


RUNNING: list[Callable[[Records, str], Records]] = [
    _pickled_weight, _legacy_weights, _example_inputs, _object, _size, _target, _loader, _library,
    _tree,
]  # fmt: skip


@pytest.mark.parametrize("change", RUNNING)
def test_code_is_not_run(change: Any, tmp_path: Path, records: Records) -> None:
    path = written(tmp_path / "model.pt2", change(records, str(tmp_path / "made")))
    with pytest.raises(PirkitError, match="torch could run code") as told:
        pirkit.torch.load_archive(path)
    assert told.value.code == "PK0500"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["packed", "repeated", "empty"])
def test_small_files_of_huge_tensors_are_refused(
    kind: str, tmp_path: Path, records: Records
) -> None:
    told, method = records, zipfile.ZIP_STORED
    if kind == "packed":
        told, method = {**records, "extra/zeros": bytes(100 << 20)}, zipfile.ZIP_DEFLATED
    else:
        config = json.loads(records[WEIGHTS])
        (meta,) = (config["config"][n]["tensor_meta"] for n in ["linear.bias"])
        meta["sizes"], meta["strides"] = [{"as_int": 1 << 38}], [{"as_int": 0}]
        told = {**records, WEIGHTS: json.dumps(config).encode()}
    if kind == "empty":
        told = {**told, "data/weights/weight_1": b""}
    with pytest.raises(PirkitError, match="input_bytes"):
        pirkit.torch.load_archive(written(tmp_path / "model.pt2", told, method))


def test_damaged_records_end_in_coded_errors(tmp_path: Path, records: Records) -> None:
    """Records cut, emptied, and left out."""
    for name in (MODEL, WEIGHTS, CONSTANTS, "data/sample_inputs/model.pt", "archive_format"):
        held = records[name]
        left = {n: r for n, r in records.items() if n != name}
        for told in (left, {**records, name: b""}, {**records, name: held[: len(held) // 2]}):
            try:
                pirkit.torch.load_archive(written(tmp_path / "model.pt2", told))
            except PirkitError as error:
                assert error.code in ("PK0500", "PK0506")  # noqa: PT017  some damage is harmless


@pytest.mark.parametrize(
    "text", ["s0", "3*s0", "s77 // 2 + 1", "Max(1, s0)", "PowByNatural(s0, 2)", "2**s0", "-u0",
             "Mod(s0, 4)", "Eq(s0, 3)", "s0 < 4", "1.5", "int_oo",
             "Mul(Integer(3), Symbol('s77', positive=True, integer=True))",
             "Pow(Symbol('s0'), Integer(-1))", "Float('1.5', precision=53)"],
)  # fmt: skip
def test_sizes(text: str) -> None:
    assert is_size(text)


@pytest.mark.parametrize(
    "text", ["s0.func", "lambdify(s0, s0)", "().__class__", "[s0]", "'s0'", "(lambda: s0)()",
             "__x__", "9**9**9**9**9", "2**100", "LShift(1, 999999)", "Max(*s0)", "Symbol('a b')",
             "Symbol(s0)",
             "Symbol('s0', positive=print(1))", "PowByNatural(64, PowByNatural(64, 65))",
             "2**(64*64)", "64**(64**(64**(64**64)))", "Max(key=s0)", "s0 if s0 else 1",
             "9" * 30, "x", "((", "(" * 5000, None],
)  # fmt: skip
def test_what_is_no_size(text: Any) -> None:
    assert not is_size(text)
