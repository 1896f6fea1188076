"""An unknown number of rows costs nothing where only what is in a row is reduced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import ProgramOp
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.place import UNDEFINED
from tests.prim.differentiation import Array, Traced

CLEAN: Final = "decompose,canonicalize,cse,dce,verify-primitive"
NORMS: Final = {"is_test": True, "momentum": 0.9, "epsilon": 1e-5, "data_format": "NCHW",
                "use_global_stats": False, "trainable_statistics": False}  # fmt: skip


def _inputs(b: Builder, rows: int) -> Callable[..., Value]:
    """Declares inputs; the leading dimension is the number of rows."""
    names = iter(range(9))

    def declare(*rest: int, dtype: DType = dt.float64, lead: bool = True) -> Value:
        shape = (rows, *rest) if lead else rest
        return b("pd_op.data", name=f"x{next(names)}", shape=shape, dtype=dtype, place=UNDEFINED)

    return declare


Rule = Callable[[Builder, Callable[..., Value]], Any]

ROWS: Final[dict[str, Rule]] = {
    "softmax": lambda b, x: b.softmax(x(6), axis=-1),
    "log_softmax": lambda b, x: b.log_softmax(x(6), axis=1),
    "mean": lambda b, x: b.mean(x(3, 4), axis=(1, 2)),
    "logsumexp": lambda b, x: b.logsumexp(x(6), axis=(-1,)),
    "layer_norm": lambda b, x: b.layer_norm(
        x(6), x(6, lead=False), x(6, lead=False), begin_norm_axis=1
    )[0],
    "rms_norm": lambda b, x: b.rms_norm(x(6), x(6, lead=False), normalized_shape=(6,))[0],
    "group_norm": lambda b, x: b.group_norm(
        x(4, 5), x(4, lead=False), x(4, lead=False), groups=2, data_format="NCHW"
    )[0],
    "instance_norm": lambda b, x: b.instance_norm(x(3, 4), None, None)[0],
    "batch_norm": lambda b, x: b.batch_norm(
        x(3, 4), *(x(3, lead=False) for _ in range(4)), **NORMS
    )[0],
    "p_norm": lambda b, x: b.p_norm(x(6), porder=2.0, axis=1),
    "p_norm 1.5": lambda b, x: b.p_norm(x(6), porder=1.5, axis=1),
    "frobenius_norm": lambda b, x: b.frobenius_norm(
        x(3, 4), axis=(1, 2), keep_dim=False, reduce_all=False
    ),
    "cross_entropy": lambda b, x: b.cross_entropy_with_softmax(x(6), x(1, dtype=dt.int64), axis=-1)[
        1
    ],
    "bce": lambda b, x: b.sigmoid_cross_entropy_with_logits(x(6), x(6), None),
    "gelu": lambda b, x: b.gelu(x(6), approximate=False),
    "hardswish": lambda b, x: b.hardswish(x(6)),
    "kthvalue": lambda b, x: b.kthvalue(x(6), k=2, axis=-1)[0],
    "maxout": lambda b, x: b.maxout(x(6, 2, 2), groups=3, axis=1),
    "swiglu": lambda b, x: b.swiglu(x(6), None),
    "one_hot": lambda b, x: b.one_hot(x(dtype=dt.int64), num_classes=5),
}
"""Ops on rows, of which the sizes are known."""


def count(rule: Rule, rows: int) -> int:
    """Operations of a clean program of primitives that computes the op for so many rows."""
    program = ProgramOp.build("main")
    b = Builder(program.block)
    b("pir.shadow_output", rule(b, _inputs(b, rows)), output_name="y")
    run_pipeline(ModuleOp([program]), CLEAN)
    return len(list(program.block.ops))


@pytest.mark.parametrize("name", ROWS)
def test_a14_unknown_rows_take_as_many_operations(name: str) -> None:
    static, dynamic = (count(ROWS[name], rows) for rows in (4, UNKNOWN))
    assert dynamic == static


@pytest.mark.parametrize("size", [1, 2, 3])
def test_padding_that_keeps_sizes_is_known_at_stride_one(size: int) -> None:
    """So a convolution with it has a derivative in primitives, whatever the image is."""
    rng = np.random.default_rng(size)
    given = [rng.standard_normal(s) for s in ((2, 3, 5, 4), (4, 3, size, size), (2, 4, 5, 4))]
    found: list[list[Array]] = []
    for known in (True, False):
        t = Traced(given, known=known)
        x, _, seed = t.args
        w = t.b.reshape(t.args[1], given[1].shape)
        y = t.b.conv2d(x, w, strides=(1, 1), paddings=(0, 0), padding_algorithm="SAME",
                       dilations=(1, 1), groups=1, data_format="NCHW")  # fmt: skip
        slopes = t.grad(y, [x, w], seed)
        assert None not in slopes
        outputs = {f"g{i}": g for i, g in enumerate(slopes) if g is not None}
        computed = t.run(outputs, "decompose,verify-primitive")
        found.append([computed["g0"], computed["g1"]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling_that_keeps_sizes(kind: str, size: int) -> None:
    given = np.random.default_rng(size).standard_normal((2, 3, 5, 4))

    def pooled(t: Traced) -> Value:
        return t.b.pool2d(t.args[0], kernel_size=(size, size), strides=(1, 1), paddings=(0, 0),
                          padding_algorithm="SAME", data_format="NCHW", pooling_type=kind,
                          exclusive=True, ceil_mode=False, global_pooling=False,
                          adaptive=False)  # fmt: skip

    found: list[Array] = []
    for known in (True, False):
        whole, parts = (
            t.run({"y": pooled(t)}, pipeline)["y"]
            for pipeline in ("", "decompose,verify-primitive")
            for t in [Traced([given], known=known)]
        )
        np.testing.assert_allclose(parts, whole, rtol=1e-12)
        t = Traced([given], known=known)
        (slope,) = t.grad(t.b.exp(pooled(t)), t.args)
        assert slope is not None
        found.append(t.run({"slope": slope}, "decompose,verify-primitive")["slope"])
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("offset", [5, 3, 1, -3])
@pytest.mark.parametrize("known", [True, False])
def test_diagonals_that_are_empty_may_be_filled(known: bool, offset: int) -> None:
    x = np.arange(9.0).reshape(3, 3)
    t = Traced([x, np.zeros(max(3 - abs(offset), 0))], known=known)
    filled = t.b.fill_diagonal_tensor(*t.args, offset=offset)
    found = t.run({"y": filled}, "decompose,verify-primitive")["y"]
    np.testing.assert_array_equal(found, x - x * np.eye(3, k=offset))


@pytest.mark.parametrize("right", [(2, 3), (3, 3), (3, 5)])
def test_sizes_tell_vectors_from_a_matrix_when_the_program_runs(right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((2, 3, 3)) + 3 * np.eye(3), rng.standard_normal(right)]
    found: list[dict[str, Array]] = []
    for known in (True, False):
        t = Traced(given, known=known)
        slopes = t.grad(t.b.exp(t.b.solve(*t.args)), t.args)
        outputs = {f"g{i}": g for i, g in enumerate(slopes) if g is not None}
        found.append(t.run(outputs, "decompose"))
    for name in ("g0", "g1"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-12)


@pytest.mark.parametrize("pipeline", ["", "decompose", "decompose,fuse", "@default"])
@pytest.mark.parametrize(("op", "size"), [("kthvalue", 2), ("kthvalue", 0), ("rms_norm", 6)])
def test_sizes_that_an_op_refuses_are_refused_by_its_parts(
    op: str, size: int, pipeline: str
) -> None:
    b = pirkit.ProgramBuilder()
    how: Any = {"k": 3, "axis": 1} if op == "kthvalue" else {"normalized_shape": (3,)}
    b.output("y", getattr(b, op)(b.input("x", (-1, -1), "float32"), **how)[0])
    exe = pirkit.compile(b.finish(), pipeline=pipeline)
    assert exe.run({"x": np.ones((4, 3), np.float32)})["y"].shape[0] == 4
    with pytest.raises(RuntimeFault):
        exe.run({"x": np.ones((4, size), np.float32)})
