"""A deep-learning compiler in one file: programs, derivatives, fusion, machine code, a runtime.

Read it from top to bottom, or run it: ``python docs/from-scratch.py``. Each chapter ends with a
small example that checks itself. It needs numpy and llvmlite and nothing of pirkit.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import llvmlite.binding as llvm
import numpy as np

# # From scratch
#
# This page is a program. It builds a small compiler for tensors, in the order in which a real one
# works:
#
# ```
# Python function --trace--> SSA program --derivatives, passes--> SSA program of primitives
#    --split--> forward, backward --fusion--> MapExpr kernels --> LLVM IR --> runtime with scopes
# ```
#
# pirkit does the same for all of Paddle's ops, for dynamic shapes, all element types and control
# flow. Here every tensor holds `float64`, shapes are known, and the ops are few, so that each idea
# fits on a screen.
#
# ## 1. Programs in SSA form
#
# A **program** is a list of **operations**. Each operation has a *kind* (which op it uses),
# *operands*, *attributes* (constants of compile time) and one *result*. Every **value** is defined
# once, by an operation or as an input: this is *static single assignment*, SSA. Nothing is ever
# renamed or overwritten, so "where does this come from" has one answer.

Shape = tuple[int, ...]


@dataclass(eq=False)  # two values are equal only if they are the same value
class Value:
    shape: Shape
    op: Op | None = None  # what defines it; None for an input

    def __add__(self, other: Value | float) -> Value:
        return elementwise("add", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return elementwise("sub", self, other)

    def __mul__(self, other: Value | float) -> Value:
        return elementwise("mul", self, other)

    def __truediv__(self, other: Value | float) -> Value:
        return elementwise("div", self, other)

    def __rsub__(self, other: float) -> Value:
        return elementwise("sub", full(other, self.shape), self)

    def __neg__(self) -> Value:
        return emit("neg", self)

    def __matmul__(self, other: Value) -> Value:
        return emit("matmul", self, other)

    __radd__, __rmul__ = __add__, __mul__


@dataclass(eq=False)
class Op:
    kind: str
    operands: list[Value]
    attrs: dict
    result: Value


@dataclass(eq=False)
class Program:
    inputs: dict[str, Value] = field(default_factory=dict)
    params: set[str] = field(default_factory=set)  # the inputs that live from step to step
    ops: list[Op] = field(default_factory=list)
    outputs: dict[str, Value] = field(default_factory=dict)

    def input(self, name: str, shape: Shape, *, param: bool = False) -> Value:
        self.inputs[name] = Value(shape)
        self.params |= {name} if param else set()
        return self.inputs[name]

    def __str__(self) -> str:
        names = {value: f"%{name}" for name, value in self.inputs.items()}
        lines = []
        for op in self.ops:
            names[op.result] = f"%{len(names) - len(self.inputs)}"
            operands = [names[v] for v in op.operands]
            attrs = [f"{key}={value}" for key, value in op.attrs.items()]
            shape = "x".join(map(str, op.result.shape))
            lines.append(
                f"  {names[op.result]} = {op.kind}({', '.join(operands + attrs)}) : {shape}"
            )
        head = ", ".join(f"%{name}" for name in self.inputs)
        tail = ", ".join(f"{name}={names[value]}" for name, value in self.outputs.items())
        return "\n".join([f"program({head})", *lines, f"  return {tail}"])


# Programs are made by **tracing**: we call a Python function with values instead of arrays, and
# each operator appends an operation to the program that is being written. `emit` is the only place
# where operations are born; it infers the shape of the result with a rule of chapter 2.

WRITING: list[Program] = []  # the programs that are being written; the last one gets the operations


def emit(kind: str, *operands: Value, **attrs: object) -> Value:
    op = Op(kind, list(operands), attrs, Value(()))
    op.result.op = op
    op.result.shape = INFER[pure(kind)](op)
    WRITING[-1].ops.append(op)
    return op.result


@contextmanager
def writing(program: Program) -> Iterator[Program]:
    WRITING.append(program)
    yield program
    WRITING.pop()


def full(value: float, shape: Shape) -> Value:
    return emit("full", value=float(value), shape=shape)


def broadcast(value: Value, shape: Shape) -> Value:
    return value if value.shape == shape else emit("broadcast", value, shape=shape)


def elementwise(kind: str, a: Value, b: Value | float) -> Value:
    """Broadcasts are operations of their own: the rules of `add` need not know of them."""
    b = b if isinstance(b, Value) else full(b, a.shape)
    shape = np.broadcast_shapes(a.shape, b.shape)
    return emit(kind, broadcast(a, shape), broadcast(b, shape))


def trace(function: Callable, params: dict[str, Shape] | None = None, **inputs: Shape) -> Program:
    """The program of a function of named values that returns a dict of named values."""
    with writing(Program()) as program:
        values = {name: program.input(name, s, param=True) for name, s in (params or {}).items()}
        values |= {name: program.input(name, shape) for name, shape in inputs.items()}
        program.outputs = function(**values)
    return program


# ## 2. Ops are records of rules
#
# What the compiler knows about an op stands in tables, one column for each concern. The first two
# columns are the shape of the result, and the **reference**: what the op computes, in plain numpy.
# The reference is the definition; whatever we generate later is compared with it. All reductions
# keep their axis with size 1, so ranks never change.
#
# An op whose name ends in `_` works **in place**: it writes its result into the storage of its
# first operand. Its rules are those of its pure twin; only chapters 6 to 10 treat it differently.


def pure(kind: str) -> str:
    return kind.removesuffix("_")


def same(op: Op) -> Shape:
    shapes = {v.shape for v in op.operands}
    assert len(shapes) == 1, f"{op.kind}: operands have shapes {sorted(shapes)}"
    return op.operands[0].shape


def reduced(op: Op) -> Shape:
    return tuple(1 if d in op.attrs["axes"] else n for d, n in enumerate(op.operands[0].shape))


def declared(op: Op) -> Shape:
    return tuple(op.attrs["shape"])


def multiplied(op: Op) -> Shape:
    (m, k), (k2, n) = op.operands[0].shape, op.operands[1].shape
    assert k == k2, f"matmul: inner sizes {k} and {k2} differ"
    return m, n


POINTWISE = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "exp": np.exp,
    "log": np.log,
    "ge": lambda a, b: np.where(a >= b, 1.0, 0.0),
    "copy": np.copy,
}
PRIMITIVE = {
    **{kind: (same, function) for kind, function in POINTWISE.items()},
    "full": (declared, lambda value, shape: np.full(shape, value)),
    "broadcast": (declared, lambda a, shape: np.broadcast_to(a, shape)),
    "transpose": (lambda op: op.operands[0].shape[::-1], np.transpose),
    "sum": (reduced, lambda a, axes: np.sum(a, axes, keepdims=True)),
    "max": (reduced, lambda a, axes: np.max(a, axes, keepdims=True)),
    "matmul": (multiplied, np.matmul),
}


def softmax_reference(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


COMPOSITE = {  # these are made of primitives; chapter 4 says how
    "tanh": (same, np.tanh),
    "relu": (same, lambda a: np.maximum(a, 0.0)),
    "softmax": (same, softmax_reference),
    "mean": (reduced, lambda a, axes: np.mean(a, axes, keepdims=True)),
}
INFER = {kind: infer for kind, (infer, _) in (PRIMITIVE | COMPOSITE).items()}
REFERENCE = {kind: reference for kind, (_, reference) in (PRIMITIVE | COMPOSITE).items()}

# With references, a program can already run. This **interpreter** is slow and obviously right,
# which is what an oracle has to be. An in-place op writes into the array of its first operand.


def interpret(program: Program, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    known = {value: arrays[name] for name, value in program.inputs.items()}
    for op in program.ops:
        result = REFERENCE[pure(op.kind)](*(known[v] for v in op.operands), **op.attrs)
        if op.kind.endswith("_"):
            known[op.operands[0]][...] = result
            result = known[op.operands[0]]
        known[op.result] = result
    return {name: known[value] for name, value in program.outputs.items()}


rng = np.random.default_rng(0)


def draw(shapes: dict[str, Shape]) -> dict[str, np.ndarray]:
    return {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}


def layer(x: Value, w: Value, b: Value) -> dict[str, Value]:
    return {"y": emit("tanh", x @ w + b)}


LAYER = {"x": (4, 3), "w": (3, 5), "b": (1, 5)}
program = trace(layer, **LAYER)
print(program)
arrays = draw(LAYER)
expected = np.tanh(arrays["x"] @ arrays["w"] + arrays["b"])
np.testing.assert_allclose(interpret(program, **arrays)["y"], expected)

# ## 3. Passes replay a program
#
# A **pass** makes a new program from an old one. Nearly all passes have one shape: walk over the
# operations in order, and for each one emit what shall stand in its place. `replay` is that walk; a
# pass is the function `change` that it calls with an operation and its operands in the new program.
# The default emits the operation again.

Change = Callable[[Op, list[Value]], Value]


def again(op: Op, operands: list[Value]) -> Value:
    return emit(op.kind, *operands, **op.attrs)


def replay(program: Program, change: Change = again, ops: Iterable[Op] | None = None) -> Program:
    with writing(Program(params=set(program.params))) as new:
        known = {v: new.input(name, v.shape) for name, v in program.inputs.items()}
        for op in program.ops if ops is None else ops:
            known[op.result] = change(op, [known[v] for v in op.operands])
        new.outputs = {name: known[v] for name, v in program.outputs.items()}
    return new


# Three classics. **Common subexpression elimination** (CSE) emits nothing if the same operation was
# emitted before. **Dead code elimination** (DCE) drops operations that nothing reads.
# **Canonicalization** applies equations such as `x + 0 = x`. In-place operations are never equal to
# each other, and never dead: they have an effect.


def cse(program: Program) -> Program:
    seen: dict[object, Value] = {}

    def change(op: Op, operands: list[Value]) -> Value:
        key = (op.kind, *operands, *sorted(op.attrs.items()))
        if key not in seen or op.kind.endswith("_"):
            seen[key] = again(op, operands)
        return seen[key]

    return replay(program, change)


def needed(program: Program, wanted: Iterable[Value]) -> list[Op]:
    """The operations, in order, on which some values depend."""
    live = set(wanted)
    for op in reversed(program.ops):
        if op.result in live:
            live.update(op.operands)
    return [op for op in program.ops if op.result in live]


def dce(program: Program) -> Program:
    effects = [op.result for op in program.ops if op.kind.endswith("_")]
    return replay(program, ops=needed(program, [*program.outputs.values(), *effects]))


def constant(value: Value) -> float | None:
    op = value.op
    while op and op.kind == "broadcast":
        op = op.operands[0].op
    return op.attrs["value"] if op and op.kind == "full" else None


def simpler(op: Op, operands: list[Value]) -> Value:
    constants = [constant(v) for v in operands]
    if operands and op.kind in POINTWISE and None not in constants:  # fold constants
        folded = REFERENCE[op.kind](*map(np.float64, constants))
        return full(float(folded), op.result.shape)
    match op.kind, constants:
        case ("add", [0.0, _]) | ("mul", [1.0, _]):
            return operands[1]
        case ("add" | "sub", [_, 0.0]) | ("mul" | "div", [_, 1.0]):
            return operands[0]
        case ("mul", [0.0, _]) | ("mul", [_, 0.0]):  # as in most compilers: not for infinities
            return full(0.0, op.result.shape)
        case ("broadcast", [float(value)]):
            return full(value, op.result.shape)
    return again(op, operands)


def simplify(program: Program) -> Program:
    return dce(cse(replay(program, simpler)))


small = simplify(trace(lambda x: {"y": (x * 1.0 + 0.0) * x - x * (x + 0.0 * x)}, x=(2, 2)))
print(small)
assert [op.kind for op in small.ops] == ["mul", "sub"]

# ## 4. Decomposition
#
# Few ops are primitive. The others are **composite**: they have a rule that writes them with
# simpler ops. Decomposition is a replay that applies the rules. Everything behind it (fusion, code
# generation) knows the primitives only, so a new composite op costs three lines. The softmax
# subtracts the largest element first; the quotient is the same, but `exp` cannot overflow.


def tanh_rule(x: Value) -> Value:
    return 1.0 - full(2.0, x.shape) / (emit("exp", x * 2.0) + 1.0)


def softmax_rule(x: Value) -> Value:
    last = (len(x.shape) - 1,)
    e = emit("exp", x - emit("max", x, axes=last))
    return e / emit("sum", e, axes=last)


def mean_rule(x: Value, axes: tuple[int, ...]) -> Value:
    return emit("sum", x, axes=axes) * (1.0 / math.prod(x.shape[d] for d in axes))


DECOMPOSE = {
    "tanh": tanh_rule,
    "relu": lambda x: x * emit("ge", x, full(0.0, x.shape)),
    "softmax": softmax_rule,
    "mean": mean_rule,
}


def decompose(program: Program) -> Program:
    def change(op: Op, operands: list[Value]) -> Value:
        if op.kind in DECOMPOSE:
            return DECOMPOSE[op.kind](*operands, **op.attrs)
        return again(op, operands)

    return simplify(replay(program, change))


whole = trace(lambda x: {"y": emit("softmax", x)}, x=(3, 4))
parts = decompose(whole)
print(parts)
assert {op.kind for op in parts.ops} <= set(PRIMITIVE)
x = rng.uniform(-9, 9, (3, 4))
np.testing.assert_allclose(interpret(parts, x=x)["y"], interpret(whole, x=x)["y"])

# ## 5. Derivatives of any order
#
# Reverse mode is the chain rule, walked backwards. For each value `v` we want its **cotangent**,
# the derivative of the output with respect to `v`. An op's `vjp` rule (vector-Jacobian product)
# turns the cotangent of its result into those of its operands. A value with several uses gets the
# sum.
#
# The rules *emit operations*: the derivative is a program like any other (this is a *source
# transformation*). That is why derivatives of any order need nothing more. We take the derivative
# of the program that contains the first derivative.
#
# `tanh` has a rule although it is composite: `1 - y * y` is shorter and more exact than what its
# parts would give. Derivatives are taken first, and decomposition comes later.


def summed_to(value: Value, shape: Shape) -> Value:
    axes = tuple(d for d, (a, b) in enumerate(zip(value.shape, shape, strict=True)) if a != b)
    return emit("sum", value, axes=axes) if axes else value


def max_vjp(g: Value, op: Op) -> list[Value]:
    x = op.operands[0]
    first = emit("ge", x, broadcast(op.result, x.shape))  # equal maxima share the cotangent
    return [first * (g / emit("sum", first, axes=op.attrs["axes"]))]


def softmax_vjp(g: Value, op: Op) -> list[Value]:
    y = op.result
    return [y * (g - emit("sum", g * y, axes=(len(y.shape) - 1,)))]


def mean_vjp(g: Value, op: Op) -> list[Value]:
    shape = op.operands[0].shape
    return [broadcast(g * (math.prod(g.shape) / math.prod(shape)), shape)]


VJP: dict[str, Callable[[Value, Op], list[Value | None]]] = {
    "add": lambda g, op: [g, g],
    "sub": lambda g, op: [g, -g],
    "mul": lambda g, op: [g * op.operands[1], g * op.operands[0]],
    "div": lambda g, op: [g / op.operands[1], -g * op.result / op.operands[1]],
    "neg": lambda g, op: [-g],
    "exp": lambda g, op: [g * op.result],
    "log": lambda g, op: [g / op.operands[0]],
    "ge": lambda g, op: [None, None],  # piecewise constant
    "copy": lambda g, op: [g],
    "full": lambda g, op: [],
    "broadcast": lambda g, op: [summed_to(g, op.operands[0].shape)],
    "transpose": lambda g, op: [emit("transpose", g)],
    "sum": lambda g, op: [broadcast(g, op.operands[0].shape)],
    "max": max_vjp,
    "matmul": lambda g, op: [
        g @ emit("transpose", op.operands[1]),
        emit("transpose", op.operands[0]) @ g,
    ],
    "tanh": lambda g, op: [g * (1.0 - op.result * op.result)],
    "relu": lambda g, op: [g * emit("ge", op.operands[0], full(0.0, g.shape))],
    "softmax": softmax_vjp,
    "mean": mean_vjp,
}


def vjp(output: Value, cotangent: Value, wrt: list[Value]) -> list[Value]:
    """Append the reverse sweep to the program that is being written."""
    ops = list(WRITING[-1].ops)
    active = set(wrt)  # the values that depend on `wrt`; other cotangents are not wanted
    for op in ops:
        if active & set(op.operands):
            active.add(op.result)
    cotangents = {output: cotangent}
    for op in reversed(ops):
        if op.result in cotangents and op.result in active:
            rule = VJP[pure(op.kind)]
            for operand, part in zip(op.operands, rule(cotangents[op.result], op), strict=True):
                if part is not None and operand in active:
                    known = cotangents.get(operand)
                    cotangents[operand] = part if known is None else known + part
    return [cotangents[v] if v in cotangents else full(0.0, v.shape) for v in wrt]


def grad(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def derivative(x: Value) -> Value:
        y = function(x)
        return vjp(y, full(1.0, y.shape), [x])[0]

    return derivative


function, orders = lambda x: emit("tanh", x), []
for order in range(1, 6):
    function = grad(function)
    program = simplify(trace(lambda x, f=function: {"y": f(x)}, x=(1, 7)))
    orders.append(len(program.ops))
    value = interpret(program, x=np.full((1, 7), 0.3))["y"]
    t = np.polynomial.Polynomial([0, 1])  # the derivatives of tanh are polynomials of tanh
    for _ in range(order):
        t = t.deriv() * np.polynomial.Polynomial([1, 0, -1])
    np.testing.assert_allclose(value, t(np.tanh(0.3)) * np.ones((1, 7)), rtol=1e-9)
print("operations of the derivatives of tanh of order 1 to 5:", orders)

# The number of operations grows with the order, although CSE merges what is equal. Compilers that
# need high orders along one direction, such as for partial differential equations, replace nested
# sweeps by **Taylor mode**, which carries a truncated power series through the program. pirkit does
# so by itself (`docs/derivatives.md`).
#
# ## 6. In-place chains
#
# A batch normalization updates its running mean *in place*: the framework owns that array, and the
# program writes into it. In SSA form the update still defines a new value. The old and the new
# value are two **versions** of one storage:
#
# ```
# %mean --mul_--> %0 --add_--> %1          one storage, three versions: an in-place chain
# ```
#
# `source` follows the chain to the value that owns the storage. One rule keeps SSA honest: once a
# later version is written, nobody may read an earlier one, since it is gone.


def source(value: Value) -> Value:
    while value.op and value.op.kind.endswith("_"):
        value = value.op.operands[0]
    return value


def overwritten_by(program: Program) -> dict[Value, Op]:
    return {op.operands[0]: op for op in program.ops if op.kind.endswith("_")}


def verify_in_place(program: Program) -> None:
    gone: set[Value] = set()
    for op in program.ops:
        late = [v for v in op.operands if v in gone]
        assert not late, f"{op.kind} reads a version that was overwritten"
        if op.kind.endswith("_"):
            gone.add(op.operands[0])
    assert not gone & set(program.outputs.values()), "an output was overwritten"


def running_mean(mean: Value, x: Value) -> dict[str, Value]:
    batch = emit("mean", x, axes=(0,))
    updated = emit("add_", emit("mul_", mean, full(0.9, mean.shape)), batch * 0.1)
    return {"y": x - batch, "mean": updated}


program = trace(running_mean, params={"mean": (1, 3)}, x=(8, 3))
verify_in_place(program)
assert source(program.outputs["mean"]) is program.inputs["mean"]
bad = trace(lambda a: {"y": emit("add_", a, a * 2.0) * a}, a=(2,))
try:
    verify_in_place(bad)
except AssertionError as error:
    print("refused:", error)
else:
    raise AssertionError("a stale read was not found")

# ## 7. Forward and backward
#
# Training frameworks run the forward program, then the caller's loss, then the backward program. We
# trace both into one **joint** program whose cotangents are inputs, and **split** it. What depends
# on a cotangent is backward. The rest runs forward, and the backward needs some of its values:
# either they are **saved**, which costs memory, or **recomputed** from others that are saved, which
# costs time.
#
# What is cheapest to save is a **minimum cut**. Each forward value is a pipe whose capacity is its
# size. Water flows from what cannot be recomputed (matmuls, reductions) to what the backward reads.
# The narrowest cut through the pipes is the smallest set of values from which all others can be
# recomputed. The theorem of Ford and Fulkerson says that it equals the greatest flow, which
# augmenting paths find. Inputs and parameters cost nothing, as the caller holds them anyway.

INFINITE = 1 << 60
CHEAP = {*POINTWISE, "broadcast", "full", "transpose"}  # worth recomputing


def minimum_cut(capacity: dict[tuple, int], start: object, end: object) -> set:
    """The nodes on the side of `start`. `capacity` maps edges to capacities, and is consumed."""
    neighbours: dict[object, list] = {}
    for a, b in list(capacity):
        capacity.setdefault((b, a), 0)
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    while True:
        came_from, queue = {start: None}, [start]
        for node in queue:  # breadth first: the list grows while we walk over it
            for other in neighbours[node]:
                if capacity[node, other] > 0 and other not in came_from:
                    came_from[other] = node
                    queue.append(other)
        if end not in came_from:
            return set(came_from)
        path, node = [], end
        while came_from[node] is not None:
            path.append((came_from[node], node))
            node = came_from[node]
        flow = min(capacity[edge] for edge in path)
        for a, b in path:
            capacity[a, b] -= flow
            capacity[b, a] += flow


def values_to_save(joint: Program, forward: list[Op], wanted: set[Value]) -> list[Value]:
    stale = overwritten_by(joint)
    given = {v for v in joint.inputs.values() if v not in stale}
    # Each value is two nodes, in and out, with an edge of its size between them.
    capacity: dict[tuple, int] = {("start", "unused"): 0, ("unused", "end"): 0}
    for value in [*joint.inputs.values(), *(op.result for op in forward)]:
        cost = 0 if value in given else math.prod(value.shape)
        capacity[(value, "in"), (value, "out")] = cost
        if value.op is None or value.op.kind not in CHEAP:
            capacity["start", (value, "in")] = INFINITE
        else:
            for operand in value.op.operands:
                capacity[(operand, "out"), (value, "in")] = INFINITE
        if value in wanted:
            capacity[(value, "out"), "end"] = INFINITE
    side = minimum_cut(capacity, "start", "end")
    cut = [op.result for op in forward] + [v for v in joint.inputs.values() if v in stale]
    return [v for v in cut if (v, "in") in side and (v, "out") not in side]


# The halves hand values over by name, in a **scope** (chapter 10). An output that gets a name of
# its own is called a *shadow output*: after the run, the storage is known by that name. For an
# output that is the end of an in-place chain of a parameter, that is wrong. Its storage *has* a
# name, the parameter's; renamed, the next step would look for the parameter and not find it. So
# such an output is **replaced by the source of its chain**: it gets no name, and who wants it reads
# the parameter. (This is what Paddle's dynamic-to-static converter does.)
#
# A second trap: the backward may need a version that a later in-place operation overwrites. Then
# the forward copies it just before.


@dataclass
class Halves:
    forward: Program
    backward: Program
    saved: list[str]
    names: dict[str, str]  # of each output: where the scope has it


def split(
    joint: Program, cotangents: set[str], gradients: set[str], *, replace: bool = True
) -> Halves:
    late = {joint.inputs[name] for name in cotangents}
    for op in joint.ops:
        if late & set(op.operands):
            late.add(op.result)
    results = {n: v for n, v in joint.outputs.items() if n not in gradients}
    effects = [op.result for op in joint.ops if op.kind.endswith("_")]
    first = needed(joint, [*results.values(), *effects])
    early = [op for op in joint.ops if op.result not in late]
    wanted = {v for op in joint.ops if op.result in late for v in op.operands} - late
    saved = values_to_save(joint, early, wanted)
    first = needed(joint, [*(op.result for op in first), *saved])
    owner = {v: name for name, v in joint.inputs.items() if name in joint.params}
    stale = overwritten_by(joint)

    with writing(Program(params=set(joint.params))) as forward:
        known = {v: forward.input(n, v.shape) for n, v in joint.inputs.items() if v not in late}
        kept = dict(known)
        for op in first:
            if op.kind.endswith("_") and op.operands[0] in saved:
                kept[op.operands[0]] = emit("copy", known[op.operands[0]])
            kept[op.result] = known[op.result] = again(op, [known[v] for v in op.operands])
        names, outputs = {}, [*results.items(), *((f"saved.{k}", v) for k, v in enumerate(saved))]
        for name, value in outputs:
            if replace and source(value) in owner and value not in stale:
                names[name] = owner[source(value)]  # replaced by the source of its in-place chain
            else:
                names[name] = name
                forward.outputs[name] = kept[value]

    with writing(Program(params=set(joint.params))) as backward:
        have = {v: names[f"saved.{k}"] for k, v in enumerate(saved)}
        have |= {v: n for n, v in joint.inputs.items() if v not in stale and v not in have}
        found = {v: backward.input(name, v.shape) for v, name in have.items()}

        def recomputed(value: Value) -> Value:
            if value not in found:
                found[value] = again(value.op, [recomputed(v) for v in value.op.operands])
            return found[value]

        backward.outputs = {name: recomputed(joint.outputs[name]) for name in gradients}
    return Halves(forward, backward, [names[f"saved.{k}"] for k in range(len(saved))], names)


def network(w: Value, b: Value, v: Value, mean: Value, x: Value, dy: Value) -> dict[str, Value]:
    hidden = x @ w
    batch = emit("mean", hidden, axes=(0,))
    updated = emit("add_", emit("mul_", mean, full(0.9, mean.shape)), batch * 0.1)
    y = emit("tanh", hidden - batch + b) @ v
    dw, db, dv = vjp(y, dy, [w, b, v])
    return {"y": y, "new_mean": updated, "dw": dw, "db": db, "dv": dv}


PARAMS = {"w": (2, 16), "b": (1, 16), "v": (16, 1), "mean": (1, 16)}
joint = decompose(trace(network, params=PARAMS, x=(64, 2), dy=(64, 1)))
halves = split(joint, {"dy"}, {"dw", "db", "dv"})
verify_in_place(halves.forward)
sizes = {name: halves.forward.outputs[name].shape for name in halves.saved}
print("saved:", sizes, " outputs are in the scope as", halves.names)
assert halves.names["new_mean"] == "mean"  # the source of the chain, and no shadow output
assert "new_mean" not in halves.forward.outputs
arrays = draw(PARAMS | {"x": (64, 2), "dy": (64, 1)})


def copies() -> dict[str, np.ndarray]:  # the programs write into them
    return {name: array.copy() for name, array in arrays.items()}


both, scope = interpret(joint, **copies()), copies()
scope |= interpret(halves.forward, **scope)
for name, gradient in interpret(halves.backward, **scope).items():
    np.testing.assert_allclose(gradient, both[name], atol=1e-12)
np.testing.assert_allclose(scope["mean"], both["new_mean"])

# ## 8. Fusion by index equations
#
# `tanh(x + b) * y` in numpy makes three passes over memory, and each waits for it. One loop that
# does all three per element is a *fused* kernel. When can operations share their loops? Each op
# states its **index map**: to compute its result at the index `(i0, i1)`, where does it read its
# operands? We write for every axis of an operand a number (that axis of the result), `None` (index
# 0, a broadcast), or `("k", n)` (an iterator of its own that the op reduces over).


def index_maps(op: Op) -> list[list]:
    ranks = [len(v.shape) for v in op.operands]
    match pure(op.kind):
        case "transpose":
            return [[*range(ranks[0])][::-1]]
        case "broadcast":
            shape = op.result.shape
            return [[d if n == shape[d] else None for d, n in enumerate(op.operands[0].shape)]]
        case "sum" | "max":
            return [[("k", d) if d in op.attrs["axes"] else d for d in range(ranks[0])]]
        case "matmul":
            return [[0, ("k", 0)], [("k", 0), 1]]
        case _:
            return [[*range(rank)] for rank in ranks]


# Each axis of each value of a group of operations is an unknown, and the index maps are
# **equations** between unknowns: "axis 0 of my operand is axis 0 of my result". Equal unknowns are
# one **iterator** of the kernel, and union-find solves the system. A value that the kernel computes
# has one index, however many operations read it. A value from memory may be read at several
# indices. We first assume that it is read at one, which lets reads share their loops; if that has
# no solution, each read gets unknowns of its own.
#
# The system may force two axes of one computed value to be equal. In `t = exp(x); t + transpose(t)`
# they are: the sum needs `t[i, j]` and `t[j, i]` at the same iteration, and a kernel has only one
# of them. Then there is no solution, and no fusion; the contradiction is the reason that we report.
# Two more rules are about the order of the loops. The iterators that nobody reduces are the
# **outer** loops. The result of a reduction must not depend on an inner one, or it would be needed
# before it is complete. And whatever is computed must depend on all outer ones, or it would be
# computed again and again.


class Refusal(Exception):
    """Why some operations cannot be one kernel."""


@dataclass
class Solution:
    roots: dict
    extents: dict
    outer: list
    made: set[Value] | None  # the values whose index all readers share; None for all values

    def holder(self, op: Op, k: int) -> object:
        """Who owns the unknowns of an operand: the value, or this one read of it from memory."""
        value = op.operands[k]
        return value if self.made is None or value in self.made else (op, k)

    def find(self, unknown: tuple) -> tuple:
        while unknown in self.roots:
            unknown = self.roots[unknown]
        return unknown

    def index(self, holder: object, shape: Shape) -> list:
        """The iterator of each axis; None where the axis has one element."""
        return [self.find((holder, d)) if n > 1 else None for d, n in enumerate(shape)]


def solve(group: list[Op]) -> Solution:
    try:
        return solved(group, read_once=True)
    except Refusal:
        return solved(group, read_once=False)


def solved(group: list[Op], *, read_once: bool) -> Solution:
    made, reduced_axes = {op.result for op in group}, []
    solution = Solution({}, {}, [], None if read_once else made)
    for op in group:
        for k, axes in enumerate(index_maps(op)):
            for d, axis in enumerate(axes):
                if op.operands[k].shape[d] == 1:
                    continue  # its index is 0
                here = solution.find((solution.holder(op, k), d))
                reduces = isinstance(axis, tuple)
                there = solution.find((op, axis) if reduces else (op.result, axis))
                reduced_axes += [there] if reduces else []
                if here != there:
                    solution.roots[here] = there
                solution.extents[there] = op.operands[k].shape[d]
        for d, n in enumerate(op.result.shape):
            solution.extents[solution.find((op.result, d))] = n
    inner = {solution.find(axis) for axis in reduced_axes}
    used: dict = {}
    values = {v: None for op in group for v in [*op.operands, op.result]}
    for value in values if read_once else made:
        index = [i for i in solution.index(value, value.shape) if i]
        if len(set(index)) < len(index):
            kind = value.op.kind if value.op else "an input"
            raise Refusal(f"the result of {kind} is needed at two indices at once")
    for op in group:
        used |= dict.fromkeys(i for i in solution.index(op.result, op.result.shape) if i)
    solution.outer = [i for i in used if i not in inner]
    for op in group:
        index = set(solution.index(op.result, op.result.shape))
        if op.kind in ("sum", "max", "matmul") and index & inner:
            raise Refusal(f"the result of {op.kind} would be needed before it is complete")
        if op.kind != "full" and not set(solution.outer) <= index:
            raise Refusal(f"{op.kind} would be computed again at each iteration of an outer loop")
    return solution


# Grouping is greedy: each operation tries to join the groups of its operands. Two things can forbid
# it. The system of the union has no solution; or the groups would wait for each other in a circle.
# An operation waits for its operands, and an in-place operation also for all readers of the version
# that it overwrites. In-place operations stay alone here. Constants join nobody: whoever reads one
# writes the number.


def waits_for(program: Program) -> dict[Op, set[Op]]:
    waits = {op: {v.op for v in op.operands if v.op} for op in program.ops}
    for value, writer in overwritten_by(program).items():
        waits[writer] |= {op for op in program.ops if value in op.operands and op is not writer}
    return waits


def ordered(groups: list[list[Op]], waits: dict[Op, set[Op]]) -> list[list[Op]] | None:
    """The groups so that none waits for a later one; None if there is a circle."""
    home = {op: k for k, group in enumerate(groups) for op in group}
    before = [{home[w] for op in g for w in waits[op] if w in home} - {home[g[0]]} for g in groups]
    done: dict[int, None] = {}
    while len(done) < len(groups):
        ready = [k for k in range(len(groups)) if k not in done and before[k] <= done.keys()]
        if not ready:
            return None
        done |= dict.fromkeys(ready)
    return [groups[k] for k in done]


def fuse(program: Program) -> tuple[list[list[Op]], list[str]]:
    waits, remarks = waits_for(program), []
    groups = [[op] for op in program.ops if op.kind != "full"]
    edges = [(v.op, op) for op in program.ops for v in op.operands if v.op]
    before = None
    while len(groups) != before:  # a union that was refused may have a solution with more members
        before, remarks = len(groups), []
        for first, second in edges:
            pair = [g for g in groups if first in g or second in g]
            if len(pair) < 2 or any(op.kind.endswith("_") for op in pair[0] + pair[1]):
                continue
            union = [op for op in program.ops if op in pair[0] or op in pair[1]]
            rest = [group for group in groups if group not in pair]
            try:
                solve(union)
            except Refusal as refusal:
                remarks.append(f"{first.kind} + {second.kind}: {refusal}")
                continue
            groups = [*rest, union] if ordered([*rest, union], waits) else groups
    return ordered(groups, waits), remarks


def count(function: Callable, **shapes: Shape) -> tuple[int, list[str]]:
    groups, remarks = fuse(decompose(trace(lambda **values: {"y": function(**values)}, **shapes)))
    return len(groups), remarks


assert count(lambda x: emit("softmax", x), x=(8, 16)) == (1, [])
assert count(lambda **v: layer(**v)["y"], **LAYER) == (1, [])
kernels, remarks = count(lambda x: (t := emit("exp", x)) + emit("transpose", t), x=(8, 8))
print(kernels, "kernels, because", remarks[0])
assert kernels == 2

# ## 9. Kernels as data, and as machine code
#
# A group and its solution are a **MapExpr**: outer loops, and in them statements in order. A
# statement is a reduction into a local number, or a store of a result that somebody outside reads.
# Its expression is a tree whose leaves are loads with their indices. Axes of operations that only
# move data have dissolved: a transpose or a broadcast is nothing but another index.


@dataclass
class Statement:
    target: Value
    combine: str | None  # how a reduction combines; None for a store
    loops: list  # the inner iterators
    index: list  # where a store writes
    tree: tuple


@dataclass
class Kernel:
    solution: Solution
    statements: list[Statement]
    reads: list[Value]
    writes: list[Value]


def map_expr(group: list[Op], escaping: set[Value]) -> Kernel:
    solution, members = solve(group), set(group)
    reads: dict[Value, None] = {}

    def operand(op: Op, k: int) -> tuple:
        value = op.operands[k]
        if value.op in members:
            return tree(value.op)
        if value.op and value.op.kind == "full":
            return "number", value.op.attrs["value"]
        reads[value] = None
        return "load", value, solution.index(solution.holder(op, k), value.shape)

    def tree(op: Op) -> tuple:
        if op.kind in ("sum", "max", "matmul"):
            return "local", op.result
        operands = [operand(op, k) for k in range(len(op.operands))]
        moves = op.kind in ("broadcast", "transpose", "copy")
        return operands[0] if moves else (pure(op.kind), *operands)

    statements = []
    for op in group:
        index = solution.index(op.result, op.result.shape)
        if op.kind in ("sum", "max", "matmul"):
            body = [operand(op, k) for k in range(len(op.operands))]
            axes = [axis for axes in index_maps(op) for axis in axes if isinstance(axis, tuple)]
            inner = dict.fromkeys(solution.find((op, axis)) for axis in axes)
            inner = [i for i in inner if i in solution.extents]
            value = ("mul", *body) if op.kind == "matmul" else body[0]
            how = "max" if op.kind == "max" else "add"
            statements.append(Statement(op.result, how, inner, [], value))
        if op.result in escaping:
            inner = [i for i in dict.fromkeys(index) if i and i not in solution.outer]
            statements.append(Statement(op.result, None, inner, index, tree(op)))
    writes = [s.target for s in statements if s.combine is None]
    return Kernel(solution, statements, list(reads), writes)


def show(kernel: Kernel) -> str:
    """The kernel as text; tensors are t0, t1... in the order of the arguments."""
    letters = {i: "ijklmnopqrs"[n] for n, i in enumerate(iterators(kernel))}
    names = {v: f"t{n}" for n, v in enumerate(kernel.reads + kernel.writes)}
    locals_ = {s.target: f"s{n}" for n, s in enumerate(kernel.statements) if s.combine}

    def at(value: Value, index: list) -> str:
        return f"{names[value]}[{', '.join(letters.get(i, '0') for i in index)}]"

    def text(tree: tuple) -> str:
        match tree:
            case "load", value, index:
                return at(value, index)
            case "local", value:
                return locals_[value]
            case "number", number:
                return f"{number:g}"
            case kind, *operands:
                return f"{kind}({', '.join(map(text, operands))})"

    def loops(them: list) -> str:
        return "".join(f"for {letters[i]} < {kernel.solution.extents[i]}: " for i in them)

    lines = [loops(kernel.solution.outer)]
    for s in kernel.statements:
        target = locals_[s.target] + f" {s.combine}=" if s.combine else at(s.target, s.index) + " ="
        lines.append(f"  {loops(s.loops)}{target} {text(s.tree)}")
    return "\n".join(lines)


def iterators(kernel: Kernel) -> list:
    inner = [i for s in kernel.statements for i in s.loops]
    return list(dict.fromkeys([*kernel.solution.outer, *inner]))


# From there to **LLVM IR** is a walk over the same tree. LLVM IR is SSA too. The text below keeps
# counters and sums in stack slots (`alloca`), which LLVM's optimizer turns into registers; it also
# unrolls and vectorizes the loops. `reassoc` lets it add in another order, without which a sum
# cannot be vectorized. A real compiler does more at this point: it tiles matmuls for the caches,
# packs their operands and chooses the vector loops itself.

SCALAR = {
    "add": "fadd reassoc contract double {}, {}",
    "sub": "fsub reassoc contract double {}, {}",
    "mul": "fmul reassoc contract double {}, {}",
    "div": "fdiv double {}, {}",
    "neg": "fneg double {}",
    "exp": "call double @llvm.exp.f64(double {})",
    "log": "call double @llvm.log.f64(double {})",
    "max": "call double @llvm.maximum.f64(double {}, double {})",
}


class Writer:
    """Writes one LLVM function for a kernel: `void name(ptr, ptr, ...)`, reads before writes."""

    def __init__(self, name: str, kernel: Kernel) -> None:
        self.kernel, self.lines, self.slots, self.count = kernel, [], [], 0
        arguments = kernel.reads + kernel.writes
        self.pointers = {v: f"%p{n}" for n, v in enumerate(arguments)}
        self.counters = {i: self.slot("i64") for i in iterators(kernel)}
        self.locals = {s.target: self.slot("double") for s in kernel.statements if s.combine}
        with self.loops(kernel.solution.outer):
            for statement in kernel.statements:
                self.statement(statement)
        head = f"define void @{name}({', '.join(f'ptr {p}' for p in self.pointers.values())}) {{"
        self.text = "\n".join([head, *self.slots, *self.lines, "ret void", "}"])

    def new(self, instruction: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {instruction}")
        return f"%v{self.count}"

    def slot(self, kind: str) -> str:
        self.slots.append(f"%s{len(self.slots)} = alloca {kind}")
        return f"%s{len(self.slots) - 1}"

    @contextmanager
    def loops(self, those: list) -> Iterator[None]:
        if not those:
            yield
            return
        counter, extent = self.counters[those[0]], self.kernel.solution.extents[those[0]]
        self.count += 1
        label = f"loop{self.count}"
        self.lines += [f"store i64 0, ptr {counter}", f"br label %{label}", f"{label}:"]
        with self.loops(those[1:]):
            yield
        following = self.new(f"add i64 {self.new(f'load i64, ptr {counter}')}, 1")
        self.lines.append(f"store i64 {following}, ptr {counter}")
        again = self.new(f"icmp ult i64 {following}, {extent}")
        self.lines += [f"br i1 {again}, label %{label}, label %{label}.end", f"{label}.end:"]

    def address(self, value: Value, index: list) -> str:
        """Row-major: the offset of (i, j) in an array of m x n is i * n + j."""
        offset = "0"
        for i, n in zip(index, value.shape, strict=True):
            offset = self.new(f"mul i64 {offset}, {n}")
            if i is not None:
                offset = self.new(
                    f"add i64 {offset}, {self.new(f'load i64, ptr {self.counters[i]}')}"
                )
        return self.new(f"getelementptr double, ptr {self.pointers[value]}, i64 {offset}")

    def number(self, tree: tuple) -> str:
        match tree:
            case "load", value, index:
                return self.new(f"load double, ptr {self.address(value, index)}")
            case "local", value:
                return self.new(f"load double, ptr {self.locals[value]}")
            case "number", number:
                return f"0x{np.float64(number).view(np.uint64):016x}"
            case "ge", a, b:
                bit = self.new(f"fcmp oge double {self.number(a)}, {self.number(b)}")
                return self.new(f"uitofp i1 {bit} to double")
            case kind, *operands:
                return self.new(SCALAR[kind].format(*map(self.number, operands)))

    def statement(self, s: Statement) -> None:
        if s.combine is None:
            with self.loops(s.loops):
                number = self.number(s.tree)
                self.lines.append(f"store double {number}, ptr {self.address(s.target, s.index)}")
            return
        slot = self.locals[s.target]
        first = self.number(("number", -np.inf if s.combine == "max" else 0.0))
        self.lines.append(f"store double {first}, ptr {slot}")
        with self.loops(s.loops):
            number = self.number(s.tree)
            total = self.new(SCALAR[s.combine].format(self.new(f"load double, ptr {slot}"), number))
            self.lines.append(f"store double {total}, ptr {slot}")


DECLARATIONS = """
declare double @llvm.exp.f64(double)
declare double @llvm.log.f64(double)
declare double @llvm.maximum.f64(double, double)
"""


def machine_code(functions: dict[str, str]) -> tuple[object, dict[str, int]]:
    """Compile LLVM text for this machine; the engine that owns the code, and the addresses."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(DECLARATIONS + "\n".join(functions.values()))
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, {name: engine.get_function_address(name) for name in functions}


