"""Conversion of a program from one element type to another."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pirkit.diag.errors import ConstraintError, UnsupportedError, UsageError
from pirkit.dialect.attrs import decode, encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import constants_of, infer_call
from pirkit.dialect.kinds import SINK, SOURCE, TERMINATOR
from pirkit.dialect.opdef import infer_meta
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares, span_of
from pirkit.dialect.signature import REQUIRED
from pirkit.dialect.types import meta_of, retyped
from pirkit.passes.base import Pass, PassContext, Stats, option, require_names
from pirkit.passes.functionalize import WRITE_BACK, functionalize, write_backs
from pirkit.passes.symbolic_dims import inputs_of, set_type
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta

Types = tuple[Attribute | None, ...]
Properties = dict[str, Attribute]


_PUSH: Final = "pir.tuple_push"
_POP: Final = "pir.tuple_pop"


def _hands_on(op: PirOp) -> bool:
    """True for an op that passes values to where the type is fixed: host, region result, stack."""
    return declares(op, SINK) or declares(op, TERMINATOR) or op.name == _PUSH


@dataclass(frozen=True)
class ConvertDtypePass(Pass):
    """Compute in another element type: half precision, or double.

    Inputs, parameters, constants, casts and outputs of element type `of` get type `to`, except the
    inputs and parameters that `keep` names. A result that an op computes in a wider type on
    purpose, such as the statistics of a norm on float16, keeps that type between ops. An op that
    does not support `to` computes in `of`, with casts around it; casts from `to` to `of` stay. The
    caller converts the weights that come with the program. Operations that write in place become
    pure first, as by `functionalize`.

    ::

        %1 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
        // convert-dtype{to=bfloat16} makes it
        %1 = pd_op.exp(%0) : (tensor<2xbf16>) -> tensor<2xbf16>
    """

    name = "convert-dtype"
    stats = Stats(
        converted="operations that compute in the new type",
        excluded="operations that do not take the new type",
        casts="casts inserted",
        functionalized="in-place operations replaced",
        write_backs="write-backs at the end",
    )

    to: str = option("bfloat16", "the new element type")
    of: str = option("float32", "the element type that is replaced")
    keep: tuple[str, ...] = option((), "inputs and parameters that keep their type, by name")

    def __post_init__(self) -> None:
        for name in (self.of, self.to):
            _floating(name)

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        old, new = _floating(self.of), _floating(self.to)
        if old is new:
            return
        programs = list(ctx.programs(module))
        known = [name for program in programs for name in inputs_of(program)]
        require_names(known, self.keep, "input or parameter")
        for program in programs:
            functionalize(program, ctx)
            _Conversion(ctx, old, new).run(program, self.keep)


def _floating(name: str) -> DType:
    """The floating element type of that name. Raises UsageError for another name."""
    known = {d.name: d for d in (*dt.FLOATS, dt.float8_e4m3fn, dt.float8_e5m2)}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise UsageError(
            f"`{name}` is no floating element type",
            code="PK0703",
            help=f"did you mean `{near[0]}`?" if near else f"they are {', '.join(known)}",
        )
    return known[name]


class _Conversion(Struct):
    """One traversal of a program in the order of execution."""

    ctx: PassContext
    old: DType
    new: DType
    tail: PirOp | None = None
    """The first of the write-backs at the end of the program, which have to stay last."""

    def run(self, program: ProgramOp, keep: Sequence[str]) -> None:
        excluded = {v for name, v in inputs_of(program).items() if name in keep}
        self.tail = next(iter(write_backs(program)), None)
        for argument in list(program.block.args):
            if argument not in excluded:
                self.retype(argument)
        self.block(program.block, excluded)

    def block(self, block: Block, excluded: set[SSAValue]) -> None:
        for op in self.ctx.each([cast(PirOp, op) for op in block.ops]):
            if declares(op, SOURCE):
                if op.results[0] not in excluded:
                    self.source(op)
            elif _hands_on(op):
                self.hand_on(op)
                self.retype_results(op)
            elif bodies(op) or op.name == _POP:
                self.region(op)
            elif op.name == WRITE_BACK:
                self.write_back(op)
            elif not _is_number(op):
                self.compute(op)

    # --- where types are fixed ---

    def source(self, op: PirOp) -> None:
        op.properties.update(self.attributes(op, self.new))
        self.retype_results(op)

    def hand_on(self, op: PirOp) -> None:
        for index, value in enumerate(list(op.operands)):
            op.operands[index] = self.cast(value, self.old, self.new, op)

    def region(self, op: PirOp) -> None:
        if op.name == "pd_op.while":
            self.hand_on(op)
        for region in bodies(op):
            for argument in list(region.block.args):
                self.retype(argument)
            self.block(region.block, set())
        self.retype_results(op)

    def write_back(self, op: PirOp) -> None:
        value, target = op.operands
        wanted = meta_of(target.type)
        found = meta_of(value.type)
        if isinstance(wanted, TensorMeta) and isinstance(found, TensorMeta):
            op.operands[0] = self.cast(value, found.dtype, wanted.dtype, self.tail or op)
        for result in list(op.results):
            set_type(result, target.type)

    def retype(self, value: SSAValue) -> None:
        set_type(value, self.replaced(value.type))

    def retype_results(self, op: PirOp) -> None:
        for result in list(op.results):
            self.retype(result)

    def replaced(self, type_: Attribute) -> Attribute:
        return retyped(type_, _with(meta_of(type_), self.old, self.new))

    # --- operations ---

    def compute(self, op: PirOp) -> None:
        """Infer the result types again, and insert casts before it if the op needs them."""
        if op.name == "pir.map_expr":
            raise UnsupportedError(
                "`pir.map_expr` is a kernel of fused ops: its scalars keep their types",
                code="PK0402", span=span_of(op), help="run `convert-dtype` before `fuse`",
            )  # fmt: skip
        if infer_meta.get(op.definition) is None:
            self.retype_results(op)
            return
        for given, wanted in ((None, self.new), (self.old, self.new), (self.new, self.old)):
            types = self.inferred(op, given, wanted)
            if types is not None:
                break
        else:
            given, wanted, types = None, self.new, self.inferred(op, None, self.new, strict=False)
        properties = self.attributes(op, wanted)
        if given is not None:
            for index, value in enumerate(list(op.operands)):
                if not _stands_for_attribute(op, index):
                    op.operands[index] = self.cast(value, given, wanted, op)
        op.properties.update(properties)
        for result, type_ in zip(op.result_slots, types or (), strict=False):
            if result is not None and type_ is not None:
                set_type(result, _like(result.type, meta_of(type_)))
        if wanted is self.new:
            self.ctx.count("converted", int(any(self.is_new(v) for v in op.results)))
            return
        self.ctx.count("excluded")
        self.ctx.remark("missed", f"`{op.name}` does not take {self.new}: {self.old}", op)
        for result in list(op.results):
            self.cast_result(result, op)

    def inferred(
        self, op: PirOp, given: DType | None, wanted: DType, *, strict: bool = True
    ) -> Types | None:
        """The result types if operands of type ``given`` are cast; None if the op refuses them.

        Without ``strict`` the refusal is raised as an error.
        """
        definition = op.definition
        slots = op.operand_slots
        metas = [None if v is None else meta_of(v.type) for v in slots]
        if given is not None:
            metas = [None if m is None else _with(m, given, wanted) for m in metas]
        properties = {**op.properties, **self.attributes(op, wanted)}
        if strict and not _takes(op, metas, self.old, self.new):
            return None
        constants = constants_of(definition, slots, properties)
        rule = infer_meta.of(definition)
        try:
            return infer_call(definition, rule, tuple(metas), constants, tuple(properties.items()))
        except ConstraintError:
            if strict:
                return None
            raise

    def attributes(self, op: PirOp, wanted: DType) -> Properties:
        """The attributes that name the old type, explicitly or by default, with the new one."""
        if wanted is self.old or (op.name == "pd_op.cast" and self.is_new(op.operands[0])):
            return {}  # a result that is wider on purpose stays so
        found: Properties = {}
        for attr in op.definition.attrs:
            if attr.kind != "dtype":
                continue
            held = op.properties.get(attr.name)
            value = decode("dtype", held) if held is not None else _default(attr.default)
            if value is self.old:
                found[attr.name] = encode("dtype", wanted)
        return found

    # --- casts ---

    def cast(self, value: SSAValue, given: DType, wanted: DType, before: PirOp) -> SSAValue:
        """The value, its tensors of type ``given`` cast by an op before ``before``."""
        meta = meta_of(value.type)
        changed = _with(meta, given, wanted)
        if changed == meta or before.parent is None:
            return value
        b = Builder(before.parent, before, location=before.location)
        if not isinstance(meta, VecMeta):
            self.ctx.count("casts")
            return b.cast(b.wrap(value), wanted).ssa
        items: list[Value] = []
        for item in b.split_vec(b.wrap(value)):
            is_given = item.dtype is given
            self.ctx.count("casts", int(is_given))
            items.append(b.cast(item, wanted) if is_given else item)
        return b.combine(items).ssa

    def cast_result(self, result: SSAValue, op: PirOp) -> None:
        """Cast a result of the old type to the new type for its users."""
        following = op.next_op
        if not self.is_old(result) or not result.first_use or not isinstance(following, PirOp):
            return
        uses = [(use.operation, use.index) for use in result.uses]
        fresh = self.cast(result, self.old, self.new, following)
        for user, index in uses:
            user.operands[index] = fresh

    def is_new(self, value: SSAValue) -> bool:
        return any(m.dtype is self.new for m in _tensors(meta_of(value.type)))

    def is_old(self, value: SSAValue) -> bool:
        return any(m.dtype is self.old for m in _tensors(meta_of(value.type)))


def _tensors(meta: Meta) -> Iterator[TensorMeta]:
    if isinstance(meta, TensorMeta):
        yield meta
    if isinstance(meta, VecMeta):
        yield from meta.items


def _with(meta: Meta, old: DType, new: DType) -> Meta:
    """The meta with element type ``new`` for each tensor of type ``old``."""
    if isinstance(meta, TensorMeta) and meta.dtype is old:
        return meta.with_dtype(new)
    if isinstance(meta, VecMeta):
        return VecMeta(tuple([cast(TensorMeta, _with(m, old, new)) for m in meta.items]))
    return meta


def _like(declared: Attribute, made: Meta) -> Attribute:
    """The declared type with the element types of the inferred meta."""
    meta = meta_of(declared)
    if isinstance(meta, TensorMeta) and isinstance(made, TensorMeta):
        return retyped(declared, meta.with_dtype(made.dtype))
    if isinstance(meta, VecMeta) and isinstance(made, VecMeta):
        pairs = zip(meta.items, made.items, strict=True)
        return retyped(declared, VecMeta(tuple([m.with_dtype(n.dtype) for m, n in pairs])))
    return declared


def _takes(op: PirOp, metas: Sequence[Meta | None], old: DType, new: DType) -> bool:
    """False if the op supports the old type, but not the new one that its first tensor has."""
    known = op.definition.dtypes
    first = next((m for m in metas if m is not None), None)
    has_new = first is not None and any(m.dtype is new for m in _tensors(first))
    return not has_new or new in known or old not in known


def _is_number(op: PirOp) -> bool:
    """True for a constant that is an operand in place of an attribute of another op."""
    if op.operands or not op.results or bodies(op):
        return False
    return any(_stands_for_attribute(use.operation, use.index) for use in op.results[0].uses)


def _stands_for_attribute(user: Operation, index: int) -> bool:
    """True if the operand of that index takes the place of an attribute, as `axis` may."""
    if not isinstance(user, PirOp):
        return False
    slots = user.definition.operands
    filled = [i for i, v in enumerate(user.operand_slots) if v is not None]
    return slots[min(filled[index], len(slots) - 1)].kind is not None


def _default(default: object) -> DType | None:
    if default is REQUIRED or default is None:
        return None
    return default if isinstance(default, DType) else dt.BY_NAME.get(str(default))


__all__ = ["ConvertDtypePass"]
