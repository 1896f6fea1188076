"""The pass that replaces a program by a forward and a backward program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.operation import ProgramOp
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.split.partition import forward_backward
from pirkit.split.save_or_recompute import SAVE_ALL, require_mode

NONE: Final = -1
"""The value of an option that is not given."""


@dataclass(frozen=True)
class SplitPass(Pass):
    """Split a program into `@forward` and `@backward`, which computes its gradients.

    A joint program, such as ``autodiff{seeds=true}`` leaves, is split as it is; for any other
    program the gradients of all outputs with respect to all inputs and parameters are appended
    first. Values that the backward needs are outputs of the forward and arguments of the backward.
    The name lists are attributes: inputs, parameters, middles, outputs (``fx fp fm fo``); which of
    them the backward takes (``bx bp bm bo``); gradients that it takes (``bo_g``) and returns
    (``bx_g bp_g``); and values of which only the shape is read. ``unit`` marks an empty position.
    Values that share storage have one name.

    ``mode=save-all`` saves everything that the backward reads; ``free`` recomputes operations that
    cost no work; ``min-cut`` saves the fewest bytes if all operations but contractions and regions
    may be recomputed; ``budget`` recomputes as little work as it finds within that many bytes.
    Remarks report the values that are saved and copied, and the operations that are moved.

    ::

        pir.program @main(%x "x" : tensor<2xf32>) {
          %y = pd_op.tanh(%x) : (tensor<2xf32>) -> tensor<2xf32>
          pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
        }
        // becomes
        pir.program @forward(%x "x" : tensor<2xf32>) attributes {fx = ["x"], ..., fo = ["y"]} {
          ...
        }
        pir.program @backward(%y "y" : tensor<2xf32>, %g "output_grad_0" : tensor<2xf32>)
            attributes {bx = [unit], ..., bo = ["y"], bo_g = ["output_grad_0"], ...} {
          ...
        }
    """

    name = "split"
    stats = Stats(
        split="programs split",
        bytes="bytes saved for the backward",
        recomputed="operations computed again",
    )

    mode: str = option(SAVE_ALL, "what is saved: save-all, free, min-cut")
    budget: int = option(NONE, "bytes that may be saved; little work is recomputed")
    forward_ops: int = option(NONE, "operations at the beginning that are the forward program")

    def __post_init__(self) -> None:
        require_mode(self.mode)

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        programs = [op for op in ctx.programs(module) if not is_half(op)]
        for program in programs:
            ctx.current = program
            parts = forward_backward(
                program,
                mode=self.mode,
                budget=None if self.budget == NONE else self.budget,
                forward_ops=None if self.forward_ops == NONE else self.forward_ops,
            )
            prefix = "" if len(programs) == 1 else f"{program.symbol}_"
            ctx.rewrote("split", program)
            for half in (parts.forward_program, parts.backward_program):
                half.detach()
                half.properties["sym_name"] = mlir.StringAttr(prefix + half.symbol)
                module.body.block.insert_op_before(half, program)
            ctx.count("split")
            ctx.count("bytes", parts.report.bytes)
            ctx.count("recomputed", len(parts.report.recomputed))
            ctx.remark("analysis", str(parts.report).partition("\n")[0], program)
            for note in parts.report.notes:
                ctx.remark("passed", note, program)
            for saved in parts.saved:
                ctx.remark("analysis", f"saves {saved.name}: {saved.bytes:,} bytes, {saved.how}")
            program.detach()
            program.erase()


def is_half(program: ProgramOp) -> bool:
    """True for a program that a split has produced."""
    return "fo" in program.attributes or "bo_g" in program.attributes
