"""The rewrite rules of `canonicalize`: equations between programs that hold bit by bit.

A rule says which value replaces the result of an op, and under which condition. It holds for every
element, NaN, infinities and the sign of zero included; so `x + 0.0 = x` is not a rule, because
-0.0 + 0.0 is 0.0, while `x + (-0.0) = x` is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.analysis.alias import AliasClasses
from pirkit.analysis.constants import UNKNOWN_VALUE, attribute_of, splat_of
from pirkit.dialect.attrs import encode
from pirkit.dialect.kinds import ELEMENTWISE, IDEMPOTENT, INVOLUTION, SELECTIVE
from pirkit.dialect.opdef import OpDef, all_ops
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.passes.replace_ops import semantic_properties, stops_gradient, successor
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Found = SSAValue | PirOp | None
"""The replacement of the only result of an op: a value, or an op whose result it is."""

Action = Callable[[PirOp, AliasClasses], Found]
Guard = Callable[[PirOp, AliasClasses], bool]


class RewriteRule(Struct, frozen=True):
    """One equation, for the ops named ``op``."""

    op: str
    equation: str
    action: Action

    @property
    def name(self) -> str:
        return f"{self.op}: {self.equation}"


# --- replacements --------------------------------------------------------------------------------


def operand(name: str, guard: Guard) -> Action:
    """Replace by the operand of that name, if the guard holds and no other one broadcasts it."""

    def action(op: PirOp, classes: AliasClasses) -> Found:
        kept = op.operand_named(name)
        found = kept is not None and guard(op, classes) and _has_shape_of_result(op, kept)
        return kept if found else None

    return action


def _has_shape_of_result(op: PirOp, kept: SSAValue) -> bool:
    """Whether other operands have 1 element or as many as ``kept`` along each axis, whatever sizes
    the program has that are known when it runs.
    """
    whole = meta_of(kept.type)
    others = [meta_of(v.type) for v in op.operands if v is not kept]
    if not isinstance(whole, TensorMeta) or op.definition.kind != ELEMENTWISE:
        return True
    for other in others:
        if not isinstance(other, TensorMeta) or other.rank > whole.rank:
            return False
        for n, size in zip(reversed(other.shape), reversed(whole.shape), strict=False):
            if n != 1 and (n == UNKNOWN or n != size):
                return False
    return True


def inner_result(guard: Guard) -> Action:
    """Replace by the first operand, if the same op defines it: the op is idempotent."""

    def action(op: PirOp, classes: AliasClasses) -> Found:
        inner = _maker(op.operands[0])
        same = (
            inner is not None
            and inner.name == op.name
            and semantic_properties(inner) == semantic_properties(op)
        )
        return op.operands[0] if same and guard(op, classes) else None

    return action


def inner_operand(guard: Guard) -> Action:
    """Replace by the operand of the same op that defines the first operand: an involution."""

    def action(op: PirOp, classes: AliasClasses) -> Found:
        inner = _maker(op.operands[0])
        same = inner is not None and inner.name == op.name
        return inner.operands[0] if inner is not None and same and guard(op, classes) else None

    return action


def past_inner(guard: Guard) -> Action:
    """Skip the same op that defines the first operand: its effect is overridden."""

    def action(op: PirOp, classes: AliasClasses) -> Found:
        inner = _maker(op.operands[0])
        if inner is None or inner.name != op.name or not guard(op, classes):
            return None
        if classes.is_written(inner.operands[0]):
            return None
        return successor(op, (inner.operands[0], *op.operand_slots[1:]))

    return action


def _maker(value: SSAValue) -> PirOp | None:
    """The op that defines a value, unless the value stops gradients."""
    owner = value.owner
    if not isinstance(owner, PirOp) or not owner.operands:
        return None
    stops = stops_gradient(value) and not stops_gradient(owner.operands[0])
    return None if stops else owner


def _composed_transpose(op: PirOp, classes: AliasClasses) -> Found:
    inner = _maker(op.operands[0])
    if inner is None or inner.name != op.name or classes.is_written(inner.operands[0]):
        return None
    rank = len(op.attribute("perm"))
    first = [axis % rank for axis in inner.attribute("perm")]
    perm = [first[axis % rank] for axis in op.attribute("perm")]
    properties = {**semantic_properties(op), "perm": encode("i32[]", tuple(perm))}
    return successor(op, (inner.operands[0],), properties=properties)


def _swaps_last_two(op: PirOp | None) -> bool:
    """Whether an op transposes matrices."""
    if op is None or op.name != "pd_op.transpose":
        return False
    rank = len(op.attribute("perm"))
    perm = [axis % rank for axis in op.attribute("perm")]
    return rank > 1 and perm == [*range(rank - 2), rank - 1, rank - 2]


def _matmul_of_transposes(op: PirOp, classes: AliasClasses) -> Found:
    operands, properties = list(op.operands), semantic_properties(op)
    for k, flag in enumerate(("transpose_x", "transpose_y")):
        inner = _maker(operands[k])
        if inner is not None and _swaps_last_two(inner):
            if not classes.is_written(inner.operands[0]):
                operands[k] = inner.operands[0]
                properties = {**properties, flag: encode("bool", not op.attribute(flag))}
    changed = operands != list(op.operands)
    return successor(op, operands, properties=properties) if changed else None


def _transposed_matmul(op: PirOp, classes: AliasClasses) -> Found:
    """``(x y)' = y' x'``, unless others read the product too.

    A softmax stays the left operand: rows of attention are fused in that form.
    """
    inner = _maker(op.operands[0])
    if inner is None or inner.name != "pd_op.matmul" or not _swaps_last_two(op):
        return None
    x, y = inner.operands
    left = _maker(x)
    if left is not None and left.name == "pd_op.softmax":
        return None
    metas = [meta_of(v.type) for v in (x, y)]
    ranks = {m.rank for m in metas if isinstance(m, TensorMeta)}
    if len(ranks) != 1 or not op.operands[0].has_one_use() or any(map(classes.is_written, (x, y))):
        return None
    properties = {
        **semantic_properties(inner),
        "transpose_x": encode("bool", not inner.attribute("transpose_y")),
        "transpose_y": encode("bool", not inner.attribute("transpose_x")),
    }
    return successor(op, (y, x), definition=inner.definition, properties=properties)


def _only_element(op: PirOp, classes: AliasClasses) -> Found:
    combine = _maker(op.operands[0])
    alone = combine is not None and combine.name == "pir.combine" and len(combine.operands) == 1
    return combine.operands[0] if combine is not None and alone else None


def _widened_and_back(op: PirOp, classes: AliasClasses) -> Found:
    inner = _maker(op.operands[0])
    if inner is None or inner.name != op.name:
        return None
    source, wide = _dtype(inner.operands[0]), _dtype(op.operands[0])
    back = _dtype(op.results[0]) is source
    return inner.operands[0] if back and source.name in HELD.get(wide.name, ()) else None


HELD: Final[dict[str, tuple[str, ...]]] = {
    "float64": ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "bool"),
    "float32": ("float16", "bfloat16", "int16", "int8", "uint8", "bool"),
    "int64": ("int32", "int16", "int8", "uint8", "bool"),
    "int32": ("int16", "int8", "uint8", "bool"),
    "int16": ("int8", "uint8", "bool"),
    "int8": ("bool",),
    "uint8": ("bool",),
    "float16": ("int8", "uint8", "bool"),
    "bfloat16": ("int8", "uint8", "bool"),
    "complex64": ("float32", "float16", "bfloat16", "int16", "int8", "uint8", "bool"),
    "complex128": (
        *("complex64", "float64", "float32", "float16", "bfloat16"),
        *("int32", "int16", "int8", "uint8", "bool"),
    ),
}
"""Element type -> the types of which it represents every value exactly."""


# --- conditions ----------------------------------------------------------------------------------


def always(op: PirOp, classes: AliasClasses) -> bool:
    """Always true."""
    return True


def filled(name: str, is_neutral: Callable[[Any, DType], bool]) -> Guard:
    """The operand of that name is filled with one element, which is neutral."""

    def guard(op: PirOp, classes: AliasClasses) -> bool:
        value = op.operand_named(name)
        element = splat_of(value, classes) if value is not None else None
        return element is not None and is_neutral(element, dt.of_array(element))

    return guard


def same(first: str, second: str) -> Guard:
    """Two operands are the same value."""

    def guard(op: PirOp, classes: AliasClasses) -> bool:
        return op.operand_named(first) is op.operand_named(second)

    return guard


def same_type(op: PirOp, classes: AliasClasses) -> bool:
    """The op changes neither shape nor dtype, and both are known."""
    before, after = meta_of(op.operands[0].type), meta_of(op.results[0].type)
    return before == after and isinstance(before, TensorMeta) and before.is_static


def same_dtype(op: PirOp, classes: AliasClasses) -> bool:
    """The op does not change the dtype."""
    return _dtype(op.operands[0]) is _dtype(op.results[0])


def on_bools(op: PirOp, classes: AliasClasses) -> bool:
    """The operand is boolean, so that conversion to bool changes nothing."""
    return _dtype(op.operands[0]) is dt.bool_


def integer_scale(op: PirOp, classes: AliasClasses) -> bool:
    """`x * 1 + b` where adding `b` changes nothing: 0 for integers, -0.0 for floats."""
    scale = attribute_of(op, "scale", classes)
    dtype = _dtype(op.operands[0])
    if scale is UNKNOWN_VALUE or scale != 1 or dtype.is_complex:
        return False
    return is_zero_to_add(np.float64(op.attribute("bias")), dtype)


def to_first_power(op: PirOp, classes: AliasClasses) -> bool:
    """The exponent is an integer 1; with floats, the result depends on a library function."""
    return op.attribute("y") == 1 and _dtype(op.operands[0]).is_integer


def in_order(op: PirOp, classes: AliasClasses) -> bool:
    """The permutation is the identity."""
    perm = op.attribute("perm")
    return all(axis % len(perm) == i for i, axis in enumerate(perm))


def shape_without_copies(op: PirOp, classes: AliasClasses) -> bool:
    """No entry of the shape refers to a dimension of the operand, as 0 does."""
    shape = attribute_of(op, "shape", classes)
    return shape is not UNKNOWN_VALUE and 0 not in shape


def preserves_rank(op: PirOp, classes: AliasClasses) -> bool:
    """All repeats are 1 and there are no more of them than dimensions."""
    repeats = attribute_of(op, "repeat_times", classes)
    meta = meta_of(op.operands[0].type)
    known = repeats is not UNKNOWN_VALUE and isinstance(meta, TensorMeta)
    return known and len(repeats) <= cast(TensorMeta, meta).rank and all(r == 1 for r in repeats)


def is_zero_to_add(number: Any, dtype: DType) -> bool:
    """0 for integers and bools; only -0.0 for floats."""
    if dtype.is_float:
        return bool(number == 0 and np.signbit(number))
    return not dtype.is_complex and bool(number == 0)


def is_zero_to_subtract(number: Any, dtype: DType) -> bool:
    """0 for integers; only 0.0 for floats."""
    if dtype.is_float:
        return bool(number == 0 and not np.signbit(number))
    return dtype.is_integer and bool(number == 0)


def is_one(number: Any, dtype: DType) -> bool:
    """1 of a real dtype: complex multiplication mixes the parts, and spreads NaN and infinity."""
    return not dtype.is_complex and bool(number == 1)


def is_float_one(number: Any, dtype: DType) -> bool:
    """1.0; integer division has its own rounding."""
    return dtype.is_float and bool(number == 1)


def _dtype(value: SSAValue) -> DType:
    meta = meta_of(value.type)
    return meta.dtype if isinstance(meta, TensorMeta) else dt.bool_


# --- the table ------------------------------------------------------------------------------------


REWRITE_RULES: Final = (
    RewriteRule("pd_op.add", "x + (-0) = x", operand("x", filled("y", is_zero_to_add))),
    RewriteRule("pd_op.add", "(-0) + y = y", operand("y", filled("x", is_zero_to_add))),
    RewriteRule("pd_op.subtract", "x - 0 = x", operand("x", filled("y", is_zero_to_subtract))),
    RewriteRule("pd_op.multiply", "x * 1 = x", operand("x", filled("y", is_one))),
    RewriteRule("pd_op.multiply", "1 * y = y", operand("y", filled("x", is_one))),
    RewriteRule("pd_op.divide", "x / 1 = x", operand("x", filled("y", is_float_one))),
    RewriteRule("pd_op.scale", "x * 1 + (-0) = x", operand("x", integer_scale)),
    RewriteRule("pd_op.pow", "x ** 1 = x", operand("x", to_first_power)),
    RewriteRule("pd_op.logical_not", "not not x = x", inner_operand(on_bools)),
    RewriteRule("pd_op.where", "c ? x : x = x", operand("x", same("x", "y"))),
    RewriteRule("pd_op.assign", "copy of x = x", operand("x", always)),
    RewriteRule("pd_op.share_data", "name for x = x", operand("x", always)),
    RewriteRule("pd_op.cast", "cast to its own dtype = x", operand("x", same_dtype)),
    RewriteRule("pd_op.cast", "cast to a wider dtype and back = x", _widened_and_back),
    RewriteRule("pd_op.transpose", "transpose in order = x", operand("x", in_order)),
    RewriteRule("pd_op.transpose", "transpose of transpose = transpose", _composed_transpose),
    RewriteRule("pd_op.transpose", "(x y)' = y' x'", _transposed_matmul),
    RewriteRule("pd_op.matmul", "matmul of transpose = transposed matmul", _matmul_of_transposes),
    RewriteRule("pd_op.reshape", "reshape of reshape = reshape", past_inner(shape_without_copies)),
    RewriteRule("pd_op.reshape", "x in its own shape = x", operand("x", same_type)),
    RewriteRule("pd_op.squeeze", "x in its own shape = x", operand("x", same_type)),
    RewriteRule("pd_op.flatten", "x in its own shape = x", operand("x", same_type)),
    RewriteRule("pd_op.expand", "x in its own shape = x", operand("x", same_type)),
    RewriteRule("pd_op.expand_as", "x in its own shape = x", operand("x", same_type)),
    RewriteRule("pd_op.tile", "x once = x", operand("x", preserves_rank)),
    RewriteRule("pd_op.concat", "concat of one = it", _only_element),
)
"""The rules in the order in which they are tried. `may_replace` must allow each replacement."""

OF_TRAITS: Final = {
    SELECTIVE: ("f(x, x) = x", operand("x", same("x", "y"))),
    IDEMPOTENT: ("f(f(x)) = f(x)", inner_result(always)),
    INVOLUTION: ("f(f(x)) = x", inner_operand(always)),
}
"""Trait -> the rule that holds for every op with the trait, those of plug-ins included."""


def all_rewrite_rules() -> Iterator[RewriteRule]:
    """The rules of the table, then those that follow from the traits of the ops."""
    yield from REWRITE_RULES
    for definition in all_ops():
        yield from _of_traits(definition)


@cache
def rules_of(definition: OpDef) -> tuple[RewriteRule, ...]:
    """The rules of an op, in the order in which they are tried."""
    listed = [rule for rule in REWRITE_RULES if rule.op == definition.name]
    return (*listed, *_of_traits(definition))


def _of_traits(definition: OpDef) -> Iterator[RewriteRule]:
    for trait, (equation, find) in OF_TRAITS.items():
        if trait in definition.traits:
            yield RewriteRule(definition.name, equation, find)
