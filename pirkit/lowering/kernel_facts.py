"""Which native functions a kernel is made of, who emits them, and which of them is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import InternalError
from pirkit.dialect.map_expr.interpreter import run_known
from pirkit.lowering.codegen.about import About, defining_file, emitting_files, lowering_files
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.emit.tiled_loops import tiled_stages
from pirkit.lowering.codegen.interpret import interpret, run_nest
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.lowering.codegen.lower.statement_nest import Nest
from pirkit.lowering.interpreted_step import loops_fault
from pirkit.lowering.native_fused import FusedKernel
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.native.target import host
from pirkit.runtime.tolerance import wrong_element

Array = np.ndarray[Any, Any]

_MAX_INTERPRETED: Final = 1 << 16
"""Iterations of a nest up to which its loops are interpreted to find a wrong rewrite."""
_MAX_SCHEDULED: Final = 1 << 19
"""The same for scheduled loops alone, which run a vector at a time."""


_LOOPS: Final = "; its loops are wrong"
_TILED: Final = defining_file(tiled_stages)
_PLAIN: Final = "pirkit/lowering/codegen/ir/plain_loops.py or element_types.py"
"""What makes the loops of a nest as they are before they are scheduled."""
_SCHEDULED: Final = "pirkit/lowering/codegen/emit/schedule_loops.py or what it calls"


@dataclass(frozen=True)
class Blamed:
    """Native functions of a wrong kernel, and at which stage of the lowering it becomes wrong."""

    functions: Sequence[LazyFunction]
    stage: str = ""

    @property
    def abouts(self) -> tuple[About, ...]:
        """What is known of the functions."""
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
    """What is known of native functions, which need not be compiled."""
    found = [function.write().about for function in functions]
    return tuple([known for known in found if known is not None])


def blamed(
    step: object, functions: Sequence[LazyFunction], given: Sequence[Any],
    reference: Callable[[], Sequence[Array]], *, returns: bool = True,
) -> Blamed:  # fmt: skip
    """Which functions of a step that is wrong for these operands are.

    The nests of a fused kernel run one after the other, natively and by their interpreter, on the
    same memory; the first that differs is to blame. Others are one function, or are blamed whole.
    A step that never ``returns`` runs by its interpreter only.
    """
    if not isinstance(step, NativeStep) or len(given) != step.inputs:
        return Blamed(functions)
    if not isinstance(step, FusedKernel):
        return Blamed(functions, loops_fault(step, given, reference()))
    right = run_known(step.kernel, given)
    nested = interpret(step.kernel, step.nests, given)
    if any(wrong_element(a, b, given) for a, b in zip(nested, right, strict=True)):
        files = ", ".join(lowering_files(lambda: nests_of(step.kernel)))
        wrong = "the nests are wrong without native code too"
        return Blamed(functions, f"lowering of the MapExpr to loop nests: {wrong}; by {files}")
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
            split = ", split_reduction.py" if len(own) > 1 else ""
            return Blamed(own, f"schedule{split} or emitter: {which}{wrong}")
    if not returns:
        return Blamed(functions, "emitter: its loops are right by their interpreter")
    return Blamed(functions, "launch or memory: each loop nest is right alone")


def _wrong_rewrite(nest: Nest, given: Sequence[Array], right: Sequence[Array]) -> str:
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
        return ", and its scheduled loops too: so the LLVM writer or what it calls is wrong"
    if kernel.iterations > _MAX_INTERPRETED:
        return f"{_LOOPS} after all rewrites: by {_TILED if is_tiled else _SCHEDULED}"
    wrong = next(stage for stage in stages if is_wrong(stage))
    if wrong is stages[0]:
        return f"{_LOOPS} before any rewrite: by {_TILED if is_tiled else _PLAIN}"
    return f"{_LOOPS} after {wrong}"
