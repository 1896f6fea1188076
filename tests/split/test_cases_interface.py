"""Cases of what goes in and out of a split; numbers are those of docs/split.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit import tensor
from pirkit.split import RunnableProgram
from tests.split.model import Array, Model, T, op, output, parameter, program, split, train

Given = dict[str, Array]
S = "tensor<f64>"
VEC = f"!pir.vec<{T}, {T}>"


def test_case_21_outputs_that_are_inputs_parameters_and_each_other() -> None:
    text = program(
        parameter("w"),
        f"%y = {op('tanh', '%x')}",
        f"%z = {op('multiply', '%y', '%w')}",
        *[output(f"o{i}", v) for i, v in enumerate(["y", "x", "w", "y", "z", "x"])],
    )

    def eager(given: Given) -> list[Array]:
        y = np.tanh(given["x"])
        return [y, given["x"], given["w"], y, y * given["w"], given["x"]]

    parts = train(text, eager, {"x": (2, 3)}, {"w": (2, 3)})
    assert parts.names.fo == ("o0", "x", "w", "o4")
    assert [position for _, position in parts.returns] == [0, 1, 2, 0, 3, 1]
    model = Model(parts, {"w": tensor(np.ones((2, 3)))})
    x = tensor(np.ones((2, 3)))
    found = model.forward({"x": x})
    assert found[0] is found[3]
    assert found[1] is found[5] is x
    assert found[2] is model.params["w"]


def test_case_23_outputs_without_gradient_and_frozen_and_unused_parameters() -> None:
    text = program(
        parameter("frozen", frozen=True),
        parameter("unused"),
        parameter("w"),
        f"%p = {op('multiply', '%x', '%frozen')}",
        f"%y = {op('multiply', '%p', '%w')}",
        f"%d = {op('assign', '%y', attrs='stop_gradient = array<i1: true>')}",
        output("y", "y"),
        output("d", "d"),
    )
    parts = split(text)
    assert parts.names.bo_g == ("output_grad_0", None)
    assert parts.names.fp == ("frozen", "unused", "w")
    assert parts.names.bp_g == (None, None, "param_grad_2")
    assert parts.names.bp[:2] == ("frozen", None)


def test_case_23_a_program_without_gradients() -> None:
    stop = "{stop_gradient = array<i1: true>}"
    text = program(f"%y = {op('tanh', '%x')}", output("y", "y")).replace(
        f": {T})", f": {T} {stop})", 1
    )
    parts = split(text)
    assert not list(parts.backward_program.operations)
    assert parts.names.bo_g == parts.names.bx_g == parts.names.bx == (None,)
    assert parts.saved == ()
    model = Model(parts, {})
    outputs = model.forward({"x": tensor(np.ones((2, 3)))})
    assert model.backward([None], outputs) == {}


def test_case_24_one_tensor_as_two_inputs_and_a_parameter() -> None:
    text = program(
        parameter("w"),
        f"%p = {op('multiply', '%x', '%z')}",
        f"%y = {op('multiply', '%p', '%w')}",
        output("y", "y"),
        inputs={"x": T, "z": T},
    )
    both = tensor(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    step = RunnableProgram(split(text))
    outputs = step.forward([both, both], [both])
    inputs, params = step.backward([np.ones((2, 3))], outputs)
    total = sum(g.numpy() for g in (*inputs, *params) if g is not None)
    np.testing.assert_allclose(total, 3 * both.numpy() ** 2)


def test_case_32_the_batch_changes_its_size() -> None:
    of = "tensor<?x3xf64>"
    text = program(
        parameter("w", of="tensor<3x3xf64>"),
        f"%m = pd_op.matmul(%x, %w) {{transpose_x = false, transpose_y = false}} : "
        f"({of}, tensor<3x3xf64>) -> {of}",
        f"%y = {op('tanh', '%m', of=of)}",
        output("y", "y", of=of),
        inputs={"x": of},
    )
    for mode in ("save-all", "min-cut"):
        model = Model(split(text, mode=mode), {"w": tensor(np.eye(3))})
        for rows in (2, 5, 2):
            x = np.random.default_rng(rows).standard_normal((rows, 3))
            outputs = model.forward({"x": tensor(x)})
            found = model.backward([np.ones((rows, 3))], outputs)
            slope = 1 - np.tanh(x) ** 2
            np.testing.assert_allclose(found["x"], slope)
            np.testing.assert_allclose(found["w"], x.T @ slope)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_case_33_scalars_and_nothing_at_all(shape: tuple[int, ...]) -> None:
    of = "tensor<" + "".join(f"{d}x" for d in shape) + "f64>"
    text = program(
        parameter("w", of=of),
        f"%p = {op('multiply', '%x', '%w', of=of)}",
        f"%y = {op('tanh', '%p', of=of)}",
        output("y", "y", of=of),
        inputs={"x": of},
    )
    train(text, lambda g: [np.tanh(g["x"] * g["w"])], {"x": shape}, {"w": shape})


def test_case_34_lists_and_their_elements() -> None:
    text = program(
        parameter("w"),
        f"%t = {op('tanh', '%x')}",
        f"%l = pir.combine(%t, %w) : ({T}, {T}) -> {VEC}",
        f"%e = pir.slice(%l) {{index = 0 : i32}} : ({VEC}) -> {T}",
        f"%r = {op('scale_', '%e', attrs='scale = 2.0 : f64')}",
        f"%a, %b = pir.split(%l) : ({VEC}) -> ({T}, {T})",
        f"%s = pd_op.stack(%l) {{axis = 0 : i32}} : ({VEC}) -> tensor<2x2x3xf64>",
        f"%q = {op('multiply', '%s', '%s', of='tensor<2x2x3xf64>')}",
        f"%m = {op('multiply', '%a', '%b')}",
        output("q", "q", of="tensor<2x2x3xf64>"),
        output("m", "m"),
    )

    def eager(given: Given) -> list[Array]:
        t = 2 * np.tanh(given["x"])
        return [np.stack([t, given["w"]]) ** 2, t * given["w"]]

    train(text, eager, {"x": (2, 3)}, {"w": (2, 3)})


def test_case_34_a_list_that_one_op_makes() -> None:
    pieces = "!pir.vec<tensor<1x3xf64>, tensor<1x3xf64>>"
    text = program(
        f"%l = pd_op.split_with_num(%x) {{num = 2 : i32, axis = 0 : i32}} : ({T}) -> {pieces}",
        f"%a, %b = pir.split(%l) : ({pieces}) -> (tensor<1x3xf64>, tensor<1x3xf64>)",
        f"%y = {op('multiply', '%a', '%b', of='tensor<1x3xf64>')}",
        output("y", "y", of="tensor<1x3xf64>"),
    )
    train(text, lambda g: [g["x"][:1] * g["x"][1:]], {"x": (2, 3)}, {})


def test_case_35_the_gradient_of_an_embedding_is_dense() -> None:
    ids, of = "tensor<4xi64>", "tensor<5x3xf64>"
    text = program(
        parameter("table", of=of),
        f"%e = pd_op.embedding(%i, %table) {{padding_idx = -1 : i64, sparse = true}} : "
        f"({ids}, {of}) -> tensor<4x3xf64>",
        f"%y = {op('tanh', '%e', of='tensor<4x3xf64>')}",
        output("y", "y", of="tensor<4x3xf64>"),
        inputs={"i": ids},
    )
    chosen = np.array([1, 3, 1, 0])
    train(text, lambda g: [np.tanh(g["table"][chosen])], {"i": chosen}, {"table": (5, 3)})


def test_case_36_strided_inputs_and_gradients() -> None:
    text = program(f"%y = {op('tanh', '%x')}", output("y", "y"))
    model = Model(split(text), {})
    host = np.arange(24.0).reshape(6, 4) / 10
    x, before = host[::2, :2].T, host.copy()
    seed = np.ones((6, 4))[::2, ::2].T
    outputs = model.forward({"x": x})
    found = model.backward([seed], outputs)
    np.testing.assert_allclose(found["x"], 1 - np.tanh(x) ** 2)
    np.testing.assert_array_equal(host, before)


def test_case_37_outputs_that_nobody_used() -> None:
    text = program(
        parameter("w"),
        f"%a = {op('multiply', '%x', '%w')}",
        f"%b = {op('tanh', '%a')}",
        output("a", "a"),
        output("b", "b"),
    )
    x, w = np.full((2, 3), 2.0), np.full((2, 3), 3.0)
    ones = np.ones((2, 3))
    found: list[Any] = []
    for seeds in ([ones, None], [ones, np.zeros((2, 3))]):
        model = Model(split(text), {"w": tensor(w)})
        outputs = model.forward({"x": tensor(x)})
        found.append(model.backward(seeds, outputs))
    for gradients in found:
        assert (gradients["x"] == 3).all()
        assert (gradients["w"] == 2).all()


def test_case_40_parameters_keep_their_names_and_there_may_be_none(tmp_path: Any) -> None:
    with_weights = program(
        parameter("fc.w_0"), f"%y = {op('multiply', '%x', '%fc.w_0')}", output("y", "y")
    )
    without = program(f"%y = {op('tanh', '%x')}", output("y", "y"))
    for name, text in (("weights", with_weights), ("none", without)):
        RunnableProgram(split(text)).save(tmp_path / name)
    x = tensor(np.full((2, 3), 2.0))
    first, second = (RunnableProgram.load(tmp_path / n) for n in ("weights", "none"))
    assert first.names.fp == ("fc.w_0",)
    assert second.names.fp == ()
    assert (first.forward([x], [x])[0].numpy() == 4).all()
    assert (second.forward([x], [])[0].numpy() == np.tanh(2.0)).all()


def test_case_42_constants_of_both_halves_and_what_is_dead() -> None:
    half = (
        "%half = pd_op.full() {shape = array<i64>, value = 0.5 : f64, dtype = #pir.dtype<float64>} "
    )
    text = program(
        parameter("dead"),
        half + f": () -> {S}",
        f"%p = pd_op.multiply(%x, %half) : ({T}, {S}) -> {T}",
        f"%q = pd_op.multiply(%p, %half) : ({T}, {S}) -> {T}",
        f"%unused = {op('tanh', '%q')}",
        f"%alone = {op('exp', '%x')}",
        output("q", "q"),
        output("alone", "alone"),
    )
    parts = train(text, lambda g: [g["x"] / 4, np.exp(g["x"])], {"x": (2, 3)}, {"dead": (2, 3)})
    assert parts.names.fp == ("dead",)
    assert parts.names.fo == ("q", "alone")
    names = {mode: split(text, mode=mode).names.fm for mode in ("save-all", "free")}
    assert len(names["save-all"]) == 1
    assert names["free"] == ()
