"""The functions of `pirkit.ops`: one for each op, made when it is first used."""

from __future__ import annotations

import sys
from typing import Any

from pirkit.dialect.opdef import all_ops, find, lookup, unknown_op
from pirkit.frontend.eager import KINDS, EagerOp, KindOp
from pirkit.runtime.registry import KERNELS

_FUNCTIONS: dict[str, EagerOp] = {}


def op_function(name: str) -> EagerOp:
    """The function of an op by its full name. Raises UnsupportedError for an unknown op."""
    definition = lookup(name)
    function = _FUNCTIONS.get(definition.name)
    if function is None:
        function = _FUNCTIONS[definition.name] = EagerOp(definition)
    return function


def attribute(name: str) -> Any:
    """The value of ``pirkit.ops.name``. Raises AttributeError if there is no such op."""
    if find(f"pd_op.{name}") is not None:
        return op_function(f"pd_op.{name}")
    # a function of rows, sparse tensors or strings: `to_dense`, `lower`
    for full in (f"pd_op.{name}", f"strings.{name}"):
        if any(next(KERNELS.kernels(full, kind=k), None) is not None for k in KINDS):
            return KindOp(full)
    error = unknown_op(f"pd_op.{name}")  # Python's own "did you mean" takes few names only
    raise AttributeError(f"{error.message}: {error.help}", name=name, obj=sys.modules["pirkit.ops"])


def op_names() -> list[str]:
    """The names of all ops of Paddle, without their dialect."""
    return sorted(d.name.removeprefix("pd_op.") for d in all_ops() if d.dialect == "pd_op")
