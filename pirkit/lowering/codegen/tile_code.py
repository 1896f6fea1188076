"""From a nest that goes through tiles to a native function, by way of the caches."""

from __future__ import annotations

from pirkit.lowering.codegen.awaiting import Draft, function_of
from pirkit.lowering.codegen.compile import guess_of, key_of
from pirkit.lowering.codegen.generate import SYMBOL, module
from pirkit.lowering.codegen.ir import Builder
from pirkit.lowering.codegen.scratch import Scratch
from pirkit.lowering.codegen.tile_loops import Turns
from pirkit.lowering.codegen.tile_turns import TileTurns, lanes_of
from pirkit.runtime.native.function import Code, NativeSequence
from pirkit.runtime.native.target import Target, host


def native_tiles(turns: TileTurns) -> NativeSequence:
    """What runs a nest that goes through tiles."""
    function = function_of(key_of(turns.numbered(), host()), lambda: draft_of_tiles(turns, host()))
    count = len(turns.operands)
    return NativeSequence(((function, tuple(range(count))),), count, ())


def draft_of_tiles(turns: TileTurns, target: Target) -> Draft:
    """The function of such a nest, not yet compiled."""
    lanes, scratch = lanes_of(turns, target), Scratch()
    b = Builder(target.x86 and target.has("avx512f"), blocks=turns.blocks)
    Turns(b, turns, lanes, scratch).emit()
    work = guess_of(turns.operands, [p.kernel for p in turns.phases], lanes)
    sizes = tuple([o.size for o in turns.operands])
    code = Code(b"", SYMBOL, turns.blocks, scratch.size, work, sizes)
    return Draft(module(b, len(turns.operands), scratch.size), code)
