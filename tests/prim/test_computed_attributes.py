"""Compositions of calls whose attributes are tensors, and of rare forms that samples leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from xdsl.ir import SSAValue

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import create
from pirkit.dialect.types import type_of
from pirkit.passes.decompose import decompose_op
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta, VecMeta
from tests.prim.differentiation import Array, Traced

X: Final = np.arange(12.0).reshape(3, 4)
Form = Callable[..., Any]

FORMS: Final[dict[str, tuple[Form, tuple[Array, ...]]]] = {
    "tile": (lambda b, x, n: b.tile(x, repeat_times=n), (X, np.array([2, 1, 3]))),
    "eye": (lambda b, n: b.eye(num_rows=n, num_columns=n, dtype=dt.float32), (np.array(3),)),
    "linspace": (
        lambda b, x, n: b.linspace(x, x + 2, number=n, dtype=dt.float64),
        (np.array(0.5), np.array(5)),
    ),
    "bincount": (lambda b, x, n: b.bincount(x, None, minlength=n),
                 (np.array([1, 1, 4]), np.array(7))),
    "kthvalue": (lambda b, x: b.kthvalue(x, k=2, axis=1)[0], (X,)),
    "masked_fill": (
        lambda b, x, v: b.masked_fill(x, b.greater_than(x, b.const(3.0, x.dtype)), v),
        (X, np.array([[[7.0]]])),
    ),
    "mean of integers": (lambda b, x: b.mean(x, axis=(1,)), (np.array([[1, 2], [-1, -2]]),)),
    "any truth value": (lambda b, x: b.mean(x, axis=(1,)), (X.astype(bool),)),
    "median of integers": (
        lambda b, x: b.median(x, axis=(0,), mode="avg", keepdim=False)[0],
        (np.array([[1, -2], [4, -5]]),),
    ),
    "index_put of truth values": (
        lambda b, x, i, v: b.index_put(x, [i], v, accumulate=True),
        (np.array([True, False, False]), np.array([1, 1, 0]), np.array([True, False, False])),
    ),
    **{
        f"pad3d {mode}": (
            lambda b, x, n, mode=mode: b.pad3d(
                b.reshape(x, (1, 1, 1, 3, 4)), paddings=n, mode=mode, pad_value=7.0
            ),
            (X, np.array([1, 2, 0, 1, 0, 0])),
        )
        for mode in ("constant", "reflect", "replicate", "circular")
    },
    "pad3d that cuts": (
        lambda b, x, n: b.pad3d(b.reshape(x, (1, 1, 1, 3, 4)), paddings=n),
        (X, np.array([-1, 2, 3, -2, 1, 0])),
    ),
    "pad3d of which some is known": (
        lambda b, x, n: b.pad3d(
            b.reshape(x, (1, 1, 1, 3, 4)),
            paddings=b.combine([b.integers((1,)), n, *[b.integers((0,))] * 4]),
        ),
        (X, np.array([2])),
    ),
    "loss scaling": (
        lambda b, x, scale, good, bad, stop: b(
            "pd_op.update_loss_scaling_", [x], b.cast(good, dt.bool_), scale, good, bad,
            stop_update=stop, incr_every_n_steps=1, decr_every_n_nan_or_inf=2, incr_ratio=2.0,
            decr_ratio=0.5,
        )[1],
        (*(np.ones(1, np.float32),) * 2, *(np.zeros(1, np.int32),) * 2, np.array(True)),
    ),
}  # fmt: skip


def program(form: Form, inputs: tuple[Array, ...], known: bool = True) -> tuple[Traced, Value]:
    t = Traced([a.copy() for a in inputs], known=known)
    return t, form(t.b, *t.args)


@pytest.mark.parametrize("name", FORMS)
def test_the_parts_compute_the_same(name: str) -> None:
    form, inputs = FORMS[name]
    whole, value = program(form, inputs)
    apart, same = program(form, inputs)
    expected = whole.run({"y": value})["y"]
    found = apart.run({"y": same}, "decompose,verify-primitive")["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("one", "other"),
    [(X, X), (X, X + 1), (X, X[:2]), (X[:2], X), (X[:0], X), (X, X[:0]), (X[:0], X[:0]),
     (X.reshape(4, 3), X)],
)  # fmt: skip
def test_equality_of_tensors_of_unknown_sizes(one: Array, other: Array) -> None:
    def form(b: Builder, x: Value, y: Value) -> Value:
        return b.equal_all(x, y)

    t, value = program(form, (one, other), known=False)
    assert t.run({"y": value}, "decompose")["y"] == np.array_equal(one, other)
    assert not any(op.name == "pd_op.equal_all" for op in t.program.block.ops)


@pytest.mark.parametrize("name", ["split_with_num", "swiglu", "logcumsumexp"])
def test_nothing_stays_whole_where_sizes_are_unknown(name: str) -> None:
    forms: dict[str, Form] = {
        "split_with_num": lambda b, x: b.split_vec(b.split_with_num(x, num=2, axis=1))[1],
        "swiglu": lambda b, x: b.swiglu(x, None),
        "logcumsumexp": lambda b, x: b.logcumsumexp(x, axis=1, reverse=True),
    }
    t, value = program(forms[name], (X,), known=False)
    known, same = program(forms[name], (X,))
    found = t.run({"y": value}, "decompose,verify-primitive")["y"]
    np.testing.assert_allclose(found, known.run({"y": same})["y"], rtol=1e-12)


def test_what_nobody_reads_may_have_any_type() -> None:
    """Paddle's programs state types of their own for side results that stay empty."""
    t = Traced([X, X])
    t.b.einsum(list(t.args), equation="ij,ij->i")
    made = t.b.emitted[-1]
    types = [r.type for r in made.results]
    types[1] = type_of(VecMeta((TensorMeta((), dt.float32),) * 2))
    op = t.b.insert(create(made.definition, made.operand_slots, types, made.properties))
    moved: dict[SSAValue, SSAValue] = {}
    y = op.results[0]
    assert decompose_op(op, moved=moved) > 0
    np.testing.assert_allclose(t.run({"y": t.b.wrap(moved[y])})["y"], (X * X).sum(1))


