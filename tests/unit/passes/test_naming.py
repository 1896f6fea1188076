"""Names of dimensions in `infer-meta`: given, carried, bound, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PassError, UsageError
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text
from pirkit.passes import run_pipeline

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"


def program(x: str, y: str = "tensor<?xf32>", body: str = "") -> ModuleOp:
    return parse_mlir(f'pir.program @main(%x "x" : {x}, %y "y" : {y}) {{\n{body}\n}}')


def dims(*names: str) -> str:
    return "#pir.dims<[" + ", ".join(f'"{n}"' for n in names) + "]>"


N = f"tensor<?xf32, {dims('N')}>"
TWICE = f"tensor<?xf32, {dims('2*N+1')}>"


def after(module: ModuleOp, options: str = "") -> str:
    run_pipeline(module, f"infer-meta{{{options}}}" if options else "infer-meta")
    return print_mlir(module)


def test_a_captured_program_gets_names() -> None:
    text = (CORPUS / "dynamic_batch" / "program.txt").read_text(encoding="utf-8")
    module = read_paddle_text(text)
    printed = after(module)
    results = [line.rpartition("-> ")[2] for line in printed.splitlines() if "pd_op." in line]
    assert len(results) == 6
    assert all(f"{dims('S0', '')}>" in result for result in results)
    assert write_paddle_text(module) == text


def test_each_open_dimension_has_a_name_of_its_own() -> None:
    printed = after(program("tensor<?x?xf32>", f"tensor<?xf32, {dims('S1')}>"))
    assert dims("S0", "S2") in printed
    assert dims("S1") in printed


def test_no_names_are_given_if_none_are_wanted() -> None:
    assert "pir.dims" not in after(program("tensor<?xf32>"), "symbols=none")


def test_names_survive_simplification() -> None:
    body = "%a = pd_op.relu(%x) : (tensor<?xf32>) -> tensor<?xf32>\n"
    body += '  pir.shadow_output(%a) {output_name = "a"} : (tensor<?xf32>) -> ()'
    module = program("tensor<?xf32>", body=body)
    run_pipeline(module, "infer-meta{symbols=x:N},@simplify")
    assert f"-> {N}" in print_mlir(module)


def test_a_size_of_a_name() -> None:
    printed = after(program(N, TWICE), "bind=N:4")
    assert '"x" : tensor<4xf32>, %y "y" : tensor<9xf32>' in printed


def test_a_shape_tells_the_size_of_its_name() -> None:
    assert '"x" : tensor<4xf32>' in after(program(N, TWICE), "bind=y:9")


def test_a_name_that_no_input_has_goes_once_it_is_bound() -> None:
    body = f"%a = pd_op.assign(%y) : (tensor<?xf32>) -> {TWICE}"
    printed = after(program(N, body=body), "bind=N:4,symbols=none")
    assert "2*N" not in printed


def test_a_stated_name_stays_where_no_rule_tells_one() -> None:
    body = f"%a = pd_op.nonzero(%x) : ({N}) -> tensor<?x1xi64, {dims('K', '')}>\n"
    body += f"  %b = pd_op.assign(%a) : (tensor<?x1xi64, {dims('K', '')}>) -> tensor<?x1xi64>"
    assert after(program(N, body=body)).count(f"-> tensor<?x1xi64, {dims('K', '')}>") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("symbols=x:n", "names no dimensions"),
        ("symbols=x", "names no dimensions"),
        ("symbols=x:NxM", "names 2 dimensions of input `x`"),
        ("symbols=z:N", "cannot name dimensions of `z`"),
        ("bind=K:4", "cannot bind `K`"),
        ("bind=N:?", "takes one size"),
        ("bind=N:4x4", "takes one size"),
        ("bind=y:8", r"is `2\*N\+1` and cannot be 8"),
        ("bind=N:4,y:11", r"is `2\*N\+1` and cannot be 11"),
        ("bind=N:4,x:5", "is `N` and cannot be 5"),
    ],
)
def test_what_cannot_be(options: str, message: str) -> None:
    with pytest.raises((PassError, UsageError), match=message) as caught:
        after(program(N, TWICE), options)
    is_used_wrongly = "names no" in message or "cannot name" in message or "cannot bind" in message
    assert caught.value.code == ("PK0703" if is_used_wrongly else "PK0801")


def test_a_size_below_zero() -> None:
    with pytest.raises(PassError, match="cannot be negative"):
        after(program(N, f"tensor<?xf32, {dims('N-3')}>"), "bind=N:1")
