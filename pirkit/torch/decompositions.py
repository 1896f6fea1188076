"""The decompositions that capture uses: torch's, and pirkit's own for other ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pirkit.diag.errors import UnsupportedError
from pirkit.torch.foreach import foreach
from pirkit.torch.libtorch import aten, decomposition, torch
from pirkit.torch.rules import RULES

_TABLES: Final[list[dict[Any, Callable[..., Any]]]] = []


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Decompositions of overloads that have no rule, as functions of the arguments of a call.

    `linspace` and `grid_sampler_2d` have both: their decompositions return NotImplemented for the
    calls that the rule is for.
    """
    if not _TABLES:
        known = decomposition.core_aten_decompositions()
        more = decomposition.get_decompositions(
            [
                aten._scaled_dot_product_flash_attention_for_cpu,
                aten._native_batch_norm_legit_functional,
                aten.native_dropout_backward,
                aten.rrelu_with_noise_functional,
                aten.multilabel_margin_loss_forward,
                aten.linear_backward,
                aten.elu_backward,
                aten.im2col,
            ]
        )
        own = {
            aten._trilinear.default: _trilinear,
            aten._cdist_forward.default: _cdist,
            aten._euclidean_dist.default: _euclidean_dist,
            aten._pdist_forward.default: _pdist,
            aten.dist.default: _dist,
            aten.ldexp.Tensor: _ldexp,
            aten.diagonal_scatter.default: _diagonal_scatter,
            aten.histc.default: _histc,
            aten.narrow_copy.default: _narrow_copy,
            aten._embedding_bag.default: _embedding_bag,
            aten._embedding_bag_forward_only.default: _embedding_bag,
            aten.max_unpool2d.default: _max_unpool,
            aten.max_unpool3d.default: _max_unpool,
            aten.fake_quantize_per_tensor_affine_cachemask.default: _fake_quantized,
            aten.fake_quantize_per_channel_affine_cachemask.default: _fake_quantized_channels,
            aten.bernoulli.default: _bernoulli,
            aten.bernoulli.Tensor: _bernoulli_like,
            aten.multinomial.default: _multinomial,
            aten.normal.Tensor_Tensor: _normal,
            aten.normal.Tensor_float: _normal,
            aten.normal.float_Tensor: _normal,
        }
        table = {
            op: d for op, d in {**foreach(), **more, **known, **own}.items() if str(op) not in RULES
        }
        table |= {op: partial(_linspace, d) for op, d in known.items()
                  if str(op).startswith("aten.linspace.")}  # fmt: skip
        bicubic = decomposition.get_decompositions([aten.grid_sampler_2d.default])
        table |= {op: partial(_bicubic_grid, d) for op, d in bicubic.items()}
        table.pop(aten.bernoulli.p, None)  # its parts draw other numbers than torch does
        _TABLES.append(table)
    return _TABLES[0]


def _trilinear(
    x: Any, y: Any, z: Any, expand1: Any, expand2: Any, expand3: Any, sums: Any, _: int = 1
) -> Any:  # fmt: skip
    """The product of three tensors, each broadcast along some dimensions, summed over others."""
    rank = x.dim() + len(expand1)
    a, b, c = ([d for d in range(rank) if d not in e] for e in (expand1, expand2, expand3))
    return torch.einsum(x, a, y, b, z, c, [d for d in range(rank) if d not in sums])


def _cdist(x: Any, y: Any, p: float, _: int | None = None) -> Any:
    if not (x.numel() and y.numel()):  # norms of an empty dimension may raise an error
        return NotImplemented
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def _euclidean_dist(x: Any, y: Any) -> Any:
    """Distances by one product of matrices; as in torch, the gradient of a zero is zero."""
    (xx, yy), ones = (t.pow(2).sum(-1, True) for t in (x, y)), torch.ones_like
    rows = torch.cat([x * -2, xx, ones(xx)], -1)
    columns = torch.cat([y, ones(yy), yy], -1)
    squares = torch.matmul(rows, columns.mT).clamp_min(0)
    is_zero = squares == 0
    return torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, squares).sqrt())


