"""Programs with convolutions as one native call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.opdef import lookup, reference
from pirkit.frontend.files import Program
from pirkit.frontend.tracing import trace
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call
from tests.execution import parsed
from tests.whole_program.networks import assert_close
from tests.whole_program.processes import printed_with_threads

Array = np.ndarray[Any, Any]


def normal(*shape: int, kind: str = "float32") -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(kind)


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Result and gradients of both operands of a convolution."""

    def all_of(x: Any, w: Any) -> Any:
        def total(x: Any, w: Any) -> Any:
            y = function(x, w)
            return (y * ops.exp(y * 0.1)).sum()

        return function(x, w) * 2.0, *pirkit.grad(total, (0, 1))(x, w)

    return all_of


CASES: dict[str, tuple[Any, tuple[Array, ...]]] = {
    "3x3": (
        lambda x, w: ops.conv2d(x, w, paddings=[1, 1]),
        (normal(3, 5, 9, 11), normal(7, 5, 3, 3)),
    ),
    "strides": (
        lambda x, w: ops.conv2d(x, w, strides=[2, 3], paddings=[1, 0, 2, 1]),
        (normal(3, 5, 13, 12), normal(17, 5, 3, 4)),
    ),
    "dilations": (
        lambda x, w: ops.conv2d(x, w, dilations=[2, 1], paddings=[2, 1]),
        (normal(2, 4, 13, 12), normal(3, 4, 3, 3)),
    ),
    "groups": (
        lambda x, w: ops.conv2d(x, w, groups=2, paddings=[1, 1]),
        (normal(3, 16, 9, 9), normal(18, 8, 3, 3)),
    ),
    "narrow groups": (
        lambda x, w: ops.conv2d(x, w, groups=4, paddings=[1, 1]),
        (normal(3, 8, 9, 9), normal(8, 2, 3, 3)),
    ),
    "depthwise": (
        lambda x, w: ops.depthwise_conv2d(x, w, groups=6, paddings=[1, 1]),
        (normal(3, 6, 9, 9), normal(6, 1, 3, 3)),
    ),
    "1x1": (lambda x, w: ops.conv2d(x, w), (normal(2, 5, 6, 7), normal(9, 5, 1, 1))),
    "strides that leave rows over": (
        lambda x, w: ops.conv2d(x, w, strides=[2, 3]),
        (normal(2, 5, 10, 12), normal(6, 5, 1, 1)),
    ),
    "one image": (
        lambda x, w: ops.conv2d(x, w, paddings=[1, 1]),
        (normal(1, 1, 5, 6), normal(1, 1, 3, 3)),
    ),
    "float64": (
        lambda x, w: ops.conv2d(x, w, paddings=[1, 1]),
        (normal(3, 5, 9, 11, kind="float64"), normal(7, 5, 3, 3, kind="float64")),
    ),
    "volumes": (
        lambda x, w: ops.conv3d(x, w, paddings=[1, 1, 1]),
        (normal(2, 3, 4, 5, 6), normal(4, 3, 3, 2, 3)),
    ),
}  # fmt: skip


def whole_of(function: Callable[..., Any], given: tuple[Array, ...]) -> Any:
    return pirkit.compile(trace(function, given).program, fast_math=True)


@pytest.mark.parametrize("name", CASES)
def test_as_the_reference(name: str) -> None:
    function, given = CASES[name]
    program = trace(gradients(function), given).program
    whole = pirkit.compile(program, fast_math=True)
    assert whole.native is not None, whole.reasons
    exact = pirkit.compile(program, pipeline="taylor,expand-gradients", backend="reference")
    names = [p.name for p in exact.plan.inputs]
    wanted = exact.run(dict(zip(names, given, strict=True)))
    assert_close(whole.native(*given), list(wanted.values()), 1e-5)


def block(x: Any, p: Any, t: Any) -> Any:
    """What a residual network is made of, with its loss."""

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        moved = x - x.mean([0, 2, 3], keepdim=True)
        wide = ops.rsqrt((moved * moved).mean([0, 2, 3], keepdim=True) + 1e-5)
        return moved * wide * ops.reshape(scale, [1, -1, 1, 1]) + ops.reshape(shift, [1, -1, 1, 1])

    def convolution(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, paddings=[1, 1])

    h = ops.relu(norm(convolution(x, p["w1"]), p["g1"], p["b1"]))
    h = norm(convolution(h, p["w2"]), p["g2"], p["b2"])
    return ((ops.relu(h + x) - t) ** 2).mean()


