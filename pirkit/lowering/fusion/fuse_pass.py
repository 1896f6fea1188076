"""The pass `fuse`: partitions each block, builds kernels, and replaces ops by `pir.map_expr`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.declared_types import mismatched_values
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import UsageError
from pirkit.diag.span import lines_of
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.map_expr.tiling import Untiled
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, fused_location, spans_of
from pirkit.dialect.types import meta_of, retyped
from pirkit.index.extent import is_sized
from pirkit.lowering.fusion.groups import Pair, Partition, Policy
from pirkit.lowering.fusion.horizontal import join_neighbours, join_pairs
from pirkit.lowering.fusion.index_equations import Equations, Unit, equations, writes
from pirkit.lowering.fusion.kernel_builder import Generated, UnknownSizes, generate, idle
from pirkit.lowering.fusion.kernel_order import Cycle, in_order, lists_read_by, unread_lists
from pirkit.lowering.fusion.native_filter import drop_non_native
from pirkit.lowering.fusion.partition import partition
from pirkit.lowering.fusion.reshape_aliases import alias_reshapes
from pirkit.lowering.fusion.value_names import named_ops, names_of
from pirkit.lowering.native_fused import why_not_native
from pirkit.passes.base import EnoughRewrites, Pass, PassContext, Stats, option
from pirkit.passes.cost_model import Cost, slower_ns
from pirkit.passes.cost_model import alone as cost_alone
from pirkit.runtime.meta import TensorMeta


class Fused(Struct, frozen=True):
    """The fusion plan of one block."""

    equations: Equations
    partition: Partition
    kernels: tuple[Generated, ...]
    spare: frozenset[PirOp]
    """Ops that become dead, as all of their readers are kernels that rematerialize them."""


class _Order(Struct, frozen=True):
    """A block after fusion: ops and kernels, and the ops that are ``gone``."""

    items: list[Operation | Generated]
    gone: AbstractSet[Operation]
    has_kernels: bool
    stops: bool
    """Whether kernels were left out, as bisection asks."""


class Decision(Struct, frozen=True):
    """The decision for a block, which observers of the pass get before it changes."""

    found: Fused
    policy: Policy


def plan_fusion(
    block: Block,
    policy: Policy,
    forced: Iterable[Pair] = (),
    storage: AliasClasses | None = None,
    wrong: AbstractSet[SSAValue] | None = None,
    left_out: AbstractSet[PirOp] = frozenset(),
) -> Fused:
    """Plan the kernels of a block, without changing it.

    ``storage`` are the alias classes of a program that writes in place. ``wrong`` are the values
    whose declared type is mismatched; by default they are computed for this block. The ops
    ``left_out`` are in no kernel.
    """
    wrong = mismatched_values(block) if wrong is None else wrong
    pairs, unknown_sizes = tuple(forced), set(left_out)
    while True:  # each time, ops or tiles are left out; there are none of them in most programs
        known = equations(block, unknown_sizes, storage, wrong)
        if policy.profitable_only or policy.native:
            drop_non_native(known, policy.native)
        try:
            found = _planned(known, policy, pairs)
        except Untiled:
            policy = replace(policy, tile=False)
            continue
        if isinstance(found, Fused):
            return found
        unknown_sizes |= found


def _planned(found: Equations, policy: Policy, pairs: tuple[Pair, ...]) -> Fused | set[PirOp]:
    """The plan; or the ops that must stay out of kernels, as no input determines their sizes."""
    parts = partition(found, policy, pairs)
    if policy.horizontal:
        join_neighbours(parts, policy)
    join_pairs(parts, pairs)
    tiles = [dict(group.tiles) for group in parts.groups]
    while True:  # twice where a kernel has a tensor for its sizes that no other op reads
        made, spare, unknown_sizes = _generated(found, parts, policy)
        inside = spare | parts.of.keys()
        sized_by = {v for kernel in made for v in kernel.inputs if v.owner in inside}
        sized_by -= {v for kernel in made for v in kernel.outputs}
        if unknown_sizes or not sized_by:
            break
        parts.sized_by |= sized_by
        for group, before in zip(parts.groups, tiles, strict=True):
            group.tiles = dict(before)
    if unknown_sizes:
        return unknown_sizes
    if policy.profitable_only:
        made = _worth_making(made, parts, spare)
    return Fused(found, parts, tuple(made), frozenset(spare))


def _generated(
    found: Equations, parts: Partition, policy: Policy
) -> tuple[list[Generated], set[PirOp], set[PirOp]]:
    """The kernels, the dead ops, and the ops whose sizes no kernel input determines."""
    made: list[Generated] = []
    spare, unknown_sizes = idle(found, parts), set[PirOp]()
    for group in parts.groups:
        kernel = generate(group, found, parts, spare, policy)
        if kernel is None:
            spare |= {u.op for u in group.own}
        elif isinstance(kernel, UnknownSizes):
            unknown_sizes |= {u.op for u in kernel.units}
        else:
            made.append(kernel)
    return made, spare, unknown_sizes


def _worth_making(made: list[Generated], parts: Partition, spare: set[PirOp]) -> list[Generated]:
    """The kernels that are profitable and have native code; operands of rejected kernels are
    removed from ``spare``.

    A kernel is always emitted if another one recomputes its values, if it recomputes values of
    others, or if it rebuilds a constant whose shape operand was erased: the plan relies on it.
    """
    again = {v for g in parts.groups for v in g.copies}
    found: list[Generated] = []
    for kernel in made:
        own = {o for u in kernel.units for o in _makers(u.op)}
        message = {v.owner for op in own & spare for v in op.operands}
        counted_on = (
            kernel.copies > 0
            or any(u.result in again for u in kernel.units)
            or not message.isdisjoint(spare | parts.of.keys())
        )
        if counted_on or (_saves(kernel) and _is_native(kernel)):
            found.append(kernel)
        else:
            spare -= own
    return found


def _makers(op: PirOp) -> Iterator[PirOp]:
    """The ops that define the operands of an op, including elements of lists and attributes."""
    owners = [v.owner for v in op.operands if isinstance(v.owner, PirOp)]
    for owner in owners:
        if owner.name == "pir.combine":
            yield from (v.owner for v in owner.operands if isinstance(v.owner, PirOp))
        yield owner


def _is_native(made: Generated) -> bool:
    """Whether a kernel has native code; one with dynamic sizes is assumed to."""
    if made.kernel.is_sized:
        return True
    return why_not_native(made.text, tuple([m.shape for m in made.kernel.inputs])) is None


def _saves(made: Generated) -> bool:
    """Whether a kernel is cheaper than its ops as separate calls."""
    sized = made.kernel.is_sized
    alone = sum((_alone(u, sized) for u in made.units if not u.is_free), Cost(0))
    kernel = Cost(1, 0 if sized else made.kernel.traffic())
    if len(made.units) + made.copies == 1:
        return alone.excess_ns > 0  # the bytes that such an op reads say little
    return kernel.ns < alone.ns


def _alone(unit: Unit, sized: bool) -> Cost:
    """The cost of an op as a separate call; bytes with dynamic sizes count as 0."""
    operands = [m for v in unit.tensors if isinstance(m := meta_of(v.type), TensorMeta)]
    # an op without operands in memory, as a shape, may read sizes that its kernel does not know
    if sized or not all(m.is_static for m in (*operands, unit.meta)):
        return cost_alone(unit.op.name, 0)
    return cost_alone(unit.op.name, _bytes(unit), slower_ns(unit.op.name, operands, unit.meta))


@dataclass(frozen=True)
class FusePass(Pass):
    """Fuse ops into kernels that read and write memory once.

    An op with index maps (elementwise, data movement, reduction, scatter) is fused with its
    producers and consumers as long as their index maps compose: each element of a result then has
    a closed form over elements of the inputs. A kernel is an operation `pir.map_expr`, whose region
    holds these expressions; dynamic sizes are named symbols in it. Ops after the first in-place
    write of a program are not fused.

    ::

        %1 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.add(%1, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        // becomes one pir.map_expr(%0)
    """

    name = "fuse"
    stats = Stats(
        kernels="kernels made",
        fused="operations in them",
        before="bytes that these operations move, where sizes are known",
        after="bytes that these kernels move",
    )
    recompute: int = option(16, "additions per element that computing a value again may cost")
    tile: bool = option(True, "hold values in tiles that are needed in several orders of loops")
    horizontal: bool = option(True, "join kernels that share only what they read")
    single: bool = option(False, "make kernels of single operations, too")
    parallel_iterations: int = option(
        64, "iterations of common loops that are enough to keep processors busy"
    )
    inputs: int = option(64, "tensors that a kernel may read")
    ops: int = option(512, "operations of a kernel")
    profitable_only: bool = option(
        False, "make only kernels that save something and have native code"
    )
    native: bool = option(False, "make only kernels of known sizes that have native code")
    excess_precision: bool = option(False, "keep float32 between operators of half precision")
    forced: tuple[str, ...] = option((), "pairs `%a+%b` to put into one kernel at any cost")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        pairs = [_pair(text) for text in self.forced]
        for name in chain(*pairs):
            if not any(name in names_of(p).values() for p in ctx.programs(module)):
                raise UsageError(
                    f"the program has no value %{name}",
                    code="PK0703",
                    help="names are those of the program that the pass gets: `--print before:fuse`",
                )
        for program in ctx.programs(module):
            writer, storage = first_write(program), storage_of(program)
            if writer is not None:
                why = f"`{writer.name}` writes in place: what follows it is not fused"
                ctx.remark("missed", why, writer)
            wrong = mismatched_values(program.block)
            named = named_ops(program) if pairs else {}
            forced = [(named[a], named[b]) for a, b in pairs if a in named and b in named]
            for block in list(blocks_of(program)):
                if storage is None:
                    alias_reshapes(block)
                left_out = set[PirOp]()
                while True:  # more than once only if kernels and sizes wait for each other
                    found = plan_fusion(block, self.policy, forced, storage, wrong, left_out)
                    try:
                        order = self._ordered(ctx, found, block)
                        break
                    except Cycle as cycle:
                        shaped = cycle.shaped_by_operands(found.equations)
                        if not shaped:
                            raise
                        left_out |= shaped
                ctx.decided(Decision(found, self.policy))
                self.fuse(ctx, found, block, order)

    @property
    def policy(self) -> Policy:
        return Policy(
            recompute=self.recompute,
            tile=self.tile,
            inputs=self.inputs,
            ops=self.ops,
            parallel_iterations=self.parallel_iterations,
            horizontal=self.horizontal,
            excess=self.excess_precision,
            profitable_only=self.profitable_only,
            native=self.native,
        )

    def _is_wanted(self, made: Generated) -> bool:
        if self.single or len(made.units) + made.copies > 1:
            return True
        return self.profitable_only and _saves(made)

    def _ordered(self, ctx: PassContext, found: Fused, block: Block) -> _Order:
        """The block with its kernels in order: all of them, or the first ones, as bisection asks.
        Raises Cycle if all of them have no order.
        """
        kernels = [k for k in found.kernels if self._is_wanted(k)]
        allowed = len(kernels) if ctx.stop_after is None else ctx.stop_after - ctx.rewrites
        while True:
            stops = allowed < len(kernels)
            made = kernels[:allowed]
            nodes: dict[Operation, Generated] = {u.op: k for k in made for u in k.units}
            gone = nodes.keys() | (set[Operation]() if stops else found.spare)
            gone |= lists_read_by(gone) | unread_lists(block)
            try:
                return _Order(in_order(block, nodes, gone), gone, bool(kernels), stops)
            except Cycle:
                if not stops:
                    raise
                allowed -= 1

    def fuse(self, ctx: PassContext, found: Fused, block: Block, order: _Order) -> None:
        """Report the decision for a block, and rewrite the block in this order.

        Raises EnoughRewrites after the last kernel that bisection allows.
        """
        # a refusal of several pairs is reported once
        for refusal in {id(r): r for r in found.partition.refusals.values()}.values():
            ctx.remark("missed", str(refusal), refusal.ops[1])
        for choice in (c for g in found.partition.groups for c in g.chosen):
            ctx.remark("passed", str(choice), choice.reader.op)
        if not order.has_kernels:
            return
        former = [op for op in block.ops if op in order.gone]
        for op in list(block.ops):
            op.detach()
        moved: dict[SSAValue, SSAValue] = {}
        for item in order.items:
            if isinstance(item, Generated):
                ctx.current = item.units[-1].op
                ctx.rewrote("fuse", item.units[-1].op)
                block.add_op(_replace(item, moved))
                ctx.count("kernels")
                ctx.count("fused", len(item.units))
                lines = lines_of(s for unit in item.units for s in spans_of(unit.op))
                where = f" of {lines}" if lines else ""
                message = f"{len(item.units)} ops{where} became the kernel `{item.kernel.name}`"
                if not item.kernel.is_sized:
                    before, after = sum(map(_bytes, item.units)), item.kernel.traffic()
                    ctx.count("before", before)
                    ctx.count("after", after)
                    message += f": {before:,} bytes are moved as {after:,}"
                ctx.remark("passed", message, item.units[-1].op)
            else:
                block.add_op(item)
        for op in reversed(former):
            op.erase()
        ctx.current = None
        if order.stops:
            raise EnoughRewrites


def _pair(text: str) -> tuple[str, str]:
    """The names in ``%a+%b``. Raises UsageError (PK0703) for anything else."""
    first, plus, second = text.replace("%", "").partition("+")
    if not (first and plus and second):
        message = f"`{text}` is no pair of values"
        raise UsageError(message, code="PK0703", help="write `fuse{forced=%a+%b}`")
    return first, second


def _bytes(unit: Unit) -> int:
    """Bytes that an op reads and writes as a separate call."""
    metas = [meta_of(v.type) for v in (*unit.tensors, unit.result)]
    return sum(m.numel * m.dtype.itemsize for m in metas if isinstance(m, TensorMeta))


def _replace(made: Generated, moved: dict[SSAValue, SSAValue]) -> PirOp:
    """Create the `pir.map_expr` of a kernel and replace the uses of its outputs.

    ``moved`` maps results that were already replaced, and gets those of this kernel.
    """
    kernel = KernelOp.of(
        made.kernel,
        made.text,
        [moved.get(v, v) for v in made.inputs],
        [_known(v.type, m) for v, m in zip(made.outputs, made.kernel.results, strict=True)],
        fused_location([u.op for u in made.units]),
    )
    for old, new in zip(made.outputs, kernel.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
        moved[old] = new
    return kernel


def _known(declared: Attribute, computed: TensorMeta) -> Attribute:
    """The type of a result, with the sizes that its kernel knows where the program does not."""
    meta = meta_of(declared)
    if not isinstance(meta, TensorMeta) or meta.is_static or any(map(is_sized, computed.shape)):
        return declared
    return retyped(declared, computed)


def first_write(program: ProgramOp) -> PirOp | None:
    """The first op that writes in place; None if there is none."""
    return next((op for op in program.operations if writes(op)), None)


def storage_of(program: ProgramOp) -> AliasClasses | None:
    """The alias classes of a program that writes in place; None for a pure program."""
    return None if first_write(program) is None else alias_classes(program)


def blocks_of(program: ProgramOp) -> Iterator[Block]:
    """All blocks of a program's regions."""
    yield program.block
    for op in operations(program.block):
        for region in bodies(op):
            yield from region.blocks
