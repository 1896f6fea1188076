"""Pooling is native: windows are affine indices, in every form that the op has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from benchmarks.networks.building import Net
from pirkit import ops
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import Program
from pirkit.frontend.tracing import trace
from pirkit.lowering.fusion.groups import DEFAULT
from tests.fusion.pairs import explainer
from tests.whole_program.networks import assert_close

Array = np.ndarray[Any, Any]

BASE: dict[str, Any] = {
    "strides": (2, 2), "paddings": (0, 0), "ceil_mode": False, "exclusive": True,
    "data_format": "NCHW", "pooling_type": "max", "global_pooling": False, "adaptive": False,
    "padding_algorithm": "EXPLICIT",
}  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    "3x3 by 2": {"kernel_size": (3, 3), "paddings": (1, 1)},
    "3x3 by 1": {"kernel_size": (3, 3), "strides": (1, 1), "paddings": (1, 1)},
    "2x2": {"kernel_size": (2, 2)},
    "3x2 by 3x4": {"kernel_size": (3, 2), "strides": (3, 4)},
    "5x3 by 4x3, padded on one side": {
        "kernel_size": (5, 3), "strides": (4, 3), "paddings": (0, 2, 1, 0),
    },
    "more stride than window": {"kernel_size": (1, 2), "strides": (3, 4)},
    "ceil": {"kernel_size": (3, 3), "ceil_mode": True},
    "ceil, padded": {"kernel_size": (2, 2), "paddings": (1, 1), "ceil_mode": True},
    "a window outside": {"kernel_size": (1, 1), "paddings": (0, 0), "strides": (18, 2),
                         "ceil_mode": True},
    "padding counts": {"kernel_size": (3, 3), "paddings": (1, 1), "exclusive": False},
    "padding behind counts as far as that in front": {
        "kernel_size": (3, 3), "paddings": (0, 1, 1, 0), "ceil_mode": True, "exclusive": False,
    },
    "more padding behind": {"kernel_size": (3, 3), "paddings": (0, 2, 0, 1), "exclusive": False},
    "same": {"kernel_size": (3, 2), "padding_algorithm": "SAME"},
    "adaptive": {"kernel_size": (4, 5), "adaptive": True},
    "adaptive and regular": {"kernel_size": (1, 7), "adaptive": True},
    "global": {"kernel_size": (1, 1), "global_pooling": True},
    "channels last": {"kernel_size": (3, 3), "paddings": (1, 1), "data_format": "NHWC"},
}  # fmt: skip


def drawn(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    x = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    x.flat[::97] = np.nan
    x.flat[1::101] = -np.inf
    return x


def same_as_reference(function: Any, x: Array, tolerance: float = 1e-5) -> None:
    program = trace(function, (x,)).program
    exact = pirkit.compile(program, pipeline="", backend="reference").run({"x0": x})
    whole = pirkit.compile(program, fast_math=True)
    assert whole.native is not None, whole.reasons
    library = pirkit.compile(program, pipeline="")
    for found in (
        whole.run({"x0": x}),
        pirkit.compile(program).run({"x0": x}),
        library.run({"x0": x}),
    ):
        assert_close([found[k] for k in exact], list(exact.values()), tolerance)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_two_axes(form: str, kind: str) -> None:
    attrs = {**BASE, **FORMS[form], "pooling_type": kind}
    same_as_reference(lambda x: ops.pool2d(x, **attrs), drawn((2, 3, 19, 35)))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_element_types(dtype: str) -> None:
    attrs = {**BASE, "kernel_size": (3, 3), "paddings": (1, 1)}
    same_as_reference(lambda x: ops.pool2d(x, **attrs), drawn((2, 3, 9, 35), dtype), 2e-3)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_volumes(kind: str) -> None:
    attrs = {**BASE, "pooling_type": kind, "kernel_size": (2, 3, 3), "strides": (1, 2, 2),
             "paddings": (1, 0, 1), "data_format": "NCDHW"}  # fmt: skip
    same_as_reference(lambda x: ops.pool3d(x, **attrs), drawn((1, 3, 5, 8, 21)))


def test_places_of_the_largest_elements() -> None:
    attrs = {"kernel_size": (3, 3), "strides": (2, 2), "paddings": (1, 1)}
    x = np.random.default_rng(3).standard_normal((2, 3, 9, 21)).astype(np.float32)
    same_as_reference(lambda x: ops.max_pool2d_with_index(x, **attrs), x)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_gradients_are_no_scatter(kind: str) -> None:
    attrs = {**BASE, "kernel_size": (3, 3), "paddings": (1, 1), "pooling_type": kind}

    def slope(x: Any) -> Any:
        return pirkit.grad(lambda x: (ops.pool2d(x, **attrs) ** 2).sum())(x)

    x = np.random.default_rng(5).standard_normal((2, 3, 9, 37)).astype(np.float32)
    program = trace(slope, (x,)).program
    made = run_passes(program, "taylor,expand-gradients,@fused")
    assert "scatter" not in str(made)
    exact = pirkit.compile(program, pipeline="taylor,expand-gradients", backend="reference")
    whole = pirkit.compile(program, fast_math=True)
    assert whole.native is not None, whole.reasons
    assert_close(list(whole.run({"x0": x}).values()), list(exact.run({"x0": x}).values()), 1e-5)


def kernels_of(function: Any, *arrays: Array) -> list[str]:
    return map_exprs(run_passes(trace(function, arrays).program, "@default"))


def map_exprs(program: Program) -> list[str]:
    made = [op for op in program.entry(None).block.ops if op.name == "pir.map_expr"]
    return [op.attribute("kernel") for op in made]


def test_windows_need_no_table() -> None:
    attrs = {**BASE, "kernel_size": (3, 3), "paddings": (1, 1)}
    (kernel,) = kernels_of(lambda x: ops.pool2d(x, **attrs), drawn((1, 8, 20, 20)))
    assert kernel.count("\ninput ") == 1
    assert "x0[0, i1, 2 * i2 + r0 + -1, 2 * i3 + r1 + -1]" in kernel


def test_what_windows_share_is_stored_where_it_costs_more_to_compute() -> None:
    """A concat of what is computed; a single cheap op is computed in each window."""
    attrs = {**BASE, "kernel_size": (3, 3), "paddings": (1, 1)}
    x, y = drawn((1, 8, 20, 20)), drawn((1, 8, 20, 20))

    def joined(x: Any, y: Any) -> Any:
        return ops.pool2d(ops.concat([ops.tanh(x), ops.relu(y)], 1), **attrs)

    made = kernels_of(joined, x, y)
    assert [k.count(" reduce ") for k in made] == [0, 1]
    assert "tanh" not in made[1]
    assert len(kernels_of(lambda x: ops.pool2d(x * 2.0, **attrs), x)) == 1
    separate = {**BASE, "kernel_size": (2, 2)}
    assert len(kernels_of(lambda x: ops.pool2d(ops.tanh(x), **separate), x)) == 1


def test_why_windows_read_what_is_stored() -> None:
    attrs = {**BASE, "kernel_size": (3, 3)}
    program = trace(lambda x: ops.pool2d(ops.tanh(x), **attrs), (drawn((1, 8, 21, 21)),)).program
    separate = run_passes(program, "@simplify,functionalize,decompose,canonicalize,cse,dce")
    ops_of = {op.name: op for op in separate.entry(None).block.ops}
    known = explainer(separate.entry(None), separate.entry(None).block, DEFAULT)
    refusal = known.refusal(ops_of["pd_op.tanh"], ops_of["pd_op.max"])
    assert refusal is not None
    assert refusal.kind == "cost"
    assert "windows overlap" in refusal.reason
    assert len(map_exprs(run_passes(separate, "fuse"))) == 2
    assert len(map_exprs(run_passes(separate, refusal.remedy))) == 1


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("form", FORMS)
def test_pools_behind_convolutions_over_blocked_channels(form: str, kind: str) -> None:
    """Channels of a frozen program are in blocks, which a pool keeps; `channels last` pools others.

    24 channels leave a part of the last block, where there may be anything.
    """
    net = Net()
    x = net.conv(net.input("x", (2, 8, 18, 19)), 24)
    built = net.built(net.b("pd_op.pool2d", x, **BASE | FORMS[form] | {"pooling_type": kind}))
    exact = pirkit.compile(built.program, pipeline="", backend="reference").run(built.inputs)
    found = pirkit.compile(built.program, freeze=True).run(built.inputs)
    assert_close([found[k] for k in exact], list(exact.values()), 1e-5)
