"""What mutants have shown that no test looked at."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace
from xdsl.ir import SSAValue

import pirkit
from pirkit import ops
from pirkit.diag.errors import ParseError, PirkitError
from pirkit.dialect.attrs import decode
from pirkit.dialect.map_expr.tree import Apply
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.program import Program
from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import READERS, WRITERS
from pirkit.frontend.paddle.absorbed import with_operands_restored
from pirkit.frontend.paddle.json_attrs import read_attribute as read_json_attribute
from pirkit.frontend.paddle.json_syntax import Malformed
from pirkit.frontend.paddle.spelling import read_value
from pirkit.frontend.paddle.text_lines import Lines
from pirkit.lowering.codegen.emit.nest_state import NestState
from pirkit.lowering.codegen.ir.loopnest import Compute, Constant
from pirkit.lowering.codegen.ir.nest_builder import NotLowerableError, StatementBuilder
from pirkit.lowering.codegen.lower.scalar_ops import apply
from pirkit.lowering.fusion import explain
from pirkit.lowering.fusion.explain import Explainer
from pirkit.lowering.fusion.index_equations import MISMATCHED, equations
from pirkit.lowering.fusion.partition import partition
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.cache import user_cache
from pirkit.split.backward_reads import _becomes  # pyright: ignore[reportPrivateUsage]
from pirkit.split.slot_assignment import slot_wiring
from tests.execution import parsed
from tests.split.model import T, split
from tests.split.test_cases_regions import JOINT

ROLES = """
pir.program @main {
  %0 = pir.parameter() {parameter_name = "w", op_role = 1 : i32, stop_gradient = array<i1: true>} : () -> tensor<2xf32>
  pir.shadow_output(%0) {output_name = "y"} : (tensor<2xf32>) -> ()
}
"""  # noqa: E501


def test_attributes_of_distribution_have_their_own_place_in_the_json_of_a_parameter() -> None:
    text = WRITERS["paddle-json"](parsed(ROLES))
    (parameter,) = [
        op for op in json.loads(text)["program"]["regions"][0]["blocks"][0]["ops"] if op["#"] == "p"
    ]
    assert [a["N"] for a in parameter["DA"]] == ["op_role"]
    assert "op_role" not in [a["N"] for a in parameter["QA"]]
    again = READERS["paddle-json"](text, "again.json")
    assert WRITERS["paddle-json"](again) == text


def test_a_string_of_paddles_text_may_have_several_lines() -> None:
    head = '(%0) = "pd_op.data" () {dtype:float32,name:"'
    rest = '",place:Place(undefined:0),shape:[2],stop_gradient:[true]} : () -> tensor<2xf32>'
    text = f"{{\n    {head}a\nb{rest}\n}}\n"
    module = READERS["paddle-text"](text, "dump.txt")
    assert 'name = "a\\0Ab"' in print_mlir(module) or 'name = "a\\nb"' in print_mlir(module)
    assert WRITERS["paddle-text"](module) == text


def test_a_scalar_of_paddles_text_may_be_a_truth_value() -> None:
    """And only a scalar: other numbers are written as numbers."""
    assert decode("scalar", read_value("true", "scalar")) is True
    with pytest.raises(ParseError):
        read_value("true", "f32")


def test_what_a_loop_carries_is_followed_into_its_own_place() -> None:
    program = parsed(f"""
