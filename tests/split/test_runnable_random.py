"""Random orders of what an embedder may do: no run ever sees what belongs to another."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pirkit import tensor
from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.scope.scope_pool import MAX_IDLE_SCOPES
from tests.split.test_runnable import block, check, counting, expected, net

ACTIONS = ("forward", "backward", "retain", "drop", "fail", "infer", "overwrite", "count")


@pytest.mark.parametrize("seed", range(8))
def test_any_order_gives_each_run_its_own(seed: int) -> None:
    draw = random.Random(seed)
    step, w = net(), block(seed)
    other, total = counting(), tensor(np.zeros((3, 4), np.float32))
    params = [{"w": w, "count": total}[name] for name in other.names.fp]
    waiting: list[list[Any]] = []
    summed = np.zeros((3, 4), np.float32)
    for number in range(300):
        x, g = block(1000 + number), block(5000 + number)
        match draw.choice(ACTIONS):
            case "forward":
                waiting.append([x, step.forward([x], [w])])
            case "backward" if waiting:
                x, outputs = waiting.pop(draw.randrange(len(waiting)))
                compare(step.backward([g], outputs), expected(x, w, g))
            case "retain" if waiting:
                x, outputs = draw.choice(waiting)
                compare(step.backward([g], outputs, retain_graph=True), expected(x, w, g))
            case "drop" if waiting:
                del waiting[draw.randrange(len(waiting))]
            case "fail":
                with pytest.raises(RuntimeFault):
                    step.forward([tensor([1.0])], [w])
            case "infer":
                check(step.forward([x], [w], training=False)[0], expected(x, w, g)[0])
            case "overwrite" if waiting:
                x, outputs = waiting.pop()
                x += 1.0
                with pytest.raises(RuntimeFault, match="'x' was overwritten"):
                    step.backward([g], outputs)
            case "count":
                other.forward([x], params)
                summed += x.numpy()
            case _:
                pass
        x = outputs = None
        assert step.count().live == len(waiting)
        assert step.count().idle <= MAX_IDLE_SCOPES
    check(total, summed)
    for x, outputs in waiting:
        check(outputs[0], expected(x, w, x)[0])


def compare(found: Any, want: Any) -> None:
    (gx,), (gw,) = found
    check(gx, want[1])
    check(gw, want[2])
