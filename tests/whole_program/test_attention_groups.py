"""Attention and its like in blocks of rows: scores that nobody else reads are never whole."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.program import NativeProgram

Array = np.ndarray[Any, Any]


def normal(*shape: int, kind: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def heads(
    rows: int, columns: int, depth: int, width: int, lead: tuple[int, ...], kind: str = "float32"
) -> tuple[Array, ...]:
    shapes = ((rows, depth), (columns, depth), (columns, width))
    return tuple([normal(*lead, *s, kind=kind, seed=k) for k, s in enumerate(shapes)])


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = ops.matmul(q, k, transpose_y=True) * 0.25
    return ops.matmul(ops.softmax(scores, -1), v)


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = ops.matmul(q, k, transpose_y=True) * 0.25 + mask
    return ops.matmul(ops.softmax(scores, -1), v)


def with_gradients(function: Any) -> Any:
    def both(g: Any, q: Any, k: Any, v: Any, *rest: Any) -> Any:
        def loss(q: Any, k: Any, v: Any) -> Any:
            return (function(q, k, v, *rest) * g).sum()

        return function(q, k, v, *rest), *pirkit.grad(loss, (0, 1, 2))(q, k, v)

    return both


def compared(function: Any, given: tuple[Array, ...], atol: float = 2e-5) -> NativeProgram:
    """The native program, which gives what the reference rules give."""
    program = trace(function, given).program
    whole: Executable = pirkit.compile(program, fast_math=True)
    assert whole.native is not None, whole.reasons
    wanted = reference(function, given)(*given)
    for made, right in zip(whole.native(*given), wanted, strict=True):
        np.testing.assert_allclose(made, right, rtol=1e-4, atol=atol)
    return whole.native


def reference(function: Any, given: tuple[Array, ...]) -> Callable[..., list[Array]]:
    """What the reference rules give for arrays like those."""
    program = trace(function, given).program
    exact = pirkit.compile(program, backend="reference", pipeline="taylor,expand-gradients")
    names = [p.name for p in exact.plan.inputs]

    def run(*arrays: Array) -> list[Array]:
        return list(exact.run(dict(zip(names, arrays, strict=True))).values())

    return run


@pytest.mark.parametrize(
    ("sizes", "lead"),
    [
        ((128, 128, 64, 64), (2, 3)),
        ((131, 130, 17, 9), (2,)),
        ((19, 2100, 8, 8), (8,)),
        ((200, 100, 16, 40), ()),
    ],
)
def test_forward(sizes: tuple[int, int, int, int], lead: tuple[int, ...]) -> None:
    native = compared(attention, heads(*sizes, lead))
    assert len(native.steps) == 1
    assert native.memory == 0


def test_forward_in_float64() -> None:
    native = compared(attention, heads(140, 150, 24, 24, (3,), "float64"), 1e-12)
    assert len(native.steps) == 1


@pytest.mark.parametrize("sizes", [(70, 70, 32, 32), (67, 93, 20, 9)])
def test_forward_and_backward(sizes: tuple[int, int, int, int]) -> None:
    given = heads(*sizes, (3, 3))
    native = compared(with_gradients(attention), (normal(3, 3, sizes[0], sizes[3], seed=7), *given))
    assert len(native.steps) == 1
    assert native.memory == 0


@pytest.mark.parametrize("sizes", [(1, 70, 16, 16), (1, 16400, 8, 8), (70, 1, 16, 16)])
def test_one_row_and_one_column(sizes: tuple[int, int, int, int]) -> None:
    compared(attention, heads(*sizes, (3,)))


def test_few_matrices_share_no_sums() -> None:
    """One matrix is one thread's in a sum over rows: of two matrices sums are products apart."""
    given = heads(130, 140, 32, 32, (2,))
    native = compared(with_gradients(attention), (normal(2, 130, 32, seed=7), *given))
    assert len(native.steps) > 1