pir.program @main(%a "a" : {T}, %b "b" : {T}, %c "c" : tensor<i1>) {{
  %x, %y = pd_op.while(%c, %a, %b) : (tensor<i1>, {T}, {T}) -> ({T}, {T}) {{
  ^body(%p : {T}, %q : {T}):
    %r = pd_op.tanh(%p) : ({T}) -> {T}
    %n = pd_op.any(%r) {{axis = array<i64>, keepdim = false}} : ({T}) -> tensor<i1>
    pir.yield(%n, %r, %q) : (tensor<i1>, {T}, {T}) -> ()
  }}
  pir.shadow_output(%x) {{output_name = "x"}} : ({T}) -> ()
  pir.shadow_output(%y) {{output_name = "y"}} : ({T}) -> ()
}}
""")
    (loop,) = [op for op in program.walk() if op.name == "pd_op.while"]
    assert isinstance(loop, PirOp)
    for place in (1, 2):
        found = _becomes(loop, place)
        expected = [loop.results[place - 1], loop.regions[0].block.args[place - 1]]
        assert found == expected
        assert _becomes(cast(PirOp, loop.regions[0].block.last_op), place) == expected
    assert _becomes(loop, 0) is None  # a condition is read
    assert _becomes(cast(PirOp, loop.regions[0].block.last_op), 0) is None


def test_slots_of_which_only_the_shape_is_read_are_not_saved() -> None:
    names = split(JOINT.replace("MORE", f"%r = pd_op.multiply(%g, %gx) : ({T}, {T}) -> {T}")).names
    wiring = slot_wiring(names)
    lent = {wiring.backward[n] for n in names.no_need_buffers}
    assert lent
    assert set(wiring.shapes) == lent
    assert not lent & set(wiring.saved)


@pytest.mark.parametrize("axis", [1, -1])
def test_a_fused_slice_counts_axes_from_the_end(axis: int) -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (4, 5), "float32")
    cut = {"starts": (1,), "ends": (4,), "axes": (axis,), "infer_flags": (1,), "decrease_axis": ()}
    b.output("y", b("pd_op.slice", b.exp(x), **cut) * 2.0)
    given = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
    found = pirkit.compile(b.finish(), pipeline="@fused", fused="interpret")(x=given)["y"]
    np.testing.assert_allclose(found, 2 * np.exp(given)[:, 1:4], rtol=1e-6)


def test_a_scalar_op_with_attributes_that_change_it_has_no_native_code() -> None:
    lines = StatementBuilder(itertools.count(), lambda _: 0)
    plain = Apply("pd_op.tanh", (), dt.float32, {"axis": -1})
    assert apply(plain, ["x"], [dt.float32], lines, None)
    with pytest.raises(NotLowerableError, match=r"pd_op\.tanh"):
        apply(replace(plain, attrs={"scale": 2.0}), ["x"], [dt.float32], lines, None)
    with pytest.raises(NotLowerableError, match=r"pd_op\.nothing"):
        apply(replace(plain, op="pd_op.nothing"), ["x"], [dt.float32], lines, None)


@pytest.mark.parametrize("op", ["floor_divide", "remainder"])
def test_integers_are_divided_by_all_but_0(op: str) -> None:
    lines = StatementBuilder(itertools.count(), lambda _: 0)
    apply(Apply(f"pd_op.{op}", (), dt.int64, {}), ["x", "y"], [dt.int64, dt.int64], lines, None)
    constant, compared, _, divided = lines.statements
    assert constant == Constant("n0", dt.int64, 0)
    assert compared == Compute("n1", "not_equal", ("y", "n0"), dt.bool_)
    assert divided == Compute("n2", op, ("x", "y"), dt.int64)


def test_a_copy_in_a_copy_of_a_loop_reads_what_each_of_the_outer_ones_defined() -> None:
    for length in range(4):
        path = (1, 0, 2)
        state = SimpleNamespace(wide=[], scopes=[{("x", path[:length]): "found"}, {}])
        at = SimpleNamespace(lanes=1, path=path)
        assert NestState.value(cast(Any, state), cast(Any, at), "x") == "found"


def test_operands_of_two_types_are_computed_in_their_common_type_or_not_at_all() -> None:
    lines = StatementBuilder(itertools.count(), lambda _: 0)
    types = [dt.int32, dt.int64]
    apply(Apply("pd_op.add", (), dt.int64, {}), ["x", "y"], types, lines, None)
    assert lines.statements[0] == Compute("n0", "cast", ("x",), dt.int64)
    apply(Apply("pd_op.less_than", (), dt.bool_, {}), ["x", "y"], types, lines, None)
    assert len(lines.statements) == 3  # the cast is there already
    with pytest.raises(NotLowerableError, match="int32 and int64 gives int32"):
        apply(Apply("pd_op.add", (), dt.int32, {}), ["x", "y"], types, lines, None)


def test_a_value_of_a_wrong_type_keeps_its_users_alone_out_of_kernels() -> None:
    module = parsed(f"""
