"""Debug mode: checks the certificate of each fused kernel again before each of its launches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.certificate import differences
from pirkit.dialect.map_expr.kernel_text import known_kernel
from pirkit.dialect.map_expr.specialize import Shape
from pirkit.dialect.map_expr.verify_kernel import problems
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.registry import Choice, Kernel

REASON = "its certificate is checked before each launch"


def certified(choice: Choice) -> Choice:
    """A choice whose kernel checks its certificate before each launch."""
    return Choice(_certified(choice.kernel), (*choice.reasons, REASON))


def _certified(kernel: Kernel) -> Kernel:
    def bind(b: Binding) -> Step | None:
        step = kernel.bind(b)
        if step is None:
            return None
        launch: Step = step
        text: str = b.attrs["kernel"]
        shapes = [b.input(k).shape for k in range(len(b.inputs))]

        def run(*given: Any) -> Any:
            check(text, shapes)
            return launch(*given)

        return run

    return replace(kernel, bind=bind)


def check(text: str, shapes: Sequence[Shape]) -> None:
    """Check that a kernel follows from its ops and stays in bounds for these shapes.

    Raises ConstraintError otherwise. The check is symbolic in the sizes: with concrete shapes, an
    axis of one element would be indexed by 0, which differs textually from the kernel's index.
    """
    kernel = known_kernel(text)
    wrong = next(chain(problems(kernel, shapes), differences(kernel)), None)
    if wrong is not None:
        raise ConstraintError("C3", wrong)
