"""Decompositions of matrices that are not finite end (LAPACK loops for ever on some of them)."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.ops.linalg import lapack


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_matrices_with_infinite_elements_are_refused(
    bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.eye(3, 4, dtype=np.float32)
    assert int(np.asarray(ops.matrix_rank(x, tol=0.0))) == 3
    x[1, 1] = bad

    def endless(*_: object, **__: object) -> None:
        raise AssertionError("LAPACK was called")

    monkeypatch.setattr(lapack.np.linalg, "svd", endless)
    with pytest.raises(RuntimeFault, match="infinite or NaN"):
        ops.matrix_rank(x, tol=0.0)
    with pytest.raises(np.linalg.LinAlgError):
        lapack.svd(x)