pir.program @main(%a "a" : {T}) {{
  %b = pd_op.tanh(%a) : ({T}) -> {T}
  %c = pd_op.exp(%a) : ({T}) -> {T}
  pir.shadow_output(%b) {{output_name = "b"}} : ({T}) -> ()
  pir.shadow_output(%c) {{output_name = "c"}} : ({T}) -> ()
}}
""")
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    tanh, exp = cast("list[PirOp]", [*program.block.ops][:2])
    found = equations(program.block, mismatched_values={tanh.results[0]})
    assert found.opaque[tanh] is MISMATCHED
    assert found.opaque.get(exp) is not MISMATCHED


def test_lists_of_integers_in_json_have_the_width_that_the_op_declares() -> None:
    node = {"#": "1.a_intarray", "D": [2**40, -1]}
    for declared in ("i64[]", "intarray"):
        assert list(decode(declared, read_json_attribute(node, declared))) == [2**40, -1]
    with pytest.raises(Malformed, match="32"):
        read_json_attribute(node, "i32[]")


def test_a_key_that_occurs_twice_is_named() -> None:
    with pytest.raises(PirkitError, match="key 'b' occurs twice"):
        READERS["paddle-json"]('{"a": 1, "b": 2, "b": 3}', "twice.json")


def test_a_place_in_paddles_text_ends_where_its_line_ends() -> None:
    span = Lines("{\n    abcdef\n}\n", "dump.txt").whole(2, 3)
    assert (span.line, span.column, span.length) == (2, 7, 4)


def test_operands_that_are_attributes_come_back_for_paddle() -> None:
    """Beside other ops, which stay as they are."""
    module = parsed(f"""
pir.program @main(%a "a" : {T}) {{
  %b = pd_op.tanh(%a) : ({T}) -> {T}
  %c = pd_op.flip(%b) {{axis = array<i32: 0>}} : ({T}) -> {T}
  %d = pd_op.scale(%c) {{scale = 2.0 : f64, bias = 0.0 : f32}} : ({T}) -> {T}
  pir.shadow_output(%d) {{output_name = "d"}} : ({T}) -> ()
}}
""")
    assert any("scale" in op.properties for op in module.walk() if op.name == "pd_op.scale")
    restored = with_operands_restored(module)
    assert restored is not module
    (scale,) = [op for op in restored.walk() if op.name == "pd_op.scale"]
    assert len(scale.operands) == 2
    assert "scale" not in scale.properties


@pytest.mark.parametrize(
    "shapes", [((3,), (3, 2)), ((4, 3), (3,)), ((3,), (3,)), ((3,), (5, 3, 2))]
)
def test_matmuls_of_vectors_that_each_row_has(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, *s)) for s in shapes)
    want = np.stack([a @ b for a, b in zip(x, y, strict=True)])
    np.testing.assert_allclose(np.asarray(pirkit.vmap(ops.matmul)(x, y)), want, rtol=1e-12)


def test_rows_of_a_loop_end_at_turns_of_their_own() -> None:
    mapped = pirkit.vmap(lambda x: pirkit.while_loop(lambda s: s < 10.0, lambda s: s * 2.0, x))
    assert np.asarray(mapped(np.array([1.0, 3.0, 11.0]))).tolist() == [16.0, 12.0, 11.0]


def test_what_lies_between_two_ops_of_a_cycle_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parsed(f"""
pir.program @main(%a "a" : {T}) {{
  %b = pd_op.tanh(%a) : ({T}) -> {T}
  %c = pd_op.exp(%b) : ({T}) -> {T}
  pir.shadow_output(%c) {{output_name = "c"}} : ({T}) -> ()
}}
""")
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    found = equations(program.block)
    first, second = found.ops[:2]
    names: dict[SSAValue, str] = {first.results[0]: "b", second.results[0]: "c"}
    explainer = Explainer(found, partition(found), names)
    monkeypatch.setattr(explain, "between", lambda *_: second)
    one, other = (explainer.parts.of[op] for op in (first, second))
    refusal = explainer.not_joined(first, second, one, other)
    assert refusal.kind == "cycle"
    assert "`pd_op.exp` (%c) is between" in refusal.reason
    monkeypatch.setattr(explain, "between", lambda *_: None)
    explainer.declared[id(one), id(other)] = Refusal("cost", (first, second), "too dear")
    assert explainer.not_joined(first, second, one, other).reason == (
        "%b and %c would be in it: too dear"
    )


@pytest.mark.parametrize("x_shape", [(3, 4), (3,)])
def test_rows_times_a_matrix_that_all_share(x_shape: tuple[int, ...]) -> None:
    """One matmul, unless each row is a matrix that is transposed."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, *x_shape)), rng.standard_normal((3, 5))
    flips = len(x_shape) == 2
    mapped = pirkit.vmap(lambda a: ops.matmul(a, y, transpose_x=flips))
    want = np.stack([(a.T if flips else a) @ y for a in x])
    np.testing.assert_allclose(np.asarray(mapped(x)), want, rtol=1e-12)


