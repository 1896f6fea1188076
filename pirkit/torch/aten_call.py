"""Emitting `torch.call` for a node that has no rule."""

from __future__ import annotations

import json
from typing import Any, cast

from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import UnsupportedError
from pirkit.diag.span import Span
from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.aten_call_op import NAME as CALL
from pirkit.torch.imported_graph import Fallback
from pirkit.torch.libtorch import torch


def call_by_torch(
    b: AtenBuilder, args: list[Any], options: dict[str, Any], reason: str,
    fallbacks: list[Fallback],
) -> Any:  # fmt: skip
    """Emit a call of the builder's node, and enter it in ``fallbacks``.

    Raises UnsupportedError (PK0409) for a target that is no overload, and for one that draws random
    numbers in a way that depends on data.
    """
    node = b.node
    results = [[list(s), d.name] for s, d in zip(b.shapes, b.types, strict=True) if d]
    loc = b.location
    is_line = isinstance(loc, mlir.FileLineColLoc)
    span = Span(loc.filename.data, loc.line.data) if is_line else None
    fallbacks.append(Fallback(str(node.target), span, reason))
    if not hasattr(node.target, "_schema"):
        raise UnsupportedError(
            f"`{node.target}` has no rule", code="PK0409", span=span,
            help="leave its part of the model uncompiled (`torch.compiler.disable`)",
        )  # fmt: skip
    if torch._C.Tag.nondeterministic_seeded in node.target.tags:
        raise UnsupportedError(
            f"`{node.target}` draws random numbers by data, which has no rule", code="PK0409",
            span=span, help="draw before the compiled function, or let the graph break there",
        )  # fmt: skip
    tensors: list[Value] = []
    schema = node.target._schema.arguments
    numbers = {a.name for a in schema if "Tensor" not in str(a.type)}
    named = [(a.name, given) for a, given in zip(schema, args, strict=False)]
    named += [(k, v) for k, v in options.items() if k not in ("device", "layout", "pin_memory")]
    coded = {k: _encoded(v, tensors, "number" if k in numbers else "tensor") for k, v in named}
    written = json.dumps([
        [coded.pop(k) for k, _ in named[: len(args)]], coded,
    ])  # fmt: skip
    found = b(
        CALL, tensors, target=str(node.target), arguments=written,
        results=json.dumps(results), count=len(tensors),
    )  # fmt: skip
    made = iter(b.split_vec(found))
    several = [next(made) if d else None for d in b.types]
    return several if isinstance(node.meta["val"], list | tuple) else several[0]


def _encoded(given: Any, tensors: list[Value], kind: str) -> Any:
    """An argument as JSON data; a value goes into ``tensors``, and is its kind and index there.

    JSON has no complex numbers, infinities or NaN, so these are texts, and so are torch's element
    types, layouts and memory formats. Raises UnsupportedError (PK0409) for other types.
    """
    if isinstance(given, Value):
        tensors.append(given)
        return {kind: len(tensors) - 1}
    if isinstance(given, list | tuple):
        return [_encoded(a, tensors, kind) for a in cast("list[Any]", given)]
    if isinstance(given, float) and given not in (float("inf"), float("-inf")) and given == given:
        return given
    if isinstance(given, float | complex):
        return {type(given).__name__: str(given)}
    if given is None or isinstance(given, bool | int | str):
        return given
    if isinstance(given, torch.dtype | torch.layout | torch.memory_format):
        return {"torch": str(given).removeprefix("torch.")}
    raise UnsupportedError(
        f"an argument of an op without a rule is a {type(given).__name__}", code="PK0409",
        help="leave its part of the model uncompiled (`torch.compiler.disable`)",
    )  # fmt: skip
