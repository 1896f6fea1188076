"""Training programs at random, and what an eager engine with a tape makes of them.

A program is grown as text and, beside it, as actions on storages. Reading a value gives what its
storage holds now, under whatever name it was written; a gradient is that with respect to what an
input or parameter held at first. Nothing here is shared with pirkit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Action = Callable[["State"], None]

SHAPES = ((2, 3), (3,))


@dataclass(eq=False)
class Node:
    """A value on the tape: how cotangents go back to what it was computed from."""

    value: Array
    parents: tuple[tuple[Node, Callable[[Array], Array]], ...] = ()
    grad: Array | None = None

    def accumulate(self, cotangent: Array) -> None:
        for axis in range(cotangent.ndim - self.value.ndim):
            del axis
            cotangent = cotangent.sum(axis=0)
        self.grad = cotangent if self.grad is None else self.grad + cotangent


@dataclass
class State:
    """One eager run: what each storage holds, and which storage each value has."""

    storages: list[Node] = field(default_factory=list[Node])
    where: dict[str, int] = field(default_factory=dict[str, int])
    tape: list[Node] = field(default_factory=list[Node])

    def read(self, name: str) -> Node:
        return self.storages[self.where[name]]

    def define(self, name: str, node: Node) -> None:
        self.where[name] = len(self.storages)
        self.storages.append(node)
        self.tape.append(node)

    def write(self, target: str, name: str, node: Node) -> None:
        self.where[name] = self.where[target]
        self.storages[self.where[target]] = node
        self.tape.append(node)

    def backward(self) -> None:
        for node in reversed(self.tape):
            if node.grad is not None:
                for parent, pull in node.parents:
                    parent.accumulate(pull(node.grad))


Unary = tuple[Callable[[Array], Array], Callable[[Array, Array], Array], str]

UNARY: dict[str, Unary] = {
    "tanh": (np.tanh, lambda x, y: 1 - y * y, ""),
    "sin": (np.sin, lambda x, y: np.cos(x), ""),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y), ""),
    "relu": (lambda x: np.maximum(x, 0), lambda x, y: (x > 0) * 1.0, ""),
    "scale": (lambda x: x * 0.75, lambda x, y: np.full_like(x, 0.75), " {scale = 0.75 : f64}"),
    "assign": (lambda x: x.copy(), lambda x, y: np.ones_like(x), ""),
}
IN_PLACE = ("tanh", "sin", "sigmoid", "relu", "scale")
BINARY: dict[str, tuple[Callable[[Array, Array], Array], Any, Any]] = {
    "add": (np.add, lambda a, b: 1.0, lambda a, b: 1.0),
    "subtract": (np.subtract, lambda a, b: 1.0, lambda a, b: -1.0),
    "multiply": (np.multiply, lambda a, b: b, lambda a, b: a),
}


def text_type(shape: tuple[int, ...]) -> str:
    return "tensor<" + "".join(f"{d}x" for d in shape) + "f64>"


@dataclass
class Grown:
    """A program: its text, its actions, and its interface."""

    text: str
    actions: list[Action]
    inputs: dict[str, tuple[int, ...]]
    params: dict[str, tuple[int, ...]]
    frozen: frozenset[str]
    outputs: list[tuple[str, str]]
    """Name and value of each output."""

    def eager(self, given: Mapping[str, Array]) -> State:
        """Run once."""
        state = State()
        for name in (*self.inputs, *self.params):
            state.define(name, Node(given[name].copy()))
        for action in self.actions:
            action(state)
        return state


class Growing:
    """Grows a program statement by statement."""

    def __init__(self, seed: int, depth: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.actions: list[Action] = []
        self.count = 0
        self.inputs = {"x": SHAPES[0], "z": SHAPES[1]}
        self.params = {"w": SHAPES[1], "v": SHAPES[0], "buffer": SHAPES[0]}
        self.shapes |= {**self.inputs, **self.params}
        for _ in range(self.random.randint(3, depth)):
            self.statement()

    def fresh(self, shape: tuple[int, ...]) -> str:
        self.count += 1
        name = f"t{self.count}"
        self.shapes[name] = shape
        return name

    def pick(self, shape: tuple[int, ...] | None = None) -> str:
        names = [n for n, s in self.shapes.items() if shape in (None, s)]
        return self.random.choice(names[-6:] if self.random.random() < 0.6 else names)

    def emit(self, line: str, action: Action) -> None:
        self.lines.append("  " + line)
        self.actions.append(action)

    def statement(self) -> None:
        kinds = [self.unary] * 3 + [self.binary] * 4 + [self.unary_write] * 2
        kinds += [self.binary_write, self.assign, self.view, self.joined, self.element]
        self.random.choice([*kinds, self.branch, self.loop])()

    def unary(self) -> None:
        x = self.pick()
        op = self.random.choice(list(UNARY))
        y = self.fresh(self.shapes[x])
        t = text_type(self.shapes[x])
        self.emit(f"%{y} = pd_op.{op}(%{x}){UNARY[op][2]} : ({t}) -> {t}", unary(op, x, y))

    def unary_write(self) -> None:
        x = self.pick()
        op = self.random.choice(IN_PLACE)
        y = self.fresh(self.shapes[x])
        t = text_type(self.shapes[x])
        line = f"%{y} = pd_op.{op}_(%{x}){UNARY[op][2]} : ({t}) -> {t}"
        self.emit(line, unary(op, x, y, target=x))

    def pair(self) -> tuple[str, str, str, str, str]:
        a = self.pick(SHAPES[0])
        b = self.pick()
        op = self.random.choice(list(BINARY))
        y = self.fresh(SHAPES[0])
        types = f"({text_type(SHAPES[0])}, {text_type(self.shapes[b])}) -> {text_type(SHAPES[0])}"
        return a, b, op, y, types

    def binary(self) -> None:
        a, b, op, y, types = self.pair()
        self.emit(f"%{y} = pd_op.{op}(%{a}, %{b}) : {types}", binary(op, a, b, y))

    def binary_write(self) -> None:
        a, b, op, y, types = self.pair()
        self.emit(f"%{y} = pd_op.{op}_(%{a}, %{b}) : {types}", binary(op, a, b, y, target=a))

    def assign(self) -> None:
        """Give a buffer, or whatever it is, the content of another value."""
        x = self.pick()
        target = self.random.choice(["buffer", self.pick(self.shapes[x])])
        if self.shapes[target] != self.shapes[x]:
            return
        y = self.fresh(self.shapes[x])
        t = text_type(self.shapes[x])
        line = f"%{y} = pd_op.assign_out_(%{x}, %{target}) : ({t}, {t}) -> {t}"
        self.emit(line, unary("assign", x, y, target=target))

    def view(self) -> None:
        x = self.pick()
        y = self.fresh(self.shapes[x])
        t = text_type(self.shapes[x])

        def action(state: State) -> None:
            state.where[y] = state.where[x]

        self.emit(f"%{y} = pd_op.share_data(%{x}) : ({t}) -> {t}", action)

    def joined(self) -> None:
        """A list, joined: the sum of its elements."""
        a, b = self.pick(SHAPES[0]), self.pick(SHAPES[0])
        y, many = self.fresh(SHAPES[0]), f"list{self.count}"
        t = text_type(SHAPES[0])
        self.emit(f"%{many} = pir.combine(%{a}, %{b}) : ({t}, {t}) -> !pir.vec<{t}, {t}>", nothing)
        line = f"%{y} = pd_op.add_n(%{many}) : (!pir.vec<{t}, {t}>) -> {t}"
        self.emit(line, binary("add", a, b, y))

    def element(self) -> None:
        """An element of a list is the value that was put in."""
        a, b = self.pick(SHAPES[0]), self.pick(SHAPES[1])
        y, many = self.fresh(SHAPES[1]), f"list{self.count}"
        t, s = map(text_type, SHAPES)
        self.emit(f"%{many} = pir.combine(%{a}, %{b}) : ({t}, {s}) -> !pir.vec<{t}, {s}>", nothing)

        def action(state: State) -> None:
            state.where[y] = state.where[b]

        line = f"%{y} = pir.slice(%{many}) {{index = 1 : i32}} : (!pir.vec<{t}, {s}>) -> {s}"
        self.emit(line, action)

    def branch(self) -> None:
        """Whether the sum of a value is positive decides; both sides read values from outside.

        One may write to a value from outside as well.
        """
        target = self.pick(SHAPES[0]) if self.random.random() < 0.5 else None
        a, b, op, y, types = self.pair()
        c = f"c{self.count}"
        t = text_type(SHAPES[0])
        self.lines += [
            f"  %{c}s = pd_op.sum(%{a}) {{axis = array<i64>}} : ({t}) -> tensor<f64>",
            f"  %{c}z = pd_op.full() {{shape = array<i64>, value = 0.0 : f64, "
            "dtype = #pir.dtype<float64>} : () -> tensor<f64>",
            f"  %{c} = pd_op.greater_than(%{c}s, %{c}z) : (tensor<f64>, tensor<f64>) -> tensor<i1>",
            f"  %{y} = pd_op.if(%{c}) : (tensor<i1>) -> {t} {{",
            f"    %{c}a = pd_op.{op}(%{a}, %{b}) : {types}",
            f"    %{c}b = pd_op.tanh(%{c}a) : ({t}) -> {t}",
            *([self.write_line(f"{c}w", target)] if target else []),
            f"    pir.yield(%{c}b) : ({t}) -> ()",
            "  } else {",
            f"    %{c}d = pd_op.sin(%{a}) : ({t}) -> {t}",
            f"    pir.yield(%{c}d) : ({t}) -> ()",
            "  }",
        ]

        def action(state: State) -> None:
            if state.read(a).value.sum() > 0:
                binary(op, a, b, y + "a")(state)
                unary("tanh", y + "a", y)(state)
                if target is not None:
                    unary("sigmoid", target, y + "w", target=target)(state)
            else:
                unary("sin", a, y)(state)

        self.actions.append(action)

    def write_line(self, name: str, target: str) -> str:
        """A write to a value from outside of a region."""
        t = text_type(self.shapes[target])
        return f"    %{name} = pd_op.sigmoid_(%{target}) : ({t}) -> {t}"

    def loop(self) -> None:
        """Two or three turns of ``acc = tanh(acc * factor)``, which starts as another value.

        Each turn may write to a value from outside.
        """
        a, b = self.pick(SHAPES[0]), self.pick()
        target = self.pick() if self.random.random() < 0.3 else None
        y = self.fresh(SHAPES[0])
        turns = self.random.randint(2, 3)
        t, s, n = text_type(SHAPES[0]), text_type(self.shapes[b]), "tensor<1xi64>"

        def number(name: str, value: int) -> str:
            return (
                f"  %{y}{name} = pd_op.full() {{shape = array<i64: 1>, value = {value}.0 : f64, "
                f"dtype = #pir.dtype<int64>}} : () -> {n}"
            )

        self.lines += [
            number("i", 0),
            number("n", turns),
            f"  %{y}c = pd_op.less_than(%{y}i, %{y}n) : ({n}, {n}) -> tensor<1xi1>",
            f"  %{y}j, %{y} = pd_op.while(%{y}c, %{y}i, %{a}) : "
            f"(tensor<1xi1>, {n}, {t}) -> ({n}, {t}) {{",
            f"  ^bb0(%{y}k : {n}, %{y}x : {t}):",
            f"    %{y}m = pd_op.multiply(%{y}x, %{b}) : ({t}, {s}) -> {t}",
            f"    %{y}h = pd_op.tanh(%{y}m) : ({t}) -> {t}",
            *([self.write_line(f"{y}w", target)] if target else []),
            f"    %{y}l = pd_op.scale(%{y}k) {{scale = 1.0 : f64, bias = 1.0 : f32}} : "
            f"({n}) -> {n}",
            f"    %{y}d = pd_op.less_than(%{y}l, %{y}n) : ({n}, {n}) -> tensor<1xi1>",
            f"    pir.yield(%{y}d, %{y}l, %{y}h) : (tensor<1xi1>, {n}, {t}) -> ()",
            "  }",
        ]

        def action(state: State) -> None:
            name = a
            for turn in range(turns):
                binary("multiply", name, b, f"{y}m{turn}")(state)
                name = y if turn == turns - 1 else f"{y}h{turn}"
                unary("tanh", f"{y}m{turn}", name)(state)
                if target is not None:
                    unary("sigmoid", target, f"{y}w", target=target)(state)

        self.actions.append(action)

    def grown(self) -> Grown:
        """The program, with some of its values as outputs; one may be returned twice."""
        values = [self.pick() for _ in range(self.random.randint(1, 3))]
        outputs = [(f"out{i}", v) for i, v in enumerate(values)]
        head = [f'%{n} "{n}" : {text_type(s)}' for n, s in self.inputs.items()]
        frozen = frozenset({"buffer"} | ({"z"} if self.random.random() < 0.3 else set()))
        body = [
            f'  %{n} = pir.parameter() {{parameter_name = "{n}"'
            + (", stop_gradient = array<i1: true>" if n in frozen else "")
            + f"}} : () -> {text_type(s)}"
            for n, s in self.params.items()
        ]
        tail = [
            f'  pir.shadow_output(%{v}) {{output_name = "{n}"}} : '
            f"({text_type(self.shapes[v])}) -> ()"
            for n, v in outputs
        ]
        head = [
            h + " {stop_gradient = array<i1: true>}" if '"z"' in h and "z" in frozen else h
            for h in head
        ]
        text = "\n".join(
            [f"pir.program @main({', '.join(head)}) {{", *body, *self.lines, *tail, "}\n"]
        )
        return Grown(text, self.actions, self.inputs, self.params, frozen, outputs)


def nothing(state: State) -> None:
    """What only moves names about."""
    del state


def unary(op: str, x: str, y: str, target: str | None = None) -> Action:
    f, slope, _ = UNARY[op]

    def action(state: State) -> None:
        source = state.read(x)
        value = f(source.value)
        factor = slope(source.value, value)
        node = Node(value, ((source, lambda g: g * factor),))
        put(state, target, y, node)

    return action


def binary(op: str, a: str, b: str, y: str, target: str | None = None) -> Action:
    f, to_a, to_b = BINARY[op]

    def action(state: State) -> None:
        left, right = state.read(a), state.read(b)
        by_a, by_b = to_a(left.value, right.value), to_b(left.value, right.value)
        node = Node(
            f(left.value, right.value), ((left, lambda g: g * by_a), (right, lambda g: g * by_b))
        )
        put(state, target, y, node)

    return action


def put(state: State, target: str | None, name: str, node: Node) -> None:
    if target is None:
        state.define(name, node)
    else:
        state.write(target, name, node)


def grow(seed: int, depth: int = 12) -> Grown:
    """The program of a seed."""
    return Growing(seed, depth).grown()
