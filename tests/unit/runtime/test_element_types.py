"""Element types know the types of numpy, whichever of them is asked first."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant, constants
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


LISTS: Final[list[tuple[complex, ...]]] = [
    (0.1, -0.0, 1e300, -3e9, math.inf, -math.inf, math.nan, 255.9),
    (1, -1, 300, 2**62 + 1, -(2**63) + 1), (1, 2**63), (True, False), (1, 0.5, True, 2j),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.bfloat16, dt.int32, dt.int64,
                                   dt.uint8, dt.bool_], ids=str)  # fmt: skip
@pytest.mark.parametrize("numbers", LISTS, ids=str)
def test_numbers_are_converted_together_as_one_by_one(
    dtype: dt.DType, numbers: tuple[complex, ...]
) -> None:
    expected = np.asarray([constant(n, dtype) for n in numbers], dtype.np)
    found = constants(numbers, dtype)
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
def test_copies_of_an_element_type_are_that_type(copied: Any) -> None:
    """They are compared by identity."""
    assert copied(dt.bfloat16) is dt.bfloat16


def test_an_element_type_equals_what_the_type_of_numpy_equals() -> None:
    others = ["float32", "f4", np.float32, np.dtype("float32"), dt.float32, "float64", float, "x"]
    assert [dt.float32 == other for other in others] == [True] * 5 + [False] * 3
    assert [other == dt.float32 for other in others] == [True] * 5 + [False] * 3
    assert dt.bfloat16 == "bfloat16" != dt.float16
    assert pirkit.tensor(np.zeros(2)).dtype in ("float32", "float64")
    assert dt.float64 != None  # noqa: E711
