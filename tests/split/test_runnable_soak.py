"""Many steps need the memory of a few."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import pairwise
from statistics import median
from typing import Any, Final

import numpy as np
import pytest

from pirkit import tensor
from pirkit.diag.errors import RuntimeFault
from tests.split.test_runnable import block, counting

STEPS: Final = 1000
WINDOW: Final = 200
LEAK: Final = 64 * WINDOW
"""Bytes that a window gains at least where each step leaves an array or a tensor behind.

Caches of numpy, of the interpreter and of the recorder itself come and go by a few thousand bytes,
however many steps a window has. The median window counts: a cache grows in some, a leak in all.
"""


def test_a_thousand_steps_are_flat_in_bytes_and_scopes() -> None:
    """Steps of every kind: with a backward, without, interleaved, failing, dropped late."""
    step = counting()
    order = {"w": block(1), "count": tensor(np.zeros((3, 4), np.float32))}
    params = [order[name] for name in step.names.fp]
    x, g = block(2), block(3)
    late: list[Any] = []

    def once(number: int) -> None:
        outputs = step.forward([x], params)
        match number % 5:
            case 0:
                late.append(outputs)
            case 1:
                late.clear()
            case 2:
                with pytest.raises(RuntimeFault):
                    step.backward([tensor([1.0]), None], outputs)
            case 3:
                step.backward([g, None], outputs, retain_graph=True)
            case _:
                order["w"][...] = order["w"] - step.backward([g, None], outputs)[1][0] * 0.0
                step.forward([x], params, training=False)

    def sessions() -> list[int]:
        return [plan.counters.sessions for plan in step.plans()]

    def traced() -> int:
        late.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    made, held, sizes = 0, [0, 0], list[int]()
    tracemalloc.start()
    try:
        for number in range(STEPS):
            if number == WINDOW:
                made, held = step.count().made, sessions()
            if number and number % WINDOW == 0:
                sizes.append(traced())
            once(number)
        sizes.append(traced())
    finally:
        tracemalloc.stop()
    assert median(after - before for before, after in pairwise(sizes)) < LEAK
    count = step.count()
    assert (count.live, count.nbytes, count.made) == (0, 0, made)
    assert sessions() == held
