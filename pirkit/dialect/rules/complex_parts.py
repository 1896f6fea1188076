"""How each operation computes with the parts of complex numbers; see `split-complex`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from pirkit.dialect.attrs import encode
from pirkit.dialect.complex_algebra import ComplexAlgebra, Part
from pirkit.dialect.infer import fill_value
from pirkit.dialect.kinds import DATA_MOVEMENT
from pirkit.dialect.op_form import OPERAND_SEGMENTS, RESULT_SEGMENTS
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import OpDef, complex_parts
from pirkit.dialect.operation import create
from pirkit.dialect.signature import INT_KINDS
from pirkit.dialect.types import meta_of, type_of
from pirkit.dialect.value import Parts, Value
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import REAL_OF
from pirkit.runtime.meta import TensorMeta

_MOST_PRODUCTS: Final = 64
"""Exponents up to which a power is made of products."""


def _each_part(c: OpCall, *given: Any) -> Any:
    """The operation on each part of its complex operands alone; others are the same for both."""
    if _element_of(c.op.results[0]) not in REAL_OF:
        return NotImplemented  # such as places of what is not 0, which depend on both parts
    lists = [_listed(g) for g in given]
    flat = [p for listed in lists for p in listed if isinstance(p, Parts)]
    found: list[Part] = []
    for k in (0, 1):
        found.append(None if all(p[k] is None for p in flat) else _again(c, k, lists))
    return Parts(*found)


def _listed(given: Any) -> Sequence[Any]:
    """The elements of a list, or one operand as the only element."""
    if isinstance(given, Parts) or not isinstance(given, tuple):
        return [given]
    return cast("Sequence[Any]", given)


def _again(c: OpCall, k: int, lists: Sequence[Sequence[Any]]) -> Value:
    """A copy of an operation on parts ``k`` of its operands."""
    b, parts = c.b, iter(lists)

    def part(given: Any) -> Value:
        if not isinstance(given, Parts):
            return given
        chosen = given[k]
        return b.zeros_like(given.known()) if chosen is None else chosen

    slots: list[Any] = []
    for slot, held in zip(c.definition.operands, c.op.operand_slots, strict=False):
        listed = next(parts) if slot.kind is None else None
        if listed is None or held is None or listed == (None,):
            slots.append(held)
        elif slot.is_vec:
            slots.append(b.combine([part(p) for p in listed]).ssa)
        else:
            slots.append(part(listed[0]).ssa)
    form = (OPERAND_SEGMENTS, RESULT_SEGMENTS)
    properties = {n: v for n, v in c.op.properties.items() if n not in form}
    if properties.get("dtype") is not None and c.op.attribute("dtype") in REAL_OF:
        kind = c.definition.attr_kinds["dtype"]
        properties["dtype"] = encode(kind, REAL_OF[c.op.attribute("dtype")])
    types = [None if r is None else _real_type(r) for r in c.op.result_slots]
    return b.wrap(
        b.insert(create(c.definition, slots, types, properties, None, c.op.location)).results[0]
    )


def _element_of(value: Any) -> Any:
    meta = meta_of(value.type)
    return meta.dtype if isinstance(meta, TensorMeta) else None


def _real_type(value: Any) -> Any:
    meta = meta_of(value.type)
    if not isinstance(meta, TensorMeta):
        return value.type
    return type_of(meta.with_dtype(REAL_OF.get(meta.dtype, meta.dtype)))


def _moves_alone(definition: OpDef) -> Callable[..., Any] | None:
    """Operations that only move elements, of no attribute that is an element or an operation."""
    allowed = {*INT_KINDS, "bool", "intarray", "i32[]", "i64[]", "dtype", "place"}
    is_plain = definition.kind in DATA_MOVEMENT and len(definition.results) == 1
    return _each_part if is_plain and allowed.issuperset(definition.attr_kinds.values()) else None


complex_parts.otherwise = _moves_alone
complex_parts(*[f"pd_op.{name}" for name in ("assign", "cumsum", "mean", "reduce_as", "sum")])(
    _each_part
)


def _by(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that reads parts only."""

    def of_parts(call: OpCall, *given: Any) -> Any:
        return rule(ComplexAlgebra(call.b), *_numbers(call, given))

    return of_parts


