"""Index rules of ops that give elements other places: nothing is computed."""

from __future__ import annotations

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.symbolic_shapes import place_of
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Opaque, Position
from pirkit.dialect.opdef import index_maps
from pirkit.dialect.rules.index_maps.elementwise_maps import aligned
from pirkit.index.expr import Expr, combine, const
from pirkit.index.extent import is_sized, smaller
from pirkit.index.index_maps import Guard, digits, flat
from pirkit.runtime import dtype as dt


@index_maps("pd_op.reshape", "pd_op.squeeze", "pd_op.unsqueeze", "pd_op.flatten")
def _reshape(call: MapCall) -> Load:
    name = call.names[0]
    position = flat(call.here(), call.out.shape)
    return call.load(name, digits(position, call.meta(name).shape))


@index_maps("pd_op.transpose")
def _transpose(call: MapCall) -> Load:
    here, rank = call.here(), call.out.rank
    index = [const(0)] * rank
    for axis, source in enumerate(call.attrs["perm"]):
        index[source % rank] = here[axis]
    return call.load("x", tuple(index))


@index_maps("pd_op.expand", "pd_op.expand_as")
def _expand(call: MapCall) -> Load | Opaque:
    shape = call.meta("x").shape
    for n, m in zip(reversed(shape), reversed(call.out.shape), strict=False):
        if n != m and (is_sized(n) or n != 1):
            return Opaque("the run decides which axes it repeats")
    return call.load("x", aligned(call.here(), shape))


@index_maps("pd_op.tile")
def _tile(call: MapCall) -> Load:
    shape = call.meta("x").shape
    tail = call.here()[call.out.rank - len(shape) :]
    pairs = zip(tail, shape, strict=True)
    return call.load("x", tuple([e % n if n else const(0) for e, n in pairs]))


@index_maps("pd_op.flip")
def _flip(call: MapCall) -> Load:
    shape, index = call.out.shape, list(call.here())
    for axis in {a % len(shape) for a in call.attrs["axis"] if shape}:
        index[axis] = shape[axis] - 1 - index[axis]
    return call.load("x", tuple(index))


@index_maps("pd_op.roll")
def _roll(call: MapCall) -> Load | Opaque:
    shape, index = call.out.shape, list(call.here())
    shifts = call.attrs["shifts"]
    if 0 in shape or not shape:
        return call.load("x", tuple(index))
    if not call.attrs["axis"]:
        total = call.out.numel
        return call.load("x", digits((flat(index, shape) - shifts[0]) % total, shape))
    for axis, shift in zip(call.attrs["axis"], shifts, strict=True):
        place = int(axis) % len(shape)
        index[place] = (index[place] - shift) % shape[place]
    return call.load("x", tuple(index))


@index_maps("pd_op.slice")
def _slice(call: MapCall) -> Load | Opaque:
    shape = call.meta("input").shape
    starts: dict[int, int] = dict(zip(call.attrs["axes"], call.attrs["starts"], strict=True))
    dropped = {a % len(shape) for a in call.attrs["decrease_axis"]}
    here = iter(call.here())
    if len(shape) - len(dropped) != call.out.rank and call.out.shape not in ((), (1,)):
        return Opaque("it drops axes that it does not name")
    index: list[Expr] = []
    for axis, n in enumerate(shape):
        start = starts.get(axis, starts.get(axis - len(shape), 0))
        if axis in dropped and is_sized(n):  # an element that is named has to be there
            first = start + n if start < 0 else start
        else:
            first = place_of(n, start, call.sizes)
        index.append((const(0) if axis in dropped else next(here)) + first)
    return call.load("input", tuple(index))


@index_maps("pd_op.strided_slice")
def _strided_slice(call: MapCall) -> Load | Opaque:
    shape, index = call.meta("x").shape, list(call.here())
    for axis, start, step in zip(
        call.attrs["axes"], call.attrs["starts"], call.attrs["strides"], strict=True
    ):
        axis = int(axis) % len(shape)
        n = shape[axis]
        first = place_of(n, start, call.sizes)
        if step < 0:
            first = smaller(start + n if start < 0 else start, n - 1)  # before 0 it is empty
        index[axis] = index[axis] * step + first
    for e, n in zip(index, shape, strict=True):
        guard = Guard(e, n)
        leaves = guard.is_false if e.sized or is_sized(n) else not guard.is_true
        if call.out.numel and leaves:
            return Opaque("it reaches over an end")
    return call.load("x", tuple(index))


@index_maps("pd_op.diagonal")
def _diagonal(call: MapCall) -> Load:
    rank, offset = len(call.meta("x").shape), call.attrs["offset"]
    first, second = call.attrs["axis1"] % rank, call.attrs["axis2"] % rank
    *others, here = call.here()
    index, rest = list[Expr](), iter(others)
    for axis in range(rank):
        moved = {first: max(-offset, 0), second: max(offset, 0)}.get(axis)
        index.append(next(rest) if moved is None else here + moved)
    return call.load("x", tuple(index))


@index_maps("pd_op.pad")
def _pad(call: MapCall) -> Load | Choose | Fill:
    shape, index = call.meta("x").shape, list(call.here())
    outside = Fill(call.attrs["pad_value"], call.out.dtype)
    if 0 in shape:
        return outside
    guards: list[Guard] = []
    for axis, n in enumerate(shape):
        index[axis] = index[axis] - call.attrs["paddings"][2 * axis]
        guard = Guard(index[axis], n)
        guards += [] if guard.is_true else [guard]
    inside = call.load("x", tuple(index))
    return Choose(tuple(guards), inside, outside) if guards else inside


@index_maps("pd_op.arange")
def _arange(call: MapCall) -> Position | Apply | Opaque:
    start, step = call.attrs["start"], call.attrs["step"]
    dtype = call.out.dtype
    if not dtype.is_integer:
        return Opaque("its numbers are rounded one by one")
    if int(start) != start or int(step) != step:
        return Opaque("its start or step is no integer")
    if dtype not in (dt.int32, dt.int64):
        return Opaque("its numbers may wrap around")
    (here,) = call.here()
    return Position(combine((here, int(step))) + int(start), dtype)


@index_maps("pd_op.shape", "pd_op.shape64")
def _sizes(call: MapCall) -> Node | Opaque:
    """Sizes are known from the tensors that a kernel reads: none of the elements is."""
    shape, dtype = call.meta("input").shape, call.out.dtype
    if not shape:
        return Opaque("a number has no sizes")
    (here,) = call.here()
    found: Node = Position(const(shape[-1]), dtype)
    for axis in range(len(shape) - 2, -1, -1):
        size = Position(const(shape[axis]), dtype)
        found = Choose((Guard(here - axis, 1),), size, found)
    return found
