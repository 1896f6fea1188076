"""``trace``: the program of a Python function, for users who want that rather than its result.

Also the names of parameters and leaves, which messages and inputs of programs use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.build import Value
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.program import Program
from pirkit.frontend import tree
from pirkit.frontend.python_calls import check_call
from pirkit.frontend.tracing import Recorder, bound_input, leaf_meta
from pirkit.frontend.tracing import trace as record
from pirkit.runtime.meta import TensorMeta


class Marked(Struct, frozen=True):
    """An argument whose tensors are parameters of the program; see `parameters`."""

    tree: Any


def parameters(tree: Any) -> Any:
    """Mark an argument of `trace`: its tensors become parameters of the program, not inputs.

    They have the names that the inputs would have (``p.w``), and their content is that of ``tree``,
    an array or a tree of arrays.
    """
    return Marked(tree)


class Standalone(Recorder):
    """A recorder of programs that stand alone: arrays that the function captures are parameters.

    ``marked`` has the arguments that are parameters, too, by name.
    """

    def __init__(self, program: ProgramOp, marked: Mapping[str, Any] | None = None) -> None:
        super().__init__(program)
        self.marked = marked or {}

    def input(self, name: str, meta: TensorMeta) -> Value:
        return self.parameter(name, meta) if name in self.marked else super().input(name, meta)

    def _captured(self, name: str, array: Any) -> Value:
        return self.parameter(name, leaf_meta(array))


def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
    """The program of a function, recorded with arguments like those that it will get.

    Arguments and result are trees of tensors, arrays and numbers; only shapes and element types of
    the arguments matter. Inputs have the names of the function's parameters (``x``, ``p.w``,
    ``p.0``), outputs are ``y0``, ``y1``... in the order of the leaves. Arrays that the function
    captures, and arguments that `parameters` marks, are parameters of the program, with their
    present content. Raises UsageError for wrong arguments, and TraceError (PK0706) where Python
    asks for a value that is known only when the program runs.
    """
    if not callable(function):
        raise ArgumentError(
            f"`trace` records a function, not a {type(function).__name__}",
            help="`pirkit.trace(f, x)` calls `f(x)` once and records what it does",
        )
    plain, named = [_unmarked(a) for a in args], {k: _unmarked(a) for k, a in kwargs.items()}
    check_call(function, plain, named)
    names = [_spelled(n) for n in argument_names(function, plain, named)]
    leaves = tree.leaves((tuple(plain), named))
    flags = [
        isinstance(a, Marked)
        for a in (*args, *(a for _, a in sorted(kwargs.items())))
        for _ in tree.leaves(_unmarked(a))
    ]
    marked = {n: v for n, v, is_marked in zip(names, leaves, flags, strict=True) if is_marked}
    kind = partial(Standalone, marked=marked)
    traced = record(function, plain, keywords=named, names=names, kind=kind)
    held = {**marked, **traced.captured}
    weights = {name: np.array(bound_input(array)) for name, array in held.items()}
    return Program(traced.program.module, weights, f"<{_name_of(function)}>")


def _unmarked(given: Any) -> Any:
    return given.tree if isinstance(given, Marked) else given


def argument_names(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """The spelling of each leaf of the arguments in messages, in order: ``x``, ``p['w']``."""
    found: list[str] = []
    positions = parameter_names(function, len(args))
    for name, given in (*zip(positions, args, strict=True), *sorted(kwargs.items())):
        found += tree.paths(tree.flatten(given)[1], name)
    return found


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of ``count`` positional arguments, by the function's signature.

    Those of a parameter ``*rest`` are ``rest1``...; without a signature all are ``x0``, ``x1``...
    """
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p.name for p in parameters if p.kind in plain][:count]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "x")
    return [*named, *[f"{rest}{i}" for i in range(len(named), count)]]


def _spelled(name: str) -> str:
    """``p['w'][0]`` as ``p.w.0``."""
    return name.replace("['", ".").replace("']", "").replace("[", ".").replace("]", "")


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
