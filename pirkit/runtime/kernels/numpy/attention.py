"""Attention by blocks of heads and rows: the matrix of scores is never materialized."""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel

BLOCK: Final = 1 << 18
"""Largest number of scores in memory at a time, unless `LEAST` rows have more."""

LEAST: Final = 16
"""Smallest number of rows of scores that are computed at a time."""


@kernel("flash_attn", dtypes=dt.FLOATS, widen=True)
def flash_attn(b: Binding) -> Step | None:
    """None for a call with dropout or with the weights as a result: the reference rule runs it."""
    a = b.attrs
    is_empty = not (b.output().numel and b.input(1).numel)
    if (a["dropout"] and not a["is_test"]) or a["return_softmax"] or is_empty:
        return None
    images, rows, heads, depth = b.input(0).shape
    columns, groups = b.input(1).shape[1:3]
    shared = heads // groups
    factor = b.dtype.np.type(1 / sqrt(depth))
    some = min(max(BLOCK // (shared * columns), LEAST), rows)
    room = b.workspace((shared, some, columns))
    edges, totals = b.workspace((shared, some, 1)), b.workspace((shared, some, 1))
    made = b.workspace((shared, some, b.input(2).shape[3]))
    ahead = columns - rows if a["causal"] else None

    def attend(
        q: Array, k: Array, v: Array, mask: Array | None, first: int, out: Array, lse: Array | None
    ) -> None:
        """Attention of the query rows ``[shared, m, D]``, which begin at row ``first``.

        ``k`` and ``v`` are one head of keys and values, which ``shared`` heads of queries use.
        """
        m: int = q.shape[1]
        seen = columns if ahead is None else min(max(first + m + ahead, 0), columns)
        scores, edge, total = room[:, :m, :seen], edges[:, :m], totals[:, :m]
        np.matmul(q, k[:seen].T, scores)
        np.multiply(scores, factor, scores)
        if mask is not None:
            np.add(scores, mask[..., :seen], scores)
        if ahead is not None:
            some_see = max(first + ahead + 1, 0)
            last = np.arange(first + ahead, first + ahead + m)
            hidden = np.greater.outer(np.arange(some_see, seen), last).T
            np.copyto(scores[..., some_see:], -np.inf, where=hidden)
        np.maximum.reduce(scores, axis=-1, keepdims=True, out=edge, initial=-np.inf)
        np.copyto(edge, 0, where=~np.isfinite(edge))
        np.subtract(scores, edge, scores)
        np.exp(scores, scores)
        np.add.reduce(scores, axis=-1, keepdims=True, out=total)
        if lse is not None:
            lse[...] = (edge + np.log(total))[..., 0]
        np.copyto(total, 1, where=~(total > 0))
        np.matmul(scores, v[:seen], made[:, :m])
        np.divide(made[:, :m], total, out)

    def step(
        q: Array, k: Array, v: Array, _seed: Array | None, mask: Array | None, out: Array,
        weights: Array | None, lse: Array | None, offset: Array | None,
    ) -> None:  # fmt: skip
        for unused in (weights, lse, offset):
            if unused is not None:
                unused.fill(0)
        given: Any = None
        if mask is not None:
            given = np.broadcast_to(mask, (images, heads, rows, columns))
        for item in range(images):
            queries, goal = q[item].swapaxes(0, 1), out[item].swapaxes(0, 1)
            for group in range(groups):
                part = slice(group * shared, (group + 1) * shared)
                keys, values = k[item, :, group], v[item, :, group]
                for first in range(0, rows, some):
                    cut = slice(first, min(first + some, rows))
                    attend(
                        queries[part, cut],
                        keys,
                        values,
                        None if given is None else given[item, part, cut],
                        first,
                        goal[part, cut],
                        None if lse is None else lse[item, part, cut],
                    )

    return step
