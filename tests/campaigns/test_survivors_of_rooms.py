"""What mutants of readers, passes, planner and cache have shown that no test looked at."""

from __future__ import annotations

import json
import os
import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import platformdirs
import pytest

from pirkit import ProgramBuilder, grad, ops, tensor
from pirkit.analysis.alias import is_overwritten
from pirkit.diag.errors import ArtifactError, LimitError, ParseError, PassError, PirkitError
from pirkit.diag.limits import current_limits, use_limits
from pirkit.dialect.attrs import decode
from pirkit.dialect.operation import PirOp, with_nested
from pirkit.dialect.program import Program
from pirkit.frontend.compile import compile as compile_program
from pirkit.frontend.files import READERS, WRITERS
from pirkit.frontend.paddle.array_identity import name_arrays_once
from pirkit.frontend.paddle.json_reader import LONGEST_NAME, _short, read_paddle_json
from pirkit.frontend.paddle.params import read_params, write_params
from pirkit.frontend.paddle.spelling import read_type, read_value, split_list
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta
from pirkit.runtime.native import cache
from pirkit.runtime.native.cache import ObjectCache
from pirkit.runtime.planning import _join_metas  # pyright: ignore[reportPrivateUsage]
from pirkit.split.backward_reads import reads_data
from tests.execution import parsed
from tests.frontend.json_documents import dense, document, op
from tests.split.model import Model, T, split

PIECES = ("a", ",", "[", "]", "<", ")", " ", '\\"', "->", "\\")


def an_item(draw: random.Random, depth: int = 0) -> str:
    """An item of a list of Paddle's text: a word, a string, or a list in brackets."""
    kind = draw.randrange(6 if depth < 3 else 3)
    if kind == 0:
        return f'"{"".join(draw.choices(PIECES[:-1], k=draw.randrange(6)))}"'
    if kind < 3:
        return draw.choice(("x", "-1", "a -> b", "(f32) 1.5", "p:1"))
    items = ", ".join(an_item(draw, depth + 1) for _ in range(draw.randrange(4)))
    return items.join(draw.choice(("[]", "()", "<>")))


@pytest.mark.parametrize("seed", range(40))
def test_lists_are_split_into_the_items_that_they_were_joined_from(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(25):
        items = [an_item(draw) for _ in range(draw.randrange(1, 6))]
        assert split_list(draw.choice((",", ", ", " , ")).join(items)) == items


HEADS = {0: "<I", 4: "<Q", 12: "<I", 16: "<i"}
"""Where the numbers lie in front of the description of a tensor without levels."""


@pytest.mark.parametrize(("at", "number", "told"), [
    (0, 1, "list version"), (4, 1, "for a level"), (4, 1 << 40, "claims 1099511627776"),
    (12, 2, "tensor version"), (16, -1, "claims a description of -1 bytes"),
    (16, 0, "no element type"), (16, 1 << 30, "its description"),
])  # fmt: skip
def test_each_number_of_a_damaged_parameter_is_named(
    at: int, number: int, told: str, tmp_path: Path
) -> None:
    path, form = tmp_path / "p", HEADS[at]
    write_params(path, {"w": np.ones(3, np.float32)})
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, at, number)
    path.write_bytes(data)
    with pytest.raises(ArtifactError) as error:
        read_params(path, {"w": TensorMeta((3,), dt.float32)})
    assert told in str(error.value)
    assert "claims a description" not in str(error.value) or number < 0


def test_entries_of_the_cache_do_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    ObjectCache(tmp_path, b"secret").put("1".zfill(64), b"payload")
    assert ObjectCache(tmp_path, b"secret").get("1".zfill(64)) == b"payload"
    assert not synced


