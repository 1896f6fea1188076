"""The cost model of fusion and decomposition, in calls and bytes; nothing else decides these.

A fused kernel is emitted if it costs less than its operations as separate calls. A single operation
gets a native kernel if the library call takes much longer than native code (`library_cost.py`).

A composite op is decomposed if its parts fuse into kernels, since they then cost no calls of their
own. A library call that both forms need (matmul, factorization, random numbers) cancels out. But a
part that gathers, scatters, sorts or scans is an extra call, with index tensors in memory, that the
kernel of the composite does not need: such an op is not decomposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from xdsl.ir import Operation, SSAValue

from pirkit.dialect.kinds import CONSTANT_LIKE
from pirkit.dialect.map_expr.call import UNKNOWN_SIZE, maps_of
from pirkit.dialect.map_expr.tree import Opaque, Scatter
from pirkit.dialect.opdef import PURE, index_maps, reference
from pirkit.dialect.operation import PirOp, declares
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.types import meta_of
from pirkit.passes.library_cost import slower_ns
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from pirkit.runtime.registry import CPU, KERNELS

NEEDED: Final = frozenset({"products", "linear algebra", "random numbers", "complex numbers"})
"""Groups of primitives that need a library call in either form, so that they cancel out."""


DATA_DEPENDENT: Final = frozenset({"indexing", "complex numbers"})
"""Groups for which the call decides whether there are index maps; for others the op decides."""

MAX_CALLS: Final = 16
"""Library calls that a decomposition may have; a recurrence over a long sequence exceeds it."""

_WRITE_BACK: Final = "pd_op.assign_out_"
_CALL_NS: Final = 300.0
_BYTE_NS: Final = 0.1
"""The fixed cost of a call, and the cost of a byte of memory traffic, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Calls in a plan, bytes that they read and write, and their excess time over native code."""

    calls: int
    nbytes: int = 0
    excess_ns: float = 0.0

    @property
    def ns(self) -> float:
        """Estimated time in nanoseconds; only comparisons of estimates are meaningful."""
        return self.calls * _CALL_NS + self.nbytes * _BYTE_NS + self.excess_ns

    def __add__(self, other: Cost) -> Cost:
        excess = self.excess_ns + other.excess_ns
        return Cost(self.calls + other.calls, self.nbytes + other.nbytes, excess)


def alone(op: str, nbytes: int, excess_ns: float = 0.0) -> Cost:
    """The cost of an operation as a call of its own; a view costs nothing."""
    return Cost(0) if _is_view(op) else Cost(1, nbytes, excess_ns)


@cache
def _is_view(name: str) -> bool:
    return any(kernel.form == "view" for kernel in KERNELS.kernels(name, backend=CPU))


def has_kernel(op: PirOp) -> bool:
    """True if the op can run undecomposed: it has a library kernel or a reference rule."""
    return reference.get(op.definition.base) is not None or _is_in_library(op)


def _is_in_library(op: PirOp) -> bool:
    return any(True for _ in KERNELS.kernels(op.definition.base.name, backend=CPU))


def why_keep_composite(op: PirOp, parts: Sequence[PirOp], given: Iterable[SSAValue]) -> str | None:
    """Why a composite op should not be decomposed into these parts; None if it should.

    ``given`` are the values that replace the used results of the op. If the op has no library
    kernel, only a reference rule, a scatter among its parts may become a kernel by itself.
    """
    alone = not _is_in_library(op)
    calls = 0
    for part in _needed(parts, given):
        group = _group(part)
        if (
            declares(part, CONSTANT_LIKE)
            or part.name == _WRITE_BACK
            or part.name.startswith("pir.")
            or _fuses(part, group, alone)
        ):
            continue
        if group not in NEEDED:
            return f"`{part.name}` would be a call that the composite does not need"
        calls += 1
    if calls > MAX_CALLS:
        return f"it would be {calls} calls of a library"
    return None


def _group(part: PirOp) -> str:
    """The group of a primitive; the empty string for an op that is not a primitive."""
    known = PRIMITIVES.get(part.name)
    return known.group if known is not None else ""


def _needed(parts: Sequence[PirOp], given: Iterable[SSAValue]) -> list[PirOp]:
    """The parts that ``given`` depends on or that have an effect, in order; the rest is dead."""
    found: set[Operation] = set()
    read = set(given)
    for part in reversed(parts):
        acts = part.definition.effects != PURE or part.definition.writes
        if acts or any(r in read for r in part.results):
            found.add(part)
            read.update(part.operands)
    return [part for part in parts if part in found]


def _fuses(part: PirOp, group: str, alone: bool) -> bool:
    if index_maps.get(part.definition) is None or group not in DATA_DEPENDENT:
        return index_maps.get(part.definition) is not None
    maps = maps_of(part)
    if isinstance(maps, Opaque):
        return maps is UNKNOWN_SIZE
    if not any(isinstance(value, Scatter) for value in maps):
        return True
    return alone and _is_slow(part)  # the result of a scatter cannot be fused into its user


def _is_slow(part: PirOp) -> bool:
    """True if the library is so slow that a kernel with this single op is worth it."""
    metas = [meta_of(v.type) for v in (*part.operands, part.results[0])]
    known = [m for m in metas if isinstance(m, TensorMeta) and UNKNOWN not in m.shape]
    return len(known) == len(metas) and slower_ns(part.name, known[:-1], known[-1]) > 0
