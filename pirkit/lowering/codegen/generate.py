"""From a loop nest to the text of an LLVM module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pirkit.lowering.codegen.columns import Columns
from pirkit.lowering.codegen.ir import Builder
from pirkit.lowering.codegen.loopnest import Kernel
from pirkit.lowering.codegen.rows import Rows
from pirkit.lowering.codegen.schedule import Schedule, schedule
from pirkit.lowering.codegen.scratch import Scratch
from pirkit.lowering.codegen.tiles import Tiles
from pirkit.runtime.native.target import Target

_EMITTERS: Final[dict[str, type[Rows | Columns | Tiles]]] = {"rows": Rows, "tiles": Tiles}
SYMBOL: Final = "pirkit_kernel"
PARAMETERS: Final = "ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi"


@dataclass(frozen=True, slots=True)
class Generated:
    """The text of a module with the function ``void SYMBOL(args, slot, lo, hi)``.

    ``args`` points to the addresses of the operands and, last, of ``scratch`` bytes for each
    thread; ``slot`` is the number of the thread; ``lo .. hi`` are blocks of all ``blocks``.
    """

    text: str
    blocks: int
    scratch: int
    schedule: Schedule


def generate(kernel: Kernel, target: Target) -> Generated:
    """Code for a kernel. Raises InternalError for a nest that is not well formed."""
    b, plan, scratch = written(kernel, target)
    text = module(b, len(plan.kernel.operands), scratch)
    return Generated(text, plan.blocks, scratch, plan)


def module(b: Builder, operands: int, scratch: int) -> str:
    """The text of a module whose function is what was written, as `Generated` tells it."""
    lines = [
        f"define void @{SYMBOL}({PARAMETERS}) {{",
        "entry:",
        *begin(operands, scratch),
        *b.lines,
        "  ret void",
        "}",
        *b.declared.values(),
        "!0 = !{i32 1}",
    ]
    return "\n".join(lines) + "\n"


def written(kernel: Kernel, target: Target) -> tuple[Builder, Schedule, int]:
    """The body of a kernel's function, how it runs, and the bytes of scratch memory it needs."""
    plan = schedule(kernel, target)
    b = Builder(target.x86 and target.has("avx512f"), plan.kernel.fast, plan.blocks)
    scratch = Scratch()
    _EMITTERS.get(plan.strategy, Columns)(b, plan, scratch).emit()
    if target.x86 and any(o.stream for o in plan.kernel.operands):
        b.invoke("llvm.x86.sse.sfence")
    return b, plan, scratch.size


def begin(operands: int, scratch: int) -> tuple[str, ...]:
    """How a kernel's function begins: it finds the scratch memory of its thread."""
    return (
        f"  %scratch_slot = getelementptr i8, ptr %args, i64 {8 * operands}",
        "  %scratch_base = load ptr, ptr %scratch_slot, align 8",
        f"  %scratch_offset = mul i64 %slot, {scratch}",
        "  %scratch = getelementptr i8, ptr %scratch_base, i64 %scratch_offset",
    )
