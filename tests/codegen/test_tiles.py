"""Folds in registers: matmuls and convolutions, against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit import ops
from pirkit.dialect.opdef import lookup, reference
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.conv.direct_conv import convolution
from pirkit.lowering.codegen.conv.transposed_conv_phases import ConvSizes
from pirkit.lowering.codegen.emit.schedule import (
    _alignable,  # pyright: ignore[reportPrivateUsage]
    schedule,
)
from pirkit.lowering.codegen.ir.loopnest import Constant, Kernel, Load, LoopPhase, Reduce, Store
from pirkit.lowering.explain_kernels import why_kernels
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.native_conv import bind_convolution, why_not_native
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import Target, host
from tests.campaigns.decisions import TARGETS
from tests.codegen.nests import check, compute, operand

Array = np.ndarray[Any, Any]


def matmul(m: int, n: int, k: int, transposed: bool, dtype: DType = dt.float32) -> Kernel:
    """tanh(a @ b + bias), with ``a`` as it is or transposed in memory."""
    nest = ((m, n), (k,))
    work = dt.float32 if dtype.itemsize < 4 else dtype
    operands = (
        operand(dtype, nest, [2, 0, 1] if transposed else [0, 2, 1], missing=[1]),
        operand(dtype, nest, [2, 1, 0], missing=[0]),
        operand(dtype, nest, missing=[0, 2]),
        operand(dtype, nest, missing=[2]),
    )
    body = (
        Load("a", 0),
        Load("b", 1),
        compute("p", "multiply", "a", "b", dtype=work),
        Reduce("s", "sum", "p"),
    )
    after = (
        Load("bias", 2),
        Constant("half", work, 0.125),
        compute("t", "multiply", "s", "half", dtype=work),
        compute("u", "add", "t", "bias", dtype=work),
        compute("y", "tanh", "u", dtype=work),
        Store(3, "y"),
    )
    return Kernel(*nest, operands, (LoopPhase(body, after),))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "sizes", [(10, 20, 20), (64, 64, 64), (33, 47, 21), (3, 70, 5), (9, 40, 1)]
)
def test_products_of_matrices(sizes: tuple[int, int, int], transposed: bool) -> None:
    kernel = matmul(*sizes, transposed)
    assert schedule(kernel, host()).strategy == "tiles"
    check(kernel, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
def test_a_register_tile_has_the_vectors_that_it_can_use(target: Target) -> None:
    found: set[tuple[int, int]] = set()
    for m, n, k in product((1, 2, 4, 9), (3, 8, 15, 16, 31, 32, 70), (1, 8, 9, 16, 17, 33, 65)):
        kernel = matmul(m, n, k, k % 2 == 0)
        plan = schedule(kernel, target)
        if plan.strategy != "tiles":
            continue
        axis = plan.kernel.outer[-1]
        assert plan.unroll in ((1, 2) if axis >= 2 * plan.lanes else (1,))
        assert plan.block <= plan.kernel.outer[-2]
        assert plan.unroll * plan.block <= 16
        # All of the inner loops are unrolled with one vector, if they cannot be with two.
        assert not plan.block * k <= 64 < plan.unroll * plan.block * k
        found.add((plan.unroll, plan.block))
    assert {unroll for unroll, _ in found} == {1, 2}


def test_blocks_are_aligned_to_an_operand_unless_the_result_bypasses_the_caches() -> None:
    kernel = matmul(4, 64, 8, False)
    assert _alignable(kernel, range(len(kernel.operands)), 8) == 1
    operands = kernel.operands
    streamed = replace(kernel, operands=(*operands[:-1], replace(operands[-1], stream=True)))
    assert _alignable(streamed, range(len(operands)), 8) is None


@pytest.mark.parametrize("dtype", [dt.float64, dt.float16, dt.bfloat16], ids=repr)
def test_products_of_other_widths(dtype: DType) -> None:
    check(matmul(13, 35, 18, False, dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
def test_short_folds(kind: Any) -> None:
    nest = ((6, 50), (7,))
    operands = (operand(dt.float32, nest, [0, 2, 1]), operand(dt.float32, nest, missing=[2]))
    phase = LoopPhase((Load("x", 0), Reduce("y", kind, "x")), (Store(1, "y"),))
    kernel = Kernel(*nest, operands, (phase,))
    assert schedule(kernel, host()).strategy == "tiles"
    check(kernel, rtol=1e-5)


@pytest.mark.parametrize(
    ("groups", "each", "depth", "lengths", "sizes", "before", "dilations", "strides"),
    [
        (5, 1, 1, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
        (5, 1, 1, (9, 70), (3, 3), (1, 1), (1, 1), (2, 2)),
        (3, 2, 1, (6, 40), (5, 3), (2, 0), (1, 2), (1, 1)),
        (3, 2, 1, (8, 43), (2, 3), (0, 2), (1, 1), (3, 5)),
        (2, 3, 4, (7, 17), (3, 3), (1, 1), (1, 1), (1, 1)),
        (4, 4, 2, (14, 14), (1, 1), (0, 0), (1, 1), (1, 1)),
        (2, 2, 2, (4, 5, 18), (2, 3, 3), (1, 1, 2), (1, 1, 2), (1, 1, 1)),
        (3, 1, 1, (3, 3), (3, 3), (0, 0), (1, 1), (1, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
def test_convolutions(
    groups: int,
    each: int,
    depth: int,
    lengths: tuple[int, ...],
    sizes: tuple[int, ...],
    before: tuple[int, ...],
    dilations: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: DType,
) -> None:
    positions = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(lengths, before, dilations, sizes, strides, strict=True)
    )
    moves = strides, dilations, before
    c = ConvSizes(2, groups, each, depth, dtype, lengths, sizes, positions, *moves)
    check(convolution(c), rtol=1e-4, atol=1e-4)


def bound(
    x: tuple[int, ...], filter: tuple[int, ...], op: str = "pd_op.conv2d", **attrs: Any
) -> Binding:
    given = {
        "strides": [1, 1],
        "paddings": [1, 1],
        "dilations": [1, 1],
        "padding_algorithm": "EXPLICIT",
        "data_format": "NCHW",
        **attrs,
    }
    metas = tuple(TensorMeta(shape, dt.float32) for shape in (x, filter))
    (out,) = KernelLibrary().infer(op, metas, given)
    return Binding(metas, (out,), given, op)


def against_reference(b: Binding, step: Step) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(b.input(k).shape).astype(np.float32) for k in (0, 1))
    want = reference.of(lookup(b.op))(x, w, **b.attrs)
    out = np.full(want.shape, np.nan, np.float32)
    step(np.asfortranarray(x), w, out)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_padding_may_be_longer_than_int32() -> None:
    far = [2**31 - 1] * 2
    b = bound((1, 512, 3, 2), (512, 1, 1, 1), groups=512, strides=far, paddings=far)
    step = bind_convolution(b)
    assert step is not None
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(b.input(k).shape).astype(np.float32) for k in (0, 1))
    out, want = np.full((1, 512, 3, 3), np.nan, np.float32), np.zeros((1, 512, 3, 3), np.float32)
    step(x, w, out)
    want[0, :, 1, 1] = x[0, :, 0, 0] * w[:, 0, 0, 0]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("groups", [8, 32])
def test_large_convolutions_in_groups_are_native(groups: int) -> None:
    b = bound((2, 32, 30, 31), (64, 32 // groups, 3, 3), groups=groups)
    step = bind_convolution(b)
    assert step is not None
    (choice, *_) = KernelLibrary().choices("pd_op.conv2d", dt.float32, b.attrs)
    assert choice.kernel.bind is bind_convolution
    against_reference(b, step)


@pytest.mark.parametrize(("paddings", "dilations"), [([1, 1], [1, 1]), ([0, 2], [1, 2])])
def test_large_transposed_convolutions_in_groups_are_native(
    paddings: list[int], dilations: list[int]
) -> None:
    x, filter = (2, 32, 30, 31), (32, 6, 3, 3)
    attrs: dict[str, Any] = {"output_padding": [], "output_size": [], "groups": 8}
    attrs |= {"paddings": paddings, "dilations": dilations}
    b = bound(x, filter, "pd_op.conv2d_transpose", **attrs)
    step = bind_convolution(b)
    assert step is not None
    against_reference(b, step)


@pytest.mark.parametrize(
    ("strides", "groups"), [([1, 1], 1), ([2, 1], 1), ([2, 2], 8), ([1, 2], 32)]
)
@pytest.mark.parametrize("op", ["pd_op.conv2d", "pd_op.conv2d_transpose"])
def test_large_convolutions_are_native(op: str, strides: list[int], groups: int) -> None:
    attrs: dict[str, Any] = {"groups": groups, "strides": strides}
    if op.endswith("transpose"):
        attrs |= {"output_padding": [], "output_size": []}
    b = bound((16, 32, 30, 31), (32, 32 // groups, 3, 3), op, **attrs)
    step = bind_convolution(b)
    assert step is not None
    against_reference(b, step)


@pytest.mark.parametrize(
    ("op", "filter", "groups"),
    [
        ("pd_op.conv2d", (8, 24, 3, 3), 1),
        ("pd_op.depthwise_conv2d", (24, 1, 3, 3), 24),
        ("pd_op.conv2d_transpose", (24, 8, 3, 3), 1),
    ],
)
def test_channels_may_be_last(op: str, filter: tuple[int, ...], groups: int) -> None:
    attrs: dict[str, Any] = {"groups": groups, "data_format": "NHWC"}
    if op.endswith("transpose"):
        attrs |= {"output_padding": [], "output_size": []}
    b = bound((2, 30, 31, 24), filter, op, **attrs)
    step = bind_convolution(b)
    assert step is not None
    against_reference(b, step)


@pytest.mark.parametrize(
    ("x", "filter", "attrs", "why"),
    [
        ((1, 8, 3, 3), (8, 4, 3, 3), {"groups": 2}, "it has 2,592 multiplications, fewer than"),
        ((0, 32, 30, 31), (64, 32, 3, 3), {"groups": 1}, "it has 0 multiplications"),
    ],
)
def test_other_convolutions_are_left_to_others(
    x: tuple[int, ...], filter: tuple[int, ...], attrs: dict[str, Any], why: str
) -> None:
    b = bound(x, filter, **attrs)
    assert bind_convolution(b) is None
    assert (why_not_native(b) or "").startswith(why)


def test_why_a_convolution_is_not_native_is_told() -> None:
    def convolve(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w)

    def known(side: int) -> str:
        x, w = np.zeros((1, 8, side, side), np.float32), np.zeros((8, 8, 3, 3), np.float32)
        exe = pirkit.compile(trace(convolve, (x, w)).program, pipeline="@default")
        return why_kernels(exe.plan, KernelLibrary())

    assert "not in native code: it has 2,304 multiplications" in known(4)
    assert "not in native code" not in known(40)