def test_a_step_of_training() -> None:
    x, t = normal(3, 6, 9, 10), normal(3, 6, 9, 10)
    p = {k: normal(6, 6, 3, 3) * np.float32(0.1) for k in ("w1", "w2")}
    p |= {k: normal(6) for k in ("g1", "b1", "g2", "b2")}

    def step(x: Any, p: Any, t: Any) -> Any:
        loss, (gx, g) = pirkit.value_and_grad(block, (0, 1))(x, p, t)
        return loss, gx, *(p[k] - g[k] * 0.1 for k in sorted(p))

    program = trace(step, (x, p, t)).program
    whole = pirkit.compile(program, fast_math=True)
    assert whole.native is not None, whole.reasons
    exact = pirkit.compile(program, pipeline="taylor,expand-gradients", backend="reference")
    leaves = (x, *(p[k] for k in sorted(p)), t)
    given = dict(zip([i.name for i in exact.plan.inputs], leaves, strict=True))
    assert_close(list(whole.run(given).values()), list(exact.run(given).values()), 1e-5)


def test_gradients_of_filters_read_images_where_they_are() -> None:
    """Batch and channels change places in them; nobody writes them in that order."""
    x, w, g = normal(4, 6, 19, 21), normal(5, 6, 3, 3), normal(4, 5, 19, 21)

    def gradient(x: Any, w: Any, g: Any) -> Any:
        def total(w: Any) -> Any:
            return (ops.conv2d(x, w, paddings=[1, 1]) * ops.exp(g)).sum()

        return pirkit.grad(total)(w)

    whole = whole_of(gradient, (x, w, g))
    assert whole.native is not None, whole.reasons
    assert len(whole.native.steps) == 4  # exp, sums, their parts, the result turned
    copy = [b for s in whole.native.steps for b in s.function.code.sizes].count(x.nbytes)
    assert copy == 1  # only the correlation reads x
    wanted = np.zeros(w.shape)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype("float64")
    for i in range(3):
        for j in range(3):
            met = padded[:, :, i : i + 19, j : j + 21]
            wanted[:, :, i, j] = np.einsum("ncxy,nkxy->kc", met, np.exp(g.astype("float64")))
    np.testing.assert_allclose(whole.native(x, w, g)[0], wanted, rtol=1e-4, atol=1e-3)


def test_what_no_window_meets_is_left_out_of_gradients_of_filters() -> None:
    """Else more elements are computed than the filter has, four times as many for one."""

    def gradient(w: Any, x: Any) -> Any:
        return pirkit.grad(lambda w: (ops.conv2d(x, w, strides=[2, 2]) * 2.0).sum())(w)

    program = trace(gradient, (normal(6, 5, 1, 1), normal(2, 5, 10, 10))).program
    plan = pirkit.compile(program, pipeline="taylor,expand-gradients").plan
    calls = [i for i in plan.body if isinstance(i, Call) and i.kernel == "pd_op.conv2d"]
    results = [plan.slots[i.outputs[0]] for i in calls if isinstance(i.outputs[0], int)]
    assert [m.shape for m in results if isinstance(m, TensorMeta)] == [(5, 6, 1, 1)]


def test_a_part_of_an_image_is_not_the_image_with_its_axes_exchanged() -> None:
    x, w = normal(4, 6, 9, 11), normal(5, 4, 7, 8)

    def correlated(x: Any, w: Any) -> Any:
        return ops.conv2d(ops.transpose(x[:, :5, :8, :10], [1, 0, 2, 3]), w)

    whole = whole_of(correlated, (x, w))
    assert whole.native is not None, whole.reasons
    part = np.ascontiguousarray(x[:, :5, :8, :10].transpose(1, 0, 2, 3))
    wanted = reference.of(lookup("pd_op.conv2d"))(
        part, w, strides=(1, 1), paddings=(0, 0), dilations=(1, 1), groups=1,
        padding_algorithm="EXPLICIT", data_format="NCHW",
    )  # fmt: skip
    np.testing.assert_allclose(whole.native(x, w)[0], wanted, rtol=1e-4, atol=1e-4)


