"""From a `TiledNest` to a native function, through the compile cache."""

from __future__ import annotations

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import estimated_work, key_of
from pirkit.lowering.codegen.emit.generate import SYMBOL, module
from pirkit.lowering.codegen.emit.scratch import Scratch
from pirkit.lowering.codegen.emit.tiled_nest import TiledNest, lanes_of
from pirkit.lowering.codegen.emit.tiled_nest_emit import TiledNestEmitter
from pirkit.lowering.codegen.ir.llvm_text import Builder
from pirkit.runtime.native.function import Code, NativeSequence
from pirkit.runtime.native.target import Target, host


def native_tiled_nest(tiled: TiledNest) -> NativeSequence:
    """The callable that runs a tiled nest."""
    function = function_of(
        key_of(tiled.numbered(), host()), lambda: tiled_nest_draft(tiled, host())
    )
    count = len(tiled.operands)
    return NativeSequence(((function, tuple(range(count))),), count, ())


def tiled_nest_draft(tiled: TiledNest, target: Target) -> Draft:
    """The LLVM module of a tiled nest, not yet compiled."""
    lanes, scratch = lanes_of(tiled, target), Scratch()
    b = Builder(target.x86 and target.has("avx512f"), blocks=tiled.blocks)
    TiledNestEmitter(b, tiled, lanes, scratch).emit()
    work = estimated_work(tiled.operands, [p.kernel for p in tiled.phases], lanes)
    sizes = tuple([o.size for o in tiled.operands])
    code = Code(b"", SYMBOL, tiled.blocks, scratch.size, work, sizes)
    known = about(TiledNestEmitter, f"tiles of {tiled.block}", lanes=lanes, blocks=tiled.blocks)
    return Draft(module(b, len(tiled.operands), scratch.size), code, known)
