"""Builds small programs from Python functions, differentiates them, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.verify import verify_module
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.passes.autodiff import append_backward
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import UNKNOWN, of_array
from pirkit.runtime.place import UNDEFINED

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
Shape = tuple[int, ...]

CLEAN = "canonicalize,cse,dce,canonicalize,cse,dce"


class Traced:
    """A program under construction, with the arrays that its inputs stand for."""

    def __init__(self, inputs: Sequence[Array], *, known: bool | Sequence[Shape] = True) -> None:
        """``known`` are the shapes that the program knows, or whether those of floating inputs."""
        self.inputs = inputs
        shapes = [
            tuple(a.shape) if known or a.dtype.kind in "biu" else (UNKNOWN,) * a.ndim
            for a in inputs
        ]
        self.program = ProgramOp.build("main")
        self.b = Builder(self.program.block)
        self.args = [
            self.b(
                "pd_op.data",
                name=f"x{i}",
                shape=shape,
                dtype=of_array(a).dtype,
                place=UNDEFINED,
            )
            for i, (a, shape) in enumerate(
                zip(inputs, shapes if isinstance(known, bool) else known, strict=True)
            )
        ]

    def grad(self, y: Value, wrt: Sequence[Value], seed: Value | None = None) -> list[Value | None]:
        seeds = None if seed is None else [seed.ssa]
        found = append_backward(self.program, [y.ssa], [w.ssa for w in wrt], seeds)
        return [None if v is None else self.b.wrap(v) for v in found]

    def run(
        self, outputs: Mapping[str, Value], pipeline: str = "", *, backend: str = "cpu"
    ) -> dict[str, Array]:
        """The values of some outputs, after a pipeline if one is given."""
        for name, value in outputs.items():
            self.b("pir.shadow_output", value, output_name=name)
        module = ModuleOp([self.program])
        verify_module(module)
        if pipeline:
            run_pipeline(module, pipeline)
        self.ops = len(list(self.program.block.ops))
        library = KernelLibrary(backend)
        exe = Executable(write_plan(self.program, library=library), library, {}, 1)
        return exe.run({f"x{i}": a for i, a in enumerate(self.inputs)})


def derivatives(f: Function, x: Array, order: int, pipeline: str = CLEAN) -> list[Array]:
    """``f`` and its first derivatives at each element, for an elementwise function."""
    t = Traced([x])
    values: list[Value | None] = [f(t.b, t.args[0])]
    for _ in range(order):
        last = values[-1]
        values += t.grad(last, t.args) if last is not None else [None]
    outputs = {f"d{i}": v for i, v in enumerate(values) if v is not None}
    found = t.run(outputs, pipeline)
    return [found.get(f"d{i}", np.zeros_like(x)) for i in range(order + 1)]


def numeric_gradient(f: Callable[[Array], Array], x: Array, weights: Array) -> Array:
    """Central differences of ``sum(weights * f(x))``, in float64."""
    step = 1e-5
    found = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        found[at] = np.sum(weights * (f(up) - f(down))) / (2 * step)
    return found
