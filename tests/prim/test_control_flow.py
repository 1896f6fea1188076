"""Derivatives of branches and loops, at orders one to three, against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block, Region

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import create
from pirkit.runtime import dtype as dt
from tests.prim.differentiation import Array, Traced

Body = Callable[[Builder, Sequence[Value]], Sequence[Value]]


def if_(b: Builder, cond: Value, then: Any, orelse: Any) -> Value:
    """The value of one of two functions without arguments."""
    blocks = [Block(), Block()]
    for block, branch in zip(blocks, (then, orelse), strict=True):
        with b.inside(block):
            b("pir.yield", branch())
    kind = blocks[0].last_op.operands[0].type  # pyright: ignore[reportOptionalMemberAccess]
    made = create("pd_op.if", (cond.ssa,), (kind,), regions=[Region(x) for x in blocks])
    return b.results(b.insert(made))


def while_(b: Builder, test: Any, body: Body, starts: Sequence[Value]) -> list[Value]:
    """The state after the last turn."""
    block = Block(arg_types=[s.ssa.type for s in starts])
    with b.inside(block):
        following = body(b, [b.wrap(a) for a in block.args])
        b("pir.yield", test(b, following), *following)
    types = [s.ssa.type for s in starts]
    operands = (test(b, starts).ssa, *[s.ssa for s in starts])
    made = b.insert(create("pd_op.while", operands, types, regions=[Region(block)]))
    return [b.wrap(r) for r in made.results]


def up_to(n: float) -> Callable[[Builder, Sequence[Value]], Value]:
    return lambda b, state: state[0] < n


def times(b: Builder, n: int, f: Callable[[Value], Value], x: Value) -> Value:
    """``f`` applied ``n`` times, in a loop."""
    zero = b.const(0, dt.int64)
    return while_(b, up_to(n), lambda b, s: [s[0] + 1, f(s[1])], [zero, x])[1]


def branch(b: Builder, x: Value, w: Value) -> Value:
    total = b.sum(x, (0,))
    return if_(
        b, total > 0.5, lambda: b.tanh(x * w) * x, lambda: b.sin(x) + if_(
            b, total > -10, lambda: b.exp(w * x), lambda: x
        )
    )  # fmt: skip


def loop(b: Builder, x: Value, w: Value) -> Value:
    return times(b, 3, lambda s: b.tanh(s * w) + x, x)


def no_turn(b: Builder, x: Value, w: Value) -> Value:
    return times(b, 0, lambda s: b.tanh(s * w), x * x) * w


def nested(b: Builder, x: Value, w: Value) -> Value:
    """An inner loop whose number of turns changes, and a branch inside."""

    def outer(b: Builder, s: Sequence[Value]) -> list[Value]:
        i, y = s
        zero = b.const(0, dt.int64)
        inner = while_(
            b,
            lambda b, t: t[0] < i,
            lambda b, t: [t[0] + 1, b.sin(t[1] * w) + y * 0.1],
            [zero, y],
        )[1]
        odd = b("pd_op.equal", b("pd_op.remainder", i, b.const(2, dt.int64)), b.const(1, dt.int64))
        return [i + 1, if_(b, odd, lambda: inner * x, lambda: b.exp(inner * 0.3))]

    return while_(b, up_to(4), outer, [b.const(0, dt.int64), x * w])[1]


def until_small(b: Builder, x: Value, w: Value) -> Value:
    """A loop whose number of turns the data tell."""
    halved = while_(
        b,
        lambda b, s: b.sum(s[0] * s[0], (0,)) > 0.05,
        lambda b, s: [s[0] * 0.5 * b.cos(w * 0.1), s[1] + b.sin(s[0])],
        [x, w],
    )
    return halved[0] * halved[1]


FUNCTIONS = [branch, loop, no_turn, nested, until_small]
X: Array = np.array([0.4, -0.3, 0.7])
W: Array = np.array([0.9, 1.2, -0.6])
WEIGHTS = [np.array([0.3, -1.1, 0.8]), np.array([1.7, 0.4, -0.9]), np.array([-0.2, 0.6, 1.3])]


def gradient(f: Any, order: int, x: Array, w: Array, pipeline: str = "") -> list[Array]:
    """Derivatives to ``x`` and ``w`` of a weighted sum, of the weighted sum of those, and so on."""
    t = Traced([x, w, *WEIGHTS])
    y = f(t.b, *t.args[:2])
    found = [y, y]
    for weight in t.args[2 : 2 + order]:
        scalar = t.b.sum(found[0] * weight, (0,))
        if found[0] is not found[1]:
            scalar = scalar + t.b.sum(found[1] * weight * weight, (0,))
        found = [
            g if g is not None else t.b.zeros_like(v)
            for g, v in zip(t.grad(scalar, t.args[:2]), t.args[:2], strict=True)
        ]
    results = t.run({"dx": found[0], "dw": found[1]}, pipeline)
    return [results["dx"], results["dw"]]


def weighted(found: Sequence[Array], weight: Array, order: int) -> float:
    total = float(np.sum(found[0] * weight))
    return total + (float(np.sum(found[1] * weight * weight)) if order else 0.0)


@pytest.mark.parametrize("pipeline", ["", "@default"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_against_differences_of_the_order_below(f: Any, order: int, pipeline: str) -> None:
    dx, dw = gradient(f, order, X, W, pipeline)
    weight, step = WEIGHTS[order - 1], 1e-5
    for at in range(3):
        for exact, which in ((dx, 0), (dw, 1)):
            sides: list[float] = []
            for sign in (1, -1):
                args = [X.copy(), W.copy()]
                args[which][at] += sign * step
                sides.append(weighted(gradient(f, order - 1, args[0], args[1]), weight, order - 1))
            numeric = (sides[0] - sides[1]) / (2 * step)
            np.testing.assert_allclose(exact[at], numeric, rtol=1e-6, atol=1e-8)


def test_a_loop_that_reads_nothing_back_keeps_nothing() -> None:
    t = Traced([X, W])
    y = times(t.b, 3, lambda s: s * 2.0, t.args[0])
    (g,) = t.grad(y, t.args[:1])
    assert g is not None
    pushes = [op for op in t.program.block.walk() if op.name == "pir.tuple_push"]
    assert [len(op.operands) for op in pushes] == [1]
    np.testing.assert_allclose(t.run({"g": g})["g"], 8.0)