@pytest.mark.parametrize("shape", [(100, 130), (3, 1, 130), (3, 100, 130), (1,)])
def test_masks(shape: tuple[int, ...]) -> None:
    mask = np.where(normal(*shape, seed=5) > 1, -np.inf, 0).astype("float32")
    native = compared(masked, (*heads(100, 130, 16, 16, (3,)), mask))
    assert len(native.steps) == 1


def test_rows_of_which_nothing_is_seen() -> None:
    mask = np.triu(np.full((130, 130), -np.inf, np.float32))
    native = compared(masked, (*heads(130, 130, 16, 16, (3,)), mask))
    made = native(*heads(130, 130, 16, 16, (3,)), mask)[0]
    assert np.isnan(made[:, 0]).all()
    assert np.isfinite(made[:, 1:]).all()


def test_what_is_no_number_stays_in_its_row() -> None:
    q, k, v = heads(130, 130, 16, 16, (3,))
    q[1, 70, 3] = np.nan
    made = compared(attention, (q, k, v))(q, k, v)[0]
    assert np.isnan(made[1, 70]).all()
    assert np.isnan(made).sum() == made.shape[-1]


def test_probabilities_that_are_kept() -> None:
    def both(q: Any, k: Any, v: Any) -> Any:
        weights = ops.softmax(ops.matmul(q, k, transpose_y=True), -1)
        return weights, ops.matmul(weights, v)

    compared(both, heads(131, 130, 16, 16, (3,)))


def test_scores_that_others_read() -> None:
    def both(q: Any, k: Any, v: Any) -> Any:
        scores = ops.matmul(q, k, transpose_y=True)
        return ops.matmul(ops.softmax(scores, -1), v), ops.matmul(scores, v)

    compared(both, heads(131, 130, 16, 16, (3,)))


def test_scores_that_are_read_turned() -> None:
    """A row of the kernel needs a column of the product: that is no kernel of rows."""

    def transposed(q: Any, k: Any, v: Any) -> Any:
        scores = ops.transpose(ops.matmul(q, k, transpose_y=True), [0, 2, 1])
        return ops.matmul(ops.softmax(scores, -1), v)

    compared(transposed, heads(130, 130, 16, 16, (3,)))


def test_factors_that_are_turned() -> None:
    def transposed(q: Any, k: Any, v: Any) -> Any:
        scores = ops.matmul(q, k, transpose_x=True)
        return ops.matmul(ops.softmax(scores, -1), v, transpose_y=True)

    native = compared(transposed, (normal(3, 16, 130), normal(3, 16, 140), normal(3, 24, 140)))
    assert len(native.steps) == 1


def test_keys_that_all_heads_share() -> None:
    q, k, v = heads(130, 140, 16, 16, ())
    native = compared(attention, (normal(3, 4, 130, 16, seed=4), k[None, None], v))
    assert len(native.steps) == 1
    assert q.shape == (130, 16)


def test_a_kernel_without_sums_between_products() -> None:
    def layers(x: Any, w: Any, b: Any, u: Any) -> Any:
        return ops.matmul(ops.gelu(ops.matmul(x, w) + b), u)

    native = compared(layers, (normal(500, 40), normal(40, 50), normal(50), normal(50, 30)), 2e-4)
    assert len(native.steps) == 1


@pytest.mark.parametrize("backward", [False, True])
def test_blocks_are_independent(backward: bool) -> None:
    """Threads take blocks as they come, and one by one: no bit depends on it."""
    given: tuple[Array, ...] = heads(150, 150, 16, 16, (3, 3))
    if backward:
        given = (normal(3, 3, 150, 16, seed=7), *given)
    native = compared(with_gradients(attention) if backward else attention, given)
    (step,) = native.steps
    code = step.function.code
    whole = native(*given)
    results = [np.full_like(r, np.nan) for r in whole]
    everything = [*given, *results]
    scratch = np.full(code.scratch + 64, 255, np.uint8)
    start = scratch.ctypes.data + -scratch.ctypes.data % 64
    addresses = [everything[k].ctypes.data for k in step.operands]
    block = (ctypes.c_size_t * (len(addresses) + 1))(*addresses, start)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    call = kind(step.function.address)
    for number in reversed(range(code.blocks)):
        call(ctypes.addressof(block), 0, number, number + 1)
    for made, right in zip(results, whole, strict=True):
        np.testing.assert_array_equal(made, right)