parts = decompose(trace(lambda x: {"y": emit("softmax", x)}, x=(8, 16)))
kernel = map_expr(parts.ops, set(parts.outputs.values()))
print(show(kernel))
engine, addresses = machine_code({"softmax": Writer("softmax", kernel).text})
x, y = rng.uniform(-9, 9, (8, 16)), np.empty((8, 16))
pointer = ctypes.c_void_p
ctypes.CFUNCTYPE(None, pointer, pointer)(addresses["softmax"])(x.ctypes.data, y.ctypes.data)
np.testing.assert_allclose(y, softmax_reference(x), rtol=1e-12)

# ## 10. A runtime with scopes
#
# A **scope** maps names to arrays. The caller puts parameters and inputs there, the forward program
# adds its outputs and what the backward needs, the backward program adds gradients. A shadow output
# *renames* storage, as it does in Paddle: after it, the storage has the new name only.
#
# What happens once, at compile time: kernels are compiled, and **memory is planned**. Results that
# only this program sees are temporaries. One whose last reader has run gives its buffer to the next
# result of the same size, so the buffers of a long program are few. Outputs get a new array at each
# run, since the caller may hold the old one. The result of an in-place operation has the buffer of
# its source and needs none.


class Scope(dict[str, np.ndarray]):
    def shadow_outputs(self, outputs: dict[str, np.ndarray]) -> None:
        renamed = {id(array) for array in outputs.values()}
        for name in [name for name, array in self.items() if id(array) in renamed]:
            del self[name]
        self.update(outputs)


