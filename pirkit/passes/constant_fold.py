"""Evaluation of operations on constants at compile time."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.constants import array_of, attribute_of
from pirkit.analysis.declared_types import mismatched_values
from pirkit.analysis.effects import is_pure
from pirkit.analysis.evaluation import call_of, placeholder, results_of
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import ConstraintError
from pirkit.dialect.attrs import encode
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.kinds import CONSTANT_LIKE
from pirkit.dialect.opdef import reference
from pirkit.dialect.operation import PirOp, declares, make
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.replace_ops import is_as_precise, replace
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import Meta, TensorMeta

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ConstantFoldPass(Pass):
    """Compute pure operations on constants, and write down the result.

    An operand is constant if `pd_op.full`, `pd_op.full_int_array` or `pd_op.assign_value` defines
    it and nothing writes its storage. For an operand of which the op reads only the shape, a static
    type is enough. The op's `reference` rule computes the result, which becomes one of the same
    three ops; the operation stays if none of them represents the result bit by bit.

    ::

        %1 = pd_op.shape64(%0) : (tensor<2x3xf32>) -> tensor<2xi64>
        // becomes
        %1 = pd_op.full_int_array() {value = array<i64: 2, 3>, ...} : () -> tensor<2xi64>
    """

    name = "constant-fold"
    reports_rewrites = True
    stats = Stats(folded="operations replaced by their result")

    max_elements: int = option(1024, "largest operand or result that is computed, in elements")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            classes = ctx.analysis(alias_classes, program)
            wrong = ctx.analysis(mismatched_values, program.block)
            for op in ctx.each(operations(program.block)):
                if is_pure(op) and not declares(op, CONSTANT_LIKE):
                    self.fold(ctx, op, classes, wrong)

    def fold(
        self, ctx: PassContext, op: PirOp, classes: AliasClasses, wrong: AbstractSet[SSAValue]
    ) -> None:
        if any(classes.is_written(r) for r in op.results):
            return
        found = self.results(op, classes, wrong)
        if found is None:
            return
        constants: list[PirOp] = []
        for result, array in zip(op.results, found, strict=True):
            constant = _constant(array, op, result.index)
            if constant is None or not is_as_precise(_meta(constant), meta_of(result.type)):
                ctx.remark("missed", f"no constant holds the result of `{op.name}`", op)
                return
            constants.append(constant)
        ctx.rewrote(op.name, op)
        ctx.count("folded")
        replace(op, [c.results[0] for c in constants], constants)

    def results(
        self, op: PirOp, classes: AliasClasses, wrong: AbstractSet[SSAValue]
    ) -> list[Array] | None:
        """The results of the op, if they are known and small, and all of them are tensors."""
        if not op.results:
            return None
        call = call_of(
            op,
            lambda value, meta_only: self.argument(value, classes, wrong, meta_only=meta_only),
            lambda name, _: attribute_of(op, name, classes),
        )
        if call is None or not self.gives_little(op):
            return None
        values = results_of(op, call)
        slots = zip(op.result_slots, values or (), strict=values is not None)
        return [np.asarray(v) for slot, v in slots if slot is not None] if values else None

    def argument(
        self,
        value: SSAValue,
        classes: AliasClasses,
        wrong: AbstractSet[SSAValue],
        *,
        meta_only: bool,
    ) -> Array | list[Array] | None:
        """An operand in the form that the reference rule takes, or None if it is not constant."""
        if meta_only and value not in wrong and (found := placeholder(value)) is not None:
            return found
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "pir.combine":
            parts = [array_of(v, classes, self.max_elements) for v in owner.operands]
            known = [part for part in parts if part is not None]
            return known if len(known) == len(parts) else None
        return array_of(value, classes, self.max_elements)

    def gives_little(self, op: PirOp) -> bool:
        """True if all results are small tensors."""
        try:
            types = infer_result_types(op.definition, op.operand_slots, op.call_properties)
        except ConstraintError:
            return False
        metas = [meta_of(t) for t in types if t is not None]
        return len(metas) == len(op.results) and all(map(self.is_small, metas))

    def is_small(self, meta: Meta) -> bool:
        return isinstance(meta, TensorMeta) and 0 <= meta.numel <= self.max_elements


def _meta(constant: PirOp) -> Meta:
    return meta_of(constant.results[0].type)


def _constant(array: Array, op: PirOp, index: int) -> PirOp | None:
    """A constant op with exactly these elements, or None if no constant op can represent them."""
    dtype = dt.of_array(array)
    elements = array.reshape(-1)
    attributes = {k: v for k, v in op.attributes.items() if k != "stop_gradient"}
    flags = op.stop_gradient
    if index < len(flags):
        attributes["stop_gradient"] = encode("bool[]", (flags[index],))
    shape = array.shape
    candidates: list[tuple[str, dict[str, Any]]] = []
    first = elements[:1].tobytes()
    if array.size and not dtype.is_complex and array.tobytes() == first * array.size:
        splat = {"shape": shape, "value": float(elements[0]), "dtype": dtype}
        candidates.append(("pd_op.full", splat))
    if array.ndim == 1 and dtype is dt.int64:
        candidates.insert(0, ("pd_op.full_int_array", {"value": elements.tolist(), "dtype": dtype}))
    values = tuple(elements.astype(np.float64) if dtype.is_float else elements)
    numbers = tuple(cast("np.generic", v).item() for v in values)
    candidates.append(("pd_op.assign_value", {"shape": shape, "dtype": dtype, "values": numbers}))
    for name, held in candidates:
        made = make(name, [], held, attributes=attributes, location=op.location)
        again = reference.of(made.definition)(**made.attribute_values())
        if again.dtype == array.dtype and again.tobytes() == array.tobytes():
            return made
        made.erase()
    return None