def _numbers(c: OpCall, given: Sequence[Parts | Value]) -> list[Parts]:
    """Operands as parts; a real one, whose type may be another, has no imaginary part."""
    real = next(p.known().dtype for p in given if isinstance(p, Parts))
    return [
        p if isinstance(p, Parts) else Parts(p if p.dtype.is_float else c.b.cast(p, real), None)
        for p in given
    ]


_ALGEBRA: Final[dict[str, Callable[..., Any]]] = {
    "add": ComplexAlgebra.sum,
    "subtract": ComplexAlgebra.difference,
    "multiply": ComplexAlgebra.product,
    "divide": ComplexAlgebra.quotient,
    "abs": ComplexAlgebra.size,
    **{
        name: getattr(ComplexAlgebra, name)
        for name in (
            *("real", "imag", "conj", "sign", "isnan", "isinf", "isfinite", "exp", "expm1", "log"),
            *("log1p", "sqrt", "sigmoid", "tan", "tanh", "sin", "cos", "sinh", "cosh"),
        )
    },
}
for _name, _rule in _ALGEBRA.items():
    complex_parts(f"pd_op.{_name}")(_by(_rule))


@complex_parts("pd_op.shape", "pd_op.shape64")
def _(c: OpCall, x: Parts) -> Value:
    return c.b(c.op.name, x.known())


@complex_parts("pd_op.matmul")
def _(c: OpCall, x: Parts, y: Parts) -> Parts:
    def by(u: Part, v: Part) -> Part:
        if u is None or v is None:
            return None
        transposes = {"transpose_x": c.transpose_x, "transpose_y": c.transpose_y}
        return c.b.matmul(u, v, **transposes)

    return ComplexAlgebra(c.b).product(x, y, by)


@complex_parts("pd_op.scale")
def _(c: OpCall, x: Parts) -> Any:
    if isinstance(c.scale, Value):
        return NotImplemented
    factor, bias = complex(c.scale), c.bias

    def times(part: Part, number: float) -> Part:
        return None if part is None or number == 0 else c.b.scaled(part, number)

    if bias and not c.bias_after_scale:
        x = Parts(c.b.like(bias, x.known()) if x.real is None else x.real + bias, x.imag)
    a = ComplexAlgebra(c.b)
    real = a.sub(times(x.real, factor.real), times(x.imag, factor.imag))
    imag = a.add(times(x.real, factor.imag), times(x.imag, factor.real))
    if bias and c.bias_after_scale:
        real = c.b.like(bias, x.known()) if real is None else real + bias
    return Parts(real, imag) if (real, imag) != (None, None) else _zero(c, x)


def _zero(c: OpCall, x: Parts) -> Parts:
    return Parts(c.b.zeros_like(x.known()), None)


def _raised(a: ComplexAlgebra, x: Parts, exponent: complex) -> Parts:
    if exponent == 0.5:
        return a.sqrt(x)
    if exponent == round(exponent.real) and abs(exponent) <= _MOST_PRODUCTS:
        return a.whole_power(x, round(exponent.real))
    like = partial(a.b.like, x=x.known())
    imag = like(exponent.imag) if exponent.imag else None
    return a.power(x, Parts(like(exponent.real), imag))


@complex_parts("pd_op.pow")
def _(c: OpCall, x: Parts) -> Parts:
    return _raised(ComplexAlgebra(c.b), x, c.y)


@complex_parts("pd_op.elementwise_pow")
def _(c: OpCall, x: Parts | Value, y: Parts | Value) -> Parts:
    x, y = _numbers(c, (x, y))
    number = fill_value(c.op.operands[1])
    if isinstance(number, int | float | complex) and x.known().shape == c.result_meta("out").shape:
        return _raised(ComplexAlgebra(c.b), x, number)
    return ComplexAlgebra(c.b).power(x, y)


