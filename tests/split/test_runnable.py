"""The embedder's object: waiting graphs, versions, threads, saved and released values."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pirkit
import pirkit.numpy as pnp
from pirkit import DenseTensor, from_numpy, tensor
from pirkit.diag.errors import RuntimeFault, UsageError
from pirkit.runtime.scope.scope_pool import MAX_IDLE_SCOPES
from pirkit.split import RunnableProgram, forward_backward
from pirkit.split.lowered_split import Halves
from pirkit.split.slot_assignment import slot_wiring
from tests.execution import parsed

ROWS = 3
T = f"tensor<{ROWS}x4xf32>"


def op(name: str, *operands: str) -> str:
    return f"pd_op.{name}({', '.join(operands)}) : ({', '.join([T] * len(operands))}) -> {T}"


def given(name: str) -> str:
    return f'%{name} = pir.parameter() {{parameter_name = "{name}"}} : () -> {T}'


def out(name: str, value: str) -> str:
    return f'pir.shadow_output(%{value}) {{output_name = "{name}"}} : ({T}) -> ()'


def runnable(*lines: str, **options: Any) -> RunnableProgram:
    body = "\n  ".join(lines)
    module = parsed(f'pir.program @main(%x "x" : {T}) {{\n  {body}\n}}')
    return RunnableProgram(forward_backward(module), **options)


LINES = (
    given("w"),
    f"%p = {op('multiply', '%x', '%w')}",
    f"%t = {op('tanh', '%p')}",
    f"%y = {op('multiply', '%t', '%w')}",
    out("y", "y"),
)


def net() -> RunnableProgram:
    """y = tanh(x * w) * w"""
    return runnable(*LINES)


def counting() -> RunnableProgram:
    """y = tanh(x) * w, and count += x."""
    return runnable(
        given("w"),
        given("count"),
        f"%c = {op('add_', '%count', '%x')}",
        f"%t = {op('tanh', '%x')}",
        f"%y = {op('multiply', '%t', '%w')}",
        out("y", "y"),
        out("count_now", "c"),
    )


def block(seed: int = 0) -> DenseTensor:
    return tensor(np.random.default_rng(seed).normal(size=(ROWS, 4)).astype(np.float32))


def expected(x: DenseTensor, w: DenseTensor, g: DenseTensor) -> tuple[Any, Any, Any]:
    """What ``net`` gives, and its gradients."""
    a, b, c = (np.float64(v.numpy()) for v in (x, w, g))
    t = np.tanh(a * b)
    inner = c * b * (1 - t**2)
    return t * b, inner * b, c * t + inner * a


def check(found: Any, want: Any) -> None:
    np.testing.assert_allclose(found.numpy(), want, rtol=2e-5, atol=1e-6)


# --- numbers -------------------------------------------------------------------------------------


def test_one_step() -> None:
    step, x, w, g = net(), block(1), block(2), block(3)
    (y,) = step.forward([x], [w])
    (gx,), (gw,) = step.backward([g])
    for found, want in zip((y, gx, gw), expected(x, w, g), strict=True):
        check(found, want)


def test_arrays_and_numbers_will_do() -> None:
    step, x, w, g = net(), block(1), block(2), block(3)
    (y,) = step.forward([x.numpy()], [w.tolist()])
    (gx,), _ = step.backward([g.numpy()[::-1][::-1]])
    check(y, expected(x, w, g)[0])
    check(gx, expected(x, w, g)[1])


def test_missing_gradients_are_zeros() -> None:
    step = net()
    outputs = step.forward([block(1)], [block(2)])
    (gx,), (gw,) = step.backward([None], outputs)
    assert not gx.numpy().any()
    assert not gw.numpy().any()


def test_outputs_that_are_one_tensor() -> None:
    step = runnable(f"%y = {op('tanh', '%x')}", out("a", "y"), out("b", "y"), out("c", "x"))
    x, g = block(1), block(2)
    a, b, c = step.forward([x])
    assert a is b
    assert c is x
    (gx,), () = step.backward([g, g, g])
    t = np.tanh(np.float64(x.numpy()))
    check(gx, 2 * g.numpy() * (1 - t**2) + g.numpy())


def test_a_gradient_is_the_caller_s_own() -> None:
    step = runnable(given("w"), f"%y = {op('add', '%x', '%w')}", out("y", "y"))
    g = block(2)
    step.forward([block(0)], [block(1)])
    y = step.forward([block(0)], [block(1)])
    (gx,), (gw,) = step.backward([g], y)
    assert gx is not None
    assert gw is not None
    gx += 1.0
    check(gw, g.numpy())
    check(gx, g.numpy() + 1)


def test_a_parameter_that_is_passed_as_input_too() -> None:
    step, w, g = net(), block(2), block(3)
    y = step.forward([w], [w])
    (gx,), (gw,) = step.backward([g], y)
    for found, want in zip((gx, gw), expected(w, w, g)[1:], strict=True):
        check(found, want)


def test_inference_keeps_nothing() -> None:
    step, x, w = net(), block(1), block(2)
    outputs = step.forward([x], [w], training=False)
    check(outputs[0], expected(x, w, x)[0])
    assert outputs.graph is None
    assert step.count().live == 0
    with pytest.raises(RuntimeFault, match="no forward run") as caught:
        step.backward([block(3)], outputs)
    assert caught.value.code == "PK0906"


# --- variables -----------------------------------------------------------------------------------


def test_a_buffer_is_updated_where_it_is_and_returned_as_itself() -> None:
    step, count = counting(), tensor(np.zeros((ROWS, 4), np.float32))
    total = np.zeros((ROWS, 4), np.float32)
    address = count.address
    for number in range(10):
        x, w, g = block(number), block(20), block(21)
        order = {"w": w, "count": count}
        y, now = step.forward([x], [order[name] for name in step.names.fp])
        total += x.numpy()
        assert now is count
        check(count, total)
        of_params = dict(zip(step.names.fp, step.backward([g, None])[1], strict=True))
        check(y, np.tanh(x.numpy()) * w.numpy())
        check(of_params["w"], g.numpy() * np.tanh(x.numpy()))
    assert count.address == address
    assert step.plans()[0].counters.copies == 0


def test_a_written_buffer_that_is_the_input_too() -> None:
    step, x = counting(), block(0)
    order = {"w": block(1), "count": x}
    with pytest.raises(RuntimeFault, match="shares memory") as caught:
        step.forward([x], [order[name] for name in step.names.fp])
    assert caught.value.code == "PK0908"
    assert step.count().live == 0


@pytest.mark.parametrize("changed", ["w", "x"])
def test_what_was_overwritten_is_named_with_both_versions(changed: str) -> None:
    step, held = net(), {"x": block(1), "w": block(2)}
    held["x"] += 0.0
    outputs = step.forward([held["x"]], [held["w"]])
    version = held[changed].version
    held[changed][0] = 1.0
    message = rf"'{changed}' .* version {version + 1}, .* needs version {version}"
    with pytest.raises(RuntimeFault, match=message) as caught:
        step.backward([block(3)], outputs)
    assert caught.value.code == "PK0907"


def test_an_output_that_was_overwritten() -> None:
    step = runnable(f"%y = {op('tanh', '%x')}", out("y", "y"))
    (y,) = outputs = step.forward([block(1)])
    y[...] = 0.0
    with pytest.raises(RuntimeFault, match=r"'y' .* version 1, .* needs version 0"):
        step.backward([block(2)], outputs)


def test_what_the_backward_does_not_read_may_be_overwritten() -> None:
    step, x, w, g = net(), block(1), block(2), block(3)
    want = expected(x, w, g)
    (y,) = outputs = step.forward([x], [w])
    y[...] = 0.0
    (gx,), _ = step.backward([g], outputs)
    check(gx, want[1])


# --- graphs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_several_forwards_then_backwards_in_any_order(order: list[int]) -> None:
    step, w = net(), block(9)
    xs, gs = [block(i) for i in range(5)], [block(10 + i) for i in range(5)]
    runs = [step.forward([x], [w]) for x in xs]
    assert step.count().live == 5
    for i in order:
        (gx,), (gw,) = step.backward([gs[i]], runs[i])
        check(gx, expected(xs[i], w, gs[i])[1])
        check(gw, expected(xs[i], w, gs[i])[2])
    assert step.count().live == 0
    assert step.count().idle <= MAX_IDLE_SCOPES


def test_two_backwards_of_a_graph_that_is_retained() -> None:
    step, x, w = net(), block(1), block(2)
    outputs = step.forward([x], [w])
    for seed in (3, 4):
        (gx,), _ = step.backward([block(seed)], outputs, retain_graph=True)
        check(gx, expected(x, w, block(seed))[1])
    step.backward([block(5)], outputs)
    with pytest.raises(RuntimeFault, match="used up by its backward") as caught:
        step.backward([block(6)], outputs)
    assert caught.value.code == "PK0906"
    assert "retain_graph" in (caught.value.help or "")


def test_a_graph_lives_as_long_as_an_output() -> None:
    step, w = net(), block(2)
    (y,) = step.forward([block(1)], [w])
    gc.collect()
    assert step.count().live == 1
    del y
    gc.collect()
    assert (step.count().live, step.count().nbytes) == (0, 0)
    with pytest.raises(RuntimeFault, match="no forward run"):
        step.backward([block(3)])


def test_release_lets_go_at_once() -> None:
    step = net()
    outputs = step.forward([block(1)], [block(2)])
    assert outputs.graph is not None
    outputs.graph.release()
    outputs.graph.release()
    assert outputs.graph.is_released
    assert step.count().live == 0
    with pytest.raises(RuntimeFault, match="was released"):
        step.backward([block(3)], outputs)


def test_only_what_the_backward_reads_is_kept() -> None:
    """relu needs its result; of the other factor only what multiplies; of sums nothing."""
    step = runnable(
        given("w"),
        given("b"),
        f"%s = {op('add', '%x', '%b')}",
        f"%r = {op('relu', '%s')}",
        f"%y = {op('multiply', '%r', '%w')}",
        out("y", "y"),
    )
    x, b, w = block(1), block(2), block(3)
    order = {"w": w, "b": b}
    outputs = step.forward([x], [order[name] for name in step.names.fp])
    saved = sum(each.bytes for each in step.parts.saved if each.how != "param")
    assert step.count().nbytes == saved + w.nbytes
    step.backward([block(4)], outputs)
    assert step.count().nbytes == 0


def test_an_error_leaves_nothing_behind() -> None:
    step, w, g = net(), block(2), block(3)
    for _ in range(4):
        with pytest.raises(RuntimeFault) as caught:
            step.forward([tensor([1.0])], [w])
        assert caught.value.code == "PK0903"
    assert step.count().live == 0
    outputs = step.forward([block(1)], [w])
    with pytest.raises(RuntimeFault, match="gradient of output 0") as caught:
        step.backward([tensor([1.0])], outputs)
    assert caught.value.code == "PK0903"
    step.backward([g], outputs)


@pytest.mark.parametrize(("x", "params"), [([], [1]), ([1], []), ([1, 2], [1])])
def test_a_wrong_number_of_tensors(x: list[int], params: list[int]) -> None:
    with pytest.raises(UsageError, match="for a program that takes 1") as caught:
        net().forward([block(i) for i in x], [block(i) for i in params])
    assert caught.value.help in ("it takes x", "it takes w")


def test_a_wrong_number_of_gradients() -> None:
    step = net()
    outputs = step.forward([block(1)], [block(2)])
    with pytest.raises(UsageError, match="2 gradients for 1 outputs"):
        step.backward([block(3), None], outputs)


# --- many steps, many threads --------------------------------------------------------------------


def test_threads_train_and_infer_with_one_object() -> None:
    step, w = net(), block(2)

    def use(number: int) -> bool:
        x, g = block(number), block(1000 + number)
        want = expected(x, w, g)
        if number % 4 == 0:
            (y,) = step.forward([x], [w], training=False)
            return np.allclose(y.numpy(), want[0], rtol=1e-4, atol=1e-5)
        (y,) = step.forward([x], [w])
        (gx,), (gw,) = step.backward([g])
        found = [gradient.numpy() for gradient in (y, gx, gw) if gradient is not None]
        return all(
            np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, want, strict=True)
        )

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(8 * 200)))
    gc.collect()
    count = step.count()
    assert (count.live, count.nbytes) == (0, 0)
    assert count.idle <= MAX_IDLE_SCOPES


def test_threads_that_write_one_buffer_take_turns() -> None:
    step, w = counting(), block(2)
    count, one = tensor(np.zeros((ROWS, 4), np.float32)), tensor(np.ones((ROWS, 4), np.float32))
    order = {"w": w, "count": count}

    def use(_: int) -> None:
        step.forward([one], [order[name] for name in step.names.fp])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(800)))
    assert (count.numpy() == 800).all()
    assert count.version == 800


def test_equal_programs_share_what_was_lowered() -> None:
    one, other, third = net(), net(), counting()
    assert one.plans() == other.plans()
    assert one.plans() != third.plans()
    assert runnable(*LINES, pipeline="").plans() != one.plans()


def test_outputs_of_another_program() -> None:
    one, other, x, w = net(), net(), block(1), block(2)
    outputs = one.forward([x], [w])
    with pytest.raises(UsageError, match="another program"):
        other.backward([block(3)], outputs)
    one.backward([block(3)], outputs)


def test_a_run_on_several_threads_gives_the_same_bits() -> None:
    x, w, g = block(1), block(2), block(3)
    found: list[bytes] = []
    for threads in (1, 2):
        step = runnable(*LINES, threads=threads)
        outputs = step.forward([x], [w])
        (gx,), (gw,) = step.backward([g], outputs)
        held = [each.numpy().tobytes() for each in (*outputs, gx, gw) if each is not None]
        found.append(b"".join(held))
    assert found[0] == found[1]


def test_memory_shared_with_numpy_is_written() -> None:
    step, array = counting(), np.zeros((ROWS, 4), np.float32)
    order = {"w": block(1), "count": from_numpy(array)}
    x = block(2)
    step.forward([x], [order[name] for name in step.names.fp], training=False)
    check(x, array)


def test_inference_computes_nothing_for_the_backward() -> None:
    step = runnable(
        given("w"),
        f"%m = {op('greater_than', '%x', '%w')}".replace(f"-> {T}", f"-> {T}".replace("f32", "i1")),
        f"%t = {op('tanh', '%x')}",
        f"%y = {op('multiply', '%t', '%w')}",
        out("y", "y"),
    )
    halves = Halves.of(step.parts, slot_wiring(step.names), "cpu", "@simplify")
    assert len(halves.inference.plan.outputs) == 1
    assert len(halves.training.forward.plan.outputs) > 1
    assert len(halves.inference.plan.body) == 2


def test_programs_of_other_lines_are_lowered_for_themselves() -> None:
    """What is lowered is shared by equal programs; errors of it name the lines of one of them."""
    lines = (given("w"), f"%y = {op('multiply', '%x', '%w')}", out("y", "y"))
    steps = [runnable(*lines), runnable(*lines), runnable("", *lines)]
    first, same, lower = [
        Halves.of(s.parts, slot_wiring(s.names), "cpu", "@simplify") for s in steps
    ]
    assert first is same
    assert first is not lower


def test_a_graph_in_a_cycle_gives_its_scope_back_whenever_it_is_collected() -> None:
    """The collector runs where it likes, also while the pool is being asked for a scope."""
    step, x, w = net(), block(1), block(2)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            cycle: list[Any] = [step.forward([x], [w])]
            cycle.append(cycle)
    finally:
        gc.set_threshold(*before)
    del cycle
    gc.collect()
    assert step.count().live == 0


def test_what_was_dropped_out_has_no_gradient() -> None:
    """The backward reads the mask that the forward drew, in any order of runs."""
    dropout = (
        f"%y, %m = pd_op.dropout(%x) {{p = 5.0e-01 : f64, is_test = false, "
        f'mode = "upscale_in_train", seed = 0 : i32, fix_seed = false}} : ({T}) '
        f"-> ({T}, {T.replace('f32', 'ui8')})"
    )
    for mode in ("save-all", "free", "min-cut"):
        module = parsed(f'pir.program @main(%x "x" : {T}) {{\n{dropout}\n{out("y", "y")}\n}}')
        step = RunnableProgram(forward_backward(module, mode=mode), seed=7)
        x, g = tensor(np.ones((ROWS, 4), np.float32)), block(3)
        runs = [step.forward([x]) for _ in range(8)]
        assert len({outputs[0].numpy().tobytes() for outputs in runs}) > 1
        for outputs in reversed(runs):
            (gx,), () = step.backward([g], outputs)
            check(gx, outputs[0].numpy() * g.numpy())


def test_a_part_does_not_keep_the_whole_alive() -> None:
    row = "tensor<1x4096xf32>"
    big = "tensor<64x4096xf32>"
    text = f"""pir.program @main(%x "x" : {big}) {{
      %w = pir.parameter() {{parameter_name = "w"}} : () -> {row}
      %t = pd_op.add(%x, %x) : ({big}, {big}) -> {big}
      %p = pd_op.slice(%t) {{axes = array<i64: 0>, starts = array<i64: 3>, ends = array<i64: 4>,
        infer_flags = array<i64: 1>, decrease_axis = array<i64>}} : ({big}) -> {row}
      %y = pd_op.multiply(%p, %w) : ({row}, {row}) -> {row}
      pir.shadow_output(%y) {{output_name = "y"}} : ({row}) -> ()
    }}"""
    parts = forward_backward(parsed(text))
    step, x = RunnableProgram(parts), tensor(np.ones((64, 4096), np.float32))
    w = tensor(np.ones((1, 4096), np.float32))
    outputs = step.forward([x], [w])
    kept = sum(each.bytes for each in parts.saved)
    assert outputs.graph is not None
    assert step.count().nbytes <= kept + w.nbytes


def test_a_program_that_asks_for_gradients_is_split() -> None:
    """Its `pir.gradient` becomes operations first, which are differentiated like others."""

    def penalized(w: Any, x: Any) -> Any:
        slope = pirkit.grad(lambda x: pnp.tanh(x @ w).sum())(x)
        return pnp.tanh(x @ w).sum() + (slope * slope).sum()

    w, x = np.random.default_rng(0).normal(size=(2, 4, 4))
    program = pirkit.trace(penalized, pirkit.parameters(w), x)
    step = RunnableProgram(forward_backward(program))
    outputs = step.forward([x], [w])
    (gx,), (gw,) = step.backward([tensor(np.float64(1.0))], outputs)
    wanted = pirkit.grad(penalized, argnums=(0, 1))(w, x)
    for found, want in zip((gw, gx), wanted, strict=True):
        check(found, want.numpy())
