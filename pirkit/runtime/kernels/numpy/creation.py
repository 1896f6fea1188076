"""Kernels that fill results with a number, convert elements or copy them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.convert import constant, convert
from pirkit.runtime.kernels.numpy.cache_blocks import walker
from pirkit.runtime.registry import kernel


def _filled(b: Binding, value: Array) -> Step:
    """Fills the result, which is the last of whatever it is called with."""

    def step(*arrays: Any) -> None:
        np.copyto(arrays[-1], value)

    if b.xp is np:
        return step
    number: Any = float(value) if b.output().dtype.is_float else value.item()

    def fill(*arrays: Any) -> None:
        arrays[-1].fill(number)

    return fill


@kernel("full", "full_like", dtypes=dt.ANY, portable=True)
@kernel("full_", dtypes=dt.ANY, inplace={"out": "output"}, portable=True)
def full(b: Binding) -> Step:
    """One number everywhere; the operand, if there is one, only gives the shape."""
    return _filled(b, b.constant("value", b.output().dtype))


@kernel("empty", "empty_like", dtypes=dt.ANY, portable=True)
def empty(b: Binding) -> Step:
    """Zeros, so that runs repeat."""
    return _filled(b, constant(0, b.output().dtype))


@kernel("full_with_tensor", dtypes=dt.REAL)
def full_with_tensor(b: Binding) -> Step:
    """The one element of the operand, everywhere."""
    target = b.output().dtype

    def step(value: Array, out: Array) -> None:
        np.copyto(out, convert(value.reshape(()), target))

    return step


@kernel("assign_out_", dtypes=dt.ANY, inplace={"out": "output"}, portable=True)
def assign_out(b: Binding) -> Step:
    """A copy into the second operand."""
    copyto = b.xp.copyto

    def step(x: Array, output: Array, out: Array) -> None:
        copyto(out, x)

    return step


@kernel("cast", dtypes=dt.ANY)
def cast(b: Binding) -> Step | None:
    """One conversion; floats become integers in blocks, by the rule for what is out of range."""
    source, target = b.dtype, b.output().dtype
    if source.is_complex and not target.is_complex and target is not dt.bool_:
        return _real_part(b)
    if source.is_float and target.is_integer:
        return _truncation(b)

    def step(x: Array, out: Array) -> None:
        np.copyto(out, x, casting="unsafe")

    return step


def _real_part(b: Binding) -> Step | None:
    target = b.output().dtype
    if target.is_integer:
        return None

    def step(x: Array, out: Array) -> None:
        np.copyto(out, x.real, casting="unsafe")

    return step


def _truncation(b: Binding) -> Step:
    walk, target = walker(b, b.input().shape, 0), b.output().dtype

    def passes(x: Array, out: Array) -> None:
        np.copyto(out, convert(x, target))

    def step(x: Array, out: Array) -> None:
        walk(passes, x, out)

    return step
