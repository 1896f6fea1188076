"""The loop nests of the workloads of `native.py`."""

from __future__ import annotations

from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
)
from pirkit.runtime.dtype import float32

STREAM_FROM = 16 << 20
"""Bytes from which a result goes past the caches."""


def _operand(extents: tuple[int, int], strides: tuple[int, int], stream: bool = False) -> Operand:
    reach = sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
    size = reach + 4
    return Operand(float32, strides[:1], strides[1:], size, 0, stream and size >= STREAM_FROM)


def _flat(kernel: Kernel) -> Kernel:
    """The same nest without inner axes."""
    operands = tuple(
        Operand(o.dtype, (*o.outer, *o.inner), (), o.size, o.offset, o.stream)
        for o in kernel.operands
    )
    return Kernel((*kernel.outer, *kernel.inner), (), operands, kernel.loop_phases)


class Body:
    """Writes statements, with names of their own."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def name(self) -> str:
        self.count = getattr(self, "count", -1) + 1
        return f"{id(self)}.{self.count}"

    def load(self, operand: int) -> str:
        self.statements.append(Load(name := self.name(), operand))
        return name

    def number(self, value: float) -> str:
        self.statements.append(Constant(name := self.name(), float32, value))
        return name

    def do(self, primitive: str, *args: str | float) -> str:
        names = tuple(self.number(a) if isinstance(a, float) else a for a in args)
        self.statements.append(Compute(name := self.name(), primitive, names, float32))
        return name

    def reduction(self, kind: str, value: str) -> str:
        self.statements.append(Reduce(name := self.name(), kind, value))  # type: ignore[arg-type]
        return name

    def store(self, operand: int, value: str) -> tuple[Statement, ...]:
        self.statements.append(Store(operand, value))
        return tuple(self.statements)


def gelu(n: int, kind: str) -> Kernel:
    x, y = (_operand((n, n), (4 * n, 4), stream) for stream in (False, True))
    bias = _operand((n, n), (0, 4))
    b = Body()
    z = b.do("add", b.load(0), b.load(1))
    if kind == "erf":
        inner = b.do("erf", b.do("multiply", z, 0.70710678))
    else:
        cube = b.do("multiply", b.do("multiply", b.do("multiply", z, z), z), 0.044715)
        inner = b.do("tanh", b.do("multiply", b.do("add", z, cube), 0.7978845608))
    half = b.do("multiply", z, 0.5)
    body = b.store(2, b.do("multiply", half, b.do("add", inner, 1.0)))
    return _flat(Kernel((n,), (n,), (x, bias, y), (LoopPhase(body),)))


def softmax(rows: int, columns: int, logarithm: bool = False) -> Kernel:
    x, y = (_operand((rows, columns), (4 * columns, 4), stream) for stream in (False, True))
    first, second, third, after = Body(), Body(), Body(), Body()
    top = first.reduction("max", first.load(0))
    below = second.do("subtract", second.load(0), top)
    e = second.do("exp", below)
    total = second.reduction("sum", e)
    if not logarithm:
        last = third.store(1, third.do("divide", e, total))
        loop_phases = (
            LoopPhase(tuple(first.statements)),
            LoopPhase(tuple(second.statements)),
            LoopPhase(last),
        )
        return Kernel((rows,), (columns,), (x, y), loop_phases)
    log = after.do("log", total)
    again = third.do("subtract", third.load(0), top)
    last = third.store(1, third.do("subtract", again, log))
    loop_phases = (
        LoopPhase(tuple(first.statements)),
        LoopPhase(tuple(second.statements), tuple(after.statements)),
        LoopPhase(last),
    )
    return Kernel((rows,), (columns,), (x, y), loop_phases)


def layer_norm(rows: int, columns: int) -> Kernel:
    x, y = (_operand((rows, columns), (4 * columns, 4), stream) for stream in (False, True))
    row = _operand((rows, columns), (0, 4))
    a, a2, b, b2, c = Body(), Body(), Body(), Body(), Body()
    total = a.reduction("sum", a.load(0))
    mean = a2.do("divide", total, float(columns))
    d = b.do("subtract", b.load(0), mean)
    squares = b.reduction("sum", b.do("multiply", d, d))
    variance = b2.do("divide", squares, float(columns))
    r = b2.do("rsqrt", b2.do("add", variance, 1e-5))
    h = c.do("multiply", c.do("subtract", c.load(0), mean), r)
    body = c.store(3, c.do("add", c.do("multiply", h, c.load(1)), c.load(2)))
    loop_phases = (
        LoopPhase(tuple(a.statements), tuple(a2.statements)),
        LoopPhase(tuple(b.statements), tuple(b2.statements)),
        LoopPhase(body),
    )
    return Kernel((rows,), (columns,), (x, row, row, y), loop_phases)


def add_reduce(n: int, turned: bool) -> Kernel:
    """The sum of a + b over rows or, with a transposed, of a.T + b over columns."""
    a = _operand((n, n), (4, 4 * n))
    b = _operand((n, n), (4 * n, 4)) if turned else a
    y = _operand((n, 1), (4, 0))
    body, after = Body(), Body()
    total = body.reduction("sum", body.do("add", body.load(0), body.load(1)))
    phase = LoopPhase(tuple(body.statements), after.store(2, total))
    return Kernel((n,), (n,), (a, b, y), (phase,))


def adamw(n: int) -> Kernel:
    """One step of AdamW in place, its corrections as numbers in memory."""
    whole = _operand((n, 1), (4, 0))
    scalar = _operand((n, 1), (0, 0))
    b = Body()
    p, g, m, v = (b.load(k) for k in range(4))
    c1, c2 = b.load(4), b.load(5)
    p = b.do("multiply", p, 1 - 1e-3 * 0.01)
    m = b.do("add", b.do("multiply", m, 0.9), b.do("multiply", g, 1 - 0.9))
    gg = b.do("multiply", b.do("multiply", g, g), 1 - 0.999)
    v = b.do("add", b.do("multiply", v, 0.999), gg)
    low = b.do("add", b.do("multiply", b.do("sqrt", v), c2), 1e-8)
    step = b.do("divide", b.do("multiply", m, c1), low)
    b.store(2, m)
    b.store(3, v)
    body = b.store(0, b.do("subtract", p, step))
    operands = (whole, whole, whole, whole, scalar, scalar)
    return _flat(Kernel((n,), (1,), operands, (LoopPhase(body),)))


def copy(n: int) -> Kernel:
    """The roofline: what reading and writing alone cost."""
    x, y = _operand((n, 1), (4, 0)), _operand((n, 1), (4, 0), True)
    b = Body()
    return _flat(Kernel((n,), (1,), (x, y), (LoopPhase(b.store(1, b.load(0))),)))
