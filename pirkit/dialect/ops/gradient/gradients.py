"""How a gradient op is declared: one line, from which signature and shape rule follow.

::

    "layer_norm_grad: x, scale?, bias?~, mean, variance, out_grad ; ... -> x_grad, scale_grad"
    "relu_grad: out, out_grad -> x_grad=out@out_grad"

    row     = NAME ":" operands [";" attributes] "->" results
    operand = as in a signature; a "~" after it: only shape and dtype are read
    result  = NAME ["[]"] ["=" SOURCE] ["@" OPERAND]

A gradient has shape and dtype of what it is the gradient of, so a result names the operand that has
the same meta: ``=out``, or by default the operand whose name is left without ``_grad``. ``=?`` says
that no operand has it; an `infer_meta` rule stands below the rows. ``@out_grad`` gives the op an
in-place twin that writes the result into that operand.

Every result may be null: Paddle omits a gradient that nobody asked for. Gradient ops have no
reference: they run by decomposition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.opdef import OpDef, declare, infer_meta, require
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta

_META_ONLY = re.compile(r"(\w+)(?:\[\])?\??~")
_RESULT = re.compile(r"(?P<name>\w+)(?P<vec>\[\])?(?:=(?P<source>\w+|\?))?(?:@(?P<target>\w+))?$")
SUFFIX: Final = "_grad"
_ELSEWHERE: Final = "?"

SOURCES: Final[dict[str, dict[str, str]]] = {}
"""Gradient op -> result -> the operand of the same shape and dtype, if there is one."""

_DOC = """Gradient of `{forward}`.

Each result has shape and dtype of the value that it is the gradient of; a result is null when
nobody needs it.

C1: a gradient that comes in (`out_grad`) has the shape of its value (`out`), if both are operands.
C2: the attributes fit the rank of the operands.
"""


def declare_gradients(*rows: str) -> None:
    """Declare one op for each row, with its shape rule.

    Raises ValueError for a row outside the grammar or a source that is no operand: the author's
    mistake.
    """
    for row in rows:
        _declare(row)


def _declare(row: str) -> None:
    name, _, rest = row.partition(":")
    left, arrow, right = rest.partition("->")
    matches = [_RESULT.match(item.strip()) for item in right.split(",")]
    if not arrow or any(m is None for m in matches):
        raise ValueError(f"cannot read the gradient row {row!r}")
    results = [m for m in matches if m is not None]
    outputs = ", ".join(f"{m['name']}{m['vec'] or ''}?" for m in results)
    definition = declare(
        OpDef(
            name=f"pd_op.{name}",
            doc=_DOC.format(forward=forward_name(name)),
            signature_text=f"{left.replace('~', '')} -> {outputs}",
            inplace={m["name"]: m["target"] for m in results if m["target"]},
            reads_meta_only=tuple(_META_ONLY.findall(left)),
            family=__name__.rpartition(".")[2],
        )
    )
    sources = [m["source"] or m["name"].removesuffix(SUFFIX) for m in results]
    SOURCES[definition.name] = {
        m["name"]: source
        for m, source in zip(results, sources, strict=True)
        if source != _ELSEWHERE
    }
    if _ELSEWHERE not in sources:
        infer_meta(definition)(_rule(definition, sources))


def forward_name(name: str) -> str:
    """The op of which this is a gradient: ``tanh_grad`` for ``tanh_double_grad``."""
    for order, lower in (("_double_grad", "_grad"), ("_triple_grad", "_double_grad")):
        if name.endswith(order):
            return name.removesuffix(order) + lower
    return name.removesuffix(SUFFIX)


def _rule(
    definition: OpDef, sources: Sequence[str]
) -> Callable[..., Meta | tuple[Meta | None, ...] | None]:
    @cache  # at the first call: reading 300 signatures takes a twentieth of a start
    def places() -> tuple[list[str], list[int], list[tuple[int, int]]]:
        tensors = [o.name for o in definition.operands if o.kind is None]
        taken = [tensors.index(source) for source in sources]
        named = {n: i for i, n in enumerate(tensors)}
        pairs = [(i, named[n + SUFFIX]) for n, i in named.items() if n + SUFFIX in named]
        return tensors, taken, pairs

    def rule(*operands: Meta | None, **_: object) -> Meta | tuple[Meta | None, ...] | None:
        tensors, taken, pairs = places()
        for value, gradient in pairs:
            _check_pair(tensors[value], operands[value], operands[gradient])
        if len(taken) == 1:
            return operands[taken[0]]
        return tuple(operands[i] for i in taken)

    return rule


def _check_pair(name: str, value: Meta | None, gradient: Meta | None) -> None:
    """Refuse a gradient whose shape is not that of its value."""
    if not isinstance(value, TensorMeta) or not isinstance(gradient, TensorMeta):
        return
    require(
        value.rank == gradient.rank and all(map(same_dim, value.shape, gradient.shape)),
        "C1",
        f"`{name}_grad` of shape {show(gradient.shape)} is the gradient of `{name}` of shape "
        f"{show(value.shape)}",
    )


def complex_of(out_grad: TensorMeta) -> DType:
    """The complex type with parts of that type. C2: there is one."""
    found = dt.COMPLEX_OF.get(out_grad.dtype)
    if found is None:
        raise ConstraintError("C2", f"no complex number has parts of {out_grad.dtype}")
    return found
