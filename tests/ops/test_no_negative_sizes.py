"""No attribute makes a size that is negative: -1 would stand for an unknown one, and run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import pytest

from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Builder
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.operation import ProgramOp
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED
from tests.ops.calls import Call, calls, sample_dtypes, table
from tests.prim.rule_checks import emitted, tensors_of

OPS = [d for d in table() if d.dialect == "pd_op"]
NUMBERS: Final = (-3, -1, 0, 1, 2, 5, 40)
UNKNOWN_SIZES: Final = {
    "expand_as": "target_shape", "sequence_mask": "max_len",
    "repeat_interleave_with_tensor_index": "output_size",
}  # fmt: skip
"""Attributes whose negative number says that a size is not known."""


def shapes(call: Call) -> list[tuple[int, ...]]:
    """The sizes of the results, for inputs whose sizes are known."""
    b = Builder(ProgramOp.build("case").block)
    values = [
        b("pd_op.data", name=f"x{k}", shape=a.shape, dtype=dt.of_array(a), place=UNDEFINED)
        for k, a in enumerate(tensors_of(call))
    ]
    metas = [v.any_meta for v in emitted(call, b, values)]
    return [m.shape for m in metas if isinstance(m, TensorMeta)]


def changed(call: Call) -> Iterator[tuple[str, Call]]:
    """The call with another number in an attribute, or in an element of one."""
    for name, value in call.attrs.items():
        others: list[Any] = []
        if type(value) is int:
            others = list(NUMBERS)
        elif isinstance(value, tuple) and all(type(x) is int for x in value):
            items: tuple[Any, ...] = value
            others = [(*items[:k], n, *items[k + 1 :]) for k in range(len(items)) for n in NUMBERS]
        for other in others:
            yield name, replace(call, attrs={**call.attrs, name: other})


def negative(found: list[tuple[int, ...]]) -> bool:
    return any(min(shape, default=0) < 0 for shape in found)


@pytest.mark.parametrize("definition", OPS, ids=lambda d: d.name)
def test_attributes_make_no_negative_size(definition: OpDef) -> None:
    for call in islice((c for d in sample_dtypes(definition)[:1] for c in calls(definition, d)), 4):
        try:
            if negative(shapes(call)):
                continue  # its sizes depend on values
        except PirkitError:
            continue
        for name, other in changed(call):
            if UNKNOWN_SIZES.get(definition.name.removeprefix("pd_op.")) == name:
                continue
            try:
                found = shapes(other)
            except PirkitError:
                continue
            assert not negative(found), f"{other}: {found}"
