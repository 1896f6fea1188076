"""Scratch elision: long rows save values between phases in the buffers of results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pirkit.lowering.codegen.ir.element_types import types_of
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, Operand, Store, reads, saved_values

_MIN_ROW: Final = 1 << 16
"""Bytes of a row that does not stay in the L1 cache, so that scratch would cost traffic."""


def elided_scratch(kernel: Kernel) -> dict[str, int]:
    """Saved values that need no scratch, with the operand whose buffer holds them until it is
    stored.

    The operand has their type, is contiguous, not read by the kernel, and stored only once: after,
    or in, the statement that reads the value for the last time.
    """
    types = types_of(kernel)
    found: dict[str, int] = {}
    loaded = {s.operand for s in kernel.statements() if isinstance(s, Load)}
    stores = [s.operand for s in kernel.statements() if isinstance(s, Store)]
    for name in saved_values(kernel):
        # Only the last phase that reads the value may overwrite its buffer.
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
    """Whether no two iterations of an operand address the same element, axis by axis by stride."""
    reach = operand.dtype.itemsize
    strides = zip((*operand.outer, *operand.inner), (*kernel.outer, *kernel.inner), strict=True)
    for stride, extent in sorted(strides):
        yield extent == 1 or stride >= reach
        reach += stride * (extent - 1)