GRADIENTS: Final[list[tuple[Form, tuple[Array, ...], Any]]] = [
    (lambda b, x, g: b.view_shape_grad(x, g, dims=[4, 3]), (X, X.reshape(4, 3)), X),
    (lambda b, g: b.reverse_grad(g, axis=[0]), (X,), X[::-1]),
    (
        lambda b, x, g: b.as_strided_grad(x, g, dims=[2, 2], stride=[1, 1], offset=1),
        (np.zeros(5), np.array([[1.0, 2.0], [3.0, 4.0]])),
        [0, 1, 5, 4, 0],
    ),
    (lambda b, x, g: b.identity_loss_grad(x, g, reduction=0), (X, np.array(6.0)), X * 0 + 6),
    (lambda b, x, g: b.identity_loss_grad(x, g, reduction=1), (X, np.array(6.0)), X * 0 + 0.5),
    (lambda b, x, g: b.identity_loss_grad(x, g, reduction=2), (X, X), X),
]


@pytest.mark.parametrize(("form", "inputs", "want"), GRADIENTS)
def test_gradient_ops_of_undeclared_ops(form: Form, inputs: tuple[Array, ...], want: Any) -> None:
    t, value = program(form, inputs)
    found = t.run({"y": value}, "decompose,verify-primitive")["y"]
    np.testing.assert_array_equal(found, want)


BY_POSITION: Final[dict[str, Any]] = {
    "expand": lambda x: ops.expand(x[:1], ops.shape(x)),
    "clip": lambda x: ops.clip(x, ops.mean(x, axis=()), ops.max(x, axis=())),
    "scale": lambda x: ops.scale(x, x[0, 1], 2.0, False),
    "topk": lambda x: ops.topk(x, ops.shape(x)[0] - 1, 1, largest=False)[0],
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_computed_attributes_are_given_by_position(name: str) -> None:
    found, want = pirkit.jit(BY_POSITION[name])(X), BY_POSITION[name](X)
    np.testing.assert_allclose(np.asarray(found), np.asarray(want))


def test_a_computed_attribute_is_given_once() -> None:
    for arguments in (lambda x: (x, x[0, 0], 1.0, 2.0, 3.0), lambda x: (x, x[0, 0])):
        with pytest.raises(PirkitError, match=r"takes 3 arguments|`min` twice"):
            pirkit.jit(lambda x, of=arguments: ops.clip(*of(x), min=0.0))(X)
