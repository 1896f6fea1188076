"""The launcher for the native functions of a plan: one module for all plans.

A launch is a list of records. Operands whose array changes from run to run are in cells of a Python
list: the launcher reads the address from the numpy array object in the cell and writes it into the
argument blocks, then runs the records.
"""

from __future__ import annotations

from typing import Final

from pirkit.runtime.native.program_ir import ARRAY, CONTIGUOUS_AND_ALIGNED, PATCH
from pirkit.runtime.native.records_ir import (
    RUN,
    RUN_CONSTANTS,
    RUN_HEADER,
    RUN_POINTERS,
    RUN_STRUCTS,
)
from pirkit.runtime.native.routines import Language, RoutineModule, words

FUNCTION: Final = "pirkit_launch"

_OWN_WORDS: Final = ("cells", "patches", "patched", "array")
HEADER: Final = RUN_HEADER | {name: k for k, name in enumerate(_OWN_WORDS, len(RUN_HEADER))}
"""Words of the header of a launch, after those of `RUN_HEADER`.

``patches`` are ``patched`` pairs of a location in an argument block and the index of the cell (of
the list ``cells``) that holds the array whose address goes there; ``array`` is ``np.ndarray``.
"""

DONE: Final = 0
NOT_CONTIGUOUS: Final = 1
"""An operand is not a C-contiguous, aligned array; nothing has run."""
ASSERTION_FAILED: Final = 2
"""An assertion flag is set; no function after the one that set it has run."""
LAUNCH_PAUSED: Final = 3
"""The fuel for branches is used up; a further call goes on."""

_LAUNCH: Final = """
def pirkit_launch(header: Header, owned: ptr) -> i64:
    for j in range(patched):
        patch: Patch = patches + 16 * j
        object: Array = ptr[ptr[cells + ITEMS], patch.number]
        if object.type != array or object.flags & IN_ROWS != IN_ROWS:
            return NOT_CONTIGUOUS
        ptr[patch.place] = object.data
    ran = pirkit_program_run(header)
    return DONE if ran == ALL else LAUNCH_PAUSED if ran == PAUSED else ASSERTION_FAILED
"""


def launch_module(items: int) -> RoutineModule:
    """The module; ``items`` is the offset in a list object of the pointer to its elements."""
    structs = RUN_STRUCTS | {
        "Header": words(HEADER, {*RUN_POINTERS, "cells", "patches", "array"}),
        "Array": ARRAY, "Patch": PATCH,
    }  # fmt: skip
    constants = RUN_CONSTANTS | {
        "ITEMS": items, "IN_ROWS": CONTIGUOUS_AND_ALIGNED, "DONE": DONE,
        "NOT_CONTIGUOUS": NOT_CONTIGUOUS, "ASSERTION_FAILED": ASSERTION_FAILED,
        "LAUNCH_PAUSED": LAUNCH_PAUSED,
    }  # fmt: skip
    return RoutineModule(RUN + _LAUNCH, Language(structs, constants, {}), (FUNCTION,))
