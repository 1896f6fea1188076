"""The cross entropy of a sigmoid, and the negative log likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.diag.errors import ConstraintError
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.cache_blocks import walker
from pirkit.runtime.registry import kernel


@kernel("sigmoid_cross_entropy_with_logits", dtypes=dt.FLOATS, inplace={"out": "x"}, widen=True)
def sigmoid_cross_entropy_with_logits(b: Binding) -> Step | None:
    """``max(x, 0) - x * label + log(1 + exp(-|x|))``."""
    if b.inputs[2] is not None or not b.input().numel:
        return None
    normalize: bool = b.attrs["normalize"]
    ignored: int = b.attrs["ignore_index"]
    walk = walker(b, b.input().shape, 2)
    xp = b.xp

    def passes(x: Array, label: Array, out: Array, tail: Array, term: Array) -> None:
        xp.abs(x, tail)
        xp.negative(tail, tail)
        xp.exp(tail, tail)
        xp.log1p(tail, tail)
        xp.multiply(x, label, term)
        xp.subtract(tail, term, tail)
        xp.maximum(x, 0, out=term)
        xp.add(tail, term, out)
        xp.copyto(out, 0, where=label == ignored)

    def step(x: Array, label: Array, _weight: None, out: Array) -> None:
        walk(passes, x, label, out)
        if normalize:
            xp.divide(out, max(int(xp.count_nonzero(label != ignored)), 1), out)

    return step


@kernel("nll_loss", dtypes=dt.FLOATS, widen=True)
def nll_loss(b: Binding) -> Step:
    """Reads only the elements of ``input`` that the labels select."""
    classes, shape = b.input().shape[1], b.input(1).shape
    ignored: int = b.attrs["ignore_index"]
    reduction: str = b.attrs["reduction"]
    losses, shares = b.workspace(shape), b.workspace(shape)
    places = np.ix_(*map(np.arange, shape)) if shape[1:] else (np.arange(*shape),)

    def step(
        input: Array, label: Array, weight: Array | None, out: Array | None, total: Array | None
    ) -> None:
        gone = label == ignored
        index = np.where(gone, 0, label)
        if index.size and not (index.min() >= 0 and index.max() < classes):
            message = f"a label is outside [0, {classes}) and is not ignore_index {ignored}"
            raise ConstraintError("C5", message)
        losses[...] = input[(places[0], index, *places[1:])]
        shares[...] = 1 if weight is None else weight[index]
        np.copyto(shares, 0, where=gone)
        np.negative(losses, losses)
        np.multiply(losses, shares, losses)
        np.copyto(losses, 0, where=gone)
        if reduction == "none":
            _give(out, losses)
            _give(total, 0)
            return
        entire, cost = shares.sum(), losses.sum()
        _give(out, cost / entire if reduction == "mean" and entire else cost)
        _give(total, entire)

    return step


def _give(out: Array | None, value: Any) -> None:
    if out is not None:
        out[...] = value
