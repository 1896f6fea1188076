"""Serializes plans as JSON data, for the cache.

`pack_plan` and `unpack_plan` are inverses. Entries are authenticated (see `native/cache.py`) and
still validated: an inconsistent one counts as a miss.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from pirkit.diag.span import Span
from pirkit.runtime.dtype import BY_NAME, DType
from pirkit.runtime.meta import Meta, TensorMeta, TokenMeta, VecMeta
from pirkit.runtime.place import Place
from pirkit.runtime.plan import (
    Call,
    Copy,
    HostArgument,
    If,
    Instruction,
    Operand,
    Output,
    Plan,
    Port,
    Stack,
    While,
    instructions,
    reads,
    slots_of,
    writes,
)


class NotSerializableError(Exception):
    """A plan contains a value that cannot be serialized; the message names its type."""


def pack_plan(plan: Plan) -> dict[str, Any]:
    """A plan as JSON data. Raises NotSerializableError for other values."""
    return {
        "name": plan.name,
        "slots": [_meta(m) for m in plan.slots],
        "inputs": [[p.name, p.slot, _meta(p.meta)] for p in plan.inputs],
        "params": [[p.name, p.slot, _meta(p.meta)] for p in plan.params],
        "outputs": [[o.name, o.source, _meta(o.meta)] for o in plan.outputs],
        "body": _pack_body(plan.body),
        "written": plan.written,
    }


def unpack_plan(data: Any) -> Plan | None:
    """The inverse of `pack_plan`; None for invalid data."""
    try:
        plan = Plan(
            name=_text(data["name"]),
            slots=tuple([_read_meta(m) for m in data["slots"]]),
            inputs=tuple([_read_port(p) for p in data["inputs"]]),
            params=tuple([_read_port(p) for p in data["params"]]),
            outputs=tuple([_read_output(o) for o in data["outputs"]]),
            body=_read_body(data["body"]),
            written=tuple([_text(n) for n in data["written"]]),
        )
    except (KeyError, TypeError, ValueError, LookupError, struct.error, RecursionError):
        return None
    return plan if _is_consistent(plan) else None


def _is_consistent(plan: Plan) -> bool:
    """Whether every slot number is in range."""
    ports = (*plan.inputs, *plan.params)
    used = {p.slot for p in ports} | set(slots_of(o.source for o in plan.outputs))
    for instruction in instructions(plan.body):
        used.update(reads(instruction), writes(instruction), instruction.frees)
        if isinstance(instruction, Stack):
            used.add(instruction.slot)
    return all(0 <= slot < len(plan.slots) for slot in used)


# --- instructions --------------------------------------------------------------------------------


def _pack_body(body: Sequence[Instruction]) -> list[list[Any]]:
    return [[type(i).__name__, *_PACKERS[type(i)](i)] for i in body]


def _read_body(data: Any) -> tuple[Instruction, ...]:
    return tuple([_READERS[kind](*fields) for kind, *fields in data])


def _pack_call(c: Call) -> list[Any]:
    attrs = {name: _value(value) for name, value in c.attrs.items()}
    host = [[h.name, h.source, h.kind] for h in c.host]
    places = [c.frees, c.random, c.is_ordered, pack_span(c.span), c.origin, c.part_of]
    return [c.kernel, c.inputs, c.outputs, attrs, host, *places]


def _read_call(
    kernel: Any, inputs: Any, outputs: Any, attrs: Any, host: Any,
    frees: Any, random: Any, is_ordered: Any, span: Any, origin: Any, part_of: Any,
) -> Call:  # fmt: skip
    return Call(
        kernel=_text(kernel),
        inputs=_operands(inputs),
        outputs=_operands(outputs),
        attrs={name: _read_value(value) for name, value in _table(attrs).items()},
        host=tuple([HostArgument(_text(n), _operand(s), _text(k)) for n, s, k in host]),
        frees=_numbers(frees),
        random=None if random is None else _number(random),
        is_ordered=_flag(is_ordered),
        span=read_span(span),
        origin=tuple([_text(note) for note in origin]),
        part_of=_text(part_of),
    )


def _pack_copy(c: Copy) -> list[Any]:
    return [c.sources, c.targets, c.frees, pack_span(c.span)]


def _read_copy(sources: Any, targets: Any, frees: Any, span: Any) -> Copy:
    return Copy(_operands(sources), _operands(targets), _numbers(frees), read_span(span))


def _pack_if(i: If) -> list[Any]:
    return [i.condition, _pack_body(i.then), _pack_body(i.orelse), i.frees, pack_span(i.span)]


def _read_if(condition: Any, then: Any, orelse: Any, frees: Any, span: Any) -> If:
    bodies = _read_body(then), _read_body(orelse)
    return If(_number(condition), *bodies, _numbers(frees), read_span(span))


def _pack_while(w: While) -> list[Any]:
    return [w.condition, _pack_body(w.body), w.frees, pack_span(w.span)]


def _read_while(condition: Any, body: Any, frees: Any, span: Any) -> While:
    return While(_number(condition), _read_body(body), _numbers(frees), read_span(span))


def _pack_stack(s: Stack) -> list[Any]:
    return [s.action, s.slot, s.inputs, s.outputs, s.frees, pack_span(s.span), s.numbers]


def _read_stack(
    action: Any, slot: Any, inputs: Any, outputs: Any, frees: Any, span: Any, numbers: Any
) -> Stack:
    sides = _operands(inputs), _operands(outputs)
    trailing = _numbers(frees), read_span(span)
    return Stack(_text(action), _number(slot), *sides, *trailing, _numbers(numbers))


_PACKERS: Final[dict[type, Callable[[Any], list[Any]]]] = {
    Call: _pack_call,
    Copy: _pack_copy,
    If: _pack_if,
    While: _pack_while,
    Stack: _pack_stack,
}
_READERS: Final[dict[str, Callable[..., Instruction]]] = {
    "Call": _read_call,
    "Copy": _read_copy,
    "If": _read_if,
    "While": _read_while,
    "Stack": _read_stack,
}


# --- ports ---------------------------------------------------------------------------------------


def _read_port(data: Any) -> Port:
    name, slot, meta = data
    return Port(_text(name), _number(slot), _read_meta(meta))


def _read_output(data: Any) -> Output:
    name, source, meta = data
    return Output(_text(name), _operand(source), _read_meta(meta))


# --- values --------------------------------------------------------------------------------------


def _value(value: Any) -> Any:
    """An attribute: numbers, strings and tuples as they are, other types as a tagged object."""
    kind = cast("type[Any]", type(value))
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": struct.pack("<d", value).hex()}
    if kind is tuple:
        return [_value(v) for v in value]
    if kind is list:
        return {"list": [_value(v) for v in value]}
    if kind is complex:
        return {"complex": struct.pack("<dd", value.real, value.imag).hex()}
    if kind is DType:
        return {"dtype": value.name}
    if kind is Place:
        return {"place": [value.kind, value.device]}
    raise NotSerializableError(f"an attribute of a plan is a {kind.__name__}")


def _read_value(data: Any) -> Any:
    if isinstance(data, list):
        return tuple([_read_value(v) for v in cast("list[Any]", data)])
    if not isinstance(data, dict):
        return data
    ((kind, packed),) = cast("dict[str, Any]", data).items()
    return _VALUES[kind](packed)


def _read_list(packed: Any) -> list[Any]:
    return [_read_value(v) for v in packed]


def _read_place(packed: Any) -> Place:
    kind, device = packed
    return Place(_text(kind), _number(device))


_VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "float": lambda packed: struct.unpack("<d", bytes.fromhex(packed))[0],
    "list": _read_list,
    "complex": lambda packed: complex(*struct.unpack("<dd", bytes.fromhex(packed))),
    "dtype": lambda packed: BY_NAME[packed],
    "place": _read_place,
}


def _meta(meta: Meta) -> list[Any]:
    """A tensor as its element type and sizes; a list and a token begin with a tag."""
    match meta:
        case TensorMeta():
            return [meta.dtype.name, *meta.shape]
        case VecMeta():
            return ["[]", *(_meta(m) for m in meta.items)]
        case TokenMeta():
            return ["token", meta.kind]


def _read_meta(data: Any) -> Meta:
    first, *rest = data
    if first == "[]":
        return VecMeta(tuple([_read_tensor(m) for m in rest]))
    if first == "token":
        (kind,) = rest
        return TokenMeta(_text(kind))
    return _read_tensor(data)


def _read_tensor(data: Any) -> TensorMeta:
    name, *shape = data
    return TensorMeta(_numbers(shape), BY_NAME[name])


def pack_span(span: Span | None) -> list[Any] | None:
    """Where something was written, as plain data."""
    return None if span is None else [span.file, span.line, span.column, span.length]


def read_span(data: Any) -> Span | None:
    """The inverse of `pack_span`. Raises TypeError and ValueError for anything else."""
    if data is None:
        return None
    file, line, column, length = data
    return Span(_text(file), _number(line), _number(column), _number(length))


def _operand(data: Any) -> Operand:
    if data is None:
        return None
    return _numbers(data) if isinstance(data, list) else _number(data)


def _operands(data: Any) -> tuple[Operand, ...]:
    return tuple([_operand(o) for o in data])


def _numbers(data: Any) -> tuple[int, ...]:
    return tuple([_number(n) for n in data])


def _number(data: Any) -> int:
    if type(data) is not int:
        raise TypeError
    return data


def _flag(data: Any) -> bool:
    if type(data) is not bool:
        raise TypeError
    return data


def _table(data: Any) -> dict[str, Any]:
    if type(data) is not dict:
        raise TypeError
    return cast("dict[str, Any]", data)


def _text(data: Any) -> str:
    if type(data) is not str:
        raise TypeError
    return data
