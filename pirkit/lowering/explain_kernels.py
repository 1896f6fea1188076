"""Reports for each call of a plan which kernel runs it, why, and where its results are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from pirkit.dialect.kinds import CONVOLUTION
from pirkit.dialect.opdef import has_trait
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.native_calls import NotingLibrary, layout_of
from pirkit.lowering.native_conv import why_not_native as why_not_convolution
from pirkit.lowering.native_fused import why_not_native
from pirkit.lowering.native_ops import FUSED
from pirkit.lowering.whole_program.attention_groups import MATMUL_OP
from pirkit.lowering.whole_program.batch_lanes import describe
from pirkit.lowering.whole_program.kernel_sequence import sequence_program
from pirkit.lowering.whole_program.op_graph import NotNativeError, graph_of
from pirkit.runtime.binding import Binding, first_dtype
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import thread_share
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.nodes import (
    Bound,
    Constant,
    Detour,
    Dynamic,
    InArena,
    InPlace,
    NewArray,
    Node,
    every_node,
)
from pirkit.runtime.plan import Call, Plan
from pirkit.runtime.registry import CPU, NATIVE, REFERENCE, Choice


def why_kernels(plan: Plan, library: KernelLibrary) -> str:
    """One paragraph for each call, for inputs of the declared shapes.

    A call with dynamic shapes gets its kernel at run time; its candidates are listed instead.
    """
    library = NotingLibrary(
        library.backend, library.registry, library.falls_back, library.certifies, library.fused
    )
    rewritten, layout = layout_of(plan, library)
    lines = [f"kernels of @{plan.name} on `{library.backend}`, {layout.nbytes:,} bytes of memory"]
    lines += _nodes(layout.nodes, library, rewritten, _NativeCallNumbers())
    if library.device.name == CPU and library.backend != REFERENCE:
        lines.append(f"as a whole (`fast_math`): {explain(plan)}")
    return "\n".join(lines) + "\n"


class _NativeCallNumbers(Struct):
    """Numbers the native calls: consecutive native steps are launched as one call."""

    number: int = 0
    is_dynamic: bool = False

    def explained(self, node: Bound) -> Iterator[str]:
        """The native call of a step, or why it is in none; views and constants do not split one."""
        if isinstance(node.step, NativeStep):
            self.number += not self.is_dynamic
            self.is_dynamic = True
            yield f"    in native call {self.number}"
            return
        if node.choice.kernel.form == "view" or any(isinstance(t, Constant) for t in node.targets):
            return
        self.is_dynamic = False
        yield f"    in no native call: {_why_separate(node)}"


def explain(plan: Plan) -> str:
    """A summary of the plan as one native call, or why it has none.

    `compile` first gives a kernel to each operation that is in none, so it may have one where this
    plan has none. Nothing is compiled but nests.
    """
    try:
        return f"one native call, {describe(graph_of(plan))}"
    except NotNativeError as reason:
        batch_lanes = f"batch in lanes: {reason}"
    try:
        return f"one native call, {sequence_program(plan).summary}"
    except NotNativeError as reason:
        kernels = f"kernel sequence: {reason}"
        why = f"not one native call ({batch_lanes}; {kernels})"
        return f"{why}; `pirkit.compile` first gives each operation a kernel, and may find one"


def _why_separate(node: Bound) -> str:
    if node.choice.kernel.key.backend == NATIVE:
        return "its native code is a call of its own"
    if node.call.kernel == MATMUL_OP:
        return "matmuls of this size and type run in numpy, as all do without fused kernels"
    return "it has no native form"


def _nodes(
    nodes: tuple[Node, ...], library: NotingLibrary, plan: Plan, native: _NativeCallNumbers
) -> Iterator[str]:
    on_cpu = library.device.name == CPU and library.backend != REFERENCE
    for node in every_node(nodes):
        if not isinstance(node, Bound):
            native.is_dynamic = False
        match node:
            case Bound():
                yield f"{_called(node.call)}: {_choice(node.choice)}"
                if on_cpu:
                    yield from native.explained(node)
                    yield from _functions(library.functions_of(node))
                if why := _not_native(node, library, plan):
                    yield f"    not in native code: {why}"
                yield from _places(node)
            case Dynamic():
                yield f"{_called(node.call)}: chosen when its shapes and attributes are known"
                for choice in _candidates(node.call, library, plan):
                    yield f"    candidate: {_choice(choice)}"
            case _:
                continue


def _functions(functions: Sequence[LazyFunction]) -> Iterator[str]:
    """The schedule of each native function, the threads that share it, and who emits it."""
    for function in functions:
        draft = function.write()
        threads, _ = thread_share(draft.code)
        yield f"    native function: {draft.about}, threads {threads}"


def _not_native(node: Bound, library: KernelLibrary, plan: Plan) -> str | None:
    call = node.call
    if call.kernel != FUSED and not has_trait(call.kernel, CONVOLUTION):
        return None
    slots = [plan.slots[i] for i in call.inputs if isinstance(i, int)]
    metas = [m for m in slots if isinstance(m, TensorMeta) and m.is_static]
    if len(metas) < len(call.inputs):
        return None
    if call.kernel == FUSED:
        return why_not_native(call.attrs["kernel"], tuple([m.shape for m in metas]))
    if library.device.name != CPU or library.backend == REFERENCE:
        return None
    found = library.infer(call.kernel, tuple(metas), call.attrs)
    return why_not_convolution(Binding(tuple(metas), found, call.attrs, call.kernel))


def _called(call: Call) -> str:
    return f"{call.kernel} (a part of {call.part_of})" if call.part_of else call.kernel


def _choice(choice: Choice) -> str:
    return f"{choice.kernel.key} of {choice.kernel.source}: {'; '.join(choice.reasons)}"


def _candidates(call: Call, library: KernelLibrary, plan: Plan) -> tuple[Choice, ...]:

    slots = [plan.slots[i] for i in call.inputs if isinstance(i, int)]
    dtype = first_dtype(slots) or call.attrs.get("dtype")
    return tuple(library.choices(call.kernel, dtype, call.attrs)) if dtype else ()


def _places(node: Bound) -> Iterator[str]:
    if not node.targets:
        form = node.choice.kernel.form
        how = "a view of its first operand" if form == "view" else "a new array"
        yield f"    result: {how}"
    for target in node.targets:
        for place in target if isinstance(target, tuple) else (target,):
            match place:
                case InArena(meta, offset):
                    yield f"    result: {meta} at {offset}"
                case NewArray(meta):
                    yield f"    result: {meta}, allocated in each run, owned by the caller"
                case Constant(meta):
                    yield f"    result: {meta}, made once"
                case InPlace(slot):
                    yield f"    result: over ${slot}"
                case Detour(_, place):
                    yield f"    result: {place.meta} at {place.offset}, then moved"
                case None:
                    continue
