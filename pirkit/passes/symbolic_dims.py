"""Symbols of dynamic dimensions: given to inputs, propagated, replaced by numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeAlias, cast

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import PassError, UsageError
from pirkit.dialect.infer_symbolic_sizes import infer_sizes
from pirkit.dialect.kinds import BRANCH, LOOP, SOURCE
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares, host_name, span_of
from pirkit.dialect.sizes import SYMBOL, symbol
from pirkit.dialect.types import Sizes, named, sizes_of
from pirkit.passes.base import PassContext

AUTO: Final = "auto"
NONE: Final = "none"

_DIM: Final = re.compile(rf"\?|\d+|{SYMBOL.pattern}", re.ASCII)

Names: TypeAlias = Mapping[str, tuple[str, ...]]
"""Input -> names for its dimensions; a name that is not a symbol leaves a dimension as it is."""


def inputs_of(program: ProgramOp) -> dict[str, SSAValue]:
    """Inputs and parameters by name."""
    found: dict[str, SSAValue] = dict(zip(program.keywords, program.block.args, strict=True))
    for op in program.operations:
        if declares(op, SOURCE):
            found[host_name(op)] = op.results[0]
    return found


def symbols_of(program: ProgramOp) -> set[str]:
    """All symbols that occur in types of the program."""
    return {
        name
        for value in _values(program)
        for dims in sizes_of(value.type)
        for size in dims
        if size is not None
        for name in size.symbols
    }


def read_names(options: Iterable[str]) -> Names:
    """The names of option ``symbols``. Raises UsageError for text that names no dimensions."""
    found: dict[str, tuple[str, ...]] = {}
    for text in options:
        if text in (AUTO, NONE):
            continue
        name, _, dims = text.rpartition(":")
        words = tuple(dims.split("x"))
        if not name or not all(map(_DIM.fullmatch, words)):
            raise UsageError(
                f"`{text}` names no dimensions of an input",
                code="PK0703",
                help="write `symbols=NAME:Nx3`; symbols are of capitals, digits and `_`",
            )
        found[name] = words
    return found


def name_inputs(program: ProgramOp, names: Names) -> None:
    """Give the dynamic dimensions of inputs these names.

    Raises PassError if the number of names differs from the rank of the input.
    """
    for name, value in inputs_of(program).items():
        held = sizes_of(value.type)
        if name not in names or not held:
            continue
        words = names[name]
        if len(words) != len(held[0]):
            raise PassError(
                f"`symbols` names {len(words)} dimensions of input `{name}`: `{value.type}`",
                code="PK0801",
                span=span_of(program),
                help=f"give {len(held[0])} names, one for each dimension",
            )
        pairs = zip(words, held[0], strict=True)
        dims = tuple([symbol(w) if SYMBOL.fullmatch(w) else s for w, s in pairs])
        rename(value, (dims,))


def name_the_rest(program: ProgramOp) -> None:
    """Give each dynamic dimension of an input that has no symbol a new one: S0, S1..."""
    used = symbols_of(program) | set(inputs_of(program))
    fresh = (name for i in count() if (name := f"S{i}") not in used)
    for value in inputs_of(program).values():
        held = sizes_of(value.type)
        rename(
            value,
            tuple([tuple([symbol(next(fresh)) if s is None else s for s in d]) for d in held]),
        )


def replace_symbols(program: ProgramOp, numbers: Mapping[str, int]) -> None:
    """Replace symbols by numbers; a size without a symbol left is removed from the type."""
    for value in list(_values(program)):
        held = sizes_of(value.type)
        rename(value, tuple([tuple([s and s.at(numbers) for s in dims]) for dims in held]))


def rename(value: SSAValue, sizes: Sizes) -> bool:
    """Set the symbolic sizes of a value's dynamic dimensions; True if that changes its type."""
    type_ = named(value.type, sizes)
    if type_ == value.type:
        return False
    set_type(value, type_)
    return True


def set_type(value: SSAValue, type_: Any) -> None:
    """Set the type of a value; its name in the text is preserved."""
    hint = value.name_hint
    Rewriter.replace_value_with_new_type(cast("OpResult[Any] | BlockArgument[Any]", value), type_)
    owner, index = value.owner, cast("OpResult[Any] | BlockArgument[Any]", value).index
    fresh = owner.results[index] if isinstance(owner, Operation) else owner.args[index]
    fresh.name_hint = hint


def propagate_names(ctx: PassContext, program: ProgramOp) -> None:
    """Propagate the symbols of inputs to all values whose sizes the ops' rules determine.

    A declared symbolic size stays where no rule determines one.
    """
    if not symbols_of(program):
        return
    walk = _Walk(ctx)
    for argument in program.block.args:
        walk.define(argument, ())
    walk.block(program.block)
    for value, sizes in walk.sizes.items():
        if rename(value, sizes):
            ctx.count("named")


class _Walk:
    """The symbolic sizes of all values, in execution order; loops are repeated to a fixed point."""

    def __init__(self, ctx: PassContext) -> None:
        self.ctx = ctx
        self.sizes: dict[SSAValue, Sizes] = {}

    def define(self, value: SSAValue, found: Sizes) -> None:
        declared = sizes_of(value.type)
        if _form(declared) != _form(found):
            self.sizes[value] = declared
            return
        self.sizes[value] = tuple(
            [
                tuple(
                    [s if f is None or (s and not s.terms) else f for s, f in zip(*d, strict=True)]
                )
                for d in zip(declared, found, strict=True)
            ]
        )

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.ctx.current = op
            self.op(cast(PirOp, op))

    def op(self, op: PirOp) -> None:
        if declares(op, LOOP):
            self.loop(op)
        elif declares(op, BRANCH):
            for region in bodies(op):
                self.block(region.block)
            yields = [self.yielded(region.block) for region in bodies(op)]
            for result, first, last in zip(op.results, yields[0], yields[-1], strict=True):
                self.define(result, _meet(first, last))
        else:
            held = [() if v is None else self.sizes[v] for v in op.operand_slots]
            found = infer_sizes(op.definition, op.operand_slots, op.call_properties, held)
            for slot, result in enumerate(op.result_slots):
                if result is not None:
                    self.define(result, found[slot] if found is not None else ())

    def loop(self, op: PirOp) -> None:
        """A size of an argument holds if each iteration yields the size that it was given."""
        block = op.regions[0].block
        carried = [self.sizes[v] for v in op.operands[1:]]
        while True:
            for argument, sizes in zip(block.args, carried, strict=True):
                self.define(argument, sizes)
            self.block(block)
            yields = self.yielded(block)[1:]
            after = [_meet(c, y) for c, y in zip(carried, yields, strict=True)]
            if after == carried:
                break
            carried = after
        for result, sizes in zip(op.results, carried, strict=True):
            self.define(result, sizes)

    def yielded(self, block: Block) -> Sequence[Sizes]:
        last = block.last_op
        return [self.sizes[v] for v in last.operands] if last is not None else []


def _meet(a: Sizes, b: Sizes) -> Sizes:
    """The sizes on which two values agree; empty if their ranks differ."""
    if _form(a) != _form(b):
        return ()
    return tuple(
        [
            tuple([x if x == y else None for x, y in zip(*dims, strict=True)])
            for dims in zip(a, b, strict=True)
        ]
    )


def _form(sizes: Sizes) -> tuple[int, ...]:
    return tuple([len(dims) for dims in sizes])


def _values(program: ProgramOp) -> Iterator[SSAValue]:
    yield from program.block.args
    for op in operations(program.block):
        for region in bodies(op):
            yield from region.block.args
        yield from op.results
