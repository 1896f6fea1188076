"""The array API namespace with every function recorded: tensors in, a program run, tensors out.

`tools/array_api.py` gives it to the official suite, `test_array_api.py` compares it
with numpy. Functions that cannot be recorded, because the shape of their result depends on
elements, or because they take no tensor, compute at once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pirkit.dialect.operation import ProgramOp
from pirkit.frontend import tree
from pirkit.frontend.array_namespace import DATA_DEPENDENT, EXTENSIONS, NAMES, ArrayFunction
from pirkit.frontend.array_namespace import check_version as check_version
from pirkit.frontend.tracing import bound_input
from pirkit.frontend.tracing import trace as record
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime.executor import Executable
from pirkit.runtime.tensor.dense import DenseTensor

LIBRARY = KernelLibrary()
AT_ONCE = {"astype", "asarray", "can_cast", "result_type", "isdtype", "finfo", "iinfo",
           "from_dlpack", *DATA_DEPENDENT}  # fmt: skip


def replaced(given: Any, leaf: Callable[[Any], Any]) -> Any:
    """Arguments with each tensor replaced, in lists and dicts too."""
    if isinstance(given, DenseTensor):
        return leaf(given)
    if isinstance(given, list | tuple):
        return type(given)([replaced(v, leaf) for v in given])
    if isinstance(given, dict):
        return {k: replaced(v, leaf) for k, v in given.items()}
    return given


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that records a program and runs it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        found: list[DenseTensor] = []
        replaced((args, kwargs), lambda t: found.append(t) or t)
        if not found or function.__name__ in AT_ONCE:
            return function(*args, **kwargs)

        def body(*values: Any) -> Any:
            left = iter(values)
            given, named = replaced((args, kwargs), lambda _: next(left))
            return function(*given, **named)

        traced = record(body, found)
        module = traced.program.module
        run_pipeline(module, "expand-gradients")  # `pinv` records a rule for its derivative
        (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
        held = {name: bound_input(array) for name, array in traced.captured.items()}
        inputs = {f"x{i}": t for i, t in enumerate(found)}
        outputs = Executable(write_plan(program), LIBRARY, {}, 0).run({**inputs, **held})
        results = [DenseTensor(outputs[f"y{i}"]) for i in range(len(outputs))]
        return tree.unflatten(traced.shape, iter(results))

    run.__name__ = function.__name__
    run.__signature__ = function.__signature__  # pyright: ignore
    return run


def _all(names: dict[str, Any]) -> dict[str, Any]:
    return {k: recorded(v) if isinstance(v, ArrayFunction) else v for k, v in names.items()}


globals().update(_all(NAMES))
fft, linalg = [SimpleNamespace(**_all(EXTENSIONS[name])) for name in ("fft", "linalg")]
