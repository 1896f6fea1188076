"""Values that are the same in every run: computed from constants and parameters alone."""

from __future__ import annotations

from xdsl.ir import SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.effects import is_pure
from pirkit.dialect.kinds import CONSTANT_LIKE
from pirkit.dialect.operation import PirOp, ProgramOp, declares

PARAMETER = "pir.parameter"


def frozen_values(program: ProgramOp) -> dict[SSAValue, bool]:
    """The values of the program's own block that no input, draw or write changes.

    The value says whether it depends on a parameter, or on constants alone. A parameter that the
    program writes, in place or by `pir.set_parameter`, is none of them.
    """
    classes = alias_classes(program)
    written = {
        op.attribute("parameter_name")
        for op in program.walk()
        if isinstance(op, PirOp) and op.name == "pir.set_parameter"
    }
    found: dict[SSAValue, bool] = {}
    for op in program.block.ops:
        if not isinstance(op, PirOp) or op.regions or any(map(classes.is_written, op.results)):
            continue
        if op.name == PARAMETER:
            if op.attribute("parameter_name") not in written:
                found[op.results[0]] = True
        elif declares(op, CONSTANT_LIKE):
            found.update(dict.fromkeys(op.results, False))
        elif op.operands and is_pure(op) and all(v in found for v in op.operands):
            found.update(dict.fromkeys(op.results, any(found[v] for v in op.operands)))
    return found
