"""Functions of polynomials that have tables of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.compile import compile_kernel
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.interpret import Evaluation
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.loop_tree import statements
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Statement,
    Store,
)
from pirkit.lowering.codegen.ir.piecewise_poly_match import with_composite_functions
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.codegen.nests import poisoned, run
from tests.codegen.test_vecmath import apply
from tests.codegen.test_vecmath import worst as worst_of

Array = np.ndarray[Any, Any]
SLOPE, BEND = math.sqrt(2 / math.pi), 0.044715
WIDE = replace(host(), vector_bits=512, features="+avx512f")


class Lines:
    """Statements as they are written down, with names by number."""

    def __init__(self, dtype: DType = dt.float32) -> None:
        self.dtype = dtype
        self.body: list[Statement] = [Load("x", 0)]

    def emit_void(self, primitive: str, *args: str | float) -> str:
        names = [arg if isinstance(arg, str) else self.constant(arg) for arg in args]
        name = f"v{len(self.body)}"
        self.body.append(Compute(name, primitive, tuple(names), self.dtype))
        return name

    def constant(self, value: float) -> str:
        name = f"c{len(self.body)}"
        self.body.append(Constant(name, self.dtype, value))
        return name

    def kernel(self, count: int, *results: str) -> Kernel:
        one = Operand(self.dtype, (self.dtype.itemsize,), (), count * self.dtype.itemsize)
        stores = tuple([Store(1 + k, name) for k, name in enumerate(results)])
        return Kernel(
            (count,), (), (one,) * (1 + len(results)), (LoopPhase((*self.body, *stores)),)
        )


def as_products(b: Lines, x: str) -> str:
    cube = b.emit_void("multiply", b.emit_void("multiply", b.emit_void("multiply", x, BEND), x), x)
    return b.emit_void("multiply", SLOPE, b.emit_void("add", x, cube))


def as_factor(b: Lines, x: str) -> str:
    inner = b.emit_void("add", 1.0, b.emit_void("multiply", b.emit_void("multiply", x, x), BEND))
    return b.emit_void("multiply", b.emit_void("multiply", x, 0.7978845608), inner)


def as_power(b: Lines, x: str) -> str:
    cube = b.emit_void("elementwise_pow", x, 3.0)
    return b.emit_void(
        "multiply", b.emit_void("subtract", x, b.emit_void("multiply", cube, -BEND)), SLOPE
    )


def of_a_sum(b: Lines, x: str) -> str:
    return as_products(b, b.emit_void("add", x, b.emit_void("exp", x)))


def root(b: Lines, x: str) -> str:
    return b.emit_void("multiply", x, 0.70710678)


FOUND: list[tuple[str, Callable[[Lines, str], str], str]] = [
    ("tanh", as_products, "tanh_of_cubic"),
    ("tanh", as_factor, "tanh_of_cubic"),
    ("tanh", as_power, "tanh_of_cubic"),
    ("tanh", of_a_sum, "tanh_of_cubic"),
    ("erf", root, "erf_of_root"),
]


def primitives(kernel: Kernel) -> list[str]:
    return [s.primitive for s in kernel.statements() if isinstance(s, Compute)]


@pytest.mark.parametrize(("function", "inner", "primitive"), FOUND)
def test_curves_are_known_by_what_they_compute(
    function: str, inner: Callable[[Lines, str], str], primitive: str
) -> None:
    b = Lines()
    kernel = b.kernel(64, b.emit_void(function, inner(b, "x")))
    found = primitives(with_composite_functions(kernel, WIDE))
    assert found[-1] == primitive
    assert len(found) == (3 if inner is of_a_sum else 1)
    for other in (replace(WIDE, vector_bits=256), replace(WIDE, features="")):
        assert with_composite_functions(kernel, other) is kernel


def cancelling(b: Lines, x: str) -> str:
    twice = b.emit_void("multiply", as_products(b, x), 2.0)
    return b.emit_void("subtract", twice, as_products(b, x))


def nearly(b: Lines, x: str) -> str:
    cube = b.emit_void(
        "multiply", b.emit_void("multiply", b.emit_void("multiply", x, 0.0447), x), x
    )
    return b.emit_void("multiply", SLOPE, b.emit_void("add", x, cube))


def shifted(b: Lines, x: str) -> str:
    return b.emit_void("add", as_products(b, x), 1e-3)


def doubled(b: Lines, x: str) -> str:
    for _ in range(200):
        x = b.emit_void("add", x, x)
    return x


@pytest.mark.parametrize("inner", [cancelling, nearly, shifted, doubled])
def test_others_stay_as_they_are(inner: Callable[[Lines, str], str]) -> None:
    b = Lines()
    kernel = b.kernel(64, b.emit_void("tanh", inner(b, "x")))
    assert with_composite_functions(kernel, WIDE) is kernel


def test_float64_stays_as_it_is() -> None:
    b = Lines(dt.float64)
    kernel = b.kernel(64, b.emit_void("tanh", as_products(b, "x")))
    assert with_composite_functions(kernel, WIDE) is kernel


def test_what_others_read_is_still_computed() -> None:
    b = Lines()
    inner = as_products(b, "x")
    kernel = with_composite_functions(b.kernel(64, b.emit_void("tanh", inner), inner), WIDE)
    assert primitives(kernel)[-2:] == ["multiply", "tanh_of_cubic"]


def worst(y: Array, exact: Array) -> float:
    return float((np.abs(y - exact) / np.spacing(np.abs(exact.astype(np.float32)))).max())


def computed(kernel: Kernel, x: Array, target: Target) -> Array:
    buffers = [x, poisoned(kernel.operands[1])]
    run(kernel, buffers, NativeFunction(compile_kernel(kernel, target)))
    return buffers[1]


@pytest.mark.parametrize(
    ("function", "inner", "bits", "bound"),
    [
        ("tanh", as_products, 256, 2.3),
        ("tanh", as_products, 512, 1.4),
        ("erf", root, 256, 1.5),
        ("erf", root, 512, 1.3),
    ],
)
def test_curves_are_nearer_the_truth_than_their_parts(
    function: str, inner: Callable[[Lines, str], str], bits: int, bound: float
) -> None:
    if bits > host().vector_bits:
        pytest.skip("this CPU has no vectors so wide")
    x = np.concatenate([np.linspace(-6, 6, 300_001), np.geomspace(1e-38, 1e-2, 5000)])
    x = x[x != 0].astype(np.float32)
    wide = x.astype(np.float64)
    if function == "tanh":
        exact = np.tanh(SLOPE * (wide + BEND * wide**3))
    else:
        exact = np.vectorize(math.erf)(wide * math.sqrt(0.5))
    b = Lines()
    kernel = b.kernel(len(x), b.emit_void(function, inner(b, "x")))
    y = computed(kernel, x, replace(host(), vector_bits=bits))
    assert worst(y, exact) <= bound


@pytest.mark.parametrize("function", ["tanh", "erf"])
def test_ends_of_curves(function: str) -> None:
    x = [0.0, -0.0, math.inf, -math.inf, math.nan, 5.4, 5.5, -5.6, 1e13, -1e30, 3e38, 1e-45, -1e-40]
    b = Lines()
    inner = as_products(b, "x") if function == "tanh" else root(b, "x")
    kernel = b.kernel(len(x), b.emit_void(function, inner))
    given = np.array(x, np.float32)
    y = computed(kernel, given, host())
    small = np.float32(SLOPE) * given
    want = np.where(np.abs(given) < 1e-30, small, np.sign(given)).astype(np.float32)
    # the parts are rounded twice: of the smallest numbers in their last bits
    np.testing.assert_allclose(y, want, rtol=1e-6 * (host().vector_bits < 512), atol=3e-45)
    np.testing.assert_array_equal(np.signbit(y[:2]), [False, True])


def softplus(b: Lines, x: str, edge: float = 20.0, *, other: str | None = None) -> str:
    bound = b.constant(edge)
    above = b.emit_void("greater_than", x, bound)
    inside = b.emit_void("exp", b.emit_void("where", above, bound, x))
    return b.emit_void("where", above, other or x, b.emit_void("log1p", inside))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
def test_tanh_of_softplus(dtype: DType) -> None:
    b = Lines(dtype)
    kernel = b.kernel(64, b.emit_void("tanh", softplus(b, "x")))
    narrow = replace(WIDE, vector_bits=128, features="")
    assert primitives(with_composite_functions(kernel, narrow)) == ["tanh_of_softplus"]
    for inner in (
        lambda b: softplus(b, "x", 5.0),  # it is linear where it still curves
        lambda b: softplus(b, "x", other=b.emit_void("negative", "x")),
    ):
        b = Lines(dtype)
        kernel = b.kernel(64, b.emit_void("tanh", inner(b)))
        assert with_composite_functions(kernel, narrow) is kernel


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
def test_values_of_tanh_of_softplus(dtype: DType, bits: int) -> None:
    if bits > host().vector_bits:
        pytest.skip("this CPU has no vectors so wide")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-80, 40, 2000), rng.uniform(-3, 3, 2000)]).astype(dtype.np)
    e = np.exp(np.minimum(x.astype(np.longdouble), 50))
    got = apply("tanh_of_softplus", dtype, x, bits=bits)
    assert worst_of(got, e * (e + 2) / (e * (e + 2) + 2), dtype) <= 3
    ends = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30], dtype.np)
    np.testing.assert_array_equal(
        apply("tanh_of_softplus", dtype, ends, bits=bits), [1, 0, np.nan, 1, 0]
    )


@pytest.mark.parametrize(
    ("function", "inner", "primitive"), [*FOUND, ("tanh", softplus, "tanh_of_softplus")]
)
def test_the_interpreter_of_loops_knows_them(
    function: str, inner: Callable[[Lines, str], str], primitive: str
) -> None:
    """To find the rewrite that makes numbers wrong, it runs the loops after each."""
    b = Lines()
    y = b.emit_void(function, inner(b, "x"))
    b.body = [
        replace(s, dtype=dt.bool_) if getattr(s, "primitive", "") == "greater_than" else s
        for s in b.body
    ]
    kernel = b.kernel(40, y)
    (loops, *others) = stages_of(kernel, WIDE)
    assert primitive in [s.primitive for s in statements(loops.nest.body) if isinstance(s, Compute)]
    x = np.linspace(-4, 4, 40, dtype=np.float32)
    buffers = [x, np.empty_like(x)]
    Evaluation(kernel, buffers).run()
    for stage in (loops, *others):
        found = np.empty_like(x)
        run_loops(stage.nest, [x, found])
        np.testing.assert_allclose(found, buffers[1], rtol=1e-5, atol=1e-6)