class Executable:
    def __init__(self, program: Program) -> None:
        self.program = program = decompose(program)
        verify_in_place(program)
        constants = {op for op in program.ops if op.kind == "full"}
        self.filled = {v: v.op.attrs for v in program.outputs.values() if v.op in constants}
        groups, self.remarks = fuse(program)
        readers: dict[Value, set[int]] = {}
        for k, group in enumerate(groups):
            for value in {v for op in group for v in op.operands} - {op.result for op in group}:
                readers.setdefault(value, set()).add(k)
        escaping = {*readers, *program.outputs.values()}
        escaping |= {op.result for op in program.ops if op.kind.endswith("_")}
        self.kernels = [map_expr(group, escaping) for group in groups]
        text = {f"k{n}": Writer(f"k{n}", kernel).text for n, kernel in enumerate(self.kernels)}
        self.engine, addresses = machine_code(text)
        self.calls = [
            ctypes.CFUNCTYPE(None, *[pointer] * len(kernel.reads + kernel.writes))(address)
            for kernel, address in zip(self.kernels, addresses.values(), strict=True)
        ]
        self.buffers, self.places = self.plan_memory(readers)

    def plan_memory(
        self, readers: dict[Value, set[int]]
    ) -> tuple[list[np.ndarray], dict[Value, int]]:
        held = {source(v) for v in [*self.program.inputs.values(), *self.program.outputs.values()]}
        last: dict[Value, int] = {}
        for value, those in readers.items():
            last[source(value)] = max(last.get(source(value), -1), *those)
        buffers, places, free = [], {}, []
        for k, kernel in enumerate(self.kernels):
            for value in kernel.writes:
                if source(value) in held or source(value) in places:
                    continue
                size = math.prod(value.shape)
                fitting = [n for n in free if buffers[n].size == size]
                if fitting:
                    free.remove(fitting[0])
                else:
                    buffers.append(np.empty(size))
                places[source(value)] = fitting[0] if fitting else len(buffers) - 1
            free += [n for value, n in places.items() if last.get(value, -1) == k]
        return buffers, places

    def run(self, scope: Scope) -> None:
        storage = {v: scope[name] for name, v in self.program.inputs.items()}
        for value, array in storage.items():
            assert (array.shape, array.dtype) == (value.shape, np.float64)
            assert array.flags.c_contiguous
        for value, place in self.places.items():
            storage[value] = self.buffers[place]
        for value, attrs in self.filled.items():
            storage[value] = np.full(attrs["shape"], attrs["value"])
        for kernel, call in zip(self.kernels, self.calls, strict=True):
            for value in kernel.writes:
                if source(value) not in storage:
                    storage[source(value)] = np.empty(value.shape)
            arrays = [storage[source(v)] for v in kernel.reads + kernel.writes]
            call(*(array.ctypes.data for array in arrays))
        outputs = self.program.outputs.items()
        scope.shadow_outputs({name: storage[source(value)] for name, value in outputs})


