"""Matmuls and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Dense
from pirkit.stablehlo.ops.views import padded
from pirkit.stablehlo.rules import rule

_PRODUCTS = (*dt.FLOATS, *dt.INTS, *dt.COMPLEX)


@rule("dot_general", "dot")
def _(
    b: HloBuilder, x: Value, y: Value, dot_dimension_numbers: Mapping[str, Any] | None = None,
    batching_dims: Any = ((), ()), contracting_dims: Any = ((), ()), precision: Any = None,
    precision_config: Any = None, algorithm: Any = None,
) -> Value:  # fmt: skip
    """Sums of products over the contracted dimensions, as one matmul."""
    if b.node.name == "stablehlo.dot":
        contracting_dims = ([x.rank - 1], [0])
    if dot_dimension_numbers is not None:
        held = dot_dimension_numbers
        batching_dims, contracting_dims = (
            [held.get(f"{side}_{what}_dimensions", []) for side in ("lhs", "rhs")]
            for what in ("batching", "contracting")
        )
    left = _matrix(b, x, batching_dims[0], contracting_dims[0], last=True)
    right = _matrix(b, y, batching_dims[1], contracting_dims[1], last=False)
    out = b.outs[0]
    wide = out.dtype if out.dtype in _PRODUCTS else dt.int32
    found = b("pd_op.matmul", b.cast(left, wide), b.cast(right, wide))
    return b.reshape(b.cast(found, out.dtype), out.sizes)


def _matrix(
    b: HloBuilder, x: Value, batch: Sequence[int], over: Sequence[int], last: bool
) -> Value:
    """``x`` as batches of matrices: ``[..., free, contracted]``, or without ``last`` transposed."""
    free = [d for d in range(x.rank) if d not in batch and d not in over]
    order = [*batch, *free, *over] if last else [*batch, *over, *free]
    sizes = [prod([x.shape[d] for d in dims]) for dims in ((free, over) if last else (over, free))]
    return b.reshape(b.permute(x, order), (*(x.shape[d] for d in batch), *sizes))


@rule("convolution")
def _(
    b: HloBuilder, x: Value, weight: Value, dimension_numbers: Sequence[Sequence[str]],
    window: Mapping[str, Any] | None = None, feature_group_count: int = 1,
    batch_group_count: int = 1, precision_config: Any = None,
    window_strides: Sequence[int] | None = None, padding: Dense | None = None,
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
    window_reversal: Sequence[bool] | None = None,
) -> Value:  # fmt: skip
    """A convolution, transposed before to images [N, C, ...] and filters [O, I, ...].

    Attributes come in ``window`` (pretty form) or one by one (generic form). Integers are computed
    in float64, whose results are rounded.
    """
    given: Mapping[str, Any] = window or {}
    rank = x.rank - 2
    if not 1 <= rank <= 3:
        raise b.unsupported(f"over {rank} dimensions has no rule")
    ones = [1] * rank
    steps: list[int] = list(given.get("stride") or window_strides or ones)
    spread: list[int] = list(given.get("rhs_dilate") or rhs_dilation or ones)
    inner: list[int] = [n - 1 for n in given.get("lhs_dilate") or lhs_dilation or ones]
    turned: Sequence[Any] = given.get("reverse") or window_reversal or []
    pads: Any = given.get("pad") or (padding.array.tolist() if padding else [[0, 0]] * rank)
    from_x, from_weight, to = dimension_numbers
    x = b.permute(x, _order(from_x, "b", "f"))
    weight = b.permute(weight, _order(from_weight, "o", "i"))
    axes = [d + 2 for d, is_reversed in enumerate(turned) if is_reversed]
    weight = b.flip(weight, axis=tuple(axes)) if axes else weight
    if min(batch_group_count, feature_group_count) < 1:
        raise b.malformed("there is at least one group")
    if batch_group_count > 1:  # the groups of the batch are groups of channels
        groups, (n, c, *sizes) = batch_group_count, x.shape
        rows = b.reshape(x, (groups, n // groups, c, *sizes))
        moved = b.permute(rows, [1, 0, *range(2, rows.rank)])
        x = b.reshape(moved, (n // groups, groups * c, *sizes))
        feature_group_count = groups
    low, high = [int(pad[0]) for pad in pads], [int(pad[1]) for pad in pads]
    # Equal padding of both sides is left to the op; the rest is applied before.
    even = [n if n == m and n > 0 and not any(inner) else 0
            for n, m in zip(low, high, strict=True)]  # fmt: skip
    low = [0, 0, *(n - m for n, m in zip(low, even, strict=True))]
    high = [0, 0, *(n - m for n, m in zip(high, even, strict=True))]
    wide = b.outs[0].dtype if b.outs[0].dtype.is_float else dt.float64
    x, weight = b.cast(x, wide), b.cast(weight, wide)
    x = padded(b, x, b.const(0.0, wide), low, high, [0, 0, *inner])
    flat = rank == 1
    if flat:  # an image of one row
        x, weight = (b.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (x, weight))
        steps, spread, even = [1, *steps], [1, *spread], [0, *even]
    out = b("pd_op.conv3d" if rank == 3 else "pd_op.conv2d", x, weight, strides=tuple(steps),
            paddings=tuple(even), dilations=tuple(spread), groups=feature_group_count)  # fmt: skip
    out = b.reshape(out, (*out.shape[:2], out.shape[3])) if flat else out
    back = _order(to, "b", "f")
    out = b.permute(out, [back.index(d) for d in range(len(back))])
    return b.cast(out if wide is b.outs[0].dtype else b.round(out), b.outs[0].dtype)


def _order(names: Sequence[str], first: str, second: str) -> list[int]:
    """The permutation of a layout to ``first``, ``second``, and spatial dimensions in order."""
    spatial = [str(i) for i in range(len(names) - 2)]
    return [list(names).index(n) for n in (first, second, *spatial)]
