"""Instructions of several vectors side by side.

Those of one vector wait for each other. A CPU looks ahead, but not far: it computes more at a time
if the next instruction is another vector's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder

_NAME: Final = re.compile(r"%\w+")


def interleaved(b: Builder, bodies: Sequence[Callable[[], None]]) -> None:
    """Write what bodies write: an instruction of each in turn, or one body after the other.

    The latter where a body has branches. Nothing that a body stores may be read by another one.
    """
    parts: list[list[str]] = []
    for body in bodies:
        start = len(b.lines)
        body()
        parts.append(b.lines[start:])
        del b.lines[start:]
    if any(line.endswith(":") for part in parts for line in part):
        b.lines += [line for part in parts for line in part]
        return
    owners = {line.split(" ", 3)[2] for part in parts for line in part if " = " in line}
    queues = [[(line, _reads(line) & owners) for line in reversed(part)] for part in parts]
    while any(queues):
        for queue in queues:
            # a later body may read what an earlier one has computed: then it waits
            if queue and not queue[-1][1] & owners:
                line, _ = queue.pop()
                b.lines.append(line)
                owners.discard(line.split(" ", 3)[2])


def _reads(line: str) -> set[str]:
    return set(_NAME.findall(line.partition(" = ")[2] or line))
