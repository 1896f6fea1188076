"""Named sizes are found from the shapes of tensors, or found not to fit."""

from __future__ import annotations

import pytest

from pirkit.diag.errors import ConstraintError
from pirkit.index.extent import named
from pirkit.index.size_solver import Derived, determined, solve

N, M, B, Q = (named(name) for name in "nmbq")
WIDE = Derived("b", "broadcast", (N, M))
REST = Derived("q", "quotient", (6 * N, 4))


@pytest.mark.parametrize(
    ("dims", "given", "derived", "want"),
    [
        ((N, 4), (7, 4), (), {"n": 7}),
        ((2 * N + 1,), (7,), (), {"n": 3}),
        ((N * M, M), (6, 2), (), {"m": 2}),
        ((M + N, M), (6, 2), (), {"n": 4, "m": 2}),
        ((N, M), (1, 5), (WIDE,), {"n": 1, "m": 5, "b": 5}),
        ((N, M), (0, 1), (WIDE,), {"n": 0, "m": 1, "b": 0}),
        ((N, M, B), (3, 3, 3), (WIDE,), {"n": 3, "m": 3, "b": 3}),
        ((N,), (2,), (REST,), {"n": 2, "q": 3}),
        ((N, M), (2, -1), (WIDE,), {"n": 2}),
    ],
)
def test_solve(
    dims: tuple[int, ...],
    given: tuple[int, ...],
    derived: tuple[Derived, ...],
    want: dict[str, int],
) -> None:
    assert solve(dims, given, derived) == want
    if -1 not in given:
        assert determined(dims, derived) == want.keys()


@pytest.mark.parametrize(
    ("dims", "given", "derived", "told"),
    [
        ((N, N), (2, 3), (), "an axis of n = 2 elements has 3"),
        ((2 * N,), (3,), (), "is not 3 for any n"),
        ((N + 4,), (3,), (), "is not 3 for any n"),
        ((5,), (4,), (), "an axis of 5 = 5 elements has 4"),
        ((N, M), (2, 3), (WIDE,), r"axes of \[2, 3\] elements are not equal"),
        ((N, M, B), (1, 3, 1), (WIDE,), r"b = broadcast\(n, m\) is 3, not 1"),
        ((N,), (3,), (REST,), "18 elements are no multiple of 4"),
    ],
)
def test_what_does_not_fit(
    dims: tuple[int, ...], given: tuple[int, ...], derived: tuple[Derived, ...], told: str
) -> None:
    with pytest.raises(ConstraintError, match=told):
        solve(dims, given, derived)


def test_a_product_of_two_sizes_tells_neither() -> None:
    assert determined((N * M,)) == set()
    assert determined((N * M + 1, 2 * N)) == {"n"}
    assert determined((B,), (WIDE,)) == {"b"}
