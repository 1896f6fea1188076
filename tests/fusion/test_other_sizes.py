"""Index rules hold at sizes and axes that no sample has: none, one, one more, and from the end."""

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
from tests.fusion.test_named_sizes import MAPPED, flat_dims, kernel_of, some_calls
from tests.ops.calls import Call, each_array

AXES = frozenset({"axis", "axes", "dim", "axis1", "axis2", "perm"})


def resized(call: Call, old: int, new: int) -> Call:
    """The call with another number of elements along all axes that have so many."""

    def change(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.resize(array, [new if n == old else n for n in array.shape])

    return replace(call, args=tuple([each_array(a, change) for a in call.args]))


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
        for old in sorted(set(flat_dims(list(call.metas)))):
            yield from (resized(call, old, new) for new in {0, 1, old + 1} - {old})


@pytest.mark.parametrize("definition", MAPPED, ids=str)
def test_elements_are_those_of_the_reference_at_other_sizes(definition: OpDef) -> None:
    """Of each call that the op and its reference accept."""
    for call in others(definition):
        try:
            call.infer()
            want = cast("np.ndarray[Any, Any]", call.compute()[0])
        except (PirkitError, ValueError, IndexError, TypeError, ZeroDivisionError, MemoryError):
            continue
        kernel = kernel_of(call, list(call.metas), Sizes())
        if kernel is None:
            continue
        arrays = [a for x in call.args for a in (x if isinstance(x, list) else [x])]
        (found,) = run(kernel, [a for a in arrays if a is not None])
        assert found.shape == want.shape, str(call)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6, err_msg=str(call))
