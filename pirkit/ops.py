"""Every op as a function of tensors: ``pirkit.ops.matmul(x, y, transpose_y=True)``.

Functions carry Paddle's op names and take the op's operands, then its attributes, by position or by
name. They compute at once; inside a traced function they are recorded instead. Names ending in
``_`` write into their operand. Ops of other dialects are found under ``pirkit.ops.op("fma.add")``.
"""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pirkit.frontend.eager import EagerOp


def op(name: str) -> EagerOp:
    """The function of an op by its full name. Raises UnsupportedError for an unknown op."""
    from pirkit.dialect.opdef import lookup  # noqa: PLC0415  not for `import pirkit`
    from pirkit.frontend.eager import EagerOp  # noqa: PLC0415

    definition = lookup(name)
    made = _MADE.get(definition.name)
    if made is None:
        made = _MADE[definition.name] = EagerOp(definition)
    return made


_MADE: dict[str, EagerOp] = {}


def __getattr__(name: str) -> Any:
    from pirkit.dialect.opdef import find  # noqa: PLC0415

    if name.startswith("__"):
        raise AttributeError(f"module 'pirkit.ops' has no {name!r}")
    made = op(f"pd_op.{name}") if find(f"pd_op.{name}") is not None else _of_other_kinds(name)
    globals()[name] = made
    return made


def _of_other_kinds(name: str) -> Any:
    """A function of rows, sparse tensors or strings: ``to_dense``, ``lower``."""
    from pirkit.frontend.eager import KINDS, KindOp  # noqa: PLC0415
    from pirkit.runtime.registry import KERNELS  # noqa: PLC0415

    for full in (f"pd_op.{name}", f"strings.{name}"):
        if builtins.any(next(KERNELS.kernels(full, kind=k), None) is not None for k in KINDS):
            return KindOp(full)
    raise AttributeError(
        f"module 'pirkit.ops' has no op {name!r}", name=name, obj=sys.modules[__name__]
    )


def __dir__() -> list[str]:
    from pirkit.dialect.opdef import all_ops  # noqa: PLC0415

    return sorted(d.name.removeprefix("pd_op.") for d in all_ops() if d.dialect == "pd_op")
