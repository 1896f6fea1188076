"""The calls of a plan that run native code, with their functions, for tools that describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import field
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.batch_compile import LazyFunction, requested
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.nodes import Bound, Layout, Node, every_node
from pirkit.runtime.plan import Call, Plan
from pirkit.runtime.planning import plan_memory
from pirkit.runtime.registry import Choice


class NotingLibrary(KernelLibrary, frozen=True):
    """A library that notes which native functions the step of each call is made of."""

    functions: dict[int, list[LazyFunction]] = field(default_factory=dict[int, list[LazyFunction]])
    """By the identity of the step, all of which ``steps`` keeps alive."""
    steps: list[Step] = field(default_factory=list[Step])

    def choices(self, op: str, dtype: DType, attrs: Mapping[str, Any]) -> Sequence[Choice]:
        return [self._noting(c) for c in super().choices(op, dtype, attrs)]

    def _noting(self, choice: Choice) -> Choice:
        def bind(b: Binding) -> Step | None:
            with requested() as found:
                step = choice.kernel.bind(b)
            if step is not None:
                self.steps.append(step)
                self.functions[id(step)] = found
            return step

        return replace(choice, kernel=replace(choice.kernel, bind=bind))

    def functions_of(self, node: Bound) -> list[LazyFunction]:
        """The native functions of a call; none for a library kernel."""
        return self.functions.get(id(node.step), [])


def no_draws(call: Call) -> Callable[[], np.random.Generator]:
    """Random numbers for layouts that are not run."""
    return np.random.default_rng


def layout_of(plan: Plan, library: KernelLibrary, *, grouped: bool = True) -> tuple[Plan, Layout]:
    """A plan as it runs for inputs of the declared shapes, and its layout.

    Without ``grouped`` calls are not joined to larger ones, as in a run that times each of them.
    """
    bound_inputs = {port.slot: port.meta for port in (*plan.inputs, *plan.params)}
    rewritten = library.grouped(plan, bound_inputs) if grouped else plan
    layout = plan_memory(
        rewritten,
        library,
        bound_inputs,
        device=library.device,
        generator=no_draws,
        fuses_launches=True,
    )
    return rewritten, layout


def bound_calls(nodes: Sequence[Node]) -> Iterator[Bound]:
    """The calls of planned instructions whose kernels are bound, those of blocks included."""
    return (node for node in every_node(nodes) if isinstance(node, Bound))


def words_of_call(node: Bound, words: int) -> list[int]:
    """The numbers in operand ``words`` of a call, for operands of the declared shapes."""
    assert isinstance(node.step, NativeStep)
    part = node.step.launch_part({})
    (work,) = part.works
    return part.own[work.operands[words]].tolist()
