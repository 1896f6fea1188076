"""The campaigns of files and processes: short slices, and what they have found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("onnx")

import pirkit
from pirkit.diag.errors import PirkitError
from tools.campaigns import files, processes
from tools.campaigns.driver import SEVERE, Campaign, Found, main, read, served, table


def test_a_slice_of_mutated_files() -> None:
    severe = [f for number in range(25) for f in served(files.CAMPAIGN, 3, number)]
    assert not [f for f in severe if f.kind in SEVERE]


@pytest.mark.parametrize("word", ["0xFFFF800000", "0x1234567890"])
def test_bits_of_a_constant_that_do_not_fit_are_refused(word: str) -> None:
    text = (
        "module { func.func public @main() -> tensor<f32> {\n"
        f"  %0 = stablehlo.constant dense<{word}> : tensor<f32>\n"
        "  return %0 : tensor<f32>\n} }\n"
    )
    with pytest.raises(PirkitError) as told:
        pirkit.loads(text, format="stablehlo")
    assert told.value.code == "PK0106"


@pytest.mark.parametrize(
    ("before", "after"), [(b"Exp", b"E\xffp"), (b"\x08\x01\x12", b"\x08\x70\x12")]
)
def test_damaged_models_of_onnx_are_refused(before: bytes, after: bytes, tmp_path: Path) -> None:
    """A name that is no UTF-8, an element type that ONNX does not have."""
    b = pirkit.ProgramBuilder()
    b.output("y", b.exp(b.input("x", (2,), "float32")))
    path = tmp_path / "model.onnx"
    pirkit.onnx.save_model(b.finish(), path)
    data = path.read_bytes()
    assert before in data
    path.write_bytes(data.replace(before, after))
    with pytest.raises(PirkitError):
        pirkit.load(path)


def test_every_format_is_changed() -> None:
    assert {s.name for s in files.sources()} >= {"text", "json", "stablehlo", "plan", "weights"}


def test_a_process_that_is_interrupted_ends_well() -> None:
    assert not processes.examine(1, 0, "interrupt")


def test_the_table_counts_cases_by_kind() -> None:
    found = {0: [], 1: [Found("wrong", "a", "b", "c"), Found("wrong", "a", "d", "c")]}
    assert table({"x": found}).splitlines()[-1] == "| x | 2 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 0 |"


def test_a_campaign_goes_on_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.jsonl"
    out.write_text(json.dumps({"case": 0, "found": [["wrong", "case", "way", "what"]]}) + "\n")
    nothing = Campaign("op_table", lambda *_: [], lambda *_: "")
    assert main(nothing, ["--count", "1", "--out", str(out)]) == 1
    assert "wrong way: case 0: case: what" in capsys.readouterr().out
    assert list(read(out)) == [0]


def test_a_case_that_takes_too_long_is_a_hang() -> None:
    def endless(*_: object) -> list[Found]:
        while True:
            pass

    campaign = Campaign("op_table", endless, lambda *_: "endless", seconds=1)
    assert [f.kind for f in served(campaign, 0, 0)] == ["hang"]


def test_a_case_that_the_campaign_has_no_memory_to_compare_is_left_out() -> None:
    def large(*_: object) -> list[Found]:
        raise MemoryError("2 GiB")

    campaign = Campaign("op_table", large, lambda *_: "large")
    assert [f.kind for f in served(campaign, 0, 0)] == ["skipped"]