def _pdist(x: Any, p: float = 2.0) -> Any:
    rows, columns = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return torch.linalg.vector_norm(x[rows] - x[columns], p, -1)


def _dist(x: Any, y: Any, p: float = 2.0) -> Any:
    return torch.linalg.vector_norm(x - y, p)


def _ldexp(x: Any, exponent: Any) -> Any:
    return x * torch.pow(2.0, exponent)


def _bicubic_grid(plain: Callable[..., Any], x: Any, grid: Any, mode: int, *args: Any) -> Any:
    """torch's decomposition of bicubic sampling (mode 2); the others have a rule."""
    return plain(x, grid, mode, *args) if mode == 2 else NotImplemented


def _diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """``x`` with ``source`` on a diagonal: a mask selects from a matrix with that diagonal."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    length = source.shape[-1]
    rows, columns = x.shape[dim1], x.shape[dim2]
    down, right = max(-offset, 0), max(offset, 0)
    placed = torch.diag_embed(source)
    placed = torch.constant_pad_nd(
        placed, (right, columns - length - right, down, rows - length - down)
    ).movedim((-2, -1), (dim1, dim2))
    steps = [torch.arange(n, device=x.device) for n in (rows, columns)]
    mask = steps[1][None, :] - steps[0][:, None] == offset
    shape = [1] * x.dim()
    shape[dim1], shape[dim2] = rows, columns
    return torch.where((mask if dim1 < dim2 else mask.t()).reshape(shape), placed, x)


def _narrow_copy(x: Any, dim: int, start: int, length: int) -> Any:
    return x.narrow(dim, start, length).clone()


def _histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Counts of elements in bins of equal width; those outside, and NaN, count nowhere."""
    x = x.reshape(-1)
    low, high = min, max
    if min == max:
        if not x.numel():
            return x.new_zeros(bins)
        least, largest = x.min(), x.max()
        flat = least == largest
        low, high = torch.where(flat, least - 1, least), torch.where(flat, largest + 1, largest)
    inside = (x >= low) & (x <= high)
    place = ((torch.where(inside, x, low) - low) * bins / (high - low)).to(torch.int64)
    return x.new_zeros(bins).index_add(0, place.clamp(0, bins - 1), inside.to(x.dtype))


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Sums (mode 0), means (1) or maxima (2) of rows ``weight[indices]`` from each offset on.

    Bags without rows are zeros. Gives ``[bags, width]``, the bag of each index, the sizes of bags,
    and in place of the indices of maxima the sizes again. Raises UnsupportedError (PK0409) for
    gradients that are scaled by frequency, which are no derivative.
    """
    if scale_grad_by_freq:
        raise UnsupportedError("`scale_grad_by_freq` has no rule", code="PK0409")
    starts = offsets[: offsets.shape[0] - 1] if include_last_offset else offsets
    bags, width = starts.shape[0], weight.shape[1]
    places = torch.arange(indices.shape[0], device=indices.device)
    bag = torch.searchsorted(starts.to(torch.int64), places, right=True) - 1
    kept = indices != padding_idx
    sizes = torch.zeros(bags, dtype=torch.int64, device=indices.device)
    sizes = sizes.index_add(0, bag, kept.to(torch.int64))
    rows = weight.index_select(0, indices)
    if mode == 2:
        rows = rows.masked_fill(~kept[:, None], float("-inf"))
        found = weight.new_full((bags, width), float("-inf"))
        found = found.scatter_reduce(0, bag[:, None].expand_as(rows), rows, "amax")
        return found.masked_fill((sizes == 0)[:, None], 0.0), bag, sizes, sizes
    scale = kept.to(weight.dtype)
    if per_sample_weights is not None:
        scale = scale * per_sample_weights
    found = weight.new_zeros(bags, width).index_add(0, bag, rows * scale[:, None])
    if mode == 1:
        found = found / sizes.clamp(min=1)[:, None].to(weight.dtype)
    return found, bag, sizes, sizes


def _max_unpool(x: Any, indices: Any, output_size: Any, *_: Any) -> Any:
    """Elements at their places in a plane of zeros.

    As in torch, each element gets the cotangent of its place, even if another element was written
    there after it.
    """
    rank = len(output_size)
    shape = (*x.shape[:-rank], *output_size)
    held = x.flatten(-rank)
    zeros = x.new_zeros(*held.shape[:-1], math.prod(output_size))
    places = indices.flatten(-rank)
    found = zeros.scatter(-1, places, held)
    if found.is_floating_point() and found.numel():
        seed = torch.ops.pirkit.stand_in(found)
        (found,) = torch.ops.pirkit.custom([found], [held], [seed], [seed.gather(-1, places)])
    return found.reshape(shape)


def _fake_quantized(x: Any, scale: Any, zero: Any, least: int, largest: int) -> Any:
    """``x`` rounded to steps of ``scale`` and clamped, and where it is in range.

    There the gradient passes as if nothing was rounded. As in torch, the scale is of float32.
    """
    if not isinstance(scale, torch.Tensor):
        scale = x.new_full((), scale, dtype=torch.float32)
    step = (x * scale.reciprocal()).round() + zero
    mask = (step >= least) & (step <= largest)
    seed = torch.ops.pirkit.stand_in(x)
    found = ((step.clamp(least, largest) - zero).to(torch.float32) * scale).to(x.dtype)
    (found,) = torch.ops.pirkit.custom([found], [x], [seed], [seed * mask])
    return found, mask


def _fake_quantized_channels(
    x: Any, scale: Any, zero: Any, axis: int, least: int, largest: int
) -> Any:
    """The same, with a scale and a zero point for each place along an axis."""
    shape = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    return _fake_quantized(x, scale.reshape(shape), zero.reshape(shape), least, largest)


def _bernoulli(p: Any, generator: Any = None) -> Any:
    return _bernoulli_like(p, p, generator)


def _bernoulli_like(x: Any, p: Any, generator: Any = None) -> Any:
    """One where a number of `rand` is below its probability, else zero, as torch's kernel draws."""
    if generator is not None:
        return NotImplemented
    dtype = torch.float64 if p.dtype is torch.float64 else torch.float32
    return (torch.rand(x.shape, dtype=dtype, device=x.device) < p).to(x.dtype)


