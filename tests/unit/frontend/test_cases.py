"""Checking a case: what counts as equal, and cases that are damaged or wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.diag.errors import ArtifactError, InputError
from pirkit.frontend.arrays import read_npz, write_npz
from pirkit.frontend.cases import Tolerance, check_case, open_case

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
LOOSE = Tolerance(rtol=0.1, floor=1.0)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CORPUS / "mlp", tmp_path / "mlp"))


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, 3.0], [1.0, 3.0], 0.0),
        ([1.0, 3.4], [1.0, 3.0], 0.1),
        ([0.5, 0.0], [0.0, 0.0], 0.5),
        ([], [], 0.0),
        ([np.nan, 3.0], [np.nan, 3.0], 0.0),
        ([np.nan, 3.0], [1.0, 3.0], np.inf),
        ([1.0, 3.0], [np.nan, 3.0], np.inf),
        ([np.inf], [np.inf], 0.0),
        ([-np.inf], [np.inf], np.inf),
        ([1 + 1j], [1 + 1j], 0.0),
        ([1 + 4j], [4j], 0.2),
    ],
)
def test_the_error_of_an_array(found: Any, expected: Any, error: float) -> None:
    assert LOOSE.error(np.array(found), np.array(expected)) == pytest.approx(error)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_must_be_equal(dtype: Any) -> None:
    one = np.array([1, 0], dtype)
    assert LOOSE.error(one, one) == 0
    assert LOOSE.error(one, one[::-1]) == np.inf


@pytest.mark.parametrize("source", ["main", "json"])
def test_a_wrong_number_fails(case: Path, source: str) -> None:
    file = str(case / ("outputs.npz" if source == "main" else "infer_outputs.npz"))
    arrays = read_npz(file)
    arrays["step2/0"] = arrays["step2/0"] + np.float32(0.1)
    write_npz(file, arrays)
    report = check_case(case, source)
    assert report.failed
    assert report.message.startswith("output 0: error ")
    assert report.errors["output"] > report.tolerance


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a: a.astype(np.float64), "float32[4, 3], expected float64[4, 3]"),
        (lambda a: a[:2], "float32[4, 3], expected float32[2, 3]"),
    ],
)
def test_a_wrong_type_fails(case: Path, change: Callable[[Any], Any], text: str) -> None:
    arrays = read_npz(str(case / "outputs.npz"))
    arrays["step1/0"] = change(arrays["step1/0"])
    write_npz(str(case / "outputs.npz"), arrays)
    report = check_case(case, "main")
    assert report.failed
    assert report.message == f"output 0: {text}"


def test_an_output_that_is_not_computed_fails(case: Path) -> None:
    arrays = read_npz(str(case / "outputs.npz"))
    arrays["step1/7"] = arrays["step1/0"]
    write_npz(str(case / "outputs.npz"), arrays)
    assert check_case(case, "main").message == "output 7 is not computed"


def test_a_buffer_is_compared(tmp_path: Path) -> None:
    case = Path(shutil.copytree(CORPUS / "buffer_update", tmp_path / "case"))
    arrays = read_npz(str(case / "params_after.npz"))
    arrays["step2/eager_tmp_1"] += 1
    write_npz(str(case / "params_after.npz"), arrays)
    assert check_case(case, "main").message == "buffer eager_tmp_1: error inf"


def test_a_case_without_export_is_skipped() -> None:
    assert check_case(CORPUS / "nested_outputs", "json").status == "skip"


@pytest.mark.parametrize(
    "file",
    ["meta.json", "names.json", "inputs.npz", "outputs.npz", "params.npz", "program.txt"],
)
@pytest.mark.parametrize("kept", [None, 0.0, 0.4, 0.97])
def test_a_missing_or_truncated_file(case: Path, file: str, kept: float | None) -> None:
    path = case / file
    data = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(InputError):
        check_case(case, "main")


def edits() -> list[tuple[str, Callable[[Any], object], str]]:
    return [
        ("meta.json", lambda t: t.pop("tolerance"), "all of it"),
        ("meta.json", lambda t: t["tolerance"].pop("floor"), "tolerance"),
        ("meta.json", lambda t: t["tolerance"].update(rtol="1e-4"), "tolerance.rtol"),
        ("meta.json", lambda t: t.update(inputs={}), "inputs"),
        ("meta.json", lambda t: t["inputs"][0].update(dtype="float33"), "inputs[0].dtype"),
        ("meta.json", lambda t: t["parameters"].insert(0, None), "parameters[0]"),
        ("names.json", lambda t: t.pop("fo"), "all of it"),
        ("names.json", lambda t: t.update(fx=[1]), "fx[0]"),
    ]


@pytest.mark.parametrize(("file", "edit", "place"), edits())
def test_a_table_of_another_form(
    case: Path, file: str, edit: Callable[[Any], object], place: str
) -> None:
    table = json.loads((case / file).read_text())
    edit(table)
    (case / file).write_text(json.dumps(table))
    with pytest.raises(ArtifactError) as caught:
        open_case(case)
    assert caught.value.code == "PK0602"
    assert f"{file} is damaged: {place} has" in caught.value.message


@pytest.mark.parametrize(
    ("text", "code"),
    [("[]", "PK0602"), ("1", "PK0602"), ("null", "PK0602"), ("[" * 200_000, "PK0501")],
    ids=["list", "number", "null", "deep"],
)
def test_a_table_that_is_none(case: Path, text: str, code: str) -> None:
    (case / "meta.json").write_text(text)
    with pytest.raises(ArtifactError) as caught:
        open_case(case)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("source", "file", "name"),
    [
        ("main", "outputs.npz", "step2/0"),
        ("json", "infer_outputs.npz", "step2/0"),
        ("main", "inputs.npz", "step1/_jst.0.x.0"),
        ("json", "inputs.npz", "step1/_jst.0.x.0"),
    ],
)
def test_an_array_that_was_not_recorded(case: Path, source: str, file: str, name: str) -> None:
    arrays = read_npz(str(case / file))
    del arrays[name]
    write_npz(str(case / file), arrays)
    with pytest.raises(ArtifactError, match=f"has no array {name}") as caught:
        check_case(case, source)
    assert caught.value.code == "PK0602"
