"""Element types know the types of numpy, whichever of them is asked first."""

from __future__ import annotations

import pytest

from tests.whole_program.processes import printed

CODE = """
import numpy as np
from pirkit.runtime import dtype as dt
dt.BY_NAME[{first!r}].np
assert all(d.np.name == d.name for d in dt.EVERY)
assert dt.BY_NUMPY[np.dtype("float64")] is dt.float64
"""


@pytest.mark.parametrize("first", ["uint16", "float32", "float4_e2m1fn"])
def test_every_element_type_has_one_of_numpy(first: str) -> None:
    """In a process of its own, as the first question gives all of them their types."""
    printed(CODE.format(first=first), {})
