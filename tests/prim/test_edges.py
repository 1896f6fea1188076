"""Rules at their edges: quotients that round, powers at zero and at infinity, what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError
from pirkit.dialect.opdef import lookup
from pirkit.dialect.samples import Sample
from pirkit.runtime import dtype as dt
from tests.ops.calls import Value, complete
from tests.prim.differentiation import Array, Traced
from tests.prim.rule_checks import derivative, program_of, runner, tensors_of

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


# --- signs of zero -------------------------------------------------------------------------------

ZEROS: Final = {"elu": -0.0, "celu": -0.0, "selu": -0.0, "logsigmoid": np.inf}
"""Where an activation gives a zero."""


@pytest.mark.parametrize(("name", "at"), ZEROS.items())
def test_every_way_gives_zero_its_sign(name: str, at: float) -> None:
    x = np.array([at, 1.0, -1.0])
    f = getattr(ops, name)
    program = pirkit.trace(f, x)
    runs = [pirkit.compile(program, backend=b) for b in ("cpu", "reference")]
    found = [f(x), pirkit.jit(f)(x), *(y for run in runs for y in run.run({"x": x}).values())]
    assert [np.signbit(np.asarray(y)[0]) for y in found] == [name != "logsigmoid"] * 4


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
UNFOLD: Final[dict[str, Any]] = {
    "kernel_sizes": (4, 2), "strides": (2, 1), "paddings": (0,) * 4, "dilations": (1, 1)
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
    "columns of a window larger than the image": ("unfold", [IMAGE], {**UNFOLD, "strides": (1, 1)}),
    "an element before the first": (
        "unpool", [IMAGE[:, :, :1, :1], np.full((1, 1, 1, 1), -1)],
        {"ksize": (2, 2), "strides": (2, 2), "padding": (0, 0), "data_format": "NCHW",
         "output_size": (2, 2)}),
    "fewer weights than draws": (
        "multinomial", [np.array([[0.5, 0.5], [0.0, 1.0]])], {"num_samples": 2}),
    **{
        f"weights {weights}, {'with' if again else 'without'} replacement": (
            "multinomial", [np.array([[0.5, 0.5], weights])], {"replacement": again})
        for weights in ([0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0])
        for again in (False, True)
    },
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


def test_windows_in_the_padding_of_an_empty_image() -> None:
    """They hold no element of the image, so that the gradient has none either."""

    def pooled(x: Any) -> Any:
        return ops.max_pool3d_with_index(x, (2, 3, 2), (2, 2, 2), (0, 1, 1), False, False, False)[0]

    x = np.zeros((1, 2, 4, 0, 6))
    assert np.asarray(pooled(x)).shape == (1, 2, 2, 1, 4)
    assert np.asarray(pirkit.grad(lambda x: pooled(x).sum())(x)).shape == x.shape


# --- rare calls ----------------------------------------------------------------------------------

STEPS: Final = [np.ones((12, 3)), np.ones((12, 3)), np.ones(12), np.ones(12)]
WAYS: Final = [np.array(v, np.int32) for v in ([[1]], [2], [1])]
BINNED: Final = np.where(IMAGE > 7, IMAGE, -np.inf)[..., :3].repeat(2, 2)
BINNED[..., 4, 0] = BINNED[..., 2, 2] = np.nan
RARE: Final[dict[str, tuple[str, tuple[Value, ...], dict[str, Any]]]] = {
    "a recurrent network without steps": (
        "rnn", (np.ones((0, 2, 3)), [np.ones((1, 2, 3))] * 2, STEPS, None, np.zeros(0, np.uint8)),
        {"input_size": 3, "hidden_size": 3, "mode": "LSTM", "is_test": True}),
    "a sum of bytes in bfloat16": (
        "sum", (np.ones((5000, 2), np.int8),), {"axis": (0,), "dtype": dt.bfloat16}),
    "a sum of truth values in float16": (
        "sum", (np.ones((5000, 300), np.bool_),), {"axis": (0,), "dtype": dt.float16}),
    "a sum of truth values without NaN": ("nansum", (np.ones((4, 3), np.bool_),), {"axis": (-1,)}),
    "a transduction of small numbers": (
        "warprnnt", (np.full((1, 2, 2, 3), -800.0), *WAYS), {}),
    "a temporal classification of small numbers": (
        "warpctc", (np.full((2, 1, 3), -800.0), *WAYS), {}),
    "a median of large numbers": ("median", (np.full(3, 3e38, np.float32),), {}),
    "a median of large integers": ("median", (np.array([2**53 + 1] * 3),), {"axis": (0,)}),
    "where medians over unsorted axes are": (
        "median", (np.cos(np.arange(24.0)).reshape(2, 3, 4),), {"axis": (2, 0), "mode": "min"}),
    "a histogram of integers between fractions": (
        "histogram", (np.array([-1, 0, 1, 2, 3]), None), {"bins": 4, "min": -0.5, "max": 3.9}),
    **{
        f"a window before the image: {kind}": (
            "pool2d", (np.arange(1.0, 26.0).reshape(1, 1, 5, 5),),
            {**POOL, "kernel_size": (2, 2), "strides": (9, 9), "paddings": (3, 0, 0, 0),
             "pooling_type": kind})
        for kind in ("avg", "max")
    },
    "attention to no keys": (
        "flash_attn", (np.ones((2, 3, 4, 2)), *[np.ones((2, 0, 4, 2))] * 2), {"is_test": True}),
    "rows of any length": (
        "rms_norm", (np.arange(1.0, 7).reshape(2, 3),), {"normalized_shape": (-1,)}),
    "rows without elements": ("rms_norm", (np.ones((2, 0)),), {"normalized_shape": (0,)}),
    "a transposed convolution of no channels": (
        "conv2d_transpose", (np.ones((2, 0, 4, 3)), np.ones((0, 1, 2, 2))), {}),
    "bins of NaN and of infinite elements": (
        "roi_pool", (BINNED, np.array([[0.0, 0, 2, 3]]), np.array([1], np.int32)),
        {"pooled_height": 2, "pooled_width": 3}),
    "a mean of large integers": ("mean", (np.array([2**62 + 1, 2**62 - 1]),), {}),
    "a negative power of windows beyond the image": (
        "lp_pool2d", (IMAGE + 1,),
        {"kernel_size": (1, 1), "strides": (2, 3), "paddings": (0, 2, 0, 3), "ceil_mode": True,
         "norm_type": -2.0}),
    "quantized channels of a vector": (
        "fake_channel_wise_quantize_dequantize_abs_max",
        (np.array([0.3, -1.0, 0.7], np.float32),), {"bit_length": 3}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "args", "attrs"), RARE.values(), ids=RARE)
def test_rare_calls_are_the_same_whole_and_decomposed(
    name: str, args: tuple[Value, ...], attrs: dict[str, Any]
) -> None:
    assert_same(name, args, attrs, (True, False))


@pytest.mark.parametrize("order", [-np.inf, -1.0, 0.0, 2.0, np.inf])
def test_norms_of_nothing_are_zero(order: float) -> None:
    nothing = np.ones((2, 0))
    assert_same("p_norm", (nothing,), {"porder": order, "axis": 1}, (True,))
    assert_same("dist", (nothing, nothing), {"p": order}, (True,))
    np.testing.assert_array_equal(ops.p_norm(nothing, porder=order, axis=1), [0.0, 0.0])


def test_columns_of_a_window_that_is_slightly_larger_than_the_image() -> None:
    """It counts once, as in Paddle; of images of unknown size it is refused."""
    assert_same("unfold", (IMAGE,), UNFOLD, (True,))
    columns = np.arange(24.0).reshape(1, 8, 3)
    assert_same("fold", (columns,), {**UNFOLD, "output_sizes": (3, 4)}, (True, False))


def assert_same(
    name: str, args: tuple[Value, ...], attrs: dict[str, Any], knowns: tuple[bool, ...]
) -> None:
    call = complete(lookup(f"pd_op.{name}"), Sample(args, attrs))
    lists = [r if isinstance(r, list) else [r] for r in call.compute() if r is not None]
    for known, pipeline in product(knowns, ("", "decompose")):
        p = program_of(call, known=known)
        found = runner(p, p.results, pipeline)(tensors_of(call))
        for one, wanted in zip(found, [w for each in lists for w in each], strict=True):
            assert (one.shape, one.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(one, wanted, rtol=1e-6, err_msg=f"{known} {pipeline}")


def test_any_size_below_one_is_the_usual_one_of_a_real_transform() -> None:
    x = np.arange(10.0).reshape(2, 5) * (1 - 2j)
    found: list[Array] = []
    for size in (8, 0, -1):
        attrs = {"axes": (1,), "normalization": "ortho", "forward": False, "last_dim_size": size}
        p = program_of(complete(lookup("pd_op.fft_c2r"), Sample((x,), attrs)))
        found += runner(p, derivative(p, 1))([x])
    np.testing.assert_array_equal(found[1:], [found[0]] * 2)


def test_a_mean_of_integers_does_not_overflow() -> None:
    assert ops.mean(np.array([2**62 + 1, 2**62 - 1])).item() == 2**62
    assert ops.mean(np.array([-3, -2])).item() == -2


def test_limits_of_a_histogram_may_be_closer_than_half_precision_tells() -> None:
    x = np.array([1.0, 2.0, 0.0, 7.0], np.float16)
    call = complete(lookup("pd_op.histogram"), Sample((x, None), {"bins": 4, "max": 1e-30}))
    p = program_of(call)
    found = p.traced.run({"y": p.results[0]}, "decompose")["y"]
    np.testing.assert_array_equal(found, call.compute()[0])


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_integers_are_resized_without_aliasing(dtype: str) -> None:
    """The weights of the filter are fractions, which integers do not hold."""
    x = np.arange(2 * 3 * 9 * 7, dtype=dtype).reshape(2, 3, 9, 7)
    attrs = {"out_h": 4, "out_w": 3, "interp_method": "bilinear"}
    call = complete(lookup("pd_op.interp_antialias"), Sample((x,), attrs))
    p = program_of(call)
    found = p.traced.run({"y": p.results[0]}, "decompose")["y"]
    np.testing.assert_array_equal(found, call.compute()[0])


MEDIANS: Final[list[tuple[Array, dict[str, Any], list[Any], list[int]]]] = [
    (np.full(3, 3e38, np.float32), {}, [np.float32(3e38)], [1, 1]),
    (np.array([2**53 + 1] * 3), {}, [2**53 + 1], [1, 1]),
    (np.ones((2, 0)), {"axis": (1,), "mode": "min"}, [np.nan, np.nan], [0, 0]),
    (np.array([[5.0, 1, 9, 3], [2, 8, 7, 0], [6, 4, 11, 10]]), {"axis": (1, 0)}, [5.5], [0, 8]),
]


@pytest.mark.parametrize(("x", "attrs", "values", "places"), MEDIANS)
def test_medians_are_those_of_paddle(
    x: Array, attrs: dict[str, Any], values: list[Any], places: list[int]
) -> None:
    found, at = complete(lookup("pd_op.median"), Sample((x,), attrs)).compute()
    np.testing.assert_array_equal(np.ravel(np.asarray(found)), values)
    assert np.ravel(np.asarray(at)).tolist() == places


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
