"""Every op as a function of tensors: ``pirkit.ops.matmul(x, y, transpose_y=True)``.

Functions carry Paddle's op names and take the op's operands, then its attributes, by position or by
name. They compute at once; inside a traced function they are recorded instead. Names ending in
``_`` write into their operand. Ops of other dialects are found under ``pirkit.ops.op("fma.add")``.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pirkit.frontend.eager import EagerOp


def op(name: str) -> EagerOp:
    """The function of an op by its full name. Raises UnsupportedError for an unknown op."""
    return _functions().op_function(name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'pirkit.ops' has no {name!r}")
    globals()[name] = found = _functions().attribute(name)
    return found


def __dir__() -> list[str]:
    return _functions().op_names()


def _functions() -> ModuleType:
    from pirkit.frontend import op_functions  # noqa: PLC0415  not for `import pirkit`

    return op_functions
