"""Arrays of tensors: a loop of Paddle fills one; what it holds is joined, read and taken out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
import pirkit.numpy as pnp
from pirkit.diag.errors import PassError, RuntimeFault, UnsupportedError
from pirkit.dialect.text import print_mlir
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program, load
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.passes import run_pipeline
from pirkit.runtime.arrays import ACTIONS, TensorList
from pirkit.runtime.executor import Executable
from pirkit.runtime.plan import Stack
from tests.frontend.test_paddle_text import check_round_trip

Array = np.ndarray[Any, Any]

DUMP: Final = Path(__file__).parent / "dumps" / "tensor-array.txt"
X: Final = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
DIFFERENTIATED: Final = DUMP.with_name("tensor-array-gradient.txt")
"""Two arrays that are joined and stacked, and Paddle's gradients through both."""
FED: Final = {"x": X, "y": np.linspace(0.5, 3, 6, dtype=np.float32).reshape(2, 3)}
PADDLES: Final = {
    "x": [[42.0, 16.81344, 1.9180801], [1.9219201, 17.746561, 54.0]],
    "y": [[0.1875, 6.0, 45.5625], [192.0, 585.9375, 1458.0]],
}
"""What Paddle 3.3.1 computes."""
LAST: Final = np.array([[-0.9611962, -0.90376776, -0.61853474]], np.float32)
"""What Paddle 3.3.1 gives for the first row of the last state, after three turns."""


def compiled(pipeline: str = "@default", *, threads: int = 1) -> Executable:
    return compile(load(DUMP), pipeline=pipeline, threads=threads)


@pytest.mark.parametrize("pipeline", ["", "@default", "functionalize,decompose,verify-primitive"])
def test_a_loop_fills_an_array(pipeline: str) -> None:
    exe = compiled(pipeline)
    for turns in (3, 1, 0, 3):
        states = [X]
        for _ in range(turns):
            states.append(np.tanh(states[-1] + X))
        found = exe.run({"x": X, "n": np.array([turns])})
        assert found["length"] == [turns + 1]
        assert found["left"] == [turns]
        assert found["sizes"].tolist() == [3] * (turns + 1)
        for name in ("last", "popped"):
            np.testing.assert_allclose(found[name], states[-1], rtol=1e-6)
        np.testing.assert_allclose(found["tanh"], np.tanh(states[-1]), rtol=1e-6)
        np.testing.assert_allclose(found["joined"], np.concatenate(states, 1), rtol=1e-6)
    np.testing.assert_allclose(found["last"][:1], LAST, rtol=1e-6)


def test_what_was_not_written_is_not_read() -> None:
    text = DUMP.read_text().replace('array_read" (%2, %1)', 'array_read" (%2, %18)')
    exe = compile(Program(read_paddle_text(text, "dump.txt")))
    with pytest.raises(RuntimeFault, match="place 4 of an array of length 4 was not written"):
        exe.run({"x": X, "n": np.array([3])})


def test_a_place_is_not_counted_from_the_end() -> None:
    array = TensorList([X])
    with pytest.raises(RuntimeFault, match="place -1 of an array of length 1"):
        array.at(-1, None)


def test_on_a_device_lengths_are_arrays_of_the_device() -> None:
    class Device:
        array = staticmethod(lambda *given: ("device", *given))
        concatenate = staticmethod(np.concatenate)

    array, none = TensorList([X, X]), Stack("length", 0)
    assert ACTIONS["length"](array, none, Device)[0][0] == "device"
    assert ACTIONS["join"](array, replace(none, numbers=(0, 0)), Device)[1][0] == "device"


def test_threads_keep_the_order_of_writes() -> None:
    fed = {"x": X, "n": np.array([2])}
    one, two = (compiled(threads=n).run(fed) for n in (1, 2))
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name])


