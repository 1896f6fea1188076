"""Where long rows keep values between their stages without memory of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pirkit.lowering.codegen.emit.vector_emit import types_of
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, Operand, Store, reads, saved_values

_MIN_ROW: Final = 1 << 16
"""Bytes of a row from which it does not stay in the first-level cache between stages."""


def elided_scratch(kernel: Kernel) -> dict[str, int]:
    """Long kept values that need no memory of their own: they lie where a result will be.

    A result of their type that is written side by side, by a single store, at a point where they
    are read for the last time.
    """
    types = types_of(kernel)
    found: dict[str, int] = {}
    loaded = {s.operand for s in kernel.statements() if isinstance(s, Load)}
    stores = [s.operand for s in kernel.statements() if isinstance(s, Store)]
    for name in saved_values(kernel):
        readers = [s for s in kernel.loop_phases if any(name in reads(line) for line in s.body)]
        size = types[name].itemsize
        if math.prod(kernel.inner) * size < _MIN_ROW:
            continue
        body = readers[-1].body
        last = max(k for k, line in enumerate(body) if name in reads(line))
        for line in body[last:]:
            if not isinstance(line, Store) or line.operand in (*loaded, *found.values()):
                continue
            o = kernel.operands[line.operand]
            fits = o.dtype is types[name] and o.inner[-1] == size and not o.stream
            if fits and stores.count(line.operand) == 1 and all(_is_injective(kernel, o)):
                found[name] = line.operand
                break
    return found


def _is_injective(kernel: Kernel, operand: Operand) -> Iterator[bool]:
    """Whether no two points of an operand are one element, by axes from the nearest on."""
    reach = operand.dtype.itemsize
    strides = zip((*operand.outer, *operand.inner), (*kernel.outer, *kernel.inner), strict=True)
    for stride, extent in sorted(strides):
        yield extent == 1 or stride >= reach
        reach += stride * (extent - 1)