def transposed(x: Any, y: Any) -> Any:
    return ops.matmul(x, y, transpose_y=True)


def cast_between(to: str, transpose_x: bool = False) -> Any:
    def function(q: Any, k: Any, v: Any) -> Any:
        found = ops.cast(ops.softmax(transposed(q, k) * 0.25, -1), to)
        return ops.matmul(found, v, transpose_x=transpose_x)

    return function


def two_before(to: str) -> Any:
    def function(q: Any, k: Any, a: Any, b: Any, v: Any) -> Any:
        return ops.matmul(ops.softmax(transposed(q, k) + ops.cast(transposed(a, b), to), -1), v)

    return function


@pytest.mark.parametrize("first", ["float32", "float64"])
@pytest.mark.parametrize("way", ["behind", "turned", "before"])
def test_products_of_other_types_are_steps_of_their_own(way: str, first: str) -> None:
    other = "float32" if first == "float64" else "float64"
    q, k, _ = heads(130, 130, 16, 16, (9,), first)
    a, b, v = heads(130, 130, 16, 16, (9,), other)
    if way == "before":
        compared(two_before(first), (q, k, a, b, v.astype(first)))
    else:
        compared(cast_between(other, way == "turned"), (q, k, v))


VIEWED: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "left, transposed": (lambda x, y, c: transposed_left(x.reshape(16, 500), y) + c,
                         ((2, 8, 500), (16, 64), (500, 64))),
    "left": (lambda x, y, c: ops.matmul(x.reshape(500, 16), y) + c,
             ((250, 32), (16, 64), (500, 64))),
    "right": (lambda x, y, c: ops.matmul(x, y.reshape(16, 64)) + c,
              ((500, 16), (4, 256), (500, 64))),
    "right, transposed": (lambda x, y, c: transposed(x, y.reshape(64, 16)) + c,
                          ((500, 16), (4, 16, 16), (500, 64))),
    "operand of the kernel": (lambda x, y, c: ops.matmul(x, y) + c.reshape(500, 64),
                              ((500, 16), (16, 64), (250, 128))),
    "result": (lambda x, y, c: ops.softmax(ops.matmul(x, y).reshape(250, 128) + c, -1),
               ((500, 16), (16, 64), (250, 128))),
    "factor of a sum over rows": (
        lambda x, y, c: transposed_left(ops.tanh(ops.matmul(x, y)), c.reshape(500, 64)),
        ((500, 16), (16, 64), (250, 128))),
    "result that is a factor": (
        lambda x, y, c: transposed_left(ops.tanh(ops.matmul(x, y)).reshape(250, 128), c),
        ((500, 16), (16, 64), (250, 64))),
    "second factor": (
        lambda x, y, c: ops.matmul(ops.softmax(ops.matmul(x, y), -1), c.reshape(64, 32)),
        ((500, 16), (16, 64), (32, 64))),
}  # fmt: skip


def transposed_left(x: Any, y: Any) -> Any:
    return ops.matmul(x, y, transpose_x=True)


@pytest.mark.parametrize("case", VIEWED)
@pytest.mark.parametrize("fast_math", [False, True])
def test_operands_are_read_with_the_shapes_of_their_views(case: str, fast_math: bool) -> None:
    function, shapes = VIEWED[case]
    given = tuple([normal(*shape, kind="float64", seed=k) for k, shape in enumerate(shapes)])
    found = pirkit.compile(trace(function, given).program, fast_math=fast_math)
    assert found.native is not None, found.reasons
    made = list(found.native(*given))
    wanted = reference(function, given)(*given)
    np.testing.assert_allclose(made[0], wanted[0], rtol=1e-9, atol=1e-9)
