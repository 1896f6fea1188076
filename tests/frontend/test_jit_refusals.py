"""What cannot be compiled is refused with a sentence, and with the line where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError, TraceError, UsageError
from tests.frontend.test_jit import Layer, X

REFUSED: Final[dict[str, Any]] = {
    "if": lambda x: x if x[0] > 0 else -x,
    "while": lambda x: [x for _ in iter(lambda: bool(x[0] > 0), False)],
    "and": lambda x: x[0] > 0 and x,
    "min": lambda x: min(x),
    "int": lambda x: x * int(x[0]),
    "float": lambda x: x * float(x[0]),
    "index": lambda x: [1, 2, 3][x.argmax()] * x,
    "in": lambda x: x * (0.3 in x),
    "numpy": lambda x: np.asarray(x) * 2,
    "mask": lambda x: x[x > 0],
    "inside grad": lambda x: pirkit.grad(lambda y: y.sum() if y[0] > 0 else y.prod())(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_are_unknown_inside(name: str) -> None:
    with pytest.raises(TraceError) as caught:
        pirkit.jit(REFUSED[name])(X)
    assert caught.value.span is not None
    assert caught.value.span.file == __file__
    assert caught.value.help


def test_values_are_unknown_inside_a_gradient_too() -> None:
    inner = pirkit.jit(lambda x: x.sum() if x[0] > 0 else x.prod())
    with pytest.raises(TraceError, match="the truth"):
        pirkit.grad(lambda x: inner(x))(X)


def test_leaked_values_are_refused() -> None:
    held: list[Any] = []
    pirkit.jit(lambda x: held.append(x) or x * 2)(X)
    with pytest.raises(TraceError, match="returned"):
        held[0] + 1


WRONG: Final[dict[str, Any]] = {
    "no function": lambda: pirkit.jit(3),
    "no tensor": lambda: pirkit.jit(lambda x: x)("text"),
    "static list": lambda: pirkit.jit(lambda x, n: x, static_argnums=1)(X, [1]),
    "unknown name": lambda: pirkit.jit(lambda x: x, static_argnames="y"),
    "result": lambda: pirkit.jit(lambda x: "text")(X),
    "dataclass": lambda: pirkit.tree.register_dataclass(int),
    "registered twice": lambda: pirkit.tree.register_dataclass(Layer),
    "fields": lambda: pirkit.tree.register_dataclass(dataclass(type("D", (), {})), ["x"]),
    "trees": lambda: pirkit.tree.map(lambda a, b: a, (1,), [1]),
    "trace": lambda: pirkit.trace(X),
    "compile": lambda: pirkit.compile(None),  # pyright: ignore[reportArgumentType]
    "compile a path": lambda: pirkit.compile("a.txt"),  # pyright: ignore[reportArgumentType]
    "compile without examples": lambda: pirkit.compile(lambda x: x),
    "compile a program with examples": lambda: pirkit.compile(pirkit.trace(ops.sin, X), X),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_get_a_sentence(name: str) -> None:
    with pytest.raises(PirkitError) as caught:
        WRONG[name]()
    assert caught.value.code == "PK0701"


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("kind", [np.matrix, np.ma.MaskedArray])
def test_arrays_with_other_operators_are_refused(kind: Any) -> None:
    """Their `*` and `sum` are others than those of the array inside."""
    given = kind(np.ones((2, 2)))
    for call in (pirkit.jit(lambda x: x * x), pirkit.grad(lambda x: (x * x).sum())):
        with pytest.raises(UsageError, match="no tensor"):
            call(given)
    with pytest.raises(UsageError, match="no tensor"):
        pirkit.jit(lambda x: x * given)(np.ones((2, 2)))
