"""What a run computes, writes and refuses, on programs small enough to see the answer."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import RuntimeFault, UsageError
from pirkit.diag.limits import Limits, use_limits
from pirkit.dialect.operation import ProgramOp
from pirkit.frontend.files import Program, parse
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.executor import Executable
from pirkit.runtime.parallel import Graph, execute_parallel
from pirkit.runtime.plan import Copy
from pirkit.runtime.run_block import BlockSteps, execute
from pirkit.runtime.slots import SlotTable
from tests.execution import parsed
from tests.whole_program.test_segments import WRITES

F = "tensor<2xf32>"
C = "tensor<i1>"
N = "tensor<i32>"


def executable(body: str, inputs: Iterable[str] = (f'%x "x" : {F}',), seed: int = 0) -> Executable:
    module = parsed(f"pir.program @main({', '.join(inputs)}) {{\n{body}\n}}")
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    plan = write_plan(program)
    return Executable(plan, KernelLibrary(), seed=seed)


def out(value: str, type: str = F, name: str = "y") -> str:
    return f'pir.shadow_output({value}) {{output_name = "{name}"}} : ({type}) -> ()'


def parameter(name: str, type: str = F) -> str:
    return f'%{name} = pir.parameter() {{parameter_name = "{name}"}} : () -> {type}'


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


INVERSE = executable(
    "%y = pd_op.inverse(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>\n"
    + out("%y", "tensor<2x2xf32>"),
    ('%x "x" : tensor<2x2xf32>',),
)
RELU = executable(f"%y = pd_op.relu(%x) : ({F}) -> {F}\n" + out("%y"))


@pytest.mark.parametrize(
    ("inputs", "code", "text"),
    [
        ({}, "PK0902", "input 'x' is missing"),
        ({"x": None}, "PK0902", "input 'x' is missing"),
        ({"x": f32(1, 2), "xx": 1}, "PK0902", "no input 'xx'"),
        ({"x": f32(1, 2, 3)}, "PK0903", "tensor<3xf32>"),
        ({"x": f32(1, 2)[None]}, "PK0903", "tensor<1x2xf32>"),
        ({"x": np.zeros(2)}, "PK0903", "tensor<2xf64>"),
        ({"x": np.array(["a", "b"])}, "PK0903", "dtype <U1"),
        ({"x": [[1], [1, 2]]}, "PK0903", "is no array"),
    ],
)
def test_inputs_that_do_not_fit(inputs: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(RuntimeFault, match=text) as caught:
        RELU.run(inputs)
    assert caught.value.code == code


def test_a_name_that_is_nearly_right_gets_a_hint() -> None:
    exe = executable(out("%x"), [f'%x "image" : {F}'])
    with pytest.raises(RuntimeFault) as caught:
        exe(imgae=f32(1, 2))
    assert caught.value.help == "did you mean 'image'?"


def test_a_missing_parameter_is_named() -> None:
    exe = executable(parameter("w") + "\n" + out("%w"), [])
    with pytest.raises(RuntimeFault, match="parameter 'w' is missing") as caught:
        exe()
    assert caught.value.code == "PK0902"


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_data_that_an_op_refuses_are_told_with_its_place(backend: str) -> None:
    """A fault of the rule itself names neither."""
    run = Executable(INVERSE.plan, KernelLibrary(backend))
    with pytest.raises(RuntimeFault, match=r"`pd_op.inverse`: the matrix is not") as error:
        run(x=np.zeros((2, 2), np.float32))
    assert (error.value.code, error.value.span is not None) == ("PK0901", True)
    with pytest.raises(RuntimeFault, match=r"`pd_op.inverse`: the matrix is not"):
        pirkit.ops.inverse(pirkit.tensor(np.zeros((2, 2))))


def test_a_kernel_that_refuses_is_named_with_its_place() -> None:
    module = parsed(
        f'pir.program @main(%a "a" : tensor<?xf32>, %b "b" : tensor<?xf32>) {{\n'
        "  %y = pd_op.add(%a, %b) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>\n"
        f"  {out('%y', 'tensor<?xf32>')}\n}}"
    )
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    plan = write_plan(program)
    with pytest.raises(RuntimeFault, match=r"`pd_op\.add`") as caught:
        Executable(plan, KernelLibrary())(a=f32(1, 2), b=f32(1, 2, 3))
    assert caught.value.code == "PK0901"
    assert caught.value.span is not None
    assert caught.value.span.line == 2


@pytest.mark.parametrize("at", range(3))
def test_a_kernel_that_stops_an_iteration_does_not_end_the_run(at: int) -> None:
    calls: list[tuple[Any, ...]] = [(bool, n) for n in range(3)]
    calls[at] = (next, iter(()))
    instructions = tuple(write_plan(parsed_program()).body) * 3
    steps = BlockSteps(tuple(calls), instructions[:3])
    with pytest.raises(RuntimeFault, match="StopIteration"):
        execute(SlotTable(8, 0, KernelLibrary().device), steps)


def parsed_program() -> ProgramOp:
    module = parsed(
        f'pir.program @main(%a "a" : tensor<2xf32>) {{\n'
        "  %y = pd_op.exp(%a) : (tensor<2xf32>) -> tensor<2xf32>\n"
        f"  {out('%y', 'tensor<2xf32>')}\n}}"
    )
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return program


# --- writes --------------------------------------------------------------------------------------


def test_an_alias_sees_a_write_and_the_caller_does_not() -> None:
    exe = executable(f"""
        %v = pd_op.share_data(%x) : ({F}) -> {F}
        %w = pd_op.relu_(%v) : ({F}) -> {F}
        {out("%x")}""")
    x = f32(-1, 2)
    np.testing.assert_array_equal(exe(x=x)["y"], [0, 2])
    np.testing.assert_array_equal(x, [-1, 2])
    assert exe.plan.written == ("x",)
    np.testing.assert_array_equal(exe.updates["x"], [0, 2])


def test_a_value_computed_before_a_write_stays() -> None:
    exe = executable(f"""
        %a = pd_op.assign(%x) : ({F}) -> {F}
        %w = pd_op.relu_(%x) : ({F}) -> {F}
        {out("%a")}
        {out("%w", name="z")}""")
    found = exe(x=f32(-1, 2))
    np.testing.assert_array_equal(found["y"], [-1, 2])
    np.testing.assert_array_equal(found["z"], [0, 2])


def test_a_written_parameter_is_kept_for_the_next_run() -> None:
    exe = executable(f"""
        {parameter("w")}
        %s = pd_op.add(%w, %x) : ({F}, {F}) -> {F}
        %t = pd_op.assign_out_(%s, %w) : ({F}, {F}) -> {F}
        {out("%w")}""")
    start = f32(1, 1)
    exe.params["w"] = start
    exe(x=f32(1, 2))
    np.testing.assert_array_equal(exe(x=f32(1, 2))["y"], [3, 5])
    np.testing.assert_array_equal(exe.params["w"], [3, 5])
    np.testing.assert_array_equal(exe.updates["w"], [3, 5])
    np.testing.assert_array_equal(start, [1, 1])


@pytest.mark.parametrize(
    "writes",
    [
        "%t = pd_op.assign_out_(%x, %w) : ({F}, {F}) -> {F}",
        "%t = pd_op.share_data_(%x) : ({F}) -> {F}\n"
        "%u = pd_op.assign_out_(%t, %w) : ({F}, {F}) -> {F}",
    ],
)
def test_a_parameter_shares_no_memory_with_the_input_it_was_set_to(writes: str) -> None:
    exe = executable(f"{parameter('w')}\n{writes.replace('{F}', F)}\n{out('%w')}")
    exe.params["w"] = f32(0, 0)
    x = f32(1, 2)
    found = exe(x=x)["y"]
    assert not np.may_share_memory(exe.params["w"], x)
    assert not np.may_share_memory(found, x)
    assert not np.may_share_memory(found, exe.params["w"])
    x[:] = 7
    np.testing.assert_array_equal(exe.params["w"], [1, 2])


@pytest.mark.parametrize("write", ["", "%w = pd_op.relu_(%x) : ({F}) -> {F}"])
def test_an_output_that_is_a_view_shares_no_memory_with_the_input(write: str) -> None:
    exe = executable(f"""
        %s = pd_op.full_int_array() {{value = array<i64: 2, 1>, dtype = #pir.dtype<int64>,
            place = #pir.place<cpu:0>}} : () -> tensor<2xi64>
        %v = pd_op.reshape(%x, %s) : ({F}, tensor<2xi64>) -> tensor<2x1xf32>
        {write.replace("{F}", F)}
        {out("%v", "tensor<2x1xf32>")}""")
    x = f32(-1, 2)
    found = exe(x=x)["y"]
    assert not np.may_share_memory(found, x)
    first = found.copy()
    exe(x=f32(5, 6))
    np.testing.assert_array_equal(found, first)


def test_outputs_of_two_runs_share_no_memory() -> None:
    exe = executable(f"{parameter('w')}\n{out('%w')}\n{out('%x', name='z')}")
    exe.params["w"] = f32(1, 2)
    x = f32(3, 4)
    one, two = exe(x=x), exe(x=x)
    arrays = [*one.values(), *two.values()]
    owned = [x, exe.params["w"]]
    assert not any(np.may_share_memory(a, b) for a in one.values() for b in two.values())
    assert not any(np.may_share_memory(a, b) for a in arrays for b in owned)


def test_a_write_inside_a_branch_reaches_the_captured_value() -> None:
    exe = executable(
        f"""
        pd_op.if(%c) : ({C}) -> () {{
          %w = pd_op.relu_(%x) : ({F}) -> {F}
          pir.yield() : () -> ()
        }} else {{
          pir.yield() : () -> ()
        }}
        {out("%x")}""",
        [f'%c "c" : {C}', f'%x "x" : {F}'],
    )
    x = f32(-1, 2)
    np.testing.assert_array_equal(exe(c=np.array(True), x=x)["y"], [0, 2])
    np.testing.assert_array_equal(exe(c=np.array(False), x=x)["y"], [-1, 2])
    np.testing.assert_array_equal(x, [-1, 2])


# --- control flow --------------------------------------------------------------------------------

ONE = (
    "%one = pd_op.full() {shape = array<i64>, value = 1.0 : f64, dtype = #pir.dtype<int32>, "
    f"place = #pir.place<cpu:0>}} : () -> {N}"
)
LIMIT = [f'%n "n" : {N}', f'%x "x" : {F}']
ZERO = ONE.replace("%one", "%zero").replace("1.0", "0.0")


def loop(body: str) -> str:
    """Runs the body n times; it makes %b of %a."""
    return f"""
        {ZERO}
        {ONE}
        %c = pd_op.less_than(%zero, %n) : ({N}, {N}) -> {C}
        %i, %y = pd_op.while(%c, %zero, %x) : ({C}, {N}, {F}) -> ({N}, {F}) {{
        ^bb0(%k: {N}, %a: {F}):
          {body}
          %next = pd_op.add(%k, %one) : ({N}, {N}) -> {N}
          %more = pd_op.less_than(%next, %n) : ({N}, {N}) -> {C}
          pir.yield(%more, %next, %b) : ({C}, {N}, {F}) -> ()
        }}
        {out("%y")}
        {out("%i", N, "i")}"""


DOUBLE = f"%b = pd_op.add(%a, %a) : ({F}, {F}) -> {F}"


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_loop(trips: int) -> None:
    found = executable(loop(DOUBLE), LIMIT)(n=np.int32(trips), x=f32(1, -1))
    np.testing.assert_array_equal(found["y"], [2**trips, -(2**trips)])
    assert found["i"] == trips


def test_a_branch_in_a_loop() -> None:
    body = f"""%first = pd_op.equal(%k, %zero) : ({N}, {N}) -> {C}
          %b = pd_op.if(%first) : ({C}) -> {F} {{
            %p = pd_op.add(%a, %a) : ({F}, {F}) -> {F}
            pir.yield(%p) : ({F}) -> ()
          }} else {{
            %q = pd_op.add(%a, %x) : ({F}, {F}) -> {F}
            pir.yield(%q) : ({F}) -> ()
          }}"""
    found = executable(loop(body), LIMIT)(n=np.int32(3), x=f32(1, 10))
    np.testing.assert_array_equal(found["y"], [4, 40])


def test_loop_state_that_changes_places() -> None:
    exe = executable(
        f"""
        {ZERO}
        {ONE}
        %c = pd_op.less_than(%zero, %n) : ({N}, {N}) -> {C}
        %i, %p, %q = pd_op.while(%c, %zero, %x, %z) : ({C}, {N}, {F}, {F}) -> ({N}, {F}, {F}) {{
        ^bb0(%k: {N}, %a: {F}, %b: {F}):
          %next = pd_op.add(%k, %one) : ({N}, {N}) -> {N}
          %more = pd_op.less_than(%next, %n) : ({N}, {N}) -> {C}
          pir.yield(%more, %next, %b, %a) : ({C}, {N}, {F}, {F}) -> ()
        }}
        {out("%p")}
        {out("%q", name="z")}""",
        [*LIMIT, f'%z "z" : {F}'],
    )
    found = exe(n=np.int32(3), x=f32(1, 2), z=f32(3, 4))
    np.testing.assert_array_equal(found["y"], [3, 4])
    np.testing.assert_array_equal(found["z"], [1, 2])


def test_a_loop_without_end_is_stopped() -> None:
    exe = executable(loop(DOUBLE), LIMIT)
    with use_limits(Limits(loop_steps=5)):
        exe(n=np.int32(5), x=f32(1, 1))
        with pytest.raises(RuntimeFault, match="longer than the limit") as caught:
            exe(n=np.int32(6), x=f32(1, 1))
    assert caught.value.code == "PK0905"


STACK = "%s, %in, %ex = pir.stack_create() : () -> (!pir.stack, !pir.inlet, !pir.outlet)"


def test_a_stack_gives_last_what_came_first() -> None:
    push = f"{DOUBLE}\n pir.tuple_push(%in, %b) : (!pir.inlet, {F}) -> ()"
    exe = executable(
        f"""
        {STACK}
        {loop(push)}
        %r = pd_op.while(%c, %x) : ({C}, {F}) -> {F} {{
        ^bb0(%e: {F}):
          %g = pir.tuple_pop(%ex) : (!pir.outlet) -> {F}
          %d = pd_op.subtract(%g, %e) : ({F}, {F}) -> {F}
          %left = pir.has_elements(%s) : (!pir.stack) -> tensor<1xi1>
          pir.yield(%left, %d) : (tensor<1xi1>, {F}) -> ()
        }}
        {out("%r", name="r")}""",
        LIMIT,
    )
    found = exe(n=np.int32(3), x=f32(1, 0))
    np.testing.assert_array_equal(found["r"], [2 - (4 - (8 - 1)), 0])


def test_an_empty_stack_gives_nothing() -> None:
    exe = executable(f"{STACK}\n%a = pir.tuple_pop(%ex) : (!pir.outlet) -> {F}\n{out('%a')}")
    with pytest.raises(RuntimeFault, match="empty stack") as caught:
        exe(x=f32(0, 1))
    assert caught.value.code == "PK0904"


# --- draws ---------------------------------------------------------------------------------------


def uniform(seed: int) -> str:
    return f"""
        %lo = pd_op.full() {{shape = array<i64: 1>, value = 0.0 : f64,
            dtype = #pir.dtype<float32>, place = #pir.place<cpu:0>}} : () -> tensor<1xf32>
        %hi = pd_op.full() {{shape = array<i64: 1>, value = 1.0 : f64,
            dtype = #pir.dtype<float32>, place = #pir.place<cpu:0>}} : () -> tensor<1xf32>
        %d = pd_op.full_int_array() {{value = array<i64: 64>, dtype = #pir.dtype<int64>,
            place = #pir.place<cpu:0>}} : () -> tensor<1xi64>
        %y = pd_op.uniform(%d, %lo, %hi) {{dtype = #pir.dtype<float32>, seed = {seed} : i32,
            place = #pir.place<cpu:0>}}
            : (tensor<1xi64>, tensor<1xf32>, tensor<1xf32>) -> tensor<64xf32>
        %z = pd_op.uniform(%d, %lo, %hi) {{dtype = #pir.dtype<float32>, seed = {seed} : i32,
            place = #pir.place<cpu:0>}}
            : (tensor<1xi64>, tensor<1xf32>, tensor<1xf32>) -> tensor<64xf32>
        {out("%y", "tensor<64xf32>")}
        {out("%z", "tensor<64xf32>", "z")}"""


def test_draws_depend_on_the_seed_the_run_and_the_op() -> None:
    exe, again, other = (executable(uniform(0), [], seed=s) for s in (3, 3, -4))
    first, second = exe(), exe()
    replayed = again()
    np.testing.assert_array_equal(first["y"], replayed["y"])
    np.testing.assert_array_equal(second["y"], again()["y"])
    assert not np.array_equal(first["y"], first["z"])
    assert not np.array_equal(first["y"], second["y"])
    assert not np.array_equal(first["y"], other()["y"])


@pytest.mark.parametrize("seed", [7, -7])
def test_an_op_with_a_seed_of_its_own_draws_the_same_always(seed: int) -> None:
    exe, other = (executable(uniform(seed), [], seed=s) for s in (3, 4))
    first = exe()
    np.testing.assert_array_equal(first["y"], exe()["y"])
    np.testing.assert_array_equal(first["y"], other()["y"])


def test_threads_that_call_one_executable_do_not_disturb_each_other() -> None:
    shared = executable(loop(DOUBLE), LIMIT)

    def work(number: int) -> Any:
        return [shared(n=np.int32(number), x=f32(1, 1))["y"][0] for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(8)))
    assert results == [[2.0**n] * 20 for n in range(8)]


def test_an_interrupt_in_one_of_several_threads_ends_the_run() -> None:
    """The other threads waited for the interrupted step, and each later run for a thread."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    seen: list[BaseException] = []

    def run() -> None:
        steps = BlockSteps(((interrupted,), (int,)), (Copy((), ()),) * 2)
        with pytest.raises(KeyboardInterrupt) as error:
            execute_parallel(cast(Any, None), steps, Graph((0, 1), ((1,), ())), 2)
        seen.append(error.value)

    for count in (1, 2, 3):
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(60)
        assert len(seen) == count


@pytest.mark.parametrize("in_place", [False, True])
def test_a_copy_of_an_executable_has_parameters_of_its_own(in_place: bool) -> None:
    """A run of the copy changed the parameters of both."""
    exe = pirkit.compile(Program(parse(WRITES), {"w": np.ones(4, np.float32)}), in_place=in_place)
    exe(x=np.ones(4, np.float32))
    copy.copy(exe)(x=np.ones(4, np.float32))
    assert (exe.params["w"].tolist(), exe.runs) == ([2.0] * 4, 1)


class Unreadable:
    """As a tensor of torch that needs a gradient."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise RuntimeError("no array of it")


def test_arguments_whose_conversion_fails_are_told() -> None:
    with pytest.raises(RuntimeFault, match="no array of it") as error:
        RELU(x=Unreadable())
    assert error.value.code == "PK0903"
    with pytest.raises(UsageError, match="no array of it"):
        pirkit.ops.relu(Unreadable())


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_inputs_agree_in_the_sizes_that_a_symbol_names(backend: str) -> None:
    """Sizes of 1 would broadcast."""
    kind = 'tensor<?xf32, #pir.dims<["N"]>>'
    program = Program(
        parsed(
            f'pir.program @main(%x "x" : {kind}, %y "y" : {kind}) {{\n'
            f"  %z = pd_op.add(%x, %y) : ({kind}, {kind}) -> {kind}\n"
            f'  pir.shadow_output(%z) {{output_name = "z"}} : ({kind}) -> ()\n}}'
        )
    )
    exe = pirkit.compile(program, backend=backend)
    three, one = np.ones(3, np.float32), np.ones(1, np.float32)
    np.testing.assert_array_equal(exe(x=three, y=three)["z"], three * 2)
    with pytest.raises(RuntimeFault, match="`N` is 3 in input 'x' and 1 in 'y'"):
        exe(x=three, y=one)
