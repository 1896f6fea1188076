"""What an index rule computes has the element type of the op's result."""

from __future__ import annotations

import pytest

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Load, element_type
from pirkit.dialect.map_expr.verify_kernel import problems
from pirkit.dialect.opdef import OpDef, index_maps, lookup
from pirkit.index.index_maps import space
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta, VecMeta
from tests.ops.calls import calls, sample_dtypes, table

MAPPED = [d for d in table() if index_maps.get(d) is not None]


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
            metas = [m for items in every for m in items]
            types = [m.dtype if isinstance(m, TensorMeta) else None for m in metas]
            nodes = found if isinstance(found, tuple) else (found,)
            for node, meta in zip(nodes, results, strict=False):
                if isinstance(node, Load | Choose | Apply) and isinstance(meta, TensorMeta):
                    made = element_type(node, types.__getitem__)
                    assert made is meta.dtype, f"{call}: {node}"


def test_a_kernel_that_stores_another_element_type_is_refused() -> None:
    load = Statement(TensorMeta((2,), dt.int64), Load(0, space((2,))), lookup("pd_op.cast").name)
    kernel = MapExpr("k", (TensorMeta((2,), dt.bool_),), (load,), (0,))
    assert "v0 stores bool as int64" in list(problems(kernel))
