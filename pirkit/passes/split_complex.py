"""Complex values as pairs of real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.execution_order import operations
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import SINK, SOURCE, TERMINATOR
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import complex_parts
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.dialect.types import meta_of
from pirkit.dialect.value import Parts
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import erase
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta


class SplitComplexPass(Pass):
    """Compute with the real and imaginary parts of complex values.

    Native code computes with real numbers, so that complex operations run one by one, in loops or
    library calls of their own. Each operation that has a rule (`complex_parts`) becomes
    operations on parts, which are fused as others are; parts that are zero are left out. Inputs,
    outputs and operations without a rule keep complex values: `real`, `imag` and `complex` stand
    in between. Operations stay where these would be as many as they are, and a remark names those
    that have no rule. Programs that write complex values in place are left alone. Run it after
    `decompose`.

    ::

        %1 = pd_op.multiply(%x, %y) : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> ...
        %2 = pd_op.abs(%1) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
        // becomes
        %a = pd_op.real(%x)
        %b = pd_op.imag(%x)
        ...
        %1 = pd_op.subtract(pd_op.multiply(%a, %c), pd_op.multiply(%b, %d))
    """

    name = "split-complex"
    stats = Stats(split="operations split into real and imaginary parts")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            # without the scalar operations of kernels, which compute with complex numbers
            touched = [op for op in operations(program.block) if _touches(op)]
            if touched:
                _Splitter(ctx, program, touched).run()


_LIST: Final = "pir.combine"


class _Splitter:
    """Splits the complex values of a program."""

    def __init__(self, ctx: PassContext, program: ProgramOp, touched: list[PirOp]) -> None:
        self.ctx = ctx
        self.touched = touched
        self.classes = ctx.analysis(alias_classes, program)
        self.parts: dict[SSAValue, Parts] = {}
        """The parts of the complex values that are split, and of those that are read by parts."""
        self.done: list[PirOp] = []
        self.written: set[SSAValue] = set()
        """Real values that stand for results whose storage is written."""

    def run(self) -> None:
        worth = {op for group in self._groups() if _pays(group) for op in group}
        for op in self.ctx.each(self.touched):
            if op in worth:
                self._split(op)
        split = set(self.done)
        for op in reversed(self.touched):
            if op in split:
                for result in op.results:
                    if result.first_use is not None:
                        self._join(op, result)
                erase(op)
            elif op.name == _LIST and op.results[0].first_use is None:
                erase(op)

    def _groups(self) -> Iterator[list[PirOp]]:
        """The operations that have rules, by the complex values that connect them."""
        able = {op: list(_complex_values(op)) for op in self.touched if self._is_covered(op)}
        at: dict[SSAValue, list[PirOp]] = {}
        for op, values in able.items():
            for value in values:
                at.setdefault(value, []).append(op)
        seen: set[PirOp] = set()
        for start in able:
            group = [] if start in seen else [start]
            seen.add(start)
            for op in group:
                near = [o for v in able[op] for o in at[v] if o not in seen]
                group += dict.fromkeys(near)
                seen.update(near)
            if group:
                yield group

    def _is_covered(self, op: PirOp) -> bool:
        """Whether a rule serves an operation; a remark says why not."""
        if op.name == _LIST or any(declares(op, trait) for trait in (SOURCE, SINK, TERMINATOR)):
            return False
        why = None
        if op.definition.writes or any(map(self.classes.is_written, _complex_values(op))):
            why = "a complex value is written in place"
        elif complex_parts.get(op.definition) is None:
            why = "it has no rule"
        if why:
            self.ctx.remark("missed", f"`{op.name}` stays complex: {why}", op)
        return why is None

    def _split(self, op: PirOp) -> None:
        block = cast(Block, op.parent)
        b = Builder(block, op, location=op.location)
        call = OpCall(b, op)
        rule = cast("Callable[..., Any]", complex_parts.get(op.definition))
        found = rule(call, *[self._given(b, v) for v in call.tensors()])
        if found is NotImplemented:
            self.ctx.remark("missed", f"`{op.name}` stays complex: its rule is for other calls", op)
            return
        self.ctx.rewrote(op.name, op)
        self.ctx.count("split")
        self.done.append(op)
        (result,) = op.results
        if isinstance(found, Value):
            if self._is_written(result):
                found = b.assign(found)
                self.written.add(found.ssa)
            result.replace_all_uses_with(found.ssa)
            return
        meta = cast(TensorMeta, meta_of(result.type))
        fitted = [None if p is None else _expanded(b, p, meta) for p in found]
        self.parts[result] = Parts(*fitted)

    def _is_written(self, value: SSAValue) -> bool:
        return value in self.written or self.classes.is_written(value)

    def _given(self, b: Builder, value: Any) -> Any:
        """Parts to compute with for complex operands and elements of lists; others as they are,
        or a copy if they are written in place: they may become a part, or what is read of it.
        """
        if isinstance(value, tuple):
            return tuple([self._given(b, v) for v in cast("tuple[Any, ...]", value)])
        if not isinstance(value, Value) or not value.dtype.is_complex:
            is_written = isinstance(value, Value) and self._is_written(value.ssa)
            return b.assign(value) if is_written else value
        if value.ssa not in self.parts:
            self.parts[value.ssa] = _read(value.ssa)
        held = Parts(*[None if p is None else b.wrap(p.ssa) for p in self.parts[value.ssa]])
        if UNKNOWN not in value.shape:
            return held
        # the other part might not have the shape of what is computed
        return Parts(*[b.zeros_like(held.known()) if p is None else p for p in held])

    def _join(self, op: PirOp, result: SSAValue) -> None:
        """Give operations that stay complex the number that the parts are of."""
        b = Builder(cast(Block, op.parent), op, location=op.location)
        parts = self._given(b, b.wrap(result))
        real, imag = [b.zeros_like(parts.known()) if p is None else p for p in parts]
        joined = b.complex(real, imag).ssa
        joined.name_hint = result.name_hint
        result.replace_all_uses_with(joined)


def _read(value: SSAValue) -> Parts:
    """The parts of a value that stays complex, read where it is defined."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else cast(Block, owner.parent)
    after = block.first_op if isinstance(owner, Block) else owner.next_op
    b = Builder(block, after)
    x = b.wrap(value)
    return Parts(b.real(x), b.imag(x))


