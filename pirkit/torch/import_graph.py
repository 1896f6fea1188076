"""From a functional graph of ATen ops to a program: each node by its rule, or as `torch.call`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp

import pirkit.torch.aten as _aten_rules
import pirkit.torch.custom_derivative as _custom_rules
from pirkit.diag.errors import (
    ConstraintError,
    InternalError,
    UnsupportedError,
)
from pirkit.diag.span import Span
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp, ProgramOp, create, location_of
from pirkit.dialect.types import type_of
from pirkit.frontend.files import Program
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.aten_call_op import NAME as CALL
from pirkit.torch.capture import CUT, Captured
from pirkit.torch.control import control
from pirkit.torch.draws import Draw, Like, draw_of, dropped
from pirkit.torch.element_types import OF_TORCH
from pirkit.torch.libtorch import listed, returned_by, torch
from pirkit.torch.rules import RULES

_LINE: Final = re.compile(r'File "([^"]+)", line (\d+)')
_FAMILIES: Final = (_aten_rules, _custom_rules)


@dataclass(frozen=True)
class Fallback:
    """A call that torch computes: the overload, the user's line, and why."""

    target: str
    span: Span | None
    reason: str


@dataclass
class Imported:
    """A program, and where its inputs come from.

    ``inputs`` are the numbers of arguments, ``draws`` what is drawn for further inputs, and
    ``constants`` tensors of the graph itself for those after them. ``orders`` is the order in
    memory of the dimensions of each argument that is no rows, of each output likewise.
    """

    program: Program
    names: tuple[str, ...]
    inputs: tuple[int, ...]
    draws: tuple[Draw, ...]
    constants: tuple[Any, ...]
    outputs: tuple[str, ...]
    in_orders: tuple[tuple[int, ...] | None, ...]
    out_orders: tuple[tuple[int, ...] | None, ...]
    cut: frozenset[int]
    """Outputs that no gradient flows through."""
    fallbacks: list[Fallback] = field(default_factory=list[Fallback])
    counts: Counter[str] = field(default_factory=Counter[str])
    """How often each overload occurs."""


def import_graph(
    captured: Captured,
    sizes: Mapping[Any, int],
    differentiable: Sequence[bool],
    *,
    strict: bool = False,
) -> Imported:
    """The program of a graph whose symbols have these sizes.

    ``differentiable`` says of each input whether a gradient is asked for. With ``strict`` an op
    without a rule is refused (UnsupportedError, PK0409).
    """
    return _Importer(captured, sizes, strict).run(differentiable)


