"""Cases of many runs, of files and of formats; numbers are those of docs/split.md."""

from __future__ import annotations

import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit import tensor
from pirkit.diag.errors import InputError, PirkitError, RuntimeFault
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend.files import READERS, WRITERS, load, parse
from pirkit.passes import run_pipeline
from pirkit.split import RunnableProgram, forward_backward
from tests.execution import parsed
from tests.split.model import Model, T, op, output, parameter, program, split

ONES = np.ones((2, 3))
CORPUS = Path(__file__).parents[1] / "corpus" / "paddle"

NET = program(
    parameter("w"),
    f"%p = {op('multiply', '%x', '%w')}",
    f"%y = {op('tanh', '%p')}",
    output("y", "y"),
)


def net() -> Model:
    return Model(split(NET), {"w": tensor(np.full((2, 3), 0.5))})


def slope(x: float) -> float:
    """dy/dx of the net."""
    return float(0.5 * (1 - np.tanh(0.5 * x) ** 2))


def test_case_10_a_second_backward() -> None:
    model = net()
    outputs = model.forward({"x": tensor(ONES)})
    first = model.backward([ONES], outputs, retain_graph=True)
    second = model.backward([ONES], outputs)
    np.testing.assert_array_equal(first["x"], second["x"])
    with pytest.raises(RuntimeFault) as caught:
        model.backward([ONES], outputs)
    assert caught.value.code == "PK0906"


def test_case_11_four_threads_infer_and_train() -> None:
    model = net()

    def run(number: int) -> bool:
        outputs = model.forward({"x": tensor(ONES * number)})
        right = np.allclose(outputs[0].numpy(), np.tanh(0.5 * number))
        if number % 2:
            return right
        found = model.backward([ONES], outputs)
        return right and np.allclose(found["x"], slope(number))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(200)))


def test_case_15_forwards_then_backwards_in_another_order() -> None:
    model = net()
    runs = [model.forward({"x": tensor(ONES * i)}) for i in range(5)]
    assert model.step.count().live == 5
    for i in (3, 0, 4, 1, 2):
        np.testing.assert_allclose(model.backward([ONES], runs[i])["x"], slope(i))
    count = model.step.count()
    assert count.live == 0
    assert count.idle <= 2


def test_case_16_forwards_without_a_backward() -> None:
    model = net()
    for i in range(20):
        outputs = model.forward({"x": tensor(ONES * i)})
        assert model.step.count().live <= 2
        del outputs
    gc.collect()
    assert model.step.count().live == 0


def test_case_17_only_what_is_saved_stays() -> None:
    text = program(
        parameter("w"),
        f"%a = {op('add', '%x', '%z')}",
        f"%y = {op('multiply', '%a', '%w')}",
        output("y", "y"),
        inputs={"x": T, "z": T},
    )
    parts = split(text)
    assert {s.name for s in parts.saved} == {"w", "middle_0"}
    model = Model(parts, {"w": tensor(ONES)})
    x, z = tensor(ONES), tensor(ONES)
    watched = [weakref.ref(x), weakref.ref(z)]
    outputs = model.forward({"x": x, "z": z})
    del x, z
    gc.collect()
    assert [w() for w in watched] == [None, None]
    assert (model.backward([ONES], outputs)["w"] == 2).all()


def test_case_28_the_kind_of_device_is_part_of_the_key() -> None:
    parts = split(NET)
    x, w = tensor(ONES), tensor(ONES)
    for backend in ("reference", "cpu", "reference"):
        step = RunnableProgram(parts, backend=backend)
        outputs = step.forward([x], [w])
        (gradient,), _ = step.backward([ONES], outputs)
        assert gradient is not None
        np.testing.assert_allclose(gradient.numpy(), 1 - np.tanh(1.0) ** 2)


def test_case_29_programs_of_equal_names_are_not_mixed() -> None:
    texts = [NET, NET.replace("pd_op.tanh", "pd_op.exp")]
    models = [Model(split(t), {"w": tensor(np.full((2, 3), 0.5))}) for t in texts]
    for i in range(3):
        runs = [m.forward({"x": tensor(ONES * i)}) for m in models]
        np.testing.assert_allclose(runs[0][0].numpy(), np.tanh(0.5 * i))
        np.testing.assert_allclose(runs[1][0].numpy(), np.exp(0.5 * i))
        found = [m.backward([ONES], r)["x"] for m, r in zip(models, runs, strict=True)]
        np.testing.assert_allclose(found[0], slope(i))
        np.testing.assert_allclose(found[1], 0.5 * np.exp(0.5 * i))


