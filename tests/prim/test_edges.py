"""Rules at their edges: quotients that round, powers at zero and at infinity, what is refused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError
from tests.prim.differentiation import Array, Traced

# --- bins ----------------------------------------------------------------------------------------

BINS: Final = [(7, 3, np.float32), (6, 5, np.float64)]
"""Lengths over numbers of bins where multiplying with the inverse crosses an integer."""


@pytest.mark.parametrize(("length", "bins", "dtype"), BINS)
@pytest.mark.parametrize("name", ["roi_pool", "psroi_pool"])
def test_bins_end_where_the_whole_ops_bins_end(
    name: str, length: int, bins: int, dtype: Any
) -> None:
    side, channels = length + 3, 1 if name == "roi_pool" else bins * bins
    x = np.random.default_rng(0).uniform(size=(1, channels, side, side)).astype(dtype)
    boxes = np.array([[0, 0, length - 1, length - 1], [1, 0, length, length - 1]], dtype)
    inputs = [x, boxes, np.array([2], np.int32)]
    attrs: dict[str, Any] = {"pooled_height": bins, "pooled_width": bins, "spatial_scale": 1.0}
    if name == "psroi_pool":
        attrs["output_channels"] = 1
    whole, parts = (computed(name, inputs, attrs, p) for p in ("", "decompose"))
    np.testing.assert_allclose(parts, whole, rtol=1e-6 if dtype is np.float32 else 1e-13)


def computed(name: str, inputs: list[Array], attrs: dict[str, Any], pipeline: str) -> Array:
    t = Traced(inputs)
    found = t.b(f"pd_op.{name}", *t.args, **attrs)
    return t.run({"y": found[0] if isinstance(found, tuple) else found}, pipeline)["y"][0]


# --- powers --------------------------------------------------------------------------------------

POWERS: Final = [
    *((e, 0.0, 0.0) for e in (1.5, 2.5, 33.0, 40.0)),
    (0.5, 0.0, np.inf),
    (0.5, np.inf, 0.0),
    (0.7, np.inf, 0.0),
    (2.5, np.inf, np.inf),
    (2.5, 4.0, 20.0),
    (-0.5, 4.0, -1 / 16),
]
"""Exponent, where, and the first derivative there."""


@pytest.mark.parametrize(("exponent", "at", "expected"), POWERS)
def test_first_derivatives_of_powers_at_the_ends(
    exponent: float, at: float, expected: float
) -> None:
    x, one = np.array([at]), np.ones(1)

    def power(x: Any) -> Any:
        return ops.pow(x, exponent)

    def by_tensor(x: Any) -> Any:
        return ops.elementwise_pow(x, np.array([exponent]))

    for f in (power, by_tensor):
        assert float(pirkit.jvp(f, (x,), (one,))[1][0]) == expected
        assert float(pirkit.jacfwd(f)(x)[0, 0]) == expected
        assert float(pirkit.grad(lambda x, f=f: f(x).sum())(x)[0]) == expected


@pytest.mark.parametrize(("at", "expected"), [(0.0, np.inf), (np.inf, 0.0), (4.0, 0.25)])
def test_first_derivatives_of_roots_at_the_ends(at: float, expected: float) -> None:
    assert float(pirkit.jvp(ops.sqrt, (np.array([at]),), (np.ones(1),))[1][0]) == expected


def test_second_derivatives_of_powers_at_zero() -> None:
    x, one = np.array([0.0, 1.0]), np.ones(2)
    found = pirkit.hessian(lambda x: ops.pow(x, 3.5).sum())(x)
    np.testing.assert_array_equal(found, [[0.0, 0.0], [0.0, 8.75]])
    _, curve = pirkit.jet(lambda x: ops.pow(x, 3.5), (x,), ((one, 0 * one, 0 * one),))
    np.testing.assert_allclose(curve, [[0.0, 3.5], [0.0, 8.75], [0.0, 13.125]], rtol=1e-14)


def test_infinite_exponents() -> None:
    """They have derivatives, if no useful ones."""
    y, _ = pirkit.jvp(lambda x: ops.pow(x, np.inf), (np.array([0.5, 2.0]),), (np.ones(2),))
    np.testing.assert_array_equal(y, [0.0, np.inf])


# --- what is refused -----------------------------------------------------------------------------


def emitted(t: Traced, name: str, attrs: dict[str, Any]) -> Any:
    """A block has its shape and its offsets as attributes, or computes them."""
    if name == "crop" and not attrs:
        return t.b("pd_op.crop", t.args[0], shape=t.args[1], offsets=t.args[2])
    return t.b(f"pd_op.{name}", *t.args, **attrs)


def refused(name: str, inputs: list[Array], attrs: dict[str, Any], pipeline: str) -> bool:
    t = Traced(inputs, known=False)
    found = emitted(t, name, attrs)
    try:
        t.run({"y": found}, pipeline)
    except PirkitError as error:
        return bool(error.code)
    return False


IMAGE: Final = np.arange(12.0).reshape(1, 1, 3, 4)
POOL: Final[dict[str, Any]] = {
    "strides": (1, 1), "paddings": (0, 0), "ceil_mode": False, "exclusive": True,
    "data_format": "NCHW", "pooling_type": "avg", "global_pooling": False, "adaptive": False,
    "padding_algorithm": "EXPLICIT",
}  # fmt: skip
FIRST: Final = (1, 1, 2, 2)
REFUSED: Final[dict[str, tuple[str, list[Array], dict[str, Any]]]] = {
    "a window one larger than the image": ("pool2d", [IMAGE], {**POOL, "kernel_size": (4, 2)}),
    "a window two larger than the image": ("pool2d", [IMAGE], {**POOL, "kernel_size": (2, 6)}),
    "a block beyond the image": (
        "crop", [IMAGE], {"shape": FIRST, "offsets": (0, 0, 2, 0)}),
    "a block beyond the image, the rest elsewhere": (
        "crop", [IMAGE], {"shape": (-1, -1, 2, -1), "offsets": (0, 0, 2, 1)}),
    "the rest from behind the image": (
        "crop", [IMAGE], {"shape": (-1, -1, 2, -1), "offsets": (0, 0, 1, 5)}),
    "a computed block beyond the image": (
        "crop", [IMAGE, np.array(FIRST), np.array([0, 0, 2, 0])], {}),
    "a computed block that begins before the image": (
        "crop", [IMAGE, np.array(FIRST), np.array([0, 0, -2, -2])], {}),
    "the rest from behind the image, computed": (
        "crop", [IMAGE, np.array([1, 1, 2, -1]), np.array([0, 0, 1, 5])], {}),
    "an element before the first": (
        "unpool", [IMAGE[:, :, :1, :1], np.full((1, 1, 1, 1), -1)],
        {"ksize": (2, 2), "strides": (2, 2), "padding": (0, 0), "data_format": "NCHW",
         "output_size": (2, 2)}),
    "fewer weights than draws": (
        "multinomial", [np.array([[0.5, 0.5], [0.0, 1.0]])], {"num_samples": 2}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "attrs"), REFUSED.values(), ids=REFUSED)
def test_what_an_op_refuses_its_parts_refuse(
    name: str, inputs: list[Array], attrs: dict[str, Any]
) -> None:
    for pipeline in ("", "decompose", "decompose,canonicalize,cse,dce", "@fused"):
        assert refused(name, inputs, attrs, pipeline), pipeline


BLOCKS: Final[dict[str, tuple[Any, Any]]] = {
    "numbers": ((1, 1, 2, 3), (0, 0, 1, 1)),
    "the rest": ((-1, 1, 2, -1), (0, 0, 1, 1)),
    "all of it": ((-1, -1, -1, -1), (0, 0, 0, 0)),
    "up to the end": ((-1, 1, 0, -1), (0, 0, 3, 4)),
}


@pytest.mark.parametrize(("shape", "offsets"), BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("late", [False, True])
def test_blocks_of_images_of_unknown_size(shape: Any, offsets: Any, late: bool) -> None:
    t = Traced([IMAGE, *((np.array(shape), np.array(offsets)) if late else ())], known=False)
    found = emitted(t, "crop", {} if late else {"shape": shape, "offsets": offsets})
    ends = [None if n < 0 else s + n for n, s in zip(shape, offsets, strict=True)]
    expected = IMAGE[tuple(map(slice, offsets, ends))]
    parts = t.run({"y": found}, "decompose")["y"]
    np.testing.assert_array_equal(parts, expected)
    assert parts.shape == expected.shape


# --- windows outside of the image ----------------------------------------------------------------

LOWEST: Final = float(np.finfo(np.float32).min)
BELOW: Final = np.array([[-1.0, -np.inf, -np.inf], [-2.0, -np.inf, -np.inf]])[None, None]
"""An image whose last columns are infinite."""
OUTSIDE: Final[dict[str, tuple[Array, int, int, list[float], list[int]]]] = {
    "behind": (BELOW[..., :1], 1, 3, [-1.0, LOWEST], [0, -1]),
    "two of four": (-IMAGE[..., :3, :3], 1, 2, [0, -2, -8, -10], [0, 2, 6, 8]),
    "a third column": (-IMAGE, 1, 2, [0, -2, LOWEST, -8, -10, LOWEST], [0, 2, -1, 8, 10, -1]),
    "infinite": (BELOW, 2, 2, [-1.0, -np.inf], [0, 2]),
}
"""Images, sizes of windows, strides, maxima and where they are, as Paddle has them but the last."""


@pytest.mark.parametrize(("image", "size", "stride", "maxima", "places"), OUTSIDE.values(),
                         ids=OUTSIDE)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_outside_of_the_image(
    image: Array, size: int, stride: int, maxima: list[float], places: list[int], dtype: Any
) -> None:
    moves: dict[str, Any] = {"kernel_size": (size, size), "strides": (stride, stride)}
    rest: dict[str, Any] = {"paddings": (0, 0), "ceil_mode": True, "adaptive": False}
    for backend, pipeline in (("cpu", ""), ("reference", ""), ("cpu", "decompose")):
        t = Traced([image.astype(dtype)])
        plain = {**POOL, **moves, "pooling_type": "max", "ceil_mode": True}
        y = t.b("pd_op.pool2d", *t.args, **plain)
        z, mask = t.b("pd_op.max_pool2d_with_index", *t.args, **moves, **rest, global_pooling=False)
        found = t.run({"y": y, "z": z, "mask": mask}, pipeline, backend=backend)
        assert found["y"].ravel().tolist() == maxima, (backend, pipeline)
        assert found["z"].ravel().tolist() == maxima, (backend, pipeline)
        assert found["mask"].ravel().tolist() == places, (backend, pipeline)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(2, 0), (0, 0), (0, 3)])
def test_a_softmax_of_nothing_is_nothing(name: str, shape: tuple[int, ...]) -> None:
    t = Traced([np.zeros(shape, np.float32)])
    y = t.b(f"pd_op.{name}", *t.args, axis=1)
    assert t.run({"y": y}, "decompose")["y"].shape == shape


def test_a_class_of_label_0_adds_nothing_to_a_cross_entropy() -> None:
    """Whatever its logarithm is: a mask makes logits of -inf."""
    logits, label = np.array([[0.5, -np.inf, 1.0]]), np.array([[0.25, 0.0, 0.75]])

    def loss(x: Any) -> Any:
        return ops.cross_entropy_with_softmax(x, label, soft_label=True)[1].sum()

    share = np.exp(logits) / np.exp(logits).sum()
    expected = -0.25 * np.log(share[0, 0]) - 0.75 * np.log(share[0, 2])
    for found in (loss(logits), pirkit.jit(loss)(logits)):
        assert float(found) == pytest.approx(expected)
    np.testing.assert_allclose(pirkit.grad(loss)(logits), share - label, atol=1e-15)
