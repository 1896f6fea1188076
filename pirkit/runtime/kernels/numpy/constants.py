"""Kernels whose result is known when they are bound: a run only copies it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import HALF_TYPES, Array, Binding, Step
from pirkit.runtime.bounding_boxes import priors
from pirkit.runtime.convert import constant, convert
from pirkit.runtime.registry import kernel


def _copied(b: Binding, value: Array) -> Step:
    """A step that copies ``value`` into its result; it is copied to the device once, here."""
    if b.xp is not np:
        value = b.xp.asarray(value)

    def step(*arrays: Any) -> None:
        arrays[-1][...] = value

    return step


@kernel("full_int_array", dtypes=dt.ALL, portable=True)
def full_int_array(b: Binding) -> Step:
    return _copied(b, np.asarray(b.attrs["value"], np.int64).astype(b.output().dtype.np))


@kernel("shape64", "shape", dtypes=dt.ANY, portable=True)
def shape(b: Binding) -> Step:
    """The sizes of the operand, of which no element is read."""
    return _copied(b, np.asarray(b.input().shape, b.output().dtype.np))


@kernel("numel", dtypes=dt.ANY, portable=True)
def numel(b: Binding) -> Step:
    return _copied(b, np.asarray(b.input().numel, np.int64))


@kernel("eye", dtypes=dt.ANY, portable=True)
def eye(b: Binding) -> Step:
    out = b.output()
    return _copied(b, np.eye(*out.shape, dtype=out.dtype.np))


@kernel("arange", dtypes=(*dt.FLOATS, *dt.INTS), portable=True)
def arange(b: Binding) -> Step:
    """Terms are added up one after the other, as Paddle does."""
    out = b.output()
    wide = dt.float32 if out.dtype in HALF_TYPES else out.dtype
    first = constant(b.attrs["start"], out.dtype).astype(wide.np)
    by = constant(b.attrs["step"], out.dtype).astype(wide.np)
    terms = np.full(out.shape, by)
    terms[:1] = first
    return _copied(b, np.cumsum(terms, dtype=wide.np).astype(out.dtype.np))


@kernel("assign_value", "assign_value_", dtypes=dt.ANY, portable=True)
def assign_value(b: Binding) -> Step:
    out, values = b.output(), b.attrs["values"]
    if len(values) == 1:
        return _copied(b, constant(values[0], out.dtype))
    held = [constant(v, out.dtype) for v in values]
    return _copied(b, np.asarray(held, out.dtype.np).reshape(out.shape))


@kernel("prior_box", dtypes=(dt.float32,))
def prior_box(b: Binding) -> Step:
    """The boxes follow from the shapes, so that they are made once."""
    boxes = priors(b.input(0).shape[2:], b.input(1).shape[2:], **b.attrs).astype(np.float32)
    variances = np.array(b.attrs["variances"], np.float32)

    def step(_input: Array, _image: Array, out: Array | None, var: Array | None) -> None:
        if out is not None:
            out[...] = boxes
        if var is not None:
            var[...] = variances

    return step


@kernel("linspace", dtypes=dt.REAL)
def linspace(b: Binding) -> Step:
    """Computed in float64 for integers and float64, else in float32."""
    dtype = b.output().dtype
    wide = dt.float64 if dtype.is_integer or dtype is dt.float64 else dt.float32
    count = b.attrs["number"]

    def step(start: Array, stop: Array, out: Array) -> None:
        first, last = (convert(v.reshape(()), wide) for v in (start, stop))
        out[...] = convert(np.linspace(first, last, count, dtype=wide.np), dtype)

    return step


@kernel("diag", dtypes=dt.NUMBERS)
def diag(b: Binding) -> Step:
    """A matrix with the vector on a diagonal, or the diagonal of a matrix."""
    offset, padding = b.attrs["offset"], b.constant("padding_value")
    if b.input().rank == 2:

        def take(x: Array, out: Array) -> None:
            out[...] = x.diagonal(offset)

        return take

    def put(x: Array, out: Array) -> None:
        out[...] = padding
        rows = out[-offset:] if offset < 0 else out[:, offset:]
        np.fill_diagonal(rows, x.reshape(-1))

    return put


@kernel("memcpy_h2d", "memcpy_d2h", dtypes=dt.ANY)
def memcpy(b: Binding) -> Step:
    def step(x: Array, out: Array) -> None:
        out[...] = x

    return step
