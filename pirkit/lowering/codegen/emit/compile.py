"""Compiles a loop nest to a native function, through the compile cache."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

from msgspec.structs import replace

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import SYMBOL, key_of
from pirkit.lowering.codegen.emit.generate import about_schedule, generate, stages_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule import Schedule, schedule
from pirkit.lowering.codegen.emit.split_reduction import can_split, split_reductions
from pirkit.lowering.codegen.emit.tiled_loops import lanes_of
from pirkit.lowering.codegen.ir.llvm_text import Builder
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Kernel,
    Operand,
    check,
    with_numbered_names,
)
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.math.primitives import is_costly
from pirkit.runtime.machine_costs import BYTES_PER_NS, COSTLY_NS, PLAIN_NS
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.function import Code, NativeFunction, NativeSequence
from pirkit.runtime.native.target import Target, host


def native_sequence(kernel: Kernel | TiledNest) -> NativeSequence:
    """The callable that runs a kernel on all threads: one function, or several for a split
    reduction.

    Raises InternalError for a kernel that is not well formed.
    """
    if isinstance(kernel, TiledNest):
        function = function_of(
            key_of(kernel.numbered(), host()), lambda: tiled_draft(kernel, host())
        )
        operands = tuple(range(len(kernel.operands)))
        return NativeSequence(((function, operands),), len(operands), ())
    # The split depends on the blocks of the unsplit schedule, never on the number of threads.
    check(kernel)
    is_whole = not can_split(kernel)  # a schedule takes as long as half of the code
    parts = split_reductions(kernel, 0 if is_whole else schedule(kernel, host()).blocks)
    steps = tuple((native_function(step.kernel), step.buffers) for step in parts.steps)
    return NativeSequence(steps, len(kernel.operands), parts.temporaries)


def native_function(kernel: Kernel) -> NativeFunction:
    """The function of a kernel, compiled at most once per process and, with a cache, per user.

    Raises InternalError for a kernel that is not well formed.
    """
    return function_of(kernel_key(kernel, host()), lambda: draft_of(kernel, host()))


def compile_kernel(kernel: Kernel, target: Target) -> Code:
    """Generate and compile a kernel without any cache."""
    return compiled(draft_of(kernel, target), target)


def compiled(draft: Draft, target: Target) -> Code:
    """Compile a draft without any cache."""
    return replace(draft.code, image=compile_ir(draft.text, target))


def draft_of(kernel: Kernel, target: Target) -> Draft:
    """The LLVM module of a kernel, not yet compiled."""
    generated = generate(kernel, target)
    code = Code(
        b"",
        SYMBOL,
        generated.blocks,
        generated.scratch,
        kernel_work(kernel, generated.schedule),
        tuple(o.size for o in kernel.operands),
    )
    return Draft(generated.text, code, about_schedule(generated.schedule), kernel=kernel)


def tiled_draft(tiled: TiledNest, target: Target) -> Draft:
    """The LLVM module of a tiled nest, not yet compiled."""
    b = Builder(target.x86 and target.has("avx512f"), blocks=tiled.blocks)
    scratch, lanes = write_nest(b, stages_of(tiled, target)[-1].nest), lanes_of(tiled, target)
    work = estimated_work(tiled.operands, [p.kernel for p in tiled.phases], lanes)
    sizes = tuple([o.size for o in tiled.operands])
    known = about(write_nest, f"tiles of {tiled.block}", lanes=lanes, blocks=tiled.blocks)
    return replace(Routines().draft(b, scratch, sizes, work, known), kernel=tiled)


def kernel_key(kernel: Kernel, target: Target) -> str:
    """The cache key: the kernel without its names, the CPU, the generator, the LLVM version."""
    return key_of(with_numbered_names(kernel), target)


def kernel_work(kernel: Kernel, plan: Schedule) -> int:
    """The estimated time on one thread in ns; it decides whether waking threads pays."""
    return estimated_work(kernel.operands, [kernel], plan.lanes)


def estimated_work(operands: Iterable[Operand], kernels: Iterable[Kernel], lanes: int) -> int:
    """The estimated time in ns of kernels that share these operands: traffic plus arithmetic."""
    bytes_time = sum(o.size for o in operands) / BYTES_PER_NS
    compute_time = fsum(  # since Python 3.12 `sum` rounds floats otherwise than before
        (COSTLY_NS if is_costly(s.primitive) else PLAIN_NS) * kernel.iterations
        for kernel in kernels
        for s in kernel.statements()
        if isinstance(s, Compute)
    )
    # The constants are for 8 lanes.
    return int(bytes_time + compute_time * 16 / max(lanes, 1) / 2)
