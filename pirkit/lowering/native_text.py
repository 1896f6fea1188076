"""The native code of a plan as text: loop nests, LLVM IR, or machine code of this CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pirkit.lowering.codegen.about import emitting_lines
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.emit.split_reduction import split_reductions
from pirkit.lowering.codegen.ir.call_words import words_of
from pirkit.lowering.codegen.ir.loopnest import with_numbered_names
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.loop_text import loop_lines, scheduled_lines
from pirkit.lowering.codegen.lower.statement_nest import ArrayNest
from pirkit.lowering.codegen.nest_text import nest_lines
from pirkit.lowering.native_calls import NotingLibrary, bound_calls, layout_of, words_of_call
from pirkit.lowering.native_fused import FusedKernel
from pirkit.runtime.native.engine import assembly
from pirkit.runtime.native.target import host
from pirkit.runtime.nodes import Bound
from pirkit.runtime.plan import Plan, show_operand
from pirkit.runtime.registry import CPU

_COMMENTS: Final = {"nest": "//", "llvm": ";", "llvm-locations": ";", "asm": "#"}


def native_text(plan: Plan, stage: str) -> str:
    """The native kernels of a plan at a stage: ``nest``, ``llvm``, ``llvm-locations`` or ``asm``.

    A nest is followed by its scheduled loops, as they are written in LLVM IR. With locations each
    instruction of LLVM IR is followed by the line of the code generator that emits it. Comments
    give the instruction, its place in the user's program, and the schedule. Kernels are those for
    inputs of the declared shapes; those of dynamic shapes are made when they are called.
    """
    library = NotingLibrary(CPU)
    _, layout = layout_of(plan, library)
    blocks: list[str] = []
    for node in bound_calls(layout.nodes):
        functions = library.functions_of(node)
        if functions:
            lines = [f"{_COMMENTS[stage]} {line}" for line in _head(node)]
            lines += nests_of(node, functions) if stage == "nest" else _code(functions, stage)
            blocks.append("\n".join(lines) + "\n")
    if not blocks:
        return f"{_COMMENTS[stage]} @{plan.name}: no kernel of known shapes has native code\n"
    return "\n".join(blocks)


def _head(node: Bound) -> Iterator[str]:
    call = node.call
    outs, ins = (", ".join(map(show_operand, side)) for side in (call.outputs, call.inputs))
    yield f"{outs} = {call.kernel}({ins})"
    if isinstance(node.step, FusedKernel):
        yield node.step.kernel.name
    if call.span is not None:
        yield f"at {call.span}"
    yield from call.origin


def nests_of(node: Bound, functions: Sequence[LazyFunction]) -> Iterator[str]:
    """The loop nests of a call, each followed by its scheduled loops."""
    if not isinstance(node.step, FusedKernel):
        for function in functions:
            yield from _loops_of(node, function)
        return
    for number, nest in enumerate(node.step.nests, 1):
        yield f"// loop nest {number} of {len(node.step.nests)}"
        yield from nest_lines(nest)
        yield from _scheduled(nest)


def _loops_of(node: Bound, function: LazyFunction) -> Iterator[str]:
    """The loops of a function that is not made from a MapExpr, such as a matmul."""
    draft = function.write()
    if not draft.stages:
        yield f"// {draft.about}: native code of its own, without a loop nest"
        return
    yield f"// {draft.about}"
    first, *others = draft.stages
    if first.nest.words is not None:
        words = words_of_call(node, first.nest.words)
        given = {word.name: words[word.number] for word in words_of(draft.stages[-1].nest)}
        yield f"// {', '.join(f'{name} {value}' for name, value in given.items())}"
    names = [f"a{k}" for k in range(len(first.nest.kernel.operands))]
    if others:
        yield from loop_lines(first.nest, names)
    yield from scheduled_lines(draft.stages, names)


def _scheduled(nest: ArrayNest) -> Iterator[str]:
    """The scheduled loops of each function of a nest."""
    for found, names in stages_of_nest(nest):
        yield from scheduled_lines(found, names)


def stages_of_nest(nest: ArrayNest) -> Iterator[tuple[list[Stage], list[str]]]:
    """The loops of each function of a nest after each rewrite, and the names of its arrays."""
    names = [f"a{k}" for k in nest.arrays]
    if isinstance(nest.kernel, TiledNest):
        yield stages_of(nest.kernel.numbered(), host()), names
        return
    kernel, target = with_numbered_names(nest.kernel), host()
    parts = split_reductions(kernel, schedule(kernel, target).blocks)
    names += [f"p{k}" for k in range(len(parts.temporaries))]
    for step in parts.steps:
        made = stages_of(with_numbered_names(step.kernel), target)
        yield made, [names[k] for k in step.buffers]


def _code(functions: Sequence[LazyFunction], stage: str) -> Iterator[str]:
    for number, function in enumerate(functions, 1):
        located = stage == "llvm-locations"
        draft, places = emitting_lines(function.write) if located else (function.write(), {})
        yield f"{_COMMENTS[stage]} function {number} of {len(functions)}: {draft.about}"
        lines = draft.text.split("\n")
        text = "\n".join([f"{s}  ; {places[s]}" if s in places else s for s in lines])
        yield assembly(text) if stage == "asm" else text
