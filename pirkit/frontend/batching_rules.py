"""Batching rules: the form of an op for many rows, with an axis of rows in front.

A rule takes a `OneRow`, emits ops for all rows, and returns their results: values with an axis of
rows, or `Batched` ones. None means that the rule does not serve the call; `batching` then
decomposes the op or loops over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Final, cast

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.build import Value
from pirkit.dialect.ops.control.derivatives import CHECKPOINT, CUSTOM
from pirkit.dialect.ops.linalg.solve import holds_vectors
from pirkit.dialect.rules.movement.size_ops import (
    as_list,
    as_shape,
    in_shape,
    product,
    shrunk,
    sizes_of,
)
from pirkit.dialect.types import meta_of
from pirkit.frontend.batched import Batched, OneRow, reshaped
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Rule = Callable[[OneRow], Any]


def elementwise(one: OneRow) -> Any:
    """The rule of elementwise ops: operands are aligned, and the op broadcasts them.

    Where the op refuses to, operands that all rows share are expanded to as many rows first.
    """
    slots = one.op.definition.operands
    at = [i for i, s in enumerate(slots) if s.kind is None and one.operands[i] is not None]
    metas = [one.meta(i) for i in at]
    rank = max(m.rank for m in metas)
    values = [one.aligned(i, rank) if rank else one.value(i) for i in at]
    # A number beside a tensor does not promote it; with an axis of rows it would.
    kinds = {m.dtype for m in metas if m.rank and m.dtype.is_float}
    for k, m in enumerate(metas):
        if len(kinds) == 1 and not m.rank and m.dtype.is_float:
            values[k] = one.b.cast(values[k], *kinds)
    try:
        return one.emit(values)
    except ConstraintError:
        if len(at) == 1 or all(one.operands[i].rows for i in at):
            return None
    for k, (i, m) in enumerate(zip(at, metas, strict=True)):
        if not one.operands[i].rows:
            given = reshaped(one.b, values[k], (1, *[1] * (rank - m.rank), *m.shape))
            shape = (one.count, *given.shape[1:])
            values[k] = one.b("pd_op.expand", given, shape=shape)
    try:
        return one.emit(values)
    except ConstraintError:
        return None


def _same(one: OneRow) -> Any:
    """An op of one tensor, or list of tensors, that does the same for every shape."""
    given = one.operands[0]
    if isinstance(given, list):
        return [one.emit([one.broadcast(v)]) for v in cast("list[Batched]", given)]
    return one.emit([one.value(0)])


def _leading(one: OneRow) -> Any:
    """Ops on the matrices of the last two axes; axes in front of these are aligned.

    The right-hand side of `solve` may be a vector, which becomes a matrix of one column.
    """
    given = [i for i, v in enumerate(one.operands) if v is not None]
    plain = [one.meta(i).shape for i in given]
    if one.op.name == "pd_op.solve" and holds_vectors(*plain):
        plain[1] = (*plain[1], 1)
    rank = max(map(len, plain))
    shapes = [(one.count, *[1] * (rank - len(s)), *s) for s in plain]
    pairs = zip(given, shapes, strict=True)
    found = one.emit([reshaped(one.b, one.value(i), shape) for i, shape in pairs])
    if isinstance(found, tuple):
        metas = [cast(TensorMeta, meta_of(r.type)) for r in one.op.results]
        pairs = zip(cast("tuple[Value, ...]", found), metas, strict=True)
        return tuple([reshaped(one.b, v, (one.count, *m.shape)) for v, m in pairs])
    if one.op.name == "pd_op.slogdet":  # signs, then logarithms, of all matrices
        found = one.b.transpose(found, perm=(1, 0, *range(2, found.rank)))
    return one.shaped(found)


def _shifted(name: str) -> Rule:
    """An op on one operand whose attribute ``name`` is an axis, or several."""

    def rule(one: OneRow) -> Any:
        given = one.attrs[name]
        x = one.value(0)
        if one.attrs.get("flatten"):
            x = one.b.reshape(x, (one.count, -1))
            found = one.emit([x], **{name: 1, "flatten": False})
            first = cast("Value", found[0] if isinstance(found, tuple) else found)
            return one.shaped(first)
        if not one.rank:  # a number: its row is the only axis
            x = one.b.reshape(x, (one.count, 1))
            found = one.emit([x], **{name: 1 if isinstance(given, int) else [1]})
            several = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
            return tuple([one.b.reshape(v, (one.count,)) for v in several])
        return one.emit([x], **{name: _moved(given, one.rank)})

    return rule


def _moved(axis: Any, rank: int) -> Any:
    """An axis of one row, or several, behind the axis of rows."""
    if isinstance(axis, int):
        return axis % rank + 1
    return [int(a) % rank + 1 for a in axis]


def _reduced(one: OneRow) -> Any:
    """A reduction; without axes it reduces all axes of a row."""
    given = one.attrs["axis"]
    listed = [given] if isinstance(given, int) else list(given or ())
    axes = [a % one.rank for a in listed] if one.rank else []
    if not listed or one.attrs.get("reduce_all"):
        axes = list(range(one.rank))
    x = one.value(0)
    if not one.rank:
        x, axes = one.b.reshape(x, (one.count, 1)), [0]
    changed: dict[str, Any] = {"axis": [a + 1 for a in axes]}
    if "reduce_all" in one.attrs:
        changed["reduce_all"] = False
    return one.shaped(one.emit([x], **changed))


def _reshape(one: OneRow) -> Any:
    if one.result.shape.count(UNKNOWN) < 2:
        return one.b.reshape(one.value(0), (one.count, *one.result.shape))
    if one.op.name != "pd_op.reshape":
        return None
    return one.b.reshape(one.value(0), one.with_rows("shape"))


def _transpose(one: OneRow) -> Any:
    perm = [a % one.rank + 1 for a in one.attrs["perm"]] if one.rank else []
    return one.b("pd_op.transpose", one.value(0), perm=(0, *perm))


def _expand(one: OneRow) -> Any:
    x = one.aligned(0, one.result.rank)
    is_known = UNKNOWN not in one.result.shape
    shape = (one.count, *one.result.shape) if is_known else one.with_rows("shape")
    return one.b("pd_op.expand", x, shape=shape)


def _sliced(one: OneRow) -> Any:
    changed: dict[str, Any] = {"axes": _moved(one.attrs["axes"], one.rank)}
    if one.attrs.get("decrease_axis"):
        changed["decrease_axis"] = _moved(one.attrs["decrease_axis"], one.rank)
    return one.emit([one.value(0)], **changed)


def _pad(one: OneRow) -> Any:
    return one.emit([one.value(0)], paddings=(0, 0, *one.attrs["paddings"]))


def _joined(one: OneRow) -> Any:
    parts = [one.broadcast(v) for v in cast("list[Batched]", one.operands[0])]
    rank = parts[0].rank - 1 + (one.op.name == "pd_op.stack")
    return one.emit([parts], axis=one.attrs["axis"] % rank + 1)


def _matmul(one: OneRow) -> Any:
    """A matmul: vectors become matrices, and axes in front of the matrices are aligned.

    Rows times one matrix are one tiled matmul; a matmul for each row would read the matrix anew.
    Dot products of rows with rows are sums of products, unless the products would be rounded to
    half precision.
    """
    b, ranks = one.b, [one.meta(0).rank, one.meta(1).rank]
    x, y = one.operands
    flips = [bool(one.attrs[name]) for name in ("transpose_x", "transpose_y")]
    if x.rows and not y.rows and ranks[1] == 2 and (ranks[0] == 1 or not flips[0]):
        *lead, depth = sizes_of(b, x.value)
        rows = in_shape(b, x.value, [reduce(partial(product, b), lead), depth])
        found = one.emit([rows, y.value], transpose_x=False)
        return in_shape(b, found, [*lead, sizes_of(b, found)[1]])
    if y.rows and not x.rows and ranks == [2, 1]:
        found = one.emit([y.value, x.value], transpose_x=False, transpose_y=not flips[0])
        return found
    if ranks == [1, 1] and not (x.rows and y.rows):
        rows, column = (x, y) if x.rows else (y, x)
        sides = [rows.value, b.reshape(column.value, (-1, 1))]
        return b.reshape(one.emit(sides, transpose_x=False, transpose_y=False), (one.count,))
    if ranks == [1, 1] and one.result.dtype.itemsize >= 4:
        terms = b.multiply(x.value, y.value)
        return b("pd_op.sum", terms, axis=(1,), dtype=one.result.dtype)
    rank = max(2, *ranks)
    sides = list[Value]()
    for slot, name in enumerate(("transpose_x", "transpose_y")):
        given = one.operands[slot]
        x, plain = given.value, one.meta(slot).shape
        if len(plain) == 1:
            as_row = (slot == 0) != bool(one.attrs[name])
            plain = (1, *plain) if as_row else (*plain, 1)
        lead = (one.count, *[1] * (rank - len(plain))) if given.rows else ()
        sides.append(reshaped(b, x, (*lead, *plain)))
    return one.shaped(one.emit(sides))


def _gather(one: OneRow) -> Any:
    """A gather along an axis, as one op if all rows share the indices.

    If each row has its own indices, it is a `gather_nd` whose indices begin with the row number.
    """
    b, axis = one.b, int(one.attrs["axis"]) % max(one.rank, 1)
    index = one.operands[1]
    if not index.rows:
        return one.emit([one.value(0), index.value], axis=axis + 1)
    x, places = one.value(0), one.value(1)
    front = [1 + axis, *[a for a in range(1, x.rank) if a != 1 + axis]]
    rows = b("pd_op.transpose", x, perm=(0, *front))
    taken = b.gather_nd(rows, _paired(one, b.reshape(places, (one.count, -1, 1))))
    order = [0, *range(2, 2 + axis), 1, *range(2 + axis, taken.rank)]
    return one.shaped(b("pd_op.transpose", taken, perm=order))


def _paired(one: OneRow, places: Value) -> Value:
    """Indices for `gather_nd` with the row number in front of their coordinates.

    From ``places`` of shape (rows, ..., k) that makes the shape (rows, ..., k + 1).
    """
    b, last = one.b, places.rank - 1
    numbers = b("pd_op.arange", start=0, end=one.count, step=1, dtype=places.dtype)
    numbers = b.reshape(numbers, (one.count, *[1] * last))
    front = as_shape(b, [*sizes_of(b, places)[:last], 1])
    return b.concat([b("pd_op.expand", numbers, shape=front), places], axis=last)


def _gather_nd(one: OneRow) -> Any:
    x, index = one.operands
    if not x.rows:
        return one.emit([x.value, index.value])
    if index.rows:
        return one.emit([x.value, _paired(one, index.value)])
    depth, at = index.value.shape[-1], index.value.rank - 1  # the same places in all rows
    behind = [*range(1, depth + 1), 0, *range(depth + 1, x.value.rank)]
    found = one.emit([one.b("pd_op.transpose", x.value, perm=behind), index.value])
    front = [at, *[a for a in range(found.rank) if a != at]]
    return one.b("pd_op.transpose", found, perm=front)


def _scatter_nd(one: OneRow) -> Any:
    return one.emit([one.value(0), _paired(one, one.value(1)), one.value(2)])


def _along_axis(one: OneRow) -> Any:
    tensors = [one.value(i) for i in range(len(one.operands))]
    rank = max(v.rank for v in tensors)  # a 0-D operand broadcasts along its row
    tensors = [
        v if v.rank == rank else one.b.reshape(v, (one.count, *[1] * (rank - v.rank), *v.shape[1:]))
        for v in tensors
    ]
    return one.emit(tensors, axis=one.attrs["axis"] % one.rank + 1)


def _shape(one: OneRow) -> Any:
    """All rows share their sizes, some of which the program may not know."""
    sizes = one.b.integers(one.meta(0).shape)
    if UNKNOWN in one.meta(0).shape:
        found = one.emit([one.value(0)])
        sizes = one.b("pd_op.slice", found, axes=(0,), starts=(1,), ends=(one.rank + 1,))
    return Batched(one.b.cast(sizes, one.result.dtype), False)


def _convolution(one: OneRow) -> Any:
    """A convolution: rows of images become more images of the batch.

    If each row has its own filters, rows become groups of channels instead.
    """
    b, attrs, x, filters = one.b, one.attrs, one.value(0), one.operands[1]
    if not filters.rows:
        _, each, *sizes = sizes_of(b, x)
        images = in_shape(b, x, [product(b, one.count, each), *sizes])
        found = one.emit([images, filters.value])
        return in_shape(b, found, [one.count, each, *sizes_of(b, found)[1:]])
    channels = one.rank - 1 if attrs["data_format"][-1] == "C" else 1
    order = [*range(1, channels + 1), 0, *range(channels + 1, x.rank)]
    joined = b("pd_op.transpose", x, perm=order)
    sizes = sizes_of(b, joined)
    sizes[channels : channels + 2] = [product(b, one.count, sizes[channels + 1])]
    _, each, *window = sizes_of(b, filters.value)
    weights = in_shape(b, filters.value, [product(b, one.count, each), *window])
    images = in_shape(b, joined, sizes)
    found = one.emit([images, weights], groups=one.count * attrs["groups"])
    sizes = sizes_of(b, found)
    sizes[channels : channels + 1] = [one.count, shrunk(b, sizes[channels], one.count)]
    back = [channels, *[a for a in range(len(sizes)) if a != channels]]
    return b("pd_op.transpose", in_shape(b, found, sizes), perm=back)


def _roll(one: OneRow) -> Any:
    x, axes = one.value(0), one.attrs["axis"]
    if axes:
        return one.emit([x], axis=_moved(axes, one.rank))
    rows = one.emit([one.b.reshape(x, (one.count, -1))], axis=[1])
    return in_shape(one.b, rows, sizes_of(one.b, x))


def _searchsorted(one: OneRow) -> Any:
    """A sequence that all rows share serves all values; otherwise each row has a sequence."""
    b, sequence = one.b, one.operands[0]
    if not sequence.rows and one.rank == 1:
        return one.emit([sequence.value, one.value(1)])
    values = one.value(1)
    if one.rank == 1:
        values = b.reshape(values, (one.count, -1))
    return in_shape(b, one.emit([one.value(0), values]), sizes_of(b, one.value(1)))


def _framed(one: OneRow) -> Any:
    """`frame` and `overlap_add`; those along the first axis of a row are computed along the last.

    There the op has the axes of frames in reverse order, so they are moved and reversed, and back.
    """
    x = one.value(0)
    if one.attrs["axis"]:
        return one.emit([x])
    taken, given = (1, 2) if one.op.name == "pd_op.frame" else (2, 1)
    b, order = one.b, [0, *range(taken + 1, x.rank), *range(taken, 0, -1)]
    found = one.emit([b("pd_op.transpose", x, perm=order)], axis=-1)
    last = found.rank - 1
    back = [0, *range(last, last - given, -1), *range(1, found.rank - given)]
    return b("pd_op.transpose", found, perm=back)


def _filled(one: OneRow) -> Any:
    """A tensor of one element for each row."""
    x = one.b.reshape(one.value(0), (one.count, *[1] * one.result.rank))
    return one.b("pd_op.expand", one.b.cast(x, one.result.dtype), shape=one.with_rows("shape"))


def _reduced_as(one: OneRow) -> Any:
    """`reduce_as`: the sum over the axes that a broadcast of the target would add or expand."""
    x, target = one.value(0), one.meta(1).shape
    lead = one.rank - len(target)
    if UNKNOWN in (*target, *one.meta(0).shape):
        aligned = reshaped(one.b, one.value(1), (one.count, *[1] * lead, *target))
        return one.shaped(one.emit([x, aligned]))
    kept = [lead + i for i, d in enumerate(target) if d != 1 or one.meta(0).shape[lead + i] == 1]
    axes = [a + 1 for a in range(one.rank) if a not in kept]
    dtype = one.result.dtype
    total = one.b("pd_op.sum", x, axis=axes, dtype=dtype) if axes else one.b.cast(x, dtype)
    return one.b.reshape(total, (one.count, *target))


def _custom(one: OneRow) -> Any:
    """A derivative that the user wrote, as one op on all rows; see `custom_rules`."""
    return one.emit([one.value(i) for i in range(len(one.operands))])


def _recomputed(one: OneRow) -> Any:
    """`checkpoint`: results get rows; inputs, from which they are recomputed, keep their forms."""
    count = one.attrs["outputs"]
    outputs = [one.value(i) for i in range(count)]
    return one.emit([*outputs, *[v.value for v in one.operands[count:]]])


def _depend(one: OneRow) -> Any:
    return one.emit([one.value(0), [v.value for v in one.operands[1]]])


def _embedding(one: OneRow) -> Any:
    """Rows of one table, or of a table for each row.

    For the latter, `gather_nd` would count negative ids from the end; they are mapped beyond the
    table, so that it refuses them as `embedding` does.
    """
    b = one.b
    if not one.operands[1].rows:
        return one.emit([one.value(0), one.operands[1].value])
    ids = b.reshape(b.places(one.value(0)), (one.count, -1, 1))
    _, rows, width = sizes_of(b, one.value(1))
    inside = b.where(ids < 0, b.cast(as_list(b, rows), ids.dtype), ids)
    taken = b.gather_nd(one.value(1), _paired(one, inside))
    if (padding := one.attrs["padding_idx"]) != -1:
        taken = b.where(ids == padding, b.zeros_like(taken), taken)
    return in_shape(b, taken, [*sizes_of(b, one.value(0)), width])


def _named(rule: Rule, names: str) -> dict[str, Rule]:
    return {f"pd_op.{name}": rule for name in names.split()}


RULES: Final[dict[str, Rule]] = {
    CUSTOM: _custom,
    CHECKPOINT: _recomputed,
    "pd_op.depend": _depend,
    **_named(_same, "assign share_data full_like as_real as_complex memcpy_h2d"
                    " memcpy_d2h"),
    **_named(_reduced, "sum mean max min prod any all amax amin logsumexp"),
    **_named(_shifted("axis"), "cumsum cummax cummin argmax argmin argsort topk softmax flip"
                               " log_softmax"),
    **_named(_shifted("axes"), "fft_c2c fft_r2c fft_c2r"),
    **_named(_shifted("dim"), "cumprod"),
    **_named(_roll, "roll"),
    **_named(_searchsorted, "searchsorted"),
    **_named(_framed, "frame overlap_add"),
    **_named(_filled, "full_with_tensor"),
    **_named(_reduced_as, "reduce_as"),
    **_named(_reshape, "reshape squeeze unsqueeze flatten"),
    **_named(_transpose, "transpose"),
    **_named(_expand, "expand"),
    **_named(_sliced, "slice strided_slice"),
    **_named(_pad, "pad"),
    **_named(_joined, "concat stack"),
    **_named(_matmul, "matmul"),
    **_named(_gather, "gather"),
    **_named(_gather_nd, "gather_nd"),
    **_named(_scatter_nd, "scatter_nd_add"),
    **_named(_along_axis, "take_along_axis put_along_axis"),
    **_named(_shape, "shape64 shape"),
    **_named(_convolution, "conv2d conv3d conv2d_transpose conv3d_transpose"),
    **_named(_embedding, "embedding"),
    **_named(_leading, "cholesky triangular_solve qr svd inverse det eig eigh slogdet slogdet_v2"
                       " lu solve"),
}  # fmt: skip
"""The rule of each op, except those of the kind elementwise, which have `elementwise`."""
