"""`while` in a captured function: which of its results a gradient flows through.

Paddle marks the result of a loop by its initial value alone: whatever the loop computes, a state
that begins as a constant (zeros) gets no gradient, nor does anything that is computed from it. Here
every state may have a gradient. That adds none by mistake: values that do not depend on parameters
have none anyway, and what the user stops (`detach`, `stop_gradient`, `no_grad`) is marked where it
is computed.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from pirkit.paddle.libpaddle import core, paddle
from pirkit.paddle.requested_gradients import replaced

_control_flow: Final[Any] = import_module("paddle.static.nn.control_flow")


@contextmanager
def differentiable_loops() -> Generator[None]:
    """Unmark the states of loops while a function is captured."""
    theirs = _control_flow.build_while_op

    def build(condition: Any, starts: Any) -> Any:
        return _Loop(theirs(condition, starts)) if core._has_grad() else theirs(condition, starts)

    with replaced(_control_flow, {"build_while_op": build}):
        yield


class _Loop:
    """Paddle's builder of a loop, whose arguments and results may have gradients."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        _unmark(loop.body().args())

    def optimize_update(self) -> Any:
        return _unmark(self._loop.optimize_update())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def _unmark(values: Any) -> Any:
    for value in values:
        if value.is_dense_tensor_type() and paddle.is_floating_point(value):
            value.stop_gradient = False
    return values
