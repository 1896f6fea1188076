"""A framework in a process of its own: builds workloads, calls them in bursts when asked.

Messages are lines of JSON on standard input and output. Needs numpy and the framework, not pirkit.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

SAMPLES = 4001
"""Elements of each result that are compared."""


def summary(results: list[Any]) -> list[dict[str, Any]]:
    """Samples and sums of results, to be compared with those of other frameworks."""
    import numpy as np

    found = []
    for result in results:
        held = result.numpy() if hasattr(result, "numpy") else result
        array = np.asarray(held, dtype=np.float64).ravel()
        step = max(1, array.size // SAMPLES)
        sums = float(array.sum()), float(np.abs(array).sum())
        found.append({"size": array.size, "sums": sums, "samples": array[::step].tolist()})
    return found


def busy() -> float:
    """Seconds that the CPUs of this machine have worked, for whomever."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [int(field) for field in fields]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def used() -> float:
    """Seconds that this process has worked."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def burst(call: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Calls for some time, at least two of them."""
    call()
    own, all_, times = used(), busy(), list[float]()
    end = time.perf_counter() + seconds
    while len(times) < 2 or (time.perf_counter() < end and len(times) < 5000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    own = used() - own
    foreign = max(0.0, busy() - all_ - own) / max(sum(times), 0.02)
    return {"times": times, "cpu": own / len(times), "foreign": foreign}


def main() -> None:
    folder, module, framework = sys.argv[1:]
    sys.path.insert(0, folder)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what frameworks print is no answer
    import captured  # of the folder of this file, whatever checkout `folder` is
    import numpy as np

    from benchmarks.harness.workloads import WORKLOADS

    call: Callable[[], Any] = list
    for line in sys.stdin:
        asked, *rest = json.loads(line)
        try:
            if asked == "build":
                name = rest[0]
                build = partial(captured.build, name)
                if not name.startswith(captured.PREFIX):
                    arrays = WORKLOADS[name].inputs(np.random.default_rng(0))
                    build = partial(import_module(module).build, framework, name, arrays)
                start, cpu = time.perf_counter(), used()
                call = build()
                call()
                first, cpu = time.perf_counter() - start, used() - cpu
                call()
                start = time.perf_counter()
                results = call()  # the third, which depends on what two steps have updated
                warm = time.perf_counter() - start
                found = summary(results)
                del results
                answer = {"first": first, "warm": warm, "cpu": cpu, "results": found}
            else:
                answer = burst(call, rest[0])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
