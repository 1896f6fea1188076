"""Result types are inferred anew from the types of the inputs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from pirkit.analysis.order import operations
from pirkit.diag.errors import ConstraintError, PassError
from pirkit.dialect.attrs import encode
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.opdef import infer_meta
from pirkit.dialect.operation import PirOp, ProgramOp, describe, span_of
from pirkit.dialect.stated import may_state
from pirkit.dialect.types import OPAQUE, AnyTensor, meta_of, tensor_type, type_of
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta, compatible

_NAMED: Final = {
    "pd_op.data": "name",
    "pd_op.feed": "name",
    "pir.parameter": "parameter_name",
    "pir.constant": "value",
}
"""Ops that stand for an input or parameter, and the attribute that holds its name."""

_YIELDING: Final = frozenset({"pd_op.if", "pd_op.pylayer"})


@dataclass(frozen=True)
class InferMetaPass(Pass):
    """Infer every result type anew, and give unknown dimensions the sizes that follow.

    Types only become more precise. Results of branches get what both yields agree on, arguments of
    loops what holds in every turn. `bind` gives shapes to inputs, so that a program for any batch
    becomes one for a certain batch; `?` leaves a dimension open.

    ::

        // infer-meta{bind=x:4x3}
        %0 = pd_op.data() {name = "x", ...} : () -> tensor<?x3xf32>       // becomes tensor<4x3xf32>
        %1 = pd_op.relu(%0) : (tensor<?x3xf32>) -> tensor<?x3xf32>        // becomes tensor<4x3xf32>
    """

    name = "infer-meta"
    stats = Stats(refined="types made more precise")

    bind: tuple[str, ...] = option((), "shapes of inputs, as NAME:4x3; `?` for an open dimension")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        bindings = dict(_binding(text) for text in self.bind)
        for program in ctx.programs(module):
            _Inference(ctx).run(program, bindings)
        if bindings:
            self.check_known(module, bindings)

    def check_known(self, module: ModuleOp, bindings: dict[str, tuple[int, ...]]) -> None:
        known = [n for op in module.ops if isinstance(op, ProgramOp) for n in _sources(op)]
        for name in bindings:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise PassError(
                    f"pass `{self.name}` cannot bind `{name}`: there is no such input",
                    code="PK0801",
                    notes=(f"inputs are {', '.join(known) or 'none'}",),
                    help=f"did you mean `{near[0]}`?" if near else None,
                )


def _binding(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, dims = text.rpartition(":")
    sizes = [] if not dims else dims.split("x")
    if not name or not all(s == "?" or s.isdecimal() for s in sizes):
        raise PassError(
            f"`{text}` binds no shape to an input", code="PK0801", help="write `bind=NAME:4x3`"
        )
    return name, tuple(UNKNOWN if s == "?" else int(s) for s in sizes)


def _sources(program: ProgramOp) -> dict[str, SSAValue]:
    """Inputs and parameters by name."""
    found: dict[str, SSAValue] = dict(zip(program.keywords, program.block.args, strict=True))
    for op in program.operations:
        if op.name in _NAMED:
            found[op.attribute(_NAMED[op.name])] = op.results[0]
    return found


class _Inference:
    """One walk over a program; loops are walked until their types hold."""

    def __init__(self, ctx: PassContext) -> None:
        self.ctx = ctx

    def run(self, program: ProgramOp, bindings: dict[str, tuple[int, ...]]) -> None:
        for name, value in _sources(program).items():
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
        if op.name == "pd_op.while":
            self.loop(op)
        elif op.name in _YIELDING:
            for region in op.regions:
                self.block(region.block)
            for index in range(len(op.results)):
                yields = [_yielded(region.block)[index] for region in op.regions]
                met = yields[0] if len(yields) == 1 else join(yields[0], yields[1])
                self.refine(op.results[index], met)
        elif infer_meta.get(op.definition) is not None:
            self.results(op)

    def results(self, op: PirOp) -> None:
        try:
            inferred = infer_result_types(op.definition, op.operand_slots, op.properties)
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
            if compatible(meta_of(result.type), meta) or not may_state(op, slot, meta):
                self.refine(result, meta)

    def loop(self, op: PirOp) -> None:
        """Arguments start as precise as the initial values, and widen until the yields fit."""
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
        """Make the type of a value as precise as ``meta``; PassError if they contradict."""
        if value.type == OPAQUE:
            return
        declared = meta_of(value.type)
        if not compatible(declared, meta):
            owner = value.owner
            at = owner if isinstance(owner, Operation) else owner.parent_op()
            _conflict(at, describe(value), value.type, type_of(meta))
        refined = refine(declared, meta)
        if refined != declared:
            _set_type(value, _retyped(value.type, refined))
            self.ctx.count("refined")


def refine(declared: Meta, meta: Meta) -> Meta:
    """``declared`` with the dimensions that ``meta`` knows; the two are compatible."""
    if isinstance(declared, TensorMeta) and isinstance(meta, TensorMeta):
        pairs = zip(declared.shape, meta.shape, strict=True)
        return declared.with_shape(b if a == UNKNOWN else a for a, b in pairs)
    if isinstance(declared, VecMeta) and isinstance(meta, VecMeta):
        pairs = zip(declared.items, meta.items, strict=True)
        return VecMeta(tuple(cast(TensorMeta, refine(a, b)) for a, b in pairs))
    return declared


def join(a: Meta, b: Meta) -> Meta:
    """What two metas agree on; ``a`` where they cannot agree, which the verifier then tells."""
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
    """The types of all values of a block and the blocks inside, by position."""
    found = [[a.type for a in block.args]]
    for op in operations(block):
        found.append([r.type for r in op.results])
        found += [[a.type for a in region.block.args] for region in op.regions]
    return found


def _restore(block: Block, types: Sequence[Sequence[Attribute]]) -> None:
    """Give the values of a block the types that `_types` has found."""
    groups: list[Sequence[SSAValue]] = [list(block.args)]
    for op in operations(block):
        groups.append(list(op.results))
        groups += [list(region.block.args) for region in op.regions]
    for values, group in zip(groups, types, strict=True):
        for value, type_ in zip(values, group, strict=True):
            if value.type != type_:
                _set_type(value, type_)


def _set_type(value: SSAValue, type_: Attribute) -> None:
    hint = value.name_hint
    Rewriter.replace_value_with_new_type(cast("OpResult[Any] | BlockArgument[Any]", value), type_)
    owner, index = value.owner, cast("OpResult[Any] | BlockArgument[Any]", value).index
    fresh = owner.results[index] if isinstance(owner, Operation) else owner.args[index]
    fresh.name_hint = hint


def _retyped(type_: Attribute, meta: Meta) -> Attribute:
    if isinstance(type_, mlir.TensorType) and isinstance(meta, TensorMeta):
        encoding = cast(AnyTensor, type_).encoding
        return tensor_type(meta.shape, meta.dtype, encoding)
    return type_of(meta)


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