class _Importer:
    def __init__(self, captured: Captured, sizes: Mapping[Any, int], strict: bool) -> None:
        self.captured = captured
        self.sizes = dict(sizes)
        self.strict = strict
        self.module: Any = captured.module
        self.op = ProgramOp.build("main")
        self.b = AtenBuilder(self.op)
        self.values: dict[Any, Any] = {}
        self.draws: list[tuple[str, Draw]] = []
        self.constants: list[tuple[str, Any]] = []
        self.fallbacks: list[Fallback] = []
        self.counts: Counter[str] = Counter()
        self.locations: dict[str | None, mlir.LocationAttr] = {}

    def run(self, differentiable: Sequence[bool]) -> Imported:
        b, module = self.b, ModuleOp([self.op])
        inputs: list[int] = []
        orders: list[tuple[int, ...] | None] = []
        for i, (node, wanted) in enumerate(
            zip(self.captured.placeholders, differentiable, strict=True)
        ):
            fake = node.meta["val"]
            if not isinstance(fake, torch.Tensor) or not node.users:
                continue
            shape, dtype = self.meta(fake)
            order = self.order(fake)
            held = shape if order is None else tuple([shape[d] for d in order])
            value = self.input(f"x{i}", held, dtype, wanted, self.captured.parameters.get(i))
            if order is not None:
                value = b.permute(value, [order.index(d) for d in range(len(order))])
            self.values[node] = value
            inputs.append(i)
            orders.append(order)
        for node in self.captured.graph.nodes:
            self.visit(node)
        outputs, out_orders, cut = self.finish()
        names = [*(f"x{i}" for i in inputs), *(n for n, _ in self.draws),
                 *(n for n, _ in self.constants)]  # fmt: skip
        self.refuse()
        return Imported(
            Program(module, {}, "<torch>"), tuple(names), tuple(inputs),
            tuple([d for _, d in self.draws]), tuple([t for _, t in self.constants]),
            tuple(outputs), tuple(orders), tuple(out_orders), frozenset(cut), self.fallbacks,
            self.counts,
        )  # fmt: skip

    # --- sizes and types ---

    def number(self, given: Any) -> Any:
        """A number, with symbols replaced by their sizes."""
        node = getattr(given, "node", None)
        if node is None:
            return given
        if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
            known = node.expr.xreplace(self.sizes) if hasattr(node.expr, "xreplace") else node.expr
            if isinstance(given, torch.SymBool):
                return bool(known)
            if getattr(known, "free_symbols", None):
                raise UnsupportedError(
                    f"a size depends on data: {known}",
                    code="PK0406",
                    help="let the graph break there (`torch._dynamo.graph_break()`)",
                )
            return int(known) if isinstance(given, torch.SymInt) else float(known)
        return given

    def meta(self, fake: Any) -> tuple[tuple[int, ...], DType]:
        """Shape and element type of a tensor. Raises UnsupportedError for a foreign type."""
        dtype = OF_TORCH.get(fake.dtype)
        if dtype is None or fake.layout is not torch.strided:
            raise UnsupportedError(
                f"a tensor of {fake.dtype}, {fake.layout}", code="PK0403",
                help="leave its part of the model uncompiled (`torch.compiler.disable`)",
            )  # fmt: skip
        return tuple([self.number(n) for n in fake.shape]), dtype

    def order(self, fake: Any) -> tuple[int, ...] | None:
        """The order in memory of dimensions that lie without gaps; None for rows, or for gaps."""
        shape = [self.number(n) for n in fake.shape]
        strides = [self.number(n) for n in fake.stride()]
        order = sorted(range(len(shape)), key=lambda d: (-strides[d], d))
        moved = [d for d in order if shape[d] != 1]
        if moved == sorted(moved):
            return None
        step = 1
        for d in reversed(order):
            if shape[d] != 1 and strides[d] != step:
                return None
            step *= shape[d]
        return tuple(order)

    # --- values ---

    def input(
        self, name: str, shape: tuple[int, ...], dtype: DType, wanted: bool,
        parameter: str | None = None,
    ) -> Value:  # fmt: skip
        if parameter is not None:
            named = {"parameter_name": encode("str", parameter)}
            meta = TensorMeta(shape, dtype)
            return self.b.results(
                self.b.insert(create("pir.parameter", (), (type_of(meta),), named))
            )
        made = self.b("pd_op.data", name=name, shape=shape, dtype=dtype, place=UNDEFINED)
        if not wanted:
            _stop(made)
        return made

    def attribute(self, node: Any) -> None:
        """A tensor of the graph itself is an input; a graph of a branch or loop stays as it is."""
        found: Any = self.module
        for part in node.target.split("."):
            found = getattr(found, part)
        if not isinstance(found, torch.Tensor):
            self.values[node] = found
            return
        shape, dtype = self.meta(found)
        name = f"c{len(self.constants)}"
        self.constants.append((name, found))
        self.values[node] = self.input(name, shape, dtype, False)

    def argument(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return [self.argument(a) for a in cast("list[Any]", given)]
        if hasattr(given, "meta") and hasattr(given, "op"):
            fake = given.meta.get("val")
            if isinstance(fake, torch.SymInt | torch.SymFloat | torch.SymBool):
                return self.number(fake)
            return self.values[given] if given in self.values else fake
        return self.number(given)

    def call(self, node: Any) -> None:
        fake = node.meta.get("val")
        if isinstance(fake, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool):
            return
        target = str(node.target)
        if target == "<built-in function getitem>":
            self.values[node] = self.values[node.args[0]][node.args[1]]
            return
        b = self.b
        b.node, b.location = node, self.location(node)
        fakes = listed(fake)
        metas = [((), None) if f is None else self.meta(f) for f in fakes]
        b.shapes, b.types = [s for s, _ in metas], cast("list[DType]", [d for _, d in metas])
        args = [self.argument(a) for a in node.args]
        options = {k: self.argument(v) for k, v in node.kwargs.items()}
        before = len(b.emitted)
        if target.startswith("aten."):
            self.counts[target] += 1
        found = self.drawn(node, args, options)
        reason = "no rule"
        if found is NotImplemented:
            found = control(b, target, args, self.recorded)
            b.node, b.location = node, self.location(node)
        if found is NotImplemented and (emit := RULES.get(target)) is not None:
            reason = "no rule for these arguments"
            try:
                found = emit(b, *args, **options)
            except (ConstraintError, UnsupportedError) as error:
                reason = error.message
        if found is NotImplemented:
            found = self.fall_back(node, args, options, reason)
        single = not isinstance(fake, list | tuple)
        several = [found] if single else list(found)
        made = [
            None if f is None or v is None else self.checked(node, v, n)
            for n, (f, v) in enumerate(zip(fakes, several, strict=False))
        ]
        if node.meta.get(CUT):
            earlier = set(map(id, b.emitted[before:]))
            made = [v if v is None else self.stopped(v, earlier) for v in made]
        self.values[node] = made[0] if single else made

    def checked(self, node: Any, value: Value, number: int) -> Value:
        """A result in the type that torch says. Raises InternalError for another shape."""
        if value.shape != self.b.shapes[number]:
            raise InternalError(
                f"the rule of {node.target} gives {value.shape} instead of {self.b.shapes[number]}"
            )
        return self.b.cast(value, self.b.types[number])

    def stopped(self, value: Value, emitted: set[int]) -> Value:
        """A value that no gradient flows through."""
        if not (value.dtype.is_float or value.dtype.is_complex):
            return value
        if id(value.ssa.owner) not in emitted:
            value = self.b("pd_op.assign", value)
        _stop(value)
        return value

    def location(self, node: Any) -> mlir.LocationAttr:
        """The innermost line of a node's Python stack."""
        stack = node.meta.get("stack_trace")
        found = self.locations.get(stack)
        if found is None:
            lines = _LINE.findall(stack or "")
            found = location_of(lines[-1][0], int(lines[-1][1])) if lines else mlir.UnknownLoc()
            self.locations[stack] = found
        return found

    def recorded(self, graph: Any, operands: Sequence[Value]) -> tuple[AtenBuilder, list[Value]]:
        """The graph of a branch or loop on a builder of its own."""
        inner = _Importer(self.captured, self.sizes, self.strict)
        inner.module, inner.locations, inner.fallbacks = graph, self.locations, self.fallbacks
        inner.counts = self.counts
        b, given = inner.b, iter(operands)
        for i, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder"):
            if isinstance(node.meta["val"], torch.Tensor):
                outer = next(given)
                made = inner.input(f"x{i}", outer.shape, outer.dtype, True)
                b.given.append(made)
                inner.values[node] = made
        for node in graph.graph.nodes:
            inner.visit(node)
        if inner.draws or inner.constants:
            raise UnsupportedError(
                "a branch or loop draws random numbers, or has constant tensors", code="PK0403",
                help="make them outside, and pass them as operands",
            )  # fmt: skip
        return b, [inner.values[n] for n in returned_by(graph.graph)]

    def visit(self, node: Any) -> None:
        """Emit what a node computes."""
        if node.op == "get_attr":
            self.attribute(node)
        elif node.op == "call_function":
            self.call(node)

    # --- random numbers, and what torch computes ---

    def drawn(self, node: Any, args: list[Any], options: dict[str, Any]) -> Any:
        """The value of a node that draws random numbers; NotImplemented for others."""
        if torch._C.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            return NotImplemented
        likes = [
            Like(a.shape, g.meta["val"].dtype) if isinstance(a, Value) else a
            for a, g in zip(args, node.args, strict=True)
        ]
        plain = {k: v for k, v in options.items()}
        draw = draw_of(node, likes, plain)
        if draw is None:
            if "dropout" in str(node.target):
                return args[0], self.b.const(1, self.b.types[1], self.b.shapes[1])
            return NotImplemented
        name = f"r{len(self.draws)}"
        self.draws.append((name, draw))
        if "native_dropout" in str(node.target):
            mask = self.input(name, self.b.shapes[1], self.b.types[1], False)
            return dropped(self.b, args[0], mask, args[1])
        return self.input(name, self.b.shape, self.b.dtype, False)

    def fall_back(self, node: Any, args: list[Any], options: dict[str, Any], reason: str) -> Any:
        """A call by torch."""
        tensors: list[Value] = []
        places = {k: v for k, v in options.items() if k not in ("device", "layout", "pin_memory")}
        written = json.dumps([_encoded(args, tensors), _encoded(places, tensors)])
        b = self.b
        results = [[list(s), d.name] for s, d in zip(b.shapes, b.types, strict=True) if d]
        loc = b.location
        span = (
            Span(loc.filename.data, loc.line.data) if isinstance(loc, mlir.FileLineColLoc) else None
        )
        self.fallbacks.append(Fallback(str(node.target), span, reason))
        if not hasattr(node.target, "_schema"):
            raise UnsupportedError(
                f"`{node.target}` has no rule", code="PK0409", span=span,
                help="leave its part of the model uncompiled (`torch.compiler.disable`)",
            )  # fmt: skip
        if torch._C.Tag.nondeterministic_seeded in node.target.tags:
            raise UnsupportedError(
                f"`{node.target}` draws random numbers by data, which has no rule", code="PK0409",
                span=span, help="draw before the compiled function, or let the graph break there",
            )  # fmt: skip
        found = b(
            CALL, tensors, target=str(node.target), arguments=written,
            results=json.dumps(results), count=len(tensors),
        )  # fmt: skip
        made = iter(b.split_vec(found))
        several = [next(made) if d else None for d in b.types]
        return several if isinstance(node.meta["val"], list | tuple) else several[0]

    def refuse(self) -> None:
        """With ``strict``, refuse what torch would compute."""
        if not self.strict or not self.fallbacks:
            return
        counts = Counter(f.target for f in self.fallbacks)
        lines = tuple([
            f"{n} x {target} ({next(f.reason for f in self.fallbacks if f.target == target)})"
            for target, n in counts.most_common()
        ])  # fmt: skip
        first = self.fallbacks[0]
        raise UnsupportedError(
            f"`{first.target}` has no rule", code="PK0409", span=first.span, notes=lines,
            help='without `options={"strict": True}` torch computes what has no rule',
        )  # fmt: skip

    # --- outputs ---

    def finish(self) -> tuple[list[str], list[tuple[int, ...] | None], set[int]]:
        b = self.b
        names: list[str] = []
        orders: list[tuple[int, ...] | None] = []
        cut: set[int] = set()
        seen: set[Any] = set()
        written = {k for _, k in self.captured.written}
        for k, node in enumerate(self.captured.outputs):
            value = self.values[node]
            fake = node.meta["val"]
            order = None if k in written else self.order(fake)
            if order is not None:
                value = b.permute(value, order)
            owner = value.ssa.owner
            if value.ssa in seen or (isinstance(owner, PirOp) and owner.name == "pd_op.data"):
                value = b("pd_op.assign", value)
            if node.meta.get(CUT):
                cut.add(k)
            seen.add(value.ssa)
            b("pir.shadow_output", value, output_name=f"y{k}")
            names.append(f"y{k}")
            orders.append(order)
        return names, orders, cut


def _stop(value: Value) -> None:
    owner = cast(PirOp, value.ssa.owner)
    owner.attributes["stop_gradient"] = encode("bool[]", (True,) * len(owner.result_slots))


def _encoded(given: Any, tensors: list[Value]) -> Any:
    """Arguments as plain data; tensors are collected, and named by number."""
    if isinstance(given, Value):
        tensors.append(given)
        return {"tensor": len(tensors) - 1}
    if isinstance(given, list | tuple):
        return [_encoded(a, tensors) for a in cast("list[Any]", given)]
    if isinstance(given, dict):
        return {k: _encoded(v, tensors) for k, v in cast("dict[str, Any]", given).items()}
    if isinstance(given, float) and given not in (float("inf"), float("-inf")) and given == given:
        return given
    if isinstance(given, float):
        return {"float": str(given)}
    if given is None or isinstance(given, bool | int | str):
        return given
    return {"torch": str(given).removeprefix("torch.")}
