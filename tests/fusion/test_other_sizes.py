"""Index rules hold at sizes that no sample has, and at axes that are counted from the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.dialect.map_expr.interpreter import run
from pirkit.dialect.map_expr.symbolic_shapes import Sizes
from pirkit.dialect.opdef import OpDef
from pirkit.runtime.meta import TensorMeta
from tests.fusion.test_named_sizes import RULED, flat_dims, kernel_of, kernel_with
from tests.fusion.test_rule_numbers import mapped, some_calls
from tests.ops.calls import Call, each_array

AXES = frozenset({"axis", "axes", "dim", "axis1", "axis2", "perm"})


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
        for old in sorted(set(flat_dims(list(call.metas)))):
            yield from (resized(call, old, new) for new in {0, 1, old + 1} - {old})


@pytest.mark.parametrize("definition", mapped(), ids=lambda d: d.name)
def test_elements_are_those_of_the_reference_at_other_sizes(definition: OpDef) -> None:
    """Of each call that the op and its reference accept."""
    for call in others(definition):
        try:
            call.infer()
            want = cast("np.ndarray[Any, Any]", call.compute()[0])
        except (PirkitError, ValueError, IndexError, TypeError, ZeroDivisionError, MemoryError):
            continue
        metas, results = list(call.metas), [cast(TensorMeta, m) for m in call.infer()]
        if definition in RULED and (ruled := kernel_of(call, metas, Sizes())) is not None:
            assert ruled.statements[0].meta.shape == want.shape, str(call)
        kernel = kernel_with(call, metas, results, Sizes())
        if kernel is None:
            continue
        arrays = [a for x in call.args for a in (x if isinstance(x, list) else [x])]
        (found,) = run(kernel, [a for a in arrays if a is not None])
        assert found.shape == want.shape, str(call)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6, err_msg=str(call))
