"""Lowers a program to a plan: values become slots, attributes become Python values.

An alias class gets one slot: the result of an in-place op has the slot of the operand it writes. A
list is lowered to the slots of its elements, so ``pir.combine``, ``pir.split`` and ``pir.slice``
cost nothing at run time. Loop arguments and loop results share slots, which each iteration
overwrites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct, field
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, SSAValue

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.dynamic_shapes import is_dynamic_call
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import SOURCE
from pirkit.dialect.infer import constant_array, constant_scalar, default_value
from pirkit.dialect.opdef import IO, PURE, OpDef, may_draw
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, origin_of, span_of
from pirkit.dialect.ops.control.tensor_array import SAME_ARRAY
from pirkit.dialect.signature import INT_KINDS, REQUIRED
from pirkit.dialect.signature import Operand as OperandSlot
from pirkit.dialect.types import meta_of, sizes_of
from pirkit.lowering.kernel_library import KernelLibrary, is_composite
from pirkit.lowering.legalize import legalized
from pirkit.lowering.liveness import with_frees, without_dead_calls
from pirkit.lowering.native_ops import FUSED
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta
from pirkit.runtime.plan import (
    Call,
    Copy,
    HostArgument,
    If,
    Instruction,
    Operand,
    Output,
    Plan,
    Port,
    Stack,
    While,
)
from pirkit.runtime.registry import CPU

S = TypeVar("S")
V = TypeVar("V")


def write_plan(program: ProgramOp, *, library: KernelLibrary | None = None) -> Plan:
    """Lower a verified program.

    Raises UnsupportedError, with the op's location, for an op that has no kernel in ``library``
    (default: that of the CPU) and that cannot be decomposed.
    """
    library = library or KernelLibrary()
    program = legalized(program, library)
    writer = _Writer(alias_classes(program), library)
    for argument, keyword in zip(program.block.args, program.keywords, strict=True):
        writer.port(writer.inputs, keyword, argument)
    body = writer.block(program.block)
    outputs = [p for _, p in sorted(writer.outputs, key=lambda pair: pair[0])]
    ports = (*writer.inputs, *writer.params)
    live: list[Operand] = [*(p.slot for p in ports), *(o.source for o in outputs)]
    body = without_dead_calls(body, live, writer.droppable, writer.skippable)
    return Plan(
        name=program.symbol,
        slots=tuple(writer.slots),
        inputs=tuple(writer.inputs),
        params=tuple(writer.params),
        outputs=tuple(outputs),
        body=with_frees(body, live),
        written=tuple(writer.written_names()),
    )


class _Writer(Struct):
    classes: AliasClasses
    library: KernelLibrary
    slots: list[Meta] = field(default_factory=list[Meta])
    operand_of: dict[SSAValue, Operand] = field(default_factory=dict[SSAValue, Operand])
    inputs: list[Port] = field(default_factory=list[Port])
    params: list[Port] = field(default_factory=list[Port])
    outputs: list[tuple[int, Output]] = field(default_factory=list[tuple[int, Output]])
    is_served: set[str] = field(default_factory=set[str])
    droppable: set[str] = field(default_factory=set[str])
    skippable: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    written: set[int] = field(default_factory=set[int])
    random_calls: int = 0

    def new_slot(self, meta: Meta) -> int:
        self.slots.append(meta)
        return len(self.slots) - 1

    def define(self, value: SSAValue) -> Operand:
        """A fresh slot for a value, or one per element of a list."""
        meta = meta_of(value.type)
        if isinstance(meta, VecMeta):
            made: Operand = tuple([self.new_slot(m) for m in meta.items])
        else:
            made = self.new_slot(meta)
        self.operand_of[value] = made
        return made

    def slot(self, value: SSAValue) -> int:
        return cast(int, self.operand_of[value])

    def port(self, ports: list[Port], name: str, value: SSAValue) -> None:
        dims = [d for held in sizes_of(value.type)[:1] for d in held]
        sizes = tuple([str(d) if d and d.terms else "" for d in dims]) if any(dims) else ()
        ports.append(Port(name, cast(int, self.define(value)), meta_of(value.type), sizes))

    def written_names(self) -> list[str]:
        return [p.name for p in (*self.inputs, *self.params) if p.slot in self.written]

    def block(self, block: Block) -> tuple[Instruction, ...]:
        body: list[Instruction] = []
        for op in block.ops:
            self.op(cast(PirOp, op), body)
        return tuple(body)

    def op(self, op: PirOp, body: list[Instruction]) -> None:
        lower = _STRUCTURAL.get(op.name)
        if lower is not None:
            lower(self, op, body)
        else:
            body.append(self.call(op))

    def call(self, op: PirOp) -> Call:
        definition = op.definition
        self.require_kernel(op, definition)
        attrs = op.attribute_values()
        inputs: list[Operand] = []
        host: list[HostArgument] = []
        for slot, value in _slots_with_values(definition.operands, op.operand_slots):
            if slot.kind is None:
                inputs.append(None if value is None else self.operand_of[value])
            else:
                self.attribute_operand(op, slot, value, attrs, host)
        random = None
        if may_draw(definition, attrs):
            random = self.random_calls
            self.random_calls += 1
        outputs = self.results(op, definition)
        return Call(
            kernel=op.name,
            inputs=tuple(inputs),
            outputs=outputs,
            attrs=attrs,
            host=tuple(host),
            random=random,
            is_ordered=definition.effects == IO,
            span=span_of(op),
            origin=origin_of(op),
            part_of=_enclosing_op(op),
        )

    def require_kernel(self, op: PirOp, definition: OpDef) -> None:
        if op.name in self.is_served:
            return
        if op.name == FUSED and self.library.device.name != CPU:
            raise UnsupportedError(
                f"kernels of fused operators run on the CPU, not on `{self.library.backend}`",
                code="PK0402",
                span=span_of(op),
                notes=origin_of(op),
                help="name a pipeline that does not fuse, such as `@simplify`, or none",
            )
        late = is_dynamic_call(op) and is_composite(definition)
        if not late and not self.library.serves(definition):
            raise UnsupportedError(
                f"`{op.name}` has no kernel",
                code="PK0402",
                span=span_of(op),
                notes=origin_of(op),
                help="decompose it into ops that have one, or add a `reference` rule",
            )
        self.is_served.add(op.name)
        if definition.effects == PURE and not definition.writes:
            self.droppable.add(op.name)
        if definition.skippable:
            names = [r.name for r in definition.results]
            self.skippable[op.name] = [names.index(name) for name in definition.skippable]

    def attribute_operand(
        self,
        op: PirOp,
        slot: OperandSlot,
        value: SSAValue | None,
        attrs: dict[str, Any],
        host: list[HostArgument],
    ) -> None:
        """Lower an operand that the kernel takes as an attribute: to its value if it is constant,
        else to a slot that is read at run time.
        """
        is_array = slot.kind == "intarray"
        if value is None:
            if slot.name in op.properties:
                attrs[slot.name] = op.attribute(slot.name)
            elif slot.default is not REQUIRED:
                attrs[slot.name] = default_value(slot.kind or "", slot.default)
            return
        known = constant_array(value) if is_array else constant_scalar(value)
        if self.classes.is_written(value):
            known = None  # the program overwrites it: the constant is only its initial value
        if known is None or (is_array and None in known):
            host.append(HostArgument(slot.name, self.operand_of[value], _host_kind(slot)))
        else:
            attrs[slot.name] = int(known) if slot.kind in INT_KINDS else known

    def results(self, op: PirOp, definition: OpDef) -> tuple[Operand, ...]:
        """The slots of the results; a result that aliases an operand has the operand's slot."""
        aliases = {**definition.views, **(definition.inplace if definition.writes else {})}
        outputs: list[Operand] = []
        for slot, value in _slots_with_values(definition.results, op.result_slots):
            source = op.operand_named(aliases[slot.name]) if slot.name in aliases else None
            if source is not None:
                made = self.operand_of[source]
                if slot.name in definition.inplace:
                    self.written.update(made if isinstance(made, tuple) else (cast(int, made),))
                if value is not None:
                    self.operand_of[value] = made
                outputs.append(made)
            else:
                outputs.append(None if value is None else self.define(value))
        return tuple(outputs)


