"""Where the backward of a joint program begins, and which names its halves get."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from xdsl.ir import SSAValue

import pirkit
from pirkit.diag.errors import UsageError
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.verify import verify_module
from pirkit.passes import run_pipeline
from pirkit.split.add_gradients import differentiated
from pirkit.split.joint import Roles, _boundary, joint_of  # pyright: ignore[reportPrivateUsage]
from pirkit.split.recompute import reads
from pirkit.split.reorder import _is_current  # pyright: ignore[reportPrivateUsage]
from pirkit.split.split_pass import is_half
from pirkit.split.storage_versions import Contents, Need
from tests.execution import parsed
from tests.split.model import T, op, output, parameter, program, split

SEED = (
    f'%g = pd_op.data() {{name = "g", shape = array<i64: 2, 3>, dtype = #pir.dtype<float64>}} '
    f": () -> {T}"
)
MAKES, READS = f"%a = {op('tanh', '%x')}", f"%r = {op('multiply', '%g', '%x')}"
KEEPS = f"%k = {op('sin', '%x')}"

BOUNDARIES = {
    "the first op that reads a seed": ([MAKES, KEEPS, READS], True, 2),
    "a seed that is defined behind the forward": ([MAKES, SEED, KEEPS, READS], False, 1),
    "a seed that is defined first, like an input": ([SEED, MAKES, KEEPS, READS], False, 3),
    "a seed behind parameters alone": ([parameter("w"), SEED, KEEPS, READS], False, 3),
    "a seed that only a region reads": (
        [
            MAKES,
            f"%q = pd_op.if(%c) : (tensor<i1>) -> {T} {{",
            READS,
            f"pir.yield(%r) : ({T}) -> ()",
            "} else {",
            f"pir.yield(%x) : ({T}) -> ()",
            "}",
        ],
        True,
        1,
    ),
    "nothing reads a seed": ([MAKES, KEEPS], True, 2),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_the_backward_begins_at(name: str) -> None:
    lines, is_input, expected = BOUNDARIES[name]
    inputs = {"x": T, "c": "tensor<i1>", **({"g": T} if is_input else {})}
    (main,) = [o for o in parsed(program(*lines, inputs=inputs)).ops if isinstance(o, ProgramOp)]
    values: list[SSAValue] = [*main.block.args, *(r for o in main.operations for r in o.results)]
    seeds = {v for v in values if v.name_hint == "g"}
    assert len(seeds) == 1
    assert _boundary(main, Roles(), seeds) == expected
    assert _boundary(main, Roles(forward_ops=1), seeds) == 1


SMALL = program(f"%y = {op('tanh', '%x')}", output("y", "y"))


@pytest.mark.parametrize(("outputs", "name"), [([], "middle_0"), (["z"], "z"), (["z", "t"], "z")])
def test_a_gradient_that_is_saved_has_the_name_of_what_is_saved(
    outputs: list[str], name: str
) -> None:
    text = program(
        f"%a = {op('tanh', '%x')}",
        f"%y = {op('sin', '%a')}",
        *(output(other, "a") for other in outputs),
        f"%r = {op('multiply', '%y_grad', '%a')}",
        output("y", "y"),
        output("x_grad", "a"),
        output("w_grad", "r"),
        inputs={"x": T, "w": T, "y_grad": T},
    )
    assert split(text).names.bx_g == (name, "w_grad")


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_outputs_are_computed_in_the_forward(count: int) -> None:
    text = program(
        f"%a = {op('tanh', '%x')}",
        f"%y = {op('sin', '%a')}",
        f"%r = {op('multiply', '%y_grad', '%a')}",
        output("y", "y"),
        output("x_grad", "r"),
        inputs={"x": T, "y_grad": T},
    )
    if count == 2:
        split(text, forward_ops=count)
        return
    with pytest.raises(UsageError, match="output `y` of @main is computed in the backward") as told:
        split(text, forward_ops=count)
    assert told.value.code == "PK0701"


@pytest.mark.parametrize("value", ["y_grad", "r"])
def test_no_output_is_or_reads_a_seed(value: str) -> None:
    lines = (f"%y = {op('tanh', '%x')}", f"%r = {op('multiply', '%y_grad', '%y')}")
    text = program(*lines, output("y", "y"), output("g", value), inputs={"x": T, "y_grad": T})
    with pytest.raises(UsageError, match="output `g` of @main is computed in the backward"):
        split(text)


@pytest.mark.parametrize(("read", "reader"), [("%r", "backward"), ("%y", "forward")])
def test_a_write_to_a_parameter_stands_in_the_half_that_computes_what_it_writes(
    read: str, reader: str
) -> None:
    text = program(
        parameter("b"),
        f"%y = {op('tanh', '%x')}",
        f"%r = {op('multiply', '%y_grad', '%y')}",
        output("y", "y"),
        output("x_grad", "r"),
        f"%n = {op('assign_out_', read, '%b')}",
        inputs={"x": T, "y_grad": T},
    )
    parts = split(text)
    for name, half in (("forward", parts.forward_program), ("backward", parts.backward_program)):
        assert any(o.definition.writes for o in half.operations) == (name == reader)


def test_only_what_stands_behind_a_function_with_a_rule_reads_its_results() -> None:
    @pirkit.custom_vjp
    def both(x: Any) -> Any:
        first = pirkit.numpy.sin(x)
        return first, first * x

    both.defvjp(lambda x: (both(x), x), lambda x, g: (g[0] * x + g[1],))
    traced = pirkit.trace(lambda x: both(x)[0] * both(x)[1], np.ones(2))
    module = traced.module.clone()
    (main,) = [o for o in module.ops if isinstance(o, ProgramOp)]
    differentiated(main, paddle_residuals=False, keep_rules=True)
    verify_module(module)
    assert any(o.name == "pir.custom_derivative" for o in main.operations)


def test_an_op_moves_in_front_of_a_write_if_all_that_it_reads_is_there_and_unwritten() -> None:
    lists = f"!pir.vec<{T}, {T}>"
    text = program(
        f"%a = {op('sin', '%x')}",
        f"%e = {op('exp', '%x')}",
        f"%l = pir.combine(%x, %a) : ({T}, {T}) -> {lists}",
        f"%k = pir.combine(%x, %e) : ({T}, {T}) -> {lists}",
        f"%w = {op('relu_', '%a')}",
        f"%c = {op('cos', '%x')}",
        output("c", "c"),
        output("w", "w"),
    )
    (main,) = [o for o in parsed(text).ops if isinstance(o, ProgramOp)]
    values = [*main.block.args, *(r for o in main.operations for r in o.results)]
    named = {v.name_hint: v for v in values}
    contents = Contents(joint_of(main, Roles()))
    writer = cast(PirOp, named["w"].owner)
    found = {n for n, v in named.items() if _is_current(Need(v), writer, contents)}
    assert found == {"x", "e", "k"}


def test_halves_are_not_split_again() -> None:
    module = parsed(SMALL)
    run_pipeline(module, "split")
    halves = [o for o in module.ops if isinstance(o, ProgramOp)]
    assert [h.symbol for h in halves] == ["forward", "backward"]
    assert all(map(is_half, halves))
    run_pipeline(module, "split")
    assert [o for o in module.ops] == halves


@pytest.mark.parametrize(("is_test", "read"), [(False, [0, 3, 4]), (True, [0, 1, 2, 3, 4])])
def test_batch_norm_computed_again_reads_statistics_only_where_they_count(
    is_test: bool, read: list[int]
) -> None:
    v = "tensor<3xf64>"
    names = ("mean", "var", "scale", "shift")
    norm = (
        "%y, %m, %v, %a, %b, %r = pd_op.batch_norm_(%x, %mean, %var, %scale, %shift) "
        f"{{is_test = {str(is_test).lower()}, momentum = 0.9 : f32, epsilon = 1.0e-05 : f32, "
        'data_format = "NCHW", use_global_stats = false, trainable_statistics = false} : '
        f"({T}, {v}, {v}, {v}, {v}) -> ({T}, {v}, {v}, {v}, {v}, tensor<?xui8>)"
    )
    module = parsed(program(*(parameter(n, of=v) for n in names), norm, output("y", "y")))
    run_pipeline(module, "functionalize")
    (found,) = [o for o in module.walk() if o.name.startswith("pd_op.batch_norm")]
    assert [index for _, index in reads(cast(PirOp, found))] == read
