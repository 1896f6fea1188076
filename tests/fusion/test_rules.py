"""Every op of the table has index maps, or a reason why it has none."""

from __future__ import annotations

from pirkit.dialect.map_expr.call import OPAQUE, UNDECLARED, why_none
from pirkit.dialect.opdef import all_ops, index_maps, lookup


def test_every_op_has_index_maps_or_a_reason_why_not() -> None:
    mapped = [d for d in all_ops() if index_maps.get(d) is not None]
    silent = [d.name for d in all_ops() if index_maps.get(d) is None and why_none(d) is UNDECLARED]
    assert silent == []
    assert len(mapped) > 90


def test_no_op_has_both() -> None:
    assert [name for name in OPAQUE if index_maps.get(lookup(name)) is not None] == []
