"""The steps by which native code unpacks the arguments of a call (see `tree_call_ir.Step`).

`marshalling.caller` generates Python that does the same. Native code is faster, but cannot do all
of it: where it cannot, functions here return None or False, and a call or a step stays in Python.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CellType, NoneType
from typing import Any, Final

import numpy as np
from msgspec import Struct, field

from pirkit.frontend.generated_code import value_of
from pirkit.frontend.marshalling import Ways, is_like, reader
from pirkit.frontend.surroundings import Place, kind_of, kinds_in
from pirkit.frontend.tree import CONTAINERS, LEAF, Shape
from pirkit.runtime.native.program_ir import MAX_AXES
from pirkit.runtime.native.tree_call import Arguments
from pirkit.runtime.native.tree_call_ir import Found, Step, Use

_ITEMS: Final = {dict: Found.IN_DICT, list: Found.IN_LIST, tuple: Found.IN_TUPLE}
_NUMBERS: Final = {float: Use.FLOAT, int: Use.INT, bool: Use.BOOL}


def arguments_of(ways: Ways, names: Sequence[str]) -> Arguments | None:
    """The steps from a call to the inputs of a program; None if native code cannot do it.

    ``ways`` describes arguments, captured values and guards as `marshalling.caller` takes them.
    ``names`` are those of the keyword arguments, in the order of the call.
    """
    positions, keywords, leaves, static, order, roots, captured, guards = ways
    steps: list[Step] = []
    total = len(positions) + sum(isinstance(s, int) for s in static)
    shapes, kinds = iter(positions), iter(leaves)
    # In the order in which trees are flattened: by position, then by name in sorted order.
    labels = (*range(total), *sorted(keywords), *[s for s in static if isinstance(s, str)])
    for label in labels:
        at = label if isinstance(label, int) else total + names.index(label)
        if label in static:
            steps.append(Step(Found.ARGUMENT, at, use=Use.SAME, target=static[label]))
            continue
        shape = next(shapes) if isinstance(label, int) else keywords[label]
        if not _take(steps, shape, Step(Found.ARGUMENT, at), kinds, order):
            return None
    places = _Places(steps, roots)
    inputs = [(captured[n], k) for k, n in enumerate(order) if n in captured]
    others = [(place, k) for place, k in inputs if not places.read(place.expression, k)]
    rest = [place for place in guards if not places.watch(place)]
    if others or rest:  # a Python function reads and checks those that native code cannot
        parent = len(steps)
        read = reader(roots, [place for place, _ in others], rest)
        steps.append(Step(Found.CALLED, read, type=tuple))
        for i, (_, k) in enumerate(others):
            steps.append(Step(Found.IN_TUPLE, i, parent, use=Use.OPERAND, target=k))
    return Arguments(total, tuple(names), steps)


def _take(steps: list[Step], shape: Shape, found: Step, leaves: Any, order: Sequence[str]) -> bool:
    """Add steps for a tree, whose root is ``found``; False if native code cannot do it."""
    if shape is None:
        steps.append(found._replace(type=NoneType))
        return True
    if shape == LEAF:
        name, kind, meta = next(leaves)
        if name not in order:  # the program does not use it: only its type and meta are checked
            check = partial(is_like, kind=kind, meta=meta)
            steps.append(found)
            steps.append(Step(Found.APPLIED, check, len(steps) - 1, use=Use.SAME, target=True))
            return True
        target = order.index(name)
        if issubclass(kind, complex | np.generic):
            scalar = found._replace(type=kind, use=Use.SCALAR, target=target)
            steps.append(scalar._replace(size=-meta.dtype.itemsize))
            return True
        known = kind if kind in _NUMBERS else None
        steps.append(found._replace(type=known, use=_NUMBERS.get(kind, Use.OPERAND), target=target))
        return True
    kind, keys, parts = shape
    parent, where = len(steps), _ITEMS.get(kind)
    fields = CONTAINERS[kind].fields
    places: Sequence[Any] = keys if kind is dict else range(len(parts))
    if where is not None or issubclass(kind, tuple):
        steps.append(found._replace(type=kind, size=len(parts)))
    elif fields is not None:
        steps.append(found._replace(type=kind))
        where, places = Found.ATTRIBUTE, [sys.intern(n) for n in fields[0]]
        for name, known in zip(fields[1], keys, strict=True):
            steps.append(Step(where, sys.intern(name), parent, use=Use.SAME, target=known))
    else:
        steps.append(found._replace(type=kind))
        taken = partial(_parts, flatten=CONTAINERS[kind].flatten, extra=keys)
        steps.append(Step(Found.APPLIED, taken, parent, type=tuple, size=len(parts)))
        parent += 1
    return all(
        _take(steps, part, Step(where or Found.IN_TUPLE, key, parent), leaves, order)
        for key, part in zip(places, parts, strict=True)
    )


def _parts(held: Any, flatten: Callable[[Any], tuple[Any, Any]], extra: Any) -> Any:
    """The parts of an object of a registered class; None if its static data is not ``extra``."""
    parts, found = flatten(held)
    return tuple(parts) if found == extra and kinds_in(found) == kinds_in(extra) else None


class _Places(Struct):
    """Adds steps to globals, closures and attributes; a prefix of two paths has one step."""

    steps: list[Step]
    roots: Mapping[str, Any]
    """The objects at which the expressions of places begin, by name."""
    known: dict[str, int] = field(default_factory=dict[str, int])
    """The number of the step of each expression so far."""

    def read(self, expression: str, target: int) -> bool:
        """Add the step that reads input ``target``; False if native code cannot do it."""
        at = self._step(ast.parse(expression, mode="eval").body)
        if at is None or self.steps[at].use is not Use.NOTHING:
            return False
        self.steps[at] = self.steps[at]._replace(use=Use.OPERAND, target=target)
        return True

    def watch(self, place: Place) -> bool:
        """Add the step that checks whether a place has changed; False if native code cannot."""
        node = ast.parse(place.expression, mode="eval").body
        if place.version is not None:
            return False
        match node:
            case ast.Call(ast.Name("len"), [inner]):
                return self._sized(inner, place.value) is not None
            case ast.Call(ast.Attribute(inner, "tobytes")):
                return self._content(inner)
            case ast.Call():
                return False
            case _:
                pass
        at = self._step(node)
        if at is None or self.steps[at].use not in (Use.NOTHING, Use.SAME):
            return False
        self.steps[at] = self.steps[at]._replace(use=Use.SAME, target=place.value)
        return True

    def _content(self, node: ast.expr) -> bool:
        """Add the step that compares the bytes of an array; False if native code cannot do it."""
        array, at = self._value(node), self._step(node)
        plain = type(array) is np.ndarray and array.flags.c_contiguous and array.flags.aligned
        if at is None or not plain or array.dtype.kind not in "biufc" or array.ndim > MAX_AXES:
            return False
        self.steps.append(Step(Found.PARENT, 0, at, use=Use.CONTENT, target=array.copy()))
        return True

    def _sized(self, node: ast.expr, size: int) -> int | None:
        """The step to a dict, list or tuple (no subclass) of ``size`` elements, any if negative.

        Returns its number; None for another class.
        """
        kind, at = kind_of(self._value(node)), self._step(node)
        if at is None or kind not in (dict, list, tuple):
            return None
        size = self.steps[at].size if size < 0 else size
        self.steps[at] = self.steps[at]._replace(type=kind, size=size)
        return at

    def _value(self, node: ast.expr) -> Any:
        return value_of(ast.unparse(node), self.roots)

    def _step(self, node: ast.expr) -> int | None:
        """The number of the step to an expression, added if there is none; None if impossible."""
        text = ast.unparse(node)
        if text not in self.known:
            step = self._made(node)
            if step is None:
                return None
            self.known[text] = len(self.steps)
            self.steps.append(step)
        return self.known[text]

    def _made(self, node: ast.expr) -> Step | None:
        match node:
            case ast.Name(name):
                return Step(Found.CONSTANT, self.roots[name])
            case ast.Attribute(value, name):
                is_cell = kind_of(self._value(value)) is CellType
                at = self._step(value)
                found = Found.IN_CELL if is_cell else Found.ATTRIBUTE
                return None if at is None else Step(found, sys.intern(name), at)
            case ast.Subscript(value, ast.Constant(key)):
                holder = self._value(value)
                is_dict = isinstance(holder, dict)  # a dict may have further keys
                at = self._sized(value, -1 if is_dict else len(holder))
                found = _ITEMS.get(kind_of(holder))
                return None if at is None or found is None else Step(found, key, at)
            case _:
                return None
