"""Derivatives of tensor arrays, the lists that loops of Paddle's programs append to.

An array of cotangents stands beside each array. The reverse of a read adds to a place, and the
reverse of a write takes the cotangent from its place and leaves zeros there. So a place that is
written twice, or an array that the next iteration of a loop makes again, starts from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from xdsl.ir import Block, SSAValue

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp, create, span_of
from pirkit.dialect.ops.control.tensor_array import SAME_ARRAY
from pirkit.dialect.types import tensor_type
from pirkit.passes.autodiff_regions import Sweep
from pirkit.passes.autodiff_support import Cotangent
from pirkit.runtime import dtype as dt


def differentiate_array(back: Sweep, op: PirOp, held: Sequence[Cotangent]) -> None:
    """Emit the reverse of an op on an array through which gradients flow."""
    if op.operands[0] not in back.shared.paths.active:
        return
    named = {
        slot.name: cotangent
        for slot, cotangent in zip(op.definition.results, held, strict=True)
        if cotangent is not None
    }
    _RULES[op.name](back, op, named.get("out"))


def _written(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    _, x, place = op.operands
    _give(back, op, "pir.array_claim", x, place)


def _added(peek: str, back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    _, x, which = op.operands
    if x in back.shared.paths.active:
        _give(back, op, peek, x, which)


def _give(back: Sweep, op: PirOp, name: str, x: SSAValue, which: SSAValue) -> None:
    """Add the entry of the array of cotangents to the cotangent of ``x``."""
    # not `zeros_like`: what comes out of an array may have another shape than Paddle declares
    zeros = back.b("pd_op.full_like", back.b.wrap(x), value=0.0)
    operands = [_beside(back, op.operands[0]), which, zeros.ssa]
    attributes = {n: a for n, a in op.properties.items() if n in ("axis", "use_stack")}
    found = back.b.insert(create(name, operands, [x.type], attributes)).results[0]
    if x in back.shared.paths.active:
        back.add(x, back.b.wrap(found))


def _claimed(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    """Nothing is left at the place after the op, so nothing flows to it from there."""
    array, place, zeros = op.operands
    beside = _beside(back, array)
    emptied = create("pir.array_claim", [beside, place, zeros], [zeros.type])
    back.b.insert(emptied)
    if cotangent is not None:
        back.b.insert(create("pir.array_add", [beside, _ssa(cotangent), place]))


def _inverse(inverse: str, back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    array, place = op.operands
    back.b.insert(create(inverse, [_beside(back, array), place]))


def _read(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    if cotangent is not None:
        array, place = op.operands
        back.b.insert(create("pir.array_add", [_beside(back, array), _ssa(cotangent), place]))


def _read_from_either_end(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    if cotangent is not None:
        array, place = op.operands
        forward, length = _length_behind(back, op)
        place = forward("pd_op.remainder", forward.wrap(place), length).ssa
        back.b.insert(create("pir.array_add", [_beside(back, array), _ssa(cotangent), place]))


def _popped(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    index, beside = op.attribute("index"), _beside(back, op.operands[0])
    forward, length = _length_behind(back, op)
    place = (length + (index + 1)).ssa
    if index >= 0:
        place = forward.full(shape=(1,), value=float(index), dtype=dt.int64).ssa
    if index != -1:
        back.b.insert(create("pir.array_open", [beside, place]))
    if cotangent is not None:
        back.b.insert(create("pir.array_add", [beside, _ssa(cotangent), place]))


def _length_behind(back: Sweep, op: PirOp) -> tuple[Builder, Value]:
    """The length of the array after an op of the forward, and a builder at that place."""
    block, after = cast(Block, op.parent), cast(PirOp, op.next_op)
    forward = Builder(block, after, location=op.location, attributes=back.b.attributes)
    length = create("pd_op.array_length", [op.operands[0]], [tensor_type((1,), dt.int64)])
    return forward, forward.wrap(forward.insert(length).results[0])


def _joined(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    if cotangent is not None:
        sizes = cast(SSAValue, op.result_slots[1])
        operands = [_beside(back, op.operands[0]), _ssa(cotangent), sizes]
        attributes = {name: op.properties[name] for name in ("axis", "use_stack")}
        back.b.insert(create("pir.array_add_parts", operands, (), attributes))


def _peeked(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    if cotangent is not None:
        array, place, _ = op.operands
        back.b.insert(create("pir.array_add", [_beside(back, array), _ssa(cotangent), place]))


def _peeked_parts(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    if cotangent is not None:
        array, sizes, _ = op.operands
        operands = [_beside(back, array), _ssa(cotangent), sizes]
        back.b.insert(create("pir.array_add_parts", operands, (), dict(op.properties)))


def _nothing(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    pass


def _refused(back: Sweep, op: PirOp, cotangent: Cotangent) -> None:
    raise UnsupportedError(
        f"`{op.name}` has no derivative, as in Paddle",
        code="PK0402",
        span=span_of(op),
        help="differentiate the program before it, with `array_to_tensor`, twice",
    )


_RULES: Final[dict[str, Callable[[Sweep, PirOp, Cotangent], None]]] = {
    "pd_op.create_array": _nothing,
    "pd_op.array_length": _nothing,
    "pd_op.array_write_": _written,
    "pd_op.array_read": _read,
    "pd_op.slice_array_dense": _read_from_either_end,
    "pd_op.array_pop": _popped,
    "pd_op.array_to_tensor": _joined,
    "pd_op.tensor_to_array": _refused,
    "pir.array_add": partial(_added, "pir.array_peek"),
    "pir.array_add_parts": partial(_added, "pir.array_peek_parts"),
    "pir.array_claim": _claimed,
    "pir.array_peek": _peeked,
    "pir.array_peek_parts": _peeked_parts,
    "pir.array_open": partial(_inverse, "pir.array_close"),
    "pir.array_close": partial(_inverse, "pir.array_open"),
}


def _beside(back: Sweep, array: SSAValue) -> SSAValue:
    """The array of cotangents of an array, which is made before the whole reverse sweep."""
    owner = array.owner
    while isinstance(owner, PirOp) and owner.name in SAME_ARRAY:
        array = owner.operands[0]
        owner = array.owner
    if not isinstance(owner, PirOp):
        raise UnsupportedError(
            "an array of tensors that a loop or branch hands on has no derivative",
            code="PK0402",
            help="append to a list that is made outside of the loop",
        )
    held = back.shared.arrays
    if array not in held:
        made = create("pd_op.create_array", (), [array.type], dict(owner.properties))
        held[array] = back.shared.top.insert(made).results[0]
    return held[array]


def _ssa(cotangent: Any) -> SSAValue:
    return cast(SSAValue, cotangent.ssa)
