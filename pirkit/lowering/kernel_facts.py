"""Which native functions a kernel is made of, who emits them, and which of them is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import InternalError, PirkitError
from pirkit.dialect.map_expr.interpreter import run_known
from pirkit.lowering.codegen.about import (
    About,
    Inside,
    defining_file,
    emitting_files,
    lowering_files,
)
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction, compiling_anew
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.emit.schedule_loops import Stage, Stages, words_of
from pirkit.lowering.codegen.emit.split_reduction import split_reductions
from pirkit.lowering.codegen.emit.tiled_loops import tiled_stages
from pirkit.lowering.codegen.interpret import interpret, run_nest
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.loopnest import Operand
from pirkit.lowering.codegen.ir.piecewise_poly_match import with_composite_functions
from pirkit.lowering.codegen.ir.plain_loops import loops_of
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.lowering.codegen.lower.statement_nest import ArrayNest
from pirkit.lowering.interpreted_step import loops_fault
from pirkit.lowering.kernel_watch import returns_in_child
from pirkit.lowering.native_fused import FusedKernel
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.native.cores import at_most
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.native.target import host
from pirkit.runtime.tolerance import wrong_element

Array = np.ndarray[Any, Any]

_MAX_INTERPRETED: Final = 1 << 16
"""Iterations of a nest up to which its loops are interpreted to find a wrong rewrite."""
_MAX_SCHEDULED: Final = 1 << 19
"""The same for scheduled loops alone, which run a vector at a time."""


_LAUNCH: Final = (
    "launch: each function is right when it is called by itself: so "
    "pirkit/runtime/native/launch.py or segment.py, the memory of the operands, or their strides"
)
_THREADS: Final = (
    "threads: it is right on one: so pirkit/runtime/native/pool_ir.py, or blocks that depend on "
    "each other"
)
_CACHE: Final = (
    "cache: it is right if it is compiled anew: so the key of its code, by "
    "pirkit/lowering/codegen/emit/code_key.py, compile.py and ir/loopnest.py, or an older entry"
)
_LOWERING: Final = "lowering of the MapExpr to loop nests"
_LOOPS: Final = "; its loops are wrong"
_WRITER: Final = "the LLVM writer"
_TILED: Final = defining_file(tiled_stages)
_PLAIN: Final = (
    "pirkit/lowering/codegen/ir/plain_loops.py, element_types.py, canonicalize.py or "
    "piecewise_poly_match.py"
)
"""The files that make the loops of a nest before they are scheduled."""
_UNSCHEDULED: Final = "before any rewrite"
_SPLIT: Final = defining_file(split_reductions)
_SCHEDULED: Final = "pirkit/lowering/codegen/emit/schedule_loops.py or what it calls"
_STAGES: Final[Mapping[str, Sequence[Any]]] = {
    _LOWERING: (nests_of,),
    _WRITER: (write_nest,),
    _UNSCHEDULED: (with_composite_functions, schedule, loops_of, tiled_stages),
}
"""The functions that are a stage, by the words for a wrong one; a rewrite names itself."""


@dataclass(frozen=True)
class Blamed:
    """Native functions of a wrong kernel, and at which stage of the lowering it becomes wrong."""

    functions: Sequence[LazyFunction]
    stage: str = ""

    @property
    def abouts(self) -> tuple[About, ...]:
        """The facts about the functions."""
        return abouts(self.functions)

    @property
    def files(self) -> Mapping[str, int]:
        """The files that emit the functions, and how many instructions each emits.

        What is written for this strategy comes first, and what all kernels share last: the file of
        the loops, the others of its folder, then those of other folders; in each the most first.
        """
        found: Counter[str] = Counter()
        for function in self.functions:
            found.update(emitting_files(function.write))
        emitters = {about.emitter for about in self.abouts}
        folders = {path.rpartition("/")[0] for path in emitters}

        def distance(path: str) -> int:
            return 0 if path in emitters else 1 if path.rpartition("/")[0] in folders else 2

        return dict(sorted(found.most_common(), key=lambda item: distance(item[0])))


def abouts(functions: Sequence[LazyFunction]) -> tuple[About, ...]:
    """The facts about native functions, which need not be compiled."""
    found = [function.write().about for function in functions]
    return tuple([known for known in found if known is not None])


def blamed(
    step: object, functions: Sequence[LazyFunction], given: Sequence[Any],
    reference: Callable[[], Sequence[Array]], bound_again: Callable[[], object], *,
    planned: str = "", returns: bool = True,
) -> Blamed:  # fmt: skip
    """Which functions make a step wrong that is wrong for these operands.

    First the step runs in ways that tell whether something else than its code is to blame
    (`_beside_code`). ``planned`` is the stage to report if the functions are right elsewhere in
    memory. Then the nests of a fused kernel run one after the other, natively and by their
    interpreter, on the same memory; the first that differs is to blame. Other steps are one
    function, or are blamed as a whole. A step that never ``returns`` runs by its interpreter only.
    """
    if not isinstance(step, NativeStep) or len(given) != step.inputs:
        return Blamed(functions)
    try:
        right = reference()
    except (PirkitError, *KERNEL_FAULTS):  # it refuses what the kernel computes
        return Blamed(functions)
    if beside := _beside_code(step, given, right, bound_again, returns=returns):
        return Blamed(functions, planned if planned and beside == _LAUNCH else beside)
    if not isinstance(step, FusedKernel):
        return Blamed(functions, loops_fault(step, given, right))
    right = run_known(step.kernel, given)
    nested = interpret(step.kernel, step.nests, given)
    if any(wrong_element(a, b, given) for a, b in zip(nested, right, strict=True)):
        files = ", ".join(lowering_files(lambda: nests_of(step.kernel)))
        wrong = "the nests are wrong without native code too"
        return Blamed(functions, f"{_LOWERING}: {wrong}; by {files}")
    metas = [s.meta for s in without_scatters(step.kernel).kernel.statements]
    arrays = [np.ascontiguousarray(a) for a in given]
    arrays += [np.zeros(m.shape, m.dtype.np) for m in metas]
    for number, (nest, sequence) in enumerate(zip(step.nests, step.sequences, strict=True), 1):
        flags = [np.zeros(1, np.uint8) for _ in nest.assertions]
        known = [*arrays, *flags]
        first = len(arrays)
        buffers = [known[k] if k < first else flags[k - first] for k in nest.arrays]
        native, given_here = ([buffer.copy() for buffer in buffers] for _ in range(2))
        if returns:
            sequence.bind(native)()
        run_nest(nest, buffers)
        if returns:
            is_wrong = any(
                wrong_element(a, b, buffers) for a, b in zip(native, buffers, strict=True)
            )
        else:
            is_wrong = _LOOPS in _wrong_rewrite(nest, given_here, buffers)
        if is_wrong:
            own = [f for f, _ in sequence.steps if isinstance(f, LazyFunction)]
            which = f"loop nest {number} of {len(step.nests)} is right by its interpreter"
            wrong = _wrong_rewrite(nest, given_here, buffers)
            split = f", {_SPLIT}" if len(own) > 1 else ""
            return Blamed(own, f"schedule{split} or emitter: {which}{wrong}")
    if not returns:
        return Blamed(functions, "emitter: its loops are right by their interpreter")
    return Blamed(functions, "memory between its loop nests: each is right alone")


def inside_stage(stage: str) -> Inside | None:
    """What tells the calls of a wrong stage, as `Blamed` names it; None if that is not known."""
    rewrite = re.search(r"after `([^`]+)`", stage)

    def is_rewrite(frame: FrameType) -> bool:
        if rewrite is None or frame.f_code is not Stages.apply.__code__:
            return False
        return words_of(frame.f_locals["rewrite"], frame.f_locals["args"]) == rewrite[1]

    if rewrite is not None:
        return is_rewrite
    calls = next((calls for words, calls in _STAGES.items() if words in stage), ())
    codes = [call.__code__ for call in calls]
    return (lambda frame: frame.f_code in codes) if codes else None


def function_fault(functions: Sequence[LazyFunction]) -> str:
    """Which stage makes the code of one of some loop nests wrong, on random operands; else ""."""
    random = np.random.default_rng(0)

    def drawn(operand: Operand) -> Array:
        count = operand.size // operand.dtype.itemsize
        numbers = random.standard_normal(count) if operand.dtype.is_float else np.zeros(count)
        return numbers.astype(operand.dtype.np)

    for function in functions:
        kernel = function.write().kernel
        if kernel is None or kernel.iterations > _MAX_SCHEDULED:
            continue
        nest, given = ArrayNest(kernel, ()), [drawn(operand) for operand in kernel.operands]
        native, right = ([array.copy() for array in given] for _ in range(2))
        function.bind(native)()
        run_nest(nest, right)
        if any(wrong_element(a, b, given) for a, b in zip(native, right, strict=True)):
            return f", which is right by its interpreter{_wrong_rewrite(nest, given, right)}"
    return ""


def _beside_code(
    step: NativeStep, given: Sequence[Any], right: Sequence[Array],
    bound_again: Callable[[], object], *, returns: bool,
) -> str:  # fmt: skip
    """The cause of a wrong step besides its code: its launch, its threads, or the cache."""

    present = [x for x in given if x is not None]

    def is_right(step: object) -> bool:
        found = called_one_by_one(cast(NativeStep, step), given)
        return not any(wrong_element(a, b, present) for a, b in zip(found, right, strict=True))

    if not returns:
        return _LAUNCH if returns_in_child(lambda: is_right(step)) else ""
    if is_right(step):
        return _LAUNCH
    with at_most(1):
        if is_right(step):
            return _THREADS
    with compiling_anew():
        return _CACHE if is_right(bound_again()) else ""


def called_one_by_one(step: NativeStep, given: Sequence[Any]) -> list[Array]:
    """The results of the functions of a step, each called by itself, on contiguous operands."""
    part = step.launch_part({})
    arrays = [None if x is None else np.ascontiguousarray(x) for x in given]
    for meta in step.results:
        poison = np.full(meta.numel * meta.dtype.itemsize, 0xA5, np.uint8)
        arrays.append(poison.view(meta.dtype.np).reshape(meta.shape))
    memory = {k: arrays[cell] for k, cell in step.operands(range(len(arrays)))} | dict(part.own)
    memory |= {k: np.zeros(1, np.uint8) for k in part.flags}
    for work in part.works:
        assert isinstance(work.function, NativeFunction)
        work.function.bind([cast(Array, memory[k]) for k in work.operands])()
    return [cast(Array, array) for array in arrays[step.inputs :]]


def _wrong_rewrite(nest: ArrayNest, given: Sequence[Array], right: Sequence[Array]) -> str:
    """Which rewrite of its loops makes a nest wrong, by the interpreter of the loop IR.

    Large nests are not run: the interpreter takes some microseconds per vector.
    """
    kernel = nest.kernel
    if kernel.iterations > _MAX_SCHEDULED:
        return ""
    is_tiled = isinstance(kernel, TiledNest)

    def is_wrong(stage: Stage) -> bool:
        found = [buffer.copy() for buffer in given]
        try:
            run_loops(stage.nest, found)
        except InternalError:  # it leaves a buffer
            return True
        return any(wrong_element(a, b, given) for a, b in zip(found, right, strict=True))

    stages = stages_of(kernel, host())
    if not is_wrong(stages[-1]):
        return f", and its scheduled loops too: so {_WRITER} or what it calls is wrong"
    if kernel.iterations > _MAX_INTERPRETED:
        return f"{_LOOPS} after all rewrites: by {_TILED if is_tiled else _SCHEDULED}"
    wrong = next(stage for stage in stages if is_wrong(stage))
    if wrong is stages[0]:
        return f"{_LOOPS} {_UNSCHEDULED}: by {_TILED if is_tiled else _PLAIN}"
    return f"{_LOOPS} after {wrong}"
