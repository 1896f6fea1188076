"""What was made of a program is used again if nothing differs, and only then."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from xdsl.dialects import builtin as mlir

from pirkit import ops
from pirkit.diag import plugin_additions
from pirkit.diag.limits import STRICT, use_limits
from pirkit.diag.source_files import Sources
from pirkit.dialect.fingerprint import fingerprint_of
from pirkit.dialect.opdef import infer_meta, lookup, reference
from pirkit.frontend import compile_cache, native_compile
from pirkit.frontend.compile import DEFAULT_PIPELINE, compile
from pirkit.frontend.files import Program, parse
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.emit import batch_compile
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.passes import registry
from pirkit.runtime.executor import Executable
from pirkit.runtime.native import target
from pirkit.runtime.native.cache import ObjectCache
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.registry import Registry
from tests.whole_program.processes import printed_twice

X = np.random.default_rng(3).standard_normal((24, 6)).astype("float32")


def program(number: float = 2.0, rows: int = 24) -> Program:
    return trace(lambda x: ops.softmax(ops.tanh(x) * number - x, -1), (X[:rows],)).program


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by a name whenever a program is taken through the passes."""
    seen: list[str] = []
    run = native_compile.plan_with

    def noted(form: Any, program: Program, pipeline: str, *rest: Any) -> Any:
        seen.append(pipeline)
        return run(form, program, pipeline, *rest)

    monkeypatch.setattr(native_compile, "plan_with", noted)
    return seen


def cache_key(made: Program, pipeline: str = DEFAULT_PIPELINE) -> str | None:
    return compile_cache.cache_key(made, KernelLibrary(), "fast", pipeline, None)


def result(made: Executable, x: Any = X) -> Any:
    return made(x0=x)["y0"]


def test_a_second_compilation_takes_what_is_kept(
    store: ObjectCache, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile(program(), fast_math=True)
    monkeypatch.setattr(batch_compile, "_functions", {})
    second = compile(program(), fast_math=True)
    assert len(passes) == 1
    assert first.native is not None
    assert second.native is not None
    assert second.native is not first.native
    for name in ("inputs", "results", "temporaries", "memory", "names", "summary", "in_place"):
        assert getattr(second.native, name) == getattr(first.native, name)
    assert second.reasons == first.reasons
    np.testing.assert_array_equal(result(second), result(first))


def test_a_refusal_is_kept_with_its_reasons(store: ObjectCache, passes: list[str]) -> None:
    def bessel(x: Any) -> Any:
        return ops.i0e(x)

    made = [compile(trace(bessel, (X,)).program, fast_math=True) for _ in range(2)]
    assert len(passes) == 1
    assert made[0].native is None
    assert made[1].native is None
    assert made[0].reasons == made[1].reasons != ()
    np.testing.assert_array_equal(result(made[1]), ops.i0e(X))


ADDED = """pir.program @main(%x "x0" : tensor<24x6xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<6xf32>
  %y = pd_op.add(%x, %w) : (tensor<24x6xf32>, tensor<6xf32>) -> tensor<24x6xf32>
  pir.shadow_output(%y) {output_name = "y0"} : (tensor<24x6xf32>) -> ()
}"""


def test_weights_are_no_part_of_it(store: ObjectCache, passes: list[str]) -> None:
    made = Program(parse(ADDED))
    for number in (1.0, 2.0):
        held = compile(made, params={"w": np.full(6, number, np.float32)}, fast_math=True)
        np.testing.assert_array_equal(result(held), X + np.float32(number))
    assert len(passes) == 1


def test_programs_that_differ_have_keys_that_differ(store: ObjectCache) -> None:
    def keys(*others: Any) -> list[str | None]:
        made = [trace(f, (x,)).program for f, x in others]
        return [cache_key(p) for p in (program(), *made)]

    found = keys(
        (lambda x: ops.softmax(ops.tanh(x) * 3.0 - x, -1), X),
        (lambda x: ops.softmax(ops.tanh(x) * 0.0 - x, -1), X),
        (lambda x: ops.softmax(ops.tanh(x) * -0.0 - x, -1), X),
        (lambda x: ops.softmax(ops.sin(x) * 2.0 - x, -1), X),
        (lambda x: ops.softmax(ops.tanh(x) * 2.0 - x, 0), X),
        (lambda x: ops.tanh(ops.softmax(x, -1) * 2.0 - x), X),
        (lambda x: ops.softmax(x - ops.tanh(x) * 2.0, -1), X),
        (lambda x: ops.softmax(ops.tanh(x) * 2.0 - x, -1), X[1:]),
        (lambda x: ops.softmax(ops.tanh(x) * 2.0 - x, -1), X.astype("float64")),
    )
    assert None not in found
    assert len(set(found)) == len(found)


def test_everything_that_a_module_says_counts() -> None:
    first = program()
    same = [first.copy(), program(), parse_again(first)]
    assert {fingerprint_of(p.module) for p in same} == {fingerprint_of(first.module)}
    for change in CHANGES:
        other = first.copy()
        change(other)
        assert fingerprint_of(other.module) != fingerprint_of(first.module), change


def parse_again(made: Program) -> Program:
    found = Program(parse(str(made), format="mlir"))
    for op in found.module.walk():  # a text has names for all values
        for value in op.results:
            value.name_hint = None
    return found


def _named(made: Program) -> None:
    next(iter(made.main.block.ops)).results[0].name_hint = "other"


def _marked(made: Program) -> None:
    next(iter(made.main.block.ops)).attributes["stop_gradient"] = mlir.ArrayAttr([])


def _renamed(made: Program) -> None:
    made.main.properties["sym_name"] = mlir.StringAttr("other")


def _crossed(made: Program) -> None:
    *_, op = (op for op in made.main.block.ops if len(op.operands) == 2)
    op.operands = [op.operands[1], op.operands[0]]


CHANGES = (_named, _marked, _renamed, _crossed)


def test_the_machine_and_the_limits_count(
    store: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = program()
    host = target.host()

    def key() -> str | None:
        return cache_key(made)

    keys = [key(), key()]
    with use_limits(STRICT):
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache, "host", lambda: replace(host, vector_bits=64))
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache, "l3_bytes", lambda: 1)
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setenv("PIRKIT_NUM_THREADS", "7")
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache.SOURCES, "known", lambda: "others")
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, os.path.dirname(np.__path__[0])] * 2)
        keys.append(key())
    keys.append(cache_key(made, ""))
    assert None not in keys
    assert len(set(keys)) == len(keys) - 1