def test_what_others_read_too_is_written() -> None:
    x, w = normal(4, 6, 9, 9), normal(6, 4, 8, 8)

    def both(x: Any, w: Any) -> Any:
        transposed = ops.transpose(x, [1, 0, 2, 3])
        moved = ops.transpose(ops.exp(x), [1, 0, 2, 3])
        return (
            ops.conv2d(transposed, w) + ops.conv2d(moved, w),
            transposed,
            ops.matmul(moved, moved),
        )

    whole = whole_of(both, (x, w))
    assert whole.native is not None, whole.reasons
    _, transposed, product = whole.native(x, w)
    np.testing.assert_array_equal(transposed, x.transpose(1, 0, 2, 3))
    moved = np.exp(x.transpose(1, 0, 2, 3))
    np.testing.assert_allclose(product, moved @ moved, rtol=1e-4)


@pytest.mark.parametrize(
    ("function", "given", "reason"),
    [
        (
            lambda x, w: ops.conv2d(x, w, data_format="NHWC"),
            (normal(2, 9, 9, 3), normal(4, 3, 3, 3)),
            "its channels are the last dimension",
        ),
        (
            lambda x, w: ops.conv2d(x, w),
            (normal(2, 3, 9, 9, kind="float16"), normal(4, 3, 3, 3, kind="float16")),
            "its elements are float16",
        ),
    ],
)
def test_why_a_convolution_is_not(function: Any, given: tuple[Array, ...], reason: str) -> None:
    whole = whole_of(function, given)
    assert whole.native is None
    assert f"`pd_op.conv2d` has no native form: {reason}" in whole.reasons[-1]


def test_what_memory_held_before_does_not_matter() -> None:
    function, given = CASES["strides"]
    native = whole_of(gradients(function), given).native
    assert native is not None
    first = native(*given)
    for session in native.free:
        assert session.block is not None
        session.block.memory[...] = 255  # numbers that are none
    for one, other in zip(first, native(*given), strict=True):
        np.testing.assert_array_equal(one, other)


_THREADS = """
import hashlib
from tests.whole_program.test_convolutions import CASES, gradients, normal, whole_of
given = normal(4, 16, 40, 40), normal(16, 16, 3, 3)
digest = hashlib.sha256()
for result in whole_of(gradients(CASES["3x3"][0]), given).native(*given):
    digest.update(result.tobytes())
print(digest.hexdigest())
"""


def test_the_number_of_threads_changes_no_bit() -> None:
    assert len(printed_with_threads(_THREADS, 1, 3)) == 1


_ONLY_PADDING_IS_MET = """
pir.program @p(%x "x" : tensor<2x4x10x?xf32>, %w "w" : tensor<6x2x1x1xf32>, %g "g" : tensor<2x6x1x?xf32>) {
  %a, %b = pd_op.conv2d_grad(%x, %w, %g) {strides = array<i32: 11, 4>, paddings = array<i32: 1, 0, 1, 0>,
    padding_algorithm = "EXPLICIT", dilations = array<i32: 1, 1>, groups = 2 : i32, data_format = "NCHW"}
    : (tensor<2x4x10x?xf32>, tensor<6x2x1x1xf32>, tensor<2x6x1x?xf32>)
    -> (tensor<2x4x10x?xf32>, tensor<6x2x1x1xf32>)
  pir.shadow_output(%b) {output_name = "b"} : (tensor<6x2x1x1xf32>) -> ()
}
"""  # noqa: E501


def test_windows_that_meet_padding_only() -> None:
    program = pirkit.compile(
        Program(parsed(_ONLY_PADDING_IS_MET)), pipeline="expand-gradients,fuse"
    )
    found = program.run(
        {"x": normal(2, 4, 10, 12), "w": normal(6, 2, 1, 1), "g": normal(2, 6, 1, 4)}
    )
    np.testing.assert_array_equal(found["b"], np.zeros((6, 2, 1, 1), np.float32))
