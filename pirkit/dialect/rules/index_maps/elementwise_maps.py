"""Index rules of ops that compute each element from one element of each operand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.tree import Apply, Fill, Load, Opaque
from pirkit.dialect.opdef import index_maps, lookup
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.promotion import promote
from pirkit.index.expr import broadcast, const
from pirkit.index.index_maps import Index
from pirkit.runtime.dtype import DType

GROUPS: Final = ("arithmetic", "functions", "choice", "piecewise constant", "comparison and logic")
"""Groups of primitives whose members compute element by element."""

COMPLEX: Final = ("real", "imag", "complex", "conj")
_PAIR: Final = frozenset({"x", "y"})
NAMES: Final = ("assign", "share_data", "share_data_")


def elementwise() -> Iterator[str]:
    """Names of ops that compute element by element."""
    yield from (name for name, primitive in PRIMITIVES.items() if primitive.group in GROUPS)
    yield from (f"pd_op.{name}" for name in COMPLEX)


def aligned(index: Index, shape: tuple[int, ...]) -> Index:
    """The element of a tensor of that shape that is spread to an index: axes align at the end."""
    tail = index[len(index) - len(shape) :]
    return tuple([broadcast(e, n) for e, n in zip(tail, shape, strict=True)])


def _broadcast(call: MapCall) -> Apply | Opaque:
    here, out = call.here(), call.out
    args: list[Load | Apply] = []
    common = _outranked(call)
    for name in call.names:
        meta = call.meta(name)
        if len(meta.shape) > out.rank:
            return Opaque("an operand has more axes than the result")
        load = call.load(name, aligned(here, meta.shape))
        if common is not None and name in _PAIR and meta.dtype is not common:
            args.append(cast_to(load, meta.dtype, common))
        else:
            args.append(load)
    return Apply(call.definition.base.name, tuple(args), out.dtype, call.attrs)


def _outranked(call: MapCall) -> DType | None:
    """The type of a tensor that a 0-D operand of another type does not promote, as scalars do."""
    if not _PAIR <= {*call.names}:
        return None
    x, y = call.meta("x"), call.meta("y")
    is_mixed = x.dtype is not y.dtype and (x.rank == 0) != (y.rank == 0)
    return promote(x, y, "C2") if is_mixed else None


index_maps(*elementwise())(_broadcast)


@index_maps(*(f"pd_op.{name}" for name in NAMES))
def _same(call: MapCall) -> Load:
    return call.load("x", call.here())


@index_maps("pd_op.full", "pd_op.full_like")
def _constant(call: MapCall) -> Fill | Opaque:
    value, dtype = call.attrs["value"], call.out.dtype
    return Fill(value, dtype) if value is not None else Opaque("its value is computed")


@index_maps("pd_op.full_with_tensor")
def _computed(call: MapCall) -> Apply | Opaque:
    if call.meta("value").numel != 1:
        return Opaque("its value is no single number")
    zero = tuple([const(0) for _ in call.meta("value").shape])
    return cast_to(call.load("value", zero), call.meta("value").dtype, call.out.dtype)


def cast_to(load: Load, have: DType, want: DType) -> Apply:
    """A load as another element type."""
    name = "pd_op.assign" if have is want else "pd_op.cast"
    attrs = {} if have is want else {"dtype": want}
    return Apply(lookup(name).name, (load,), want, attrs)
