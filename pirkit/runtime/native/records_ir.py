"""The loop that runs a list of records, as a native routine.

A record is a native function with its argument block, how threads share its work, and its assertion
flags. After a record that set a flag, no other one runs. A record without a function is a branch,
which continues at the record ``blocks`` if the bool that its first argument points to is ``chunk``;
or it reserves ``blocks`` bytes on the stack that this argument points to, if ``chunk`` is
`RESERVES`; or Python calls a library, if ``chunk`` is `CALLS_LIBRARY`. As in numpy, any byte but 0
is true.

The loop pauses every ``fuel`` branches backwards, so that Python can handle signals, where a
stack is full, so that Python can enlarge it, and for calls of libraries. The next call goes on from
there.
"""

from __future__ import annotations

from typing import Final

from pirkit.runtime.native.routines import words

RUN_HEADER: Final = {"records": 0, "count": 1, "share": 2, "pool": 3, "resume": 4, "fuel": 5}
"""The first words of a header.

``records`` is the address of ``count`` records; ``share`` is the function that distributes blocks
over the threads of ``pool``; ``resume`` is the record to begin with, which is 0 but after a pause.
"""
RUN_POINTERS: Final = ("records", "share", "pool")

RECORD: Final = ("function", "arguments", "blocks", "chunk", "threads", "marks", "marked")
"""Words of a record; ``marks`` is the address of ``marked`` assertion flags (bytes)."""

ALL: Final = 0
STOPPED: Final = 1
PAUSED: Final = 2
DUE: Final = 3
"""Return values: all records have run; a flag was set and later records have not; the fuel is used
up, and a further call goes on; the call of a library that is the record before ``resume`` is due,
and then a further call."""

RESERVES: Final = 2
CALLS_LIBRARY: Final = 3
"""The ``chunk`` of a record that reserves memory, and of one that is the call of a library."""

STACK: Final = ("data", "used", "capacity", "wanted")
"""Words of a stack: where its bytes are, how many of them are in use, there, and needed."""
STACK_BYTES: Final = 8 * len(STACK)

RUN_STRUCTS: Final = {
    "Record": words(RECORD, {"function", "arguments", "marks"}), "Stack": words(STACK, {"data"}),
}  # fmt: skip
RUN_CONSTANTS: Final = {
    "RECORD_BYTES": 8 * len(RECORD), "ALL": ALL, "STOPPED": STOPPED, "PAUSED": PAUSED,
    "DUE": DUE, "RESERVES": RESERVES, "CALLS_LIBRARY": CALLS_LIBRARY,
}  # fmt: skip

RUN: Final = """
def pirkit_program_run(header: Header) -> i64:
    k = resume
    header.resume = 0
    left = fuel
    while k < count:
        record: Record = records + k * RECORD_BYTES
        if record.function == None:
            if record.chunk == RESERVES:
                stack: Stack = ptr[record.arguments]
                stack_bytes = stack.used + record.blocks
                if stack_bytes > stack.capacity:
                    stack.wanted = stack_bytes
                    header.resume = k
                    return PAUSED
                k += 1
            elif record.chunk == CALLS_LIBRARY:
                header.resume = k + 1
                return DUE
            else:
                condition = 1 if i8[ptr[record.arguments]] != 0 else 0
                to = record.blocks if condition == record.chunk else k + 1
                if to <= k:
                    left = left - 1
                    if left <= 0:
                        header.resume = to
                        return PAUSED
                k = to
        else:
            if record.threads <= 1:
                record.function(record.arguments, 0, 0, record.blocks)
            else:
                share(pool, record.function, record.arguments, record.blocks, record.chunk,
                      record.threads)
            for m in range(record.marked):
                if i8[record.marks, m] != 0:
                    return STOPPED
            k += 1
    return ALL
"""
