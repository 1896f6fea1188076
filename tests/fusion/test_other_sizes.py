"""Index rules hold at sizes that no sample has, and at axes that are counted from the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast
from zlib import crc32

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.dialect.map_expr.interpreter import run
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.symbolic_shapes import Sizes
from pirkit.dialect.opdef import OpDef
from pirkit.runtime.meta import TensorMeta
from tests.fusion.test_named_sizes import RULED, flat_dims, kernel_of, kernel_with
from tests.fusion.test_rule_numbers import mapped, some_calls
from tests.ops.calls import Call, each_array

FILE: Final = Path(__file__).with_name("other_sizes.txt")
AXES: Final = frozenset({"axis", "axes", "dim", "axis1", "axis2", "perm"})


def resized(call: Call, old: int, new: int) -> Call:
    """The call with another number of elements along all axes that have so many."""

    def change(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.resize(array, [new if n == old else n for n in array.shape])

    return replace(call, args=tuple([each_array(a, change) for a in call.args]))


def one_of(call: Call) -> Iterator[Call]:
    """The call with one element along an axis of one operand, which is spread if the op does so."""
    for k, arg in enumerate(call.args):
        for axis, n in enumerate(arg.shape if isinstance(arg, np.ndarray) else ()):
            first = np.take(cast("np.ndarray[Any, Any]", arg), range(min(n, 1)), axis)
            yield replace(call, args=(*call.args[:k], first, *call.args[k + 1 :]))


def with_scalar(call: Call) -> Iterator[Call]:
    """The call with one element of another type as its second operand, which promotes nothing."""
    if len(call.args) == 2 and all(isinstance(a, np.ndarray) and a.size for a in call.args):
        x, y = cast("tuple[np.ndarray[Any, Any], ...]", call.args)
        for dtype in (np.float32, np.int64):
            yield replace(call, args=(x, np.array(y.flat[0]).astype(dtype)))


def turned(call: Call) -> Iterator[Call]:
    """The call with the axes of its first operand counted from the other end."""
    meta = call.metas[0] if call.metas else None
    if not isinstance(meta, TensorMeta):
        return
    for name in AXES.intersection(call.attrs):
        held = call.attrs[name]
        several = isinstance(held, tuple)
        axes = [a - meta.rank if a >= 0 else a + meta.rank for a in (held if several else [held])]
        yield replace(call, attrs=call.attrs | {name: tuple(axes) if several else axes[0]})


def others(definition: OpDef) -> Iterator[Call]:
    for call in some_calls(definition):
        yield from turned(call)
        yield from one_of(call)
        yield from with_scalar(call)
        for old in sorted(set(flat_dims(list(call.metas)))):
            yield from (resized(call, old, new) for new in {0, 1, old + 1} - {old})


@dataclass(frozen=True)
class Tried:
    """A call that the op and its reference accept, its first result, and its kernel if any."""

    call: Call
    want: np.ndarray[Any, Any]
    kernel: MapExpr | None


@cache
def tried(definition: OpDef) -> tuple[Tried, ...]:
    found: list[Tried] = []
    for call in (*some_calls(definition), *others(definition)):
        try:
            results = [cast(TensorMeta, m) for m in call.infer()]
            want = cast("np.ndarray[Any, Any]", call.compute()[0])
        except (PirkitError, ValueError, IndexError, TypeError, ZeroDivisionError, MemoryError):
            continue
        found.append(Tried(call, want, kernel_with(call, list(call.metas), results, Sizes())))
    return tuple(found)


def told(definition: OpDef) -> str:
    """How many calls of an op have a kernel, and a sum over these: what is refused shows."""
    kernels = [t.kernel for t in tried(definition)]
    made = [repr(kernel) for kernel in kernels if kernel is not None]
    return f"{definition.name}: {len(made)} of {len(kernels)}, {crc32(' '.join(made).encode())}"


@pytest.mark.parametrize("definition", mapped(), ids=lambda d: d.name)
def test_elements_are_those_of_the_reference_at_other_sizes(definition: OpDef) -> None:
    for one in tried(definition):
        call, want, kernel = one.call, one.want, one.kernel
        if definition in RULED:
            ruled = kernel_of(call, list(call.metas), Sizes())
            assert ruled is None or ruled.statements[0].meta.shape == want.shape, str(call)
        if kernel is None:
            continue
        arrays = [a for x in call.args for a in (x if isinstance(x, list) else [x])]
        (found,) = run(kernel, [a for a in arrays if a is not None])
        assert found.shape == want.shape, str(call)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6, err_msg=str(call))


@pytest.mark.parametrize("definition", mapped(), ids=lambda d: d.name)
def test_kernels_at_other_sizes(definition: OpDef) -> None:
    again = (
        "if it is meant, run `python -m tests.fusion.test_other_sizes` and look at the difference"
    )
    assert told(definition) in FILE.read_text().splitlines(), again


if __name__ == "__main__":
    FILE.write_text("".join(f"{told(d)}\n" for d in mapped()))
