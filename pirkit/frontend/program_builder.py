"""The public builder of programs, for converters that trace another framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.build import Number, Value
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.program import Program
from pirkit.dialect.verify import verify_module
from pirkit.frontend.function_programs import Standalone
from pirkit.frontend.tracing import bound_input, leaf_meta
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type


class ProgramBuilder(Standalone):
    """Builds a program op by op::

        b = pirkit.ProgramBuilder()
        x = b.input("x", (8, 4), "float32")
        w = b.parameter("w", np.zeros((4, 2), np.float32))
        y = b.relu_(b.matmul(x, w))
        b.output("y", y)
        program = b.finish()

    Each op of the table is a method: tensors by position, attributes by name. ``b.relu_`` is the op
    that writes in place. Values have Python's operators; `pirkit.ops`, `pirkit.numpy`,
    `pirkit.cond`, `pirkit.while_loop` and `pirkit.grad` take them, and the functions of a branch or
    loop build its region with the same builder. Each op carries the line of Python that built it.
    """

    def __init__(self, name: str = "main") -> None:
        super().__init__(ProgramOp.build(name))
        self._params: dict[str, Any] = {}
        self._names: set[str] = set()

    def input(
        self, name: str, meta: TensorMeta | Sequence[int], dtype: DTypeLike | None = None
    ) -> Value:
        """An input of that shape (-1: any size) and element type.

        Raises ArgumentError (PK0701) for a name that is taken.
        """
        self._take(name)
        if not isinstance(meta, TensorMeta):
            meta = TensorMeta(tuple(meta), element_type(dtype or "float32"))
        return super().input(name, meta)

    def const(self, number: Number, dtype: DTypeLike, shape: Sequence[int] = ()) -> Value:
        """A tensor full of one number; equal ones are one op."""
        return super().const(number, element_type(dtype), shape)

    def parameter(self, name: str, meta: TensorMeta | Any, *, trainable: bool = True) -> Value:
        """A parameter, or with ``trainable=False`` a buffer, whose content is an array.

        With a `TensorMeta` instead, it has no content yet. Raises ArgumentError (PK0701) for a name
        that is taken.
        """
        self._take(name)
        if isinstance(meta, TensorMeta):
            return super().parameter(name, meta, trainable=trainable)
        self._params[name] = np.asarray(bound_input(meta))
        return super().parameter(name, leaf_meta(meta), trainable=trainable)

    def output(self, name: str, value: Any) -> None:
        """Make a value an output. Raises ArgumentError (PK0701) for a name that is taken."""
        self._take(name)
        self("pir.shadow_output", self.value(value), output_name=name)

    def finish(self) -> Program:
        """The program, verified; the builder takes no more ops. Weights are shared, not copied.

        Raises VerifyError for a program that breaks a rule, ArgumentError (PK0701) if it has been
        called before.
        """
        if self.program.parent is not None:
            raise ArgumentError(
                "the program is finished: `finish` has been called",
                help="keep what `finish` returns, or begin another builder",
            )
        self.is_dynamic = False
        module = ModuleOp([self.program])
        verify_module(module)
        weights = {name: np.asarray(bound_input(a)) for name, a in self.captured.items()}
        return Program(module, {**self._params, **weights}, f"<{self.program.symbol}>")

    def _take(self, name: str) -> None:
        if name in self._names:
            raise ArgumentError(f"`{name}` is taken", help="give each name once")
        self._names.add(name)
