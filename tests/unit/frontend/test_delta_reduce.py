"""Programs that are made smaller while an oracle holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.verify import verify_module
from pirkit.frontend import delta_reduce
from pirkit.frontend.delta_reduce import outer_operations, reduce
from pirkit.frontend.files import parse

TEXT = """pir.program @main(%x "x" : tensor<2x3xf32>, %w "w" : tensor<3x4xf32>) {
  %n = pd_op.full() {shape = array<i64: 1>, value = 2.0 : f64} : () -> tensor<1xf32>
  %a = pd_op.exp(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = pd_op.scale(%a, %n) : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  %c = pd_op.sin(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %d = pd_op.matmul(%c, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %e = pd_op.sum(%d) {axis = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %f = pd_op.add(%e, %e) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%f) {output_name = "y"} : (tensor<2xf32>) -> ()
}
"""


def names(module: ModuleOp) -> list[str]:
    return [op.name.removeprefix("pd_op.") for op in outer_operations(module)]


def holding(*needed: str) -> Callable[[ModuleOp], bool]:
    """Whether a module is valid and has operations of these names that something reads."""

    def oracle(module: ModuleOp) -> bool:
        verify_module(module)
        live = [op for op in outer_operations(module) if op.results and op.results[0].uses]
        return {*needed} <= {op.name.removeprefix("pd_op.") for op in live}

    return oracle


def test_what_reads_results_of_another_type_is_removed() -> None:
    found = reduce(parse(TEXT), holding("sin"))
    assert names(found.module) == ["sin", "pir.shadow_output"]


def test_likely_operations_are_tried_first() -> None:
    module = parse(TEXT)
    found = reduce(module, holding("sin"), likely={names(module).index("sin")})
    assert names(found.module) == ["sin", "pir.shadow_output"]
    assert found.tried < reduce(module, holding("sin")).tried


def test_neighbours_of_likely_operations_are_added() -> None:
    module = parse(TEXT)
    tried: list[list[str]] = []

    def oracle(trial: ModuleOp) -> bool:
        tried.append(names(trial))
        return holding("scale", "matmul")(trial)

    found = reduce(module, oracle, likely={names(module).index("sin")})
    # The constant is still one: an input in its place would be another program.
    assert tried[1] == ["full", "scale", "sin", "matmul", "pir.shadow_output"]
    assert {"scale", "matmul"} <= {*names(found.module)}
    assert len(names(found.module)) <= len(tried[1])


@pytest.mark.parametrize(("factor", "is_ended"), [(5, False), (20, True)])
def test_a_busy_machine_does_not_end_it(
    factor: int, is_ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.chain([0.0], itertools.repeat(600.0 * factor))
    monkeypatch.setattr(delta_reduce.time, "monotonic", lambda: next(clock))
    found = reduce(parse(TEXT), holding("sin"), seconds=600.0)
    assert (found.tried == 0) is is_ended
    assert is_ended or names(found.module) == ["sin", "pir.shadow_output"]
