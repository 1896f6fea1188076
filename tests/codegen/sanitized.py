"""Programs in sanitized code, for a process of their own; with `planted`, a tail is too long.

With `small`, operands of a small matmul count as one element shorter. With `rows`, the tail of a
row kernel between two matmuls is too long. With `page`, what is written is the byte behind an array
of the allocator. With `push` and `pop`, the stack of a loop gets and gives more than it has room
for.
"""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any

import numpy as np
from msgspec.structs import replace

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.lowering import gemm_kernel
from pirkit.lowering.codegen.emit import nest_writer, stack_access
from pirkit.lowering.whole_program import loop_emit
from pirkit.runtime import dtype as dt
from pirkit.runtime.tensor.allocator import HOST


def network(x: Any, w: Any, at: Any) -> Any:
    """Tails, a matmul, a reduction, strides and a lookup."""
    y = ops.softmax(ops.tanh(ops.matmul(x, w)), -1)
    return ops.gather(y[:, ::2], at, axis=0).sum(1) + ops.max(x, (1,), keepdim=False)[:2]


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """A row kernel between two matmuls, in blocks of rows."""
    return ops.matmul(ops.softmax(ops.matmul(q, k, transpose_y=True) + mask, -1), v)


def attended(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = np.exp(q @ k.swapaxes(1, 2) + mask)
    return scores / scores.sum(-1, keepdims=True) @ v


def looped(x: Any, turns: Any) -> Any:
    """A loop whose turns are known when it runs: its derivative reads a stack."""
    state = pirkit.while_loop(
        lambda s: s[0] < turns, lambda s: (s[0] + 1.0, ops.sin(s[1])), (turns * 0.0, x)
    )
    return state[1].sum()


def convolved(rng: np.random.Generator) -> None:
    """Frozen, the packed image lies behind a bias, into which the pointer to its padding points."""
    b = pirkit.ProgramBuilder()
    shapes = (1, 16, 9, 8), (8, 16, 2, 3), (16, 8, 1, 2), (1, 16, 1, 1)
    image, first, second, bias = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    x = b("pd_op.conv2d", b.parameter("image", image), b.parameter("first", first))
    x = b("pd_op.conv2d", x, b.parameter("second", second), paddings=[0, 1])
    b.output("y", b.input("z", (1,), "float32") + b.tanh(x + b.parameter("bias", bias)))
    program = b.finish()
    z = np.zeros(1, np.float32)
    found, want = (
        pirkit.compile(program, **how)(z=z)["y"] for how in ({"freeze": True}, {"pipeline": ""})
    )
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def main(what: str) -> None:
    rng = np.random.default_rng(0)
    shapes = ((8, 70, 16), (8, 90, 16), (8, 90, 12), (8, 70, 90))
    heads = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((37, 53), (53, 29)))
    if what == "page":
        array = HOST.empty((5,), dt.float32.np)
        ctypes.memset(array.ctypes.data + 64, 0, 1)
    if what == "planted":
        old: Any = loop_emit.lane_mask

        def too_long(b: Any, lanes: int, left: Any) -> Any:
            return old(b, lanes, b.plus(left, 1))

        setattr(loop_emit, "lane_mask", too_long)  # noqa: B010  one that ruff knows no type of
        pirkit.jit(lambda x: ops.exp(x) * 2.0)(x[:, 0])
    if what == "rows":
        mask: Any = nest_writer.tail_mask
        longer: Any = lambda b, lanes, count: mask(b, lanes, b.plus(count, 1))  # noqa: E731
        setattr(nest_writer, "tail_mask", longer)  # noqa: B010
    if not what:
        convolved(rng)
    program = trace(attention, tuple(heads)).program
    native = pirkit.compile(program, fast_math=True).native
    assert native is not None
    found = np.asarray(native(*heads)[0])
    np.testing.assert_allclose(found, attended(*heads), rtol=1e-4, atol=1e-6)
    if what == "small":
        old = gemm_kernel._reach  # pyright: ignore[reportPrivateUsage]
        less: Any = lambda *given: (0, old(*given)[1] - 4)  # noqa: E731
        setattr(gemm_kernel, "_reach", less)  # noqa: B010
        w = np.ascontiguousarray(w[:, :7])
        traced = trace(lambda x, w: ops.matmul(ops.exp(x) * 2.0, w), (x, w))
        pirkit.compile(traced.program, pipeline="@default").run({"x0": x, "x1": w})
    if what in ("push", "pop"):
        draft = stack_access._draft  # pyright: ignore[reportPrivateUsage]

        def moved(action: Any, sizes: Any) -> Any:
            made, beyond = draft(action, sizes), 1 << 30 if action == "push" else -(1 << 30)
            top = r"(getelementptr i8, ptr %v\d+, i64) %v\d+"
            text = re.sub(top, rf"\1 {beyond}", made.text) if action == what else made.text
            return replace(made, text=text)

        setattr(stack_access, "_draft", moved)  # noqa: B010
    slope = pirkit.jit(pirkit.grad(looped))(x[0, :5], np.float32(3))
    by_hand = np.cos(np.sin(np.sin(x[0, :5]))) * np.cos(np.sin(x[0, :5])) * np.cos(x[0, :5])
    np.testing.assert_allclose(np.asarray(slope), by_hand, rtol=1e-4)
    found = np.asarray(pirkit.jit(network)(x, w, np.array([3, 36])))
    y = np.exp(np.tanh(x @ w))
    y /= y.sum(1, keepdims=True)
    want = y[[3, 36], ::2].sum(1) + x.max(1)[:2]
    np.testing.assert_allclose(found, want, rtol=1e-4)


if __name__ == "__main__":
    main(sys.argv[1])
