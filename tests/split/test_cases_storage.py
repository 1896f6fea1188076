"""Cases of written, shared and returned storage, numbered as in docs/split.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit import tensor
from pirkit.diag.errors import PassError, RuntimeFault
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.passes import run_pipeline
from pirkit.split import SplitParts
from tests.execution import parsed
from tests.split.model import (
    Array,
    Model,
    T,
    differences,
    op,
    output,
    parameter,
    program,
    split,
    train,
)

Given = dict[str, Array]
V = "tensor<3xf64>"


def test_case_01_a_parameter_that_is_written_and_saved() -> None:
    text = program(
        parameter("mean", frozen=True),
        f"%a = {op('scale_', '%mean', attrs='scale = 0.9 : f64')}",
        f"%b = {op('add_', '%mean', '%x')}",
        f"%y = {op('multiply', '%x', '%b')}",
        output("y", "y"),
    )

    def eager(given: Given) -> list[Array]:
        given["mean"] = 0.9 * given["mean"] + given["x"]
        return [given["x"] * given["mean"]]

    train(text, eager, {"x": (2, 3)}, {"mean": (2, 3)}, frozen=["mean"], steps=10)


BATCH_NORM = (
    "pd_op.batch_norm_({x}, %mean, %var, %scale, %shift) {{is_test = false, momentum = 0.9 : f32, "
    'epsilon = 1.0e-05 : f32, data_format = "NCHW", use_global_stats = false, '
    "trainable_statistics = false, "
    "stop_gradient = array<i1: false, true, true, true, true, true>}} : "
    f"(tensor<4x3xf64>, {V}, {V}, {V}, {V}) -> "
    f"(tensor<4x3xf64>, {V}, {V}, {V}, {V}, tensor<?xui8>)"
)


def normalised(given: Given, x: Array) -> Array:
    keep = float(np.float32(0.9))
    mean, var = x.mean(0), x.var(0)
    given["mean"] = keep * given["mean"] + (1 - keep) * mean
    given["var"] = keep * given["var"] + (1 - keep) * var
    return (x - mean) / np.sqrt(var + float(np.float32(1e-5))) * given["scale"] + given["shift"]


@pytest.mark.parametrize("calls", [1, 2])
def test_case_04_batch_normalisation_once_and_twice(calls: int) -> None:
    of = "tensor<4x3xf64>"
    lines = [
        f"%y{i}, %m{i}, %v{i}, %a{i}, %b{i}, %r{i} = "
        + BATCH_NORM.format(x=f"%t{i}")
        + f"\n  %t{i + 1} = {op('tanh', f'%y{i}', of=of)}"
        for i in range(calls)
    ]
    stats = [parameter(n, frozen=True, of=V) for n in ("mean", "var")]
    text = program(
        *stats,
        parameter("scale", of=V),
        parameter("shift", of=V),
        f"%t0 = {op('sin', '%x', of=of)}",
        *lines,
        output("y", f"t{calls}", of=of),
        output("mean", "m0", of=V),
        inputs={"x": of},
    )

    def eager(given: Given) -> list[Array]:
        t = np.sin(given["x"])
        for _ in range(calls):
            t = np.tanh(normalised(given, t))
        return [t, given["mean"]]

    params: dict[str, Any] = {"mean": (3,), "scale": (3,), "shift": (3,), "var": np.ones(3)}
    for mode in ("save-all", "min-cut"):
        parts = split(text, mode=mode)
        assert parts.names.fo == ("y", "mean")
        assert parts.names.bo_g[1] is None
        rng = np.random.default_rng(3)
        drawn = {
            n: rng.standard_normal(s) if isinstance(s, tuple) else s for n, s in params.items()
        }
        model = Model(parts, {n: tensor(a.copy()) for n, a in drawn.items()})
        for _ in range(3):
            x = rng.standard_normal((4, 3))
            given = {"x": x, **{n: p.numpy().copy() for n, p in model.params.items()}}
            y, mean = eager({n: a.copy() for n, a in given.items()})
            outputs = model.forward({"x": tensor(x)})
            assert outputs[1] is model.params["mean"]
            np.testing.assert_allclose(outputs[0].numpy(), y, rtol=1e-6)
            np.testing.assert_allclose(outputs[1].numpy(), mean, rtol=1e-6)
            seed = rng.standard_normal((4, 3))
            found = model.backward([seed, None], outputs)
            for name in ("x", "scale", "shift"):
                slope = differences(lambda g: eager(g)[:1], given, name, [seed])
                np.testing.assert_allclose(found[name], slope, atol=1e-5)


ASSIGNED = (
    parameter("w"),
    parameter("buf", frozen=True),
    f"%n = {op('scale', '%buf', attrs='scale = 1.0 : f64, bias = 1.0 : f32')}",
    f"%y = {op('assign_out_', '%n', '%buf')}",
)


def counted(given: Given) -> Array:
    given["buf"] = given["buf"] + 1
    return given["buf"].copy()


def test_case_02_what_was_assigned_to_a_buffer_is_saved() -> None:
    text = program(
        *ASSIGNED,
        f"%p = {op('multiply', '%x', '%y')}",
        f"%q = {op('multiply', '%p', '%w')}",
        output("q", "q"),
    )
    train(
        text,
        lambda given: [given["x"] * counted(given) * given["w"]],
        {"x": (2, 3)},
        {"w": (2, 3), "buf": (2, 3)},
        frozen=["buf"],
    )


def test_case_02_what_was_assigned_to_a_buffer_is_returned() -> None:
    text = program(
        *ASSIGNED, f"%q = {op('multiply', '%x', '%w')}", output("y", "y"), output("q", "q")
    )
    parts = train(
        text,
        lambda given: [counted(given), given["x"] * given["w"]],
        {"x": (2, 3)},
        {"w": (2, 3), "buf": (2, 3)},
        frozen=["buf"],
    )
    assert parts.names.fo == ("buf", "q")


def test_case_03_a_buffer_is_assigned_twice_and_both_are_needed() -> None:
    text = program(
        *ASSIGNED,
        f"%a = {op('multiply', '%x', '%y')}",
        f"%m = {op('scale', '%buf', attrs='scale = 2.0 : f64')}",
        f"%z = {op('assign_out_', '%m', '%buf')}",
        f"%b = {op('multiply', '%a', '%z')}",
        f"%c = {op('multiply', '%b', '%w')}",
        output("c", "c"),
    )

    def eager(given: Given) -> list[Array]:
        first = counted(given)
        given["buf"] = 2 * first
        return [given["x"] * first * given["buf"] * given["w"]]

    train(text, eager, {"x": (2, 3)}, {"w": (2, 3), "buf": (2, 3)}, frozen=["buf"])


def test_case_08_a_value_is_read_before_it_is_written() -> None:
    text = program(
        parameter("buf", frozen=True),
        f"%y = {op('multiply', '%x', '%buf')}",
        f"%n = {op('assign_out_', '%x', '%buf')}",
        output("y", "y"),
    )

    def eager(given: Given) -> list[Array]:
        y = given["x"] * given["buf"]
        given["buf"] = given["x"].copy()
        return [y]

    parts = train(text, eager, {"x": (2, 3)}, {"buf": (2, 3)}, frozen=["buf"], modes=["save-all"])
    assert [s.how for s in parts.saved] == ["copy"]
    assert "copied %buf before `pd_op.assign_out_`" in parts.report.notes[0]


IMPORTED = f"""
pir.program @main(%x "x" : {T}, %g "y_grad" : {T}) {{
  %buf = pir.parameter() {{parameter_name = "buf"}} : () -> {T}
  %y = pd_op.multiply(%x, %buf) : ({T}, {T}) -> {T}
  %n = pd_op.assign_out_(%x, %buf) : ({T}, {T}) -> {T}
  MORE
  pir.shadow_output(%y) {{output_name = "y"}} : ({T}) -> ()
  %gx = pd_op.multiply_grad(%x, %buf, %g) {{axis = -1 : i32}} : ({T}, {T}, {T}) -> ({T}, none)
  pir.shadow_output(%gx) {{output_name = "x_grad"}} : ({T}) -> ()
}}
"""


def test_case_08_a_gradient_op_means_what_its_forward_op_read() -> None:
    parts = split(IMPORTED.replace("MORE", ""))
    model = Model(parts, {"buf": tensor(np.full((2, 3), 5.0))})
    outputs = model.forward({"x": tensor(np.ones((2, 3)))})
    assert (model.params["buf"].numpy() == 1).all()
    assert (model.backward([np.ones((2, 3))], outputs)["x"] == 5).all()


def test_case_08_what_may_be_either_is_refused() -> None:
    again = f"%again = {op('multiply', '%x', '%buf')}"
    with pytest.raises(PassError, match="before it is overwritten by") as caught:
        split(IMPORTED.replace("MORE", again))
    assert caught.value.code == "PK0806"
    assert caught.value.span is not None
    assert caught.value.span.line == 8


def test_case_08_work_of_the_backward_may_be_done_in_front_of_the_write() -> None:
    text = program(
        parameter("buf"),
        f"%s = {op('sin', '%buf')}",
        f"%y = {op('multiply', '%x', '%s')}",
        f"%n = {op('assign_out_', '%x', '%buf')}",
        output("y", "y"),
    )

    def eager(given: Given) -> list[Array]:
        y = given["x"] * np.sin(given["buf"])
        given["buf"] = given["x"].copy()
        return [y]

    parts = train(text, eager, {"x": (2, 3)}, {"buf": (2, 3)}, modes=["save-all"])
    assert any("moved `pd_op.cos`" in note for note in parts.report.notes)
    assert not any(s.how == "copy" for s in parts.saved)


def test_case_08_work_of_a_branch_stays_in_the_branch() -> None:
    text = program(
        parameter("buf"),
        f"%y = pd_op.if(%c) : (tensor<i1>) -> {T} {{",
        f"%s = {op('sin', '%buf')}",
        f"%m = {op('multiply', '%x', '%s')}",
        f"pir.yield(%m) : ({T}) -> ()",
        "} else {",
        f"pir.yield(%x) : ({T}) -> ()",
        "}",
        f"%n = {op('assign_out_', '%x', '%buf')}",
        output("y", "y"),
        inputs={"x": T, "c": "tensor<i1>"},
    )
    parts = split(text)
    assert not any("moved" in note for note in parts.report.notes)
    assert [s.how for s in parts.saved].count("copy") == 1


def test_case_09_an_output_is_changed_before_the_backward() -> None:
    text = program(f"%y = {op('tanh', '%x')}", output("y", "y"))
    model = Model(split(text), {})
    outputs = model.forward({"x": tensor(np.ones((2, 3)))})
    y = outputs[0]
    y *= 2.0
    with pytest.raises(RuntimeFault, match="version") as caught:
        model.backward([np.ones((2, 3))], outputs)
    assert caught.value.code == "PK0907"


def test_case_12_an_input_is_written() -> None:
    text = program(
        parameter("w"),
        f"%a = {op('scale_', '%x', attrs='scale = 1.0 : f64, bias = 1.0 : f32')}",
        f"%y = {op('multiply', '%x', '%w')}",
        output("y", "y"),
    )

    def eager(given: Given) -> list[Array]:
        given["x"] += 1
        return [given["x"] * given["w"]]

    train(text, eager, {"x": (2, 3)}, {"w": (2, 3)})


def test_case_13_a_write_through_a_view() -> None:
    text = program(
        f"%y = {op('tanh', '%x')}",
        f"%v = {op('share_data', '%y')}",
        f"%z = {op('relu_', '%v')}",
        f"%o = {op('multiply', '%y', '%x')}",
        output("o", "o"),
        output("y", "y"),
    )

    def eager(given: Given) -> list[Array]:
        y = np.maximum(np.tanh(given["x"]), 0)
        return [y * given["x"], y]

    train(text, eager, {"x": (2, 3)}, {})


def test_case_14_a_write_to_what_was_detached() -> None:
    detached = "stop_gradient = array<i1: true>"
    text = program(
        f"%y = {op('tanh', '%x')}",
        f"%d = {op('share_data_', '%y', attrs=detached)}",
        f"%k = {op('exp', '%x')}",
        f"%z = {op('scale_', '%d', attrs='scale = 0.5 : f64, ' + detached)}",
        output("y", "y"),
        output("k", "k"),
    )
    for pipeline in ("", "inplace"):
        module = parsed(text)
        run_pipeline(module, pipeline)
        model = Model(split(print_mlir(module)), {})
        x = np.array([[0.5, -1.0, 2.0], [0.0, 1.0, -2.0]])
        y, k = model.forward({"x": tensor(x)})
        np.testing.assert_allclose(y.numpy(), 0.5 * np.tanh(x))
        np.testing.assert_allclose(k.numpy(), np.exp(x))


def test_case_22_the_identity() -> None:
    parts = split(program(output("y", "x")))
    assert parts.names.fo == ("x",)
    assert parts.names.bo_g == parts.names.bx_g == ("output_grad_0",)
    assert parts.names.bx == (None,)
    model = Model(parts, {})
    x, seed = tensor(np.ones((2, 3))), tensor(np.full((2, 3), 2.0))
    outputs = model.forward({"x": x})
    assert outputs[0] is x
    gradients, _ = model.step.backward([seed], outputs)
    gradient = gradients[0]
    assert gradient is not None
    gradient += 1.0
    assert (seed.numpy() == 2).all(), "adding to a gradient changes the one that came in"


def test_case_25_equal_increments_and_equal_outputs() -> None:
    text = program(
        parameter("n", frozen=True, of="tensor<1xf64>"),
        f"%a = {op('increment_', '%n', attrs='value = 1.0 : f32', of='tensor<1xf64>')}",
        f"%b = {op('increment_', '%n', attrs='value = 1.0 : f32', of='tensor<1xf64>')}",
        f"%c = {op('tanh', '%x')}",
        f"%d = {op('tanh', '%x')}",
        output("c", "c"),
        output("d", "d"),
    )
    module = parsed(text)
    run_pipeline(module, "@simplify")
    parts = split(print_mlir(module))
    model = Model(parts, {"n": tensor(np.zeros(1))})
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    c, d = model.forward({"x": tensor(x)})
    assert (model.params["n"].numpy() == 2).all()
    np.testing.assert_array_equal(c.numpy(), d.numpy())
    assert [name for name, _ in parts.returns] == ["c", "d"]


def test_case_27_the_shape_of_what_was_reshaped_in_place() -> None:
    text = program(
        f"%t = {op('tanh', '%x')}",
        f"%r = pd_op.reshape_(%t) {{shape = array<i64: 3, 2>}} : ({T}) -> tensor<3x2xf64>",
        f"%y = {op('exp', '%r', of='tensor<3x2xf64>')}",
        output("y", "y", of="tensor<3x2xf64>"),
    )
    train(text, lambda given: [np.exp(np.tanh(given["x"]).reshape(3, 2))], {"x": (2, 3)}, {})


def halves(parts: SplitParts) -> tuple[str, str]:
    return print_mlir(parts.forward.module), print_mlir(parts.backward.module)


def test_case_20_names_that_are_taken_and_splitting_again() -> None:
    text = program(
        f"%t = {op('sin', '%x')}",
        f"%u = {op('multiply', '%t', '%t')}",
        output("middle_0", "u"),
        output("output_grad_0", "t"),
    )
    module = parsed(text)
    before = print_mlir(module)
    parts = split(text)
    assert halves(parts) == halves(split(text))
    assert print_mlir(module) == before
    taken = [*parts.names.fm, *parts.names.fo]
    assert len(set(taken)) == len(taken)
    run_pipeline(module, "split")
    once = print_mlir(module)
    run_pipeline(module, "split")
    assert print_mlir(module) == once
    assert print_mlir(parse_mlir(once)) == once


def test_a_backward_that_updates_a_parameter_keeps_what_it_would_compute_of_it() -> None:
    """The tangent could be computed again of the parameter, had that not been written."""
    text = f"""