def _expanded(b: Builder, part: Value, meta: TensorMeta) -> Value:
    """A part in the shape of its number, from which it differs if the other part decides it."""
    return part if UNKNOWN in meta.shape else b.expanded(part, meta.shape)


def _pays(group: list[PirOp]) -> bool:
    """Whether the operations are more than the values that enter and leave the group."""
    inside, made = set(group), {r for op in group for r in op.results}
    read = {v for op in group for v in _complex_values(op) if v not in made}
    left = {v for v in made if _is_complex(v) and any(u.operation not in inside for u in _uses(v))}
    return len(group) > 2 * len(read) + len(left)


def _uses(value: SSAValue) -> Iterator[Any]:
    """The uses of a value, those of lists that hold it among them."""
    for use in value.uses:
        if use.operation.name == _LIST:
            yield from use.operation.results[0].uses
        else:
            yield use


def _complex_values(op: PirOp) -> Iterator[SSAValue]:
    """The complex tensors that an operation reads and makes, elements of lists among them."""
    for value in (*op.operands, *op.results):
        owner = value.owner
        if isinstance(owner, PirOp) and owner.name == _LIST:
            yield from filter(_is_complex, owner.operands)
        elif _is_complex(value):
            yield value


def _is_complex(value: SSAValue | None) -> bool:
    if value is None:
        return False
    meta = meta_of(value.type)
    if isinstance(meta, VecMeta):
        return any(m.dtype.is_complex for m in meta.items)
    return isinstance(meta, TensorMeta) and meta.dtype.is_complex


def _touches(op: Operation) -> bool:
    return any(map(_is_complex, op.results)) or any(map(_is_complex, op.operands))
