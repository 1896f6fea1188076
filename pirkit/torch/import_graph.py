"""From a functional graph of ATen ops to a program: each node by its rule, or as `torch.call`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp

import pirkit.torch.aten as _aten_rules
import pirkit.torch.custom_derivative as _custom_rules
import pirkit.torch.fourier_kernels as _kernels
from pirkit.diag.errors import (
    ConstraintError,
    InternalError,
    UnsupportedError,
    VerifyError,
)
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp, ProgramOp, create, location_of
from pirkit.dialect.types import type_of
from pirkit.frontend.files import Program
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.aten_call import call_by_torch
from pirkit.torch.captured_graph import CUT, SOURCE, Captured
from pirkit.torch.control import control
from pirkit.torch.draws import DROPOUT, Draw, Like, draw_of, dropped
from pirkit.torch.imported_graph import Fallback, Imported, refuse
from pirkit.torch.layers import LAYERS
from pirkit.torch.libtorch import listed, returned_by, torch
from pirkit.torch.node_error import NodeError, innermost_line
from pirkit.torch.rules import RULES
from pirkit.torch.scalars import computed, is_number
from pirkit.torch.symbol_sizes import SymbolSizes

_FAMILIES: Final = (_aten_rules, _custom_rules, _kernels)


def import_graph(
    captured: Captured,
    sizes: Mapping[Any, int],
    differentiable: Sequence[bool],
    *,
    strict: bool = False,
) -> Imported:
    """The program of a graph whose symbols have these sizes.

    ``differentiable`` says for each input whether a gradient is asked for. Inputs of the program
    are ``x<i>`` for argument i, ``r<i>`` for random numbers and ``c<i>`` for constant tensors;
    outputs are ``y<i>``. Raises NodeError (mostly PK0403, PK0406 or PK0409) for a node that no
    program can hold, and with ``strict`` UnsupportedError (PK0409) for an op without a rule.
    """
    return _Importer(captured, sizes, strict).run(differentiable)


class _Importer:
    """Emits one graph; the graph of a branch or loop gets an importer of its own."""

    def __init__(self, captured: Captured, sizes: Mapping[Any, int], strict: bool) -> None:
        self.captured = captured
        self.sizes = SymbolSizes(sizes)
        self.strict = strict
        self.module: Any = captured.module
        self.op = ProgramOp.build("main")
        self.b = AtenBuilder(self.op, self.argument)
        self.values: dict[Any, Any] = {}
        self.draws: list[tuple[str, Draw]] = []
        self.constants: list[tuple[str, Any]] = []
        self.fallbacks: list[Fallback] = []
        self.counts: Counter[str] = Counter()
        self.locations: dict[str | None, mlir.LocationAttr] = {}

    def run(self, differentiable: Sequence[bool]) -> Imported:
        """Import the whole graph: inputs, nodes, outputs."""
        b, module = self.b, ModuleOp([self.op])
        inputs: list[int] = []
        orders: list[tuple[int, ...] | None] = []
        for i, (node, wanted) in enumerate(
            zip(self.captured.placeholders, differentiable, strict=True)
        ):
            fake = node.meta["val"]
            if not isinstance(fake, torch.Tensor) or not node.users:
                continue
            # Values of a program are contiguous: an argument of another order in memory is passed
            # as the contiguous tensor that it is a permutation of, and permuted here.
            shape, dtype = self.sizes.meta(fake)
            order = self.sizes.order(fake)
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
        if self.strict:
            refuse(self.fallbacks)
        return Imported(
            Program(module, {}, "<torch>"), tuple(names), tuple(inputs),
            tuple([d for _, d in self.draws]), tuple([t for _, t in self.constants]),
            tuple(outputs), tuple(orders), tuple(out_orders), frozenset(cut), self.fallbacks,
            self.counts,
        )  # fmt: skip

    # --- values ---

    def input(
        self, name: str, shape: tuple[int, ...], dtype: DType, wanted: bool,
        parameter: str | None = None,
    ) -> Value:  # fmt: skip
        """An input, or a parameter of that name; ``wanted`` says whether it gets a gradient."""
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
        """A tensor that the graph holds is an input; a graph of a branch or loop stays as it is."""
        found: Any = self.module
        for part in node.target.split("."):
            found = getattr(found, part)
        if not isinstance(found, torch.Tensor):
            self.values[node] = found
            return
        self.values[node] = self.constant(found)

    def constant(self, tensor: Any) -> Value:
        """A tensor whose content is known when the graph is imported, as an input."""
        name = f"c{len(self.constants)}"
        self.constants.append((name, tensor))
        return self.input(name, *self.sizes.meta(tensor), False)

    def made_now(self, node: Any, args: list[Any], options: dict[str, Any]) -> Any:
        """The tensor that torch makes of arguments without tensors, such as a Hann window.

        NotImplemented for others, for random draws, and inside of branches and loops.
        """
        overload = node.target
        if (node.all_input_nodes or self.b.given or not hasattr(overload, "_schema")
                or torch._C.Tag.nondeterministic_seeded in overload.tags):  # fmt: skip
            return NotImplemented
        found = overload(*args, **options)
        return self.constant(found) if isinstance(found, torch.Tensor) else NotImplemented

    def argument(self, given: Any) -> Any:
        """An argument of a node as rules get it: values for nodes, numbers for symbols."""
        if isinstance(given, list | tuple):
            return [self.argument(a) for a in cast("list[Any]", given)]
        if hasattr(given, "meta") and hasattr(given, "op"):
            fake = given.meta.get("val")
            if given in self.values:
                return self.values[given]
            return self.sizes.number(fake) if is_number(fake) else fake
        return self.sizes.number(given)

    def call(self, node: Any) -> None:
        """Emit the operations of a node, by the first of these that handles it.

        They are: a draw of random numbers, control flow, the table of rules, torch now if no
        argument is a tensor, and torch when the program runs. A node that gives a number needs
        operations only if the number depends on data. Assertions about sizes are left out.
        """
        fake = node.meta.get("val")
        target = str(node.target)
        if is_number(fake):
            if not self.sizes.is_known(fake):
                args = [self.argument(a) for a in node.args]
                self.values[node] = computed(self.b, node, args)
            return
        if fake is None and ("assert" in target or "constrain" in target):
            return
        if target == "<built-in function getitem>":
            self.values[node] = self.values[node.args[0]][node.args[1]]
            return
        b = self.b
        b.node, b.location = node, self.location(node)
        fakes = listed(fake)
        metas = [((), None) if f is None else self.sizes.meta(f) for f in fakes]
        b.shapes, b.types = [s for s, _ in metas], cast("list[DType]", [d for _, d in metas])
        args = [self.argument(a) for a in node.args]
        options = {k: self.argument(v) for k, v in node.kwargs.items()}
        before = len(b.emitted)
        if target.startswith("aten.") or target in LAYERS:
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
            except NodeError:
                raise
            except (ConstraintError, UnsupportedError, VerifyError) as error:
                reason = error.message
        if found is NotImplemented:
            found = self.made_now(node, args, options)
        if found is NotImplemented:
            found = call_by_torch(b, args, options, reason, self.fallbacks)
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
        """A result, cast to the type that torch infers. Raises InternalError for another shape."""
        if value.shape != self.b.shapes[number]:
            raise InternalError(
                f"the rule of {node.target} gives {value.shape} instead of {self.b.shapes[number]}"
            )
        return self.b.cast(value, self.b.types[number])

    def stopped(self, value: Value, emitted: set[int]) -> Value:
        """A value that no gradient flows through; ``emitted`` are the operations of this node."""
        if not (value.dtype.is_float or value.dtype.is_complex):
            return value
        # The mark is on the operation: a value of an earlier node is copied, and the copy marked.
        if id(value.ssa.owner) not in emitted:
            value = self.b("pd_op.assign", value)
        _stop(value)
        return value

    def location(self, node: Any) -> mlir.LocationAttr:
        """The innermost line of a node's Python stack."""
        stack = node.meta.get("stack_trace")
        found = self.locations.get(stack)
        if found is None:
            line = innermost_line(stack)
            found = mlir.UnknownLoc() if line is None else location_of(*line)
            self.locations[stack] = found
        return found

    def recorded(self, graph: Any, operands: Sequence[Any]) -> tuple[AtenBuilder, list[Value]]:
        """The graph of a branch or loop, emitted on a builder of its own, and its results.

        Raises UnsupportedError (PK0403) if it draws random numbers or holds constant tensors.
        """
        inner = _Importer(self.captured, self.sizes.held, self.strict)
        inner.module, inner.locations, inner.fallbacks = graph, self.locations, self.fallbacks
        inner.counts = self.counts
        b = inner.b
        places = [n for n in graph.graph.nodes if n.op == "placeholder"]
        for i, (node, outer) in enumerate(zip(places, operands, strict=True)):
            inner.values[node] = outer
            if isinstance(outer, Value):
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
        """Emit what a node computes. Raises NodeError for what no program can hold."""
        try:
            if node.op == "get_attr":
                self.attribute(node)
            elif node.op == "call_function":
                self.call(node)
        except UnsupportedError as error:
            source = node.meta.get(SOURCE)
            if isinstance(error, NodeError) and (error.node is not None or source is None):
                raise
            raise NodeError(source, error) from error

    # --- random numbers ---

    def drawn(self, node: Any, args: list[Any], options: dict[str, Any]) -> Any:
        """The value of a node that draws random numbers; NotImplemented for others."""
        if torch._C.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            return NotImplemented
        likes = [
            self.like(g.meta["val"]) if isinstance(a, Value) else a
            for a, g in zip(args, node.args, strict=True)
        ]
        plain = {k: v for k, v in options.items()}
        draw = draw_of(node, likes, plain)
        if draw is None:
            if str(node.target) == DROPOUT:  # in inference
                return args[0], self.b.const(1, self.b.types[1], self.b.shapes[1])
            return NotImplemented
        name = f"r{len(self.draws)}"
        self.draws.append((name, draw))
        if str(node.target) == DROPOUT:
            mask = self.input(name, self.b.shapes[1], self.b.types[1], False)
            return dropped(self.b, args[0], mask, args[1])
        return self.input(name, self.b.shape, self.b.dtype, False)

    def like(self, fake: Any) -> Like:
        """What a draw reads of a tensor: shape, strides and type."""
        shape, strides = ([self.sizes.number(n) for n in v] for v in (fake.shape, fake.stride()))
        return Like(tuple(shape), tuple(strides), fake.dtype)

    # --- outputs ---

    def finish(self) -> tuple[list[str], list[tuple[int, ...] | None], set[int]]:
        """Emit the outputs: their names, orders in memory, and which of them stop gradients."""
        b = self.b
        names: list[str] = []
        orders: list[tuple[int, ...] | None] = []
        cut: set[int] = set()
        seen: set[Any] = set()
        written = {k for _, k in self.captured.written}
        for k, node in enumerate(self.captured.outputs):
            value = self.values[node]
            fake = node.meta["val"]
            order = None if k in written else self.sizes.order(fake)
            if order is not None:
                value = b.permute(value, order)
            owner = value.ssa.owner
            # Each output needs a value of its own, which is neither an input nor another output.
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
    """Mark the operation that defines a value: no gradient flows through its results."""
    owner = cast(PirOp, value.ssa.owner)
    owner.attributes["stop_gradient"] = encode("bool[]", (True,) * len(owner.result_slots))