forward, backward = Executable(halves.forward), Executable(halves.backward)
scope = Scope(copies())
mean = scope["mean"]
forward.run(scope)
backward.run(scope)
for name in ("dw", "db", "dv"):
    np.testing.assert_allclose(scope[name], both[name], atol=1e-12)
assert scope["mean"] is mean  # the same array, with the new mean in it
np.testing.assert_allclose(mean, both["new_mean"])
operations = len(forward.program.ops) + len(backward.program.ops)
print(f"{operations} operations in {len(forward.calls)} + {len(backward.calls)} kernels")

# What happens if the end of the in-place chain is a shadow output after all? The first step works,
# the second does not find the mean:

naive = split(joint, {"dy"}, {"dw", "db", "dv"}, replace=False)
scope, run_naive = Scope(copies()), Executable(naive.forward)
run_naive.run(scope)
try:
    run_naive.run(scope)
except KeyError as error:
    print("the second step of the naive split has no", error)
else:
    raise AssertionError("the mean was found")

# ## 11. Everything together
#
# First, training. The network of chapter 7 learns `y = x0 * x1`. The scope lives through all steps;
# the optimizer is two lines of numpy.

scope, before = Scope(copies()), None
scope["x"] = rng.uniform(-1, 1, (64, 2))
target = scope["x"][:, :1] * scope["x"][:, 1:]
for _ in range(1500):
    forward.run(scope)
    error = scope["y"] - target
    scope["dy"] = 2 * error / len(error)
    backward.run(scope)
    for name in ("w", "b", "v"):
        scope[name] -= 0.1 * scope["d" + name]
    before = before or float(np.mean(error**2))
