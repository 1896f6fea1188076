"""Loop nests for tests, and how they are run and compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pirkit.lowering.codegen.emit.compile import compile_kernel
from pirkit.lowering.codegen.interpret import Evaluation
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction, NativeSequence
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]
GUARD = 64
"""Bytes before and after each buffer that nobody may write."""


def dense(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    return tuple(itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))


def operand(dtype: DType, kernel: tuple[Sequence[int], Sequence[int]], order: Sequence[int] | None
            = None, missing: Sequence[int] = (), gap: int = 0) -> Operand:  # fmt: skip
    """An operand over the axes of a nest, laid out in an order of axes; it repeats along some."""
    outer, inner = kernel
    extents = [*outer, *inner]
    order = order if order is not None else range(len(extents))
    strides = [0] * len(extents)
    step = dtype.itemsize * (1 + gap)
    for axis in reversed(list(order)):
        if axis not in missing:
            strides[axis] = step
            step *= extents[axis]
    rank = len(outer)
    size = max(step, dtype.itemsize)
    return Operand(dtype, tuple(strides[:rank]), tuple(strides[rank:]), size)


def compute(name: str, primitive: str, *args: str, dtype: DType = dt.float32) -> Compute:
    return Compute(name, primitive, args, dtype)


def softmax(rows: int, columns: int, dtype: DType = dt.float32, axis: int = 1) -> Kernel:
    nest = ((rows,), (columns,))
    order = (0, 1) if axis == 1 else (1, 0)
    x = operand(dtype, nest, order)
    work = dt.float32 if dtype.itemsize < 4 else dtype
    return Kernel(
        *nest,
        (x, x),
        (
            LoopPhase((Load("x", 0), Reduce("top", "max", "x"))),
            LoopPhase(
                (
                    Load("again", 0),
                    compute("below", "subtract", "again", "top", dtype=work),
                    compute("e", "exp", "below", dtype=work),
                    Reduce("total", "sum", "e"),
                )
            ),
            LoopPhase((compute("y", "divide", "e", "total", dtype=work), Store(1, "y"))),
        ),
    )


def sums(rows: int, columns: int) -> Kernel:
    nest = ((rows,), (columns,))
    y = operand(dt.float32, nest, missing=[1])
    phase = LoopPhase((Load("x", 0), Reduce("total", "sum", "x")), (Store(1, "total"),))
    return Kernel(*nest, (operand(dt.float32, nest), y), (phase,))


def layer_norm(rows: int, columns: int, stream: bool = False) -> Kernel:
    nest = ((rows,), (columns,))
    x = operand(dt.float32, nest)
    weight = operand(dt.float32, nest, missing=[0])
    y = Operand(x.dtype, x.outer, x.inner, x.size, 0, stream)
    return Kernel(
        *nest,
        (x, weight, weight, y),
        (
            LoopPhase(
                (Load("x", 0), Reduce("total", "sum", "x")),
                (Constant("n", dt.float32, columns), compute("mean", "divide", "total", "n")),
            ),
            LoopPhase(
                (
                    Load("x1", 0),
                    compute("d", "subtract", "x1", "mean"),
                    compute("square", "multiply", "d", "d"),
                    Reduce("squares", "sum", "square"),
                ),
                (
                    Constant("n1", dt.float32, columns),
                    Constant("small", dt.float32, 1e-5),
                    compute("variance", "divide", "squares", "n1"),
                    compute("safe", "add", "variance", "small"),
                    compute("r", "rsqrt", "safe"),
                ),
            ),
            LoopPhase(
                (
                    Load("x2", 0),
                    Load("w", 1),
                    Load("b", 2),
                    compute("d2", "subtract", "x2", "mean"),
                    compute("h", "multiply", "d2", "r"),
                    compute("hw", "multiply", "h", "w"),
                    compute("y", "add", "hw", "b"),
                    Store(3, "y"),
                )
            ),
        ),
    )


def random_bytes(rng: np.random.Generator, operand: Operand) -> Array:
    count = -(-operand.size // operand.dtype.itemsize)
    if operand.dtype.kind == "bool":
        return rng.integers(0, 2, count).astype(np.bool_)
    if operand.dtype.is_float:
        return rng.normal(0, 2, count).astype(operand.dtype.np)
    return rng.integers(1, 50, count).astype(operand.dtype.np)


def poisoned(operand: Operand) -> Array:
    """A buffer of values that no kernel of ours gives."""
    return np.full(-(-operand.size // operand.dtype.itemsize) * operand.dtype.itemsize, 0xA5,
                   np.uint8).view(operand.dtype.np)  # fmt: skip


def guarded(buffer: Array) -> tuple[Array, Array]:
    """A copy of a buffer between guards, at a cache line; and the memory it lies in."""
    size = buffer.nbytes
    whole = np.full(size + 2 * GUARD + 64, 0x5A, np.uint8)
    start = GUARD + -(whole.ctypes.data + GUARD) % 64
    inside = whole[start : start + size].view(buffer.dtype)
    inside[...] = buffer
    return inside, whole


def run(
    kernel: Kernel,
    buffers: list[Array],
    function: NativeFunction | NativeSequence | None = None,
) -> None:
    """Run a kernel natively; nothing outside its buffers may change."""
    copies = [guarded(buffer) for buffer in buffers]
    function = function or NativeFunction(compile_kernel(kernel, host()))
    function.bind([inside for inside, _ in copies])()
    for buffer, (inside, whole) in zip(buffers, copies, strict=True):
        start = inside.ctypes.data - whole.ctypes.data
        assert (whole[:start] == 0x5A).all()
        assert (whole[start + inside.nbytes :] == 0x5A).all()
        buffer[...] = inside


def check(
    kernel: Kernel,
    rtol: float = 2e-6,
    atol: float = 1e-6,
    seed: int = 0,
    function: NativeFunction | NativeSequence | None = None,
) -> None:
    """Native code equals NumPy on random inputs; outputs begin as poison, inputs stay."""
    rng = np.random.default_rng(seed)
    written = {s.operand for s in kernel.statements() if isinstance(s, (Store, Accumulate))}
    read = {s.operand for s in kernel.statements() if isinstance(s, Load)}
    buffers = [
        poisoned(o) if k in written - read else random_bytes(rng, o)
        for k, o in enumerate(kernel.operands)
    ]
    expected = [buffer.copy() for buffer in buffers]
    Evaluation(kernel, expected).run()
    run(kernel, buffers, function)
    for k, (got, want) in enumerate(zip(buffers, expected, strict=True)):
        if k not in written:
            assert got.tobytes() == want.tobytes(), f"operand {k} was written"
        elif got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want, f"operand {k}")
        else:
            half = got.dtype.itemsize < 4
            loose = (
                {2: 2e-3}.get(got.dtype.itemsize, rtol) if got.dtype.name != "bfloat16" else 1e-2
            )
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), loose, loose if half else atol,
                err_msg=f"operand {k}",
            )  # fmt: skip
