"""Compiles convolutions of given sizes to native functions: blocked, or weight gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.about import About, about, defining_file
from pirkit.lowering.codegen.conv.blocked_conv import blocked_nest, task_count
from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem, conv_blocking_of
from pirkit.lowering.codegen.conv.conv_epilogue import ConvEpilogue
from pirkit.lowering.codegen.conv.conv_weight_grad import (
    BatchStrides,
    GradTask,
    WeightGrad,
    WeightGradBlocking,
    dense_strides,
    operand_bytes,
    weight_grad_blocking_of,
)
from pirkit.lowering.codegen.conv.conv_weight_grad_loops import weight_grad_nest
from pirkit.lowering.codegen.conv.filter_packing import (
    packed_bytes,
    packing_nest,
    packing_tasks,
    tiles_of,
)
from pirkit.lowering.codegen.conv.infinite_taps import infinite_taps_nest
from pirkit.lowering.codegen.conv.limit_taps import FLAG, ONE_FLAG, flags_of, limiting_nest
from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcConv, nchwc_blocking
from pirkit.lowering.codegen.conv.nchwc_conv import nchwc_nest
from pirkit.lowering.codegen.conv.panel_lines import image_bytes
from pirkit.lowering.codegen.conv.split_k_reduce import split_k_nest
from pirkit.lowering.codegen.conv.transposed_conv_phases import transposed_conv_phases
from pirkit.lowering.codegen.conv.winograd_blocking import WinogradConv, winograd_blocking
from pirkit.lowering.codegen.conv.winograd_conv import winograd_nest
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.ir.llvm_text import Builder
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Nest
from pirkit.runtime.machine_costs import CONV_FMAS_PER_NS, PACKED_BYTES_PER_NS
from pirkit.runtime.native.function import NativeFunction, NativeSequence
from pirkit.runtime.native.target import host
from pirkit.runtime.native.thread_pool import thread_count

_LONG_ROW: Final = 64
"""Positions in a row of a 1x1 convolution, whose rows have any length."""


def native_blocked_conv(phases: Sequence[ConvProblem]) -> NativeSequence:
    """The callable of a convolution given by its phases; operands are images, filter, result."""
    steps: list[tuple[NativeFunction, tuple[int, ...]]] = []
    temporaries: list[int] = []
    for c in phases:
        cut = conv_blocking_of(c, host(), thread_count())
        # No temporary: tiles read the filter as it is.
        if cut.reads_filter_in_place:
            steps.append((_compute(c, cut), (0, 1, 2)))
            continue
        packed_slot = 3 + len(temporaries)
        # A phase without taps packs nothing; buffers have at least one byte.
        temporaries.append(max(packed_bytes(c, cut), 1))
        compute = _compute(c, cut), (0, packed_slot, 2)
        if not c.spares_padding:
            steps += [(_pack_filter(c, cut), (1, packed_slot)), compute]
            continue
        flags = flags_of(c.groups, tiles_of(c, cut))
        temporaries.append(flags.size)
        last = _add_infinite_taps(c, cut.rows, flags), (1, 0, packed_slot + 1, 2)
        steps += [(_pack_filter(c, cut), (1, packed_slot, packed_slot + 1)), compute, last]
    return NativeSequence(tuple(steps), 3, tuple(temporaries))


def with_epilogue(c: ConvProblem, epilogue: ConvEpilogue) -> NativeFunction:
    """The last function of a convolution of one phase; vectors are operands after the result."""
    cut = conv_blocking_of(c, host(), thread_count())
    return _compute(replace(c, epilogue=epilogue), cut)


def sparing_padding(phases: Sequence[ConvProblem], plain: NativeSequence) -> NativeSequence:
    """A transposed convolution that is right for infinities and NaN in the filter too.

    ``plain`` multiplies zeros of padding by the filter, so it is right for finite filters only: it
    gets a copy of the filter with finite numbers, and the products of the others are added after it
    (`infinite_taps.py`).
    """
    (c,) = phases
    if not c.spares_padding:
        return plain
    size, lanes = c.dtype.itemsize, host().vector_bits // 8 // c.dtype.itemsize
    count, what = _filter_bytes(c) // size, "finite filter"
    limit = _of_nest(
        (what, c.dtype, lanes, count), lambda: limiting_nest(c.dtype, lanes, count),
        (count * size, count * size, FLAG), 0, about(limiting_nest, what, lanes=lanes, blocks=1),
    )  # fmt: skip
    finite = 3 + len(plain.temporaries)
    steps = [(f, tuple([finite if k == 1 else k for k in places])) for f, places in plain.steps]
    last = _add_infinite_taps(c, c.group_filters, ONE_FLAG), (1, 0, finite + 1, 2)
    own = *plain.temporaries, count * size, FLAG
    return NativeSequence(((limit, (1, finite, finite + 1)), *steps, last), 3, own)


def native_nchwc(c: NchwcConv) -> NativeSequence:
    """The callable of a convolution over blocked channels; operands as `NchwcConv` says."""
    c = c.flat(_LONG_ROW)
    cut = nchwc_blocking(c, host(), thread_count())

    sizes = tuple(c.operand_bytes.values())
    known = about(nchwc_nest, "convolution over blocked channels", lanes=cut.lanes,
                  rows=cut.positions, vectors=cut.vectors, blocks=cut.tasks(c))  # fmt: skip
    work = c.multiplications // (CONV_FMAS_PER_NS * c.group) + sizes[-1] // PACKED_BYTES_PER_NS
    what = "convolution over blocked channels", c, cut
    function = _of_nest(what, lambda: nchwc_nest(c, cut, host()), sizes, work, known)
    return NativeSequence(((function, tuple(range(len(sizes)))),), len(sizes), ())


def native_winograd(c: WinogradConv) -> NativeSequence:
    """The callable of a convolution in Winograd's domain; operands as `WinogradConv` says."""
    c = c.upright()
    cut, sizes = winograd_blocking(c, host(), thread_count()), tuple(c.operand_bytes.values())
    what = "convolution in Winograd's domain"
    known = about(winograd_nest, what, lanes=cut.lanes, rows=cut.positions, vectors=cut.vectors,
                  blocks=cut.tasks(c))  # fmt: skip
    work = c.multiplications // CONV_FMAS_PER_NS + sizes[-1] // PACKED_BYTES_PER_NS
    function = _of_nest((what, c, cut), lambda: winograd_nest(c, cut, host()), sizes, work, known)
    return NativeSequence(((function, tuple(range(len(sizes)))),), len(sizes), ())


