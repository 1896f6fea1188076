"""Every op of the table, called in hostile ways, on every backend: what differs from the reference.

    python -m tools.campaigns op_table --seed 1 --count 20000 --out op_table.jsonl

Each case is one call of one op as a program: the reference, numpy kernels, `@default`, native code
(`@fused`), native code between two other ops, and the eager function have to agree, or all refuse
it with a code. Decomposed with hidden sizes it may be refused, but not differ. An op that stands
alone does not run by its index rule: between others it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from pirkit import ops
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opdef import RANDOM, OpDef, reference
from pirkit.dialect.operation import ProgramOp
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from pirkit.runtime.place import UNDEFINED
from pirkit.runtime.tensor.dense import DenseTensor
from tests.ops.calls import Call, calls, sample_dtypes, table, tensor_slots
from tests.prim.rule_checks import emitted, tensors_of
from tests.tolerance import difference
from tools.campaigns.driver import Campaign, Found
from tools.campaigns.hostile import hostile, laid_out
from tools.campaigns.oracle import Oracle
from tools.campaigns.outcomes import attempt

Array = np.ndarray[Any, Any]

GATHER: Final = "gather"
FACTORIZATION: Final = "factorization"
UNTOUCHED: Final = frozenset({"pd_op.empty", "pd_op.empty_like"})
"""Ops whose results are whatever the memory holds."""


@cache
def _ops(part: str) -> tuple[OpDef, ...]:
    known = [d for d in table() if reference.get(d) is not None and d.dialect == "pd_op"]
    known = [d for d in known if d.effects != RANDOM and d.name not in UNTOUCHED]
    return tuple([d for d in known if part in d.name])


@cache
def _samples(definition: OpDef) -> tuple[Call, ...]:
    return tuple([c for d in sample_dtypes(definition) for c in calls(definition, d)])


def case(seed: int, number: int, part: str = "") -> Call:
    """The call of a case."""
    draw = np.random.default_rng([seed, number])
    known = _ops(part)
    samples = _samples(known[number % len(known)])
    if not samples:
        return case(seed, number + 1, part)
    return hostile(samples[int(draw.integers(len(samples)))], draw)


def describe(seed: int, number: int, part: str = "") -> str:
    return str(case(seed, number, part))[:300]


def examine(seed: int, number: int, part: str = "") -> list[Found]:
    """What is wrong with a case."""
    call = case(seed, number, part)
    told = str(call)[:300]
    found: list[Found] = []
    reached = {way: attempt(lambda run=run: run(call)) for way, run in WAYS.items()}
    want = reached["reference"]
    for way, (kind, what) in reached.items():
        if kind == "uncoded":
            found.append(Found(kind, told, way, f"{type(what).__name__}: {what}"[:200]))
        elif way != "reference" and want[0] in ("values", "refused"):
            wrong = compared(call, (kind, what), want)
            if way in CHOOSY and kind != want[0]:
                continue
            if wrong and wrong[0] == "wrong" and kind == want[0] == "values":
                wrong = _beyond_rounding(call, what)
            found += [Found(wrong[0], told, way, wrong[1][:200])] if wrong else []
    return found


def compared(call: Call, found: tuple[str, Any], want: tuple[str, Any]) -> tuple[str, str] | None:
    """The kind of a difference from the reference, and what it is."""
    if found[0] != want[0]:
        told = found[1] if found[0] == "refused" else want[1]
        return "refused", f"{found[0]}, but the reference gives {want[0]}: {told}"
    if found[0] == "refused":
        return None
    loosest = max((dt.of_array(a) for a in tensors_of(call)), key=_coarseness, default=None)
    for one, other in zip(found[1], want[1], strict=False):
        wrong = difference(one, other, loosest)
        if wrong is not None:
            told = _at_nan(one, other, loosest) or _has_no_factors(call)
            return ("nan" if told else "wrong"), wrong
    return None


def _has_no_factors(call: Call) -> bool:
    """Whether pivots, and with them which elements are finite, depend on the order of sums."""
    is_factored = call.definition.kind == FACTORIZATION
    return is_factored and not all(
        np.isfinite(a).all() for a in tensors_of(call) if a.dtype.kind in "fc"
    )


def _beyond_rounding(call: Call, found: list[Array]) -> tuple[str, str] | None:
    """What runs of the reference with noise do not explain, as the oracle of programs says."""
    given = {f"x{k}": a for k, a in enumerate(tensors_of(call))}
    made = {f"y{k}": a for k, a in enumerate(found)}
    return Oracle(_program(call, (_same, _same)), given).difference(made, made)


def _coarseness(dtype: dt.DType) -> int:
    order = (dt.float64, dt.float32, dt.float16, dt.bfloat16)
    return order.index(dtype) if dtype in order else -1


def _at_nan(one: Array, other: Array, loosest: Any) -> bool:
    """Whether two arrays agree wherever both are finite."""
    if one.shape != other.shape or one.dtype != other.dtype or one.dtype.kind in "biu":
        return False
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    known = np.isfinite(one.astype(wide)) & np.isfinite(other.astype(wide))
    zero = np.zeros((), one.dtype)
    return difference(np.where(known, one, zero), np.where(known, other, zero), loosest) is None


def _compiled(
    pipeline: str, backend: str, place: Callable[[Array, int], Array] = lambda a, _: a
) -> Callable[[Call], list[Array]]:
    def run(call: Call) -> list[Array]:
        given = {f"x{k}": a for k, a in enumerate(tensors_of(call))}
        laid = {n: place(a, len(n) + a.size + k) for k, (n, a) in enumerate(given.items())}
        found = _executable(call, pipeline, backend)(**laid)
        return [np.asarray(found[name]) for name in sorted(found, key=lambda n: int(n[1:]))]

    return run


def between(call: Call, behind: bool = True, **options: Any) -> list[Array]:
    """The call in front of ops that are fused with it, and ``behind`` some; each changes all bits.

    What lookups read has to be stored after others, so that only one in front fuses with them.
    """
    around = (_changed_value if behind else _same), _changed_value
    given = {f"x{k}": _changed(a) if behind else a for k, a in enumerate(tensors_of(call))}
    found = _made(call, "@fused", "cpu", around, **options)(**given)
    return [_changed(np.asarray(found[n])) for n in sorted(found, key=lambda n: int(n[1:]))]


def _in_lanes(call: Call) -> list[Array]:
    """The call beside an op of rows, so that both are one native call with a row in each lane.

    The rows have the type of the call's tensors, if lanes take it; single numbers may have another.
    """
    program = _program(call, (_same, _same))
    given = {f"x{k}": a for k, a in enumerate(tensors_of(call))}
    count = next((a.shape[0] for a in given.values() if a.ndim), 4)
    is_wide = any(a.dtype == np.float64 and a.size > 1 for a in given.values())
    rows = np.ones(count, np.float64 if is_wide else np.float32)
    b = Builder(program.main.block)
    x = b("pd_op.data", name="rows", shape=rows.shape, dtype=dt.of_array(rows), place=UNDEFINED)
    b("pir.shadow_output", b("pd_op.exp", x), output_name="y-1")
    found = compile(program, batch_lanes=True)(**given, rows=rows)
    del found["y-1"]
    return [np.asarray(found[name]) for name in sorted(found, key=lambda n: int(n[1:]))]


def _with_hidden_sizes(call: Call) -> list[Array]:
    """The call decomposed and fused where each size is known only when it runs.

    ``squeeze`` has its sizes: the rank of its result follows from them.
    """
    program = _program(call, (_same, _same), hides=call.definition.name != "pd_op.squeeze")
    given = {f"x{k}": a for k, a in enumerate(tensors_of(call))}
    found = compile(program, pipeline="decompose,@default")(**given)
    return [np.asarray(found[name]) for name in sorted(found, key=lambda n: int(n[1:]))]


def _changed(a: Array) -> Array:
    """The negative number, or the complement; complex numbers, whose infinities would be lost, and
    what has no bits are as they are."""
    kind = dt.of_array(a)
    return -a if kind.is_float else ~a if kind.is_integer or kind is dt.bool_ else a


Around = Callable[[Builder, Value], Value]


def _same(b: Builder, x: Value) -> Value:
    return x


def _changed_value(b: Builder, x: Value) -> Value:
    if not isinstance(x.any_meta, TensorMeta):
        return x
    if x.dtype.is_float:
        return b("pd_op.multiply", x, b("pd_op.full", shape=(), value=-1.0, dtype=x.dtype))
    return b("pd_op.bitwise_not", x) if x.dtype.is_integer or x.dtype is dt.bool_ else x


_LATEST: dict[tuple[int, str, str], tuple[Call, Executable]] = {}


def _executable(call: Call, pipeline: str, backend: str) -> Executable:
    """The call as a compiled program; ways that differ by their inputs only share one."""
    key = id(call), pipeline, backend
    if key not in _LATEST or _LATEST[key][0] is not call:
        if len(_LATEST) > 8:
            _LATEST.clear()
        _LATEST[key] = call, _made(call, pipeline, backend)
    return _LATEST[key][1]


def _made(
    call: Call,
    pipeline: str,
    backend: str,
    around: tuple[Around, Around] | None = None,
    **options: Any,
) -> Executable:
    program = _program(call, around or (_same, _same))
    return compile(program, pipeline=pipeline, backend=backend, **options)


def _program(call: Call, around: tuple[Around, Around], hides: bool = False) -> Program:
    program = ProgramOp.build("case")
    b = Builder(program.block)
    values: list[Value] = []
    for k, a in enumerate(tensors_of(call)):
        shape = (UNKNOWN,) * a.ndim if hides else a.shape
        dtype = dt.of_array(a)
        values.append(b("pd_op.data", name=f"x{k}", shape=shape, dtype=dtype, place=UNDEFINED))
    before, after = around
    for k, value in enumerate(emitted(call, b, [before(b, v) for v in values])):
        b("pir.shadow_output", after(b, value), output_name=f"y{k}")
    return Program(ModuleOp([program]), {}, "case")


def _eager(call: Call) -> list[Array]:
    slots = tensor_slots(call.definition)
    given = [
        [DenseTensor(v.copy()) for v in a] if isinstance(a, list)
        else None if a is None else DenseTensor(np.array(a))
        for a in call.args
    ]  # fmt: skip
    function = ops.op(call.definition.name)
    if slots and slots[-1].variadic:
        found = function(*given, **call.attrs)
    else:
        named = {s.name: t for s, t in zip(slots, given, strict=True) if t is not None}
        found = function(**named, **call.attrs)
    results = found if isinstance(found, tuple) else (found,)
    hidden = any(r.intermediate for r in call.definition.results)
    flat = [t for v in results for t in (v if isinstance(v, list | tuple) else [v])]
    return [t.numpy() for t in flat[: 1 if hidden else None] if t is not None]


WAYS: Final[dict[str, Callable[[Call], list[Array]]]] = {
    "reference": _compiled("", "reference"),
    "unfused": _compiled("", "cpu"),
    "default": _compiled("@default", "cpu"),
    "native": _compiled("@fused", "cpu"),
    "layouts": _compiled("@default", "cpu", laid_out),
    "between": lambda call: between(call, behind=call.definition.kind != GATHER),
    "lanes": _in_lanes,
    "sizes hidden": _with_hidden_sizes,
    "eager": _eager,
}
CHOOSY: Final = frozenset({"sizes hidden"})
"""Ways that may refuse what the reference computes, such as a number of results that a size tells,
or compute what it refuses for sizes that do not match."""

CAMPAIGN: Final = Campaign("op_table", examine, describe)
