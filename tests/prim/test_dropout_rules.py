"""The derivative of dropout uses the mask that was drawn."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit.runtime import dtype as dt
from tests.prim.differentiation import Traced


@pytest.mark.parametrize("is_test", [False, True])
@pytest.mark.parametrize("mode", ["upscale_in_train", "downgrade_in_infer"])
@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_the_derivative_is_what_each_element_was_multiplied_with(
    mode: str, p: float, is_test: bool
) -> None:
    given = np.linspace(1, 2, 24).reshape(4, 6)
    traced = Traced([given])
    (x,) = traced.args
    y, _ = traced.b.dropout(x, None, p=p, mode=mode, is_test=is_test, seed=3, fix_seed=True)
    (slope,) = traced.grad(traced.b.cast(traced.b.sum(y, (0, 1)), dt.float64), [x])
    assert slope is not None
    found = traced.run({"y": y, "slope": slope})
    np.testing.assert_allclose(found["slope"], found["y"] / given, rtol=1e-12)
