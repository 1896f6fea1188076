"""From the sizes of a convolution to native functions: in blocks, or as a correlation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from pirkit.lowering.codegen.adding import emit_adding
from pirkit.lowering.codegen.awaiting import Draft, function_of
from pirkit.lowering.codegen.blocking import Blocked, Blocks, blocks_of
from pirkit.lowering.codegen.blocks import Convolving, pieces
from pirkit.lowering.codegen.compile import key_of
from pirkit.lowering.codegen.correlating import Correlation, Distances, cut_of
from pirkit.lowering.codegen.correlations import Correlating
from pirkit.lowering.codegen.generate import SYMBOL, module
from pirkit.lowering.codegen.ir import Builder
from pirkit.lowering.codegen.laying_out import emit_packing, packed_bytes, packing_pieces
from pirkit.runtime.native.function import Code, NativeFunction, NativeSequence
from pirkit.runtime.native.target import host

_PRODUCTS_PER_NS: Final = 32
_BYTES_PER_NS: Final = 4


def native_blocks(parts: Sequence[Blocked]) -> NativeSequence:
    """What computes a convolution given by the parts of its result.

    Operands are images, filter and result.
    """
    steps: list[tuple[NativeFunction, tuple[int, ...]]] = []
    temporaries: list[int] = []
    for c in parts:
        cut = blocks_of(c, host())
        if cut.plain:
            steps.append((_convolving(c, cut), (0, 1, 2)))
            continue
        where = 3 + len(temporaries)
        temporaries.append(max(packed_bytes(c, cut), 1))
        steps += [(_packing(c, cut), (1, where)), (_convolving(c, cut), (0, where, 2))]
    return NativeSequence(tuple(steps), 3, tuple(temporaries))


def native_correlation(c: Correlation, known: Distances | None = None) -> NativeSequence:
    """What computes a correlation.

    Operands are images, filters, a table of four i64 (see `Correlating`), and the result; there is
    no table where the distances are ``known``.
    """
    cut = cut_of(c, host())
    size = c.dtype.itemsize
    sums = cut.parts * cut.pieces(c) * cut.sums(c) * size
    images = c.images * c.groups * c.depth * prod(c.lengths) * size
    filters = c.groups * c.each * c.depth * prod(c.windows) * size
    results = c.images * c.groups * c.each * prod(c.positions) * size

    def emit(b: Builder) -> int:
        correlating = Correlating(b, c, cut, known)
        correlating.emit()
        return correlating.scratch

    def add(b: Builder) -> int:
        emit_adding(b, c, cut)
        return 0

    blocks, what = cut.parts * cut.pieces(c), ("correlating", c, cut, known)
    sizes = (images, filters, sums) if known else (images, filters, 32, sums)
    first = _function(what, emit, sizes, blocks, c.products // _PRODUCTS_PER_NS)
    blocks = c.groups * cut.broads(c) * c.images
    work = (sums + results) // _BYTES_PER_NS
    second = _function(("adding", c, cut), add, (sums, results), blocks, work)
    if known:
        return NativeSequence(((first, (0, 1, 3)), (second, (3, 2))), 3, (sums,))
    return NativeSequence(((first, (0, 1, 2, 4)), (second, (4, 3))), 4, (sums,))


def _packing(c: Blocked, cut: Blocks) -> NativeFunction:
    sizes = _filter_bytes(c), packed_bytes(c, cut)

    def emit(b: Builder) -> int:
        emit_packing(b, c, cut)
        return 0

    work = packed_bytes(c, cut) // _BYTES_PER_NS
    return _function(("packing", c, cut), emit, sizes, packing_pieces(c, cut), work)


def _convolving(c: Blocked, cut: Blocks) -> NativeFunction:
    def emit(b: Builder) -> int:
        convolving = Convolving(b, c, cut)
        convolving.emit()
        return convolving.scratch

    size = c.dtype.itemsize
    images = c.n * c.groups * c.depth * prod(c.lengths) * size
    results = c.n * c.groups * c.each * prod(c.room) * size
    sizes = images, packed_bytes(c, cut), results
    work = c.products // _PRODUCTS_PER_NS + results // _BYTES_PER_NS
    return _function(("convolving", c, cut), emit, sizes, pieces(c, cut), work)


def _filter_bytes(c: Blocked) -> int:
    return c.groups * c.each * c.depth * prod(c.sizes) * c.dtype.itemsize


def _function(
    what: object, emit: Callable[[Builder], int], sizes: tuple[int, ...], count: int, work: int
) -> NativeFunction:
    """The function that ``emit`` writes, which returns the scratch memory it needs."""
    target = host()

    def write() -> Draft:
        b = Builder(blocks=count)
        scratch = emit(b)
        text = module(b, len(sizes), scratch)
        return Draft(text, Code(b"", SYMBOL, count, scratch, work, sizes))

    return function_of(key_of(what, target), write)
