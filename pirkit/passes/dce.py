"""Dead code elimination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.effects import assigns_itself, is_quiet, only_writes
from pirkit.analysis.execution_order import loops_around, operations
from pirkit.diag.gc_pause import imported
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares, span_of
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import erase, replace, successor


class DcePass(Pass):
    """Remove operations whose results nobody uses.

    Inputs, parameters and outputs stay: they are the program's interface. So do operations with an
    effect, random ones included, because draws are numbered in the order of execution. An in-place
    operation is removed only if nothing can read what it has written: no alias of its storage is
    read later, belongs to the host or has an external name. An operation that writes the content
    which the storage already has, as batch norm in inference does with its statistics, is always
    removed. Results of `pd_op.if` that nobody uses are no longer yielded, nor are variables of
    `pd_op.while` that only compute themselves carried on. If a program loses all
    its operations, because it names no outputs, standard error says so.

    ::

        %1 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>         // removed: %1 has no use
        pir.shadow_output(%0) {output_name = "y"} : (tensor<2xf32>) -> ()
    """

    name = "dce"
    reports_rewrites = True
    stats = Stats(
        removed="operations removed", results="results of branches and variables of loops removed"
    )

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            computes = any(not declares(op, SOURCE) for op in program.operations)
            while _Sweep(ctx, program).run():
                pass
            if computes and all(declares(op, SOURCE) for op in program.operations):
                _warn_empty(program)


def _warn_empty(program: ProgramOp) -> None:
    """Warn that nothing is left, for example of `str(fn.main_program)`, which names no outputs."""
    span = span_of(program)
    imported("pirkit.diag.log").LOG.warning(  # slow to import, and seldom needed
        "%s@%s names no outputs, so `dce` removed every operation: name the values that you want "
        "(`--outputs %%10`, `pirkit.load(path, outputs=['%%10'])`), or dump the program that has "
        "outputs (docs/paddle.md)",
        f"{span.file}: " if span is not None else "",
        program.symbol,
    )


class _Sweep:
    """One traversal of a program, users before definitions.

    ``read`` holds the alias classes that operations after the current one read. ``loop_reads``
    counts, for each loop, the reads of each class inside it: such a read may come before or after
    the current operation.
    """

    def __init__(self, ctx: PassContext, program: ProgramOp) -> None:
        self.ctx = ctx
        self.program = program
        self.classes: AliasClasses = ctx.analysis(alias_classes, program)
        self.read: set[int] = set()
        self.loop_reads: Counter[tuple[int, Block]] = Counter()
        for op in operations(program.block) if self.classes.writers else ():
            loops = _loops_around(op)
            self.loop_reads.update((e, loop) for e in self.operand_classes(op) for loop in loops)

    def run(self) -> bool:
        changed = False
        for op in self.ctx.each(_backwards(self.program.block)):
            if assigns_itself(op):
                self.ctx.rewrote("self-assignment", op)
                self.ctx.count("removed")
                replace(op, [op.operands[0]])
                changed = True
                continue
            if self.is_dead(op):
                self.ctx.rewrote("dead", op)
                self.ctx.count("removed")
                erase(op)
                changed = True
                continue
            if self.classes.writers:  # only writes look at later reads
                self.read.update(self.operand_classes(op))
            if op.name == "pd_op.if" and not all(r.uses for r in op.results):
                self.drop_results(op)
                changed = True
            if op.name == "pd_op.while" and not all(r.uses for r in op.results):
                changed = self.drop_variables(op) or changed
        return changed

    def operand_classes(self, op: PirOp) -> Iterator[int]:
        return (element for value in op.operands for element in self.classes.of(value))

    def is_dead(self, op: PirOp) -> bool:
        if any(r.uses for r in op.results):
            return False
        return is_quiet(op) or (only_writes(op) and not self.is_observed(op))

    def is_observed(self, op: PirOp) -> bool:
        """True if something may observe whether the op has written its operands."""
        targets = [op.operand_named(name) for name in op.definition.inplace.values()]
        written = {e for target in targets if target for e in self.classes.of(target)}
        if written & self.classes.host or written & self.read:
            return True
        own = Counter(self.operand_classes(op))
        loops = _loops_around(op)
        return any(self.loop_reads[e, loop] > own[e] for e in written for loop in loops)

    def drop_results(self, op: PirOp) -> None:
        """Replace an `if` by one that has only the results that are used."""
        self.ctx.rewrote("unused-result", op)
        used_results = [i for i, r in enumerate(op.results) if r.uses]
        for region in bodies(op):
            last = region.block.last_op
            if last is not None:
                last.operands = [last.operands[i] for i in used_results]
        regions = [op.detach_region(region) for region in list(bodies(op))]
        new = successor(
            op,
            op.operand_slots,
            result_types=[op.results[i].type for i in used_results],
            regions=regions,
        )
        self.ctx.count("results", len(op.results) - len(used_results))
        fresh = iter(new.results)
        replace(
            op, [next(fresh) if i in used_results else None for i in range(len(op.results))], [new]
        )

    def drop_variables(self, op: PirOp) -> bool:
        """Keep the loop variables that are needed; the operations of the others become dead."""
        block = op.regions[0].block
        last = block.last_op
        assert last is not None
        condition, *given = last.operands
        needed = _needed_variables(op, condition, given)
        dead = [k for k in range(len(given)) if k not in needed]
        changed = [k for k in dead if given[k] is not block.args[k]]
        for k in changed:
            given[k] = block.args[k]
        last.operands = [condition, *given]
        unused = [k for k in dead if len(list(block.args[k].uses)) == 1]
        if not unused:
            return bool(changed)
        self.ctx.rewrote("unused-variable", op)
        self.ctx.count("results", len(unused))
        kept = [k for k in range(len(given)) if k not in unused]
        last.operands = [condition, *(given[k] for k in kept)]
        for k in reversed(unused):
            block.erase_arg(block.args[k])
        start, *values = op.operands
        new = successor(
            op,
            [start, *(values[k] for k in kept)],
            result_types=[op.results[k].type for k in kept],
            regions=[op.detach_region(op.regions[0])],
        )
        fresh = dict(zip(kept, new.results, strict=True))
        replace(op, [fresh.get(k) for k in range(len(given))], [new])
        return True


def _loops_around(op: PirOp) -> list[Block]:
    """The bodies of the loops around an operation; `drop_variables` replaces the loops only."""
    return [loop.regions[0].block for loop in loops_around(op)]


def _needed_variables(op: PirOp, condition: SSAValue, given: Sequence[SSAValue]) -> Collection[int]:
    """The variables of a loop that its condition, a used result or an effect depends on."""
    block, needed = op.regions[0].block, set[int]()
    pending = [condition, *(v for v, r in zip(given, op.results, strict=True) if r.uses)]
    for inner in operations(block):
        if inner is not block.last_op and (
            bodies(inner) or inner.parent is not block or not is_quiet(inner)
        ):
            pending += inner.operands
    seen = set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            if value.block is block and value.index not in needed:
                needed.add(value.index)
                pending.append(given[value.index])
        elif isinstance(value.owner, Operation):
            pending += value.owner.operands
    needed.update(k for k, r in enumerate(op.results) if r.uses)
    return needed


def _backwards(block: Block) -> Iterator[PirOp]:
    """Every operation of a block and its regions, from the last to the first.

    An operation comes before those in its regions; it may be erased or replaced meanwhile.
    """
    stack: list[Operation | None] = [block.last_op]
    while stack:
        op = stack.pop()
        if op is None:
            continue
        stack.append(op.prev_op)
        regions = list(bodies(op))
        yield cast(PirOp, op)
        stack += [r.block.last_op for r in regions if r.parent is not None]
