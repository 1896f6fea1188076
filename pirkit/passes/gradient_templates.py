"""Decomposed gradient ops that a sweep copies, where a network repeats its layers.

A gradient op that is decomposed in a scope of its own (`gradient_ops`) becomes ops that depend on
the types of its operands and on its attributes alone, not on where the operands come from. So a
sweep decomposes one of several equal calls, and copies the ops for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from pirkit.dialect.build import ORDER, RULE, SOURCE, Builder, Value
from pirkit.dialect.opcall import DynamicAttribute
from pirkit.dialect.opdef import OpDef, decompose
from pirkit.dialect.operation import PirOp

SCOPED: Final[set[Callable[..., Any]]] = set()
"""Decompose rules that work in a scope of their own."""

_PROVENANCE: Final = (SOURCE, RULE, ORDER)
_Key = tuple[Any, ...]


class _Op(Struct, frozen=True):
    """One op, without its provenance; the sweep may still change the op itself."""

    cls: type[PirOp]
    operands: tuple[int, ...]
    result_types: tuple[Attribute, ...]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]


class _Template(Struct, frozen=True):
    """The ops of one call and its results by slot.

    Values are numbered: first the operands of the call, then the results of the ops.
    """

    ops: tuple[_Op, ...]
    results: tuple[int | None, ...]


class Templates:
    """The decomposed calls of one sweep."""

    def __init__(self) -> None:
        self._made: dict[_Key, _Template | None] = {}
        """None for a call whose ops read more than its operands."""

    def copied(self, b: Builder, key: _Key | None, named: Mapping[str, Any]) -> Any | None:
        """The results of a call by copies of the ops of an equal one; None if there is none."""
        template = None if key is None else self._made.get(key)
        if template is None:
            return None
        values = _operands(named)
        for op in template.ops:
            made = op.cls.create(
                operands=[values[v] for v in op.operands],
                result_types=op.result_types,
                properties=dict(op.properties),
                attributes=dict(op.attributes),
            )
            values += b.insert(made).results
        return tuple([None if v is None else b.wrap(values[v]) for v in template.results])

    def hold(
        self, key: _Key | None, named: Mapping[str, Any], ops: Sequence[PirOp], found: Any
    ) -> None:
        """Remember the ops of a call and its results, if they read nothing but its operands."""
        if key is None or key in self._made:
            return
        values = [*_operands(named), *(r for op in ops for r in op.results)]
        numbers: dict[SSAValue | None, int | None] = {None: None}
        for index, value in enumerate(values):
            numbers.setdefault(value, index)
        results = [v.ssa if isinstance(v, Value) else v for v in _slots(found)]
        is_closed = {*results, *(v for op in ops for v in op.operands)} <= numbers.keys()
        if not is_closed or any(op.regions for op in ops):
            self._made[key] = None
            return
        self._made[key] = _Template(
            tuple([_snapshot(op, numbers) for op in ops]), tuple([numbers[v] for v in results])
        )


def _snapshot(op: PirOp, numbers: Mapping[SSAValue | None, int | None]) -> _Op:
    return _Op(
        type(op),
        tuple([cast(int, numbers[v]) for v in op.operands]),
        tuple([r.type for r in op.results]),
        dict(op.properties),
        {k: v for k, v in op.attributes.items() if k not in _PROVENANCE},
    )


def key_of(gradient: OpDef, named: Mapping[str, Any], wanted: frozenset[str]) -> _Key | None:
    """The key of a call, which covers all that its ops depend on; None if it cannot.

    Equal operands count, because a rule may use that they are equal.
    """
    if decompose.get(gradient) not in SCOPED:
        return None
    first: dict[SSAValue, int] = {}
    parts: list[Any] = [gradient, wanted]
    for name, value in named.items():
        if _may_vary(value):
            return None
        if isinstance(value, Value):
            parts += (name, value.ssa.type, first.setdefault(value.ssa, len(first)))
        else:
            # By its text: 0.0 and -0.0 are equal, and so are 1 and True.
            parts += (name, repr(cast(object, value)))
    return tuple(parts)


def _may_vary(value: Any) -> bool:
    """True for a list of values, and for an attribute that is known only at run time or is an
    array, whose text does not show all elements.
    """
    if isinstance(value, list | tuple):
        return any(isinstance(item, Value) for item in cast("Sequence[Any]", value))
    return isinstance(value, DynamicAttribute | np.ndarray)


def _operands(named: Mapping[str, Any]) -> list[SSAValue]:
    return [v.ssa for v in named.values() if isinstance(v, Value)]


def _slots(found: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)
