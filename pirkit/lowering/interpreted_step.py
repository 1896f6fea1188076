"""Native steps run by the interpreter of the loop IR: which stage of their lowering is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.about import defining_file
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.interpret import poison
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.loop_ir import Invoke
from pirkit.lowering.codegen.ir.loop_tree import walk
from pirkit.runtime.binding import Step
from pirkit.runtime.native.launch import LaunchPart
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.tolerance import wrong_element

Array = np.ndarray[Any, Any]
ROUTINES: Final = "a routine that the loops call is wrong, of "
OTHERS: Final = "; or, in functions with less work, after "


def interpreted(step: Step | None) -> Step | None:
    """A step that interprets the loops of a native step; the step itself if it has none."""
    if not isinstance(step, NativeStep):
        return step
    part = step.launch_part({})
    if not all(_stages(work.function) for work in part.works):
        return step
    return lambda *arrays: _run(step, part, arrays)


def loops_fault(step: NativeStep, given: Sequence[Any], right: Sequence[Array]) -> str:
    """The verdict on a wrong step by the interpreter of its loops; empty without loops."""
    stages = [_stages(work.function) for work in step.launch_part({}).works]
    if not all(stages):
        return ""
    fault = _fault_after(-1, step, given, right)
    if fault:
        # Loops without a file are as they were defined, and those of several functions differ.
        earlier = [k for k, x in enumerate(stages[0][:-1]) if x.file] if len(stages) == 1 else []
        found = (_fault_after(k, step, given, right) for k in earlier)
        return next(filter(None, found), fault)
    nodes = [node for found in stages for node in walk(found[-1].nest.body)]
    files = dict.fromkeys(defining_file(type(n.routine)) for n in nodes if isinstance(n, Invoke))
    wrong = "emitter: its loops are right by their interpreter: so the LLVM writer or "
    return f"{wrong}{ROUTINES}{', '.join(files)}"


def _fault_after(
    number: int, step: NativeStep, given: Sequence[Any], right: Sequence[Array]
) -> str:
    """The error of a step's loops after a rewrite of each function's loops, as text.

    The function with most work comes first: others prepare its operands, such as panels.
    """
    works = sorted(step.launch_part({}).works, key=lambda w: -_work(w.function))
    first, *others = dict.fromkeys(str(_stages(work.function)[number]) for work in works)
    rewrite = first + f"{OTHERS}{', '.join(others)}" * bool(others)
    arrays = [*given, *(np.full_like(array, poison(array.dtype), order="C") for array in right)]
    try:
        _run(step, step.launch_part({}), arrays, number)
    except InternalError as error:  # it leaves a buffer
        return f"schedule: {error}, after {rewrite}"
    pairs = zip(arrays[len(given) :], right, strict=True)
    known = [array for array in given if array is not None]
    wrong = any(wrong_element(found, array, known) for found, array in pairs)
    return f"schedule: its loops are wrong after {rewrite}" if wrong else ""


def _run(step: NativeStep, part: LaunchPart, arrays: Sequence[Array], stage: int = -1) -> None:
    """Interpret the loops of a step, after a rewrite of them, over its operands and results."""
    copies = [np.ascontiguousarray(array) for array in arrays]
    memory = {k: copies[cell] for k, cell in step.operands(range(len(arrays)))} | dict(part.own)
    for work in part.works:
        run_loops(_stages(work.function)[stage].nest, [memory[k] for k in work.operands])
    for array, copy in zip(arrays[step.inputs :], copies[step.inputs :], strict=True):
        if not np.may_share_memory(copy, array):
            array[...] = copy


def _stages(function: object) -> Sequence[Stage]:
    return function.write().stages if isinstance(function, LazyFunction) else ()


def _work(function: object) -> int:
    return function.code.work if isinstance(function, LazyFunction) else 0
