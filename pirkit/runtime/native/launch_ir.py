"""The launcher for the native functions of a plan, as LLVM IR: one module for all plans.

A launch is a list of records. Operands whose array changes from run to run are in cells of a Python
list: the launcher reads the address from the numpy array object in the cell and writes it into the
argument blocks, then runs the records.
"""

from __future__ import annotations

from string import Template
from typing import Final

from pirkit.runtime.native.field_loads import with_field_loads
from pirkit.runtime.native.program_ir import CONTIGUOUS_AND_ALIGNED, LAYOUT
from pirkit.runtime.native.records_ir import ALL, PAUSED, RUN_HEADER, run_text

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

_TEXT: Final = Template("""
define i64 @pirkit_launch(ptr %header, ptr %owned) {
entry:
  %cells = field ptr, i64 %header, $cells
  %patches = field ptr, i64 %header, $patches
  %patched = field i64, i64 %header, $patched
  %type = field ptr, i64 %header, $array
  %moves = icmp sgt i64 %patched, 0
  br i1 %moves, label %list, label %next
list:
  %items = field ptr, i8 %cells, $items
  br label %patch
patch:
  %j = phi i64 [ 0, %list ], [ %j1, %write ]
  %left = icmp slt i64 %j, %patched
  br i1 %left, label %look, label %next
look:
  %twice = shl i64 %j, 1
  %p_place = getelementptr i64, ptr %patches, i64 %twice
  %which = field i64, i64 %p_place, 1
  %object = field ptr, ptr %items, %which
  %is = field ptr, i8 %object, $at_type
  %same_type = icmp eq ptr %is, %type
  br i1 %same_type, label %array, label %unfit
array:
  %flags = field i32, i8 %object, $at_flags
  %masked = and i32 %flags, $flags
  %in_rows = icmp eq i32 %masked, $flags
  br i1 %in_rows, label %write, label %unfit
write:
  %place = load ptr, ptr %p_place, align 8
  %data = field ptr, i8 %object, $at_data
  store ptr %data, ptr %place, align 8
  %j1 = add i64 %j, 1
  br label %patch
unfit:
  ret i64 $UNFIT
next:
  %ran = call i64 @run(ptr %header)
  %all = icmp eq i64 %ran, $ALL
  %paused = icmp eq i64 %ran, $PAUSED
  %other = select i1 %paused, i64 $LAUNCH_PAUSED, i64 $BROKEN
  %state = select i1 %all, i64 $DONE, i64 %other
  ret i64 %state
}
""")


def launch_text(items: int) -> str:
    """The module; ``items`` is the offset in a list object of the pointer to its elements."""
    words = {name: str(word) for name, word in HEADER.items()}
    places = {f"at_{name}": str(offset) for name, offset in LAYOUT.items()}
    launch = _TEXT.substitute(
        words,
        **places,
        flags=str(CONTIGUOUS_AND_ALIGNED),
        items=str(items),
        UNFIT=str(NOT_CONTIGUOUS),
        DONE=str(DONE),
        ALL=str(ALL),
        BROKEN=str(ASSERTION_FAILED),
        PAUSED=str(PAUSED),
        LAUNCH_PAUSED=str(LAUNCH_PAUSED),
    )
    return with_field_loads(f"{run_text('run', 'private')}{launch}")
