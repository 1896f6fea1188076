"""Ops whose rules know single precision only compute in it for half precision, and round once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import ConstraintError
from pirkit.dialect.infer import infer_metas
from pirkit.dialect.opdef import OpDef, infer_meta, lookup, reference
from pirkit.dialect.samples import Sample
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, first_dtype
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.registry import REFERENCE
from tests.ops.calls import Array, as_tuple, calls, complete, each_array, table

WIDER: Final = [
    d
    for d in table()
    if dt.float32 in d.dtypes
    and dt.bfloat16 not in d.dtypes
    and (d.dialect, d.effects) == ("pd_op", "pure")
    and reference.get(d) is not None
    and "dtype" not in d.attr_kinds
]

REFUSED: Final = {
    *("pd_op.complex", "pd_op.as_complex", "pd_op.fft_r2c"),
    *("pd_op.eig", "pd_op.eigvals", "pd_op.matrix_rank"),
    *("pd_op.matrix_rank_tol", "pd_op.matrix_rank_atol_rtol"),
}
"""Ops that have no half precision, and say so: each other op must compute it."""


@pytest.mark.parametrize("half", [dt.float16, dt.bfloat16], ids=str)
@pytest.mark.parametrize("definition", WIDER, ids=lambda d: d.name)
def test_half_precision_is_computed_in_single_precision(definition: OpDef, half: DType) -> None:
    call = next(calls(definition, dt.float32))

    def rounded(a: Array) -> Array:
        return a.astype(half.np) if a.dtype == np.float32 else a

    given = replace(call, args=tuple([each_array(a, rounded) for a in call.args]))
    assert first_dtype(given.metas) is half
    if definition.name in REFUSED:
        with pytest.raises(ConstraintError):
            infer_metas(definition, infer_meta.of(definition), given.metas, given.attrs)
        return
    found = infer_metas(definition, infer_meta.of(definition), given.metas, given.attrs)
    choices = KernelLibrary(REFERENCE).choices(definition.name, half, call.attrs)
    step = choices[0].kernel(Binding(given.metas, found, call.attrs))
    assert step is not None
    wide = replace(
        call, args=tuple([each_array(a, lambda a: rounded(a).astype(a.dtype)) for a in call.args])
    )
    with np.errstate(all="ignore"):
        results = as_tuple(step(*given.args))
    for meta, one, other in zip(found, results, wide.compute(), strict=True):
        if isinstance(meta, TensorMeta):
            assert one.dtype == meta.dtype.np
            np.testing.assert_array_equal(one, np.asarray(other).astype(meta.dtype.np))


@pytest.mark.parametrize("dtype", [dt.bfloat16, dt.float16])
def test_uniform_numbers_stay_below_their_limit(dtype: dt.DType) -> None:
    """Rounding gave 1 for one number of 512 or 4096."""
    attrs: dict[str, Any] = {"shape": (1 << 15,), "min": 0.0, "max": 1.0, "dtype": dtype, "seed": 3}
    (by_rule,) = complete(lookup("pd_op.uniform"), Sample((), attrs)).compute()
    for drawn in (by_rule, pirkit.ops.uniform(**attrs).array):
        assert drawn.max() == np.nextafter(dtype.np.type(1), dtype.np.type(0))
