"""The concrete numbers of traced values, if the arguments of the traced call are available.

``if v`` inside ``grad(f)`` needs one. The operations on which ``v`` depends are then run by eager
kernels. Each runs once in a trace, so that the cost of a Python loop is linear in its iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NoReturn, cast
from weakref import WeakSet

import numpy as np
from xdsl.ir import SSAValue

from pirkit.diag.errors import TraceError
from pirkit.dialect.attrs import encode
from pirkit.dialect.kinds import DERIVATIVE
from pirkit.dialect.opdef import RANDOM, OpDef
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, create, declares
from pirkit.dialect.ops.control.derivatives import CHECKPOINT, CUSTOM
from pirkit.frontend.eager import EagerOp
from pirkit.frontend.user_line import user_span
from pirkit.runtime.tensor.dense import DenseTensor

Array = np.ndarray[Any, Any]
RunPart = Callable[[ProgramOp, Mapping[str, Any]], list[Array]]
"""Compiles and runs a program; used for the values of derivatives."""

STAND_INS: Final[WeakSet[PirOp]] = WeakSet()
"""Operations that stand for a cotangent or tangent while a rule of the user is recorded.

Their numbers mean nothing, so no Python code may depend on them.
"""


class KnownValues:
    """Computes values of a program under construction, given its inputs by name.

    ``fed`` converts an input to the array that the program gets; ``run`` runs a program.
    """

    def __init__(
        self,
        program: ProgramOp,
        inputs: Mapping[str, Any],
        fed: Callable[[Any], Array],
        run: RunPart,
    ) -> None:
        self._program = program
        self._inputs = inputs
        self._fed = fed
        self._run = run
        self._found: dict[SSAValue, Any] = {}

    def array(self, value: SSAValue) -> Array:
        """The value at the arguments of this call, as an array.

        Raises TraceError (PK0706) for a value that depends on random numbers or on an in-place
        write, which would take place a second time when the program runs; or on a cotangent or a
        tangent in a rule of the user.
        """
        stack = [value]  # no recursion: a chain of operations may be long
        while stack:
            top = stack[-1]
            owner = cast(PirOp, top.owner)
            missing = [v for v in _read(owner) if v not in self._found]
            if top in self._found:
                stack.pop()
            elif missing:
                stack += missing
            else:
                self._compute(owner)
        return self._found[value].array

    def _compute(self, op: PirOp) -> None:
        """Compute the results of an operation whose operands are known."""
        results: list[Any]
        if op.name == "pd_op.data":
            results = [DenseTensor(self._fed(self._inputs[op.attribute("name")]))]
        elif op.name == "pir.combine":
            results = [[self._found[v] for v in op.operands]]
        elif op.name == "pir.slice":
            results = [self._found[op.operands[0]][op.attribute("index")]]
        elif op.name in (CUSTOM, CHECKPOINT):
            results = [self._found[v] for v in _read(op)]
        elif declares(op, DERIVATIVE) or bodies(op):
            results = [DenseTensor(a) for a in self._derivatives(op)]
        else:
            results = self._eager(op)
        self._found.update(zip(op.results, results, strict=True))

    def _eager(self, op: PirOp) -> list[Any]:
        definition = op.definition
        if definition.effects == RANDOM or definition.writes:
            _refuse("random numbers" if definition.effects == RANDOM else f"`{op.name}`")
        if op in STAND_INS:
            _refuse("a cotangent or a tangent in a custom derivative")
        pairs = zip(definition.operands, op.operand_slots, strict=False)
        given = {s.name: self._found[v] for s, v in pairs if v is not None}
        given |= {k: v for k, v in op.attribute_values().items() if k not in given}
        given |= {
            s.name: op.attribute(s.name)
            for s in definition.operands
            if s.kind is not None and s.name not in given and s.name in op.properties
        }
        found = _function(definition)(**given)
        shown = iter(cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,)))
        by_slot = zip(definition.results, op.result_slots, strict=False)
        return [None if s.intermediate else next(shown) for s, r in by_slot if r is not None]

    def _derivatives(self, op: PirOp) -> list[Array]:
        """The results of a derivative, branch or loop, for which no kernel exists.

        They become outputs of a copy of the program so far, which is compiled and run.
        """
        copies: dict[SSAValue, SSAValue] = {}
        copy = self._program.clone(value_mapper=copies)
        for i, result in enumerate(op.results):
            named = {"output_name": encode("str", f"y{i}")}
            copy.block.add_op(create("pir.shadow_output", [copies[result]], [], named))
        return self._run(copy, self._inputs)


def _read(op: PirOp) -> Sequence[SSAValue]:
    """The values on which an op's results depend.

    Those of a user-defined derivative or of `checkpoint` are its first operands, unchanged.
    """
    return op.operands[: len(op.results)] if op.name in (CUSTOM, CHECKPOINT) else op.operands


def _refuse(what: str) -> NoReturn:
    raise TraceError(
        f"a traced value that depends on {what} is known only when the program runs",
        span=user_span(),
        help="choose with `pirkit.where(condition, x, y)` or `pirkit.cond`, both recorded",
    )


@cache
def _function(definition: OpDef) -> EagerOp:
    return EagerOp(definition)