pir.program @main(%x "x" : {T}, %g "y_grad" : {T}) {{
  %w = pir.parameter() {{parameter_name = "w"}} : () -> {T}
  %t = {op("tanh", "%w")}
  %y = {op("multiply", "%x", "%t")}
  {output("y", "y")}
  %step = {op("multiply", "%g", "%x")}
  %n = {op("assign_out_", "%step", "%w")}
  %gx = {op("multiply", "%g", "%t")}
  {output("x_grad", "gx")}
}}
"""
    x, w, g = (np.full((2, 3), v) for v in (2.0, 0.5, 3.0))
    for mode in ("save-all", "free", "min-cut"):
        parts = split(text, mode=mode)
        model = Model(parts, {"w": tensor(w.copy())})
        outputs = model.forward({"x": tensor(x)})
        np.testing.assert_allclose(outputs[0].numpy(), x * np.tanh(w))
        assert (model.params["w"].numpy() == w).all()
        np.testing.assert_allclose(model.backward([g], outputs)["x"], g * np.tanh(w))
        assert (model.params["w"].numpy() == g * x).all()


def test_case_03_in_a_program_that_comes_with_its_gradients() -> None:
    """The first content is copied; the second is what the buffer holds, under its name."""
    text = f"""
pir.program @main(%x "x" : {T}, %g "y_grad" : {T}) {{
  %buf = pir.parameter() {{parameter_name = "buf"}} : () -> {T}
  %n = {op("scale", "%buf", attrs="scale = 1.0 : f64, bias = 1.0 : f32")}
  %first = {op("assign_out_", "%n", "%buf")}
  %a = {op("multiply", "%x", "%first")}
  %m = {op("scale", "%buf", attrs="scale = 3.0 : f64")}
  %second = {op("assign_out_", "%m", "%buf")}
  %y = {op("elementwise_pow", "%a", "%second")}
  {output("y", "y")}
  %ga, %gp = pd_op.elementwise_pow_grad(%a, %second, %g) : ({T}, {T}, {T}) -> ({T}, {T})
  %gx = pd_op.multiply_grad(%x, %first, %ga) {{axis = -1 : i32}} : ({T}, {T}, {T}) -> ({T}, none)
  {output("x_grad", "gx")}
}}
"""
    x, g = np.full((2, 3), 2.0), np.ones((2, 3))
    for mode in ("save-all", "min-cut"):
        parts = split(text, mode=mode)
        assert "buf" in parts.names.fm
        assert "buf" in parts.names.bp
        model = Model(parts, {"buf": tensor(np.zeros((2, 3)))})
        held = 0.0
        for _ in range(3):
            first, held = held + 1, 3 * (held + 1)
            outputs = model.forward({"x": tensor(x)})
            np.testing.assert_allclose(outputs[0].numpy(), (x * first) ** held)
            found = model.backward([g], outputs)["x"]
            np.testing.assert_allclose(found, held * (x * first) ** (held - 1) * first)
            assert (model.params["buf"].numpy() == held).all()


@pytest.mark.parametrize("mode", ["save-all", "free", "min-cut"])
def test_what_was_written_later_is_not_computed_again_by_what_made_the_value(mode: str) -> None:
    text = f"""
