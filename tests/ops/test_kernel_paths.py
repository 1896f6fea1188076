"""Kernels that take another path for large or unusual operands, against the rule of the op.

Samples are small, so that they only meet the plain path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit.diag.errors import ConstraintError, RuntimeFault
from pirkit.dialect.opdef import lookup
from pirkit.dialect.samples import Sample
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, first_dtype
from pirkit.runtime.kernels.numpy import fourier
from pirkit.runtime.meta import of_value
from pirkit.runtime.registry import CPU, KERNELS, Kernel
from tests.ops.calls import Call, complete
from tests.ops.test_kernels import check, poisoned, run, samples_of, strided

Array = np.ndarray[Any, Any]

RANDOM: Final = np.random.default_rng(11)


def test_an_infinite_part_of_a_sum_leaves_the_other_part_alone() -> None:
    """A product with 1 of BLAS makes NaN of the imaginary part."""
    x = pirkit.tensor(np.array([[np.inf + 1j, 0], [2 - 3j, 0]], np.complex64))
    found = pirkit.ops.sum(x, axis=[1]).array
    np.testing.assert_array_equal(found.imag, np.float32([1.0, -3.0]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("bits", [6, 28, 62])
def test_matmuls_of_integers_wrap_around(dtype: Any, bits: int) -> None:
    """A BLAS has the small ones; its sums of large ones would be rounded."""
    limits, rng = np.iinfo(dtype), np.random.default_rng(bits)
    low, high = max(limits.min, -(1 << bits)), min(limits.max, (1 << bits) + 1)
    x, y = (rng.integers(low, high, shape, dtype, endpoint=True) for shape in ((41, 33), (33, 29)))
    want = np.matmul(x.astype(object), y.astype(object)) % (1 << limits.bits)
    found = pirkit.ops.matmul(pirkit.tensor(x), pirkit.tensor(y)).array
    np.testing.assert_array_equal(found, want.astype(np.uint64).astype(dtype))


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def positive(*shape: int) -> Array:
    """Floats whose sum is not smaller than its rounding errors."""
    return RANDOM.random(shape, dtype=np.float32)


def ints(low: int, high: int, *shape: int) -> Array:
    return RANDOM.integers(low, high, shape)


def bits(*shape: int) -> Array:
    return RANDOM.random(shape) < 0.5


def with_odd_numbers(x: Array) -> Array:
    """Zeros of both signs, infinities, NaN of both signs and equal elements among the others."""
    odd = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, 1.0], np.float32)
    x = x.copy()
    x.reshape(-1)[RANDOM.permutation(x.size)[: 2 * odd.size]] = np.tile(odd, 2)
    return x


def part(
    axes: tuple[int, ...], *bounds: tuple[int, ...], gone: tuple[int, ...] = ()
) -> dict[str, Any]:
    starts, ends, steps = bounds
    found = {"axes": axes, "starts": starts, "ends": ends, "steps": steps}
    return {**found, "decrease_axes": gone, "none_axes": ()}


def sums() -> Iterator[tuple[str, Sample]]:
    for axis in ((), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1)):
        yield "sum", Sample((positive(7, 33, 65),), {"axis": axis})
        yield "mean", Sample((positive(7, 33, 65),), {"axis": axis, "keepdim": True})
    yield "sum", Sample((positive(5001),), {})
    yield "sum", Sample((positive(1, 4096, 1),), {"axis": (1,)})
    yield "sum", Sample((positive(2, 3, 4, 5, 6),), {"axis": (0, 2, 4)})
    yield "sum", Sample((with_odd_numbers(positive(64, 64)),), {"axis": (1,)})
    yield "sum", Sample((ints(-5, 5, 40, 50).astype(np.int32),), {"axis": (0,)})
    yield "mean_all", Sample((positive(70, 70),), {})
    yield "reduce_as", Sample((positive(6, 70, 80), positive(70, 1)), {})


def products_of_one_term() -> Iterator[tuple[str, Sample]]:
    """One element of each row by one of each column, for which no BLAS is asked."""
    pairs = (
        ((40, 1), (1, 30), False, False), ((1, 40), (1, 30), True, False),
        ((1, 40), (30, 1), True, True), ((5, 40, 1), (1, 30), False, False),
        ((40, 1), (5, 1, 30), False, False), ((4, 1, 7, 1), (3, 9, 1), False, True),
    )  # fmt: skip
    for x, y, turned_x, turned_y in pairs:
        attrs = {"transpose_x": turned_x, "transpose_y": turned_y}
        yield "matmul", Sample((with_odd_numbers(floats(*x)), floats(*y)), attrs)


def extrema() -> Iterator[tuple[str, Sample]]:
    for op in ("max", "amin"):
        yield op, Sample((with_odd_numbers(floats(500, 3)),), {"axis": (1,)})
        yield op, Sample((floats(300, 4, 5),), {"axis": (1,)})
        yield op, Sample((floats(300, 4, 5),), {"axis": (1, 2), "keepdim": True})
    yield "argmax", Sample((with_odd_numbers(floats(20, 30)),), {"axis": 0})
    yield "argmin", Sample((with_odd_numbers(floats(20, 30)),), {"axis": 1, "keepdims": True})
    yield "argmin", Sample((with_odd_numbers(floats(20, 30)),), {"axis": 0, "flatten": True})


def norms() -> Iterator[tuple[str, Sample]]:
    for order in (0.0, 1.0, 2.0, 3.5, np.inf, -np.inf):
        yield "p_norm", Sample((floats(40, 50),), {"porder": order, "axis": 0})
        yield "p_norm", Sample((floats(40, 50),), {"porder": order, "asvector": True})
    yield "norm", Sample((floats(40, 50),), {"axis": 1, "epsilon": 1e-10, "is_test": True})


def scans() -> Iterator[tuple[str, Sample]]:
    for exclusive in (False, True):
        for reverse in (False, True):
            attrs = {"exclusive": exclusive, "reverse": reverse}
            yield "cumsum", Sample((floats(5, 80),), {"axis": 0, **attrs})
            yield "cumsum", Sample((floats(5, 80),), {"axis": -1, **attrs})
            yield "cumsum", Sample((floats(1, 80),), {"axis": 0, **attrs})
    yield "cumprod", Sample((floats(3, 5, 80),), {"dim": 1})


def orders() -> Iterator[tuple[str, Sample]]:
    x = with_odd_numbers(floats(60, 70))
    for descending in (False, True):
        yield "argsort", Sample((x,), {"axis": 0, "descending": descending})
        yield "argsort", Sample((-x,), {"axis": -1, "descending": descending})
        yield "topk", Sample((x,), {"k": 9, "axis": 0, "largest": descending})
    limits = np.array([[2**31 - 1, -(2**31), 0, -1, 2**31 - 1, -(2**31)]], np.int32)
    yield "argsort", Sample((limits,), {"axis": 1})
    yield "topk", Sample((limits,), {"axis": 1, "k": 5})
    yield "topk", Sample((floats(4, 5).astype(dt.bfloat16.np),), {"axis": 1, "k": 3})


def reads() -> Iterator[tuple[str, Sample]]:
    yield "gather", Sample((floats(9, 8, 7), ints(-8, 8, 30)), {"axis": 1})
    yield "gather_nd", Sample((floats(9, 8, 7), ints(-8, 8, 4, 5, 2)), {})
    yield "gather_nd", Sample((floats(9, 8), ints(-8, 8, 30, 2)), {})
    yield "take_along_axis", Sample((floats(9, 8, 7), ints(-8, 8, 3, 20, 5)), {"axis": 1})
    yield "embedding", Sample((ints(0, 9, 4, 5), floats(9, 3)), {"padding_idx": 2})


def writes() -> Iterator[tuple[str, Sample]]:
    for size in (3, 600):
        x, index = floats(9, size), ints(-9, 9, 30)
        yield "scatter", Sample((x, index, floats(30, size)), {"overwrite": False})
        yield "scatter_nd_add", Sample((x, index[:, None], floats(30, size)), {})
        yield "index_put", Sample((x, [index], floats(30, size)), {"accumulate": True})
    x, index = floats(9, 8, 7), [ints(-8, 8, 5, 1), ints(-8, 8, 4)]
    yield "scatter_nd_add", Sample((x, ints(-7, 7, 30, 3), floats(30)), {})
    yield "index_put", Sample((x, index, floats(7)), {"accumulate": True})
    yield "index_put", Sample((x, index, floats(1)), {})
    yield "index_put", Sample((x, [bits(9, 8, 7)], floats(1)), {})
    yield "index_put", Sample((x, [bits(9, 8)], floats()), {})
    for reduce in ("add", "mul", "amin", "amax", "mean"):
        for kept in (False, True):
            attrs = {"axis": 1, "reduce": reduce, "include_self": kept}
            yield "put_along_axis", Sample((x, ints(-8, 8, 9, 20, 3), floats(9, 20, 3)), attrs)
    yield "set_value_with_tensor", Sample((x, floats(1, 1, 7)), part((0,), (1,), (8,), (3,)))
    yield (
        "set_value_with_tensor",
        Sample((x, floats(8, 7)), part((0,), (-1,), (9,), (1,), gone=(0,))),
    )


def moves() -> Iterator[tuple[str, Sample]]:
    x = floats(4, 5, 6)
    yield "roll", Sample((x,), {"shifts": (-3, 7), "axis": (1, 2)})
    yield "roll", Sample((x,), {"shifts": (2, 2), "axis": (1, 1)})
    yield "roll", Sample((x,), {"shifts": (-7,)})
    yield "tile", Sample((x,), {"repeat_times": (2, 1, 3)})
    yield "repeat_interleave", Sample((x,), {"repeats": 3, "axis": -2})
    for sizes, strides, paddings, dilations in (
        ((3, 2), (2, 3), (4, 1, 3, 2), (1, 2)),
        ((2, 3), (5, 1), (0, 9, 6, 0), (3, 4)),
        ((1, 1), (3, 3), (2, 2, 2, 2), (1, 1)),
    ):
        attrs = {"kernel_sizes": sizes, "strides": strides, "paddings": paddings}
        yield "unfold", Sample((floats(2, 3, 5, 6),), {**attrs, "dilations": dilations})
    images = floats(1, 1, 3, 4, 5)
    for mode in ("constant", "reflect", "replicate", "circular"):
        yield "pad3d", Sample((images,), {"paddings": (2, 1, 3, 2, 1, 2), "mode": mode})
        yield "pad3d", Sample((images,), {"paddings": (-2, 1, -1, 2, 1, -1), "mode": mode})


def products() -> Iterator[tuple[str, Sample]]:
    for equation, *shapes in (
        ("ij,jk->ik", (4, 5), (5, 6)),
        ("ij,jk->ki", (4, 5), (5, 6)),
        ("bij,bkj->bki", (2, 4, 5), (2, 6, 5)),
        ("bhid,hjd->bhij", (2, 3, 4, 5), (3, 6, 5)),
        ("nkctv,kvw->nctw", (2, 3, 2, 4, 5), (3, 5, 6)),
        ("i,j->ij", (4,), (5,)),
        ("bi,bj->bji", (2, 4), (2, 5)),
        ("ij,ij->", (4, 5), (4, 5)),
        ("ij,ij->i", (4, 5), (4, 5)),
        ("ij,j->ij", (4, 5), (5,)),
        ("i j , k -> i k", (4, 5), (6,)),
        ("ij,jk", (4, 5), (5, 6)),
        ("...ij,jk->...ik", (2, 4, 5), (5, 6)),
        ("ii,ij->ij", (4, 4), (4, 5)),
        ("ij,ij->ij", (1, 5), (4, 5)),
        ("ij,jk,kl->il", (4, 5), (5, 6), (6, 7)),
    ):
        yield "einsum", Sample(([positive(*shape) for shape in shapes],), {"equation": equation})


def attentions() -> Iterator[tuple[str, Sample]]:
    q, k, v = floats(1, 700, 4, 8), floats(1, 600, 2, 8), floats(1, 600, 2, 8)
    mask = floats(1, 1, 700, 600)
    mask[..., 5, :] = -np.inf
    yield "flash_attn", Sample((q, k, v), {"causal": True})
    yield "flash_attn", Sample((q, k, v, None, mask), {"is_test": True, "dropout": 0.5})
    yield "flash_attn", Sample((k[:, :, :2], q[:, :, :2], q[:, :, :2]), {"causal": True})


def readings() -> Iterator[tuple[str, Sample]]:
    grid = with_odd_numbers(1.2 * floats(2, 50, 60, 2))
    for mode in ("zeros", "border", "reflection"):
        attrs = {"padding_mode": mode, "align_corners": mode == "border"}
        yield "grid_sample", Sample((positive(2, 40, 7, 9), grid), attrs)
    plain = {"dilations": (1, 1), "deformable_groups": 2, "im2col_step": 1}
    yield (
        "deformable_conv",
        Sample(
            (positive(2, 64, 33, 30), floats(2, 36, 33, 30), positive(8, 32, 3, 3)),
            {**plain, "strides": (1, 1), "paddings": (1, 1), "groups": 2},
        ),
    )


def steps() -> Iterator[tuple[str, Sample]]:
    state = [positive(70, 700) for _ in range(4)]
    one = np.array([0.5], np.float32)
    operands = (*state[:2], one, *state[2:], one, one)
    yield "lamb_", Sample(operands, {"weight_decay": 0.1})
    yield "adam_", Sample((*operands[:5], None, one, one), {})
    yield "lgamma", Sample((10 * floats(300, 200),), {})
    labels = ints(0, 9, 50, 60)
    yield "nll_loss", Sample((positive(50, 9, 60, 1), labels[..., None], positive(9)), {})


FAMILIES: Final = (
    sums, extrema, norms, scans, orders, reads, writes, moves, products, products_of_one_term,
    attentions, readings, steps,
)  # fmt: skip

EVERY: Final = [
    complete(lookup(f"pd_op.{op}"), sample) for family in FAMILIES for op, sample in family()
]


def kernel_of(call: Call) -> Kernel:
    dtype = first_dtype(call.metas)
    (kernel,) = (
        k
        for k in KERNELS.kernels(call.definition.name)
        if k.key.dtype is dtype and k.key.backend == CPU
    )
    return kernel


@pytest.mark.parametrize("call", EVERY, ids=str)
def test_every_path_agrees_with_the_reference(call: Call) -> None:
    kernel = kernel_of(call)
    expected = call.compute()
    for args in (call.args, tuple(map(strided, call.args))):
        found = run(kernel, call, args)
        if found is not None:
            check(found, expected, kernel, call)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [("argsort", {}), *[("topk", {"k": k, "largest": k < 3}) for k in (1, 2, 3, 40)]],
)
def test_lines_along_the_last_axis_are_sorted_without_a_view(
    op: str, attrs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """numpy takes longer to move the last axis to the end than to sort a short line."""
    call = complete(lookup(f"pd_op.{op}"), Sample((floats(3, 97),), {"axis": -1, **attrs}))
    expected = call.compute()
    monkeypatch.setattr(np, "moveaxis", None)
    found = run(kernel_of(call), call, call.args)
    assert found is not None
    check(found, expected, kernel_of(call), call)


@pytest.mark.parametrize("call", [c for c in EVERY if kernel_of(c).inplace], ids=str)
def test_every_path_may_write_over_its_operand(call: Call) -> None:
    kernel = kernel_of(call)
    expected = call.compute()
    for first in (cast("Array", call.args[0]).copy(), strided(call.args[0])):
        others = [None if v is None else poisoned(of_value(v)) for v in expected[1:]]
        found = run(kernel, call, (first, *call.args[1:]), (first, *others))
        if found is not None:
            check(found, expected, kernel, call)


class OtherModule:
    """Numpy under another name: what a kernel decides for numpy alone, it does not decide here."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


