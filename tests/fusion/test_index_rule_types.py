"""What an index rule computes has the element type of the op's result."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.tree import Apply, Choose, Load, Node
from pirkit.dialect.opdef import OpDef, index_maps
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from tests.ops.calls import calls, sample_dtypes, table

MAPPED = [d for d in table() if index_maps.get(d) is not None]


def element_type(node: Node, tensors: Sequence[Meta | None]) -> DType | None:
    while isinstance(node, Choose):
        node = node.yes
    if not isinstance(node, Load):
        return node.dtype
    meta = tensors[node.source]
    return meta.dtype if isinstance(meta, TensorMeta) else None


@pytest.mark.parametrize("definition", MAPPED, ids=lambda d: d.name)
def test_the_element_type_is_that_of_the_result(definition: OpDef) -> None:
    for dtype in sample_dtypes(definition):
        for call in calls(definition, dtype):
            results = call.infer()
            first = results[0]
            if not isinstance(first, TensorMeta) or not first.is_static:
                continue
            found = index_maps.of(definition)(
                MapCall(definition, list(call.metas), list(results), call.attrs)
            )
            every = [m.items if isinstance(m, VecMeta) else (m,) for m in call.metas]
            tensors = [m for items in every for m in items]
            nodes = found if isinstance(found, tuple) else (found,)
            for node, meta in zip(nodes, results, strict=False):
                if isinstance(node, Load | Choose | Apply) and isinstance(meta, TensorMeta):
                    assert element_type(node, tensors) is meta.dtype, f"{call}: {node}"
