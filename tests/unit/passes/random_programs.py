"""Random small programs with in-place writes, views, lists, branches, loops and random draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

T: Final = "tensor<2x2xf32>"
ONE: Final = "tensor<1xf32>"
INT: Final = "tensor<1xi64>"
BOOL: Final = "tensor<1xi1>"

UNARY: Final = ("relu", "abs", "tanh", "assign", "share_data", "floor")
BINARY: Final = ("add", "subtract", "multiply", "maximum", "divide")
INPLACE_UNARY: Final = ("relu_", "tanh_", "abs_")
INPLACE_BINARY: Final = ("add_", "multiply_", "subtract_")
NUMBERS: Final = ("0.0", "-0.0", "1.0", "-1.0", "0.1", "3.0")


@dataclass
class _Writer:
    random: Random
    count: int = 0
    depth: int = 0
    lines: list[str] = field(default_factory=list[str])

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " * (self.depth + 1) + text)

    def define(self, call: str, type_: str) -> str:
        name = self.new()
        self.line(f"{name} = {call} -> {type_}")
        return name

    def full(self, value: str, dtype: str, shape: str, type_: str) -> str:
        attributes = f"shape = array<i64: {shape}>, value = {value} : f64"
        return self.define(
            f"pd_op.full() {{{attributes}, dtype = #pir.dtype<{dtype}>}} : ()", type_
        )

    def operation(self, known: list[str]) -> None:
        """One more operation on the known values; what it defines becomes known."""
        pick = self.random.choice
        often = known if self.random.random() < 0.5 else known[:2]  # so that operations repeat
        x, y = pick(often), pick(known)
        match self.random.randrange(13):
            case 0 | 1 | 2:
                known.append(self.define(f"pd_op.{pick(UNARY)}({x}) : ({T})", T))
            case 3 | 4:
                known.append(self.define(f"pd_op.{pick(BINARY)}({x}, {y}) : ({T}, {T})", T))
            case 5:
                known.append(self.define(f"pd_op.{pick(INPLACE_UNARY)}({x}) : ({T})", T))
            case 6:
                op = pick(INPLACE_BINARY)
                known.append(self.define(f"pd_op.{op}({x}, {y}) : ({T}, {T})", T))
            case 7:
                number = self.full(pick(NUMBERS), "float32", "1", ONE)
                call = f"pd_op.scale{pick(['', '_'])}({x}, {number})"
                known.append(
                    self.define(f"{call} {{bias = {pick(NUMBERS)} : f32}} : ({T}, {ONE})", T)
                )
            case 8:
                known.append(self.full(pick(NUMBERS), "float32", "2, 2", T))
            case 9:
                flip = "{perm = array<i32: 1, 0>}"
                known.append(self.define(f"pd_op.transpose({x}) {flip} : ({T})", T))
            case 10:
                vec = f"!pir.vec<{T}, {T}>"
                both = self.define(f"pir.combine({x}, {y}) : ({T}, {T})", vec)
                known.append(
                    self.define(f"pir.slice({both}) {{index = {pick([0, 1])} : i32}} : ({vec})", T)
                )
            case 11:
                known.append(self.define(f"pd_op.bernoulli({self.unit(x)}) : ({T})", T))
            case _:
                self.region(known)

    def unit(self, x: str) -> str:
        """Values in [0, 1], of which no element is NaN."""
        finite = self.define(f"pd_op.isfinite({x}) : ({T})", "tensor<2x2xi1>")
        cast = "{dtype = #pir.dtype<float32>}"
        return self.define(f"pd_op.cast({finite}) {cast} : (tensor<2x2xi1>)", T)

    def region(self, known: list[str]) -> None:
        if self.depth == 2:
            return
        if self.random.random() < 0.5:
            self.branch(known)
        else:
            self.loop(known)

    def block(self, known: list[str]) -> list[str]:
        """The operations of a block; all that it knows."""
        inner = list(known)
        self.depth += 1
        for _ in range(self.random.randrange(4)):
            self.operation(inner)
        self.depth -= 1
        return inner

    def branch(self, known: list[str]) -> None:
        pick = self.random.choice
        condition = pick(["%c", self.full(pick(["0.0", "1.0"]), "bool", "1", BOOL)])
        a, b = self.new(), self.new()
        self.line(f"{a}, {b} = pd_op.if({condition}) : ({BOOL}) -> ({T}, {T}) {{")
        for end in ("} else {", "}"):
            inner = self.block(known)
            self.line(f"  pir.yield({pick(inner)}, {pick(inner)}) : ({T}, {T}) -> ()")
            self.line(end)
        known += [a, b]

    def loop(self, known: list[str]) -> None:
        pick = self.random.choice
        start = self.full("0.0", "int64", "1", INT)
        end = self.full(str(float(self.random.randrange(4))), "int64", "1", INT)
        condition = self.define(f"pd_op.less_than({start}, {end}) : ({INT}, {INT})", BOOL)
        i, a, j, s = self.new(), self.new(), self.new(), self.new()
        types = f"({BOOL}, {INT}, {T})"
        operands = f"{condition}, {start}, {pick(known)}"
        self.line(f"{i}, {a} = pd_op.while({operands}) : {types} -> ({INT}, {T}) {{")
        self.line(f"^bb0({j} : {INT}, {s} : {T}):")
        inner = self.block([*known, s])
        step = pick(["increment", "increment_"])
        k = self.define(f"pd_op.{step}({j}) {{value = 1.0 : f32}} : ({INT})", INT)
        again = self.define(f"pd_op.less_than({k}, {end}) : ({INT}, {INT})", BOOL)
        self.line(f"  pir.yield({again}, {k}, {pick(inner)}) : {types} -> ()")
        self.line("}")
        known.append(a)


def random_program(random: Random) -> str:
    """A program with inputs `x` and `c`, a parameter `w` and outputs `y0`, `y1`..."""
    return "\n".join(_lines(random)) + "\n"


def _lines(random: Random) -> Iterator[str]:
    writer = _Writer(random)
    known = ["%x", writer.define('pir.parameter() {parameter_name = "w"} : ()', T)]
    for _ in range(random.randrange(3, 14)):
        writer.operation(known)
    yield f'pir.program @main(%x "x" : {T}, %c "c" : {BOOL}) {{'
    yield from writer.lines
    for index in range(3):
        name = f'{{output_name = "y{index}"}}'
        yield f"  pir.shadow_output({random.choice(known)}) {name} : ({T}) -> ()"
    yield "}"
