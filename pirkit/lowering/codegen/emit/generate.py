"""Writes a loop nest as the text of an LLVM module."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pirkit.lowering.codegen.about import About, about
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule import Schedule, schedule
from pirkit.lowering.codegen.emit.schedule_loops import Stage, scheduled, stages
from pirkit.lowering.codegen.emit.tiled_loops import tiled_stages
from pirkit.lowering.codegen.emit.vector_emit import argument
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.codegen.ir.piecewise_poly_match import with_composite_functions
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.runtime.native.target import Target


class Generated(Struct, frozen=True):
    """The text of a module with the function ``void SYMBOL(args, slot, lo, hi)``.

    ``args`` points to the addresses of the operands and, last, of the scratch memory (``scratch``
    bytes per thread); ``slot`` is the number of the thread; ``lo .. hi`` is a range of the
    ``blocks`` blocks.
    """

    text: str
    blocks: int
    scratch: int
    schedule: Schedule


def generate(kernel: Kernel, target: Target) -> Generated:
    """The code of a kernel. Raises InternalError for a nest that is not well formed."""
    plan = schedule(with_composite_functions(kernel, target), target)
    b = Builder(target.x86 and target.has("avx512f"), plan.blocks, target.gathers)
    streams = [k for k, o in enumerate(kernel.operands) if o.stream]
    line_aligned = _line_alignment(b, streams) if streams else None
    scratch = write_nest(b, scheduled(plan), line_aligned)
    if target.x86 and streams:
        # Non-temporal stores are weakly ordered: make them visible before the function returns.
        b.invoke("llvm.x86.sse.sfence")
    text = Routines().module(b, len(plan.kernel.operands), scratch)
    return Generated(text, plan.blocks, scratch, plan)


def stages_of(kernel: Kernel | TiledNest, target: Target) -> list[Stage]:
    """The loops of a kernel after each rewrite of its schedule; the last ones are written."""
    if isinstance(kernel, TiledNest):
        return tiled_stages(kernel, target)
    return stages(schedule(with_composite_functions(kernel, target), target))


def about_schedule(plan: Schedule) -> About:
    """How a schedule runs, by which rewrites, and which file writes it, for people."""
    strategy = f"{plan.strategy}, in register tiles" if plan.register_tiles else plan.strategy
    sizes = {"lanes": plan.lanes, "unroll": plan.unroll, "block": plan.block}
    return about(write_nest, strategy, **sizes, blocks=plan.blocks)


def _line_alignment(b: Builder, operands: Sequence[int]) -> Value:
    """Whether the buffers of all these operands begin at cache lines, as an i1."""
    begins = [b.cast("ptrtoint", argument(b, k), "i64") for k in operands]
    all_aligned = begins[0]
    for begin in begins[1:]:
        all_aligned = b.op("or", all_aligned, begin)
    return b.compare("eq", b.op("and", all_aligned, LINE - 1), 0)
