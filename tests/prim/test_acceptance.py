"""What "prim is complete" asks for, where one test stands for a claim: see docs/derivatives.md."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice, permutations
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit import ops
from pirkit.dialect import kinds
from pirkit.dialect.build import ORDER, RULE, SOURCE, Value
from pirkit.dialect.opdef import RANDOM, OpDef, decompose, find, vjp
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import parse
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.text_writer import write_paddle_text
from pirkit.frontend.tracing import trace
from pirkit.passes import run_pipeline
from pirkit.passes.differentiate import outputs_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from tests.execution import effect, parsed
from tests.ops.calls import Call, calls, sample_dtypes, table
from tests.prim.differentiation import CLEAN, Array, Traced
from tests.prim.rule_checks import (
    Program,
    bent,
    float_calls,
    gradient,
    in_double,
    program_of,
    runner,
    target,
    weighted,
)
from tests.prim.test_closed import is_refused
from tests.prim.test_rules import EXHAUSTIVE, smallest
from tests.prim.test_taylor import NESTED, SERIES, beam, count

# --- A3: forward rules ---------------------------------------------------------------------------

PADDLE_COMPOSITES: Final = (
    "add_n addmm any baddbmm batch_norm batch_norm_ bce_loss bmm clip diag dropout elu embedding "
    "eye flatten full_like gelu group_norm hardsigmoid hardswish heaviside huber_loss index_sample "
    "index_select instance_norm kldiv_loss layer_norm leaky_relu lerp log_loss log_softmax "
    "masked_fill mean mean_all meshgrid numel one_hot p_norm reciprocal relu relu6 rms_norm "
    "sigmoid_cross_entropy_with_logits silu softmax softsign square squared_l2_norm squeeze stack "
    "swiglu swish unbind unsqueeze unstack"
).split()
"""Ops that Paddle 3.3.1 decomposes, but for two fused ones that exist on accelerators only."""

FURTHER: Final = (
    "log1p log2 log10 tan sinh cosh asin acos asinh acosh atanh softplus mish selu celu logsigmoid "
    "softshrink hardshrink tanh_shrink hardtanh thresholded_relu einsum "
    "cross_entropy_with_softmax pool2d strided_slice tril triu expand_as min amax "
    "floor_divide remainder logsumexp cumprod atan2 dist cross trace linear_interp bilinear_interp "
    "nearest_interp bicubic_interp trilinear_interp"
).split()
"""Ops that have no rule there."""

PRIMITIVE: Final = frozenset(
    "full_like log1p tan sinh cosh asin acos asinh acosh atanh min strided_slice cumprod "
    "floor_divide remainder atan2".split()
)
"""Ops of the list that are primitives here, which have derivatives of all orders."""

BOUNDS: Final[dict[DType, float]] = {dt.float64: 1e-13, dt.float32: 1e-6, dt.float16: 1e-3}


def definition_of(short: str) -> OpDef:
    found = find(f"pd_op.{short}")
    assert found is not None, f"{short} is not declared"
    return found


@pytest.mark.parametrize("short", [*PADDLE_COMPOSITES, *FURTHER])
def test_a03_a_rule_computes_what_the_whole_op_does(short: str) -> None:
    """Within 1e-13 in float64, 1e-6 in float32, 1e-3 in float16 of the largest element."""
    definition = definition_of(short)
    if short in PRIMITIVE:
        assert definition.name in PRIMITIVES
        return
    assert decompose.get(definition) is not None
    for dtype, bound in BOUNDS.items():
        samples = calls(definition, dtype) if dtype in sample_dtypes(definition) else ()
        for call in islice(samples, None if EXHAUSTIVE else 2):
            if definition.effects == RANDOM and not call.attrs["is_test"]:
                continue  # see test_dropout_rules.py
            p = program_of(call)
            whole = [a for v in call.compute() for a in (v if isinstance(v, list) else [v])]
            parts = p.traced.run({f"y{i}": v for i, v in enumerate(p.results)}, "decompose")
            for i, array in enumerate(a for a in whole if a is not None):
                close(parts[f"y{i}"], array, bound, str(call))


def close(found: Array, expected: Array, bound: float, what: str) -> None:
    """Within a bound of the largest element of either."""
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    one, other = found.astype(wide), expected.astype(wide)
    finite = np.abs(other[np.isfinite(other)])
    scale = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(one, other, rtol=bound, atol=bound * scale, err_msg=what)


# --- A5: the derivative of each result -----------------------------------------------------------


def results_in_double(call: Call) -> Program:
    return in_double(program_of(call))


SEVERAL: Final = [
    d
    for d in table()
    if (vjp.get(d) is not None or decompose.get(d) is not None)
    and not d.writes
    and d.effects != RANDOM
    and any(len(results_in_double(c).smooth) > 1 for c in float_calls(d))
]
"""Ops with several results that have a derivative."""


@pytest.mark.parametrize("definition", SEVERAL, ids=lambda d: d.name.partition(".")[2])
def test_a05_derivatives_of_results_add_up(definition: OpDef) -> None:
    """The derivative of a sum over results, which differences check, is that of each, summed.

    So a cotangent that reaches one result only, like a mean or a variance, is not lost.
    """
    for call in smallest(definition, None if EXHAUSTIVE else 2):
        p = results_in_double(call)
        if len(p.smooth) < 2 or not p.wrt or is_refused(call):
            continue
        rng = np.random.default_rng(0)
        terms = [weighted(p, [v], rng) for v in bent(p)]
        whole = p.traced.b.total(terms)
        assert whole is not None
        values = gradient(p, whole)
        for term in terms:
            values += gradient(p, term)
        found = runner(p, values)(p.traced.inputs)
        count = len(p.wrt)
        for i in range(count):
            parts = sum(found[count * k + i] for k in range(1, len(terms) + 1))
            close(parts, found[i], 1e-12, str(call))


# --- A6: closed forms and compositions -----------------------------------------------------------

CLOSED: Final = [
    d
    for d in table()
    if vjp.get(d) is not None
    and decompose.get(d) is not None
    and not d.writes
    and d.name != "pd_op.bce_loss"  # at probabilities 0 and 1 its closed form is Paddle's alone
]
"""Ops with a derivative in closed form that could be had from their parts."""


@pytest.mark.parametrize("definition", CLOSED, ids=lambda d: d.name.partition(".")[2])
def test_a06_a_closed_form_is_the_derivative_of_the_parts(definition: OpDef) -> None:
    """Orders 1 and 2, also at kinks; 3 and all samples with `PIRKIT_EXHAUSTIVE=1`."""
    for call in smallest(definition, None if EXHAUSTIVE else 2):
        if is_refused(call):
            continue
        found = [orders(call, 3 if EXHAUSTIVE else 2, before) for before in ("", "decompose")]
        for one, other in zip(*found, strict=True):
            scale = 1.0 + float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
            np.testing.assert_allclose(
                one, other, rtol=1e-12, atol=1e-12 * scale, err_msg=str(call)
            )


def orders(call: Call, most: int, before: str) -> list[Array]:
    """Derivatives of order 1 to ``most``, taken after a pipeline over the op."""
    p = results_in_double(call)
    if not p.smooth or not p.wrt:
        return []
    for i, value in enumerate(bent(p)):
        p.traced.b("pir.shadow_output", value, output_name=f"f{i}")
    module = ModuleOp([p.traced.program])
    run_pipeline(module, before)
    module.body.block.detach_op(p.traced.program)
    found = [p.traced.b.wrap(v) for n, v in outputs_of(p.traced.program).items() if n[0] == "f"]
    values: list[Value] = []
    for level in range(most):
        found = gradient(p, target(p, found, level))
        values += found
    return runner(p, values)(p.traced.inputs)


def test_a06_the_closed_form_is_used() -> None:
    """The derivative of `softmax` reads its result: no exponential is computed again."""
    t = Traced([np.linspace(-1, 1, 4)])
    (found,) = t.grad(t.b.sum(t.b.sin(t.b.softmax(t.args[0], axis=0)), (0,)), t.args)
    assert found is not None
    names = Counter(op.name for op in t.program.block.ops)
    assert names["pd_op.softmax"] == 1
    assert names["pd_op.exp"] == names["pd_op.max"] == 0


# --- A9: precision -------------------------------------------------------------------------------

ROWS: Final = np.random.default_rng(5).standard_normal((3, 4, 6))
EPSILON: Final = 0.003
SLOPE: Final = 0.1


def normal(x: Array, axes: Sequence[int], epsilon: float = EPSILON) -> Array:
    centred = x - x.mean(tuple(axes), keepdims=True)
    return centred / np.sqrt((centred * centred).mean(tuple(axes), keepdims=True) + epsilon)


EXACT: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]]] = {
    "layer_norm": (
        lambda x: ops.layer_norm(x, None, None, epsilon=EPSILON, begin_norm_axis=2),
        lambda x: normal(x, (2,)),
    ),
    "instance_norm": (
        lambda x: ops.instance_norm(x, None, None, epsilon=EPSILON),
        lambda x: normal(x, (2,)),
    ),
    "group_norm": (
        lambda x: ops.group_norm(x, None, None, epsilon=EPSILON, groups=4),
        lambda x: normal(x, (2,)),
    ),
    "batch_norm": (
        lambda x: ops.batch_norm(
            x,
            np.zeros(4),
            np.ones(4),
            None,
            None,
            is_test=False,
            momentum=0.9,
            epsilon=EPSILON,
            data_format="NCHW",
            use_global_stats=False,
            trainable_statistics=False,
        )[0],
        lambda x: normal(x, (0, 2)),
    ),
    "elu": (lambda x: ops.elu(x, alpha=0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    "leaky_relu": (
        lambda x: ops.leaky_relu(x, negative_slope=SLOPE),
        lambda x: np.where(x > 0, x, SLOPE * x),
    ),
    "selu": (
        ops.selu,
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
    "gelu": (ops.gelu, lambda x: x * np.vectorize(_normal_share)(x)),
    "p_norm": (
        lambda x: ops.p_norm(x, porder=2.7, axis=2),
        lambda x: (np.abs(x) ** 2.7).sum(2) ** (1 / 2.7),
    ),
}
"""Functions with numbers that single precision does not hold, and what they are."""


def _normal_share(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


@pytest.mark.parametrize("name", EXACT)
def test_a09_attributes_are_held_in_double_precision(name: str) -> None:
    ours, theirs = EXACT[name]
    np.testing.assert_allclose(ours(ROWS), theirs(ROWS), rtol=1e-14, atol=4e-15)
    f = parsed_whole(ours)
    np.testing.assert_allclose(f(ROWS), theirs(ROWS), rtol=1e-14, atol=4e-15)


def parsed_whole(f: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """The function recorded, decomposed and run."""

    def run(x: Array) -> Array:
        traced = trace(f, (x,))
        run_pipeline(traced.program.module, "decompose,verify-primitive")
        held = {n: np.asarray(a) for n, a in traced.captured.items()}
        return effect(traced.program.module, {"x0": x, **held})["output y0"]

    return run


def test_a09_derivatives_of_norms_and_gelu_to_order_two() -> None:
    """Against closed forms: of the Gaussian for gelu, of the norm's Hessian for vectors."""
    x = ROWS[0, 0]
    bell = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    share = np.vectorize(_normal_share)(x)
    first = pirkit.grad(lambda v: ops.gelu(v).sum())
    second = pirkit.grad(lambda v: first(v).sum())
    np.testing.assert_allclose(first(x), share + x * bell, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(second(x), bell * (2 - x * x), rtol=1e-13, atol=1e-15)
    size = np.sqrt(x @ x)
    norm = lambda v: ops.p_norm(v, porder=2.0, axis=0)  # noqa: E731
    np.testing.assert_allclose(pirkit.grad(norm)(x), x / size, rtol=1e-14)
    expected = (np.eye(6) - np.outer(x, x) / size**2) / size
    np.testing.assert_allclose(pirkit.hessian(norm)(x), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("write", [write_paddle_text, write_paddle_json], ids=["text", "JSON"])
def test_a09_paddle_gets_and_gives_single_precision(write: Callable[[ModuleOp], str]) -> None:
    module = trace(lambda x: ops.elu(x, alpha=SLOPE), (ROWS,)).program.module
    (ours,) = [op.attribute("alpha") for op in operations(module, "elu")]
    assert ours == SLOPE
    back = parse(write(module))
    (theirs,) = [op.attribute("alpha") for op in operations(back, "elu")]
    assert theirs == float(np.float32(SLOPE))


def operations(module: ModuleOp, short: str) -> list[PirOp]:
    return [op for op in operations_of(module) if op.name == f"pd_op.{short}"]


# --- A10: zeros ----------------------------------------------------------------------------------


def summed(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return pirkit.grad(lambda x: f(x).sum())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a10_a_zero_derivative_is_differentiated_again(dtype: Any) -> None:
    """Derivatives 1 to 6 of a cube: from the fourth on they are zeros of the type of `x`."""
    x = np.array([0.5, -2.0], dtype)
    f: Callable[[Any], Any] = lambda x: x * x * x  # noqa: E731
    for expected in (3 * x * x, 6 * x, x * 0 + 6, x * 0, x * 0, x * 0):
        f = summed(f)
        found = np.asarray(f(x))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a10_what_is_not_connected_is_told() -> None:
    module = parsed(
        """pir.program @main(%x "x" : tensor<2xf32>, %y "y" : tensor<3xf64>) {
          %z = pd_op.tanh(%x) : (tensor<2xf32>) -> tensor<2xf32>
          pir.shadow_output(%z) {output_name = "z"} : (tensor<2xf32>) -> ()
        }"""
    )
    report = run_pipeline(module, "autodiff{wrt=x,y}")
    told = [r.message for r in report.remarks if r.pass_name == "autodiff"]
    assert told == ["no output depends on `y`: its derivative is zero"]
    found = effect(module, {"x": np.ones(2, np.float32), "y": np.ones(3)})
    zeros = found["output y_grad"]
    assert (zeros.dtype, zeros.tolist()) == (np.float64, [0, 0, 0])


# --- A11: growth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", [SERIES, NESTED], ids=["series", "nested"])
@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "reciprocal", "log", "exp", "sin"])
def test_a11_powers_stay_powers(name: str, pipeline: str) -> None:
    """Order 6 takes at most 30 operations, also without series: Paddle takes up to 3520."""
    f = getattr(ops, name)
    for _ in range(6):
        f = summed(f)
    assert count(f, (np.array([0.5, 1.3]),), pipeline) <= 30


def test_a11_series_grow_with_the_square_of_the_order() -> None:
    residuals: dict[int, int] = {}
    for order in (2, 4, 8):
        residual, _, args = beam(order)
        residuals[order] = count(residual, args, SERIES)
    assert residuals[8] <= 4 * residuals[4] <= 16 * residuals[2]


# --- A12: clean-up -------------------------------------------------------------------------------

PARTS: Final = ("canonicalize", "cse", "dce")


def shape_of(module: ModuleOp) -> Counter[str]:
    """How many operations of each kind there are."""
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return Counter(op.name for op in program.operations)


def beam_module(order: int = 3) -> ModuleOp:
    _, loss, args = beam(order)
    return trace(loss, args).program.module


def test_a12_clean_up_changes_nothing_the_second_time() -> None:
    module = beam_module()
    run_pipeline(module, SERIES)
    once = print_mlir(module)
    run_pipeline(module, CLEAN)
    assert print_mlir(module) == once


def test_a12_clean_up_does_not_depend_on_its_order() -> None:
    found: list[Counter[str]] = []
    for order in permutations(PARTS):
        module = beam_module(2)
        run_pipeline(module, ",".join(["taylor,expand-gradients", *order * 3]))
        found.append(shape_of(module))
    assert all(counts == found[0] for counts in found)


def test_a12_nothing_is_left_over() -> None:
    """No copies, no constants twice, nothing unused, no sums of lists."""
    module = beam_module()
    run_pipeline(module, SERIES)
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    every = [op for op in program.operations if not declares(op, kinds.SOURCE)]
    names = shape_of(module)
    assert not names["pd_op.assign"] + names["pd_op.share_data"] + names["pd_op.add_n"]
    assert not [op for op in every if op.results and not any(r.uses for r in op.results)]
    constants = [str(op.properties) for op in every if op.name.startswith("pd_op.full")]
    assert len(constants) == len(set(constants))


# --- A19: provenance -----------------------------------------------------------------------------


def test_a19_every_op_of_a_derivative_knows_its_source_rule_and_order() -> None:
    t = Traced([np.ones((2, 3)), np.ones((3, 3))])
    x, w = t.args
    y = t.b.log_softmax(t.b.tanh(t.b.matmul(x, w)), axis=-1)
    written = {op.name for op in t.program.block.ops}
    before = set(t.program.block.ops)
    value: Value | None = y
    for _ in range(3):
        (value,) = t.grad(t.b.sum(t.b.sin(value), (0, 1)), [x])
        assert value is not None
    made = [op for op in t.program.block.ops if op not in before]
    asked = [op for op in made if RULE not in op.attributes]  # by this test: what it sums
    assert {op.name for op in asked} <= {"pd_op.sin", "pd_op.sum"}
    made = [op for op in made if op not in asked]
    sources = {op.attributes[SOURCE].data for op in made}
    assert sources <= {n.partition(".")[2] for n in written} | {"sin", "sum", "data"}
    assert {op.attributes[ORDER].value.data for op in made} == {1, 2, 3}
    t.b("pir.shadow_output", value, output_name="y")
    module = ModuleOp([t.program])
    run_pipeline(module, "decompose")
    again = parse(print_mlir(module))
    kept = [op for op in operations_of(again) if RULE in op.attributes]
    assert Counter(str(op.attributes[SOURCE]) for op in kept) == Counter(
        str(op.attributes[SOURCE]) for op in operations_of(module) if RULE in op.attributes
    )


def operations_of(module: ModuleOp) -> list[PirOp]:
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return list(program.operations)
