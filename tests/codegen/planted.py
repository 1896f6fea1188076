"""Bugs planted in the code generator and the memory plan, and the reports on them.

Run as a script, since caches of compiled kernels do not know of changed functions. For each name
in the arguments, it prints a line of JSON: what `--bisect` prints, its exit code, and for some how
many operations `pirkit-reduce` leaves.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Final
from unittest import mock

import numpy as np
from msgspec.structs import replace

import pirkit
from pirkit import ops
from pirkit.cli import opt
from pirkit.cli import reduce as reduce_cli
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend import kernel_check
from pirkit.frontend.delta_reduce import size
from pirkit.frontend.op_functions import op_function
from pirkit.frontend.tracing import trace
from pirkit.lowering import kernel_library, native_fused
from pirkit.lowering.codegen.conv import (
    blocked_conv,
    conv_epilogue,
    im2col,
    nchwc_conv,
    nchwc_tile,
    transposed_conv_phases,
    winograd_transforms,
)
from pirkit.lowering.codegen.emit import (
    batch_compile,
    compile,
    memory_access,
    nest_writer,
    schedule,
    short_rows,
    split_reduction,
    transpose_tile,
    vector_emit,
)
from pirkit.lowering.codegen.emit import cumulative as cumulative_emit
from pirkit.lowering.codegen.ir import (
    canonicalize,
    index_set_splitting,
    loop_rewrites,
    nest_builder,
)
from pirkit.lowering.codegen.lower import scalar_ops, split_scatter
from pirkit.lowering.codegen.math import division, primitives, vecmath
from pirkit.lowering.codegen.matmul import (
    deferred_normalization,
    dot_tile,
    fused_row_blocks,
    gemm,
    macrokernel,
    microkernel,
    small_gemm,
)
from pirkit.lowering.whole_program import (
    complex_kernels,
    kernel_sequence,
    lane_ops,
    search_kernels,
    segments,
    sequence_builder,
    small_matrices,
    sort_kernels,
)
from pirkit.runtime import planning
from pirkit.runtime.arena import Arena
from pirkit.runtime.dtype import int8, uint8
from pirkit.runtime.launch_fusion import PendingLaunch
from pirkit.runtime.native import launch, program_session
from pirkit.runtime.storage_tracking import StorageTracker

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Plant:
    """A bug: what is replaced by what, and a program whose numbers it spoils.

    ``emitter`` is the file that the report has to name, ``op`` the kernel, if there is one, and
    ``also`` other words.
    """

    emitter: str
    op: str
    owner: Any
    name: str
    change: Callable[[Any], Any]
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    also: tuple[str, ...] = ()
    pipeline: str = "@default"
    integers: tuple[int, ...] = ()
    """The inputs that are of type ``integer``, the others are float32."""
    integer: Any = np.int64


def short_mask(old: Any) -> Any:
    """A mask of a tail without its last lane."""

    def tail_mask(b: Any, lanes: int, count: Any) -> Any:
        return old(b, lanes, count - 1 if isinstance(count, int) else b.plus(count, -1))

    return tail_mask


def even_depth(old: Any) -> Any:
    """The last term of an odd depth is left out."""
    return lambda name, multiple=1, least=0: old(name, 2 if name == "depth" else multiple, least)


def always(_: Any) -> Any:
    """A loop whose last iterations are taken for whole vectors."""
    return lambda bound, multiple: True


def subtracted(old: Any) -> Any:
    """What is scattered is subtracted, not added."""

    def write(self: Any, dest: Any, kind: Any, typed: Any, *others: Any) -> None:
        value, dtype = typed
        old(self, dest, kind, (self.builder.emit(value.type, f"fneg {value}"), dtype), *others)

    return write


def swapped(old: Any) -> Any:
    def transposed(b: Any, given: Any) -> Any:
        first, second, *others = old(b, given)
        return [second, first, *others]

    return transposed


def too_large(old: Any) -> Any:
    return lambda b, x: b.mul(old(b, x), 1.001)


def one_less(old: Any) -> Any:
    return property(lambda self: max(1, old.fget(self) - 1))


def truncated(old: Any) -> Any:
    """Quotients of integers that are rounded towards zero, not down."""
    return lambda b, args: division._safe_quotient(b, args[0][0], args[1][0], True)[:2]


def doubled(old: Any) -> Any:
    scale = old["scale"]

    def wrong(node: Any, args: Any, dtypes: Any, lines: Any) -> Any:
        twice = scale(node, args, dtypes, lines)
        return lines.compute("add", [twice, twice], node.dtype)

    return {**old, "scale": wrong}


def once(old: Any) -> Any:
    """Reductions end after one iteration."""

    def rebuilt(*given: Any) -> Any:
        kernel = old(*given)
        return replace(kernel, inner=tuple([1 for _ in kernel.inner]))

    return rebuilt


def in_place(old: Any) -> Any:
    def overwrites(self: Any, kernel: Any) -> Any:
        return {0: (0,)} if kernel.op == "pd_op.roll" else old(self, kernel)

    return overwrites


def overlapping(arena: type[Arena]) -> Any:
    """An arena in which all buffers begin at the same place."""

    class Overlapping(arena):
        def take(self, nbytes: int) -> int:
            self.size = max(self.size, nbytes)
            return 0

    return Overlapping


def shared(x: Any, y: Any) -> Any:
    first = ops.matmul(x, y)
    return ops.matmul(ops.tanh(ops.matmul(ops.tanh(first), y)) + first, y)


def at_zero(old: Any) -> Any:
    def take(self: Any, nbytes: int) -> int:
        old(self, nbytes)
        return 0

    return take


def without_last(old: Any) -> Any:
    def dos(self: Any) -> Iterator[Any]:
        del self.members[1:]
        yield from old(self)

    return dos


def dropped(old: Any) -> Any:
    return lambda self, b, *others: None


def backwards(old: Any) -> Any:
    """The sums of a term, of the last row first."""
    return lambda *given: old(*given)[::-1]


def attention(q: Any, k: Any, v: Any) -> Any:
    return ops.matmul(ops.softmax(ops.matmul(q, k, transpose_y=True) * 0.25, -1), v)


def blocked_channels(x: Any, w: Any) -> Any:
    return op_function("pir.nchwc_conv2d")(x, w, None, None, paddings=[1, 0])


def winograd_points(x: Any, w: Any) -> Any:
    return op_function("pir.nchwc_winograd_conv2d")(x, w, None, None, paddings=[1, 0])


def conv(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, [1, 1], [1, 1], "EXPLICIT", [1, 1], 1, "NCHW")


def long(x: Any) -> Any:
    """Many operations around one that is wrong."""
    y = x
    for _ in range(4):
        y = ops.sin(y) * 0.5 + ops.cos(y)
    y = ops.softmax(y, -1)
    for _ in range(4):
        y = ops.sqrt(ops.abs(y)) + y
    return y


def without_last_row(old: Any) -> Any:
    """A scatter that takes the index of the last row for one outside of the result."""

    def nest(*given: Any) -> Any:
        kernel = old(*given)
        *others, scatter = kernel.loop_phases[0].body
        body = (*others, replace(scatter, limit=scatter.limit - 1))
        return replace(kernel, loop_phases=(replace(kernel.loop_phases[0], body=body),))

    return nest


def scattered(x: Any, at: Any, updates: Any) -> Any:
    return ops.scatter_nd_add(ops.tanh(x) * 2.0, at, ops.sin(updates) + 1.0)


def mirrored(x: Any) -> Any:
    y = ops.tanh(x)
    return y + ops.transpose(y, [1, 0])


def rolled(x: Any) -> Any:
    return ops.cumsum(ops.roll(ops.cumsum(x, 0), [1], [0]), 0)


def shortened(old: Any) -> Any:
    """A bisection of the first half of a sequence."""
    return lambda length, dtype, right: old(length // 2, dtype, right)


def cumulative(x: Any) -> Any:
    a = ops.cumsum(x, 0)
    b = ops.cumsum(a, 1)
    return ops.cumsum(b, 0) + ops.cumsum(a, 0)


def signed(old: Any) -> Any:
    """Unsigned integers that are taken for signed ones."""

    def cast(b: Any, x: Any, source: Any, dtype: Any) -> Any:
        return old(b, x, int8 if source is uint8 else source, dtype)

    return cast


def other_padding(old: Any) -> Any:
    """Taps of a phase that begin behind the padding of the wrong side."""
    return lambda size, stride, dilation, before, begin: old(size, stride, dilation, -before, begin)


def transposed_conv(x: Any, w: Any) -> Any:
    return pirkit.grad(lambda x: ops.tanh(strided_conv(x, w)).sum())(x)


def strided_conv(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, [2, 2], [1, 1], "EXPLICIT", [1, 1], 1, "NCHW")


def far_away(old: Any) -> Any:
    """Loads of a reversed vector from where no memory is."""
    return lambda b, type_, address, mask: old(b, type_, b.at(address, -(1 << 44)), mask)


def at_once(old: Any) -> Any:
    """All calls of a plan in one phase, whatever they wait for."""
    return lambda self: dict.fromkeys(old(self), 0)


def best(x: Any) -> Any:
    y = ops.tanh(ops.cumsum(ops.sin(x) * 2.0, 0) + 1.0)
    # A library call between two segments, of which the second reads results of the first as well.
    return ops.tanh(ops.kthvalue(y, 3, 1, True)[0] * 2.0) + ops.sum(y, [1], None, True)


def scaled_attention(q: Any, k: Any, v: Any) -> Any:
    return ops.matmul(ops.softmax(ops.matmul(q, k, transpose_y=True) * 0.25, -1) * 3.0, v)


def whole_numbers(old: Any) -> Any:
    """Constant factors of a row that are taken for 1."""

    def linear(self: Any, s: Any, after: Any) -> Any:
        found = old(self, s, after)
        self.unnormalized |= {name: (core, 1.0) for name, (core, _) in self.unnormalized.items()}
        return found

    return linear


def alike(old: Any) -> Any:
    """Constants of which only the first digits count."""

    def once(self: Any, key: Any, made: Any) -> Any:
        return old(self, (*key[:1], key[1][:3]) if key[0] == "constant" else key, made)

    return once


def without_constants(old: Any) -> Any:
    """A cache that takes kernels for equal that differ in their constants."""
    return lambda what, target: old(re.sub(r"value=[-\d.]+", "", repr(what)), target)


def first_place(old: Any) -> Any:
    """An operand of several functions, of which only the first gets its address."""

    def write(self: Any, operand: Any, address: int) -> None:
        with mock.patch.dict(self.places, {operand: self.places.get(operand, [])[:1]}):
            old(self, operand, address)

    return write


def first_places(old: Any) -> Any:
    def record(self: Any, *given: Any) -> Any:
        yield from old(self, *given)
        self.places = [places[:1] for places in self.places]

    return record


def exchanged(old: Any) -> Any:
    """Sums of complex numbers that are differences."""
    return {**old, "pd_op.add": old["pd_op.subtract"]}


def flipped(x: Any) -> Any:
    return ops.cumsum(ops.flip(ops.cumsum(ops.tanh(x), 0), [0]) * 3.0, 0)


def read_twice(x: Any, y: Any) -> Any:
    a = x * 2.0
    return ops.cumsum(a, 0) + ops.cumsum(ops.flip(a, [0]) * y, 1)


def first_vector(old: Any) -> Any:
    """Lanes of all vectors of short rows that stand where those of the first one do."""
    return lambda kernel, group, first, lanes: old(kernel, group, 0, lanes)


def one_earlier(old: Any) -> Any:
    """Parts of an index set that begin one index too early."""

    def part(kernel: Any, axis: int, low: int, high: int) -> Any:
        return old(kernel, axis, max(low - 1, 0), max(low - 1, 0) + high - low)

    return part


def still_read(old: Any) -> Any:
    """Values that are overwritten although a later step reads them."""

    def may_overwrite(self: Any, call: Any, source: int, slot: int, meta: Any) -> bool:
        storage = self.only_storage(source)
        in_arena = storage is not None and storage.owner == "arena"
        return old(self, call, source, slot, meta) or (in_arena and self.metas.get(source) == meta)

    return may_overwrite


def into_blocks(x: Any) -> Any:
    filled = ops.pad(x * 2.0, paddings=[0, 0, 0, 4, 0, 0, 0, 0], pad_value=3.0)
    return ops.transpose(ops.reshape(filled, [2, -1, 8, 15, 15]), [0, 1, 3, 4, 2])


def read_later(x: Any) -> Any:
    a = ops.tanh(ops.sin(x))
    return ops.cumsum(a, 0) * ops.exp(a) + a


def freed_under_views(old: Any) -> Any:
    """Memory that is free although a view still refers to it."""

    def collect(self: Any) -> None:
        for storage in self.retired:
            storage.slots.clear()
        old(self)

    return collect


def viewed(x: Any) -> Any:
    view = ops.reshape(ops.sin(x), [5, 8])
    return ops.cumsum(ops.cumsum(view, 0), 1) + view


def next_filter(old: Any) -> Any:
    """An epilogue that adds the bias of the next filter."""
    return lambda self, b, dtype, lanes, addresses: old(
        self, b, dtype, lanes, [b.at(address, dtype.itemsize) for address in addresses]
    )


def biased(x: Any, w: Any, bias: Any) -> Any:
    return ops.relu(conv(x, w) + bias)


def network(x: Any, first: Any, second: Any) -> Any:
    return ops.matmul(ops.tanh(ops.matmul(x, first)) * 3.0 + 0.5, second)


def emitter(name: str) -> str:
    """The path of a file of the code generator, as reports name it."""
    package = Path(pirkit.__file__).parent
    (found,) = (package / "lowering" / "codegen").rglob(name)
    return found.relative_to(package.parent).as_posix()


SPLITTING: Final = emitter("index_set_splitting.py")
_SPECTRUM: Final = {
    "axes": (1,), "normalization": "backward", "forward": True, "onesided": True,
}  # fmt: skip

PLANTS: Final = {
    "row tail": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        nest_writer,
        "tail_mask",
        short_mask,
        long,
        ((30, 77),),
    ),
    "flat tail": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        nest_writer,
        "tail_mask",
        short_mask,
        lambda x: ops.tanh(x) + 1.0,
        ((1003,),),
        ("strategy flat",),
    ),
    "column tail": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        nest_writer,
        "tail_mask",
        short_mask,
        lambda x: ops.sum(ops.tanh(x), 0),
        ((300, 77),),
        ("strategy columns",),
    ),
    "tile tail": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        nest_writer,
        "tail_mask",
        short_mask,
        lambda x: ops.sum(ops.tanh(x), 1),
        ((5, 6, 77),),
        ("strategy tiles",),
    ),
    "rewrite": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        loop_rewrites,
        "is_whole",
        always,
        lambda x: ops.tanh(x) + 1.0,
        ((1003,),),
        ("wrong after `vectorize",),
    ),
    "transposing tiles": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        nest_writer,
        "tail_mask",
        short_mask,
        mirrored,
        ((301, 301),),
    ),
    "transpose": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        transpose_tile,
        "transposed",
        swapped,
        lambda x, y: ops.tanh(ops.transpose(x, [1, 0])) + y,
        ((256, 320), (320, 256)),
        ("transpose_tile.py",),
    ),
    "schedule": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        schedule.Schedule,
        "blocks",
        one_less,
        lambda x: ops.tanh(x) + 1.0,
        ((40000,),),
        ("schedule or emitter",),
    ),
    "exp": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        vecmath,
        "_exp",
        too_large,
        lambda x: ops.exp(x) + 1.0,
        ((2000,),),
        ("vecmath.py",),
    ),
    "floor division": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        division,
        "_floor_parts",
        truncated,
        lambda x: ops.floor_divide(x, x * 0 + 3) + 1,
        ((50,),),
        integers=(0,),
    ),
    "lowering": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        scalar_ops,
        "_SPECIAL",
        doubled,
        lambda x: ops.tanh(x) * 3.0,
        ((50,),),
        ("lowering of the MapExpr", emitter("scalar_ops.py")),
    ),
    "matmul": Plant(
        emitter("gemm.py"),
        "pd_op.matmul",
        gemm,
        "rounded",
        lambda old: lambda bound, multiple: old(bound, 2 * multiple),
        lambda x, y: ops.tanh(ops.matmul(x, y)),
        ((301, 400), (400, 310)),
        ("its loops are wrong after `block and pack`",),
    ),
    "microkernel": Plant(
        emitter("gemm.py"),
        "pd_op.matmul",
        microkernel,
        "_outer_product",
        backwards,
        lambda x, y: ops.tanh(ops.matmul(x, y)),
        ((301, 400), (400, 310)),
        (emitter("microkernel.py"), "a routine that the loops call is wrong"),
    ),
    "canonical loops": Plant(
        "codegen/emit/nest_writer.py, which is right by its interpreter",
        "",
        canonicalize,
        "_rebuilt",
        once,
        lambda x, y, z: ops.matmul(ops.matmul(x, y), z),
        ((6, 10), (10, 7), (7, 5)),
        ("its loops are wrong before any rewrite",),
    ),
    "small matmul": Plant(
        emitter("small_gemm.py"),
        "pir.small_matmul",
        small_gemm,
        "tail_mask",
        short_mask,
        lambda x, y: ops.matmul(ops.tanh(x) + 1.0, y),
        ((6, 10), (10, 3)),  # fewer columns than the lanes of any target
        ("a routine that the loops call is wrong",),
    ),
    "small matmul's loops": Plant(
        emitter("small_gemm.py"),
        "pir.small_matmul",
        small_gemm,
        "_word",
        even_depth,
        lambda x, y: ops.matmul(ops.tanh(x) + 1.0, y),
        ((6, 11), (11, 7)),
        ("its loops are wrong after `tile and pack`",),
    ),
    "attention": Plant(
        emitter("fused_row_blocks.py"),
        "pir.rows",
        macrokernel,
        "tail_mask",
        short_mask,
        attention,
        ((2, 3, 130, 24), (2, 3, 140, 24), (2, 3, 140, 17)),
        ("a routine that the loops call is wrong",),
    ),
    "attention's loops": Plant(
        emitter("fused_row_blocks.py"),
        "pir.rows",
        fused_row_blocks,
        "rounded",
        lambda old: lambda bound, multiple: old(bound, 2 * multiple),
        attention,
        ((2, 3, 130, 24), (2, 3, 140, 24), (2, 3, 140, 17)),
        ("its loops are wrong after `block rows and pack`",),
    ),
    "deferred factor": Plant(
        emitter("fused_row_blocks.py"),
        "pir.rows",
        deferred_normalization._Rewriter,
        "_linear",
        whole_numbers,
        scaled_attention,
        ((2, 3, 130, 24), (2, 3, 140, 24), (2, 3, 140, 17)),
        (f"wrong after `defer normalization` of {emitter('deferred_normalization.py')}",),
    ),
    "unsigned": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        primitives,
        "cast",
        signed,
        lambda x: ops.tanh(ops.cast(x, "float32") * 0.01),
        ((40, 30),),
        (emitter("casts.py"),),
        integers=(0,),
        integer=np.uint8,
    ),
    "phases": Plant(
        emitter("blocked_conv.py"),
        "pd_op.conv2d_transpose",
        transposed_conv_phases,
        "_phase_taps",
        other_padding,
        transposed_conv,
        ((2, 16, 14, 14), (32, 16, 3, 3)),
        (emitter("transposed_conv_phases.py"),),
    ),
    "convolution": Plant(
        emitter("blocked_conv.py"),
        "pd_op.conv2d",
        blocked_conv.TileUpdate,
        "call",
        dropped,
        conv,
        ((2, 16, 14, 14), (32, 16, 3, 3)),
        ("a routine that the loops call is wrong",),
    ),
    "blocked channels": Plant(
        emitter("nchwc_conv.py"),
        "pir.nchwc_conv2d",
        nchwc_tile,
        "microkernel",
        lambda old: lambda b, left, right, extents, sums, *others: list(sums),
        blocked_channels,
        ((1, 2, 9, 8, 8), (2, 2, 3, 3, 8, 8)),
        ("a routine that the loops call is wrong",),
    ),
    "points of a tile": Plant(
        emitter("winograd_conv.py"),
        "pir.nchwc_winograd_conv2d",
        winograd_transforms,
        "_sum",
        lambda old: lambda b, factors, given: old(b, factors, given[:-1] + given[:1]),
        winograd_points,
        ((1, 2, 9, 8, 8), (36, 2, 2, 8, 8)),
        ("a routine that the loops call is wrong",),
    ),
    "rows of taps": Plant(
        emitter("nchwc_conv.py"),
        "pir.nchwc_conv2d",
        nchwc_conv,
        "_rows_inside",
        lambda old: lambda c: [0, 1],
        blocked_channels,
        ((1, 2, 9, 8, 8), (2, 2, 3, 3, 8, 8)),
        ("a routine leaves a buffer",),
    ),
    "scatter": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        vector_emit.VectorEmitter,
        "_combine",
        subtracted,
        scattered,
        ((50, 8), (20, 1), (20, 8)),
        integers=(1,),
    ),
    "last index": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        split_scatter,
        "scatter_nest",
        without_last_row,
        scattered,
        ((50, 8), (20, 1), (20, 8)),
        ("lowering of the MapExpr", emitter("split_scatter.py")),
        integers=(1,),
    ),
    "in place": Plant(
        "pirkit/runtime/kernels/numpy/",
        "pd_op.roll",
        kernel_library.KernelLibrary,
        "overwrites",
        in_place,
        rolled,
        ((8, 5),),
        ("memory plan",),
    ),
    "aliasing": Plant(
        "pirkit/runtime/kernels/numpy/",
        "pd_op.cumsum",
        Arena,
        "take",
        at_zero,
        cumulative,
        ((8, 5),),
        ("has to stay as it is",),
        "",
    ),
    "joined launch": Plant(
        "joined launch",
        "",
        PendingLaunch,
        "calls_with_instructions",
        without_last,
        lambda x, y: ops.matmul(ops.tanh(x) + 1.0, y),
        ((6, 10), (10, 7)),
        ("each instruction is right alone",),
    ),
    "crash": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        memory_access,
        "_reversed",
        far_away,
        lambda x: ops.tanh(ops.flip(x, [1])) + 1.0,
        ((30, 77),),
        ("it ends the process by SIG", "memory_access.py", "right by their interpreter"),
    ),
    "order of segments": Plant(
        "its order: whole_program/segments.py",
        "",
        segments._Parts,
        "_phases",
        at_once,
        best,
        ((40, 37),),
        ("it does not run as a whole", "each instruction is right alone"),
    ),
    "memory of a segment": Plant(
        "whole_program/kernel_sequence.py",
        "",
        kernel_sequence,
        "Arena",
        overlapping,
        shared,
        ((300, 300), (300, 300)),
        ("each instruction is right alone",),
    ),
    "scan": Plant(
        "its `pd_op.cumsum`: whole_program/cumulative_kernels.py and codegen/emit/cumulative.py",
        "",
        cumulative_emit,
        "_rows",
        lambda old: lambda made, scan, *sizes: old(made, replace(scan, reverse=False), *sizes),
        lambda x: ops.tanh(ops.cumsum(x, 0, False, False, True)),
        ((40, 37),),
        ("each instruction is right alone",),
    ),
    "bisection": Plant(
        "its `pd_op.searchsorted`: whole_program/search_kernels.py",
        "",
        search_kernels,
        "_rounds",
        shortened,
        lambda x, v: ops.cast(ops.searchsorted(ops.cumsum(ops.exp(x), 0), v * 99), "float32"),
        ((33,), (40,)),
        ("each instruction is right alone",),
    ),
    "places of a sort": Plant(
        "its `pd_op.argsort`: whole_program/sort_kernels.py",
        "",
        sort_kernels,
        "_in_front",
        lambda old: lambda dtype, descending: old(dtype, not descending),
        lambda x: ops.tanh(ops.argsort(ops.sin(x), axis=0)[0]),
        ((30, 7),),
        ("each instruction is right alone",),
    ),
    "elimination": Plant(
        "its `pd_op.det`: whole_program/small_matrices.py",
        "",
        small_matrices._Writer,
        "without",
        lambda old: lambda self, value, terms: old(self, value, list(terms)[1:]),
        lambda x: ops.tanh(ops.det(ops.sin(x) + 1.0)),
        ((100, 3, 3),),
        ("each instruction is right alone",),
    ),
    "value numbering": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        nest_builder.StatementBuilder,
        "_once",
        alike,
        lambda x: ops.tanh(x * 1.25) * 1.28,
        ((40, 30),),
        ("lowering of the MapExpr", emitter("nest_builder.py")),
    ),
    "cached code": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        compile,
        "key_of",
        without_constants,
        lambda x, y: (ops.sum(ops.tanh(x) * 2.5, 0), ops.sum(ops.tanh(y) * 3.5, 0)),
        ((30, 8), (30, 8)),
        ("wrong stage: cache",),
    ),
    "launcher": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        launch.Launch,
        "_write",
        first_place,
        lambda x: ops.sum(ops.tanh(x), [0, 1]),
        ((1000, 1000),),
        ("wrong stage: launch", "pirkit/runtime/native/launch.py"),
    ),
    "driver": Plant(
        "its driver: pirkit/runtime/native/program_session.py",
        "",
        program_session.Session,
        "_record",
        first_places,
        read_twice,
        ((30, 30), (30, 30)),
        ("each instruction is right alone",),
    ),
    "steps in place": Plant(
        "steps in place: whole_program/in_place_steps.py",
        "",
        sequence_builder.SequenceBuilder,
        "is_in_place",
        lambda old: lambda *given: True,
        flipped,
        ((300, 300),),
        ("each instruction is right alone",),
    ),
    "complex": Plant(
        "whole_program/complex_kernels.py",
        "",
        complex_kernels,
        "PART_RULES",
        exchanged,
        # too few operations to be split into parts
        lambda x, y: ops.imag(ops.add(*(ops.fft_r2c(v, **_SPECTRUM) for v in (x, y)))),
        ((30, 7), (30, 7)),
        ("each instruction is right alone",),
    ),
    "rest of a split reduction": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        split_reduction,
        "_with_offsets",
        lambda old: lambda kernel, places, skipped: kernel,
        lambda x: ops.sum(ops.tanh(x)) * 2.0,
        ((1000003,),),
        (emitter("split_reduction.py"),),
    ),
    "short rows": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        short_rows,
        "_places",
        first_vector,
        lambda x: ops.tanh(ops.flip(x, [1])) * ops.sin(x),
        ((400, 3),),
        (emitter("short_rows.py"),),
    ),
    "index sets": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        index_set_splitting,
        "_part",
        one_earlier,
        into_blocks,
        ((2, 12, 15, 15),),
        ("loop nests: the nests are wrong without native code too; by ", SPLITTING),
    ),
    "padding of a panel": Plant(
        emitter("blocked_conv.py"),
        "pd_op.conv2d",
        im2col.Im2colPanel,
        "_bounded",
        lambda old: lambda self, *given: old(self, *given[:-1], given[-1] - 1),
        strided_conv,
        ((2, 16, 15, 15), (32, 16, 3, 3)),
        (emitter("im2col.py"),),
    ),
    "few columns": Plant(
        emitter("few_columns.py"),
        "pd_op.matmul",
        dot_tile,
        "_pair_sums",
        lambda old: lambda b, x, y: old(b, x, None if y is None else x),
        lambda x, y: ops.tanh(ops.matmul(ops.tanh(x), y)),
        ((4096, 1024), (1024, 4)),
        (emitter("dot_tile.py"),),
    ),
    "memory plan": Plant(
        "pirkit/runtime/kernels/numpy/",
        "pd_op.sin",
        planning._Planner,
        "may_overwrite",
        still_read,
        read_later,
        ((8, 5),),
        ("has to stay as it is", "pirkit/runtime/planning.py"),
        "",
    ),
    "early free": Plant(
        "the memory plan (runtime/planning.py)",
        "",
        StorageTracker,
        "collect",
        freed_under_views,
        viewed,
        ((8, 5),),
        ("each instruction is right alone",),
        "",
    ),
    "epilogue": Plant(
        "its `pd_op.conv2d` with `pir.map_expr`: whole_program/epilogues.py",
        "",
        conv_epilogue.ConvEpilogue,
        "of_filter",
        next_filter,
        biased,
        ((2, 16, 14, 14), (32, 16, 3, 3), (1, 32, 1, 1)),
        ("each instruction is right alone", "codegen/conv/blocked_conv.py"),
    ),
    "batch lanes": Plant(
        "whole_program/lane_ops.py",
        "",
        lane_ops,
        "_RULES",
        lambda old: {**old, "scale": lambda b, *given: b.mul(old["scale"](b, *given), 1.01)},
        network,
        ((512, 3), (3, 20), (20, 1)),
        ("as one native call", "its native call is wrong"),
    ),
    "pending derivatives": Plant(
        emitter("nest_writer.py"),
        "pir.map_expr",
        nest_writer,
        "tail_mask",
        short_mask,
        lambda x: pirkit.grad(lambda x: ops.tanh(x).sum())(x),
        ((1003,),),
    ),
}
REDUCED: Final = ("row tail", "scatter", "in place", "crash")
RANKED: Final = {
    "row tail": "nest_writer.py",
    "exp": "vecmath.py",
    "lowering": "scalar_ops.py",
    "phases": "transposed_conv_phases.py",
    "batch lanes": "lane_ops.py",
    "epilogue": "conv_epilogue.py",
}
"""The file with the bug, which is among the first three that the report ranks."""


def program_of(plant: Plant) -> str:
    dtypes = [
        plant.integer if k in plant.integers else np.float32 for k in range(len(plant.shapes))
    ]
    given = [np.zeros(shape, dtype) for shape, dtype in zip(plant.shapes, dtypes, strict=True)]
    return print_mlir(trace(plant.function, given).program.module)


def forget_kernels() -> None:
    """Empty the caches of this process."""
    batch_compile._functions.clear()
    batch_compile._pending.clear()
    native_fused.nests_at.cache_clear()


@contextlib.contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The bug is there inside, and no function that was compiled without it; none stays."""
    forget_kernels()
    old = getattr(plant.owner, plant.name)
    new = plant.change(old)
    if isinstance(new, FunctionType) and isinstance(old, FunctionType):
        new.__module__ = old.__module__  # reports name the file of an emitter
    no_disk = mock.patch.object(batch_compile, "user_cache", return_value=None)
    with no_disk, mock.patch.object(plant.owner, plant.name, new):
        try:
            yield
        finally:
            forget_kernels()


def printed(command: Callable[[], int], *arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with mock.patch.object(sys, "argv", ["pirkit", *arguments]), contextlib.redirect_stdout(out):
        code = command()
    return code, out.getvalue()


def report(name: str, folder: Path) -> dict[str, Any]:
    """What the tools say of a plant, and whether they find nothing without it."""
    plant = PLANTS[name]
    file = folder / "program.mlir"
    file.write_text(program_of(plant))
    flags = (str(file), "-p", plant.pipeline or "canonicalize", "--bisect")
    found: dict[str, Any] = {"name": name}
    ranks = mock.patch.object(kernel_check, "suspects", return_value=())  # it takes seconds
    with planted(plant), contextlib.nullcontext() if name in RANKED else ranks:
        found["code"], found["text"] = printed(opt.main, *flags, "--show-kernel")
        if name in REDUCED:
            _, text = printed(reduce_cli.main, str(file), *flags[1:3], "numbers")
            found["size"] = size(parse_mlir(text))
            found["before"] = size(parse_mlir(program_of(plant)))
    found["sound"] = printed(opt.main, *flags)[0]
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or PLANTS:
            print(json.dumps(report(name, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
