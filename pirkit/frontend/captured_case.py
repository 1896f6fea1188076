"""The folder of a captured case, opened: its tables are checked, its arrays are read on demand.

The format is described in ``tests/corpus/paddle/README.md``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import ArtifactError
from pirkit.diag.span import Span
from pirkit.frontend.arrays import read_npz
from pirkit.frontend.files import read_text
from pirkit.runtime.dtype import BY_NAME

Array = np.ndarray[Any, Any]

_TENSOR: Final = {"name": str, "dtype": tuple(BY_NAME)}
_META: Final = {
    "inputs": [_TENSOR],
    "outputs": [{"dtype": tuple(BY_NAME)}],
    "parameters": [{**_TENSOR, "written_by_forward": bool, "trainable": bool}],
    "mode": ("train", "eval"),
    "tolerance": {"rtol": float, "floor": float},
}
_NAMES: Final = {"fx": [str], "fp": [str], "fo": [str]}
_TRAINING_META: Final = {"learning_rate": float}
_TRAINING_NAMES: Final = {"bo_g": [str], "bx_g": [str], "bp_g": [str]}
"""The last five are forms that ``meta.json`` and ``names.json`` must have: a dict stands for a
table with these fields, a list for a list whose items have its one form, a type for a value of the
type, and a tuple for one of its values."""


@dataclass(frozen=True)
class Tolerance:
    """Floating results agree if ``max|a - b| <= rtol * (max|b| + floor)``; others must be equal."""

    rtol: float
    floor: float

    def error(self, found: Array, expected: Array) -> float:
        """``max|a - b| / (max|b| + floor)`` of two arrays of one shape, 0 if they are empty.

        It is infinite if integers differ, or NaN and infinities are not at the same places.
        """
        if expected.size == 0:
            return 0.0
        if expected.dtype.kind in "biu":
            return 0.0 if np.array_equal(found, expected) else float("inf")
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        a, b = found.astype(wide), expected.astype(wide)
        special = ~np.isfinite(a) | ~np.isfinite(b)
        if not np.array_equal(a[special], b[special], equal_nan=True):
            return float("inf")
        a, b = a[~special], b[~special]
        if b.size == 0:
            return 0.0
        return float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) + self.floor))


@dataclass(frozen=True)
class Case:
    """One case folder, opened."""

    folder: Path
    meta: Mapping[str, Any]
    """The content of ``meta.json``: inputs, outputs, parameters, mode and tolerance."""
    names: Mapping[str, Any]
    """The content of ``names.json``: which names the forward and backward programs give to inputs
    (``fx``), parameters (``fp``), outputs (``fo``) and their gradients (``bx_g``...)."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def tolerance(self) -> Tolerance:
        held = self.meta["tolerance"]
        return Tolerance(float(held["rtol"]), float(held["floor"]))

    def arrays(self, file: str) -> dict[str, Array]:
        """The arrays of one of the folder's ``.npz`` files, with their true dtypes.

        Raises what `read_npz` raises.
        """
        arrays = read_npz(str(self.folder / file))
        true = self._true_dtypes()
        bits = {k: "bfloat16" for k in arrays if true.get(k.rpartition("/")[2]) == "bfloat16"}
        return read_npz(str(self.folder / file), bits) if bits else arrays

    @property
    def trains(self) -> bool:
        """True if the case has gradients and updates."""
        return self.meta["mode"] == "train"

    def step(self, file: str, step: int, needed: Iterable[str] = ()) -> dict[str, Array]:
        """The arrays of one step, counted from 1, by name.

        Raises ArtifactError (PK0602) if one that is ``needed`` was not recorded.
        """
        prefix = f"step{step}/"
        arrays = self.arrays(file).items()
        recorded = {n.removeprefix(prefix): a for n, a in arrays if n.startswith(prefix)}
        for name in needed:
            if name not in recorded:
                path = self.folder / file
                raise ArtifactError(
                    f"{path} has no array {prefix}{name}", code="PK0602", span=Span(str(path))
                )
        return recorded

    def _true_dtypes(self) -> dict[str, str]:
        """Dtypes by the names under which arrays are stored: outputs are so by number."""
        dtypes = {
            str(item["name"]): str(item["dtype"])
            for key in ("inputs", "parameters", "outputs")
            for item in self.meta[key]
        }
        for index, item in enumerate(self.meta["outputs"]):
            dtypes[str(item.get("index", index))] = str(item["dtype"])
        return dtypes


def open_case(folder: str | Path) -> Case:
    """Open the folder of a case.

    Raises ArtifactError if it does not exist, or its tables are missing or have another form
    (PK0602), or are no JSON (PK0501).
    """
    path = Path(folder)
    for file in ("meta.json", "names.json"):
        if not os.path.isfile(path / file):
            raise ArtifactError(
                f"{path} is no captured case: it has no {file}",
                code="PK0602",
                span=Span(str(path / file)),
                help="a case is a folder in the format of tests/corpus/paddle/README.md",
            )
    case = Case(path, _read_json(path / "meta.json"), _read_json(path / "names.json"))
    for file, held, fields in (("meta.json", case.meta, _META), ("names.json", case.names, _NAMES)):
        _check_fields(path / file, held, fields)
    if case.trains:
        _check_fields(path / "meta.json", case.meta, _TRAINING_META)
        _check_fields(path / "names.json", case.names, _TRAINING_NAMES)
    return case


def _read_json(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(read_text(str(path)))
    except json.JSONDecodeError as error:
        raise ArtifactError(
            f"{path} is no JSON: {error.msg}",
            code="PK0501",
            span=Span(str(path), error.lineno, error.colno),
        ) from error
    except RecursionError as error:
        raise ArtifactError(
            f"{path} is nested too deep", code="PK0501", span=Span(str(path))
        ) from error
    if not isinstance(held, dict):
        raise ArtifactError(f"{path} holds no table", code="PK0602", span=Span(str(path)))
    return cast("dict[str, Any]", held)


def _check_fields(file: Path, held: Any, wanted: Any, place: str = "") -> None:
    """Raise ArtifactError (PK0602) unless a JSON value has the wanted form."""
    parts: list[tuple[str, Any, Any]] = []
    match wanted:
        case dict():
            fields = cast("dict[str, Any]", wanted)
            right = isinstance(held, dict) and fields.keys() <= cast("set[str]", held.keys())
            if right:
                parts = [(f"{place}.{name}", held[name], form) for name, form in fields.items()]
        case list():
            right = isinstance(held, list)
            if right:
                items = cast("list[Any]", held)
                parts = [(f"{place}[{i}]", x, wanted[0]) for i, x in enumerate(items)]
        case tuple():
            right = held in wanted
        case _:
            right = isinstance(held, (int, float) if wanted is float else wanted)
    if not right:
        raise ArtifactError(
            f"{file} is damaged: {place.removeprefix('.') or 'all of it'} has another form",
            code="PK0602",
            span=Span(str(file)),
            help="the format is described in tests/corpus/paddle/README.md",
        )
    for name, item, form in parts:
        _check_fields(file, item, form, name)
