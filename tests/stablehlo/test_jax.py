"""Functions of JAX, exported on the spot and differentiated; they need jax."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jax
    import jax.numpy as jnp
    from jax import export, lax, nn

    from tests.stablehlo.jax_functions import arguments, computed, exported

import pirkit
from pirkit.stablehlo import from_jax, load
from tests.stablehlo.test_programs import RELATIVE, require_equal, run

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("transformer", "float32"), ("pinn", "float64"), ("indexing", "float32"),
     ("solvers", "float64"), ("decode", "float64")],
)  # fmt: skip
def test_this_jax_exports_programs_that_are_read(name: str, dtype: str) -> None:
    with jax.enable_x64(True):
        given = arguments(name, dtype)
        program, wanted = load(exported(name, given)), computed(name, given)
    require_equal(run(program, given), wanted, RELATIVE[dtype])


def attention(x: Any, w: Any) -> Any:
    q, k, v = jnp.split(x @ w, 3, axis=-1)
    return nn.softmax(q @ k.T / 2.0) @ v


def recurrence(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, row: (jnp.tanh(h @ w[:, :4] + row), h.sum()), x[0], x)


def pooled(x: Any, w: Any) -> Any:
    images = x.reshape(1, 1, 4, 4)
    y = lax.conv_general_dilated(images, w[:3, :3].reshape(1, 1, 3, 3), (1, 1), "SAME")
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "VALID")


def picked(x: Any, w: Any) -> Any:
    rows = w[jnp.array([1, 1, 3])]
    return x.at[jnp.array([0, 2])].add(2.0) ** 2, jnp.cumsum(rows, 1), jnp.sort(w, axis=0)


def shifted(x: Any, w: Any) -> Any:
    at = jnp.argmax(x[0]) % 2
    part = lax.dynamic_slice(w, (at, at), (2, 3))
    return lax.dynamic_update_slice(x, part[:, :2], (at, at)) * x, lax.cond(
        at > 0, jnp.sin, jnp.cos, w
    )


@pytest.mark.parametrize("function", [attention, recurrence, pooled, picked, shifted])
def test_derivatives_equal_those_of_jax(function: Any) -> None:
    draw = np.random.default_rng(0)
    x, w = draw.normal(size=(4, 4)), draw.normal(size=(4, 12))

    def total(outputs: Any, sine: Any, add: Any = sum) -> Any:
        return add([sine(o).sum() for o in outputs])

    with jax.enable_x64(True):
        leaves = lambda x, w: jax.tree.leaves(function(x, w))  # noqa: E731
        program = from_jax(leaves, x, w)
        wanted = jax.grad(lambda x, w: total(leaves(x, w), jnp.sin), (0, 1))(x, w)

    def loss(x: Any, w: Any) -> Any:
        found = program(x, w)
        return total(found if isinstance(found, tuple) else (found,), pirkit.numpy.sin)

    for mine, other in zip(pirkit.grad(loss, (0, 1))(x, w), wanted, strict=True):
        np.testing.assert_allclose(mine.numpy(), other, rtol=1e-10, atol=1e-12)


def test_trees_of_arguments_and_results_have_names() -> None:
    def step(params: Any, x: Any) -> Any:
        return {"loss": (x @ params["w"]).sum(), "new": [params["w"] * 2]}

    shapes = {"w": jax.ShapeDtypeStruct((3,), jnp.float32)}
    program = from_jax(step, shapes, jax.ShapeDtypeStruct((2, 3), jnp.float32))
    exe = pirkit.compile(program)
    assert [i.name for i in exe.inputs] == ["params_w", "x"]
    assert [o.name for o in exe.outputs] == ["result_loss", "result_new_0"]


def test_large_constants_are_parameters() -> None:
    table = np.arange(300.0, dtype=np.float32).reshape(100, 3)
    program = from_jax(lambda i: jnp.asarray(table)[i], np.array([7, 99, 0], np.int32))
    assert [a.shape for a in program.params.values()] == [(100, 3)]
    np.testing.assert_array_equal(
        program(np.array([7, 99, 0], np.int32)).numpy(), table[[7, 99, 0]]
    )


def test_symbolic_sizes_are_refused() -> None:
    shape = export.symbolic_shape("n, 3")
    text = export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct(shape, jnp.float32)).mlir_module()
    with pytest.raises(pirkit.diag.errors.UnsupportedError, match="size is not known"):
        load(text)


def test_the_first_nan_is_the_extreme_element() -> None:
    x = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, np.nan], [2.0, 1.0, -1.0]])

    def places(x: Any) -> Any:
        return jnp.argmax(x, 1), jnp.argmin(x, 0)

    with jax.enable_x64(True):
        program = from_jax(places, x)
        require_equal(run(program, [x]), list(places(x)), 0.0)


def test_windows_beyond_the_padded_tensor() -> None:
    x = np.ones((3, 4), np.float32)

    def none(x: Any) -> Any:
        return lax.reduce_window(
            x, -np.inf, lax.max, (3, 2), (2, 1), ((0, 0), (0, 0)), (1, 1), (2, 1)
        )

    assert none(x).shape == (0, 3)
    require_equal(run(from_jax(none, x), [x]), [none(x)], 0.0)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64"])
def test_integers_are_divided_by_zero_as_in_xla(kind: str) -> None:
    """A quotient has all bits set, a remainder is the dividend: one that `where` drops is free."""
    x, y = np.array([5, 7, 0, 9], kind), np.array([0, 2, 0, 4], kind)

    def quotients(x: Any, y: Any) -> Any:
        return lax.div(x, y), lax.rem(x, y), jnp.where(y == 0, 0, x // y)

    with jax.enable_x64(True):
        program, wanted = from_jax(quotients, x, y), jax.jit(quotients)(x, y)
        require_equal(run(program, [x, y]), list(wanted), 0.0)
