"""Where long rows keep values between their stages without memory of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pirkit.lowering.codegen.loopnest import Kernel, Load, Operand, Store, kept, reads
from pirkit.lowering.codegen.points import types_of

_LONG: Final = 1 << 16
"""Bytes of a row from which it does not stay in the first-level cache between stages."""


def homes(kernel: Kernel) -> dict[str, int]:
    """Long kept values that need no memory of their own: they lie where a result will be.

    A result of their type that is written side by side, by a single store, at a point where they
    are read for the last time.
    """
    types = types_of(kernel)
    found: dict[str, int] = {}
    loaded = {s.operand for s in kernel.statements() if isinstance(s, Load)}
    stores = [s.operand for s in kernel.statements() if isinstance(s, Store)]
    for name in kept(kernel):
        readers = [s for s in kernel.stages if any(name in reads(line) for line in s.body)]
        size = types[name].itemsize
        if math.prod(kernel.inner) * size < _LONG:
            continue
        body = readers[-1].body
        last = max(k for k, line in enumerate(body) if name in reads(line))
        for line in body[last:]:
            if not isinstance(line, Store) or line.operand in (*loaded, *found.values()):
                continue
            o = kernel.operands[line.operand]
            fits = o.dtype is types[name] and o.inner[-1] == size and not o.stream
            if fits and stores.count(line.operand) == 1 and all(_apart(kernel, o)):
                found[name] = line.operand
                break
    return found


def _apart(kernel: Kernel, operand: Operand) -> Iterator[bool]:
    """Whether no two points of an operand are one element, by axes from the nearest on."""
    reach = operand.dtype.itemsize
    strides = zip((*operand.outer, *operand.inner), (*kernel.outer, *kernel.inner), strict=True)
    for stride, extent in sorted(strides):
        yield extent == 1 or stride >= reach
        reach += stride * (extent - 1)
