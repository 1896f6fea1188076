"""What it costs to share work among native threads: hot, and after they fell asleep.

python benchmarks/native_pool.py [--rounds N]
"""

from __future__ import annotations

import argparse
import ctypes
import time
from statistics import median

from pirkit.runtime.native.engine import compile_ir, load
from pirkit.runtime.native.thread_pool import pool

RUNS = 50
TEXT = """
; Each thread takes one block and waits in it for all others: nobody can be left out.
define void @meet(ptr %counter, i64 %slot, i64 %lo, i64 %hi) {
entry:
  %p_threads = getelementptr i64, ptr %counter, i64 8
  %threads = load i64, ptr %p_threads
  %old = atomicrmw add ptr %counter, i64 1 acq_rel
  %turn = udiv i64 %old, %threads
  %turn1 = add i64 %turn, 1
  %all = mul i64 %turn1, %threads
  br label %wait
wait:
  %now = load atomic i64, ptr %counter acquire, align 8
  %here = icmp uge i64 %now, %all
  br i1 %here, label %done, label %wait
done:
  ret void
}
define void @many(ptr %pool, ptr %run, ptr %counter, i64 %times, i64 %threads) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  call void %run(ptr %pool, ptr @meet, ptr %counter, i64 %threads, i64 1, i64 %threads)
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %times
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    library = load(compile_ir(TEXT), ["many"])
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
    many = kind(library.addresses["many"])
    shared = pool()
    run = ctypes.cast(shared.run, ctypes.c_void_p).value  # type: ignore[arg-type]
    counter = (ctypes.c_int64 * 9)(*[0] * 8, shared.threads)
    hot: list[float] = []
    cold: list[float] = []
    for _ in range(options.rounds):
        started = time.perf_counter()
        many(shared.address, run, counter, RUNS, shared.threads)
        hot.append((time.perf_counter() - started) / RUNS)
        time.sleep(0.003)
        started = time.perf_counter()
        many(shared.address, run, counter, 1, shared.threads)
        cold.append(time.perf_counter() - started)
    for what, times in (("awake", hot), ("asleep before", cold)):
        print(f"{shared.threads} threads, {what}: fork-join {1e6 * median(times):.2f} us, "
              f"fastest {1e6 * min(times):.2f} us")  # fmt: skip


if __name__ == "__main__":
    main()