PORTABLE: Final = [k for k in KERNELS.kernels() if k.portable and k.key.backend == CPU]


@pytest.mark.parametrize("kernel", PORTABLE, ids=lambda k: f"{k.op}-{k.key.dtype}")
def test_portable_kernels_run_on_another_array_module(kernel: Kernel) -> None:
    other = replace(kernel, bind=lambda b: kernel.bind(replace(b, xp=OtherModule())))
    for call in samples_of(kernel):
        found = run(other, call, call.args)
        if found is not None:
            check(found, call.compute(), kernel, call)


OUTSIDE: Final = [
    ("gather", Sample((floats(4, 3), np.array([4])), {})),
    ("index_select", Sample((floats(4, 3), np.array([-5])), {})),
    ("embedding", Sample((np.array([-1]), floats(4, 3)), {})),
    ("gather_nd", Sample((floats(4, 3), np.array([[0, 3]])), {})),
    ("index_sample", Sample((floats(1, 3), np.array([[-1]])), {})),
    ("take_along_axis", Sample((floats(4, 3), np.array([[3]])), {"axis": 1})),
    ("scatter", Sample((floats(4, 3), np.array([4]), floats(1, 3)), {})),
    ("scatter_nd_add", Sample((floats(4, 3), np.array([[-5]]), floats(1, 3)), {})),
    ("put_along_axis", Sample((floats(4, 3), np.array([[4]]), floats(1, 1)), {"axis": 0})),
    ("index_put", Sample((floats(4, 3), [np.array([4])], floats(3)), {})),
    ("one_hot", Sample((np.array([-1]),), {"num_classes": 3})),
]


