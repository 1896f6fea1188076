"""Programs with matmuls as one native call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm
from pirkit.lowering.whole_program.matmul import matmul_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]


def normal(*shape: int, kind: str = "float32") -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(kind)


PRODUCTS: dict[str, tuple[Any, tuple[Array, ...]]] = {
    "large": (lambda x, y: ops.exp(ops.matmul(x, y) * 0.01), (normal(70, 130), normal(130, 90))),
    "turned": (
        lambda x, y: ops.matmul(x, y, transpose_x=True, transpose_y=True) + 1.0,
        (normal(130, 70), normal(90, 130)),
    ),
    "many": (lambda x, y: ops.matmul(x, y) + 1.0, (normal(2, 3, 64, 80), normal(2, 3, 80, 65))),
    "many small": (lambda x, y: ops.matmul(x, y) + 1.0, (normal(2, 3, 4, 5), normal(3, 5, 6))),
    "many times one": (
        lambda x, y: ops.matmul(x, y, transpose_y=True) + 1.0,
        (normal(4, 70, 80), normal(65, 80)),
    ),
    "one turned times many": (
        lambda x, y: ops.matmul(x, y, transpose_x=True) + 1.0,
        (normal(80, 70), normal(4, 80, 65)),
    ),
    "spread": (
        lambda x, y: ops.matmul(x, y) + 1.0,
        (normal(2, 1, 70, 80), normal(1, 3, 80, 65)),
    ),
    "float64": (
        lambda x, y: ops.matmul(x, y) + 1.0,
        (normal(70, 80, kind="float64"), normal(80, 65, kind="float64")),
    ),
    "one row": (lambda x, y: ops.matmul(x, y) + 1.0, (normal(1, 700), normal(700, 600))),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_as_the_reference(name: str) -> None:
    function, given = PRODUCTS[name]
    program = trace(lambda *a: (function(*a), a[0] * 2.0), given).program
    whole = pirkit.compile(program, fast_math=True)
    assert whole.native is not None, whole.reasons
    exact = pirkit.compile(program, backend="reference")
    names = [p.name for p in exact.plan.inputs]
    wanted = exact.run(dict(zip(names, given, strict=True)))
    for made, right in zip(whole.native(*given), wanted.values(), strict=True):
        np.testing.assert_allclose(made, right, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_a_matrix_that_many_share_is_one_product() -> None:
    """Rows of all matrices together: no sum over products that are stored one by one."""
    x, w, g = normal(6, 70, 80), normal(80, 65), normal(6, 70, 65)

    def both(x: Any, w: Any, g: Any) -> Any:
        return pirkit.grad(lambda w: (ops.matmul(x, w) * g).sum())(w)

    whole = pirkit.compile(trace(both, (x, w, g)).program, fast_math=True)
    assert whole.native is not None, whole.reasons
    assert len(whole.native.steps) == 1
    wanted = np.einsum("bik,bij->kj", x.astype("float64"), g.astype("float64"))
    np.testing.assert_allclose(whole.native(x, w, g)[0], wanted, rtol=1e-4, atol=1e-4)


def test_values_of_one_shape_share_a_sweep_though_the_kernel_has_no_rows() -> None:
    def step(p: Any, m: Any, t: Any, x: Any, y: Any) -> Any:
        g = ops.matmul(x, y)
        t = t + 1.0
        m = m * 0.9 + g * ops.exp(t * -0.1)
        return p - m * t, m, t, g

    given = (normal(300, 300), normal(300, 300), normal(1), normal(300, 40), normal(40, 300))
    whole = pirkit.compile(trace(step, given).program, fast_math=True)
    assert whole.native is not None, whole.reasons
    assert len(whole.native.steps) == 3  # the product, t, and p and m at once
    p, m, t, x, y = (a.astype("float64") for a in given)
    new = m * 0.9 + (x @ y) * np.exp((t + 1) * -0.1)
    wanted = (p - new * (t + 1), new, t + 1, x @ y)
    for made, right in zip(whole.native(*given), wanted, strict=True):
        np.testing.assert_allclose(made, right, rtol=1e-4, atol=1e-4)


def test_what_is_stored_is_not_stored_again_under_another_shape() -> None:
    x, w, g = normal(6, 70, 80), normal(80, 65), normal(6, 70, 65)

    def both(x: Any, w: Any, g: Any) -> Any:
        def loss(w: Any) -> Any:
            return (ops.matmul(ops.exp(x), w) * g).sum()

        return ops.matmul(ops.exp(x), w), pirkit.grad(loss)(w)

    whole = pirkit.compile(trace(both, (x, w, g)).program, fast_math=True)
    assert whole.native is not None, whole.reasons
    assert len(whole.native.steps) == 3
    assert whole.native.memory < 1.1 * x.nbytes


def test_what_is_moved_is_stored_once_for_all_shapes() -> None:
    """Products read the moved heads as matrices, and as one matrix for the gradient."""
    x, w, g = normal(3, 5, 70, 16), normal(80, 65), normal(3, 70, 65)

    def both(x: Any, w: Any, g: Any) -> Any:
        def product(w: Any) -> Any:
            moved = ops.transpose(ops.exp(x), [0, 2, 1, 3])
            return ops.matmul(ops.reshape(moved, [3, 70, 80]), w)

        return product(w), pirkit.grad(lambda w: (product(w) * g).sum())(w)

    whole = pirkit.compile(trace(both, (x, w, g)).program, fast_math=True)
    assert whole.native is not None, whole.reasons
    assert len(whole.native.steps) == 3
    assert whole.native.memory < 1.1 * x.nbytes
    moved = np.exp(x.astype("float64")).transpose(0, 2, 1, 3).reshape(3, 70, 80)
    made = whole.native(x, w, g)
    np.testing.assert_allclose(made[0], moved @ w, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(made[1], np.einsum("bik,bij->kj", moved, g), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("columns", [64, 65])
def test_columns_that_are_no_whole_vectors_are_a_gemm(columns: int) -> None:
    """A nest masks the last vector at each term; the lanes of all targets divide 64."""
    shapes = (64, 20), (20, columns), (64, columns)
    a, b, c = (TensorMeta(shape, dt.float32) for shape in shapes)
    assert isinstance(matmul_of(a, b, c, (False, False)), Gemm) == (columns == 65)
