"""`options={"autograd": "torch"}`: torch's own derivatives, as AOTAutograd's joint graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pirkit.torch.capture import functional_graph
from pirkit.torch.captured_graph import Captured
from pirkit.torch.decompositions import decompositions
from pirkit.torch.libtorch import aot_autograd, torch


def with_torch_autograd(
    graph: Any, inputs: Sequence[Any], finish: Callable[[Captured], Any]
) -> Any:
    """AOTAutograd differentiates and splits the graph; both halves are compiled by ``finish``.

    Such a function has first derivatives only: AOTAutograd refuses a second backward.
    """

    def half(functional: Any, examples: Sequence[Any]) -> Any:
        """Compiles the forward or the backward graph of AOTAutograd."""
        bare = [e.detach() if isinstance(e, torch.Tensor) else e for e in examples]
        made = finish(functional_graph(functional, bare))

        def run(args: list[Any]) -> list[Any]:
            found = list(made(*args))
            args.clear()  # as boxed calls do, so that saved values are freed
            return found

        run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return run

    return aot_autograd.aot_module_simplified(
        graph, list(inputs), fw_compiler=half, bw_compiler=half, decompositions=decompositions()
    )
