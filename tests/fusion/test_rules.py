"""Index rules: every primitive has one or a reason, and samples of ops run as kernels of one op."""

from __future__ import annotations

from pirkit.dialect.map_expr.call import OPAQUE
from pirkit.dialect.opdef import RANDOM, index_maps, lookup
from pirkit.dialect.primitives import PRIMITIVES


def test_every_primitive_has_index_maps_or_a_reason_why_not() -> None:
    silent = [
        name
        for name in PRIMITIVES
        if index_maps.get(lookup(name)) is None
        and name not in OPAQUE
        and lookup(name).effects != RANDOM
        and not lookup(name).writes
    ]
    assert silent == []


def test_no_op_has_both() -> None:
    assert [name for name in OPAQUE if index_maps.get(lookup(name)) is not None] == []
