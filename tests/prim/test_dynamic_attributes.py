"""Gradient ops whose attributes come from another program are decomposed all the same.

What the shapes leave open is chosen when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.files import load
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from tests.prim.differentiation import Array, Traced
from tests.prim.test_closed import CASES

Call = Callable[[Builder, Value, Value, Any], Value]
DECOMPOSE: Final = "functionalize,decompose,verify-primitive"


@pytest.mark.parametrize(
    "case", [c for c in CASES if (c / "backward.txt").exists()], ids=lambda path: path.name
)
def test_no_gradient_op_of_a_backward_program_stays_whole(case: Any) -> None:
    module = load(case / "backward.txt").module
    run_pipeline(module, DECOMPOSE)
    assert not [op.name for op in module.walk() if "_grad" in op.name]


def _concat(b: Builder, x: Value, g: Value, axis: Any) -> Value:
    pieces = b.split_vec(b.concat_grad([x, x * 2.0], g, axis=axis))
    return b.concat(pieces, axis=0)


def _pool(kind: str, **more: Any) -> Call:
    def call(b: Builder, x: Value, g: Value, size: Any) -> Value:
        attrs = {"strides": (2, 2), "paddings": (1, 1), "padding_algorithm": "EXPLICIT",
                 "data_format": "NCHW", "exclusive": False, "ceil_mode": False,
                 "global_pooling": False, "adaptive": False, **more}  # fmt: skip
        out = b.pool2d(x, kernel_size=(3, 3), pooling_type=kind, **attrs)
        return b.pool2d_grad(x, out, g, kernel_size=size, pooling_type=kind, **attrs)

    return call


def _gather(b: Builder, x: Value, g: Value, axis: Any) -> Value:
    index = b.integers((0, 2, 2, 1))
    return b.gather_grad(x, index, g, axis=axis)


def _reduced(name: str, *, keepdim: bool = False) -> Call:
    def call(b: Builder, x: Value, g: Value, axis: Any) -> Value:
        return b(f"pd_op.{name}_grad", x, g, axis=axis, keepdim=keepdim, reduce_all=False)

    return call


def _greatest(b: Builder, x: Value, g: Value, axis: Any) -> Value:
    out = b("pd_op.max", x, axis=(1,), keepdim=False)
    return b.max_grad(x, out, g, axis=axis, keepdim=False, reduce_all=False)


CALLS: Final[dict[str, tuple[Call, tuple[int, ...], tuple[int, ...], Any]]] = {
    "sum": (_reduced("sum"), (4, 4, 4), (4, 4), (1,)),
    "sum from behind": (_reduced("sum"), (4, 4, 4), (4,), (-1, 0)),
    "sum of all": (_reduced("sum"), (4, 4), (), (0, 1)),
    "sum that keeps": (_reduced("sum", keepdim=True), (4, 4), (1, 4), (0,)),
    "mean": (_reduced("mean"), (3, 3, 2), (3, 2), (0,)),
    "mean of all": (_reduced("mean"), (3, 3), (), (0, 1)),
    "greatest": (_greatest, (4, 4), (4,), (-1,)),
    "concat": (_concat, (3, 3), (3, 6), 1),
    "gather, one way": (_gather, (3, 5), (4, 5), 0),
    "gather, two ways": (_gather, (4, 4), (4, 4), -1),
    "greatest of windows": (_pool("max"), (1, 2, 5, 6), (1, 2, 3, 3), (3, 3)),
    "mean of windows": (_pool("avg"), (1, 2, 5, 6), (1, 2, 3, 3), (3, 3)),
    "greatest, rounded up": (_pool("max", ceil_mode=True), (1, 1, 6, 6), (1, 1, 4, 4), (3, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_numbers_are_those_of_the_known_attribute(name: str) -> None:
    call, size, of_out, value = CALLS[name]
    rng = np.random.default_rng(5)
    x, g = rng.permutation(int(np.prod(size))).reshape(size) + 0.5, rng.standard_normal(of_out)
    known = Traced([x, g])
    want = known.run({"y": call(known.b, *known.args, value)}, DECOMPOSE)["y"]
    held = np.asarray(value, np.int64 if np.ndim(value) else np.int32)
    late = Traced([x, g, held if held.ndim else held.reshape(1)])
    found = _decomposed(late, call(late.b, *late.args))
    np.testing.assert_allclose(found, want, rtol=1e-12)


def _decomposed(t: Traced, y: Value) -> Array:
    found = t.run({"y": y}, DECOMPOSE)["y"]
    assert not [op.name for op in t.program.block.ops if "_grad" in op.name]
    return found


def test_what_shapes_leave_too_open_stays_whole() -> None:
    """Windows that are padded to fit give as many results whatever their size is."""
    x, g = np.ones((1, 1, 4, 4)), np.ones((1, 1, 2, 2))
    t = Traced([x, g, np.array([3, 3])])
    y = _pool("max", padding_algorithm="SAME")(t.b, *t.args)
    t.b("pir.shadow_output", t.b.cast(y, dt.float64), output_name="y")
    module = ModuleOp([t.program])
    run_pipeline(module, "functionalize,decompose")
    assert [op.name for op in module.walk() if "_grad" in op.name] == ["pd_op.pool2d_grad"]
