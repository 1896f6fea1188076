"""Functions that push values on a stack of a loop, and pop them.

Derivatives of a loop read, from the last iteration to the first, what its iterations have computed.
An iteration pushes that on a stack, whose memory grows as the loop runs:
`pirkit.runtime.native.records_ir` reserves room before each push.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR
from pirkit.runtime.machine_costs import BYTES_PER_NS
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.records_ir import STACK, STACK_BYTES
from pirkit.runtime.native.target import host

Action = Literal["create", "push", "pop", "test"]


def entry_bytes(sizes: Sequence[int]) -> int:
    """The bytes of a pushed entry; one without values is counted all the same."""
    return max(1, sum(sizes))


def stack_access(action: Action, sizes: Sequence[int]) -> NativeFunction:
    """The function of an action on a stack, its first operand.

    The others have ``sizes`` bytes: what ``push`` reads; what ``pop`` writes; the token that
    ``create`` writes, how many bytes are in use (int64); and those of ``test``, the token of the
    stack and the byte that is set if the stack is not empty.
    """
    return function_of(
        key_of(("stack", action, *sizes), host()), lambda: _draft(action, tuple(sizes))
    )


def _draft(action: Action, sizes: tuple[int, ...]) -> Draft:
    routines = Routines()
    b = routines.builder()
    stack, *values = (argument(b, k) for k in range(len(sizes) + 1))
    used_at = b.at(stack, 8 * STACK.index("used"))
    data, used = b.load(PTR, stack, 8), b.load(I64, used_at, 8)
    if action == "create":
        b.store(used, values[0], 8)
    elif action == "test":
        bottom = b.load(I64, values[0], 8)
        holds = b.cast("zext", b.compare("sgt", used, bottom), "i8")
        b.store(holds, values[1], 1)
    else:
        # A push writes above the top and then moves it; a pop moves it first and reads there.
        entry, pushes = entry_bytes(sizes), action == "push"
        moved = b.plus(used, entry if pushes else -entry)
        top = b.at(data, used if pushes else moved)
        for value, size, at in zip(values, sizes, accumulate(sizes, initial=0), strict=False):
            pair = (b.at(top, at), value)
            source_last = pair if pushes else reversed(pair)
            b.invoke("llvm.memcpy.p0.p0.i64", *source_last, f"i64 {size}", "i1 false")
        b.store(moved, used_at, 8)
    known = about(stack_access, f"stack {action}")
    return routines.draft(b, 0, (STACK_BYTES, *sizes), sum(sizes) // BYTES_PER_NS, known)
