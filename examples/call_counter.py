"""A layer that counts its calls in a buffer, and reads the count in the same forward.

python examples/call_counter.py

::

    def forward(self, x):
        y = paddle.assign(self.calls + 1, output=self.calls)
        return x * y * self.w

What `y` holds is stored in the buffer, and the backward reads it. Paddle 3.3.1 gives it a second
name; the second step then finds nothing under the first::

    0 [2. 2. 2.] [2. 2. 2.]
    1 PreconditionNotMetError: Tensor holds no memory. Call Tensor::mutable_data firstly.
      [Hint: holder_ should not be null.]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pirkit
from pirkit.split import RunnableProgram, forward_backward

PROGRAM = Path(__file__).parent / "programs" / "call_counter.txt"
STEPS = 3


def main() -> None:
    parts = forward_backward(pirkit.load(PROGRAM))
    print(parts.report)
    step = RunnableProgram(parts)
    calls, w = pirkit.tensor(np.zeros(3, np.float32)), pirkit.tensor(np.full(3, 2.0, np.float32))
    x = pirkit.tensor(np.ones(3, np.float32))
    for number in range(STEPS):
        (y,) = step.forward([x], [calls, w])
        (of_x,), _ = step.backward([np.ones(3, np.float32)])
        assert of_x is not None
        print(number, y.numpy(), of_x.numpy(), "calls", calls.numpy())


if __name__ == "__main__":
    main()