def _normal(mean: Any, std: Any = 1.0, generator: Any = None) -> Any:
    """Normal numbers with a mean and a deviation for each; the gradients of both are zeros."""
    if generator is not None:
        return NotImplemented
    like = mean + std
    found = torch.randn(like.shape, dtype=like.dtype, device=like.device) * std + mean
    given = [t for t in (mean, std) if isinstance(t, torch.Tensor)]
    seed = torch.ops.pirkit.stand_in(found)
    (found,) = torch.ops.pirkit.custom([found], given, [seed], [*map(torch.zeros_like, given)])
    return found


def _multinomial(p: Any, count: int, replacement: bool = False, generator: Any = None) -> Any:
    """Indices of categories, chosen as torch's kernel chooses them, by the numbers it draws."""
    if generator is not None:
        return NotImplemented
    if not replacement or count == 1:
        scores = p / aten.exponential.default(p, 1.0)
        return scores.argmax(-1, keepdim=True) if count == 1 else scores.topk(count)[1]
    if p.dtype not in (torch.float32, torch.float64):  # torch sums these in a wider type
        return NotImplemented
    total = p.cumsum(-1)
    bounds = (total / total[..., -1:]).to(torch.float64)[..., None, :-1]
    drawn = torch.rand((*p.shape[:-1], count), dtype=torch.float64, device=p.device)
    return (bounds < drawn[..., None]).sum(-1)


def _linspace(plain: Callable[..., Any], *args: Any, dtype: Any = None, **options: Any) -> Any:
    """torch's decomposition for floating results; integers have a rule, rounded as by torch."""
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        return plain(*args, dtype=dtype, **options)
    return NotImplemented
