"""Tensors that are copied one after the other into a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

KIND = "algorithm"

CHUNK = 4096
"""Bytes that Paddle aligns tensors to on a CPU."""


@op
class CoalesceTensor:
    """The elements of all tensors of `input` in one, and each of them.

    `copy_data` keeps the elements; else `set_constant` makes all of them `constant`, and if neither
    is set, they are 0 (Paddle leaves them uninitialised, as what lies between aligned tensors).
    With `use_align` each begins at a multiple of `align_size` bytes, 4096 for -1. Paddle's results
    share their memory; these do not. Both have no derivative.

    C1: `input` has a tensor, and all have the element type `dtype`.
    C2: `align_size` and `size_of_dtype` are positive or -1.
    C3: `concated_ranks` has a number for each tensor, or none; what it says is ignored, as is
        `concated_shapes`.
    """

    name = "pd_op.coalesce_tensor"
    signature = (
        "input[] ; dtype: dtype, copy_data: bool = False, set_constant: bool = False, "
        "persist_output: bool = False, constant: f32 = 0.0, use_align: bool = True, "
        "align_size: i32 = -1, size_of_dtype: i32 = -1, concated_shapes: i64[] = [], "
        "concated_ranks: i64[] = [] -> output[], fused_output"
    )
    dtypes = (dt.float32, dt.float64, dt.int32, dt.float16, dt.bfloat16)
    no_gradient = ("input",)


@infer_meta(CoalesceTensor)
def _(
    input: VecMeta,
    *,
    dtype: DType | None,
    use_align: bool,
    align_size: int,
    size_of_dtype: int,
    concated_ranks: Sequence[int],
    **_: object,
) -> tuple[VecMeta, TensorMeta]:
    items = input.items
    kinds = {str(item.dtype) for item in items}
    require(kinds == {str(dtype)}, "C1", f"tensors of {sorted(kinds)} as {dtype}")
    for size in (align_size, size_of_dtype):
        require(size == -1 or size > 0, "C2", f"a size of {size} bytes")
    require(len(concated_ranks) in (0, len(items)), "C3", f"{len(concated_ranks)} ranks")
    total = UNKNOWN
    if all(item.is_static for item in items):
        shapes = [item.shape for item in items]
        total = sum(padded_sizes(shapes, items[0].dtype, use_align, align_size, size_of_dtype))
    return input, TensorMeta((total,), items[0].dtype)


@paddle_meta(CoalesceTensor)
def _(input: VecMeta, **_: object) -> tuple[VecMeta, TensorMeta]:
    """Paddle's programs state that the other result has no elements, and float32."""
    return input, TensorMeta((0,), dt.float32)


def padded_sizes(
    shapes: Sequence[Sequence[int]], dtype: DType, use_align: bool, unit: int, each: int
) -> list[int]:
    """The elements of the buffer that each tensor takes up, padded to the alignment."""
    counts = [prod(shape) for shape in shapes]
    if not use_align:
        return counts
    each = dtype.itemsize if each == -1 else each
    unit = CHUNK if unit == -1 else unit
    return [-(-count * each // unit) * unit // each for count in counts]


@reference(CoalesceTensor)
def _(
    input: Sequence[Array],
    *,
    copy_data: bool,
    set_constant: bool,
    constant: float,
    use_align: bool,
    align_size: int,
    size_of_dtype: int,
    **_: object,
) -> tuple[list[Array], Array]:
    kind = input[0].dtype
    fill = np.asarray(constant if set_constant and not copy_data else 0).astype(kind)
    outs = [np.array(x) if copy_data else np.full(x.shape, fill) for x in input]
    held = dt.of_array(input[0])
    sizes = padded_sizes([x.shape for x in input], held, use_align, align_size, size_of_dtype)
    fused = np.full((sum(sizes),), fill)
    ends = np.cumsum([0, *sizes])
    for start, out in zip(ends, outs, strict=False):
        fused[start : start + out.size] = out.reshape(-1)
    return outs, fused


@samples(CoalesceTensor)
def _(s: SampleMaker) -> Iterator[Sample]:
    pair = [s.tensor(3), s.tensor(2, 2)]
    yield s(pair, dtype=s.dtype, copy_data=True, use_align=False)
    yield s(pair, dtype=s.dtype, set_constant=True, constant=2.5, use_align=False)
    yield s(pair, dtype=s.dtype, copy_data=True, align_size=16)
    yield s(pair, dtype=s.dtype, set_constant=True, constant=2.5, align_size=10, size_of_dtype=4)


@bad_samples(CoalesceTensor)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(3)
    yield "C1", s([x], dtype=dt.int64)
    yield "C2", s([x], dtype=s.dtype, align_size=0)
    yield "C3", s([x], dtype=s.dtype, concated_ranks=(1, 1))
