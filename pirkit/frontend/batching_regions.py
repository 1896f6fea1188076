"""Batching of branches and loops, and of the stacks that save values for their derivatives.

If the condition is the same for all rows, a branch stays a branch and a loop a loop, over values
with an axis of rows. If it differs, both branches run and each row selects its result; a loop runs
until the condition is false in every row, and rows that are done keep their state. That is what
JAX's ``vmap`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from msgspec import Struct, field
from xdsl.ir import Block, Region, SSAValue

from pirkit.analysis.differentiation import stack_of
from pirkit.analysis.execution_order import operations
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import LOOP, STACK
from pirkit.dialect.operation import PirOp, bodies, create, declares
from pirkit.dialect.ops.control.derivatives import CUSTOM
from pirkit.dialect.types import meta_of, type_of
from pirkit.frontend.batched import Batched, in_rows
from pirkit.frontend.batching import apply_rule, no_rule
from pirkit.passes.autodiff_custom import Custom
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta


class Rows(Struct):
    """Emits ops for all rows."""

    b: Builder
    count: int
    """The number of rows."""
    values: dict[SSAValue, Any]
    """The batched form of each value of the program for one row: a `Batched`, or a list of them."""
    placeholders: frozenset[SSAValue]
    """The tangents and cotangents for which user-defined derivatives were recorded. Each gets an
    axis of rows, as those that will replace it have one."""
    around: list[SSAValue]
    """The values that the program for one row reads from programs around it."""
    alike: bool = False
    """Whether all rows draw the same random numbers; if not, random ops are refused."""
    pushed: dict[PirOp, list[bool]] = field(default_factory=dict[PirOp, list[bool]])
    """For each op that creates a stack: which of the pushed values have an axis of rows."""

    @classmethod
    def of(cls, b: Builder, count: int, block: Block, alike: bool = False) -> Rows:
        """A state for emitting a block; the caller adds the values that it reads to ``values``."""
        customs = [Custom.of(op) for op in operations(block) if op.name == CUSTOM]
        placeholders = frozenset(v for c in customs for v in c.placeholders)
        return cls(b, count, {}, placeholders, list(_read(block)), alike)

    def run(self, op: PirOp | None) -> None:
        """Emit an op and those after it, up to the end of its block."""
        while op is not None and op.name != "pir.yield":
            if op.results and op.results[0] in self.placeholders:
                meta = self.b.wrap(op.results[0]).meta
                zeros = self.b.const(0, meta.dtype, (self.count, *meta.shape))
                self.values[op.results[0]] = Batched(self.b("pd_op.assign", zeros), True)
            elif bodies(op) or declares(op, STACK):
                self._structured(op)
            else:
                following = apply_rule(self.b, op, self.values, self.count, self.alike)
                op = cast("PirOp | None", following)
                continue
            op = cast("PirOp | None", op.next_op)

    def _structured(self, op: PirOp) -> None:
        """Emit an op with regions, or one on stacks."""
        saved, self.b.location = self.b.location, op.location
        try:
            if op.name in _STACKS:
                _STACKS[op.name](self, op)
            elif op.name == "pd_op.if":
                self._branch(op)
            elif declares(op, LOOP):
                self._loop(op)
            else:
                raise no_rule(op)
        finally:
            self.b.location = saved

    def _yielded(self, block: Block) -> list[Batched]:
        """Emit the ops of a block; returns what it yields."""
        self.run(cast("PirOp | None", block.first_op))
        return [self.values[v] for v in cast(PirOp, block.last_op).operands]

    def broadcast(self, given: Batched) -> Value:
        """A value with the axis of rows."""
        x = given.value
        if given.rows or not isinstance(x.any_meta, TensorMeta):
            return x
        return in_rows(self.b, x, self.count)

    def _chosen(self, mask: Value, yes: Value, no: Value) -> Value:
        """Select one of two values for each row."""
        shape = (self.count, *[1] * (yes.rank - 1))
        return self.b("pd_op.where", self.b.reshape(mask, shape), yes, no)

    # --- branches ---

    def _branch(self, op: PirOp) -> None:
        condition = cast(Batched, self.values[op.operands[0]])
        if condition.rows:  # both branches run, outside of any region
            mask = self.b.cast(self.b.reshape(condition.value, (self.count,)), dt.bool_)
            sides = [[self.broadcast(v) for v in self._yielded(r.block)] for r in op.regions]
            found = [self._chosen(mask, yes, no) for yes, no in zip(*sides, strict=True)]
            self._hold(op.results, found)
            return
        regions: list[Region] = []
        types: list[Any] = []
        for region in op.regions:
            block = Block()
            with self.b.inside(block):
                yielded = [self.broadcast(v) for v in self._yielded(region.block)]
                self.b("pir.yield", *yielded)
            types = [v.ssa.type for v in yielded]
            regions.append(Region(block))
        made = create("pd_op.if", (condition.value.ssa,), types, regions=regions)
        self._hold(op.results, [self.b.wrap(r) for r in self.b.insert(made).results])

    def _hold(self, results: Iterable[SSAValue], found: Iterable[Value]) -> None:
        self.values.update({r: Batched(v, True) for r, v in zip(results, found, strict=True)})

    # --- loops ---

    def _loop(self, op: PirOp) -> None:
        """Emit a loop; if its condition differs from row to row, it is ``masked``.

        Then a further variable of the loop is the mask of the rows that are not done.
        """
        source = op.regions[0].block
        first, *given = [cast(Batched, self.values[v]) for v in op.operands]
        flags, masked = [v.rows for v in given], first.rows
        # A variable that has rows after an iteration needs them from the beginning, and in a masked
        # loop all have them. An iteration is emitted again until that adds no variable.
        while True:
            block, again, after = self._iteration(source, given, flags, masked)
            more = [f or v.rows for f, v in zip(flags, after, strict=True)]
            if masked or again.rows:
                more = [True] * len(flags)
            if (more, masked or again.rows) == (flags, masked):
                break
            flags, masked = more, masked or again.rows
        if masked and any(declares(o, STACK) for o in operations(source)):
            raise no_rule(op)
        with self.b.inside(block):
            state = [self.broadcast(v) if f else v.value for v, f in zip(after, flags, strict=True)]
            more_rows = again.value
            if masked:
                mask = self.b.wrap(block.args[-1])
                old = [self.b.wrap(a) for a in block.args[:-1]]
                state = [self._chosen(mask, x, y) for x, y in zip(state, old, strict=True)]
                kept = self.b("pd_op.logical_and", mask, self._mask(again))
                state, more_rows = [*state, kept], self._any(kept)
            self.b("pir.yield", more_rows, *state)
        starts = [self.broadcast(v) if f else v.value for v, f in zip(given, flags, strict=True)]
        condition = first.value
        if masked:
            starts.append(self._mask(first))
            condition = self._any(starts[-1])
        operands = (condition.ssa, *[s.ssa for s in starts])
        types = [s.ssa.type for s in starts]
        made = self.b.insert(create("pd_op.while", operands, types, regions=[Region(block)]))
        for result, new, flag in zip(op.results, made.results, flags, strict=False):
            self.values[result] = Batched(self.b.wrap(new), flag)

    def _iteration(
        self, source: Block, given: Sequence[Batched], flags: Sequence[bool], masked: bool
    ) -> tuple[Block, Batched, list[Batched]]:
        """An iteration as a block without a terminator, whether another one follows, the state.

        ``flags`` tell which variables have rows. A masked loop has its mask as last argument.
        """
        types: list[Any] = []
        for value, flag in zip(given, flags, strict=True):
            meta = value.value.any_meta
            is_new = flag and not value.rows and isinstance(meta, TensorMeta)
            types.append(
                self._with_rows(cast(TensorMeta, meta)) if is_new else value.value.ssa.type
            )
        mask = TensorMeta((self.count,), dt.bool_)
        block = Block(arg_types=[*types, type_of(mask)] if masked else types)
        for old, new, flag in zip(source.args, block.args, flags, strict=False):
            self.values[old] = Batched(self.b.wrap(new), flag)
        with self.b.inside(block):
            again, *after = self._yielded(source)
        return block, again, after

    def _with_rows(self, meta: TensorMeta) -> Any:
        return type_of(meta.with_shape((self.count, *meta.shape)))

    def _mask(self, given: Batched) -> Value:
        return self.b.cast(self.b.reshape(self.broadcast(given), (self.count,)), dt.bool_)

    def _any(self, mask: Value) -> Value:
        return self.b("pd_op.any", mask, axis=(), keepdim=False)

    # --- stacks ---

    def create_stack(self, op: PirOp) -> None:
        """Emit one stack, which holds the values of all rows."""
        made = self.b.insert(op.clone())
        for result, new in zip(op.results, made.results, strict=True):
            self.values[result] = Batched(self.b.wrap(new), False)

    def push(self, op: PirOp) -> None:
        """Push values as they are, with rows or without; which of them have rows is noted.

        If an earlier push to the stack had rows for a value, this one is broadcast.
        """
        stack = stack_of(op.operands[0])
        if stack is None:
            raise no_rule(op)
        held = [cast(Batched, self.values[v]) for v in op.operands]
        before = self.pushed.get(stack, [False] * len(held))
        rows = [v.rows or f for v, f in zip(held, before, strict=True)]
        self.pushed[stack] = rows
        values = [self.broadcast(v) if f else v.value for v, f in zip(held, rows, strict=True)]
        self.b.insert(create("pir.tuple_push", [v.ssa for v in values]))

    def pop(self, op: PirOp) -> None:
        """Pop values in the form in which `push` noted them."""
        stack = stack_of(op.operands[0])
        if stack is None or stack not in self.pushed:
            raise no_rule(op)
        flags = self.pushed[stack][1:]
        types = [
            self._with_rows(cast(TensorMeta, meta_of(r.type))) if flag else r.type
            for r, flag in zip(op.results, flags, strict=True)
        ]
        outlet = cast(Batched, self.values[op.operands[0]]).value.ssa
        made = self.b.insert(create("pir.tuple_pop", (outlet,), types))
        for result, new, flag in zip(op.results, made.results, flags, strict=True):
            self.values[result] = Batched(self.b.wrap(new), flag)

    def has_elements(self, op: PirOp) -> None:
        """Ask whether a stack has elements: one answer, as all rows end at the same iteration."""
        stack = cast(Batched, self.values[op.operands[0]]).value
        self.values[op.results[0]] = Batched(self.b("pir.has_elements", stack), False)


def _read(block: Block) -> Iterable[SSAValue]:
    """The values from outside that a block and its regions read."""
    ops = list(operations(block))
    inside: set[SSAValue] = {r for op in ops for r in op.results}
    inside |= {a for op in ops for region in bodies(op) for a in region.block.args}
    return dict.fromkeys(v for op in ops for v in op.operands if v not in inside)


_STACKS: Final[dict[str, Callable[[Rows, PirOp], None]]] = {
    "pir.stack_create": Rows.create_stack,
    "pir.tuple_push": Rows.push,
    "pir.tuple_pop": Rows.pop,
    "pir.has_elements": Rows.has_elements,
}
