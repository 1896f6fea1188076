"""Derivatives that a split takes itself read no more than Paddle's gradient ops, and are right."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from xdsl.ir import SSAValue

from pirkit.analysis.differentiation import is_differentiable
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.gradient_names import Spelling
from pirkit.dialect.opdef import OpDef, decompose, vjp
from pirkit.dialect.operation import PirOp
from pirkit.dialect.type_sizes import bytes_of
from pirkit.frontend.files import load
from pirkit.passes import gradient_calls
from pirkit.passes.autodiff import append_backward
from pirkit.passes.gradient_calls import gradient_of
from pirkit.split import forward_backward
from tests.ops.calls import Call, calls, sample_dtypes, table
from tests.prim.rule_checks import Program, program_of
from tests.prim.test_gradient_ops import is_smooth
from tests.split.model import output, parameter, program, split
from tests.split.saved_bytes import FOLDER, of_ours

MORE: Final = {
    "pd_op.batch_norm": "statistics that ask for gradients get some, which Paddle has no op for",
    "pd_op.einsum": "of a call without its cache Paddle has no gradient",
    "pd_op.fill_diagonal_tensor": "what is filled in gets a gradient, which Paddle's op does not",
    "pd_op.roi_align": "the sizes of boxes are data, and the shapes of what is gathered with them",
}
"""Ops whose derivative reads more on purpose."""


NOT_TRIED: Final = {
    "pd_op.masked_select": "how many elements it takes is data",
    "pd_op.segment_pool": "how many segments there are is data",
    "pd_op.multiplex": "its operands are a list of which rows are taken",
}
"""Ops without a sample to which differences apply."""


def of_gradient_ops() -> list[OpDef]:
    return [
        d
        for d in table()
        if d.effects == "pure"
        and not d.name.endswith("_grad")
        and gradient_of(d) is not None
        and (vjp.get(d) or decompose.get(d))
        and sample_dtypes(d)
        and d.name not in NOT_TRIED
    ]


def chosen(definition: OpDef) -> list[Call]:
    """The first smooth call in the widest type that there are samples for."""
    kinds = sample_dtypes(definition)
    wide = [d for d in kinds if d.name == "float64"] or list(kinds)
    return [call for call in calls(definition, wide[0]) if is_smooth(call)][:1]


def lent(op: PirOp, names: Spelling, gradient: OpDef) -> set[SSAValue]:
    """The values of which the gradient op reads the data."""
    pairs = [(op.operand_named(n), g) for n, g in names.operands.items() if is_tensor(op, n)]
    pairs += [(op.result_named(n), g) for n, g in names.results.items()]
    return {v for v, g in pairs if v is not None and g not in gradient.reads_meta_only}


def is_tensor(op: PirOp, name: str) -> bool:
    return any(s.name == name and s.kind is None for s in op.definition.operands)


def prepared(call: Call) -> tuple[Program, PirOp, list[Value]] | None:
    """The program of a call, and the results through which gradients come in."""
    p = program_of(call)
    base = call.definition.base
    op = next((o for o in p.traced.program.operations if o.definition.base is base), None)
    if op is None:
        return None  # nothing is emitted for what changes nothing
    gradient = gradient_of(call.definition)
    assert gradient is not None
    seeded = {op.result_named(n) for n in Spelling(gradient, call.definition).seeds}
    results = [r for r in p.results if r.ssa in seeded or r.ssa.owner is not op]
    results = [r for r in results if is_differentiable(r.ssa)]
    return (p, op, results) if results and p.wrt else None


def gradients(call: Call, *, whole: bool) -> dict[str, np.ndarray]:
    held = prepared(call)
    if held is None:
        return {}
    p, _, results = held
    b = p.traced.b
    seeds = [b.ones_like(r) if r.dtype.is_complex else b.sin(r * 0.7 + 0.3) for r in results]
    found = append_backward(
        p.traced.program,
        [r.ssa for r in results],
        [w.ssa for w in p.wrt],
        [s.ssa for s in seeds],
        paddle_residuals=whole,
    )
    pairs = enumerate(zip(found, p.wrt, strict=True))
    return p.traced.run(
        {str(i): b.zeros_like(w) if v is None else b.wrap(v) for i, (v, w) in pairs}
    )


@pytest.mark.parametrize("definition", of_gradient_ops(), ids=lambda d: d.name.partition(".")[2])
def test_what_a_split_reads_is_what_the_gradient_op_reads(definition: OpDef) -> None:
    gradient = gradient_of(definition)
    assert gradient is not None
    assert chosen(definition)
    for call in chosen(definition):
        expected = gradients(call, whole=False)
        for name, have in gradients(call, whole=True).items():
            np.testing.assert_allclose(have, expected[name], rtol=1e-7, atol=1e-9)
        held = prepared(call)
        if held is None:
            continue
        p, op, results = held
        allowed = lent(op, Spelling(gradient, definition), gradient)
        for i, result in enumerate(results):
            p.traced.b("pir.shadow_output", result, output_name=f"out{i}")
        kept = forward_backward(p.traced.program).report.bytes
        assert kept <= sum(bytes_of(v.type) for v in allowed) or definition.name in MORE


def test_a_norm_is_repeated_without_the_statistics_that_it_has_updated() -> None:
    parts = of_ours(FOLDER / "conv_bn_train", "min-cut")
    assert "pd_op.batch_norm" in parts.report.recomputed
    assert not parts.report.notes, "nothing is copied"
    updates = [op for op in parts.forward_program.operations if op.definition.writes]
    assert [op.name for op in updates] == ["pd_op.batch_norm_"] * 2


def test_statistics_that_depend_on_an_input_are_differentiated_too() -> None:
    stats, of = "tensor<3xf64>", "tensor<4x3xf64>"
    types = f"({of}, {', '.join([stats] * 4)}) -> ({of}, {', '.join([stats] * 4)}, tensor<?xui8>)"
    lines = [
        f"%x{i + 1}, %m{i + 1}, %v{i + 1}, %a{i}, %b{i}, %r{i} = "
        f"pd_op.batch_norm(%x{i}, %m{i}, %v{i}, %s, %t) {{is_test = false, momentum = 0.9 : f32, "
        'epsilon = 1.0e-05 : f32, data_format = "NCHW", use_global_stats = false, '
        f"trainable_statistics = false}} : {types}"
        for i in range(3)
    ]
    text = program(
        *(parameter(n, frozen=True, of=stats) for n in ("m0", "v0")),
        *(parameter(n, of=stats) for n in ("s", "t")),
        *lines,
        output("y", "x3", of=of),
        inputs={"x0": of},
    )
    parts = split(text)
    assert parts.names.bo_g == ("output_grad_0",)


def test_a_gradient_op_that_is_not_taken_apart_is_not_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the op is made of has derivatives as well; the split says so."""
    program = load(FOLDER / "layer_norm_gelu" / "program.txt")

    def refuse(b: Builder, op: PirOp) -> None:
        b.emitted.remove(op)
        op.detach()
        raise UnsupportedError(f"`{op.name}` lacks something", code="PK0402")

    monkeypatch.setattr(gradient_calls, "_decomposed", refuse)
    parts = forward_backward(program)
    (note,) = parts.report.notes
    assert "decomposed before: `pd_op.gelu_grad` lacks something" in note
    assert "pd_op.layer_norm" not in {op.name for op in parts.forward_program.operations}