pir.program @main(%x "x" : {T}, %g "y_grad" : {T}) {{
  %w = pir.parameter() {{parameter_name = "w"}} : () -> {T}
  %p = pir.parameter() {{parameter_name = "p"}} : () -> {T}
  %t = {op("assign", "%p")}
  %r = {op("relu_", "%t")}
  %u = {op("multiply", "%t", "%w")}
  %y = {op("add", "%u", "%x")}
  {output("y", "y")}
  %gw = pd_op.multiply_grad(%t, %w, %g) {{axis = -1 : i32}} : ({T}, {T}, {T}) -> (none, {T})
  {output("w_grad", "gw")}
}}
"""
    x = np.array([[1.0, -1.0, 2.0], [-2.0, 3.0, -3.0]])
    model = Model(split(text, mode=mode), {"w": tensor(np.ones((2, 3))), "p": tensor(x)})
    outputs = model.forward({"x": tensor(x)})
    found = model.backward([np.full((2, 3), 2.0)], outputs)
    np.testing.assert_array_equal(found["w"], 2 * np.maximum(x, 0))


def test_a_view_of_another_shape_has_a_name_of_its_own() -> None:
    of = "tensor<3x2xf64>"
    text = program(
        f"%t = {op('share_data', '%x')}",
        f"%r = pd_op.reshape_(%t) {{shape = array<i64: 3, 2>}} : ({T}) -> {of}",
        output("r", "r", of=of),
    )
    parts = split(text)
    assert parts.names.fo == ("r",)


def test_work_is_not_moved_in_front_of_one_write_but_behind_another() -> None:
    text = f"""
pir.program @main(%x "x" : {T}, %g "y_grad" : {T}) {{
  %a = pir.parameter() {{parameter_name = "a"}} : () -> {T}
  %b = pir.parameter() {{parameter_name = "b"}} : () -> {T}
  %f = {op("multiply", "%a", "%b")}
  %y = {op("multiply", "%x", "%f")}
  %first = {op("assign_out_", "%x", "%b")}
  %second = {op("assign_out_", "%x", "%a")}
  {output("y", "y")}
  %k = {op("multiply", "%a", "%b")}
  %gx = {op("multiply", "%g", "%k")}
  {output("x_grad", "gx")}
}}
"""
    x, a, b = (np.full((2, 3), v) for v in (2.0, 3.0, 5.0))
    for mode in ("save-all", "free", "min-cut"):
        parts = split(text, mode=mode, forward_ops=7)
        model = Model(parts, {"a": tensor(a.copy()), "b": tensor(b.copy())})
        outputs = model.forward({"x": tensor(x)})
        assert (model.backward([np.ones((2, 3))], outputs)["x"] == 15).all()
