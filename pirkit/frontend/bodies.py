"""Bodies of branches and loops: functions recorded into programs of their own.

A body is a program until all of it is recorded: then the derivatives inside it are expanded, as
those of a whole program are, and its operations move into the region of an op. Until then the
values that it reads from the programs around it are inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from pirkit.analysis.differentiation import block_of
from pirkit.dialect.build import Value
from pirkit.dialect.kinds import DERIVATIVE
from pirkit.dialect.operation import PirOp, ProgramOp, create, declares
from pirkit.dialect.types import type_of
from pirkit.frontend import tree
from pirkit.frontend.active_trace import recording_draws
from pirkit.frontend.recording import overwritten
from pirkit.frontend.tracing import Recorder
from pirkit.passes import run_pipeline
from pirkit.passes.pipelines import EXPANSION
from pirkit.runtime.meta import TensorMeta

Weak = Sequence[type[Any] | None]
"""Python types of the values that are numbers; a few of the first, None for others."""


class BodyRecorder(Recorder):
    """A recorder whose values may be those of the programs around it."""

    def __init__(self, outer: Recorder) -> None:
        super().__init__(ProgramOp.build("body"))
        self.outer = outer
        self.only_types = isinstance(outer, BodyRecorder) and outer.only_types
        """Only types are wanted from the recording: loops inside are recorded once, not twice."""
        self.links: dict[SSAValue, Value] = {}
        """The input of this body for each value of an outer program."""

    def own(self, value: Value) -> Value:
        """A value of this body. Raises TraceError for one of a trace that is over."""
        if self.inner is not None:
            return self.inner.own(value)
        if isinstance(value.b, Recorder) and value.ssa in value.b.written:
            raise overwritten(value.b.written[value.ssa])
        if block_of(value.ssa) is self.block:
            return super().own(value) if value.b is self else self.wrap(value.ssa)
        if not self.is_dynamic or not self._is_around(value):
            return super().own(value)
        found = self.links.get(value.ssa)
        if found is None:
            found = self.links[value.ssa] = self.input(f"outer{len(self.links)}", value.meta)
        return found

    def _is_around(self, value: Value) -> bool:
        block, around = block_of(value.ssa), self.outer
        while around.block is not block and isinstance(around, BodyRecorder):
            around = around.outer
        return around.block is block

    def capture(self, array: Any) -> Value:
        """An array from around the function is an input of the outermost program."""
        return self.own(self.outer.capture(array))


class Body:
    """A function that becomes the region of an op of the program that ``outer`` records."""

    def __init__(self, outer: Recorder, *, only_types: bool = False) -> None:
        self.outer = outer
        self.recorder = BodyRecorder(outer)
        self.recorder.only_types |= only_types
        self._arguments: list[Value] = []

    def record(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the function for trees of values of this body."""
        self.outer.inner = self.recorder
        try:
            with recording_draws(self.recorder):
                found = function(*arguments)
            self.recorder.require_decided()
            return found
        finally:
            self.outer.inner = None

    def arguments(self, shape: tree.Shape, metas: Sequence[TensorMeta], weak: Weak = ()) -> Any:
        """A tree of values that the op hands to the body; ``weak`` ones promote as numbers do."""
        first, b = len(self._arguments), self.recorder
        kinds = [*weak, *[None] * (len(metas) - len(weak))]
        made = [
            b.number(f"x{first + i}", kind()) if kind else b.input(f"x{first + i}", m)
            for i, (m, kind) in enumerate(zip(metas, kinds, strict=True))
        ]
        self._arguments += made
        return tree.unflatten(shape, iter(made))

    def region(self, results: Sequence[Value], given: Sequence[SSAValue] | None = None) -> Region:
        """The region that yields values of the body.

        Its arguments are those of a block, or the values of the program around that are ``given``.
        """
        program = self.recorder.program
        for i, value in enumerate(results):
            self.recorder("pir.shadow_output", value, output_name=f"y{i}")
        self.recorder.is_dynamic = False
        if any(declares(op, DERIVATIVE) for op in program.block.ops):
            run_pipeline(ModuleOp([program]), EXPANSION, verify=False)
            program.detach()
        types = [type_of(a.meta) for a in self._arguments] if given is None else ()
        block = Block(arg_types=types)
        stands = {f"x{i}": v for i, v in enumerate(block.args if given is None else given)}
        stands |= {f"outer{i}": v for i, v in enumerate(self.recorder.links)}
        yielded: dict[str, SSAValue] = {}
        for op in list(program.block.ops):
            _move(cast(PirOp, op), block, stands, yielded)
        values = [yielded[f"y{i}"] for i in range(len(results))]
        block.add_op(create("pir.yield", values))
        return Region(block)

    def inlined(self, results: Sequence[Any], given: Sequence[Value]) -> list[Value]:
        """Values of the body as those of the program around, to which its operations move.

        ``given`` stands for its arguments.
        """
        for i, value in enumerate(results):
            made = self.record(self.recorder.value, value)
            self.recorder("pir.shadow_output", made, output_name=f"y{i}")
        self.recorder.is_dynamic = False
        stands = {f"x{i}": v.ssa for i, v in enumerate(given)}
        stands |= {
            f"outer{i}": self.outer.own(self.outer.wrap(v)).ssa
            for i, v in enumerate(self.recorder.links)
        }
        found: dict[str, SSAValue] = {}
        for op in list(self.recorder.program.block.ops):
            _move(cast(PirOp, op), self.outer.block, stands, found)
        return [self.outer.wrap(found[f"y{i}"]) for i in range(len(results))]


def _move(
    op: PirOp, block: Block, stands: dict[str, SSAValue], yielded: dict[str, SSAValue]
) -> None:
    """Move an op of a body into its block; inputs and outputs are no ops there."""
    if op.name == "pd_op.data":
        op.results[0].replace_all_uses_with(stands[op.attribute("name")])
        op.detach()
        op.erase()
    elif op.name == "pir.shadow_output":
        yielded[op.attribute("output_name")] = op.operands[0]
        cast(Operation, op).detach()
        op.drop_all_references()
    else:
        op.detach()
        block.add_op(op)
