"""Plans that are kept are the plans that are written, and are used only where nothing differs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit import ops
from pirkit.diag import plugin_additions
from pirkit.diag.errors import RuntimeFault, UsageError
from pirkit.diag.limits import STRICT, use_limits
from pirkit.diag.span import Span
from pirkit.dialect.opdef import lookup, reference
from pirkit.frontend import compile as compiling
from pirkit.frontend import compile_cache, native_compile
from pirkit.frontend.files import Program, load, parse
from pirkit.frontend.tracing import trace
from pirkit.passes import registry
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta, TokenMeta, VecMeta
from pirkit.runtime.native.cache import ObjectCache
from pirkit.runtime.place import Place
from pirkit.runtime.plan import (
    Call,
    Copy,
    HostArgument,
    If,
    Output,
    Plan,
    Port,
    Stack,
    While,
)
from pirkit.runtime.plan_json import pack_plan, unpack_plan
from pirkit.runtime.typed_json import NotSerializableError
from tests.whole_program.processes import printed_twice

CORPUS = Path(__file__).parents[1] / "corpus" / "paddle"
EXHAUSTIVE = os.environ.get("PIRKIT_EXHAUSTIVE") == "1"
X = np.random.default_rng(3).standard_normal((24, 6)).astype("float32")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by a pipeline whenever a program is taken through passes."""
    seen: list[str] = []
    run = native_compile.plan_with

    def noted(form: Any, program: Program, pipeline: str, *rest: Any) -> Any:
        seen.append(pipeline)
        return run(form, program, pipeline, *rest)

    monkeypatch.setattr(native_compile, "plan_with", noted)
    return seen


def program(number: float = 2.0, rows: int = 24) -> Program:
    return trace(lambda x: ops.softmax(ops.tanh(x) * number - x, -1), (X[:rows],)).program


# --- what is kept --------------------------------------------------------------------------------


def again(plan: Plan) -> Plan | None:
    return unpack_plan(json.loads(json.dumps(pack_plan(plan))))


@pytest.mark.parametrize("name", sorted(p.name for p in CORPUS.iterdir() if p.is_dir()))
def test_plans_of_captured_programs_come_back(name: str) -> None:
    files = ("program.txt", "model.json", "backward.txt") if EXHAUSTIVE else ("program.txt",)
    for file in files:
        if (CORPUS / name / file).exists():
            for pipeline in ("@default", "") if EXHAUSTIVE else ("@default",):
                plan = compiling.compile(load(CORPUS / name / file), pipeline=pipeline).plan
                found = again(plan)
                assert found == plan
                assert repr(found) == repr(plan)  # where 1, 1.0 and True differ


def bits(value: float) -> bytes:
    return np.float64(value).tobytes()


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -(2**70), 1.0, -0.0, 1e-320, math.pi, "text", "\ud800", "", (),
    (1, (2.0,)), [1, [2]], 1 + 2j, complex(-0.0, math.inf), math.inf, -math.inf, math.nan,
    -math.nan, np.frombuffer(b"\x01\0\0\0\0\0\xf8\x7f")[0].item(), dt.bfloat16, Place("gpu", 3),
    ((), [()]),
)  # fmt: skip


def test_values_come_back_bit_by_bit() -> None:
    attrs = {f"a{k}": value for k, value in enumerate(VALUES)}
    meta = TensorMeta((2, -1), dt.float16)
    span, where = Span("a b.txt", 3, 0, 2), Span("", 0)
    everything = Call(
        "pd_op.x", (0, (1, 2), None, ()), (3, None), attrs, (HostArgument("k", (1, 2), "array"),),
        (1,), 7, True, span, ("a", "b"), "whole",
    )  # fmt: skip
    body = (
        everything,
        Copy((0, (1,), None), (1, (2,), None), (3,), span),
        If(0, (Call("a", (), ()),), (), (1,), where),
        While(1, (Copy((), ()), Stack("pop", 2, (), (None,))), (2,), None),
        Stack("write", 3, ((1,),), (0,), (1,), span, (4, -5)),
    )
    plan = Plan(
        "main", (meta, VecMeta((meta,)), TokenMeta("stack"), VecMeta(())), (Port("x", 0, meta),),
        (Port("w", 1, VecMeta(())),), (Output("y", (0, 1), meta), Output("z", None, meta)), body,
        ("w",),
    )  # fmt: skip
    found = again(plan)
    assert found is not None
    assert repr(found) == repr(plan)
    call = found.body[0]
    assert isinstance(call, Call)
    assert list(call.attrs) == list(attrs)
    for name, value in attrs.items():
        held = call.attrs[name]
        assert type(held) is type(value)
        if isinstance(value, float):
            assert bits(held) == bits(value)
    assert call.attrs["a23"] is dt.bfloat16