def test_case_41_an_error_in_a_kernel() -> None:
    text = program(
        "%l = pir.combine(%c) : (tensor<1xi1>) -> !pir.vec<tensor<1xi1>>",
        "pd_op.assert(%c, %l) : (tensor<1xi1>, !pir.vec<tensor<1xi1>>) -> ()",
        f"%y = {op('tanh', '%x')}",
        output("y", "y"),
        inputs={"x": T, "c": "tensor<1xi1>"},
    )
    model = Model(split(text), {})
    good, bad = tensor(np.array([True])), tensor(np.array([False]))
    for _ in range(3):
        with pytest.raises(PirkitError):
            model.forward({"x": tensor(ONES), "c": bad})
        assert model.step.count().live == 0
        outputs = model.forward({"x": tensor(ONES), "c": good})
        np.testing.assert_allclose(model.backward([ONES], outputs)["x"], 1 - np.tanh(1.0) ** 2)


W = "tensor<?x?xf64>"
IN_PLACE = {
    "dtype": (
        f"%a = pd_op.cast(%t) {{dtype = #pir.dtype<float32>}} : ({T}) -> ",
        "tensor<2x3xf32>",
    ),
    "sizes": (f"%a = pd_op.add(%v, %u) : ({W}, {W}) -> ", W),
    "broadcast": (f"%a = pd_op.add(%s, %t) : (tensor<3xf64>, {T}) -> ", T),
    "compare": (f"%a = pd_op.less_equal(%t, %t) : ({T}, {T}) -> ", "tensor<2x3xi1>"),
    "fed": (f"%a = pd_op.tanh(%x) : ({T}) -> ", T),
    "parameter": (f"%a = pd_op.tanh(%w) : ({T}) -> ", T),
    "fetched": (output("t", "t") + f"\n%a = pd_op.tanh(%t) : ({T}) -> ", T),
    "through_if": (
        f"%r = pd_op.if(%c) : (tensor<1xi1>) -> {T} {{\n pir.yield(%w) : ({T}) -> ()\n}} else {{\n"
        f"pir.yield(%t) : ({T}) -> ()\n}}\n%a = pd_op.tanh(%r) : ({T}) -> ",
        T,
    ),
}
"""A line, and the type of its result, in which the operand may not be overwritten."""


@pytest.mark.parametrize("what", IN_PLACE)
def test_case_26_what_the_in_place_pass_refuses(what: str) -> None:
    line, of = IN_PLACE[what]
    text = program(
        parameter("w"),
        f"%t = {op('exp', '%x')}",
        f"%s = {op('exp', '%z', of='tensor<3xf64>')}",
        f"%v = {op('exp', '%u', of=W)}",
        line + of,
        output("a", "a", of=of),
        inputs={"x": T, "z": "tensor<3xf64>", "u": W, "c": "tensor<1xi1>"},
    )
    module = parsed(text)
    before = print_mlir(module)
    run_pipeline(module, "inplace")
    assert print_mlir(module) == before


def test_case_38_halves_survive_every_format() -> None:
    nan = (
        "%n = pd_op.full() {shape = array<i64: 2, 3>, value = 0x7FF8000000000000 : f64, "
        f"dtype = #pir.dtype<float64>}} : () -> {T}"
    )
    parts = split(program(nan, f"%y = {op('add', '%x', '%n')}", output("y", "y")))
    modules = [parts.forward.module]
    for name in ("while_tanh", "if_else"):
        parts = forward_backward(load(CORPUS / name / "program.txt"))
        modules += [parts.forward.module, parts.backward.module]
    for module in modules:
        text = print_mlir(module)
        for format in ("mlir", "mlir-generic"):
            assert print_mlir(parse(WRITERS[format](module), name="half.mlir")) == text
        written = WRITERS["paddle-json"](module)
        again = READERS["paddle-json"](written, "half.json")
        assert WRITERS["paddle-json"](again) == written


@pytest.mark.parametrize(
    "damage",
    [
        lambda doc: doc["base_code"].update(version=99),
        lambda doc: doc["base_code"].update(magic="other"),
        lambda doc: doc["program"]["regions"][0]["blocks"][0]["ops"][0].pop("#"),
    ],
    ids=["newer", "magic", "attribute"],
)
def test_case_39_damaged_models_are_refused_with_the_place(damage: Any, tmp_path: Path) -> None:
    document = json.loads((CORPUS / "mlp" / "model.json").read_text())
    damage(document)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        load(path)
    assert caught.value.span is not None
    assert "model.json" in str(caught.value.span)


@pytest.mark.parametrize("change", [lambda data: data[:-3], lambda data: data + b"xyz"])
def test_case_39_truncated_and_trailing_weights(change: Any, tmp_path: Path) -> None:
    for suffix in ("json", "pdiparams"):
        data = (CORPUS / "mlp" / f"model.{suffix}").read_bytes()
        (tmp_path / f"model.{suffix}").write_bytes(change(data) if suffix == "pdiparams" else data)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "model.json")
    assert "model.pdiparams" in str(caught.value)


def test_the_text_of_a_half_is_that_of_any_program() -> None:
    parts = split(NET)
    for module in (parts.forward.module, parts.backward.module):
        text = print_mlir(module)
        assert print_mlir(parse_mlir(text)) == text
