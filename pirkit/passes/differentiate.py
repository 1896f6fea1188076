"""The pass that appends the derivatives of a program's outputs to the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.differentiation import is_differentiable, stops_gradient
from pirkit.dialect.build import Builder
from pirkit.dialect.kinds import OUTPUT
from pirkit.dialect.operation import ProgramOp, declares, host_name
from pirkit.dialect.types import meta_of
from pirkit.passes.autodiff import append_backward
from pirkit.passes.base import Pass, PassContext, Stats, option, require_names
from pirkit.passes.functionalize import functionalize, write_backs
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED

GRAD = "_grad"
"""The suffix that turns the name of a value into the name of its derivative."""


@dataclass(frozen=True)
class AutodiffPass(Pass):
    """Append the backward of each program: derivatives of its outputs, as further outputs.

    ``targets`` names the outputs to differentiate, by default all floating ones; ``wrt`` the inputs
    and parameters, by default all that do not stop gradients. The derivative with respect to ``x``
    is the output ``x_grad``; it is zeros if no target depends on ``x``. A name that is taken gets
    another ``_grad``, so that after ``autodiff{wrt=x},autodiff{wrt=x,targets=x_grad}`` the second
    derivative is ``x_grad_grad``. The cotangent of an output ``y`` is ones; with ``seeds`` it is
    the input ``y_grad``. With ``paddle_residuals`` or ``seeds``
    an op for which Paddle has a gradient op is not decomposed, and its derivative reads no more
    forward values than the gradient op does, if that can be decomposed.

    ::

        %y = pd_op.tanh(%x) : (tensor<2xf32>) -> tensor<2xf32>
        pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
        // autodiff{wrt=x} appends
        %1 = pd_op.multiply(%y, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.subtract(%one, %1) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
        pir.shadow_output(%2) {output_name = "x_grad"} : (tensor<2xf32>) -> ()
    """

    name = "autodiff"
    stats = Stats(
        gradients="derivatives appended",
        ops="operations appended",
        functionalized="in-place operations replaced",
        write_backs="write-backs at the end",
    )

    wrt: tuple[str, ...] = option((), "inputs and parameters, by name")
    targets: tuple[str, ...] = option((), "outputs to differentiate, by name")
    seeds: bool = option(False, "take the cotangents of outputs as inputs")
    paddle_residuals: bool = option(
        False, "let derivatives read no more than Paddle's gradient ops"
    )

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            self._differentiate(ctx, program)

    def _differentiate(self, ctx: PassContext, program: ProgramOp) -> None:
        functionalize(program, ctx)
        every_output, every_input = outputs_of(program), inputs_of(program)
        taken = {*every_output, *every_input}
        outputs = {n: v for n, v in every_output.items() if is_differentiable(v)}
        inputs = {n: v for n, v in every_input.items() if is_differentiable(v)}
        chosen = _picked(outputs, self.targets, "differentiable output")
        requested = _picked(inputs, self.wrt, "differentiable input or parameter")
        if not self.wrt:
            requested = {n: v for n, v in requested.items() if not stops_gradient(v)}
        before = len(list(program.block.ops))
        b = Builder(program.block, next(iter(write_backs(program)), None))
        cotangents: list[SSAValue | None] = [None] * len(chosen)
        if self.seeds:
            cotangents = [
                _seed(b, _unused(name + GRAD, taken), value) for name, value in chosen.items()
            ]
        found = append_backward(
            program,
            list(chosen.values()),
            list(requested.values()),
            cotangents,
            paddle_residuals=self.paddle_residuals or self.seeds,
        )
        for (name, value), gradient in zip(requested.items(), found, strict=True):
            if gradient is None:
                ctx.remark("analysis", f"no output depends on `{name}`: its derivative is zero")
                gradient = b.zeros_like(b.wrap(value)).ssa
            b("pir.shadow_output", b.wrap(gradient), output_name=_unused(name + GRAD, taken))
            ctx.count("gradients")
        ctx.count("ops", len(list(program.block.ops)) - before)


def outputs_of(program: ProgramOp) -> dict[str, SSAValue]:
    """The outputs of a program by name, in order."""
    return {host_name(op): op.operands[0] for op in program.operations if declares(op, OUTPUT)}


def _unused(name: str, taken: set[str]) -> str:
    """The name, or one with more suffixes if another value has it; it is taken from then on."""
    while name in taken:
        name += GRAD
    taken.add(name)
    return name


def _picked(values: Mapping[str, SSAValue], names: Iterable[str], what: str) -> dict[str, SSAValue]:
    """The values of these names; all if ``names`` is empty. UsageError for an unknown name."""
    require_names(values, names, what)
    return {n: values[n] for n in names} or dict(values)


def _seed(b: Builder, name: str, value: SSAValue) -> SSAValue:
    meta = meta_of(value.type)
    assert isinstance(meta, TensorMeta)
    made = b("pd_op.data", name=name, shape=meta.shape, dtype=meta.dtype, place=UNDEFINED)
    return made.ssa
