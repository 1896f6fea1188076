"""Filters with infinities and NaN: a transposed convolution multiplies no zeros of padding by them.

What stands beside the border has a number wherever the reference has one, in all forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.dialect.opdef import lookup, reference
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import Program
from pirkit.frontend.op_functions import op_function
from pirkit.frontend.proof_bounds import prove_bounds
from pirkit.frontend.tracing import trace
from pirkit.lowering import native_conv
from pirkit.lowering.codegen.conv.transposed_conv_phases import ConvSizes, transposed_conv_phases
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeSequence
from tests.codegen.test_blocked_conv import CASES, attrs_of, sizes_of
from tests.tolerance import difference

Array = np.ndarray[Any, Any]

NARROW: dict[str, tuple[Any, ...]] = {
    "depthwise": (2, 17, 1, 1, (9, 8), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))),
    "depthwise, dilated": (1, 5, 1, 1, (8, 12), (3, 2), (1, 1), (2, 3), ((2, 1), (0, 2))),
    "two filters": (2, 3, 2, 1, (6, 7), (2, 3), (1, 1), (1, 1), ((1, 0), (1, 1))),
    "narrow volumes": (1, 4, 1, 2, (4, 3, 5), (2, 1, 3), (1, 1, 1), (1, 1, 1), ((1, 1),) * 3),
}
"""Groups of few channels, which a loop nest computes."""


def poisoned(shape: tuple[int, ...], dtype: DType, rate: float) -> Array:
    """Random numbers, some of them infinite or NaN."""
    rng = np.random.default_rng(3)
    found = rng.standard_normal(shape).astype(dtype.np)
    places = rng.integers(0, found.size, max(1, int(rate * found.size)))
    found.reshape(-1)[places] = rng.choice([np.inf, -np.inf, np.nan], len(places))
    return found


def given(
    case: tuple[Any, ...], dtype: DType, rate: float
) -> tuple[ConvSizes, Array, Array, Array]:
    """The transposed convolution of a case, its image, its filter, and what is right."""
    f = sizes_of(case, dtype)
    s = ConvSizes(
        f.n, f.groups, f.depth, f.group_filters, f.dtype,
        f.positions, f.sizes, f.lengths, f.strides, f.dilations, f.before,
    )  # fmt: skip
    x = np.random.default_rng(1).standard_normal((f.n, f.groups * f.group_filters, *f.positions))
    x = x.astype(dtype.np)
    w = poisoned((f.groups * f.group_filters, f.depth, *f.sizes), dtype, rate)
    moves = zip(f.lengths, f.positions, f.sizes, f.strides, f.dilations, case[-1], strict=True)
    extra = tuple([n - (p - 1) * m - d * (k - 1) - 1 + sum(pad) for n, p, k, m, d, pad in moves])
    attrs = {**attrs_of(case), "output_padding": extra, "output_size": ()}
    with np.errstate(invalid="ignore"):
        want = reference.of(lookup(f"pd_op.conv{len(f.sizes)}d_transpose"))(x, w, **attrs)
    return s, x, w, want


def sequence_of(s: ConvSizes) -> NativeSequence:
    """The loop nest if there is one, else the blocked form."""
    phases = transposed_conv_phases(s)
    narrow = s.groups > 1 and min(s.group_filters, s.depth) < native_conv.MIN_CHANNELS
    nest = native_conv._nest(s, is_transposed=True) if narrow else None
    if nest is None:
        return native_conv.native_blocked_conv(phases)
    return native_conv.sparing_padding(phases, native_sequence(nest))


def check(case: tuple[Any, ...], dtype: DType, rate: float, run: Any = None) -> None:
    s, x, w, want = given(case, dtype, rate)
    sequence, out = sequence_of(s), np.full(want.shape, np.nan, dtype.np)
    (run or bound)(sequence, [x, w, out])
    assert difference(out, want, dtype) is None


def bound(sequence: NativeSequence, arrays: list[Array]) -> None:
    sequence.bind(arrays)()


def interpreted(sequence: NativeSequence, arrays: list[Array]) -> None:
    buffers = [*arrays, *(np.full(size, 0xA5, np.uint8) for size in sequence.temporaries)]
    for function, places in sequence.steps:
        assert isinstance(function, LazyFunction)
        held, stages = [buffers[k] for k in places], function.write().stages
        if stages:
            run_loops(stages[-1].nest, held)
        else:  # the nest, whose loops are tested elsewhere
            function.bind(held)()


@pytest.mark.parametrize("rate", [0.02, 0.6])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
@pytest.mark.parametrize("name", [n for n in CASES if n != "larger filter"])
def test_blocked_products_spare_padding(name: str, dtype: DType, rate: float) -> None:
    check(CASES[name], dtype, rate)


@pytest.mark.parametrize("name", NARROW)
def test_nests_spare_padding(name: str) -> None:
    for rate in (0.02, 0.6):
        check(NARROW[name], dt.float32, rate)
    steps = sequence_of(given(NARROW[name], dt.float32, 0.5)[0]).steps
    assert len(steps) == 3  # finite filter, nest, infinite taps


@pytest.mark.parametrize("name", ["plain", "stride 2", "stride and dilation", "volumes"])
def test_loops_are_interpreted(name: str) -> None:
    check(CASES[name], dt.float32, 0.3, interpreted)


@pytest.mark.parametrize("name", NARROW)
def test_loops_beside_nests_are_interpreted(name: str) -> None:
    check(NARROW[name], dt.float32, 0.3, interpreted)


@pytest.mark.parametrize("name", ["plain", "stride and dilation", "groups", "volumes"])
def test_bounds_are_proved(name: str) -> None:
    z3 = pytest.importorskip("z3")
    for function, _ in sequence_of(given(CASES[name], dt.float32, 0.5)[0]).steps:
        assert isinstance(function, LazyFunction)
        found = prove_bounds(z3, function.write().stages[-1].nest)
        assert found.outside is None
        assert not found.open


def test_finite_filters_pay_nothing_without_padding() -> None:
    """A transposed convolution whose taps all lie on the image has no step for infinite ones."""
    s = given(CASES["one by one"], dt.float32, 0.5)[0]
    assert len(sequence_of(s).steps) == 2


FORMS = [
    ("conv2d", {"strides": (2, 1), "paddings": (1, 2, 1, 1)}, (2, 4, 9, 8), (6, 4, 3, 4)),
    ("conv2d", {"dilations": (2, 3), "paddings": (2, 2, 3, 3), "groups": 2}, (1, 4, 9, 9),
     (6, 2, 3, 3)),
    ("conv3d", {"strides": (1, 2, 3), "paddings": (1,) * 6}, (1, 3, 4, 5, 7), (4, 3, 2, 3, 3)),
    ("depthwise_conv2d", {"paddings": (1,) * 4, "groups": 12}, (2, 12, 9, 9), (12, 1, 3, 3)),
    ("depthwise_conv2d", {"strides": (2, 2), "paddings": (1,) * 4, "groups": 5}, (1, 5, 9, 9),
     (5, 1, 3, 3)),
    ("conv2d_transpose", {"strides": (2, 3), "paddings": (1, 0, 0, 1), "output_padding": (1, 2)},
     (2, 4, 5, 6), (4, 3, 3, 3)),
    ("conv2d_transpose", {"groups": 2, "dilations": (1, 2)}, (1, 8, 5, 6), (8, 2, 3, 3)),
    ("conv2d_transpose", {"padding_algorithm": "SAME"}, (1, 3, 5, 1), (3, 4, 3, 2)),
    ("conv3d_transpose", {"strides": (1, 2, 1), "paddings": (0, 1, 1, 0, 1, 1)}, (1, 3, 3, 4, 5),
     (3, 4, 2, 3, 3)),
    ("depthwise_conv2d_transpose", {"groups": 9, "paddings": (1,) * 4}, (2, 9, 6, 8), (9, 1, 3, 3)),
]  # fmt: skip


@pytest.mark.parametrize("which", ["filter", "image", "cotangent"])
@pytest.mark.parametrize("form", range(len(FORMS)), ids=lambda k: f"{FORMS[k][0]}-{k}")
def test_programs_and_gradients_agree_with_the_reference(
    form: int, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is infinite, results and gradients of all forms have their numbers."""
    monkeypatch.setattr(native_conv, "MIN_MULTIPLICATIONS", 1)
    name, attrs, image, filter = FORMS[form]
    op, rng = op_function(f"pd_op.{name}"), np.random.default_rng(2)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (image, filter))
    program = Program(trace(lambda x, w: op(x, w, **attrs), (x, w)).program.module)
    shape = pirkit.compile(program, backend="reference")(x0=x, x1=w)["y0"].shape
    g = rng.standard_normal(shape).astype(np.float32)
    inputs = {"x0": x, "x1": w, "y0_grad": g}
    poisoned_one = {"filter": "x1", "image": "x0", "cotangent": "y0_grad"}[which]
    inputs[poisoned_one] = poisoned(inputs[poisoned_one].shape, dt.float32, 0.1)
    both = run_passes(program, "autodiff{seeds=true}")
    with np.errstate(invalid="ignore"):
        want = pirkit.compile(both, backend="reference")(**inputs)
    for pipeline in ("", "@default"):
        found = pirkit.compile(both, pipeline=pipeline)(**inputs)
        for result, right in want.items():
            wrong = difference(np.asarray(found[result]), np.asarray(right), dt.float32)
            assert wrong is None, f"{result}: {wrong}"