@pytest.mark.parametrize("target", ["joined", "last", "joined,last"])
def test_a_gradient_flows_through_an_array(target: str) -> None:
    module = load(DUMP).module
    run_pipeline(module, f"autodiff{{wrt=x,targets={target}}}")
    exe = compile(Program(module))
    for turns in (3, 0):
        state, slope = X, np.ones_like(X)
        total = slope
        for _ in range(turns):
            state = np.tanh(state + X)
            slope = (1 - state * state) * (slope + 1)
            total = total + slope
        wanted = total * ("joined" in target) + slope * ("last" in target)
        found = exe.run({"x": X, "n": np.array([turns])})
        np.testing.assert_allclose(found["x_grad"], wanted, rtol=1e-6)


@pytest.mark.parametrize("pipeline", ["", "@default", "functionalize,decompose,verify-primitive"])
def test_gradients_that_paddle_wrote_are_cut_from_arrays(pipeline: str) -> None:
    found = compile(load(DIFFERENTIATED), pipeline=pipeline).run(FED)
    for name, wanted in PADDLES.items():
        np.testing.assert_allclose(found[f"g{name}"], wanted, rtol=2e-6)


@pytest.mark.parametrize("name", ["x", "y"])
def test_gradients_through_joined_arrays_are_those_of_paddle(name: str) -> None:
    module = load(DIFFERENTIATED).module
    run_pipeline(module, f"autodiff{{wrt={name},targets=loss}}")
    found = compile(Program(module)).run(FED)[f"{name}_grad"]
    np.testing.assert_allclose(found, PADDLES[name], rtol=2e-6)


def test_a_gradient_through_an_array_is_not_differentiated_again() -> None:
    module = load(DIFFERENTIATED).module
    with pytest.raises(PassError, match="tensor_to_array` has no derivative") as caught:
        run_pipeline(module, "autodiff{wrt=y,targets=gy}")
    assert "caused by PK0402" in caught.value.notes


def test_an_array_is_cut_by_the_sizes_of_another() -> None:
    array, like = TensorList(), TensorList([X[:, :1], X[:, 1:]])
    ACTIONS["cut"](array, Stack("cut", 0, numbers=(1, 0)), np, like, X)
    np.testing.assert_array_equal(array[0], X[:, :1])
    np.testing.assert_array_equal(array[1], X[:, 1:])
    assert not np.shares_memory(array[1], X)


def in_float64(text: str) -> str:
    return text.replace("float32", "float64").replace("xf32", "xf64").replace("<f32>", "<f64>")


def popped_before_it_is_joined(index: int) -> str:
    """The program with the element at ``index`` taken out of the array before that is joined."""
    lines = in_float64(DUMP.read_text()).replace("{index:-1", f"{{index:{index}").splitlines()
    kept = [line for line in lines if "array_read" not in line and '"last"' not in line]
    pop = next(line for line in kept if "array_pop" in line)
    kept.remove(pop)
    kept.insert(next(i for i, line in enumerate(kept) if "array_to_tensor" in line), pop)
    return "\n".join(kept)


def a_queue() -> str:
    """Each turn of the loop appends a state, and takes the first one out."""
    text, f64 = in_float64(DUMP.read_text()), "tensor<2x3xf64>"
    array = "pd_op.tensor_array<f64>"
    flags = "stop_gradient:[true]"
    length = f'(%28) = "pd_op.array_length" (%2) {{}} : ({array}) -> tensor<1xi64>'
    text = text.replace("(%2, %13, %12)", "(%2, %13, %28)").replace("(%14) =", f"{length}\n(%14) =")
    taken = (
        f'        (%26, %27) = "pd_op.array_pop" (%2) {{index:0,stop_gradient:[true,true]}}'
        f" : ({array}) -> {array}, {f64}\n"
        f'        (%29) = "pd_op.multiply" (%27, %10) {{{flags}}} : ({f64}, {f64}) -> {f64}\n'
    )
    lines = text.replace("(%17, %16, %10)", "(%17, %16, %29)").splitlines()
    lines = [line for line in lines if "array_read" not in line and '"last"' not in line]
    at = next(i for i, line in enumerate(lines) if "(%14) =" in line)
    return "\n".join([*lines[: at + 1], taken.rstrip(), *lines[at + 1 :]])