def native_weight_grad(c: WeightGrad, strides: BatchStrides | None = None) -> NativeSequence:
    """The callable of a weight gradient; operands are images, filters and the result.

    Images and filters are contiguous, or have these ``strides``.
    """
    t = GradTask(c, weight_grad_blocking_of(c, host()), strides or dense_strides(c))
    cut, (images, filters, sums) = t.cut, operand_bytes(t)
    results = c.images * c.groups * c.group_filters * prod(c.positions) * t.size
    known = about(
        weight_grad_nest, "gradient of a filter", **_tile_of(cut),
        blocks=cut.parts * cut.segments(c),
    )  # fmt: skip
    work = c.multiplications // CONV_FMAS_PER_NS
    what = "weight gradient", t
    first = _of_nest(what, lambda: weight_grad_nest(t), (images, filters, sums), work, known)
    blocks = c.groups * cut.filter_tasks(c) * c.images
    known = about(split_k_nest, "reduction of partial sums", **_tile_of(cut), blocks=blocks)
    work = (sums + results) // PACKED_BYTES_PER_NS
    what = "split-K reduction", c, cut
    second = _of_nest(what, lambda: split_k_nest(t), (sums, results), work, known)
    return NativeSequence(((first, (0, 1, 3)), (second, (3, 2))), 3, (sums,))


def _pack_filter(c: ConvProblem, cut: ConvBlocking) -> NativeFunction:
    sizes: tuple[int, ...] = _filter_bytes(c), packed_bytes(c, cut)
    if c.spares_padding:
        sizes += (flags_of(c.groups, tiles_of(c, cut)).size,)
    work = packed_bytes(c, cut) // PACKED_BYTES_PER_NS
    known = about(
        packing_nest, "packing of a filter", **_tile_of(cut), blocks=packing_tasks(c, cut)
    )
    return _of_nest(("filter packing", c, cut), lambda: packing_nest(c, cut), sizes, work, known)


def _add_infinite_taps(c: ConvProblem, rows: int, flags: Buffer) -> NativeFunction:
    """The function over filter, images, flags of tiles of ``rows`` filters, and result."""
    images, results = (c.n * size for size in image_bytes(c))
    sizes, what = (_filter_bytes(c), images, flags.size, results), "infinite taps of a filter"
    blocks = c.groups * -(-c.group_filters // rows)
    known = about(infinite_taps_nest, what, rows=rows, blocks=blocks)
    write = partial(infinite_taps_nest, c, rows, flags)
    return _of_nest((what, c, rows, flags), write, sizes, 0, known)


def _compute(c: ConvProblem, cut: ConvBlocking) -> NativeFunction:
    """The function that multiplies; the filter is packed, or in place if
    ``reads_filter_in_place``.
    """

    size = c.dtype.itemsize
    images = c.n * c.groups * c.depth * prod(c.lengths) * size
    results = c.n * c.groups * c.group_filters * prod(c.room) * size
    vectors = [c.groups * c.group_filters * size] * c.vectors
    sizes = images, packed_bytes(c, cut), results, *vectors
    work = c.multiplications // CONV_FMAS_PER_NS + results // PACKED_BYTES_PER_NS
    known = about(blocked_nest, "convolution", **_tile_of(cut), blocks=task_count(c, cut))
    write = partial(blocked_nest, c, cut)
    rewrites = (transposed_conv_phases, blocked_nest) if c.is_transposed else (blocked_nest,)
    return _of_nest(("convolution", c, cut), write, sizes, work, known, rewrites)


def _tile_of(cut: ConvBlocking | WeightGradBlocking) -> dict[str, int]:
    rows = {"rows": cut.rows} if isinstance(cut, ConvBlocking) else {}
    return {"lanes": cut.lanes, **rows, "vectors": cut.vectors}


def _filter_bytes(c: ConvProblem) -> int:
    return c.groups * c.group_filters * c.depth * prod(c.sizes) * c.dtype.itemsize


def _of_nest(
    what: object, build: Callable[[], Nest], sizes: tuple[int, ...], work: int, known: About,
    rewrites: Sequence[Callable[..., object]] = (),
) -> NativeFunction:  # fmt: skip
    """The native function of a nest. ``what`` is its cache key, ``sizes`` are the bytes of its
    operands, ``work`` is its estimated time in ns, and ``rewrites`` made its loops.
    """
    target, count = host(), known.sizes["blocks"]

    def write() -> Draft:
        by = " and ".join(map(defining_file, rewrites)) or known.emitter
        b, routines, stage = Builder(blocks=count), Routines(), Stage("block", build(), by)
        scratch = write_nest(b, stage.nest, functions=routines)
        return routines.draft(b, scratch, sizes, work, known, [stage])

    return function_of(key_of(what, target), write)
