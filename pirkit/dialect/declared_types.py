"""The types that a program may declare for the results of an operation.

Paddle declares some types that its kernels do not produce. Such programs are accepted as they are,
so that they can be read, run and written back.
"""

from __future__ import annotations

from typing import Final

from xdsl.ir import SSAValue

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.gradient_names import forward_of, spelling
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.opdef import paddle_meta
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta, compatible, is_unset

POP: Final = "pd_op.array_pop"


def may_declare(op: PirOp, slot: int, made: Meta) -> bool:
    """True if the result in ``slot`` may have its declared type.

    ``made`` is the type by ``infer_meta``. An empty slot may have any type.
    """
    result = op.result_slots[slot]
    if result is None:
        return True
    declared = meta_of(result.type)
    return (
        compatible(declared, made)
        or is_unset_by_product(op, slot, made)
        or _starts_loop(op)
        or _is_part(op, slot, declared, made)
        or (op.name == "pd_op.scale" and _are_numbers(declared, made))
        or _paddle_says_so(op, slot, declared)
    )


def is_unset_by_product(op: PirOp, slot: int, made: Meta) -> bool:
    """True for a by-product that has no elements, and is declared without dimensions."""
    result, results = op.result_slots[slot], op.definition.results
    is_by_product = results[min(slot, len(results) - 1)].intermediate
    return is_by_product and result is not None and is_unset(meta_of(result.type), made)


def _are_numbers(declared: Meta, made: Meta) -> bool:
    """True for tensors of one element and different ranks.

    The gradient of a term of `add_n` is a `scale` by one, to which Paddle gives the term's type.
    """
    if not isinstance(declared, TensorMeta) or not isinstance(made, TensorMeta):
        return False
    return declared.numel == made.numel == 1 and declared.dtype is made.dtype


def _is_part(op: PirOp, slot: int, declared: Meta, made: Meta) -> bool:
    """True for a part, with its true type or left empty, of a list declared with another type."""
    if op.name == "pir.split" and is_unset(declared, made):
        return True
    maker = op.operand_slots[0].owner if op.name == "pir.split" and op.operand_slots[0] else None
    if not isinstance(maker, PirOp) or paddle_meta.get(maker.definition) is None:
        return False
    found = infer_result_types(maker.definition, maker.operand_slots, maker.call_properties)
    type_ = next(t for r, t in zip(maker.result_slots, found, strict=True) if r is op.operands[0])
    true = None if type_ is None else meta_of(type_)
    return isinstance(true, VecMeta) and compatible(declared, true.items[slot])


def parts_agree(vec: SSAValue, made: Meta) -> bool:
    """True if a list is only unpacked, into values whose declared types agree with ``made``."""
    splits = [use.operation for use in vec.uses]
    return isinstance(made, VecMeta) and all(
        isinstance(op, PirOp)
        and op.name == "pir.split"
        and all(
            part is None or any(f(meta_of(part.type), item) for f in (compatible, is_unset))
            for part, item in zip(op.result_slots, made.items, strict=True)
        )
        for op in splits
    )


def is_true(value: SSAValue) -> bool:
    """False for a result whose true type differs from the type that Paddle declares for it."""
    owner = value.owner
    if isinstance(owner, PirOp) and owner.name == POP:
        declared = meta_of(value.type)  # Paddle declares any element as one without elements
        return not isinstance(declared, TensorMeta) or declared.shape != (0,)
    if not isinstance(owner, PirOp) or paddle_meta.get(owner.definition) is None:
        return True
    made = infer_result_types(owner.definition, owner.operand_slots, owner.call_properties)
    type_ = next(t for r, t in zip(owner.result_slots, made, strict=True) if r is value)
    return type_ is None or compatible(meta_of(value.type), meta_of(type_))


def _starts_loop(op: PirOp) -> bool:
    """True for the number that Paddle uses for a loop variable that has no value yet.

    Its declared type is the type that the variable has inside the loop.
    """
    if op.name != "pd_op.full" or op.attribute("shape"):
        return False
    return any(use.operation.name == "pd_op.while" for use in op.results[0].uses)


def _paddle_says_so(op: PirOp, slot: int, declared: Meta) -> bool:
    """True if a result has Paddle's declared type, though its kernel produces another."""
    theirs = _theirs(op, slot)
    return theirs is not None and (compatible(declared, theirs) or is_unset(declared, theirs))


def is_left_empty(op: PirOp, slot: int) -> bool:
    """True for a result that Paddle declares without sizes, because the call does not change it."""
    theirs = _theirs(op, slot)
    return isinstance(theirs, TensorMeta) and theirs.shape == (0,)


def _theirs(op: PirOp, slot: int) -> Meta | None:
    """The type that Paddle declares for a result, if it is known to differ from the true one."""
    definition = op.definition
    if paddle_meta.get(definition) is None:
        return None
    found = infer_result_types(definition, op.operand_slots, op.call_properties, paddle_meta)[slot]
    return None if found is None else meta_of(found)


def has_mismatched_type(op: PirOp) -> bool:
    """True for a gradient op whose operands show that Paddle declared its forward op wrongly.

    Everything computed from a wrongly declared result is declared wrongly too; the sizes are known
    at run time.
    """
    forward = forward_of(op.definition)
    if forward is None or paddle_meta.get(forward) is None:
        return False
    names = spelling(op.definition, forward)
    held = dict(zip((o.name for o in op.definition.operands), op.operand_slots, strict=True))
    operands = [held.get(names.operands.get(o.name, "")) for o in forward.operands]
    if any(v is None and not o.optional for o, v in zip(forward.operands, operands, strict=True)):
        return False
    known = {a.name: op.properties[a.name] for a in forward.attrs if a.name in op.properties}
    try:
        made = infer_result_types(forward, operands, known)
    except ConstraintError:
        return False
    for result, type_ in zip(forward.results, made, strict=True):
        seed = held.get(names.seeds.get(result.name, ""))
        if seed is not None and type_ is not None:
            if not compatible(meta_of(seed.type), meta_of(type_)):
                return True
    return False
