"""From Paddle through a pass of one's own and back: ``python examples/custom_pass.py``.

``pirkit-opt --load examples/custom_pass.py model.json -p relu-to-silu -t paddle-json -o out.json``
does the same on the command line.
"""

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit.analysis.execution_order import operations
from pirkit.passes import Pass, PassContext, Stats, option
from pirkit.passes.replace_ops import replace, successor


@dataclass(frozen=True)
class ReluToSilu(Pass):
    """Use SiLU in the place of ReLU."""

    name = "relu-to-silu"
    stats = Stats(replaced="activations replaced")
    limit: int = option(100, "replace at most that many")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            for op in ctx.each(operations(program.block)):
                if op.name == "pd_op.relu" and ctx.stats["replaced"] < self.limit:
                    new = successor(op, op.operand_slots, definition="pd_op.silu")
                    replace(op, new.results, [new])
                    ctx.count("replaced")


if __name__ == "__main__":
    model = Path(pirkit.__file__).parent / "samples" / "lenet.json"
    program, found = pirkit.run_passes(pirkit.load(model), [ReluToSilu(), "cse,dce"], stats=True)
    pirkit.save(program, "lenet_silu.json")  # and lenet_silu.pdiparams
    print(found.stats)