@pytest.mark.parametrize(
    ("text", "order"),
    [(popped_before_it_is_joined(0), 3), (popped_before_it_is_joined(-2), 2), (a_queue(), 2)],
    ids=["first", "last-but-one", "queue"],
)
def test_derivatives_of_any_order_flow_through_an_array(text: str, order: int) -> None:
    x, turns, step = X.astype(np.float64), np.array([3]), 1e-6
    exe = compile(Program(read_paddle_text(text, "dump.txt")))
    names, targets = ("joined", "tanh"), "joined,tanh"
    module = read_paddle_text(text, "dump.txt")
    for _ in range(order):
        run_pipeline(module, f"autodiff{{wrt=x,targets={targets}}}")
        derived = compile(Program(module))

        def total(at: Array, exe: Executable = exe, names: tuple[str, ...] = names) -> float:
            found = exe.run({"x": at, "n": turns})
            return float(sum(found[name].sum() for name in names))

        wanted = np.empty_like(x)
        for place in np.ndindex(x.shape):
            shift = np.zeros_like(x)
            shift[place] = step
            wanted[place] = (total(x + shift) - total(x - shift)) / (2 * step)
        targets = "x_grad" if targets == "joined,tanh" else f"{targets}_grad"
        found = derived.run({"x": x, "n": turns})[targets]
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
        exe, names = derived, (targets,)


def test_cotangents_of_an_array() -> None:
    array, parts = TensorList(), Stack("add parts", 0, numbers=(1, 0))
    one = np.array([1])
    ACTIONS["add"](array, parts, np, X, one)
    ACTIONS["add parts"](array, parts, np, np.concatenate([X, X[:, :1]], 1), np.array([3, 1]))
    np.testing.assert_array_equal(array.at(0, None), X)
    np.testing.assert_array_equal(array.at(1, None), X + X[:, :1])
    zeros = np.zeros_like(X)
    np.testing.assert_array_equal(ACTIONS["claim"](array, parts, np, one, zeros)[0], X + X[:, :1])
    for place in (one, one + 5):
        np.testing.assert_array_equal(ACTIONS["claim"](array, parts, np, place, zeros)[0], zeros)


@pytest.mark.parametrize("dump", [DUMP, DIFFERENTIATED], ids=lambda d: d.stem)
def test_the_text_is_written_back(dump: Path) -> None:
    check_round_trip(dump.read_text())


def test_an_array_is_not_mapped_over_rows() -> None:
    program = load(DUMP)
    rows, turns = np.stack([X, X]), np.array([2])
    with pytest.raises(UnsupportedError, match=r"`pd_op\.create_array` cannot") as caught:
        pirkit.vmap(lambda x: program(x=x, n=turns)[0])(rows)
    assert caught.value.code == "PK0402"


@pytest.mark.parametrize("suffix", [".txt", ".json"])
def test_an_array_of_pirkit_is_saved_for_paddle(suffix: str, tmp_path: Path) -> None:
    """Paddle's type has a shape, pirkit's own an element type alone."""
    module = print_mlir(load(DUMP).module).replace("array<tensor<f32>>", "array<f32>")
    program = pirkit.loads(module)
    pirkit.save(program, tmp_path / f"p{suffix}")
    again = pirkit.load(tmp_path / f"p{suffix}")
    found = (pirkit.compile(p)(x=X, n=np.array([3])) for p in (program, again))
    np.testing.assert_equal(*found)


def test_asarray_without_a_copy_keeps_the_element_type() -> None:
    x = pirkit.tensor(np.ones(3))
    assert pnp.asarray(x, copy=False) is x
    assert pnp.asarray(x, dtype="float64", copy=False) is x
    with pytest.raises(ValueError, match="copy"):
        pnp.asarray(x, dtype="float32", copy=False)
