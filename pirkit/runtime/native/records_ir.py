"""The loop that runs a list of records, as LLVM IR.

A record is a native function with its argument block, how threads share its work, and its assertion
flags. After a record that set a flag, no other one runs. A record without a function is a branch,
which continues at the record ``blocks`` if the byte that its first argument points to equals
``chunk``; or it reserves ``blocks`` bytes on the stack that this argument points to, if ``chunk``
is `RESERVES`.

The loop pauses every ``fuel`` branches backwards, so that Python can handle signals, and where a
stack is full, so that Python can enlarge it. The next call goes on from there.
"""

from __future__ import annotations

from string import Template
from typing import Final

RUN_HEADER: Final = {"records": 0, "count": 1, "share": 2, "pool": 3, "resume": 4, "fuel": 5}
"""The first words of a header.

``records`` is the address of ``count`` records; ``share`` is the function that distributes blocks
over the threads of ``pool``; ``resume`` is the record to begin with, which is 0 but after a pause.
"""

RECORD: Final = ("function", "arguments", "blocks", "chunk", "threads", "marks", "marked")
"""Words of a record; ``marks`` is the address of ``marked`` assertion flags (bytes)."""

ALL: Final = 0
STOPPED: Final = 1
PAUSED: Final = 2
"""Return values: all records have run; a flag was set and later records have not; the fuel is used
up, and a further call goes on."""

RESERVES: Final = 2
"""The ``chunk`` of a record that reserves memory."""

STACK: Final = ("data", "used", "capacity", "wanted")
"""Words of a stack: where its bytes are, how many of them are in use, there, and needed."""
STACK_BYTES: Final = 8 * len(STACK)

_TEXT: Final = Template("""
define $linkage i64 @$name(ptr %header) {
entry:
  %records = field ptr, i64 %header, $records
  %count = field i64, i64 %header, $count
  %share = field ptr, i64 %header, $share
  %pool = field ptr, i64 %header, $pool
  %p_resume = getelementptr i64, ptr %header, i64 $resume
  %first = load i64, ptr %p_resume, align 8
  store i64 0, ptr %p_resume, align 8
  %full = field i64, i64 %header, $fuel
  br label %next
next:
  %k = phi i64 [ %first, %entry ], [ %after, %check ], [ %to, %forward ],
                [ %to, %backward ], [ %after, %reserve ]
  %fuel = phi i64 [ %full, %entry ], [ %fuel, %check ], [ %fuel, %forward ],
                   [ %burnt, %backward ], [ %fuel, %reserve ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %done
one:
  %offset = mul i64 %k, $record_bytes
  %record = getelementptr i8, ptr %records, i64 %offset
  %function = load ptr, ptr %record, align 8
  %arguments = field ptr, i64 %record, 1
  %blocks = field i64, i64 %record, 2
  %chunk = field i64, i64 %record, 3
  %threads = field i64, i64 %record, 4
  %marks = field ptr, i64 %record, 5
  %marked = field i64, i64 %record, 6
  %after = add i64 %k, 1
  %is_branch = icmp eq ptr %function, null
  br i1 %is_branch, label %control, label %work
control:
  %p_condition = load ptr, ptr %arguments, align 8
  %reserves = icmp eq i64 %chunk, $RESERVES
  br i1 %reserves, label %reserve, label %branch
reserve:
  %used = field i64, i64 %p_condition, 1
  %capacity = field i64, i64 %p_condition, 2
  %wanted = add i64 %used, %blocks
  %has_room = icmp sle i64 %wanted, %capacity
  br i1 %has_room, label %next, label %full_stack
full_stack:
  %p_wanted = getelementptr i64, ptr %p_condition, i64 3
  store i64 %wanted, ptr %p_wanted, align 8
  store i64 %k, ptr %p_resume, align 8
  ret i64 $PAUSED
branch:
  %condition = load i8, ptr %p_condition, align 1
  %value = zext i8 %condition to i64
  %taken = icmp eq i64 %value, %chunk
  %to = select i1 %taken, i64 %blocks, i64 %after
  %is_back = icmp sle i64 %to, %k
  br i1 %is_back, label %backward_or_pause, label %forward
forward:
  br label %next
backward_or_pause:
  %burnt = sub i64 %fuel, 1
  %empty = icmp sle i64 %burnt, 0
  br i1 %empty, label %pause, label %backward
backward:
  br label %next
pause:
  store i64 %to, ptr %p_resume, align 8
  ret i64 $PAUSED
work:
  %alone = icmp sle i64 %threads, 1
  br i1 %alone, label %run, label %shared
run:
  call void %function(ptr %arguments, i64 0, i64 0, i64 %blocks)
  br label %end
shared:
  call void %share(ptr %pool, ptr %function, ptr %arguments, i64 %blocks, i64 %chunk, i64 %threads)
  br label %end
end:
  br label %check
check:
  %m = phi i64 [ 0, %end ], [ %m1, %fine ]
  %left = icmp slt i64 %m, %marked
  br i1 %left, label %mark, label %next
mark:
  %set = field i8, i8 %marks, %m
  %is_set = icmp ne i8 %set, 0
  br i1 %is_set, label %stop, label %fine
fine:
  %m1 = add i64 %m, 1
  br label %check
stop:
  ret i64 $STOPPED
done:
  ret i64 $ALL
}
""")


def run_text(name: str, linkage: str = "") -> str:
    """The text of a function that runs the records of a header."""
    words = {word: str(number) for word, number in RUN_HEADER.items()}
    numbers = {"record_bytes": str(8 * len(RECORD)), "ALL": str(ALL), "STOPPED": str(STOPPED),
               "PAUSED": str(PAUSED), "RESERVES": str(RESERVES)}  # fmt: skip
    return _TEXT.substitute(words, **numbers, name=name, linkage=linkage)
