"""Paddle's gradient ops compute what the reverse sweep through their forward op does."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.build import Value
from pirkit.dialect.gradient_names import Spelling, forward_of
from pirkit.dialect.opdef import OpDef, all_ops, decompose, infer_meta, lookup, vjp
from pirkit.dialect.operation import PirOp
from pirkit.dialect.ops.gradient.gradients import SOURCES
from pirkit.dialect.rules.gradient.paddle_gradients import STANDS_FOR
from pirkit.dialect.signature import REQUIRED
from pirkit.passes.autodiff import append_backward
from pirkit.passes.gradient_ops import decompose_gradient
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta, VecMeta
from tests.ops.calls import Call, calls, sample_dtypes
from tests.prim.rule_checks import Program, program_of

Named = dict[str, Any]

OF_COMPLEX = frozenset({"pd_op.real", "pd_op.imag", "pd_op.as_real"})
"""Ops whose gradient op knows complex operands only."""


def _gradient_ops(order: int) -> list[str]:
    return [
        d.name
        for d in all_ops()
        if d.name in SOURCES
        and decompose.get(d) is decompose_gradient
        and _order(d) == order
        and _has_derivative(d)
    ]


def _has_derivative(definition: OpDef) -> bool:
    """True if what the gradient op is about has a rule."""
    forward = forward_of(definition)
    if forward is None or forward.name in SOURCES:
        return forward is not None and _has_derivative(forward)
    return bool(vjp.get(forward) or decompose.get(forward))


def _order(definition: OpDef) -> int:
    forward = forward_of(definition)
    return 0 if forward is None else 1 + _order(forward)


def _calls(forward: OpDef) -> list[Call]:
    dtypes = sample_dtypes(forward)
    if forward.name in OF_COMPLEX:
        return list(calls(forward, dt.complex128))
    return list(calls(forward, dt.float64 if dt.float64 in dtypes else dtypes[0]))


def is_smooth(call: Call) -> bool:
    """True if the call gives floating tensors for floating tensors."""
    if any(isinstance(m, TensorMeta) and not m.is_static for m in call.infer(*call.metas)):
        return False  # how many cotangents there are depends on the data
    if call.attrs.get("full_matrices") or call.attrs.get("mode") in ("complete", "r"):
        return False  # has no derivative
    drops = call.attrs.get("dropout_prob") or call.attrs.get("dropout")
    if drops and not call.attrs["is_test"]:
        return False  # it draws
    floats = [a for a in call.args if a is not None and not isinstance(a, list)]
    if call.definition.name == "pd_op.cast":
        return call.attrs["dtype"].is_float
    return not floats or any(a.dtype.kind not in "biu" for a in floats)


def _operands(op: PirOp, p: Program) -> Named:
    b = p.traced.b
    named = {}
    for slot, value in zip(op.definition.operands, op.operand_slots, strict=False):
        if value is not None or slot.kind is None:
            named[slot.name] = None if value is None else b.wrap(value)
    return named


def _results(op: PirOp, p: Program) -> Named:
    slots = zip(op.definition.results, op.result_slots, strict=True)
    return {r.name: None if v is None else p.traced.b.wrap(v) for r, v in slots}


def _seeds(p: Program, results: Named, names: Spelling, rng: np.random.Generator) -> Named:
    """Random cotangents, as constants, of the results for which the gradient op has an operand."""
    b, found = p.traced.b, cast(Named, {})
    for name in names.seeds:
        value = results[name]
        if value is None:
            continue
        vec = value.any_meta.__class__.__name__ == "VecMeta"
        items = b.split_vec(value) if vec else [value]
        made = [_random(p, v, rng) for v in items]
        found[name] = made if vec else made[0]
    return found


def _random(p: Program, like: Value, rng: np.random.Generator) -> Value:
    array = rng.standard_normal(like.shape)
    values = tuple(array.ravel().tolist())
    return p.traced.b("pd_op.assign_value", shape=like.shape, dtype=like.dtype, values=values)


def _emit(p: Program, definition: OpDef, named: Named) -> PirOp:
    """The op on named operands and attributes; those that it does not know are left out."""
    b = p.traced.b
    tensors = [named.get(s.name) for s in definition.operands if s.kind is None]
    late = {s.name: named.get(s.name) for s in definition.operands if s.kind is not None}
    attrs = {n: named[n] for n in definition.attr_kinds if n in named}
    b(definition, *tensors, **{**attrs, **{k: v for k, v in late.items() if v is not None}})
    return b.emitted[-1]


def _gradient_call(p: Program, gradient: OpDef, op: PirOp, attrs: Named, seeds: Named) -> PirOp:
    names = Spelling(gradient, op.definition)
    defaults = {s.name: s.default for s in op.definition.operands if s.default is not REQUIRED}
    operands, results = {**defaults, **attrs, **_operands(op, p)}, _results(op, p)
    named = dict(attrs)
    named |= {theirs: operands.get(ours) for ours, theirs in names.operands.items()}
    named |= {theirs: results[ours] for ours, theirs in names.results.items()}
    named |= {theirs: seeds.get(ours) for ours, theirs in names.seeds.items()}
    for ours, others in STANDS_FOR.get(gradient.name, {}).items():
        if named.get(others[0]) is None and others[0] not in names.seeds.values():
            named[others[0]] = operands.get(ours)
    return _emit(p, gradient, named)


def _compare(p: Program, ours: Named, theirs: Named) -> None:
    outputs = {f"a{k}": v for k, v in ours.items()} | {f"b{k}": v for k, v in theirs.items()}
    found = p.traced.run(outputs, "decompose,dce")
    for key in ours:
        a, b = found[f"a{key}"], found[f"b{key}"]
        tolerance = 1e-9 if a.dtype in (np.float64, np.complex128) else 2e-4
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("name", _gradient_ops(1))
def test_gradient_op_is_the_sweep_through_its_forward(name: str) -> None:
    gradient = lookup(name)
    forward = cast(OpDef, forward_of(gradient))
    for call in _calls(forward):
        if not is_smooth(call):
            continue
        p = program_of(call)
        op = next(o for o in p.traced.b.emitted if o.definition.base is forward.base)
        names = Spelling(gradient, forward)
        seeds = _seeds(p, _results(op, p), names, np.random.default_rng(3))
        made = _gradient_call(p, gradient, op, call.attrs, seeds)
        given = _results(made, p)
        operands = _operands(op, p)
        b, ours, theirs = p.traced.b, cast(Named, {}), cast(Named, {})
        wrt: list[tuple[str, Value, Value]] = []
        for result, operand in names.wanted.items():
            if given.get(result) is None or operands.get(operand) is None:
                continue
            vec = given[result].any_meta.__class__.__name__ == "VecMeta"
            xs = b.split_vec(operands[operand]) if vec else [operands[operand]]
            gs = b.split_vec(given[result]) if vec else [given[result]]
            wrt += [(f"{result}{i}", x, g) for i, (x, g) in enumerate(zip(xs, gs, strict=True))]
        targets = [(_results(op, p)[n], s) for n, s in seeds.items()]
        flat_targets: list[Value] = []
        flat_seeds: list[Value] = []
        for value, seed in targets:
            items = b.split_vec(value) if isinstance(seed, list) else [value]
            flat_targets += items
            flat_seeds += seed if isinstance(seed, list) else [seed]
        found = append_backward(
            p.traced.program,
            [t.ssa for t in flat_targets],
            [x.ssa for _, x, _ in wrt],
            [s.ssa for s in flat_seeds],
        )
        for (key, x, g), f in zip(wrt, found, strict=True):
            ours[key] = g
            theirs[key] = b.zeros_like(x) if f is None else b.wrap(f)
        _compare(p, ours, theirs)


def _total(p: Program, inner: PirOp, outer: PirOp, names: Spelling) -> dict[str, Value]:
    """The cotangents that a second gradient op gives, carried on to the operands of ``inner``.

    What it gives for a result of the innermost op goes through the sweep of that op.
    """
    b, given = p.traced.b, _results(outer, p)
    operands, results = _operands(inner, p), _results(inner, p)
    totals: dict[str, Value] = {}
    for theirs, ours in names.wanted.items():
        value = given.get(theirs)
        if value is None:
            continue
        if ours in operands or ours not in results:
            totals[ours] = totals[ours] + value if ours in totals else value
            continue
        xs = {n: x for n, x in operands.items() if isinstance(x, Value)}
        found = append_backward(
            p.traced.program, [results[ours].ssa], [x.ssa for x in xs.values()], [value.ssa]
        )
        for name, f in zip(xs, found, strict=True):
            if f is not None:
                more = b.wrap(f)
                totals[name] = totals[name] + more if name in totals else more
    return totals


@pytest.mark.parametrize("name", _gradient_ops(2))
def test_second_gradient_op_is_the_derivative_of_the_first(name: str) -> None:
    second = lookup(name)
    first = cast(OpDef, forward_of(second))
    forward = cast(OpDef, forward_of(first))
    rng = np.random.default_rng(5)
    for call in _calls(forward):
        if not is_smooth(call):
            continue
        p = program_of(call)
        b = p.traced.b
        op = next(o for o in b.emitted if o.definition.base is forward.base)
        seeds = _seeds(p, _results(op, p), Spelling(first, forward), rng)
        made = _gradient_call(p, first, op, call.attrs, seeds)
        names = Spelling(second, first)
        seeds2 = _seeds(p, _results(made, p), names, rng)
        outer = _gradient_call(p, second, made, call.attrs, seeds2)
        inner_results = _results(made, p)
        ours = _total(p, op, outer, names)
        sources: dict[str, Value] = {
            n: v for n, v in {**_operands(made, p), **_operands(op, p)}.items() if n in ours
        }
        found = append_backward(
            p.traced.program,
            [inner_results[n].ssa for n in seeds2],
            [v.ssa for v in sources.values()],
            [seeds2[n].ssa for n in seeds2],
        )
        theirs = {
            n: b.zeros_like(v) if f is None else b.wrap(f)
            for (n, v), f in zip(sources.items(), found, strict=True)
        }
        _compare(p, {n: ours[n] for n in theirs}, theirs)


def _f(*shape: int, dtype: dt.DType = dt.float32) -> TensorMeta:
    return TensorMeta(shape, dtype)


@pytest.mark.parametrize(
    ("name", "out_grad", "attrs"),
    [
        ("transpose", _f(2, 3), {"perm": (0, 3)}),
        ("transpose", _f(2, 3), {"perm": (0,)}),
        ("unbind", VecMeta(()), {"axis": 0}),
        ("split_with_num", VecMeta(()), {"axis": 0}),
        ("real", _f(2, dtype=dt.float16), {}),
        ("as_real", _f(2, 3), {}),
        ("as_complex", _f(2), {}),
        ("pixel_shuffle", _f(1, 1, 2, 2), {"upscale_factor": 0, "data_format": "NCHW"}),
        ("pixel_unshuffle", _f(1, 4, 2, 2), {"downscale_factor": 0, "data_format": "NCHW"}),
        ("fft_c2r", _f(2), {"axes": ()}),
        ("fft_c2r", _f(2, dtype=dt.bfloat16), {"axes": (0,)}),
    ],
)
def test_what_a_gradient_op_refuses(name: str, out_grad: Any, attrs: dict[str, Any]) -> None:
    with pytest.raises(ConstraintError) as caught:
        infer_meta.of(lookup(f"pd_op.{name}_grad"))(out_grad, **attrs)
    assert caught.value.constraint == "C2"
