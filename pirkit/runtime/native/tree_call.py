"""Calls of native programs from trees to trees, as C functions of Python (see `tree_call_ir`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from pirkit.runtime.native.program import Session, tree_method
from pirkit.runtime.native.program_ir import HEADER
from pirkit.runtime.native.tensor_call import c_function
from pirkit.runtime.native.tree_call_ir import FLOAT, SIZE, Found, Step, Use
from pirkit.runtime.tensor.buffer import address_of

TreeCall = Callable[..., Any]
"""Takes the arguments of a call of a compiled function and gives its result."""

_OF_NUMBERS: Final = {Use.FLOAT: np.float64, Use.INT: np.int64, Use.BOOL: np.bool_}
"""Element types that native code writes."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call: ``steps`` find the inputs of a program in them."""

    positional: int
    names: tuple[str, ...]
    """Of those by name, in order: the same strings."""
    steps: Sequence[Step]


def tree_call(
    session: Session, arguments: Arguments, built: Callable[..., Any], otherwise: TreeCall
) -> TreeCall | None:
    """A call that runs in a session of its own; None where native code cannot make it.

    ``built`` gives the tree of the tensors of the results. Calls that the steps do not fit, and
    those while another one runs, are those of ``otherwise``.
    """
    header: Any = session.header
    is_plain = header[HEADER["slot"]] and not session.uses_pool and not len(session.flags)
    inputs = session.program.inputs
    numbers: dict[int, Use] = {s.target: s.use for s in arguments.steps if s.use in _OF_NUMBERS}
    is_known = is_plain and _containers_are_known()
    if not is_known or any(inputs[k].dtype.np != _OF_NUMBERS[u] for k, u in numbers.items()):
        return None
    given = (ctypes.c_size_t * max(len(inputs), 1))()
    cells = {k: np.zeros((), _OF_NUMBERS[use]) for k, use in numbers.items()}
    for k, cell in cells.items():
        given[k] = id(cell)

    def words(step: Step) -> list[int]:
        places = (Found.ARGUMENT, Found.IN_TUPLE, Found.IN_LIST)
        key = step.key if step.found in places else id(step.key)
        target = 0
        if step.use is Use.OPERAND:
            target = ctypes.addressof(given) + 8 * step.target
        elif step.use is Use.SAME:
            target = id(step.target)
        elif step.use is not Use.NOTHING:
            target = address_of(cells[step.target])
        kind = id(step.type) if step.type else 0
        return [step.found, key, step.parent, kind, step.size & _ONES, step.use, target]

    listed = [word for step in arguments.steps for word in words(step)]
    walk = (ctypes.c_size_t * max(len(listed), 1))(*listed)
    names = (ctypes.c_size_t * max(len(arguments.names), 1))(*map(id, arguments.names))
    objects = (ctypes.c_size_t * max(len(arguments.steps), 1))()
    for name, word in {
        "steps": len(arguments.steps), "positional": arguments.positional,
        "named": len(arguments.names), "walk": ctypes.addressof(walk),
        "names": ctypes.addressof(names), "objects": ctypes.addressof(objects),
        "given": ctypes.addressof(given), "otherwise": id(otherwise), "built": id(built),
        "true": id(True), "no_attribute": id(AttributeError),
    }.items():  # fmt: skip
        header[HEADER[name]] = word
    owned = (session, arguments, built, otherwise, given, cells, walk, names, objects)
    return c_function(tree_method(), np.frombuffer(header, np.uintp), owned)


_ONES: Final = (1 << 64) - 1


@cache
def _containers_are_known() -> bool:
    """Whether containers and floats have the expected memory layout, tested on known objects."""
    sized: tuple[Any, ...] = ((1, 2, 3), [1, 2, 3], {"a": 1, "b": 2, "c": 3})
    real = 0.1
    return all(ctypes.c_int64.from_address(id(t) + SIZE).value == len(t) for t in sized) and (
        ctypes.c_double.from_address(id(real) + FLOAT).value == real
    )