@complex_parts("pd_op.where")
def _(c: OpCall, condition: Value | Parts, x: Parts, y: Parts) -> Any:
    return NotImplemented if isinstance(condition, Parts) else _each_part(c, condition, x, y)


@complex_parts("pd_op.cast")
def _(c: OpCall, x: Parts | Value) -> Any:
    to = c.op.attribute("dtype")
    if not isinstance(x, Parts):
        return Parts(c.b.cast(x, REAL_OF[to]), None)
    if to in REAL_OF:
        return Parts(*[None if p is None else c.b.cast(p, REAL_OF[to]) for p in x])
    if to is dt.bool_:
        return ComplexAlgebra(c.b).is_nonzero(x)
    return c.b.cast(ComplexAlgebra(c.b).real(x), to)


@complex_parts("pd_op.complex")
def _(c: OpCall, real: Value, imag: Value) -> Parts:
    parts = Parts(*[None if fill_value(p.ssa) == 0 else p for p in (real, imag)])
    return Parts(real, None) if parts == (None, None) else parts


@complex_parts("pd_op.as_complex")
def _(c: OpCall, x: Value) -> Parts:
    last = x.rank - 1
    flags = {"axes": (last,), "decrease_axis": (last,), "infer_flags": (1,)}
    return Parts(*[c.b.slice(x, starts=(k,), ends=(k + 1,), **flags) for k in (0, 1)])


@complex_parts("pd_op.as_real")
def _(c: OpCall, x: Parts) -> Value:
    a = ComplexAlgebra(c.b)
    parts = (a.real(x), a.imag(x))
    return c.b.concat([c.b.reshape(p, (*p.shape, 1)) for p in parts], axis=parts[0].rank)


@complex_parts("pd_op.pad")
def _(c: OpCall, x: Parts) -> Any:
    return NotImplemented if isinstance(c.pad_value, Value) or c.pad_value else _each_part(c, x)


@complex_parts("pd_op.put_along_axis")
def _(c: OpCall, x: Parts, places: Value, values: Parts) -> Any:
    is_linear = c.reduce in ("assign", "add")
    return _each_part(c, x, places, values) if is_linear else NotImplemented


@complex_parts("pd_op.equal", "pd_op.not_equal")
def _(c: OpCall, x: Parts | Value, y: Parts | Value) -> Value:
    b, (x, y) = c.b, _numbers(c, (x, y))
    pairs = [(p, q) for p, q in zip(x, y, strict=True) if p is not None or q is not None]
    found: list[Value] = []
    for p, q in pairs:
        zero = b.zeros_like(Parts(p, q).known())
        found.append(b(c.op.name, zero if p is None else p, zero if q is None else q))
    if len(found) == 1:
        return found[0]
    return (b.logical_and if c.op.name == "pd_op.equal" else b.logical_or)(*found)


@complex_parts("pd_op.full", "pd_op.full_like")
def _(c: OpCall, x: Parts | Value | None = None) -> Any:
    to = c.result_meta("out").dtype
    if isinstance(c.value, Value):
        return NotImplemented
    number = complex(c.value)

    def filled(part: float) -> Value:
        if x is None:
            return c.b.full(shape=c.shape, value=part, dtype=REAL_OF[to])
        like = x.known() if isinstance(x, Parts) else x
        return c.b.full_like(like, value=part, dtype=REAL_OF.get(to, to))

    if to not in REAL_OF:
        return filled(number.real)
    real = filled(number.real) if number.real or not number.imag else None
    return Parts(real, filled(number.imag) if number.imag else None)


@complex_parts("pd_op.assign_value")
def _(c: OpCall) -> Parts:
    numbers, to = [complex(v) for v in c.values], REAL_OF[c.result_meta("out").dtype]
    sides = ([v.real for v in numbers], [v.imag for v in numbers])
    real, imag = [
        c.b.assign_value(shape=c.shape, dtype=to, values=side) if k == 0 or any(side) else None
        for k, side in enumerate(sides)
    ]
    return Parts(real, imag)
