"""The manifest of the primitive set, for backends and other compilers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pirkit.dialect.op_form import REGIONS
from pirkit.dialect.opdef import OpDef, infer_meta, jet, lookup, reference, vjp
from pirkit.dialect.primitives import PRIMITIVES, Primitive
from pirkit.dialect.rules.taylor.series import LINEAR
from pirkit.dialect.signature import REQUIRED, Attr, Operand, Result
from pirkit.lowering.plan_writer import is_structural
from pirkit.passes import autodiff_regions, taylor_regions
from pirkit.runtime.kernels.cupy.host_fallback import ON_HOST
from pirkit.runtime.registry import CPU, GPU, KERNELS

BY_PLAN: Final = "the plan"
"""The executor of ops without a kernel: inputs, outputs, branches, loops, lists."""
FALLBACK: Final = "the CPU, with copies"
NO_GRADIENT: Final = "no gradient"
LINEAR_IN_FIRST: Final = "linear"
TWICE: Final = "vjp of vjp"
"""Forward mode of a function that has no rule for it: reverse mode is linear in the cotangents."""

_WORDS: Final = (NO_GRADIENT, LINEAR_IN_FIRST, TWICE)
_ROOT: Final = Path(__file__).parents[2]


def list_primitives(as_json: bool) -> None:
    """Print the manifest: all of it as JSON, or one line for each primitive."""
    rows = manifest()
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'primitive':<32}{'group':<22}{'on a GPU':<23}{'vjp':<13}jvp")
    for row in rows:
        cupy = row["cupy"].partition(":")[0] if isinstance(row["cupy"], str) else "a kernel"
        vjp_, jvp = (x if x in _WORDS else "a rule" for x in (row["vjp"], row["jvp"]))
        print(f"{row['name']:<32}{row['group']:<22}{cupy:<23}{vjp_:<13}{jvp}")


def manifest() -> list[dict[str, Any]]:
    """One row for each primitive, in the order of the table.

    Operands, attributes, results; element types of the first tensor, and the rule that infers
    types; what computes it with numpy and with cupy; its derivatives, or that it has none. Rules
    are told by the place where they stand.
    """
    return [_row(p, lookup(name)) for name, p in PRIMITIVES.items()]


def _row(primitive: Primitive, definition: OpDef) -> dict[str, Any]:
    backward = _vjp(primitive, definition)
    return {
        "name": primitive.name,
        "group": primitive.group,
        "reason": primitive.reason,
        "operands": [_operand(o) for o in definition.operands],
        "attributes": [_attribute(a) for a in definition.attrs],
        "results": [_result(r) for r in definition.results],
        "effects": definition.effects,
        "dtypes": [d.name for d in definition.dtypes] or "any",
        "types": _types(definition),
        "numpy": _numpy(definition),
        "cupy": _cupy(definition),
        "vjp": backward,
        "jvp": NO_GRADIENT if backward == NO_GRADIENT else _jvp(definition),
    }


def _operand(slot: Operand) -> dict[str, Any]:
    held: dict[str, Any] = {"name": slot.name}
    held |= {"optional": True} if slot.optional else {}
    held |= {"list": True} if slot.is_vec or slot.variadic else {}
    if slot.kind is None:
        return held
    default = {} if slot.default is REQUIRED else {"default": slot.default}
    return {**held, "or_attribute": slot.kind, **default}


def _attribute(attr: Attr) -> dict[str, Any]:
    default = {} if attr.default is REQUIRED else {"default": attr.default}
    return {"name": attr.name, "kind": attr.kind, **default}


def _result(slot: Result) -> dict[str, Any]:
    flags = {"optional": slot.optional, "list": slot.is_vec or slot.variadic}
    return {"name": slot.name, **{name: True for name, held in flags.items() if held}}


def _types(definition: OpDef) -> str:
    rule = infer_meta.get(definition)
    if rule is not None:
        return _place(rule)
    return "those of its regions" if definition.name in REGIONS else "stated"


def _numpy(definition: OpDef) -> list[str] | str:
    if is_structural(definition.name):
        return BY_PLAN
    kernels = dict.fromkeys(k.source for k in KERNELS.kernels(definition.name, backend=CPU))
    rule = reference.get(definition)
    return [*kernels, *([] if rule is None else [_place(rule)])]


def _cupy(definition: OpDef) -> list[str] | str:
    if is_structural(definition.name):
        return BY_PLAN
    kernels = dict.fromkeys(k.source for k in KERNELS.kernels(definition.name, backend=GPU))
    return list(kernels) or f"{FALLBACK}: {ON_HOST.get(definition.name, '')}"


def _vjp(primitive: Primitive, definition: OpDef) -> str:
    if not primitive.differentiable:
        return NO_GRADIENT
    rule = vjp.get(definition)
    if rule is not None:
        return _place(rule)
    return _place(_OF_REGIONS[definition.name][0])


_OF_REGIONS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "pd_op.if": (autodiff_regions.differentiate_if, taylor_regions.push_if),
    "pd_op.while": (autodiff_regions.differentiate_while, taylor_regions.push_while),
}
"""Rules of branches and loops: reverse mode, and forward mode."""


def _jvp(definition: OpDef) -> str:
    rule = jet.get(definition)
    if rule is not None:
        return _place(rule)
    if definition.name in _OF_REGIONS:
        return _place(_OF_REGIONS[definition.name][1])
    return LINEAR_IN_FIRST if definition.name.partition(".")[2] in LINEAR else TWICE


def _place(rule: Any) -> str:
    """The location of a rule as ``file:line``; for a numpy function, its name."""
    while hasattr(rule, "func"):
        rule = rule.func
    code = getattr(rule, "__code__", None)
    if code is None:
        return f"numpy.{getattr(rule, '__name__', type(rule).__name__)}"
    return f"{Path(code.co_filename).relative_to(_ROOT).as_posix()}:{code.co_firstlineno}"
