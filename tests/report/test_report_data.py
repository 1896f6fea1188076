"""The data of a report: rows, kernels, reasons, saved values, memory; without a browser."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

import pirkit
from pirkit.cli.report.command import report_dump
from pirkit.diag.errors import UsageError
from tests.unit.cli.test_opt_options import CORPUS, Run, file, run

__all__ = ["file", "run"]


def facts_of(path: Path) -> dict[str, Any]:
    """What a report shows of the only part of its input."""
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*)</script>', path.read_text()
    )
    (part,) = json.loads(text)
    return part


def rows_of(part: dict[str, Any], module: int) -> list[tuple[list[str], str, list[str]]]:
    """Results, op and operands of each row of a module."""
    found = (part["rows"][row] for _, rows in part["modules"][module] for row in rows)
    return [(results, part["strings"][op], operands) for results, op, operands, *_ in found]


def test_report_is_one_page_without_a_network(run: Run, file: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    assert run(file, "-p", "dce,cse,canonicalize", "--report", str(path))[0] == 0
    held = path.read_text().replace("http://www.w3.org/2000/svg", "")  # the name of a namespace
    assert not re.search(r"https?:|src=|@import|innerHTML", held)
    part = facts_of(path)
    assert [(s["name"], s["module"], s["sizes"]["main"]) for s in part["steps"]] == [
        ("(input)", 0, [6, 40]),
        ("dce", 0, [6, 40]),
        ("cse", 1, [5, 32]),
        ("canonicalize", 1, [5, 32]),
    ]
    assert (["b"], "pd_op.exp", ["x"]) in rows_of(part, 0)
    assert (["b"], "pd_op.exp", ["x"]) not in rows_of(part, 1)
    assert rows_of(part, 1)[2] == (["d"], "pd_op.add", ["a", "a"])
    assert "analysis: dce" in [group["head"] for group in part["remarks"]]
    assert part["files"][0]["lines"] == Path(file).read_text().splitlines()


def test_remarks_of_one_kind_are_one_row(run: Run, file: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    lines = "".join(
        f"  %v{k} = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
        f'  pir.shadow_output(%v{k}) {{output_name = "y{k}"}} : (tensor<2xf32>) -> ()\n'
        for k in range(9)
    )
    Path(file).write_text(f'pir.program @main(%x "x" : tensor<2xf32>) {{\n{lines}}}\n')
    assert run(file, "-p", "split", "--report", str(path))[0] == 0
    part = facts_of(path)
    group = part["remarks"][0]
    assert (group["pattern"], len(group["texts"])) == ("saves y…: … bytes, output", 9)
    kept = {(s["how"], s["bytes"], len(s["readers"])) for s in part["saved"]}
    assert kept == {("output", 8, 1)}


def test_kernels_are_linked_with_operations(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    net = str(CORPUS / "layer_norm_gelu" / "program.txt")
    assert run(net, "-p", "@default", "--report", str(path))[0] == 0
    part = facts_of(path)
    (fusion,) = part["fusion"]
    (plan,) = part["plans"]
    last = [row for _, rows in part["modules"][-1] for row in rows]
    kernels = [item for item in plan["rows"] if item["what"] == "pir.map_expr"]
    assert len(kernels) == len(set(k for _, k in fusion["kernelOf"]))
    for item in kernels:
        assert set(item["ops"]) <= set(last)
        texts = part["kernels"][item["kernel"]]
        assert "define" in texts["LLVM IR"]
        assert texts["name"] in fusion["kernels"]
    # what a kernel gives is what the operations in it gave, under the same names
    fused = {name for row, _ in fusion["kernelOf"] for name in part["rows"][row][0]}
    for item in kernels:
        assert fused >= set(part["rows"][item["ops"][0]][0])


def test_reasons_at_the_borders_of_kernels(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    net = str(CORPUS / "layer_norm_gelu" / "program.txt")
    assert run(net, "-p", "@default", "--report", str(path))[0] == 0
    part = facts_of(path)
    (fusion,) = part["fusion"]
    kernel_of = dict(fusion["kernelOf"])
    reasons = {(a, b): fusion["reasons"][r] for a, b, r in fusion["edges"]}
    rows = [row for _, held in part["modules"][fusion["module"]] for row in held]
    makers = {name: row for row in rows for name in part["rows"][row][0]}
    for row in rows:
        for name in part["rows"][row][2]:
            maker = makers[name]
            one = kernel_of.get(maker), kernel_of.get(row)
            assert (one[0] is not None and one[0] == one[1]) != ((maker, row) in reasons) or (
                not part["rows"][maker][2]  # a constant is a part of every kernel that reads it
            )


def test_arena_ranges_do_not_overlap(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    net = str(CORPUS / "mlp" / "program.txt")
    assert run(net, "-p", "@simplify", "--report", str(path))[0] == 0
    (plan,) = facts_of(path)["plans"]
    ranges = [r for r in plan["arena"] if r[4] == "arena"]
    assert ranges
    assert max(offset + size for offset, size, *_ in ranges) <= plan["nbytes"]
    for k, (offset, size, first, last, _) in enumerate(ranges):
        for other, length, begin, end, _ in ranges[k + 1 :]:
            in_time = begin < last and first < end  # an instruction may read one and write another
            assert not (in_time and other < offset + size and offset < other + length)


def test_report_of_a_dump(run: Run, file: str, tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    assert run(file, "-p", "dce,cse", "--dump", str(folder))[0] == 0
    assert report_dump(Namespace(folder=str(folder), output=None)) == 0
    part = facts_of(folder / "report.html")
    assert [(s["name"], s["sizes"]["main"]) for s in part["steps"]] == [
        ("(input)", [6, 40]),
        ("dce", [6, 40]),
        ("cse", [5, 32]),
    ]
    kept = {row for _, rows in part["modules"][1] for row in rows}
    assert len(kept & {row for _, rows in part["modules"][0] for row in rows}) == 4
    with pytest.raises(UsageError, match="is no dump"):
        report_dump(Namespace(folder=str(tmp_path), output=None))


def test_show_writes_a_page(file: str, tmp_path: Path) -> None:
    path = str(tmp_path / "out.html")
    program = pirkit.load(file)
    before = str(program)
    assert program.show(path, pipeline="cse") == path
    assert [s["name"] for s in facts_of(Path(path))["steps"]] == ["(input)", "cse"]
    assert str(program) == before
