"""The cost model of fusion and decomposition, in calls and bytes; nothing else decides these.

A fused kernel is emitted if it costs less than its operations as separate calls. A single operation
gets a native kernel if the library call takes much longer than native code: numpy converts float16
and bfloat16 one by one, computes some functions without vectors or in several loops over memory,
and runs short inner loops if operands are broadcast or if the reduced axis is not the last one. All
other ops are bound by memory bandwidth either way, and cost the same.

A composite op is decomposed if its parts fuse into kernels, since they then cost no calls of their
own. What both forms need cancels out: a library call (matmul, factorization, random numbers), and a
loop, as the composite's kernel has one too. But a part that gathers, scatters, sorts or scans is an
extra call, with index tensors in memory, that the kernel of the composite does not need: such an op
is not decomposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from msgspec import Struct
from xdsl.ir import Operation, SSAValue

from pirkit.dialect.kinds import CONSTANT_LIKE, COSTLY, ELEMENTWISE, LOOP
from pirkit.dialect.map_expr.call import UNKNOWN_SIZE, maps_of
from pirkit.dialect.map_expr.tree import Opaque, Scatter
from pirkit.dialect.opdef import PURE, OpDef, find, index_maps, reference
from pirkit.dialect.operation import PirOp, declares
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.types import meta_of
from pirkit.runtime.binding import HALF_TYPES
from pirkit.runtime.machine_costs import (
    BROADCAST_NS,
    BYTE_NS,
    CALL_NS,
    FP16_NS,
    LEAST_EXCESS_NS,
    SCATTER_CALL_NS,
)
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from pirkit.runtime.registry import CPU, KERNELS

NEEDED: Final = frozenset({"products", "linear algebra", "random numbers", "complex numbers"})
"""Groups of primitives that need a library call in either form, so that they cancel out."""


DATA_DEPENDENT: Final = frozenset({"indexing", "complex numbers"})
"""Groups for which the call decides whether there are index maps; for others the op decides."""

MAX_CALLS: Final = 16
"""Library calls that a decomposition may have; a recurrence over a long sequence exceeds it."""

_WRITE_BACK: Final = "pd_op.assign_out_"
_SHORT: Final = 16
_LONG_RUN: Final = 64
"""Elements of a last axis up to which numpy reduces it quickly, and of a contiguous run from which
on the restart of numpy's inner loop does not matter."""


class Cost(Struct, frozen=True):
    """Calls in a plan, bytes that they read and write, and their excess time over native code."""

    calls: int
    nbytes: int = 0
    excess_ns: float = 0.0

    @property
    def ns(self) -> float:
        """Estimated time in nanoseconds; only comparisons of estimates are meaningful."""
        return self.calls * CALL_NS + self.nbytes * BYTE_NS + self.excess_ns

    def __add__(self, other: Cost) -> Cost:
        excess = self.excess_ns + other.excess_ns
        return Cost(self.calls + other.calls, self.nbytes + other.nbytes, excess)


def alone(op: str, nbytes: int, excess_ns: float = 0.0) -> Cost:
    """The cost of an operation as a call of its own; a view costs nothing."""
    return Cost(0) if _is_view(op) else Cost(1, nbytes, excess_ns)


@cache
def _is_view(name: str) -> bool:
    return any(kernel.form == "view" for kernel in KERNELS.kernels(name, backend=CPU))


def slower_ns(op: str, operands: Sequence[TensorMeta], result: TensorMeta) -> float:
    """The excess time of a library call over native code, in ns; 0 if too little for a kernel.

    All sizes of the operands and of the result must be known. The record's ``library_ns`` has an
    excess per element for a dtype of the first operand, or for a case: ``written`` at indices that
    the data say, beside a fixed one, ``to_int`` of a cast from float, ``run`` for each restart of
    the inner loop of a reduction, ``rows`` of a reduction that is fast only over a short last axis,
    and ``columns`` of one that is fast over any last axis.
    """
    definition = find(op)
    if definition is None or not operands:
        return 0.0
    written = definition.library_ns.get("written")
    if written is not None:
        found = SCATTER_CALL_NS + max(m.numel for m in operands[1:]) * written
    else:
        elements = max(m.numel for m in (*operands, result))
        found = elements * _element_ns(definition, operands, result)
    return found if found >= LEAST_EXCESS_NS else 0.0


def _element_ns(definition: OpDef, operands: Sequence[TensorMeta], result: TensorMeta) -> float:
    x, excess = operands[0], definition.library_ns
    if x.dtype in HALF_TYPES or result.dtype in HALF_TYPES:
        return FP16_NS
    if "to_int" in excess:
        return excess["to_int"] if x.dtype.kind == "float" and result.dtype.kind == "int" else 0.0
    same_rows = bool(x.rank and result.rank) and x.shape[-1] == result.shape[-1] > 1
    if "run" in excess and not same_rows and (run := _run(x, result)) < _LONG_RUN:
        return excess["run"] / run
    if "rows" in excess:
        return excess["rows"] if same_rows or (x.rank and x.shape[-1] >= _SHORT) else 0.0
    if "columns" in excess:
        return excess["columns"] if same_rows else 0.0
    if definition.kind == ELEMENTWISE and definition.cost < COSTLY:
        repeated = any(m.numel not in (1, result.numel) for m in operands)
        return BROADCAST_NS if repeated else 0.0
    return excess.get(x.dtype.name, 0.0)


def _run(x: TensorMeta, result: TensorMeta) -> int:
    """The number of contiguous elements that are reduced together: those of the last axes."""
    last = next((n for n in reversed(result.shape) if n != 1), None)
    run = 1
    for n in reversed(x.shape):
        if n == last:
            break
        run *= n
    return max(run, 1)


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
    if _is_view(op.name) and index_maps.get(op.definition) is not None:
        return "it is a view, and its readers read at its indices"
    alone = not _is_in_library(op)
    calls = 0
    for part in _needed(parts, given):
        group = _group(part)
        if (
            declares(part, CONSTANT_LIKE)
            or part.name == _WRITE_BACK
            or part.name.startswith("pir.")
            or declares(part, LOOP)
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