@pytest.mark.parametrize("key", range(40))
@pytest.mark.parametrize("share", [0.5, 1.5])
def test_room_is_made_by_chance_or_for_what_fills_a_part_of_it(
    key: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[ObjectCache] = []
    monkeypatch.setattr(ObjectCache, "trim", lambda self: trimmed.append(self))
    every = cache._TRIM_EVERY  # pyright: ignore[reportPrivateUsage]
    store = ObjectCache(tmp_path, b"secret", limit=1000 * every)
    store.put(f"{key:064x}", bytes(int(1000 * share)))
    assert bool(trimmed) == (key % every == 0 or share > 1)


WRITES = (
    ("reshape_", "shape = array<i64: 3, 2>", (3, 2)),
    ("reshape_", "shape = array<i64: 6>", (6,)),
    ("unsqueeze_", "axis = array<i64: 0>", (1, 2, 3)),
    ("scale_", "scale = 2.0 : f64, bias = 1.0 : f64, bias_after_scale = true", None),
    ("relu_", "", None),
    ("tanh_", "", None),
)


def of(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf64>"


def chain_of_writes(seed: int) -> str:
    """Writes of one storage under names of its type; then those of its last type are read."""
    draw = random.Random(seed)
    last, lines = "x", list[str]()
    if draw.random() < 0.5:
        last, lines = "a", [f"%a = pd_op.assign(%x) : ({T}) -> {T}"]
    names: dict[str, tuple[int, ...]] = {last: (2, 3)}
    alike = [last]
    for k in range(draw.randrange(2, 5)):
        op, held, shape = draw.choice([w for w in WRITES if w[2] is None or names[last] == (2, 3)])
        name = f"n{k}"
        names[name] = shape or names[last]
        kind = f"({of(names[last])}) -> {of(names[name])}"
        lines.append(f"%{name} = pd_op.{op}(%{last}) {{{held}}} : {kind}")
        last = name
        alike = [n for n in names if names[n] == names[last]]
        if draw.random() < 0.3:
            last = draw.choice(alike)
    for name in draw.sample(alike, draw.randrange(1, len(alike) + 1)):
        kind = of(names[name])
        if name == last and draw.random() < 0.5:
            lines.append(f'pir.shadow_output(%{name}) {{output_name = "last"}} : ({kind}) -> ()')
        lines.append(f"%r{name} = pd_op.exp(%{name}) : ({kind}) -> {kind}")
        lines.append(f'pir.shadow_output(%r{name}) {{output_name = "{name}"}} : ({kind}) -> ()')
    return f'pir.program @main(%x "x" : {T}) {{\n  ' + "\n  ".join(lines) + "\n}\n"


@pytest.mark.parametrize("seed", range(120))
def test_functionalize_keeps_what_names_of_a_written_storage_show(seed: int) -> None:
    found: list[dict[str, Any]] = []
    for pipeline in ("", "functionalize"):
        x = tensor(np.linspace(-1, 1, 6).reshape(2, 3))
        program = Program(parsed(chain_of_writes(seed)))
        exe = compile_program(program, pipeline=pipeline, backend="reference")
        results = exe(x=x)
        found.append({n: np.asarray(v) for n, v in {**results, "x after": x.numpy()}.items()})
    for other in found[1:]:
        for name, value in found[0].items():
            assert other[name].shape == value.shape, name
            np.testing.assert_allclose(other[name], value, rtol=1e-14, err_msg=name)


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("other", ["x", "b"])
def test_a_result_that_may_be_memory_of_others_is_not_handed_over(
    turn: int, taken: bool, other: str
) -> None:
    """One branch gives memory of its own, the other the input, or what lies in the arena."""
    yields = [f"pir.yield(%{name}) : (tensor<4xf64>) -> ()" for name in ("a", other)]
    first, second = yields[turn], yields[1 - turn]
    made = "%a = pd_op.exp(%x) : (tensor<4xf64>) -> tensor<4xf64>\n"
    text = f"""
pir.program @main(%x "x" : tensor<4xf64>, %c "c" : tensor<i1>) {{
  %b = pd_op.scale(%x) {{scale = 3.0 : f64}} : (tensor<4xf64>) -> tensor<4xf64>
  %y = pd_op.if(%c) : (tensor<i1>) -> tensor<4xf64> {{
    {made if not turn else ""}{first}
  }} else {{
    {made if turn else ""}{second}
  }}
  pir.shadow_output(%y) {{output_name = "y"}} : (tensor<4xf64>) -> ()
}}"""
    x = np.arange(4.0)
    exe = compile_program(Program(parsed(text)), pipeline="", backend="reference")
    given = tensor(x)
    found = np.asarray(exe(x=given, c=np.array(taken))["y"])
    want = np.exp(x) if taken == (turn == 0) else x * (3 if other == "b" else 1)
    np.testing.assert_allclose(found, want)
    exe(x=tensor(x + 1), c=np.array(taken))
    np.testing.assert_allclose(found, want)
    found[:] = 7
    np.testing.assert_array_equal(given.numpy(), x)


LISTS = f"""
pir.program @main(%x "x" : {T}, %g "y_grad" : {T}) {{
  %a = pd_op.tanh(%x) : ({T}) -> {T}
  %h = pd_op.exp(%x) : ({T}) -> {T}
  %l = pir.combine(%a, %h) : ({T}, {T}) -> !pir.vec<{T}, {T}>
  %s = pd_op.add_n(%l) : (!pir.vec<{T}, {T}>) -> {T}
  WRITE
  pir.shadow_output(%s) {{output_name = "y"}} : ({T}) -> ()
  %gy = pd_op.multiply(%g, %h) : ({T}, {T}) -> {T}
  %v = pd_op.scale_(%h) {{scale = 3.0 : f64}} : ({T}) -> {T}
  %r = pd_op.add_n(%l) : (!pir.vec<{T}, {T}>) -> {T}
  %q = pd_op.add(%r, %gy) : ({T}, {T}) -> {T}
  pir.shadow_output(%q) {{output_name = "x_grad"}} : ({T}) -> ()
}}
"""


def test_a_list_of_which_the_backward_writes_an_element_is_read_as_it_is_then() -> None:
    model = Model(split(LISTS.replace("WRITE", "")), {})
    x, g = np.linspace(-1, 1, 6).reshape(2, 3), np.full((2, 3), 0.5)
    (y,) = model.forward({"x": tensor(x)})
    np.testing.assert_allclose(y.numpy(), np.tanh(x) + np.exp(x))
    found = model.backward([g])
    np.testing.assert_allclose(found["x"], np.tanh(x) + 3 * np.exp(x) + g * np.exp(x))


def test_a_list_of_which_both_halves_write_elements_is_refused() -> None:
    write = f"%w = pd_op.scale_(%a) {{scale = 2.0 : f64}} : ({T}) -> {T}"
    with pytest.raises(PassError, match="PK0806"):
        split(LISTS.replace("WRITE", write))


@pytest.mark.parametrize("shape", [(2, 0, 0), (2, 3, 0), (0, 3), (0, 2, 2)])
def test_empty_matrices_have_factors(shape: tuple[int, ...]) -> None:
    *batch, rows, columns = shape
    factors, pivots, infos = (np.asarray(v) for v in ops.lu(np.ones(shape), pivot=True))
    assert factors.shape == shape
    assert pivots.shape == (*batch, min(rows, columns))
    assert infos.shape == (*batch,)


@pytest.mark.parametrize("text", [
    "foo<2xf32>", "tensor<2xf32", "tensor2xf32>", "dense_tensor_array<2xf32", "vec[f32", "f33", "",
    "<2xf32>", "tensor<2yf32>", "vec[foo<2xf32>]",
])  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read_type(text)


@pytest.mark.parametrize(("text", "kind", "value"), [
    ("3", "f32", 3.0), ("3", "f64", 3.0), ("3", "scalar", 3), ("3", "i64", 3), ("(i32)3", "i32", 3),
    ("true", "scalar", True), ("1", "bool", True), ("0", "bool", False), ("1.5", "scalar", 1.5),
    ("(1,2)", "scalar", 1 + 2j), ("-0", "scalar", -0.0), ("inf", "f32", float("inf")),
    ("true", "f32", None), ("1.5", "i32", None), ("2", "bool", None), ("x", "scalar", None),
    ("(1,2)", "f64", None), ("4294967296", "i32", None),
])  # fmt: skip
def test_values_of_paddles_text_have_their_kind(text: str, kind: str, value: Any) -> None:
    if value is None:
        with pytest.raises(PirkitError):
            read_value(text, kind)
        return
    found = decode(kind, read_value(text, kind))
    assert (type(found), found) == (type(value), value)


def test_as_many_ops_as_the_limit_are_read() -> None:
    text = WRITERS["paddle-json"](parsed(chain_of_writes(1)))
    count = text.count('"O":')
    with use_limits(replace(current_limits(), ops=count)):
        READERS["paddle-json"](text, "it")
    with use_limits(replace(current_limits(), ops=count - 1)), pytest.raises(LimitError):
        READERS["paddle-json"](text, "it")


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_fill_with_a_computed_number_reads_its_only_element(shape: tuple[int, ...]) -> None:
    b = ProgramBuilder()
    x, v = b.input("x", (3, 4), "float32"), b.input("v", shape, "float32")
    filled = b("pd_op.full_with_tensor", b.exp(v), shape=(3, 4), dtype="float32")
    b.output("y", filled + x)
    exe = compile_program(b.finish(), pipeline="@fused", fused="interpret")
    given = {"x": np.ones((3, 4), np.float32), "v": np.full(shape, 2, np.float32)}
    np.testing.assert_allclose(exe(**given)["y"], np.exp(2) + 1, rtol=1e-6)


@pytest.mark.parametrize("values", [(3, 3), (3, 4), (7,)])
def test_vectors_of_integers_are_folded_into_one_op(values: tuple[int, ...]) -> None:
    held = f"value = array<i64: {', '.join(map(str, values))}>"
    of = f"tensor<{len(values)}xi64>"
    module = parsed(f"""
pir.program @main() {{
  %a = pd_op.full_int_array() {{{held}, dtype = #pir.dtype<int64>}} : () -> {of}
  %b = pd_op.add(%a, %a) : ({of}, {of}) -> {of}
  pir.shadow_output(%b) {{output_name = "y"}} : ({of}) -> ()
}}""")
    run_pipeline(module, "constant-fold")
    run_pipeline(module, "dce")
    assert [op.name for op in module.walk() if op.name.startswith("pd_op")] == [
        "pd_op.full_int_array"
    ]


def test_what_a_loop_only_hands_on_is_not_read() -> None:
    of = "tensor<2xf32>"
    module = parsed(f"""
pir.program @main(%a "a" : {of}, %b "b" : {of}, %c "c" : tensor<i1>) {{
  %x, %y = pd_op.while(%c, %a, %b) : (tensor<i1>, {of}, {of}) -> ({of}, {of}) {{
  ^body(%p : {of}, %q : {of}):
    %r = pd_op.tanh(%p) : ({of}) -> {of}
    %n = pd_op.any(%r) {{axis = array<i64>, keepdim = false}} : ({of}) -> tensor<i1>
    pir.yield(%n, %r, %q) : (tensor<i1>, {of}, {of}) -> ()
  }}
  pir.shadow_output(%x) {{output_name = "x"}} : ({of}) -> ()
}}""")
    (loop,) = [op for op in module.walk() if op.name == "pd_op.while"]
    assert [reads_data(cast(PirOp, loop), k) for k in range(3)] == [True, True, False]


@pytest.mark.parametrize("size", [2, 5, 40, 150])
@pytest.mark.parametrize("seed", range(4))
def test_determinants_have_the_sign_of_their_rows_order(size: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    x = (np.eye(size) + 0.3 / size * draw.normal(size=(size, size)))[draw.permutation(size)]
    swapped = x[[1, 0, *range(2, size)]]
    for matrix in (x, swapped):
        sign, logarithm = np.linalg.slogdet(matrix)
        np.testing.assert_allclose(np.asarray(ops.det(matrix)), np.linalg.det(matrix), rtol=1e-9)
        found = np.asarray(ops.slogdet(matrix))
        np.testing.assert_allclose(found, [sign, logarithm], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_copysign_has_its_slope_for_all_signs(signs: tuple[int, int]) -> None:
    x, y = (np.array([0.5, 2.0]) * s for s in signs)
    slope = grad(lambda x: ops.sum(ops.copysign(x, y)))(x)
    np.testing.assert_array_equal(np.asarray(slope), np.sign(x) * np.sign(y))


def test_folders_of_the_cache_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert cache._private(tmp_path / "made" / "here")
    finally:
        os.umask(before)
    assert (tmp_path / "made" / "here").stat().st_mode & 0o777 == 0o700


def test_numbers_of_twenty_digits_are_told_in_full() -> None:
    assert _short(10**19) == "1" + "0" * 19
    assert _short(10**20) == "10000000... (21 digits)"


@pytest.mark.parametrize("work", [True, False])
def test_programs_that_lose_all_they_compute_are_told(
    work: bool, caplog: pytest.LogCaptureFixture
) -> None:
    line = "%y = pd_op.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>" if work else ""
    module = parsed(f"""
pir.program @p() {{
  %x = pd_op.data() {{name = "x", shape = array<i64: 2>, dtype = #pir.dtype<float32>,
    place = #pir.place<undefined:0>}} : () -> tensor<2xf32>
  {line}
}}""")
    with caplog.at_level("WARNING"):
        run_pipeline(module, "dce")
    assert ("removed every operation" in caplog.text) is work


SIZES = """pir.program @p(%x "x" : tensor<2x3x4xf32>, %t "t" : tensor<3xi64>,
    %m "m" : tensor<3xi1>) {
  %s = pd_op.masked_select(%t, %m) : (tensor<3xi64>, tensor<3xi1>) -> tensor<?xi64>
  %y = pd_op.reshape(%x, %s) : (tensor<2x3x4xf32>, tensor<?xi64>) -> tensor<?xf32>
  %z = pd_op.exp(%y) : (tensor<?xf32>) -> tensor<?xf32>
  pir.shadow_output(%z) {output_name = "y"} : (tensor<?xf32>) -> ()
}"""


@pytest.mark.parametrize("pipeline", ["", "@default"])
def test_how_many_sizes_there_are_may_be_known_when_a_program_runs(pipeline: str) -> None:
    run = compile_program(Program(parsed(SIZES)), pipeline=pipeline)
    x, sizes = np.zeros((2, 3, 4), np.float32), np.array([6, 4, 24])
    for mask, shape in (([1, 1, 0], (6, 4)), ([0, 0, 1], (24,))):
        assert run(x=x, t=sizes, m=np.array(mask, bool))["y"].shape == shape


@pytest.mark.parametrize("view", ["share_data(%x)", "reshape(%x) {shape = array<i64: 3, 2>}"])
def test_a_write_through_a_view_overwrites_what_lies_below(view: str) -> None:
    text = f"""pir.program @p(%x "x" : tensor<2x3xf32>) {{
      %v = pd_op.{view} : (tensor<2x3xf32>) -> tensor<{"3x2" if "shape" in view else "2x3"}xf32>
      %w = pd_op.tanh_(%v) : (TYPE) -> TYPE
      pir.shadow_output(%w) {{output_name = "y"}} : (TYPE) -> ()
    }}""".replace("TYPE", "tensor<3x2xf32>" if "shape" in view else "tensor<2x3xf32>")
    (program,) = parsed(text).body.block.ops
    x = cast(Any, program).regions[0].block.args[0]
    assert is_overwritten(x) == ("share_data" in view)  # a reshape is a copy


def test_the_folder_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIRKIT_CACHE_DIR", "somewhere")
    assert cache.cache_folder() == Path("somewhere")
    monkeypatch.delenv("PIRKIT_CACHE_DIR")
    assert cache.cache_folder() == platformdirs.user_cache_path("pirkit")


@pytest.mark.parametrize(("more", "told"), [(0, "unknown op"), (1, "is no name of an op")])
def test_the_longest_name_of_an_op(more: int, told: str) -> None:
    word = "1." + "a" * (LONGEST_NAME - len("pd_op.") + more)
    with pytest.raises(PirkitError, match=told):
        read_paddle_json(json.dumps(document(op(word, [], {1: dense(2)}))), "model.json")


def test_a_branch_is_taken_out_only_if_all_its_results_may_be_replaced() -> None:
    """One is written, so that another value cannot stand for it."""
    text = """pir.program @p(%x "x" : tensor<2xf32>) {
      %c = pd_op.full() {shape = array<i64>, value = 1.0 : f64, dtype = #pir.dtype<bool>}
        : () -> tensor<i1>
      %a, %b = pd_op.if(%c) : (tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>) {
        %s = pd_op.sin(%x) : (tensor<2xf32>) -> tensor<2xf32>
        pir.yield(%s, %x) : (tensor<2xf32>, tensor<2xf32>) -> ()
      } else {
        %t = pd_op.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
        pir.yield(%t, %x) : (tensor<2xf32>, tensor<2xf32>) -> ()
      }
      %w = pd_op.exp_(%b) : (tensor<2xf32>) -> tensor<2xf32>
      %y = pd_op.add(%a, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
    }"""
    module = parsed(text)
    run_pipeline(module, "canonicalize")
    assert "pd_op.if" in str(module)


def test_what_is_either_of_two_lists_is_the_other_one() -> None:
    """Lists of several lengths have no common meta; sizes of tensors may be unknown."""
    one, other = (VecMeta((TensorMeta((n,), dt.float32),) * n) for n in (2, 3))
    assert _join_metas(one, other) is other
    assert _join_metas(one.items[0], other.items[0]).shape == (UNKNOWN,)  # pyright: ignore


def test_arrays_from_outside_of_a_branch_have_one_name() -> None:
    array = "!pir.tensor_array<f32>"
    text = f"""pir.program @p(%c "c" : tensor<i1>, %x "x" : tensor<2xf32>) {{
      %a = pd_op.create_array() {{dtype = #pir.dtype<float32>}} : () -> {array}
      %r, %y = pd_op.if(%c) : (tensor<i1>) -> ({array}, tensor<2xf32>) {{
        pir.yield(%a, %x) : ({array}, tensor<2xf32>) -> ()
      }} else {{
        pir.yield(%a, %x) : ({array}, tensor<2xf32>) -> ()
      }}
      %n = pd_op.array_length(%r) : ({array}) -> tensor<1xi64>
      pir.shadow_output(%n) {{output_name = "n"}} : (tensor<1xi64>) -> ()
      pir.shadow_output(%y) {{output_name = "y"}} : (tensor<2xf32>) -> ()
    }}"""
    module = parsed(text)
    name_arrays_once(module)
    branch = next(op for op in with_nested(module) if op.name == "pd_op.if")
    assert [len(list(r.uses)) for r in branch.results] == [0, 1]


ORDER = """pir.program @p(%x "x" : tensor<2xi64>) {
  %c = pd_op.full() {shape = array<i64: 2>, value = 3.0 : f64, dtype = #pir.dtype<float32>}
    : () -> tensor<2xf32>
  %v, %i = pd_op.argsort(%c) {axis = -1 : i32, descending = false, stable = true}
    : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %w = pd_op.WRITE(%i, %x) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %s = pd_op.exp(%v) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%w) {output_name = "w"} : (tensor<2xi64>) -> ()
  pir.shadow_output(%s) {output_name = "s"} : (tensor<2xf32>) -> ()
}"""


@pytest.mark.parametrize("write", ["add", "add_"])
def test_an_op_of_which_one_result_is_overwritten_is_not_folded(write: str) -> None:
    module = parsed(ORDER.replace("WRITE", write))
    run_pipeline(module, "constant-fold")
    assert ("argsort" in str(module)) == (write == "add_")
