"""What fusion gains, by calls and bytes: the one place where that is decided.

A kernel is worth making if it costs less than its operations one by one. An operation alone is
worth one where a library's call takes much longer than native code (`library_cost.py`).

An operator is worth decomposing if its parts go into kernels, where they cost no calls of their
own. What a library has to compute in either case (a product, a factorisation, random numbers) is no
loss. But a part that only moves elements to places that depend on the data, sorts them, or goes
over them one by one is a call that the operator as a whole does not need, with tensors of indices
in memory: there the whole is the better kernel.
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
"""Groups of primitives that the operator as a whole computes just so."""


DATA_DEPENDENT: Final = frozenset({"indexing", "complex numbers"})
"""Groups of which the call tells whether there are index maps; elsewhere the op does."""

MAX_CALLS: Final = 16
"""Calls of a library that an operator may become; a recurrence over a long sequence is many."""

_WRITE_BACK: Final = "pd_op.assign_out_"
_CALL_NS: Final = 300.0
_BYTE_NS: Final = 0.1
"""What a call costs whatever it computes, and a byte that moves."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Calls from a plan, bytes that they move, and what they take longer than native code."""

    calls: int
    nbytes: int = 0
    excess_ns: float = 0.0

    @property
    def ns(self) -> float:
        """A guess of the time, for comparisons."""
        return self.calls * _CALL_NS + self.nbytes * _BYTE_NS + self.excess_ns

    def __add__(self, other: Cost) -> Cost:
        excess = self.excess_ns + other.excess_ns
        return Cost(self.calls + other.calls, self.nbytes + other.nbytes, excess)


def alone(op: str, nbytes: int, excess_ns: float = 0.0) -> Cost:
    """The cost of an operation as a call; one that gives a view moves nothing."""
    return Cost(0) if _is_view(op) else Cost(1, nbytes, excess_ns)


@cache
def _is_view(name: str) -> bool:
    return any(kernel.form == "view" for kernel in KERNELS.kernels(name, backend=CPU))


def has_kernel(op: PirOp) -> bool:
    """Whether there is anything to run an operator as a whole."""
    return reference.get(op.definition.base) is not None or _is_in_library(op)


def _is_in_library(op: PirOp) -> bool:
    return any(True for _ in KERNELS.kernels(op.definition.base.name, backend=CPU))


def why_keep_composite(op: PirOp, parts: Sequence[PirOp], given: Iterable[SSAValue]) -> str | None:
    """Why an operator with a kernel should not be decomposed than become these parts, if it had.

    ``given`` are the values in the place of what is read of it. Of an operator that only its
    reference rule computes, parts that write at data-dependent indices may be kernels alone.
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
    """The group of a primitive; of an operator that was not decomposed, none."""
    known = PRIMITIVES.get(part.name)
    return known.group if known is not None else ""


def _needed(parts: Sequence[PirOp], given: Iterable[SSAValue]) -> list[PirOp]:
    """Those parts that values depend on, and those that act; in order."""
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
    return alone and _is_slow(part)  # no reader joins its kernel


def _is_slow(part: PirOp) -> bool:
    """Whether the library is so slow that an op is a kernel alone."""
    metas = [meta_of(v.type) for v in (*part.operands, part.results[0])]
    known = [m for m in metas if isinstance(m, TensorMeta) and UNKNOWN not in m.shape]
    return len(known) == len(metas) and slower_ns(part.name, known[:-1], known[-1]) > 0
