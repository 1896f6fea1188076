"""The thread pool as LLVM IR, so that no C compiler is needed where pirkit runs.

The state is one block of memory with the layout `FIELDS`. A run writes its job, clears the bit
CLOSED of `inside`, and increments `generation`. A worker that sees the new generation increments
`inside`, takes chunks (by an atomic counter) until none is left, and decrements it. The caller
takes chunks too, sets CLOSED, and waits until `inside` is otherwise 0: it waits for workers that
entered, never for one that still sleeps.
"""

from __future__ import annotations

import re
from string import Template
from typing import Final

from pirkit.runtime.native.object_compiler import QUICK

FIELDS: Final = {
    "generation": 0,
    "next": 64,
    "inside": 128,
    "function": 192, "args": 200, "blocks": 208, "chunk": 216, "limit": 224,
    "sleepers": 256, "stop": 264, "spins": 272, "started": 280,
    "busy": 320,
    "mutex": 384, "condition": 448,
    "threads": 512,
}  # fmt: skip
"""Byte offsets; fields that different threads write are on different cache lines."""

MAX_WORKERS: Final = 1024
POOL_BYTES: Final = FIELDS["threads"] + 8 * MAX_WORKERS
CLOSED: Final = 1 << 32

FUNCTIONS: Final = ("pirkit_pool_start", "pirkit_pool_run", "pirkit_pool_stop")

_TEXT: Final = Template("""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
$pause_declaration

; Take chunks of the current run until none is left.
define private void @take(ptr %pool, i64 %slot) {
entry:
  %next = getelementptr i8, ptr %pool, i64 $next
  %function = field ptr, i8 %pool, $function
  %args = field ptr, i8 %pool, $args
  %blocks = field i64, i8 %pool, $blocks
  %chunk = field i64, i8 %pool, $chunk
  br label %again
again:
  %number = atomicrmw add ptr %next, i64 1 monotonic
  %lo = mul i64 %number, %chunk
  %left = icmp slt i64 %lo, %blocks
  br i1 %left, label %work, label %done
work:
  %end = add i64 %lo, %chunk
  %inside = icmp slt i64 %end, %blocks
  %hi = select i1 %inside, i64 %end, i64 %blocks
  call void %function(ptr %args, i64 %slot, i64 %lo, i64 %hi)
  br label %again
done:
  ret void
}

; A worker: waits for a run, first spinning and then asleep, and takes part in it.
define private ptr @worker(ptr %pool) {
entry:
  %generation = getelementptr i8, ptr %pool, i64 $generation
  %inside = getelementptr i8, ptr %pool, i64 $inside
  %sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  %p_stop = getelementptr i8, ptr %pool, i64 $stop
  %started = getelementptr i8, ptr %pool, i64 $started
  %mutex = getelementptr i8, ptr %pool, i64 $mutex
  %condition = getelementptr i8, ptr %pool, i64 $condition
  %before = atomicrmw add ptr %started, i64 1 seq_cst
  %slot = add i64 %before, 1
  %spins = field i64, i8 %pool, $spins
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %now, %leave ], [ %now, %refused ]
  br label %spin
spin:
  %count = phi i64 [ 0, %wait ], [ %more, %idle ]
  %hot = load atomic i64, ptr %generation acquire, align 8
  %changed = icmp ne i64 %hot, %seen
  br i1 %changed, label %awake, label %idle
idle:
  $pause
  %more = add i64 %count, 1
  %patient = icmp slt i64 %more, %spins
  br i1 %patient, label %spin, label %sleep
sleep:
  %lock = call i32 @pthread_mutex_lock(ptr %mutex)
  %asleep = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %cold = load atomic i64, ptr %generation seq_cst, align 8
  %same = icmp eq i64 %cold, %seen
  br i1 %same, label %block, label %rise
block:
  %woken = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
rise:
  %risen = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %unlock = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %awake
awake:
  %now = phi i64 [ %hot, %spin ], [ %cold, %rise ]
  %stop = load atomic i64, ptr %p_stop acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %join
join:
  %others = atomicrmw add ptr %inside, i64 1 acq_rel
  %closed = icmp uge i64 %others, $closed
  br i1 %closed, label %refused, label %enter
enter:
  %limit = field i64, i8 %pool, $limit
  %has_slot = icmp slt i64 %slot, %limit
  br i1 %has_slot, label %busy, label %leave
busy:
  call void @take(ptr %pool, i64 %slot)
  br label %leave
leave:
  %left = atomicrmw sub ptr %inside, i64 1 acq_rel
  br label %wait
refused:
  %out = atomicrmw sub ptr %inside, i64 1 acq_rel
  br label %wait
end:
  ret ptr null
}

; Start workers; returns how many there are.
define i64 @pirkit_pool_start(ptr %pool, i64 %wanted) {
entry:
  %mutex = getelementptr i8, ptr %pool, i64 $mutex
  %condition = getelementptr i8, ptr %pool, i64 $condition
  %inside = getelementptr i8, ptr %pool, i64 $inside
  %threads = getelementptr i8, ptr %pool, i64 $threads
  %m = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr %condition, ptr null)
  store i64 $closed, ptr %inside, align 8
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %created ]
  %missing = icmp slt i64 %k, %wanted
  br i1 %missing, label %create, label %done
create:
  %thread = getelementptr i64, ptr %threads, i64 %k
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %pool)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %created, label %done
created:
  %k1 = add i64 %k, 1
  br label %next
done:
  ret i64 %k
}

; Run all blocks of a function on the caller and on workers whose slot is below the limit.
; With the pool taken, by another caller or by the one that this run is part of, it runs alone.
define void @pirkit_pool_run(ptr %pool, ptr %function, ptr %args, i64 %blocks, i64 %chunk,
                             i64 %limit) {
entry:
  %busy = getelementptr i8, ptr %pool, i64 $busy
  %taken = cmpxchg ptr %busy, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue { i64, i1 } %taken, 1
  br i1 %mine, label %share, label %alone
alone:
  call void %function(ptr %args, i64 0, i64 0, i64 %blocks)
  ret void
share:
  %p_function = getelementptr i8, ptr %pool, i64 $function
  %p_args = getelementptr i8, ptr %pool, i64 $args
  %p_blocks = getelementptr i8, ptr %pool, i64 $blocks
  %p_chunk = getelementptr i8, ptr %pool, i64 $chunk
  %p_limit = getelementptr i8, ptr %pool, i64 $limit
  %next = getelementptr i8, ptr %pool, i64 $next
  %inside = getelementptr i8, ptr %pool, i64 $inside
  %generation = getelementptr i8, ptr %pool, i64 $generation
  %p_sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  store ptr %function, ptr %p_function, align 8
  store ptr %args, ptr %p_args, align 8
  store i64 %blocks, ptr %p_blocks, align 8
  store i64 %chunk, ptr %p_chunk, align 8
  store i64 %limit, ptr %p_limit, align 8
  store atomic i64 0, ptr %next monotonic, align 8
  %opened = atomicrmw sub ptr %inside, i64 $closed acq_rel
  %raised = atomicrmw add ptr %generation, i64 1 seq_cst
  %sleepers = load atomic i64, ptr %p_sleepers seq_cst, align 8
  %some = icmp ne i64 %sleepers, 0
  br i1 %some, label %wake, label %work
wake:
  call void @wake(ptr %pool)
  br label %work
work:
  call void @take(ptr %pool, i64 0)
  %closing = atomicrmw add ptr %inside, i64 $closed acq_rel
  br label %wait
wait:
  %count = phi i64 [ 0, %work ], [ %more, %pausing ], [ 0, %yielding ]
  %state = load atomic i64, ptr %inside acquire, align 8
  %empty = icmp eq i64 %state, $closed
  br i1 %empty, label %done, label %pausing
pausing:
  $pause
  %more = add i64 %count, 1
  %long = icmp sgt i64 %more, 2000
  br i1 %long, label %yielding, label %wait
yielding:
  %yielded = call i32 @sched_yield()
  br label %wait
done:
  store atomic i64 0, ptr %busy release, align 8
  ret void
}

define private void @wake(ptr %pool) {
  %mutex = getelementptr i8, ptr %pool, i64 $mutex
  %condition = getelementptr i8, ptr %pool, i64 $condition
  %lock = call i32 @pthread_mutex_lock(ptr %mutex)
  %all = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlock = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; End the workers and wait until they are gone.
define void @pirkit_pool_stop(ptr %pool, i64 %workers) {
entry:
  %stop = getelementptr i8, ptr %pool, i64 $stop
  %generation = getelementptr i8, ptr %pool, i64 $generation
  %threads = getelementptr i8, ptr %pool, i64 $threads
  store atomic i64 1, ptr %stop release, align 8
  %raised = atomicrmw add ptr %generation, i64 1 seq_cst
  call void @wake(ptr %pool)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %join ]
  %left = icmp slt i64 %k, %workers
  br i1 %left, label %join, label %done
join:
  %thread = field i64, i64 %threads, %k
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  %k1 = add i64 %k, 1
  br label %next
done:
  ret void
}
""")


