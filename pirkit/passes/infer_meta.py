"""Inference of the result types from the types of the inputs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import ConstraintError, PassError, UsageError
from pirkit.dialect.attrs import encode
from pirkit.dialect.declared_types import may_declare
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.kinds import BRANCH, LOOP
from pirkit.dialect.opdef import infer_meta
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares, describe, span_of
from pirkit.dialect.sizes import SYMBOL
from pirkit.dialect.types import OPAQUE, meta_of, retyped, type_of
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.shape_binding import numbers_of, read_bindings, shapes_of
from pirkit.passes.symbolic_dims import (
    AUTO,
    inputs_of,
    name_inputs,
    name_the_rest,
    propagate_names,
    read_names,
    replace_symbols,
    set_type,
    symbols_of,
)
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta, compatible


@dataclass(frozen=True)
class InferMetaPass(Pass):
    """Infer every result type again, and give unknown dimensions the sizes that follow.

    Types only become more precise. Results of a branch get what both regions agree on, arguments of
    a loop what holds in every iteration. `bind` gives shapes to inputs, so that a program for any
    batch becomes one for a certain batch; `?` leaves a dimension dynamic.

    Dynamic dimensions get symbols: `symbols` gives them to inputs, and results get sizes in these
    symbols, such as `2*N+1`, which the rule of their op confirmed for several sample sizes. Equal
    symbols mean equal sizes, of at least 1. `bind` also accepts the size of a symbol.

    ::

        // infer-meta{bind=x:4x3}
        %0 = pd_op.data() {name = "x", ...} : () -> tensor<?x3xf32>       // becomes tensor<4x3xf32>
        %1 = pd_op.relu(%0) : (tensor<?x3xf32>) -> tensor<?x3xf32>        // becomes tensor<4x3xf32>

        // infer-meta{symbols=x:Nx3}
        %2 = pd_op.relu(%0) : (tensor<?x3xf32>) -> tensor<?x3xf32>
        // becomes tensor<?x3xf32, #pir.dims<["N", ""]>>
    """

    name = "infer-meta"
    stats = Stats(refined="types made more precise", named="types whose dimensions got names")

    bind: tuple[str, ...] = option(
        (), "shapes of inputs, as NAME:4x3, and sizes of names, as N:4; `?` for a dynamic dimension"
    )
    symbols: tuple[str, ...] = option(
        (AUTO,),
        "names of input dimensions, as NAME:Nx3; `auto` names all that have none, `none` none",
    )

    def __post_init__(self) -> None:
        read_bindings(self.bind)
        read_names(self.symbols)

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        bindings, names = read_bindings(self.bind), read_names(self.symbols)
        inputs: dict[str, None] = {}
        symbols: set[str] = set()
        for program in ctx.programs(module):
            name_inputs(program, names)
            inputs.update(dict.fromkeys(inputs_of(program)))
            symbols |= symbols_of(program)
            numbers = numbers_of(program, bindings)
            shapes = shapes_of(program, bindings, numbers)
            replace_symbols(program, numbers)
            _Inference(ctx).run(program, shapes)
            if AUTO in self.symbols:
                name_the_rest(program)
            propagate_names(ctx, program)
        given = {w for words in names.values() for w in words if SYMBOL.fullmatch(w)}
        self.check_known("bind", bindings, inputs, symbols | given)
        self.check_known("name dimensions of", names, inputs, set())

    def check_known(
        self, verb: str, used: Iterable[str], inputs: Iterable[str], symbols: Collection[str]
    ) -> None:
        known = [*inputs, *sorted(symbols)]
        for name in used:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise UsageError(
                    f"pass `{self.name}` cannot {verb} `{name}`: there is no such input",
                    code="PK0703",
                    help=f"did you mean `{near[0]}`?"
                    if near
                    else f"inputs are {', '.join(inputs) or 'none'}",
                )


class _Inference:
    """One traversal of a program; a loop is repeated until its types are a fixed point."""

    def __init__(self, ctx: PassContext) -> None:
        self.ctx = ctx

    def run(self, program: ProgramOp, bindings: dict[str, tuple[int, ...]]) -> None:
        for name, value in inputs_of(program).items():
            if name in bindings:
                self.bind(name, value, bindings[name])
        self.block(program.block)

    def bind(self, name: str, value: SSAValue, shape: tuple[int, ...]) -> None:
        declared = meta_of(value.type)
        wanted = declared.with_shape(shape) if isinstance(declared, TensorMeta) else declared
        owner = value.owner
        if not isinstance(declared, TensorMeta) or not compatible(declared, wanted):
            at = owner if isinstance(owner, Operation) else owner.parent_op()
            _conflict(at, f"input `{name}`", value.type, type_of(wanted))
        if isinstance(owner, PirOp) and owner.name == "pd_op.data":
            dims = refine(declared, wanted)
            owner.properties["shape"] = encode("intarray", cast(TensorMeta, dims).shape)
        self.refine(value, wanted)

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            self.ctx.current = op
            self.op(cast(PirOp, op))

    def op(self, op: PirOp) -> None:
        if declares(op, LOOP):
            self.loop(op)
        elif declares(op, BRANCH):
            for region in bodies(op):
                self.block(region.block)
            for index in range(len(op.results)):
                yields = [_yielded(region.block)[index] for region in bodies(op)]
                met = yields[0] if len(yields) == 1 else join(yields[0], yields[1])
                self.refine(op.results[index], met)
        elif infer_meta.get(op.definition) is not None:
            self.results(op)

    def results(self, op: PirOp) -> None:
        try:
            inferred = infer_result_types(op.definition, op.operand_slots, op.call_properties)
        except ConstraintError as error:
            raise PassError(
                f"pass `{self.ctx.pass_name}` failed at `{op.name}`: {error.message}",
                code="PK0801",
                span=span_of(op),
                notes=(f"constraint {error.constraint} of `{op.name}`",),
                help=error.help,
            ) from error
        for slot, (result, type_) in enumerate(zip(op.result_slots, inferred, strict=True)):
            if result is None or type_ is None:
                continue
            meta = meta_of(type_)
            if compatible(meta_of(result.type), meta) or not may_declare(op, slot, meta):
                self.refine(result, meta)

    def loop(self, op: PirOp) -> None:
        """Start arguments as precise as the initial values, and widen them until the yields fit."""
        block = op.regions[0].block
        declared = _types(block)
        limits = [meta_of(a.type) for a in block.args]
        metas = [
            refine(d, meta_of(v.type)) if compatible(d, meta_of(v.type)) else d
            for d, v in zip(limits, op.operands[1:], strict=True)
        ]
        while True:
            for argument, meta in zip(list(block.args), metas, strict=True):
                self.refine(argument, meta)
            self.block(block)
            yields = _yielded(block)[1:]
            widened = [
                refine(limit, join(meta, y))
                for limit, meta, y in zip(limits, metas, yields, strict=True)
            ]
            if widened == metas:
                break
            metas = widened
            _restore(block, declared)
        for index, meta in enumerate(metas):
            self.refine(op.results[index], meta)

    def refine(self, value: SSAValue, meta: Meta) -> None:
        """Make the type of a value as precise as ``meta``; PassError if the two contradict."""
        if value.type == OPAQUE:
            return
        declared = meta_of(value.type)
        if not compatible(declared, meta):
            owner = value.owner
            at = owner if isinstance(owner, Operation) else owner.parent_op()
            _conflict(at, describe(value), value.type, type_of(meta))
        refined = refine(declared, meta)
        if refined != declared:
            set_type(value, retyped(value.type, refined))
            self.ctx.count("refined")


def refine(declared: Meta, meta: Meta) -> Meta:
    """``declared`` with the dimensions that ``meta`` knows; the two must be compatible."""
    if isinstance(declared, TensorMeta) and isinstance(meta, TensorMeta):
        pairs = zip(declared.shape, meta.shape, strict=True)
        return declared.with_shape(b if a == UNKNOWN else a for a, b in pairs)
    if isinstance(declared, VecMeta) and isinstance(meta, VecMeta):
        pairs = zip(declared.items, meta.items, strict=True)
        return VecMeta(tuple(cast(TensorMeta, refine(a, b)) for a, b in pairs))
    return declared


def join(a: Meta, b: Meta) -> Meta:
    """The common part of two metas; ``a`` if they are incompatible, which the verifier reports."""
    if isinstance(a, TensorMeta) and isinstance(b, TensorMeta) and a.rank == b.rank:
        pairs = zip(a.shape, b.shape, strict=True)
        return a.with_shape(x if x == y else UNKNOWN for x, y in pairs)
    if isinstance(a, VecMeta) and isinstance(b, VecMeta) and len(a) == len(b):
        pairs = zip(a.items, b.items, strict=True)
        return VecMeta(tuple(cast(TensorMeta, join(x, y)) for x, y in pairs))
    return a


def _yielded(block: Block) -> list[Meta]:
    last = block.last_op
    return [meta_of(v.type) for v in last.operands] if last is not None else []


def _types(block: Block) -> list[list[Attribute]]:
    """The types of all values of a block and its nested blocks, by position."""
    found = [[a.type for a in block.args]]
    for op in operations(block):
        found.append([r.type for r in op.results])
        found += [[a.type for a in region.block.args] for region in bodies(op)]
    return found


def _restore(block: Block, types: Sequence[Sequence[Attribute]]) -> None:
    """Set the types of a block's values to those that `_types` returned."""
    groups: list[Sequence[SSAValue]] = [list(block.args)]
    for op in operations(block):
        groups.append(list(op.results))
        groups += [list(region.block.args) for region in bodies(op)]
    for values, group in zip(groups, types, strict=True):
        for value, type_ in zip(values, group, strict=True):
            if value.type != type_:
                set_type(value, type_)


def _conflict(
    op: Operation | None, what: str, declared: Attribute, inferred: Attribute
) -> NoReturn:
    name = f" of `{op.name}`" if op is not None else ""
    raise PassError(
        f"{what}{name} is declared `{declared}` but is `{inferred}`",
        code="PK0801",
        span=span_of(op) if op is not None else None,
        help="a size was fixed when the program was captured; bind the sizes of its capture",
    )
