"""Losses: cross entropy of a softmax, and those of single elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.diag.errors import ConstraintError
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.cache_blocks import walker
from pirkit.runtime.kernels.numpy.softmax import blocks, slabs
from pirkit.runtime.registry import kernel


@kernel("cross_entropy_with_softmax", dtypes=dt.FLOATS, inplace={"softmax": "input"}, widen=True)
def cross_entropy_with_softmax(b: Binding) -> Step | None:
    """The softmax is made block by block; what the loss needs is read on the way."""
    shape = slabs(b)
    if shape is None or not b.attrs["use_softmax"]:
        return None
    outer, size, inner = shape
    is_soft: bool = b.attrs["soft_label"]
    ignored: int = b.attrs["ignore_index"]
    parts = list(blocks(outer, size * inner))
    most = parts[0].stop
    edges, totals = b.workspace((most, 1, inner)), b.workspace((most, 1, inner))
    logs = b.workspace((most, size, inner)) if is_soft else None
    spare = b.workspace(shape if b.outputs[0] is None else (0,))
    xp = b.xp

    def step(input: Array, label: Array, softmax: Array | None, loss: Array | None) -> None:
        source = input.reshape(shape)
        target = spare if softmax is None else softmax.reshape(shape)
        costs = None if loss is None else loss.reshape(outer, 1, inner)
        labels = label.reshape(outer, -1, inner)
        if not is_soft:
            labels = labels.astype(np.int64, copy=False)
            _check(labels, size, ignored)
        for part in parts:
            one, goal, wanted = source[part], target[part], labels[part]
            count = part.stop - part.start
            edge, total = edges[:count], totals[:count]
            xp.maximum.reduce(one, axis=1, keepdims=True, out=edge)
            xp.subtract(one, edge, goal)
            if logs is not None:
                xp.copyto(logs[:count], goal)
                hit = None
            else:
                gone = wanted == ignored
                hit = xp.take_along_axis(goal, xp.where(gone, 0, wanted), 1)
            xp.exp(goal, goal)
            xp.add.reduce(goal, axis=1, keepdims=True, out=total)
            xp.divide(goal, total, goal)
            if costs is None:
                continue
            xp.log(total, total)
            if logs is not None:
                terms = logs[:count]
                xp.subtract(total, terms, terms)
                xp.multiply(terms, wanted, terms)
                xp.add.reduce(terms, axis=1, keepdims=True, out=costs[part])
            else:
                xp.subtract(total, hit, costs[part])
                xp.copyto(costs[part], 0, where=wanted == ignored)
        for given, made in ((softmax, target), (loss, costs)):
            if given is not None and made is not None and not given.flags.c_contiguous:
                given[...] = made.reshape(given.shape)

    return step


def _check(labels: Array, classes: int, ignored: int) -> None:
    if labels.min() >= 0 and labels.max() < classes:
        return
    if not ((labels == ignored) | ((labels >= 0) & (labels < classes))).all():
        message = f"a label is outside [0, {classes}) and is not ignore_index {ignored}"
        raise ConstraintError("C4", message)


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


@kernel("bce_loss", dtypes=dt.FLOATS, inplace={"out": "input"}, widen=True)
def bce_loss(b: Binding) -> Step:
    """``-(label * log(input) + (1 - label) * log(1 - input))``, logarithms bounded by -100."""
    walk = walker(b, b.input().shape, 2)
    xp = b.xp

    def passes(input: Array, label: Array, out: Array, hit: Array, miss: Array) -> None:
        xp.log(input, hit)
        xp.maximum(hit, -100, out=hit)
        xp.multiply(hit, label, hit)
        xp.subtract(1, input, miss)
        xp.log(miss, miss)
        xp.maximum(miss, -100, out=miss)
        xp.subtract(1, label, out)
        xp.multiply(out, miss, out)
        xp.add(out, hit, out)
        xp.negative(out, out)

    def step(input: Array, label: Array, out: Array) -> None:
        walk(passes, input, label, out)

    return step


@kernel("huber_loss", dtypes=dt.FLOATS, widen=True)
def huber_loss(b: Binding) -> Step:
    """``near * (|residual| - near / 2)``, where ``near`` is bounded by ``delta``."""
    walk = walker(b, b.input().shape, 2)
    delta = b.dtype.np.type(b.attrs["delta"])
    spare = b.workspace(b.input().shape if b.outputs[1] is None else (0,))
    xp = b.xp

    def passes(
        input: Array, label: Array, out: Array, residual: Array, size: Array, near: Array
    ) -> None:
        xp.subtract(label, input, residual)
        xp.abs(residual, size)
        xp.minimum(size, delta, out=near)
        xp.multiply(near, 0.5, out)
        xp.subtract(size, out, size)
        xp.multiply(near, size, out)

    def step(input: Array, label: Array, out: Array, residual: Array | None) -> None:
        walk(passes, input, label, out, spare if residual is None else residual)

    return step


@kernel("nll_loss", dtypes=dt.FLOATS, widen=True)
def nll_loss(b: Binding) -> Step:
    """Only the elements of the labels are read."""
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