def pool_text(triple: str) -> str:
    """The module of the pool; the spin-wait hint depends on the CPU architecture."""
    pause, declaration = "", ""
    if triple.startswith("x86_64"):
        pause = "call void @llvm.x86.sse2.pause()"
        declaration = "declare void @llvm.x86.sse2.pause()"
    elif triple.startswith(("aarch64", "arm64")):
        pause = "call void @llvm.aarch64.hint(i32 1)"
        declaration = "declare void @llvm.aarch64.hint(i32)"
    fields = {name: str(offset) for name, offset in FIELDS.items()}
    text = with_field_loads(_TEXT.substitute(
        fields, closed=str(CLOSED), pause=pause, pause_declaration=declaration
    ))  # fmt: skip
    return f"{text}\n{QUICK}\n"  # it waits more than it computes


_FIELD: Final = re.compile(r"^  %([\w.]+) = field (\w+), (\w+) (%[\w.]+), (\S+)$", re.MULTILINE)
_BYTES: Final = {"i8": 1, "i32": 4}


def with_field_loads(text: str) -> str:
    """The text with each ``%x = field TYPE, STEP %base, INDEX`` as an address and a load.

    The value of ``TYPE`` is ``INDEX`` elements of type ``STEP`` after the base.
    """

    def expanded(found: re.Match[str]) -> str:
        name, kind, step, base, index = found.groups()
        address = f"  %{name}_at = getelementptr {step}, ptr {base}, i64 {index}"
        return f"{address}\n  %{name} = load {kind}, ptr %{name}_at, align {_BYTES.get(kind, 8)}"

    return _FIELD.sub(expanded, text)
