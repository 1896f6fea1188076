"""Runs the programs of a module, to compare what they compute before and after a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.text import parse_mlir
from pirkit.dialect.verify import verify_module
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.executor import Executable

Array = np.ndarray[Any, Any]


def parsed(text: str) -> ModuleOp:
    """A verified module."""
    module = parse_mlir(text)
    verify_module(module)
    return module


def effect(
    module: ModuleOp, inputs: Mapping[str, Array], params: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """All that the host can see of one run: outputs, written inputs, parameters."""
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    plan = write_plan(program)
    held = {name: array.copy() for name, array in (params or {}).items()}
    executable = Executable(plan, KernelLibrary(), held, seed=1)
    outputs = executable.run({name: array.copy() for name, array in inputs.items()})
    seen = {f"output {name}": value for name, value in outputs.items()}
    seen |= {f"written {name}": value for name, value in executable.updates.items()}
    return seen | {f"parameter {name}": value for name, value in executable.params.items()}


def assert_same_bits(before: Mapping[str, Array], after: Mapping[str, Array]) -> None:
    """Equal names, dtypes, shapes and bits; any NaN equals any other."""
    assert before.keys() == after.keys()
    for name, expected in before.items():
        found = after[name]
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected, err_msg=name)
            continue
        ours, theirs = _reals(found), _reals(expected)
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        signs = (np.signbit(ours) == np.signbit(theirs)) | np.isnan(theirs)
        assert signs.all(), f"{name}: zeros of another sign"


def _reals(array: Array) -> Array:
    """Real and imaginary parts in float64, which holds every narrower float."""
    wide = array.astype(np.complex128)
    return np.stack([wide.real, wide.imag])
