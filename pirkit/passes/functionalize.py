"""Replacement of in-place operations by pure ones, so that every value has one content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from pirkit.analysis.alias import is_overwritten
from pirkit.analysis.differentiation import block_of
from pirkit.analysis.effects import WRITE_BACK, keeps_statistics
from pirkit.analysis.execution_order import operations
from pirkit.dialect.attrs import decode, encode
from pirkit.dialect.build import Builder
from pirkit.dialect.kinds import LIST, LOOP, SINK, SOURCE
from pirkit.dialect.opdef import OpDef, lookup
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, create, declares
from pirkit.dialect.retyped_storage import have_compatible_types
from pirkit.dialect.types import VecType
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.decompose import decompose_op
from pirkit.passes.replace_ops import replace, semantic_properties, successor

_IF: Final = "pd_op.if"
_BATCH_NORM: Final = "pd_op.batch_norm"

STOP_GRADIENT: Final = "stop_gradient"


def _carries(op: Operation) -> bool:
    """True if an op with regions can yield the content that is written inside."""
    return op.name == _IF or declares(op, LOOP)


class FunctionalizePass(Pass):
    """Replace in-place operations by their pure twins.

    Later reads of the written storage, through any alias, read the new value. If the storage is
    that of an input or parameter, one `assign_out_` at the end of the program writes the last value
    to it, and outputs that show the storage are moved after the last write. Storage from outside
    that a branch or loop writes becomes a further result of it. Operations without a pure twin
    stay.

    ::

        %1 = pd_op.relu_(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
        // becomes
        %1 = pd_op.relu(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.exp(%1) : (tensor<2xf32>) -> tensor<2xf32>
    """

    name = "functionalize"
    stats = Stats(
        functionalized="in-place operations replaced", write_backs="write-backs at the end"
    )

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            functionalize(program, ctx)


def functionalize(program: ProgramOp, ctx: PassContext) -> None:
    """Replace the in-place operations of one program."""
    if any(op.definition.writes for op in operations(program.block)):
        _Versions(ctx, program).run()


def without_writes(program: ProgramOp, ctx: PassContext) -> None:
    """Replace the in-place operations of one program; those without a pure twin are decomposed."""
    for op in list(operations(program.block)):
        if op.definition.writes and _pure_form(op) is None:
            decompose_op(op, lambda part: bool(part.definition.writes))
    functionalize(program, ctx)


def write_backs(program: ProgramOp) -> list[PirOp]:
    """The operations at the end of a program that write to its inputs and parameters, in order."""
    found: list[PirOp] = []
    op = program.block.last_op
    while isinstance(op, PirOp) and op.name == WRITE_BACK and _is_source(op.operands[1]):
        found.append(op)
        op = cast("PirOp | None", op.prev_op)
    found.reverse()
    return found


def is_overwriting(ctx: PassContext, program: ProgramOp) -> bool:
    """True, with a remark, if an operation writes in place before the write-backs at the end.

    A pass that moves operations past others leaves such a program alone: what they read may be
    overwritten in between.
    """
    back = write_backs(program)
    for op in operations(program.block):
        if op.definition.writes and op not in back:
            ctx.remark("missed", f"the program is left alone: `{op.name}` writes in place", op)
            return True
    return False


class _Versions(Struct):
    """One traversal of a program that tracks the content of each storage.

    A storage is represented by the first value that has it.
    """

    ctx: PassContext
    program: ProgramOp
    storage: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    content: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    carried: frozenset[SSAValue] = frozenset()
    """Storages from outside whose content the enclosing branches and loops yield."""
    outputs: list[PirOp] = field(default_factory=list[PirOp])
    tail: frozenset[PirOp] = frozenset()

    def run(self) -> None:
        self.tail = frozenset(write_backs(self.program))
        self.block(self.program.block)
        self.finish()

    def storage_of(self, value: SSAValue) -> SSAValue:
        return self.storage.get(value, value)

    def now(self, value: SSAValue, reader: Operation) -> SSAValue:
        """The value that holds the current content of the storage of ``value``."""
        if not isinstance(value.type, VecType):
            return self.content.get(self.storage_of(value), value)
        elements = _elements(value)
        items = [self.now(v, reader) for v in elements]
        if items == list(elements):
            return value
        where = cast(PirOp, value.owner).location
        fresh = create("pir.combine", items, [value.type], location=where)
        cast(Block, reader.parent).insert_op_before(fresh, reader)
        return fresh.results[0]

    def block(self, block: Block) -> None:
        for op in self.ctx.each([cast(PirOp, op) for op in block.ops]):
            if declares(op, SINK):
                self.outputs.append(op)
                continue
            self.read(op)
            _name_elements(op)
            if bodies(op):
                self.inside(op)
            elif op.definition.writes:
                self.write(op)
            else:
                self.share(op)

    def read(self, op: PirOp) -> None:
        for index, value in enumerate(op.operands):
            current = self.now(value, op)
            if current is not value:
                op.operands[index] = current

    def inside(self, op: PirOp) -> None:
        """Process the regions of an operation, each with the contents at its entry."""
        if not _carries(op):
            around, self.carried = self.carried, frozenset()
            for region in bodies(op):
                self.block(region.block)
            self.carried = around
            return
        written = self.written_by(op)
        before, around = self.content, self.carried
        first = [before.get(s, s) for s in written]
        self.carried = around | {*written}
        for region in bodies(op):
            block, self.content = region.block, dict(before)
            if declares(op, LOOP):
                # An iteration reads what the previous one wrote, so the loop carries the content.
                arguments = [block.insert_arg(v.type, len(block.args)) for v in first]
                self.content.update(zip(written, arguments, strict=True))
                self.storage.update(zip(arguments, written, strict=True))
            self.block(block)
            last = cast(Operation, block.last_op)
            last.operands = [*last.operands, *(self.content.get(s, s) for s in written)]
        self.content, self.carried = before, around
        if written:
            self.hand_on(op, written, first)

    def written_by(self, op: PirOp) -> list[SSAValue]:
        """The storages from outside that the regions of a branch or loop write, in order."""
        blocks: set[Block | None] = set()
        found: dict[SSAValue, None] = {}
        for inner in _carried_operations(op, blocks):
            if not inner.definition.writes:
                self.share(inner)
                continue
            for result, operand in inner.definition.inplace.items():
                target, made = inner.operand_named(operand), inner.result_named(result)
                if target is None:
                    continue
                storage = self.storage_of(target)
                if made is not None:
                    self.storage[made] = storage
                if _pure_form(inner) is not None:
                    found[storage] = None
        return [s for s in found if block_of(s) not in blocks]

    def hand_on(self, op: PirOp, written: list[SSAValue], first: list[SSAValue]) -> None:
        """Append results for the written contents to a branch or loop."""
        types = [*(r.type for r in op.results), *(v.type for v in first)]
        operands = [*op.operands, *(first if declares(op, LOOP) else ())]
        regions = [op.detach_region(region) for region in list(bodies(op))]
        new = successor(op, operands, result_types=types, regions=regions)
        flags = op.attributes.get(STOP_GRADIENT)
        if flags is not None:
            held = cast("tuple[bool, ...]", decode("bool[]", flags))
            new.attributes[STOP_GRADIENT] = encode("bool[]", (*held, *(False for _ in written)))
        fresh = list(new.results)
        replace(op, fresh[: len(op.results)], [new])
        for storage, result in zip(written, fresh[-len(written) :], strict=True):
            self.storage[result] = storage
            self.content[storage] = result

    def share(self, op: PirOp) -> None:
        """Record the results that alias an operand, or an element of a list."""
        if declares(op, LIST):
            elements = _elements(op.operands[0]) if op.operands else ()
            first = op.attribute("index") if op.name == "pir.slice" else 0
            for result, item in zip(op.result_slots, elements[first:], strict=False):
                if result is not None and op.name != "pir.combine":
                    self.storage[result] = self.storage_of(item)
            return
        for result, operand in op.definition.views.items():
            source, made = op.operand_named(operand), op.result_named(result)
            if source is not None and made is not None:
                self.storage[made] = self.storage_of(source)

    def write(self, op: PirOp) -> None:
        targets = {
            result: self.storage_of(target)
            for result, operand in op.definition.inplace.items()
            if (target := op.operand_named(operand)) is not None
        }
        pure = _pure_form(op)
        # A write-back at the end is what this pass emits itself; it stays unless an earlier write
        # has changed its target.
        if op in self.tail and not any(t in self.content for t in targets.values()):
            return
        beyond = [t for t in targets.values() if block_of(t) is not op.parent]
        if pure is None or any(t not in self.carried for t in beyond):
            self.ctx.remark("missed", f"`{op.name}` has to write in place", op)
            for result, target in targets.items():
                made = op.result_named(result)
                if made is not None:
                    self.storage[made] = target
            return
        self.ctx.rewrote("functionalize", op)
        self.ctx.count("functionalized")
        new, definition = _pure_twin(op, pure), op.definition
        there = {
            r.name for r, value in zip(op.definition.results, op.result_slots, strict=True) if value
        }
        remaining = [
            v for r, v in zip(pure.results, new.result_slots, strict=True) if r.name in there
        ]
        replace(op, remaining, [new])
        for result, target in targets.items():
            made = new.result_named(result)
            if made is None:
                continue
            self.storage[made] = target
            if new.name == _BATCH_NORM and keeps_statistics(new):
                held = new.operand_named(definition.inplace[result])
                assert held is not None
                made.replace_all_uses_with(held)
                made = held
            self.content[target] = made

    def finish(self) -> None:
        """Let outputs show the last contents, and write these back to inputs and parameters."""
        block = self.program.block
        current = [self.content.get(self.storage_of(op.operands[0])) for op in self.outputs]
        if any(
            c is not None and c is not op.operands[0]
            for c, op in zip(current, self.outputs, strict=True)
        ):
            for op, value in zip(self.outputs, current, strict=True):
                op.detach()
                block.add_op(op)
                if value is not None:
                    op.operands[0] = value
        for target, value in self.content.items():
            if _is_source(target) and value is not target:
                made = self.program if isinstance(value.owner, Block) else value.owner
                types = (target.type if have_compatible_types(value, target) else value.type,)
                back = create(WRITE_BACK, (value, target), types, location=made.location)
                block.add_op(back)
                self.ctx.count("write_backs")


def _name_elements(op: PirOp) -> None:
    """Give each element of a list that the operation makes one name, where one is overwritten.

    Two slices of an element are one storage, and who reads the list reads what was written to it.
    """
    if declares(op, LIST) or op.definition.writes:
        return
    for vec in op.results:
        if not isinstance(vec.type, VecType):
            continue
        readers = [cast(PirOp, use.operation) for use in vec.uses]
        if not any(is_overwritten(r) for o in readers if declares(o, LIST) for r in o.results):
            continue
        b = Builder(cast(Block, op.parent), op.next_op, location=op.location)
        elements = b.split_vec(b.wrap(vec))
        own = {e.ssa.owner for e in elements}
        listed = b.combine(elements).ssa
        vec.replace_uses_with_if(listed, lambda use, own=own: use.operation not in own)


def _elements(vec: SSAValue) -> Sequence[SSAValue]:
    """The values of which a list was made, also after ops that write them; none if unknown."""
    owner = vec.owner
    if not isinstance(owner, PirOp):
        return ()
    if owner.name == "pir.combine":
        return owner.operands
    for result, operand in owner.definition.inplace.items():
        target = owner.operand_named(operand)
        if target is not None and owner.result_named(result) is vec:
            return _elements(target)
    return ()


def _carried_operations(op: PirOp, blocks: set[Block | None]) -> Iterator[PirOp]:
    """The operations inside a branch or loop, at any depth; adds their blocks to ``blocks``."""
    for region in bodies(op):
        blocks.add(region.block)
        for inner in region.block.ops:
            yield cast(PirOp, inner)
            if _carries(inner):
                yield from _carried_operations(cast(PirOp, inner), blocks)


def _is_source(value: SSAValue) -> bool:
    """True if the host provides the value: an input, a parameter or an argument."""
    owner = value.owner
    if isinstance(value, BlockArgument):
        return isinstance(value.owner.parent_op(), ProgramOp)
    return declares(owner, SOURCE)


def _pure_form(op: PirOp) -> OpDef | None:
    name = op.definition.pure_form
    return lookup(name) if name else op.definition.pure


def _pure_twin(op: PirOp, pure: OpDef) -> PirOp:
    """The pure operation; it has a result for every operand that ``op`` writes."""
    definition = op.definition
    types: list[Attribute | None] = [None if r is None else r.type for r in op.result_slots]
    for index, slot in enumerate(definition.results):
        target = definition.inplace.get(slot.name)
        written = None if target is None else op.operand_named(target)
        if types[index] is None and written is not None:
            types[index] = written.type
    operands: Sequence[SSAValue | None] = [op.operand_named(o.name) for o in pure.operands]
    kinds = pure.attr_kinds
    properties = {k: v for k, v in semantic_properties(op).items() if k in kinds}
    return successor(op, operands, definition=pure, result_types=types, properties=properties)