def test_the_cache_is_there_unless_it_is_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIRKIT_CACHE_DIR", str(tmp_path / "cache"))
    for value, there in (("", True), ("on", True), ("objects", True), ("off", False)):
        monkeypatch.setenv("PIRKIT_NATIVE_CACHE", value)
        assert (user_cache() is not None) == there


def test_programs_that_are_halves_are_not_split_again() -> None:
    module = parsed(f"""
pir.program @main(%a "a" : {T}) {{
  %b = pd_op.tanh(%a) : ({T}) -> {T}
  pir.shadow_output(%b) {{output_name = "b"}} : ({T}) -> ()
}}
""")
    run_pipeline(module, "split")
    once = print_mlir(module)
    assert once.count("pir.program") == 2
    run_pipeline(module, "split")
    assert print_mlir(module) == once


def test_scalar_ops_promote_as_numpy_does_or_are_refused() -> None:
    lines = StatementBuilder(itertools.count(), lambda _: 0)
    mixed = [dt.float32, dt.float64]
    wide = Apply("pd_op.add", (), dt.float64)
    assert apply(wide, ["x", "y"], mixed, lines, None)
    with pytest.raises(NotLowerableError, match="float32 and float64 gives float32"):
        apply(replace(wide, dtype=dt.float32), ["x", "y"], mixed, lines, None)
    assert apply(
        replace(wide, op="pd_op.less_than", dtype=dt.bool_), ["x", "y"], mixed, lines, None
    )


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("taken", [True, False])
def test_branches_that_give_sizes_known_at_run_time(size: int, taken: bool) -> None:
    module = parsed(
        """
pir.program @main(%c "c" : tensor<1xi1>, %a "a" : tensor<?xf32>) {
  %y = pd_op.if(%c) : (tensor<1xi1>) -> tensor<?xf32> {
    %t = pd_op.tanh(%a) : (tensor<?xf32>) -> tensor<?xf32>
    pir.yield(%t) : (tensor<?xf32>) -> ()
  } else {
    %e = pd_op.exp(%a) : (tensor<?xf32>) -> tensor<?xf32>
    pir.yield(%e) : (tensor<?xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<?xf32>) -> ()
}
"""
    )
    given = np.linspace(0, 1, size, dtype=np.float32)
    exe = pirkit.compile(Program(module))
    found = exe(c=np.array([taken]), a=given)["y"]
    np.testing.assert_allclose(found, (np.tanh if taken else np.exp)(given), rtol=1e-6)


def test_each_half_has_the_lists_of_names_that_are_its_own() -> None:
    module = parsed(f"""
pir.program @main(%a "a" : {T}) {{
  %b = pd_op.tanh(%a) : ({T}) -> {T}
  pir.shadow_output(%b) {{output_name = "b"}} : ({T}) -> ()
}}
""")
    run_pipeline(module, "split")
    forward, backward = (op for op in module.ops if isinstance(op, ProgramOp))
    assert {*forward.attributes} == {"fx", "fp", "fm", "fo"}
    assert {"bx", "bo_g", "bx_g", "no_need_buffers"} <= {*backward.attributes}
    assert {*forward.attributes}.isdisjoint(backward.attributes)