@pytest.mark.parametrize("call", [complete(lookup(f"pd_op.{o}"), s) for o, s in OUTSIDE], ids=str)
def test_an_index_outside_is_refused(call: Call) -> None:
    with pytest.raises((ConstraintError, RuntimeFault), match="outside"):
        call.compute()
    (meta,) = call.infer()
    step = kernel_of(call)(Binding(call.metas, (meta,), call.attrs))
    assert step is not None
    with pytest.raises((ConstraintError, RuntimeFault), match="outside"):
        step(*call.args, poisoned(meta))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("axes", [[0], [1], [-1, 0], [0, 1]])
def test_fourier_transforms(
    axes: list[int], norm: str, *, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the functions under numpy's, and by numpy's where these are unknown."""
    if not known:
        monkeypatch.setattr(fourier, "_compiled", dict)
    for n, dtype in ((1, np.float64), (6, np.float32), (9, np.float64)):
        x = RANDOM.standard_normal((n, n + 1)).astype(dtype)
        z = (x + 1j * x[::-1]).astype(np.result_type(dtype, np.complex64))
        last = {"last_dim_size": 2 * z.shape[axes[-1]] - 1}
        samples = [("fft_c2c", z, {}), ("fft_r2c", x, {"onesided": True}),
                   ("fft_r2c", x, {"onesided": False}), ("fft_c2r", z, last)]  # fmt: skip
        for forward in (True, False):
            common = {"axes": axes, "normalization": norm, "forward": forward}
            for op, array, attrs in samples:
                call = complete(lookup(f"pd_op.{op}"), Sample((array,), common | attrs))
                for given in (array, strided(array)):
                    found = run(kernel_of(call), call, (given,))
                    check(found, call.compute(), kernel_of(call), call)
