"""Graphs whose rows do not depend on each other: code for one number of rows serves all.

A graph is *row by row* along a symbol if each tensor that depends on the inputs with that symbol
has it as a factor of one dimension, its row axis, and no op mixes rows. Then the rows of a call are
computed in blocks of a size that has been compiled. The last block is padded with copies of its
last row, whose results are dropped, so they get no cotangent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Protocol, cast

from pirkit.torch.captured_graph import Captured
from pirkit.torch.libtorch import listed, sympify, torch

MOST: Final = 16
"""The most blocks of a call that count as few: with more, a number of rows gets code of its own
after fewer calls."""
AXIS: Final = "pirkit_row_axis"
"""In the meta of a node while a symbol is examined: the row axis, and of how many parts it
consists, each with all rows. A view that merges other dimensions with the rows makes several."""

Condition = Callable[[Any, int, int], bool]
"""Whether a node keeps rows apart, by the row axis of an operand and the rank of the operand."""


def _shape(node: Any) -> Any:
    return node.meta["val"].shape


def _along(number: int = 1) -> Condition:
    """For ops that work along dimensions, given by argument ``number``: none is the row axis."""

    def keeps(node: Any, axis: int, rank: int) -> bool:
        dims = node.args[number] if len(node.args) > number else node.kwargs.get("dim")
        found = [] if dims is None else listed(dims)
        return bool(found) and all(isinstance(d, int) and d % rank != axis for d in found)

    return keeps


def _always(node: Any, axis: int, rank: int) -> bool:
    return True


def _leading(node: Any, axis: int, rank: int) -> bool:
    """For ops on batches of images: the row axis is the batch."""
    return axis == 0 and rank > 3


def _outer(count: Callable[[Any], int]) -> Condition:
    """For ops over the last ``count(node)`` dimensions: the row axis is before them."""
    return lambda node, axis, rank: axis < rank - count(node)


def _count(sizes: Sequence[Any]) -> Any:
    numbers = [n.node.expr if isinstance(n, torch.SymInt) else n for n in sizes]
    return prod(numbers, start=sympify(1))


def _index(node: Any, axis: int, rank: int) -> bool:
    """Rows of indices read a table without rows, or the same places of each row are read."""
    table, indices = node.args[:2]
    own = _axis(table)
    return own is None or (
        (own >= len(indices) or indices[own] is None) and not any(map(_has_rows, indices))
    )


def _gathered(node: Any, axis: int, rank: int) -> bool:
    return _axis(node.args[0]) == axis == _axis(node.args[2]) and _along()(node, axis, rank)


_VIEWS: Final = ("view", "_unsafe_view", "reshape")
_SIZED: Final = (*_VIEWS, "expand", "full", "zeros", "ones")
"""Ops that take sizes, in which the symbol may occur."""

_ALONG: Final = (
    "_softmax", "_safe_softmax", "_log_softmax", "sum.dim_IntList", "mean.dim", "amax", "amin",
    "prod.dim_int",
    "any.dim", "all.dim", "argmax", "argmin", "cumsum", "cumprod", "sort", "logsumexp",
    "var.correction", "var_mean.correction", "std.correction", "max.dim", "min.dim", "slice.Tensor",
    "select.int", "unbind.int", "cat", "flip", "glu",
)  # fmt: skip

_OPS: Final[dict[str, Condition]] = {
    **dict.fromkeys((
        "expand", "full", "zeros", "ones", "clone", "_to_copy", "alias", "detach", "permute",
        "transpose.int", "t", "unsqueeze", "squeeze.dim", "squeeze.dims", "squeeze", "full_like",
        "zeros_like", "ones_like", "lift_fresh_copy", "mm", "addmm", "bmm", "baddbmm", "embedding",
        "pirkit.matmul", *_VIEWS,
    ), _always),
    **dict.fromkeys(_ALONG, _along()),
    **dict.fromkeys(("topk", "split.Tensor", "split_with_sizes"), _along(2)),
    **dict.fromkeys((
        "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "native_group_norm",
        "upsample_nearest2d.vec", "upsample_bilinear2d.vec", "_native_batch_norm_legit_no_training",
        "pirkit.batch_norm", "convolution",
    ), _leading),
    "native_layer_norm": _outer(lambda node: len(node.args[1])),
    "pirkit.linear": _outer(lambda node: 1),
    **dict.fromkeys(("tril", "triu"), _outer(lambda node: 2)),
    "constant_pad_nd": _outer(lambda node: len(node.args[1]) // 2),
    "index.Tensor": _index, "gather": _gathered,
}  # fmt: skip
"""The condition of each op whose result has rows. Elementwise ops are known by their tag."""

_TAKES_ROWS: Final = {
    "embedding": (1,), "addmm": (0, 1),
    **dict.fromkeys(("mm", "convolution", "native_group_norm", "native_layer_norm",
                     "_native_batch_norm_legit_no_training", "pirkit.linear",
                     "pirkit.batch_norm"), (0,)),
}  # fmt: skip
"""The operands that may have rows, for ops whose other operands must be the same for all rows."""


def _symbols(given: Any) -> set[Any]:
    expression = getattr(getattr(given, "node", None), "expr", None)
    return set(getattr(expression, "free_symbols", ()))


def _is_empty(value: Any) -> bool:
    """Whether a size is known to be 0; sizes that depend on data are not compared."""
    return any(isinstance(n, int) and n == 0 for n in value.shape)


def _axis(node: Any) -> int | None:
    return getattr(node, "meta", {}).get(AXIS, (None,))[0]


def _has_rows(node: Any) -> bool:
    return _axis(node) is not None


def row_symbol(captured: Captured, symbols: Iterable[Any]) -> Any:
    """The symbol along which a graph is row by row; None if there is none."""
    return next((s for s in symbols if _is_row_by_row(captured, s)), None)


def _is_row_by_row(captured: Captured, symbol: Any) -> bool:
    """Whether all nodes keep rows apart, and rows of inputs and outputs are not in parts."""
    nodes = list(captured.graph.nodes)
    try:
        ends = (*captured.placeholders, *captured.outputs)
        return (all(_keeps_rows(node, symbol) for node in nodes) and any(map(_has_rows, nodes))
                and all(node.meta.get(AXIS, (0, 1))[1] == 1 for node in ends))  # fmt: skip
    finally:
        for node in nodes:
            node.meta.pop(AXIS, None)


def _keeps_rows(node: Any, symbol: Any) -> bool:
    """Whether a node keeps rows apart; writes down the row axis of its results."""
    if node.op == "output":
        return True
    values = listed(node.meta.get("val"))
    tensors = [v for v in values if isinstance(v, torch.Tensor) and not _is_empty(v)]
    if not tensors:  # a size does not depend on the content of rows; another number may
        is_size = str(node.target).startswith("aten.sym_")
        return is_size or not any(map(_has_rows, node.all_input_nodes))
    axes = {row_axis(v, symbol) for v in tensors}
    given = [n for n in node.all_input_nodes if _has_rows(n)]
    if axes == {None}:
        return not given
    if len(axes) > 1 or -1 in axes:
        return False
    (axis,) = axes
    parts = _parts(node, axis, given)
    node.meta[AXIS] = axis, parts
    if node.op != "call_function":
        return True
    return parts is not None and _is_separate(node, given, tensors[0].dim(), symbol)


def _parts(node: Any, axis: Any, given: list[Any]) -> Any:
    """Of how many parts the row axis of a node consists; None if a view cuts through rows."""
    held = {n.meta[AXIS][1] for n in given}
    parts = held.pop() if held else 1
    if held:
        return None
    if _name(node) in _VIEWS:
        (source,) = given
        # Elements before the rows, parts included, are as many in both shapes.
        outer = parts * _count(_shape(source)[: _axis(source)]) / _count(_shape(node)[:axis])
        return outer if sympify(outer).is_integer else None
    return parts


def row_axis(tensor: Any, symbol: Any) -> int | None:
    """The dimension that has the symbol as a factor.

    None if no dimension has the symbol, -1 if several have it, or one has it in another way.
    """
    held = [d for d, n in enumerate(tensor.shape) if symbol in _symbols(n)]
    if not held:
        return None
    factor = tensor.shape[held[0]].node.expr / symbol
    return held[0] if len(held) == 1 and factor.is_integer and not factor.has(symbol) else -1


def _is_separate(node: Any, given: list[Any], rank: int, symbol: Any) -> bool:
    """Whether an op computes each row of its result from the same row of the operands ``given``."""
    target = node.target
    if str(target) == "<built-in function getitem>":
        return True
    name = _name(node)
    numbers = [*node.args, *node.kwargs.values()]
    if any(_depends(a, symbol) for a in numbers[1 if name == "full" else 0 :]) and (
        name == "full" or name not in _SIZED
    ):
        return False
    if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
        return False
    takes = _TAKES_ROWS.get(name)
    if takes and any(_has_rows(a) for i, a in enumerate(node.args) if i not in takes):
        return False
    if name not in _OPS:
        return torch.Tag.pointwise in getattr(target, "tags", ())
    if not given:
        return _OPS[name](node, node.meta[AXIS][0], rank)
    return all(_OPS[name](node, n.meta[AXIS][0], len(_shape(n))) for n in given)


def _name(node: Any) -> str:
    return str(node.target).removeprefix("aten.").removesuffix(".default")


def _depends(given: Any, symbol: Any) -> bool:
    """Whether an argument is a number that depends on the symbol."""
    if isinstance(given, list | tuple):
        return any(_depends(g, symbol) for g in cast("list[Any]", given))
    value = given.meta.get("val") if hasattr(given, "meta") else given
    return not isinstance(value, torch.Tensor) and symbol in _symbols(value)


class Code(Protocol):
    """Code for certain sizes."""

    def outputs(self, args: Sequence[Any]) -> Sequence[Any]:
        """The outputs for arguments of these sizes."""
        ...


class Axes:
    """The row axes of the arguments and outputs of a graph along a symbol."""

    def __init__(self, captured: Captured, symbol: Any) -> None:
        def axis(value: Any) -> int | None:
            return row_axis(value, symbol) if isinstance(value, torch.Tensor) else None

        self.arguments = [axis(value) for value in captured.examples]
        self.outputs = [axis(node.meta["val"]) for node in captured.outputs]


@dataclass(frozen=True)
class Blocks:
    """Code for ``block`` rows that is called as often as ``rows`` rows need."""

    code: Code
    axes: Axes
    rows: int
    block: int

    def outputs(self, args: Sequence[Any]) -> Sequence[Any]:
        """The outputs for arguments with that many rows."""
        parts = [
            None if axis is None else self._parts(a, axis)
            for a, axis in zip(args, self.axes.arguments, strict=True)
        ]
        found = [
            self.code.outputs([a if p is None else p[k] for a, p in zip(args, parts, strict=True)])
            for k in range(-(-self.rows // self.block))
        ]
        return [
            found[0][k] if axis is None else self._joined([f[k] for f in found], axis)
            for k, axis in enumerate(self.axes.outputs)
        ]

    def _parts(self, given: Any, axis: int) -> list[Any]:
        """Blocks of an argument; the last one is padded."""
        each = given.shape[axis] // self.rows
        *parts, last = given.split(each * self.block, axis)
        missing = -self.rows % self.block
        if missing:
            row = last.detach().narrow(axis, last.shape[axis] - each, each)
            sizes = [1] * row.dim()
            sizes[axis] = missing
            last = torch.cat([last, row.repeat(sizes)], axis)
        return [*parts, last]

    def _joined(self, parts: list[Any], axis: int) -> Any:
        """The blocks of an output as one tensor, without the padding of the last one."""
        missing = -self.rows % self.block
        if missing:
            size = parts[-1].shape[axis]
            parts[-1] = parts[-1].narrow(axis, 0, size - size // self.block * missing)
        order = sorted(range(parts[0].dim()), key=parts[0].stride, reverse=True)
        found = torch.cat([p.permute(order) for p in parts], order.index(axis))
        return found.permute([order.index(d) for d in range(len(order))])  # laid out as the parts


def best_block(rows: int, blocks: Iterable[int]) -> tuple[int, bool] | None:
    """The block with the least padding, and whether both the padding and the blocks are few.

    None if there are no rows, or no blocks.
    """
    best = min(blocks, key=lambda b: (-(-rows // b) * b, -b), default=None)
    if best is None or not rows:
        return None
    count = -(-rows // best)
    return best, count <= MOST and count * best < 2 * rows