def test_nothing_is_kept_by_a_process_that_runs_older_files(
    store: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_key(program()) is not None
    monkeypatch.setattr(compile_cache, "SOURCES", Sources(compile_cache.SOURCES.root, 0))
    assert cache_key(program()) is None


@pytest.mark.parametrize("value", ["objects", "off"])
def test_it_can_be_turned_off(
    value: str, store: ObjectCache, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIRKIT_NATIVE_CACHE", value)
    if value == "off":
        monkeypatch.setattr(compile_cache, "user_cache", lambda: None)
    for _ in range(2):
        compile(program(), fast_math=True)
    assert len(passes) == 2


def test_nothing_is_kept_where_others_add_passes(
    store: ObjectCache, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in (registry.PASSES, registry.PIPELINES):
        with monkeypatch.context() as patch:
            patch.setitem(table, "theirs", next(iter(table.values())))
            compile(program(), pipeline="cse,dce", fast_math=True)
    assert len(passes) == 2
    for _ in range(2):
        compile(program(), pipeline="cse,dce", fast_math=True)
    assert len(passes) == 3


def test_nothing_is_kept_where_others_add_rules(store: ObjectCache, passes: list[str]) -> None:
    compile(program(), fast_math=True)
    definition = lookup("pd_op.tanh")
    rule = reference.of(definition)
    reference(definition, override=True)(rule)
    assert plugin_additions.FOREIGN == {__name__}
    compile(program(), fast_math=True)
    compile(program(7.0), fast_math=True)
    plugin_additions.FOREIGN.clear()
    compile(program(), fast_math=True)
    assert len(passes) == 3
    compile(program(7.0), fast_math=True)
    assert len(passes) == 4


def test_rules_of_pirkit_are_its_own() -> None:
    assert infer_meta.get(lookup("pd_op.tanh")) is not None
    code = "from pirkit.dialect.opdef import all_ops, decompose, OPS;"
    code += "from pirkit.runtime.registry import KERNELS; import pirkit.frontend.compile;"
    code += "all_ops(); decompose.get(OPS['pd_op.tanh']); list(KERNELS.kernels(backend='cpu'));"
    code += "from pirkit.diag.plugin_additions import FOREIGN; print(sorted(FOREIGN))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


DAMAGE: dict[str, Any] = {
    "no JSON": b"{",
    "another kind": b"[]",
    "nothing": b"{}",
    "no reasons": b'{"plan": null, "programs": []}',
    "no plan": b'{"reasons": [], "plan": null, "programs": []}',
    "an empty program": b'{"reasons": [], "plan": {}, "programs": [{}]}',
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_entry_that_says_nothing_is_absent(
    name: str, store: ObjectCache, passes: list[str]
) -> None:
    key = cache_key(program())
    assert key is not None
    store.put(key, DAMAGE[name])
    wanted = result(compile(program(), pipeline="", fast_math=True))
    passes.clear()
    np.testing.assert_array_equal(result(compile(program(), fast_math=True)), wanted)
    assert passes == ["@default"]
    compile(program(), fast_math=True)
    assert passes == ["@default"]


def _entries(folder: Path) -> Iterator[Path]:
    return (p for p in folder.iterdir() if p.suffix == ".o")


def test_entries_that_are_cut_or_lost_are_made_anew(
    store: ObjectCache, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result(compile(program(), fast_math=True))
    for path in list(_entries(store.folder)):  # also the driver of calls, read once in a process
        path.unlink()
    monkeypatch.setattr(batch_compile, "_functions", {})
    wanted = result(compile(program(), fast_math=True))
    count = len(list(_entries(store.folder)))
    assert count >= 2
    for number in range(count):
        for damage in (b"", None):
            path = sorted(_entries(store.folder))[number]
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:-1])
            monkeypatch.setattr(batch_compile, "_functions", {})
            passes.clear()
            np.testing.assert_array_equal(result(compile(program(), fast_math=True)), wanted)
            assert len(passes) == 1
            assert len(list(_entries(store.folder))) == count


def test_numbers_that_do_not_hold_together_are_refused(
    store: ObjectCache, passes: list[str]
) -> None:
    key = cache_key(program())
    assert key is not None
    made = compile(program(), fast_math=True)
    assert made.native is not None
    data = compile_cache.from_bytes(store.get(key) or b"")
    fields, steps = data["programs"][0]
    names = [f.name for f in dataclasses.fields(NativeProgram) if f.compare]
    for name, value in (
        ("steps", [[steps[0][0], [0, 99], *steps[0][2:]]]),
        ("steps", [[steps[0][0], [0], *steps[0][2:]]]),
        ("temporaries", [1 << 40]),
        ("inputs", [["float99", [1]]]),
        ("names", [["x0"]]),
        ("memory", "much"),
        ("results", []),
    ):
        held = [value if field == name else x for field, x in zip(names, fields, strict=True)]
        program_of = [fields, value] if name == "steps" else [held, steps]
        store.put(key, compile_cache.as_bytes({**data, "programs": [program_of]}))
        passes.clear()
        compile(program(), fast_math=True)
        assert len(passes) == 1, name


PROGRAM = """
import sys
import numpy as np
import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace

def loss(x, w):
    return ops.tanh(ops.matmul(x, w)).sum()

def step(x, w):
    value, (gx, gw) = pirkit.value_and_grad(loss, (0, 1))(x, w)
    return value, x - gx, w - gw

x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
made = pirkit.compile(trace(step, (x, x[:3])).program, fast_math=True)
found = made(x0=x, x1=x[:3])
print("passes" if "pirkit.passes.decompose" in sys.modules else "kept")
print(*[found[f"y{i}"].tobytes().hex() for i in range(3)])
"""


def test_a_second_process_needs_no_passes(tmp_path: Path) -> None:
    said = printed_twice(PROGRAM, str(tmp_path))
    assert [lines[0] for lines in said] == ["passes", "kept"]
    assert said[0][1] == said[1][1]


def test_a_first_process_imports_what_it_needs() -> None:
    code = f"{PROGRAM}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PIRKIT_NATIVE_CACHE": "off"},
        capture_output=True,
        text=True,
        check=True,
    )
    passes, _, modules = done.stdout.splitlines()
    assert passes == "passes"
    for name in ("runtime.kernels.numpy", "lowering.codegen.correlations", "split", "cli"):
        assert f"pirkit.{name}" not in modules.split()


def test_plans_for_other_devices_or_with_other_kernels_are_not_kept(store: ObjectCache) -> None:
    own = KernelLibrary()
    assert compile_cache.cache_key(program(), own) is not None
    assert compile_cache.cache_key(program(), KernelLibrary("reference")) is None
    assert compile_cache.cache_key(program(), KernelLibrary(registry=Registry())) is None


def test_weights_have_a_key_if_all_are_numbers(store: ObjectCache) -> None:
    numbers, objects = np.zeros(2), np.array([None, None])
    assert compile_cache.weights_key("1", {"a": numbers}) is not None
    assert compile_cache.weights_key("1", {"a": numbers, "b": objects}) is None
    assert compile_cache.weights_key("1", {"a": numbers, "b": [0.0, 0.0]}) is None
