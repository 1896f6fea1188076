"""Resizing of images by interpolation between their elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pirkit.dialect.opdef import OpDef, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert, in_f32
from pirkit.runtime.interpolation import Taps, filter_matrix, taps_along
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

KIND = "gather"

METHODS: Final = ("nearest", "linear", "bilinear", "trilinear", "bicubic")
LAYOUTS: Final = ("NCHW", "NHWC")
"""Paddle writes these two for images of any rank."""

_SIGNATURE: Final = (
    "x, out_size?, size_tensor[]?, scale_tensor? ; "
    'data_format: str = "NCHW", out_d: i32 = 0, out_h: i32 = 0, out_w: i32 = 0, '
    'scale: f64[] = [], interp_method: str = "bilinear", align_corners: bool = True, '
    "align_mode: i32 = 1 -> output"
)
_SIZE_DTYPES: Final = {"out_size": dt.INTS, "size_tensor": dt.INTS, "scale_tensor": dt.FLOATS}


@op
class LinearInterp:
    """Resize sequences `[N, C, W]` (or NWC); each element lies between two.

    The size is the first given of `size_tensor`, `out_size`, `scale_tensor`, `scale` and `out_w`.
    `align_corners` maps the outermost elements to each other; otherwise `align_mode` 0 aligns the
    edges of the elements and 1 their starts.

    C1: `x` has three dimensions.
    C2: `interp_method` and `data_format` are known, and `nearest` for complex numbers.
    C3: the size is given, by one positive number per spatial dimension.
    """

    name = "pd_op.linear_interp"
    signature = _SIGNATURE
    dtypes = dt.FLOATS
    operand_dtypes = _SIZE_DTYPES


@op
class NearestInterp:
    """Resize images `[N, C, H, W]` or volumes (or channels last) by repeating or dropping elements.

    The size is the first given of `size_tensor`, `out_size`, `scale_tensor`, `scale` and `out_d`,
    `out_h`, `out_w`.

    C1: `x` has four or five dimensions.
    C2: `interp_method` and `data_format` are known, and `nearest` for complex numbers.
    C3: the size is given, by one positive number per spatial dimension.
    """

    name = "pd_op.nearest_interp"
    signature = _SIGNATURE
    dtypes = (*dt.FLOATS, *dt.INTS, dt.uint8)
    operand_dtypes = _SIZE_DTYPES


@op
class BilinearInterp:
    """Resize images `[N, C, H, W]` (or NHWC); each element is interpolated from four.

    Sizes and alignment are given as for `linear_interp`.

    C1: `x` has four dimensions.
    C2: `interp_method` and `data_format` are known, and `nearest` for complex numbers.
    C3: the size is given, by one positive number per spatial dimension.
    """

    name = "pd_op.bilinear_interp"
    signature = _SIGNATURE
    dtypes = dt.FLOATS
    operand_dtypes = _SIZE_DTYPES


@op
class BicubicInterp:
    """Resize images `[N, C, H, W]` (or NHWC); each is interpolated from sixteen.

    The cubic has the slope -0.75 (Keys 1981), and may overshoot.

    C1: `x` has four dimensions.
    C2: `interp_method` and `data_format` are known, and `nearest` for complex numbers.
    C3: the size is given, by one positive number per spatial dimension.
    """

    name = "pd_op.bicubic_interp"
    signature = _SIGNATURE
    dtypes = dt.FLOATS
    operand_dtypes = _SIZE_DTYPES


@op
class TrilinearInterp:
    """Resize volumes `[N, C, D, H, W]` (or NDHWC); each is interpolated from eight.

    Sizes and alignment are given as for `linear_interp`.

    C1: `x` has five dimensions.
    C2: `interp_method` and `data_format` are known, and `nearest` for complex numbers.
    C3: the size is given, by one positive number per spatial dimension.
    """

    name = "pd_op.trilinear_interp"
    signature = _SIGNATURE
    dtypes = dt.FLOATS
    operand_dtypes = _SIZE_DTYPES


@op
class InterpAntialias:
    """Resize images `[N, C, H, W]` (or NHWC) by `bilinear` or `bicubic`, without aliasing.

    Where the image shrinks, the filter is as wide as the elements that one of the result covers.
    Sizes are given as for `linear_interp`.

    C1: `x` has four dimensions.
    C2: `interp_method` is `bilinear` or `bicubic`, `data_format` known, and `x` not complex.
    C3: the size is given, by one positive number per spatial dimension.
    """

    name = "pd_op.interp_antialias"
    signature = _SIGNATURE
    dtypes = dt.FLOATS
    operand_dtypes = _SIZE_DTYPES


FILTERS: Final = ("bilinear", "bicubic")
"""Methods of `interp_antialias`."""

RANKS: Final = {
    LinearInterp: (3,),
    NearestInterp: (4, 5),
    BilinearInterp: (4,),
    BicubicInterp: (4,),
    TrilinearInterp: (5,),
}


def _rule(ranks: Sequence[int]) -> Callable[..., TensorMeta]:
    def rule(
        x: TensorMeta,
        out_size: TensorMeta | None,
        size_tensor: VecMeta | None,
        scale_tensor: TensorMeta | None,
        *,
        data_format: str,
        out_d: int,
        out_h: int,
        out_w: int,
        scale: Sequence[float],
        interp_method: str,
        align_corners: bool,
        align_mode: int,
    ) -> TensorMeta:
        require(x.rank in ranks, "C1", f"{x} has not {' or '.join(map(str, ranks))} dimensions")
        require(interp_method in METHODS, "C2", f"method {interp_method!r} is not in {METHODS}")
        is_real = interp_method == "nearest" or not x.dtype.is_complex
        require(is_real, "C2", f"method {interp_method!r} for {x}")
        require(data_format in LAYOUTS, "C2", f"data_format {data_format!r} is not in {LAYOUTS}")
        n, first = x.rank - 2, _first(data_format)
        lengths = x.shape[first : first + n]
        if out_size is None and size_tensor is None and scale_tensor is None:
            sizes = _sizes(lengths, scale, (out_d, out_h, out_w))
        else:
            sizes = (UNKNOWN,) * n
            fits = size_tensor is None or len(size_tensor) == n
            require(fits, "C3", f"{size_tensor} gives no sizes of {n} spatial dimensions")
            fits = out_size is None or (out_size.rank < 2 and out_size.numel in (n, UNKNOWN))
            require(fits, "C3", f"{out_size} gives no sizes of {n} spatial dimensions")
            fits = scale_tensor is None or scale_tensor.numel in (1, n, UNKNOWN)
            require(fits, "C3", f"{scale_tensor} scales no {n} spatial dimensions")
        return x.with_shape((*x.shape[:first], *sizes, *x.shape[first + n :]))

    return rule


for _op, _ranks in RANKS.items():
    infer_meta(_op)(_rule(_ranks))


@infer_meta(InterpAntialias)
def _(x: TensorMeta, *sizes: Any, interp_method: str, **how: Any) -> TensorMeta:
    require(interp_method in FILTERS, "C2", f"method {interp_method!r} is not in {FILTERS}")
    return _rule((4,))(x, *sizes, interp_method=interp_method, **how)


def _first(data_format: str) -> int:
    """The first spatial dimension."""
    return 2 if data_format == "NCHW" else 1


def _sizes(lengths: Sequence[int], scale: Sequence[float], sizes: Sequence[int]) -> tuple[int, ...]:
    """The size that the attributes ask for."""
    n = len(lengths)
    if scale:
        fits = len(scale) == n and min(scale) > 0
        require(fits, "C3", f"scale {list(scale)} is not {n} positive numbers")
        found = tuple(
            UNKNOWN if length == UNKNOWN else int(length * factor)
            for length, factor in zip(lengths, scale, strict=True)
        )
    else:
        found = tuple(sizes[-n:])
        require(min(found) > 0, "C3", f"no size is given: out_d, out_h, out_w are {list(sizes)}")
    empty = [length for length, size in zip(lengths, found, strict=True) if size == 0]
    require(not empty, "C3", f"scale {list(scale)} makes nothing of {empty} elements")
    return found


@reference(*RANKS)
def _(
    x: Array, *given: Any, data_format: str, interp_method: str, align_corners: bool,
    align_mode: int, **how: Any,
) -> Array:  # fmt: skip
    first = _first(data_format)
    every = [
        taps_along(interp_method, *each, align_corners, align_mode)
        for each in sizes_at_run(x, first, *given, **how)
    ]
    if interp_method == "nearest":
        return _resampled(x, first, every)
    kind = dt.of_array(x)
    wide = x if kind.is_float else x.astype(np.float64)
    return convert(in_f32(_resampled)(wide, first=first, every=every), kind)


def sizes_at_run(
    x: Array, first: int, out_size: Array | None, size_tensor: list[Array] | None,
    scale_tensor: Array | None, *, out_d: int, out_h: int, out_w: int, scale: Sequence[float],
) -> list[tuple[int, int, float | None]]:  # fmt: skip
    """Length, size and factor (None: their quotient) of each dimension from ``first`` on."""
    n = x.ndim - 2
    lengths = x.shape[first : first + n]
    factors: tuple[float | None, ...] = (None,) * n
    given = [out_size] if out_size is not None else []
    given = given if size_tensor is None else size_tensor
    if given:
        sizes = _sizes(lengths, (), tuple(int(v) for t in given for v in t.ravel()))
    else:
        if scale_tensor is not None:
            scale = tuple(float(v) for v in scale_tensor.ravel())
            scale = scale * n if len(scale) == 1 else scale
        sizes = _sizes(lengths, scale, (out_d, out_h, out_w))
        factors = tuple(scale) or factors
    return list(zip(lengths, sizes, factors, strict=True))


@reference(InterpAntialias)
def _(
    x: Array, *given: Any, data_format: str, interp_method: str, align_corners: bool,
    align_mode: int, **how: Any,
) -> Array:  # fmt: skip
    first = _first(data_format)
    found = x if x.dtype == np.float64 else x.astype(np.float32)
    for axis, (length, size, factor) in enumerate(sizes_at_run(x, first, *given, **how), first):
        matrix = filter_matrix(interp_method, length, size, factor, align_corners)
        found = np.moveaxis(np.moveaxis(found, axis, -1) @ matrix.T.astype(found.dtype), -1, axis)
    return convert(found, dt.of_array(x))


def _resampled(x: Array, first: int, every: Sequence[Taps]) -> Array:
    """Interpolate one dimension after the other."""
    for axis, taps in enumerate(every, first):
        shape = (-1, *(1,) * (x.ndim - axis - 1))
        parts = (
            taken if weight is None else taken * weight.astype(x.dtype).reshape(shape)
            for at, weight in taps
            for taken in [np.take(x, at, axis=axis)]
        )
        total = next(parts)
        for part in parts:
            total += part
        x = total
    return x


_METHOD: Final = {
    LinearInterp: "linear",
    NearestInterp: "nearest",
    BilinearInterp: "bilinear",
    BicubicInterp: "bicubic",
    TrilinearInterp: "trilinear",
}


def _shown(definition: OpDef) -> Callable[[SampleMaker], Iterator[Sample]]:
    n = RANKS[definition][0] - 2
    image = (5, 4, 6)[:n]
    sizes = dict(zip(("out_w", "out_h", "out_d"), (7, 3, 4), strict=True))
    given = {k: sizes[k] for k in list(sizes)[:n]}
    method = _METHOD[definition]

    def rule(s: SampleMaker) -> Iterator[Sample]:
        x = s.tensor(2, 3, *image)
        yield s(x, interp_method=method, **given)
        yield s(x, interp_method=method, scale=(1.5,) * n, align_corners=False, align_mode=0)
        yield s(x, interp_method=method, scale=(0.75,) * n, align_corners=False)
        yield s(
            s.tensor(2, *image, 3), s.array((1, 7, 4)[:n], dt.int32), interp_method=method,
            data_format="NHWC", align_corners=False, align_mode=0,
        )  # fmt: skip
        yield s(
            x, None, [s.array([v], dt.int32) for v in (6, 3, 2)[:n]], interp_method=method
        )  # fmt: skip
        yield s(x, None, None, s.array([2.5], dt.float32), interp_method=method)

    return rule


def _refused(definition: OpDef) -> Callable[[SampleMaker], Iterator[tuple[str, Sample]]]:
    rank = RANKS[definition][0]

    def rule(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
        x = s.tensor(1, 2, *(4,) * (rank - 2))
        good = {"interp_method": _METHOD[definition], "out_d": 3, "out_h": 3, "out_w": 3}
        yield "C1", s(s.tensor(4, 4), **good)
        yield "C2", s(x, **{**good, "interp_method": "lanczos"})
        yield "C2", s(x, **{**good, "data_format": "NCWH"})
        yield "C3", s(x, interp_method=_METHOD[definition])
        yield "C3", s(x, **good, scale=(2.0,) * (rank - 1))
        yield "C3", s(x, **good, scale=(0.1,) * (rank - 2))

    return rule


for _op in RANKS:
    samples(_op)(_shown(_op))
    bad_samples(_op)(_refused(_op))


@samples(InterpAntialias)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 3, 9, 7)
    yield s(x, interp_method="bilinear", out_h=4, out_w=3, align_corners=False)
    yield s(x, interp_method="bicubic", out_h=3, out_w=11, align_corners=False)
    yield s(x, interp_method="bilinear", scale=(0.4, 1.5), align_corners=False)
    yield s(x, interp_method="bicubic", out_h=5, out_w=5)
    yield s(
        s.tensor(2, 9, 7, 3), s.array((4, 3), dt.int32), interp_method="bilinear",
        data_format="NHWC", align_corners=False,
    )  # fmt: skip


@bad_samples(InterpAntialias)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    good = {"interp_method": "bilinear", "out_h": 3, "out_w": 3}
    yield "C1", s(s.tensor(4, 4), **good)
    yield "C2", s(s.tensor(1, 2, 4, 4), **{**good, "interp_method": "nearest"})
    yield "C3", s(s.tensor(1, 2, 4, 4), interp_method="bilinear")
