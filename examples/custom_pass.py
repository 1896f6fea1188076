"""From Paddle through a pass of one's own and back. ``pirkit-opt --load`` takes this file too."""

from pathlib import Path

import pirkit
from pirkit.passes import OpCall, rewrite


@rewrite("relu")
def relu_to_silu(call: OpCall, *, slope: float = 1.0) -> object:
    """Use SiLU in the place of ReLU."""
    return call.b.silu(call.b.scale(call.x, scale=slope))


if __name__ == "__main__":
    model = Path(pirkit.__file__).parent / "samples" / "lenet.json"
    program, found = pirkit.run_passes(pirkit.load(model), [relu_to_silu, "cse,dce"], stats=True)
    pirkit.save(program, "lenet_silu.json")  # and lenet_silu.pdiparams
    print(found.stats)
