"""What no tensor, size or subscript is made of ends in a coded error, whoever takes it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError, RuntimeFault, UsageError
from pirkit.runtime.tolerance import difference

X: Final = np.arange(12, dtype=np.float32).reshape(3, 4) / 10


class Endless:
    """A sequence that is longer than any memory."""

    def __len__(self) -> int:
        return 2**62

    def __getitem__(self, index: int) -> float:
        return 1.0


class Unmade:
    """What says that it is an array, and is none."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return [1, 2]


def nested(levels: int) -> list[Any]:
    found: list[Any] = [1.0]
    for _ in range(levels):
        found = [found]
    return found


def cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


VALUES: Final[dict[str, Callable[[], Any]]] = {
    "digits": lambda: 10**5000,
    "nested": lambda: nested(5000),
    "cyclic": cyclic,
    "cyclic dict": lambda: (d := dict[str, Any](), d.update(a=d))[0],
    "ragged": lambda: [[1.0, 2.0], [3.0]],
    "endless": Endless,
    "unmade": Unmade,
}
CALLS: Final[dict[str, Callable[[Any], Any]]] = {
    "jit": lambda v: pirkit.jit(lambda x: ops.tanh(x))(v),
    "op": lambda v: ops.tanh(v),
    "axis": lambda v: ops.sum(X, axis=v),
    "shape": lambda v: ops.reshape(X, [v, -1]),
    "number": lambda v: ops.full([2], v, "float32"),
    "dtype": lambda v: ops.cast(X, v),
    "gradient": lambda v: pirkit.grad(lambda x: ops.tanh(x).sum())(v),
    "subscript": lambda v: ops.tanh(X)[v],
    "traced subscript": lambda v: pirkit.jit(lambda x: x[v])(X),
    "operand": lambda v: pirkit.jit(lambda x: x + v)(X),
    "result": lambda v: pirkit.jit(lambda x: (x, v))(X),
    "condition": lambda v: pirkit.cond(v, lambda: X, lambda: X),
    "bound": lambda v: pirkit.fori_loop(0, v, lambda i, s: s + 1, X),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", VALUES)
def test_what_is_no_tensor_ends_in_a_coded_error(value: str, call: str) -> None:
    if (value, call) == ("digits", "bound"):
        pytest.skip("a loop that would run so often is one that does not end")
    if (value, call) == ("ragged", "result"):
        pytest.skip("a tree of numbers")
    with pytest.raises(PirkitError) as error:
        CALLS[call](VALUES[value]())
    assert len(str(error.value)) < 1000


def test_a_mask_is_lost_nowhere() -> None:
    masked = np.ma.masked_array(X, X > 0.5)
    b = pirkit.ProgramBuilder()
    b.output("y", b.tanh(b.input("x", X.shape, "float32")))
    exe = pirkit.compile(b.finish())
    exe(x=X)  # what runs later may bind in another way
    with pytest.raises(RuntimeFault, match="mask would be lost"):
        exe(x=masked)
    for call in (CALLS["jit"], CALLS["op"], CALLS["gradient"], CALLS["operand"]):
        with pytest.raises(UsageError, match="mask would be lost"):
            call(masked)


@pytest.mark.parametrize("copied", [deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_functions_of_ops_and_what_is_traced_from_them_are_copied(
    copied: Callable[[Any], Any],
) -> None:
    assert copied(ops.tanh) is ops.tanh
    found = copied(pirkit.jit(ops.tanh))(X)
    assert difference(np.asarray(found), np.asarray(ops.tanh(X))) is None


def test_loops_in_loops_are_recorded_once_and_compiled_in_little_time() -> None:
    """Twice at each level is 2**30 times for these."""
    recorded: list[int] = []

    def nest(x: Any, level: int) -> Any:
        recorded.append(level)
        if level == 0:
            return ops.tanh(x)
        return pirkit.fori_loop(0, 1, lambda i, s: nest(s, level - 1), x)

    found = pirkit.jit(lambda x: nest(x, 30))(X)
    assert difference(np.asarray(found), np.asarray(ops.tanh(X))) is None
    assert len(recorded) == 31


def counted_to_two(body: Any, x: Any) -> Any:
    return pirkit.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, body(s[1])), (0, x))[1]


def scanned(body: Any, x: Any) -> Any:
    return pirkit.scan(lambda s, _: (body(s), None), x, None, length=2)[0]


@pytest.mark.parametrize("loop", [counted_to_two, scanned])
def test_types_of_a_state_cost_one_more_recording_of_each_level(loop: Any) -> None:
    """Each level is recorded once, and once more for the types of each level above it."""
    recorded: list[int] = []

    def nest(x: Any, level: int) -> Any:
        recorded.append(level)
        return loop(lambda s: nest(s, level - 1), x) if level else x * 0.5 + 1.0

    program = pirkit.trace(lambda x: nest(x, 12), X)
    assert len(recorded) == sum(range(14))
    found = pirkit.compile(pirkit.trace(lambda x: nest(x, 3), X))(x=X)["y0"]
    wanted = X
    for _ in range(8):
        wanted = wanted * 0.5 + 1.0
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert str(program).count("pd_op.while") == 12
