"""Which types a program may state for the results of an operation.

Paddle states some types that its kernels do not make. Programs that do so are accepted as they are,
so that they can be read, run and written back.
"""

from __future__ import annotations

from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.opdef import paddle_meta
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta, compatible


def may_state(op: PirOp, slot: int, made: Meta) -> bool:
    """True if the result in ``slot`` may have its type although ``infer_meta`` says ``made``.

    An empty slot may, and a type that agrees with ``made``.
    """
    result = op.result_slots[slot]
    if result is None:
        return True
    stated = meta_of(result.type)
    return (
        compatible(stated, made)
        or (_is_by_product(op, slot) and _is_unset(stated, made))
        or _starts_loop(op)
        or (op.name == "pd_op.scale" and _are_numbers(stated, made))
        or _paddle_says_so(op, slot, stated)
    )


def _is_by_product(op: PirOp, slot: int) -> bool:
    results = op.definition.results
    return results[min(slot, len(results) - 1)].intermediate


def _is_unset(stated: Meta, made: Meta) -> bool:
    """True for a by-product that is left empty: Paddle's JSON states it without dimensions."""
    if isinstance(stated, VecMeta) and isinstance(made, VecMeta):
        return len(stated) == len(made) and all(map(_is_unset, stated.items, made.items))
    if not isinstance(stated, TensorMeta) or not isinstance(made, TensorMeta):
        return False
    return (stated.shape, made.shape) == ((), (0,)) and stated.dtype is made.dtype


def _are_numbers(stated: Meta, made: Meta) -> bool:
    """True for tensors of one element and different ranks.

    The gradient of a term of `add_n` is a `scale` by one, to which Paddle gives the term's type.
    """
    if not isinstance(stated, TensorMeta) or not isinstance(made, TensorMeta):
        return False
    return stated.numel == made.numel == 1 and stated.dtype is made.dtype


def _starts_loop(op: PirOp) -> bool:
    """True for the number that Paddle puts where a variable that the loop defines has no value yet.

    It states the type that the variable has inside the loop.
    """
    if op.name != "pd_op.full" or op.attribute("shape"):
        return False
    return any(use.operation.name == "pd_op.while" for use in op.results[0].uses)


def _paddle_says_so(op: PirOp, slot: int, stated: Meta) -> bool:
    """True if a result has the type that Paddle states for it, though its kernel gives another."""
    theirs = _theirs(op, slot)
    return theirs is not None and (compatible(stated, theirs) or _is_unset(stated, theirs))


def is_left_empty(op: PirOp, slot: int) -> bool:
    """True for a result to which Paddle gives no sizes, because the call does not change it."""
    theirs = _theirs(op, slot)
    return isinstance(theirs, TensorMeta) and theirs.shape == (0,)


def _theirs(op: PirOp, slot: int) -> Meta | None:
    """What Paddle states for a result, where that is known to differ from what is made."""
    definition = op.definition
    if paddle_meta.get(definition) is None:
        return None
    found = infer_result_types(definition, op.operand_slots, op.properties, paddle_meta)[slot]
    return None if found is None else meta_of(found)
