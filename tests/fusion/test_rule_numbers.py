"""Each op between two others, where its index rule runs, gives what its reference rule gives."""

from __future__ import annotations

import pytest

from pirkit.dialect.opdef import RANDOM, OpDef, index_maps, reference, samples
from pirkit.runtime import dtype as dt
from tests.ops.calls import Call, calls, sample_dtypes, table
from tools.campaigns.op_table import WAYS, between, compared
from tools.campaigns.outcomes import attempt


def mapped() -> list[OpDef]:
    """The ops with index rules and samples."""
    known = [d for d in table() if index_maps.get(d) is not None and samples.get(d) is not None]
    return [d for d in known if d.effects != RANDOM and reference.get(d) is not None]


def some_calls(definition: OpDef) -> list[Call]:
    """The samples in one element type, a floating one if there is one."""
    dtypes = sample_dtypes(definition)
    chosen = [d for d in (dt.float64, dt.float32, dt.int64) if d in dtypes] or dtypes
    return list(calls(definition, chosen[0]))


@pytest.mark.parametrize("definition", mapped(), ids=lambda d: d.name)
def test_an_op_between_others_gives_what_its_reference_gives(definition: OpDef) -> None:
    for call in some_calls(definition):
        want = attempt(lambda call=call: WAYS["reference"](call))
        assert want[0] == "values", want[1]
        for behind in (True, False):
            found = attempt(lambda c=call, b=behind: between(c, b, fused="interpret"))
            assert compared(call, found, want) is None, f"{behind=} {call}"[:300]
