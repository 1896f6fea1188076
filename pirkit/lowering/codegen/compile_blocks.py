"""From the sizes of a convolution in blocks to native functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from pirkit.lowering.codegen.blocking import Blocked, Blocks, blocks_of
from pirkit.lowering.codegen.blocks import (
    Convolving,
    emit_packing,
    packed_bytes,
    packing_pieces,
    pieces,
)
from pirkit.lowering.codegen.compile import function_of, key_of
from pirkit.lowering.codegen.generate import SYMBOL, module
from pirkit.lowering.codegen.ir import Builder
from pirkit.runtime.native.engine import compile_ir
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
        where = 3 + len(temporaries)
        temporaries.append(max(packed_bytes(c, cut), 1))
        steps += [(_packing(c, cut), (1, where)), (_convolving(c, cut), (0, where, 2))]
    return NativeSequence(tuple(steps), 3, tuple(temporaries))


def _packing(c: Blocked, cut: Blocks) -> NativeFunction:
    sizes = _filter_bytes(c), packed_bytes(c, cut)

    def emit(b: Builder) -> int:
        emit_packing(b, c, cut)
        return 0

    work = packed_bytes(c, cut) // _BYTES_PER_NS
    return _function("packing", c, cut, emit, sizes, packing_pieces(c, cut), work)


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
    return _function("convolving", c, cut, emit, sizes, pieces(c, cut), work)


def _filter_bytes(c: Blocked) -> int:
    return c.groups * c.each * c.depth * prod(c.sizes) * c.dtype.itemsize


def _function(
    name: str, c: Blocked, cut: Blocks, emit: Callable[[Builder], int], sizes: tuple[int, ...],
    count: int, work: int,
) -> NativeFunction:  # fmt: skip
    target = host()

    def make() -> Code:
        b = Builder()
        scratch = emit(b)
        text = module(b, len(sizes), scratch)
        return Code(compile_ir(text, target), SYMBOL, count, scratch, work, sizes, ())

    return function_of(key_of((name, c, cut), target), make)
