"""The error for what cannot be compiled, with the node of Dynamo's graph that needs it."""

from __future__ import annotations

import re
from typing import Final

from pirkit.diag.errors import PirkitError, UnsupportedError

_LINE: Final = re.compile(r'File "([^"]+)", line (\d+)')


class NodeError(UnsupportedError):
    """A node that no program can hold, so that torch runs it; without one, the whole graph.

    ``node`` is its name in the graph of Dynamo. Message, code, span, notes and help are those of
    the cause; an error of torch gets PK0403.
    """

    def __init__(self, node: str | None, cause: Exception) -> None:
        at = "" if node is None else f" (at `{node}`)"
        if isinstance(cause, PirkitError):
            super().__init__(
                cause.message, code=cause.code, span=cause.span, notes=cause.notes, help=cause.help
            )
        else:
            lines = str(cause).strip().splitlines() or [type(cause).__name__]
            super().__init__(
                f"torch cannot record the graph{at}: {lines[0]}", code="PK0403",
                help="leave its part of the model uncompiled (`torch.compiler.disable`)",
            )  # fmt: skip
        self.node = node


def innermost_line(stack: str | None) -> tuple[str, int] | None:
    """File and number of the innermost line of a Python stack as torch writes it."""
    lines = _LINE.findall(stack or "")
    return (lines[-1][0], int(lines[-1][1])) if lines else None