@pytest.mark.parametrize("value", [np.float32(1), np.zeros(2), {"a": 1}, {1}, b"x", object()])
def test_values_that_are_no_plain_data_are_not_kept(value: Any) -> None:
    with pytest.raises(NotSerializableError):
        pack_plan(Plan("p", (), (), (), (), (Call("k", (), (), {"a": (value,)}),)))


def _wrong(path: tuple[Any, ...], value: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = value

    return change


NAME, SLOTS, INPUTS, OUTPUTS, BODY, WRITTEN = 0, 1, 2, 4, 5, 6  # fields of a plan
WRONG = (
    _wrong((SLOTS,), []),
    _wrong((SLOTS, 0), ["TensorMeta", [4], "float99"]),
    _wrong((SLOTS, 0), ["TensorMeta", ["4"], "float32"]),
    _wrong((SLOTS, 0), ["TensorMeta", [4]]),
    _wrong((SLOTS, 0), ["Other", [4], "float32"]),
    _wrong((SLOTS, 0), []),
    _wrong((INPUTS, 0, 1), 99),
    _wrong((INPUTS, 0, 1), -1),
    _wrong((INPUTS, 0, 1), True),
    _wrong((OUTPUTS, 0, 1), [0, 99]),
    _wrong((OUTPUTS, 0, 1), "0"),
    _wrong((OUTPUTS, 0), ["y"]),
    _wrong((BODY, 0, 0), "Other"),
    _wrong((BODY, 0, 1), 3),
    _wrong((BODY, 0, 2), [99]),
    _wrong((BODY, 0, 4), []),
    _wrong((BODY, 0, 4), {"axis": {"other": 1}}),
    _wrong((BODY, 0, 4), {"axis": {"float": "zz"}}),
    _wrong((BODY, 0, 4), {"axis": {"complex": "00"}}),
    _wrong((BODY, 0, 8), 1),
    _wrong((BODY, 0), ["Call"]),
    _wrong((WRITTEN,), None),
    _wrong((NAME,), 1),
)


@pytest.mark.parametrize("change", WRONG)
def test_what_does_not_hold_together_is_absent(change: Callable[[Any], None]) -> None:
    data = json.loads(json.dumps(pack_plan(compiling.compile(program(), pipeline="").plan)))
    assert unpack_plan(data) is not None
    change(data)
    assert unpack_plan(data) is None


@pytest.mark.parametrize("data", [None, 1, [], {}, "plan"])
def test_other_data_are_no_plan(data: Any) -> None:
    assert unpack_plan(data) is None


# --- when it is used -----------------------------------------------------------------------------


def result(made: Executable, x: Any = X) -> Any:
    return made(x0=x)["y0"]


def test_a_second_compilation_takes_what_is_kept(store: ObjectCache, passes: list[str]) -> None:
    first, second = (compiling.compile(program()) for _ in range(2))
    assert passes == ["@default"]
    assert repr(second.plan) == repr(first.plan)
    np.testing.assert_array_equal(result(second), result(first))


def test_what_differs_is_another_plan(
    store: ObjectCache, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = program()
    settings: list[dict[str, Any]] = [
        {}, {"pipeline": "@simplify"}, {"pipeline": "cse"}, {"prim": True},
        {"prim": True, "prim_keep": ["softmax"]},
    ]  # fmt: skip
    for setting in settings:
        compiling.compile(made, **setting)
    assert len(passes) == len(settings)
    compiling.compile(program(3.0))
    compiling.compile(program(rows=23))
    with use_limits(STRICT):
        compiling.compile(made)
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache, "host", lambda: "another")
        compiling.compile(made)
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache.SOURCES, "known", lambda: "others")
        compiling.compile(made)
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache.SOURCES, "known", lambda: None)
        compiling.compile(made)
    assert len(passes) == len(settings) + 6
    passes.clear()
    for setting in settings:
        compiling.compile(made, **setting)
    assert passes == []


def test_options_that_decide_about_no_plan_share_it(store: ObjectCache, passes: list[str]) -> None:
    made = program()
    wanted = result(compiling.compile(made, pipeline="@default"))
    settings: tuple[dict[str, Any], ...] = ({"threads": 2}, {"seed": 5}, {"certify": True})
    for setting in settings:
        exe = compiling.compile(made, pipeline="@default", **setting)
        np.testing.assert_array_equal(result(exe), wanted)
    assert len(passes) == 1


