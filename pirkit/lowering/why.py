"""Tells, for each call of a plan, which kernel runs it, why that one, and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pirkit.lowering.kernels import KernelLibrary
from pirkit.lowering.native import why_not_native
from pirkit.lowering.native_conv import why_not_native as why_not_convolution
from pirkit.lowering.native_ops import CONVOLUTIONS, FUSED
from pirkit.lowering.whole_program.choose import explained
from pirkit.runtime.binding import Binding, first_dtype
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.nodes import Aside, Bound, Branch, Fresh, InArena, Late, Loop, Node, Over
from pirkit.runtime.plan import Call, Plan
from pirkit.runtime.planning import plan_memory
from pirkit.runtime.registry import CPU, REFERENCE, Choice


def why_kernels(plan: Plan, library: KernelLibrary) -> str:
    """One paragraph for each call, for inputs of the declared shapes.

    Where dimensions are unknown the kernel is chosen when the shapes are; then the candidates are
    listed.
    """
    fed = {port.slot: port.meta for port in (*plan.inputs, *plan.params)}
    rewritten = library.grouped(plan, fed)
    layout = plan_memory(rewritten, library, fed, device=library.device, generator=_no_draws)
    lines = [f"kernels of @{plan.name} on `{library.backend}`, {layout.nbytes:,} bytes of memory"]
    lines += _nodes(layout.nodes, library, rewritten)
    if library.device.name == CPU and library.backend != REFERENCE:
        lines.append(f"as a whole (`compile_whole`): {explained(plan)}")
    return "\n".join(lines) + "\n"


def _no_draws(call: Call) -> Callable[[], np.random.Generator]:
    return np.random.default_rng


def _nodes(nodes: tuple[Node, ...], library: KernelLibrary, plan: Plan) -> Iterator[str]:
    for node in nodes:
        match node:
            case Bound():
                yield f"{_called(node.call)}: {_choice(node.choice)}"
                if why := _not_native(node, library, plan):
                    yield f"    not in native code: {why}"
                yield from _places(node)
            case Late():
                yield f"{_called(node.call)}: chosen when its shapes and attributes are known"
                for choice in _candidates(node.call, library, plan):
                    yield f"    candidate: {_choice(choice)}"
            case Branch():
                yield from _nodes((*node.then, *node.orelse), library, plan)
            case Loop():
                yield from _nodes(node.body, library, plan)
            case _:
                continue


def _not_native(node: Bound, library: KernelLibrary, plan: Plan) -> str | None:
    call = node.call
    if call.kernel != FUSED and call.kernel not in CONVOLUTIONS:
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
                case Fresh(meta):
                    yield f"    result: {meta}, new in each run, the caller keeps it"
                case Over(slot):
                    yield f"    result: over ${slot}"
                case Aside(_, place):
                    yield f"    result: {place.meta} at {place.offset}, then moved"
                case None:
                    continue
