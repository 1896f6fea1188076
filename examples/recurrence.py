"""A loop whose number of turns comes with the input, trained.

python examples/recurrence.py

::

    def forward(self, x, n):
        i = paddle.zeros([1], "int64")
        while i < n:
            x = paddle.tanh(x * self.w)
            i = i + 1
        return x

What a turn computes goes onto a stack for the backward. Of that stack Paddle 3.3.1 hands over two
tokens under two names, and the second takes away the first::

    ValueError: (InvalidArgument) The variable middle_0 should exist
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pirkit
from pirkit.split import RunnableProgram, forward_backward

PROGRAM = Path(__file__).parent / "programs" / "recurrence.txt"
STEPS = 200
RATE = np.float32(0.5)
TURNS = 3


def main() -> None:
    step = RunnableProgram(forward_backward(pirkit.load(PROGRAM), mode="min-cut"))
    w = pirkit.tensor(np.full(3, 0.5, np.float32))
    x, turns = np.ones(3, np.float32), np.array([TURNS])
    wanted = np.array([0.1, 0.3, 0.5], np.float32)
    losses: list[float] = []
    for _ in range(STEPS):
        (y,) = step.forward([x, turns], [w])
        error = y.numpy() - wanted
        losses.append(float((error**2).sum()))
        _, (of_w,) = step.backward([2 * error])
        assert of_w is not None
        w -= RATE * of_w.numpy()
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.2e} in {STEPS} steps of {TURNS} turns")


if __name__ == "__main__":
    main()