after = float(np.mean(error**2))
print(f"loss {before:.4f} -> {after:.4f}")
assert after < before / 10

# Second, a differential equation. For a network `u(x)`, the residual of `u'' + u = 0` needs a
# second derivative inside the loss, and its gradient a third. Nothing new is needed.


def u(x: Value, w: Value, v: Value) -> Value:
    return emit("tanh", x @ w) @ v


def residual_loss(w: Value, v: Value, x: Value) -> dict[str, Value]:
    u_xx = grad(grad(lambda at: u(at, w, v)))(x)
    residual = u_xx + u(x, w, v)
    loss = emit("mean", residual * residual, axes=(0, 1))
    dw, dv = vjp(loss, full(1.0, loss.shape), [w, v])
    return {"loss": loss, "dw": dw, "dv": dv}


shapes = {"w": (1, 32), "v": (32, 1), "x": (256, 1)}
program = trace(residual_loss, **shapes)
native, arrays = Executable(program), draw(shapes)
expected, scope = interpret(program, **arrays), Scope(arrays)
native.run(scope)
for name, array in expected.items():
    np.testing.assert_allclose(scope[name], array, rtol=1e-9, atol=1e-12)


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(50):
        function()
    return (time.process_time() - start) / 50


slow, fast = seconds(lambda: interpret(program, **arrays)), seconds(lambda: native.run(scope))
print(
    f"{len(program.ops)} operations traced, {len(native.program.ops)} simplified, "
    f"{len(native.calls)} kernels; {slow * 1e3:.1f} ms in numpy, {fast * 1e3:.1f} ms compiled"
)

# ## Where to go on
#
# | here | in pirkit | more there |
# |---|---|---|
# | tables of rules | `dialect/ops`, `dialect/rules` | constraints, dynamic shapes, all dtypes |
# | `replay`, `simplify` | `passes` | locations of source lines, remarks |
# | `vjp` | `passes/autodiff.py` | control flow, Taylor mode, checkpoints |
# | `split` | `split` | regions, views, costs in bytes and time |
# | `solve`, `fuse` | `lowering/fusion` | reshapes, windows, explanations |
# | `Writer` | `lowering/codegen` | a loop IR with schedules, microkernels, threads |
# | `Executable`, `Scope` | `runtime` | versions checked at run time, native programs |
