"""Bounds proofs for the native kernels of programs, with one result for each kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.operation import ProgramOp
from pirkit.frontend.proof_bounds import prove_bounds
from pirkit.frontend.proof_terms import Unprovable
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.codegen.ir.call_words import bound_nest
from pirkit.lowering.codegen.ir.loop_ir import Nest
from pirkit.lowering.native_calls import NotingLibrary, bound_calls, layout_of, words_of_call
from pirkit.lowering.native_fused import FusedKernel
from pirkit.lowering.native_text import stages_of_nest
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.nodes import Bound
from pirkit.runtime.registry import CPU


class KernelBounds(Struct, frozen=True):
    """How many accesses of a kernel are proved to stay in their buffers.

    ``why`` tells why others are not proved; it is empty if there are none.
    """

    program: str
    kernel: str
    proved: int
    why: str = ""

    def __str__(self) -> str:
        how = f"not proved: {self.why}" if self.why else f"proved, {self.proved} accesses"
        return f"bounds: @{self.program} {self.kernel}: {how}"


def kernel_bounds(z3: Any, module: ModuleOp) -> Iterator[KernelBounds]:
    """Prove the bounds of the native kernels of each program, for its declared shapes.

    Raises RuntimeFault (PK0910) for an access that leaves its buffer, with the iteration.
    """
    for program in module.ops:
        if isinstance(program, ProgramOp):
            library = NotingLibrary(CPU)
            _, layout = layout_of(write_plan(program), library)
            for node in bound_calls(layout.nodes):
                functions = library.functions_of(node)
                if functions:
                    yield _of_call(z3, program.symbol, node, functions)


def _of_call(z3: Any, program: str, node: Bound, functions: Sequence[LazyFunction]) -> KernelBounds:
    name = node.call.kernel
    if isinstance(node.step, FusedKernel):
        name = f"{name} `{node.step.kernel.name}`"
    proved, why = 0, list[str]()
    for nest in _nests(node, functions):
        if isinstance(nest, str):
            why.append(nest)
            continue
        try:
            found = prove_bounds(z3, nest)
        except Unprovable as reason:
            why.append(str(reason))
            continue
        if found.outside is not None:
            raise RuntimeFault(
                f"kernel {name} of @{program} leaves a buffer: {found.outside}",
                code="PK0910",
                span=node.call.span,
                notes=("z3 found the iteration; nothing was run",),
                help="this is a bug of the code generator; `-t nest` prints the loops",
            )
        proved += found.proved
        why += found.open
    return KernelBounds(program, name, proved, "; ".join(dict.fromkeys(why)))


def _nests(node: Bound, functions: Sequence[LazyFunction]) -> Iterator[Nest | str]:
    """The scheduled nests of a call, or why a function has none."""
    if isinstance(node.step, FusedKernel):
        for nest in node.step.nests:
            yield from [stages[-1].nest for stages, _ in stages_of_nest(nest)]
        return
    for function in functions:
        draft = function.write()
        if draft.stages:
            nest = draft.stages[-1].nest
            if nest.words is not None:
                nest = bound_nest(nest, words_of_call(node, nest.words))
            yield nest
        else:
            shown = draft.about.emitter if draft.about else "its emitter"
            yield f"{shown} does not write the loop IR"
