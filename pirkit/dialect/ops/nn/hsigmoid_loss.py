"""Classes as leaves of a binary tree: a decision at each node on the way to a class."""

from __future__ import annotations

from collections.abc import Iterator

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
from pirkit.dialect.shapes import numel, same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"


@op
class HsigmoidLoss:
    """Cross entropy of a hierarchical sigmoid: the decisions on the way to `label [N, 1]`.

    Each node of the tree has a row of `w` and an element of `bias`. The products of the rows with
    `x [N, D]`, plus the bias, are clipped to [-40, 40], and are 0 after the last node of a way;
    `pre_out [N, L]` is `log(1 + exp(product))`, as Paddle's kernel stores it. In a complete tree
    the binary digits of `c + num_classes` are the way to class c. Of another tree, `path [N, L]`
    and `code [N, L]` hold the nodes of each way and its decisions, and -1 after its end. As in
    Paddle each way costs as many decisions as the longest: those after its end cost log(2).
    `is_sparse` changes only how training stores gradients; `w_out` is `w`.

    C1: `x` is a matrix, `label` has a number for each of its rows.
    C2: `w` has a row of the length of those of `x` for each node, and `bias` an element.
    C3: `path` and `code` are both given, of one shape with a row for each of `x`, or neither.
    C4: there are at least two classes.
    C5: each label is a class.
    """

    name = "pd_op.hsigmoid_loss"
    signature = (
        "x, label, w, bias?, path?, code? ; num_classes: i32, is_sparse: bool "
        "-> out, pre_out~, w_out~"
    )
    dtypes = (dt.float32, dt.float64)
    same_dtype = ("x", "w", "bias")
    operand_dtypes = {"label": (dt.int64,), "path": (dt.int64,), "code": (dt.int64,)}


def depth(num_classes: int) -> int:
    """Nodes on the longest way in a complete tree."""
    return (num_classes - 1).bit_length()


@infer_meta(HsigmoidLoss)
def _(
    x: TensorMeta,
    label: TensorMeta,
    w: TensorMeta,
    bias: TensorMeta | None,
    path: TensorMeta | None,
    code: TensorMeta | None,
    *,
    num_classes: int,
    **_: object,
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    require(num_classes >= 2, "C4", f"{num_classes} classes")
    rows = x.rank == 2 and numel(label.shape) in (x.shape[0], UNKNOWN)
    require(rows or (x.rank == 2 and x.shape[0] == UNKNOWN), "C1", f"labels {label} for {x}")
    fits = w.rank == 2 and same_dim(w.shape[1], x.shape[1])
    if path is None:
        fits = fits and (w.shape[0] >= num_classes - 1 or w.shape[0] == UNKNOWN)
    fits = fits and (bias is None or same_dim(numel(bias.shape), w.shape[0]))
    require(fits, "C2", f"weights {w} and bias {bias} for {x}")
    both = (path is None) == (code is None)
    if path is not None and code is not None:
        both = path.rank == code.rank == 2 and same_dim(path.shape[0], x.shape[0])
        both = both and all(map(same_dim, path.shape, code.shape))
    require(both, "C3", f"path {path} and code {code}")
    length = depth(num_classes) if path is None else path.shape[1]
    return x.with_shape((x.shape[0], 1)), x.with_shape((x.shape[0], length)), w


@paddle_meta(HsigmoidLoss)
def _(x: TensorMeta, *_: object, **__: object) -> tuple[TensorMeta, ...]:
    unset = TensorMeta((0,), dt.float32)
    return x.with_shape((x.shape[0], 1)), unset, unset


def _way(label: Array, num_classes: int) -> tuple[Array, Array]:
    """Nodes and decisions, from the node above the leaf to the root; -1 after the end."""
    bits: Array = np.arange(depth(num_classes))
    number = label.reshape(-1, 1) + num_classes
    node = (number >> (bits + 1)) - 1
    return node, np.where(node >= 0, (number >> bits) & 1, -1)


@reference(HsigmoidLoss)
def _(
    x: Array,
    label: Array,
    w: Array,
    bias: Array | None,
    path: Array | None,
    code: Array | None,
    *,
    num_classes: int,
    **_: object,
) -> tuple[Array, Array, Array]:
    if path is None or code is None:
        known = (label >= 0) & (label < num_classes)
        require(bool(np.all(known)), "C5", f"labels {label.reshape(-1).tolist()}")
        path, code = _way(label, num_classes)
    node = np.where(path >= 0, path, 0)
    own = np.einsum("nd,nld->nl", x, w[node])
    if bias is not None:
        own = own + bias.reshape(-1)[node]
    cut = np.where(path >= 0, np.clip(own, -40, 40), 0).astype(x.dtype)
    out = np.log1p(np.exp(cut))
    cost = out - np.where((path >= 0) & (code == 1), cut, 0)
    return cost.sum(axis=1, keepdims=True), out, w


@samples(HsigmoidLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    x, label = s.tensor(3, 4), s.array([[0], [4], [2]], dt.int64)
    yield s(x, label, s.tensor(4, 4), s.tensor(4, 1), num_classes=5, is_sparse=False)
    yield s(x, label, s.tensor(7, 4), None, num_classes=8, is_sparse=False)
    path = s.array([[0, 2], [1, -1], [0, 1]], dt.int64)
    code = s.array([[1, 0], [1, -1], [0, 1]], dt.int64)
    yield s(x, label, s.tensor(3, 4), s.tensor(3, 1), path, code, num_classes=5, is_sparse=False)


@bad_samples(HsigmoidLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, label, w = s.tensor(3, 4), s.array([[0], [4], [2]], dt.int64), s.tensor(4, 4)
    yield "C1", s(x, label[:2], w, num_classes=5, is_sparse=False)
    yield "C2", s(x, label, w[:, :3], num_classes=5, is_sparse=False)
    yield "C3", s(x, label, w, None, label, num_classes=5, is_sparse=False)
    yield "C4", s(x, label, w, num_classes=1, is_sparse=False)
    yield "C5", s(x, label + 1, w, num_classes=5, is_sparse=False)