def test_each_program_of_a_module_has_a_plan(store: ObjectCache, passes: list[str]) -> None:
    both = program()
    other = program(5.0).main.clone()
    other.properties["sym_name"] = type(other.properties["sym_name"])("other")  # pyright: ignore
    both.module.body.block.add_op(other)
    for _ in range(2):
        found = [result(compiling.compile(both, entry=e)) for e in (None, "main", "other")]
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[2], result(compiling.compile(program(5.0))))
        with pytest.raises(UsageError):
            compiling.compile(both, entry="none")
    assert passes == ["@default"] * 6


def test_other_devices_keep_nothing(store: ObjectCache, passes: list[str]) -> None:
    for _ in range(2):
        compiling.compile(program(), backend="reference")
    assert len(passes) == 2


def test_nothing_is_kept_where_others_add_rules_or_passes(
    store: ObjectCache, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling.compile(program())
    definition = lookup("pd_op.tanh")
    reference(definition, override=True)(reference.of(definition))
    for number in (2.0, 7.0):
        compiling.compile(program(number))
    plugin_additions.FOREIGN.clear()
    for table in (registry.PASSES, registry.PIPELINES):
        with monkeypatch.context() as patch:
            patch.setitem(table, "theirs", next(iter(table.values())))
            compiling.compile(program())
    assert len(passes) == 5
    compiling.compile(program(7.0))
    assert len(passes) == 6


def test_a_plan_that_is_kept_tells_the_same_faults(store: ObjectCache, passes: list[str]) -> None:
    def text(lines: int) -> str:
        return "\n" * lines + str(trace(lambda x: ops.tanh(x).sum(), (X,)).program)

    said: list[tuple[str, list[Any]]] = []
    for lines in (0, 0, 4):
        made = Program(parse(text(lines), format="mlir", name=f"{lines}.mlir"))
        exe = compiling.compile(made, pipeline="@simplify")
        with pytest.raises(RuntimeFault) as caught:
            exe(x0=X[:, :2])
        spans = [i.span for i in exe.plan.body]
        said.append((str(caught.value), spans))
    assert said[0] == said[1]
    assert said[0] != said[2]
    assert len(passes) == 2
    assert {s.line for s in said[2][1]} == {s.line + 4 for s in said[0][1]}


def test_an_entry_that_says_nothing_is_absent(store: ObjectCache, passes: list[str]) -> None:
    wanted = result(compiling.compile(program()))
    (path,) = (p for p in store.folder.iterdir() if b'"programs"' in p.read_bytes())
    for damage in (b"{", b"[]", b"null", b'{"name": "main"}'):
        store.put(path.stem, damage)
        passes.clear()
        np.testing.assert_array_equal(result(compiling.compile(program())), wanted)
        compiling.compile(program())
        assert passes == ["@default"]


def test_no_entry_of_a_plan_with_other_values(
    store: ObjectCache, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = native_compile.write_plan

    def other(*given: Any, **named: Any) -> Plan:
        plan = write(*given, **named)
        body = [replace(i, attrs={"odd": object()}) for i in plan.body if isinstance(i, Call)]
        return replace(plan, body=tuple(body))

    monkeypatch.setattr(native_compile, "write_plan", other)
    for _ in range(2):
        compiling.compile(program(), pipeline="@default")
    assert len(passes) == 2


PROGRAM = """
import sys
import numpy as np
import pirkit
from pirkit import ops

x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
made = pirkit.grad(lambda x: ops.tanh(ops.matmul(x, x, transpose_y=True)).sum())(x)
print("passes" if "pirkit.passes" in sys.modules else "kept")
print(np.asarray(made).tobytes().hex())
"""


def test_a_second_process_needs_no_passes(tmp_path: Path) -> None:
    said = printed_twice(PROGRAM, str(tmp_path))
    assert [lines[0] for lines in said] == ["passes", "kept"]
    assert said[0][1] == said[1][1]


_READ = """
import sys, pirkit
program = pirkit.load("pirkit/samples/lenet.json")
pirkit.compile(program)
print(len([name for name in sys.modules if name.startswith("pirkit.dialect.ops.")]))
"""


def test_a_process_that_reads_a_plan_imports_only_the_ops_of_its_program(tmp_path: Path) -> None:
    """No package has declared plug-ins, which would need all ops of pirkit before them."""
    (first,), (again,) = printed_twice(_READ, str(tmp_path))
    assert int(again) < int(first) / 2