def _slots_with_values(slots: Sequence[S], values: Sequence[V]) -> Iterator[tuple[S, V]]:
    """Each value with its slot; a variadic slot is the last one and takes the rest."""
    for position, value in enumerate(values):
        yield slots[min(position, len(slots) - 1)], value


def _enclosing_op(op: PirOp) -> str:
    """The name, without the dialect, of the op that was decomposed into this one."""
    source = op.attributes.get(SOURCE)
    return source.data if isinstance(source, StringAttr) else ""


def _host_kind(slot: OperandSlot) -> str:
    if slot.kind == "intarray":
        return "array"
    return "int" if slot.kind in INT_KINDS else "scalar"


# --- structural ops ------------------------------------------------------------------------------


def _port(ports: str, attribute: str) -> Any:
    """Lowers an op that stands for an input or a parameter, by the attribute with its name."""

    def lower(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
        w.port(getattr(w, ports), op.attribute(attribute), op.results[0])

    return lower


def _output(attribute: str) -> Any:
    def lower(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
        value = op.operands[0]
        output = Output(op.attribute(attribute), w.operand_of[value], meta_of(value.type))
        w.outputs.append((len(w.outputs), output))

    return lower


def _fetch(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    value = op.operands[0]
    w.operand_of[op.results[0]] = w.operand_of[value]
    output = Output(op.attribute("name"), w.operand_of[value], meta_of(value.type))
    w.outputs.append((op.attribute("col"), output))


def _combine(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    w.operand_of[op.results[0]] = tuple([w.slot(v) for v in op.operands])


def _split(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    items = cast("tuple[int, ...]", w.operand_of[op.operands[0]])
    for value, item in zip(op.result_slots, items, strict=True):
        if value is not None:
            w.operand_of[value] = item


def _slice(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    items = cast("tuple[int, ...]", w.operand_of[op.operands[0]])
    w.operand_of[op.results[0]] = items[op.attribute("index")]


def _if(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    targets = tuple([w.define(r) for r in op.results])
    branches = [_branch(w, region.block, targets) for region in bodies(op)]
    body.append(If(w.slot(op.operands[0]), branches[0], branches[1], span=span_of(op)))


def _branch(w: _Writer, block: Block, targets: tuple[Operand, ...]) -> tuple[Instruction, ...]:
    inner = w.block(block)
    return (*inner, Copy(_yielded(w, block), targets)) if targets else inner


def _yielded(w: _Writer, block: Block) -> tuple[Operand, ...]:
    last = block.last_op
    return tuple([w.operand_of[v] for v in last.operands]) if last is not None else ()


def _while(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    block = op.regions[0].block
    condition = w.new_slot(cast(TensorMeta, meta_of(op.operands[0].type)))
    state = tuple([w.define(r) for r in op.results])
    for argument, slots in zip(block.args, state, strict=True):
        w.operand_of[argument] = slots
    body.append(Copy(tuple([w.operand_of[v] for v in op.operands]), (condition, *state)))
    inner = w.block(block)
    step = Copy(_yielded(w, block), (condition, *state))
    body.append(While(condition, (*inner, step), span=span_of(op)))


def _pylayer(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    targets = tuple([w.define(r) for r in op.results])
    body.extend(_branch(w, op.regions[0].block, targets))


def _stack_create(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    slot = w.new_slot(meta_of(op.results[0].type))
    for token in op.results:
        w.operand_of[token] = slot
    body.append(Stack("create", slot, span=span_of(op)))


def _push(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    inputs = tuple([w.operand_of[v] for v in op.operands[1:]])
    body.append(Stack("push", w.slot(op.operands[0]), inputs, span=span_of(op)))


def _pop(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    outputs = tuple([w.define(r) for r in op.results])
    body.append(Stack("pop", w.slot(op.operands[0]), (), outputs, span=span_of(op)))


def _has_elements(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    outputs: Sequence[Operand] = (w.define(op.results[0]),)
    body.append(Stack("test", w.slot(op.operands[0]), (), tuple(outputs), span=span_of(op)))


def _create_array(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    slot = w.new_slot(meta_of(op.results[0].type))
    w.operand_of[op.results[0]] = slot
    body.append(Stack("make", slot, span=span_of(op)))


def _array_of_parts(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    """A new array, and an action that fills it from the array beside the tensor."""
    _create_array(w, op, body)
    inputs = tuple([w.operand_of[v] for v in op.operands])
    numbers = tuple([int(op.attribute(name)) for name in ("axis", "use_stack")])
    slot = w.slot(op.results[0])
    body.append(Stack("cut", slot, inputs, span=span_of(op), numbers=numbers))


def _on_array(action: str, *names: str) -> Any:
    """Lowers an op on a tensor array, its first operand; ``names`` are integer attributes."""

    def lower(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
        array, *rest = op.operands
        outputs: list[Operand] = []
        for slot, result in zip(op.definition.results, op.result_slots, strict=True):
            if slot.name == SAME_ARRAY.get(op.name):
                w.operand_of.update({} if result is None else {result: w.operand_of[array]})
            elif result is None:
                outputs.append(None)
            else:  # the types that Paddle's programs declare for array elements are wrong
                meta = cast(TensorMeta, meta_of(result.type))
                w.operand_of[result] = w.new_slot(meta.with_shape((UNKNOWN,) * meta.rank))
                outputs.append(w.operand_of[result])
        numbers = tuple([int(op.attribute(name)) for name in names])
        inputs = tuple([w.operand_of[v] for v in rest])
        span = span_of(op)
        body.append(Stack(action, w.slot(array), inputs, tuple(outputs), (), span, numbers))

    return lower


def _nothing(w: _Writer, op: PirOp, body: list[Instruction]) -> None:
    """Emits nothing: the enclosing op reads the operands of the terminator."""


_STRUCTURAL: dict[str, Any] = {
    "pd_op.data": _port("inputs", "name"),
    "pd_op.feed": _port("inputs", "name"),
    "pir.parameter": _port("params", "parameter_name"),
    "pir.constant": _port("params", "value"),
    "pir.shadow_output": _output("output_name"),
    "pir.set_parameter": _output("parameter_name"),
    "pd_op.fetch": _fetch,
    "pir.combine": _combine,
    "pir.split": _split,
    "pir.slice": _slice,
    "pd_op.if": _if,
    "pd_op.while": _while,
    "pd_op.pylayer": _pylayer,
    "pir.stack_create": _stack_create,
    "pir.tuple_push": _push,
    "pir.tuple_pop": _pop,
    "pir.has_elements": _has_elements,
    "pir.yield": _nothing,
    "pd_op.create_array": _create_array,
    "pd_op.array_write_": _on_array("write"),
    "pd_op.array_read": _on_array("read"),
    "pd_op.slice_array_dense": _on_array("pick"),
    "pd_op.array_length": _on_array("length"),
    "pd_op.array_pop": _on_array("take", "index"),
    "pd_op.array_to_tensor": _on_array("join", "axis", "use_stack"),
    "pd_op.tensor_to_array": _array_of_parts,
    "pir.array_add": _on_array("add"),
    "pir.array_add_parts": _on_array("add parts", "axis", "use_stack"),
    "pir.array_claim": _on_array("claim"),
    "pir.array_peek": _on_array("peek"),
    "pir.array_peek_parts": _on_array("peek parts", "axis", "use_stack"),
    "pir.array_open": _on_array("open"),
    "pir.array_close": _on_array("close"),
}


def is_structural(name: str) -> bool:
    """True for an op that is lowered to plan structure (port, branch, list) instead of a call."""
    return name in _STRUCTURAL
