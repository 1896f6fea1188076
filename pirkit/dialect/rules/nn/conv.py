"""Convolutions: the derivative of one is another, so the family is closed.

With `y[p] = sum_k x[p * stride + k * dilation - before] * w[k]`, the cotangent of `x` is the
transposed convolution of that of `y`, and the cotangent of `w` is a convolution in which stride
and dilation are exchanged, and so are batch and channels.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.movement import END
from pirkit.dialect.windows import CHANNELS_LAST, Slide, slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


def _first(c: OpCall, x: Value) -> Value:
    """``x`` with the channels in dimension 1."""
    if c.data_format not in CHANNELS_LAST:
        return x
    return c.b.transpose(x, perm=(0, x.rank - 1, *range(1, x.rank - 1)))


def _back(c: OpCall, x: Value) -> Value:
    """The inverse of :func:`_first`."""
    if c.data_format not in CHANNELS_LAST:
        return x
    return c.b.transpose(x, perm=(0, *range(2, x.rank), 1))


def _moves(c: OpCall, image: Value, windows: Value) -> tuple[Slide, ...]:
    """How the filter moves over ``image`` to give the positions of ``windows``.

    The padding at the end is computed to fit; it is negative if no window covers the last elements.
    """
    lengths, sizes = image.shape[2:], c.filter.shape[2:]
    moving = [length for length, stride in zip(lengths, c.strides, strict=True) if stride != 1]
    if c.padding_algorithm == "SAME" and UNKNOWN in (*moving, *sizes):
        raise UnsupportedError(
            f"the derivative of `{c.definition.name}` with padding SAME needs known sizes",
            code="PK0402",
        )
    given = slides(
        lengths, sizes, c.strides, c.paddings, c.padding_algorithm, c.dilations, "padding"
    )
    fitted: list[Slide] = []
    for move, length, count in zip(given, lengths, windows.shape[2:], strict=True):
        after = move.after
        if UNKNOWN not in (length, count, move.size):
            after = (count - 1) * move.stride + move.extent - move.before - length
        fitted.append(Slide(move.size, move.stride, move.dilation, move.before, after))
    return tuple(fitted)


def _name(image: Value, suffix: str = "") -> str:
    return f"pd_op.conv{image.rank - 2}d{suffix}"


def _format(image: Value) -> str:
    return "NCHW" if image.rank == 4 else "NCDHW"


def _padding(moves: Sequence[Slide]) -> tuple[int, ...]:
    return tuple([n for m in moves for n in (m.before, max(m.after, 0))])


def _cut(b: Builder, x: Value, like: Value) -> Value:
    """The first elements of ``x`` along the spatial dimensions, as many as ``like`` has."""
    axes = tuple(
        [i for i in range(2, x.rank) if UNKNOWN == like.shape[i] or like.shape[i] != x.shape[i]]
    )
    if not axes:
        return x
    ends: tuple[int, ...] | Value = tuple([like.shape[i] for i in axes])
    if UNKNOWN in ends:
        ends = b.gather(b.shape_of(like), b.integers(axes), axis=0)
    zeros, flags = (0,) * len(axes), (1,) * len(axes)
    return b.slice(x, axes=axes, starts=zeros, ends=ends, infer_flags=flags, decrease_axis=())


def _correlated(c: OpCall, image: Value, filter: Value, moves: Sequence[Slide]) -> Value:
    return c.b(
        _name(image), image, filter,
        strides=tuple([m.stride for m in moves]), paddings=_padding(moves),
        padding_algorithm="EXPLICIT", dilations=tuple([m.dilation for m in moves]),
        groups=c.groups, data_format=_format(image),
    )  # fmt: skip


def _patch_gradient(c: OpCall, g: Value, image: Value, moves: Sequence[Slide]) -> Value:
    """The cotangent of ``image``; along unknown sizes it is computed too long, and sliced.

    Where all windows may end in the padding before the image it begins too early, and is sliced.
    """
    extra: list[int] = []
    missed: list[int] = []
    fitted: list[Slide] = []
    for m, count, length in zip(moves, g.shape[2:], image.shape[2:], strict=True):
        extent = 1 if m.size == UNKNOWN else m.extent
        is_open = UNKNOWN in (count, m.size, length)
        extra.append(m.stride - 1 if is_open else max(-m.after, 0))
        last = 0 if is_open else (count - 1) * m.stride
        missed.append(max(m.before - extent - last, 0) if m.stride > 1 else 0)
        is_cut = is_open and m.stride > 1 and m.before + m.after > extent
        fitted.append(replace(m, before=m.before - missed[-1], after=0 if is_cut else m.after))
    moves = fitted
    out = c.b(
        _name(image, "_transpose"), g, c.filter,
        strides=tuple([m.stride for m in moves]), paddings=_padding(moves),
        output_padding=tuple(extra), padding_algorithm="EXPLICIT",
        dilations=tuple([m.dilation for m in moves]), groups=c.groups, data_format=_format(image),
    )  # fmt: skip
    if any(missed):
        late = {axis: n for axis, n in enumerate(missed, 2) if n}
        out = c.b.slice(
            out, axes=tuple(late), starts=tuple(late.values()), ends=(END,) * len(late),
            infer_flags=(1,) * len(late), decrease_axis=(),
        )  # fmt: skip
    may_be_long = UNKNOWN in (*out.shape[2:], *image.shape[2:]) and any(extra)
    return _cut(c.b, out, image) if may_be_long else out


def _met(b: Builder, image: Value, moves: Sequence[Slide]) -> Value:
    """The image without the last elements along known lengths, where no window meets them."""
    lengths = {
        k: max(length + m.after, 1)
        for k, (m, length) in enumerate(zip(moves, image.shape[2:], strict=True), 2)
        if m.after < 0 and length != UNKNOWN
    }
    if not lengths:
        return image
    return b.slice(
        image, axes=tuple(lengths), starts=(0,) * len(lengths), ends=tuple(lengths.values()),
        infer_flags=(1,) * len(lengths), decrease_axis=(),
    )  # fmt: skip


def _by_group(b: Builder, image: Value, groups: int) -> Value:
    """``[N, groups * C, ...]`` as ``[C, groups * N, ...]``."""
    rest = tuple(range(2, image.rank))
    if groups == 1:
        return b.transpose(image, perm=(1, 0, *rest))
    batch, channels, *lengths = image.shape
    shape: tuple[int, ...] | Value = (batch, groups, channels // groups, *lengths)
    if image.shape.count(UNKNOWN) > 1:
        sizes = b.shape_of(image)
        lead_and_tail = [b.gather(sizes, b.integers(axes), axis=0) for axes in ((0,), rest)]
        middle = b.integers((groups, channels // groups))
        shape = b.concat(b.combine([lead_and_tail[0], middle, lead_and_tail[1]]), axis=0)
    split = b.reshape(image, shape)
    return b.flatten(
        b.transpose(split, perm=(2, 1, 0, *[i + 1 for i in rest])), start_axis=1, stop_axis=2
    )


def _of_filter(c: OpCall, image: Value, windows: Value, moves: Sequence[Slide]) -> Value:
    """The cotangent of the filter, of which an element weighs ``image`` in ``windows``."""
    b, rest = c.b, tuple(range(2, image.rank))
    out = b(
        _name(image), _by_group(b, _met(b, image, moves), c.groups),
        b.transpose(windows, perm=(1, 0, *rest)),
        strides=tuple([m.dilation for m in moves]), paddings=_padding(moves),
        padding_algorithm="EXPLICIT", dilations=tuple([m.stride for m in moves]),
        groups=c.groups, data_format=_format(image),
    )  # fmt: skip
    return b.transpose(_cut(b, out, c.filter), perm=(1, 0, *rest))


@vjp("pd_op.conv2d", "pd_op.conv3d")
def _(c: OpCall, g: Value) -> tuple[Value | None, Value | None]:
    image, windows = _first(c, c.input), _first(c, g)
    moves = _moves(c, image, windows)
    of_input = _back(c, _patch_gradient(c, windows, image, moves)) if c.wants("input") else None
    return of_input, _of_filter(c, image, windows, moves) if c.wants("filter") else None


@vjp("pd_op.conv2d_transpose", "pd_op.conv3d_transpose")
def _(c: OpCall, g: Value) -> tuple[Value | None, Value | None]:
    image, windows = _first(c, g), _first(c, c.x)
    moves = _moves(c, image, windows)
    of_x = None
    if c.wants("x"):
        of_x = _back(c, _cut(c.b, _correlated(c, image, c.filter, moves), windows))
    return of_x, _of_filter(c, image, windows, moves) if c.wants("filter") else None


@decompose("pd_op.depthwise_conv2d")
def _(c: OpCall) -> Value:
    return c.b.conv2d(
        c.input, c.filter, strides=c.strides, paddings=c.paddings, groups=c.groups,
        padding_algorithm=c.padding_algorithm, dilations=c.dilations, data_format=c.data_format,
    )  # fmt: skip


@decompose("pd_op.depthwise_conv2d_transpose")
def _(c: OpCall) -> Value:
    return c.b.conv2d_transpose(
        c.x, c.filter, output_size=c.output_size, strides=c.strides, paddings=c.paddings,
        output_padding=c.output_padding, padding_algorithm=c.padding_algorithm, groups=c.groups,
        dilations=c.dilations, data_format=c.data_format,
    )  # fmt: skip


@decompose("pir.quantized_conv2d")
def _(c: OpCall) -> Value:
    """A convolution of float32, whose sums of integers are exact up to 2**24."""
    b, kind = c.b, dt.float32
    how = {"strides": c.strides, "paddings": c.paddings, "dilations": c.dilations}
    sums = b.conv2d(b.cast(c.input, kind), b.cast(c.filter, kind), **how)
    if c.offsets is not None:
        sums = b.add(sums, b.reshape(b.cast(c.offsets, kind), (-1, 1, 1)))
    return b.multiply(sums, b.reshape(c.scales, (-1, 1, 1)))
