"""What `to_static` cannot convert: each is refused with the line and the remedy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import TraceError, UsageError

X: Final = np.array([0.3, -0.7, 1.1])
HELD: Final[list[Any]] = []
COUNT = 0


class Model:
    def __init__(self) -> None:
        self.last: Any = None
        self.seen: list[Any] = []

    def remember(self, x: Any) -> Any:
        if x.sum() > 0:
            self.last = x  # here
        return x

    def collect(self, x: Any) -> Any:
        for v in x:
            self.seen.append(v)  # here
        return x


def one_branch(x: Any) -> Any:
    if x.sum() > 0:  # here
        y = x
    return y  # pyright: ignore[reportPossiblyUnboundVariable]


def deleted(x: Any) -> Any:
    y = x
    if x.sum() > 0:  # here
        del y
    return y  # pyright: ignore[reportPossiblyUnboundVariable]


def other_dtype(x: Any) -> Any:
    if x.sum() > 0:  # here
        y = x
    else:
        y = x.astype("float32")
    return y


def other_shape(x: Any) -> Any:
    y = x
    if x.sum() > 0:  # here
        y = x[:2]
    return y.sum()


def nothing_returned(x: Any) -> Any:
    if x.sum() > 0:  # here
        return x


def strings(x: Any) -> Any:
    if x.sum() > 0:  # here
        mode = "a"
    else:
        mode = "b"
    return x if mode == "a" else -x


def functions(x: Any) -> Any:
    if x.sum() > 0:  # here

        def g(v: Any) -> Any:
            return v
    else:

        def g(v: Any) -> Any:
            return -v

    return g(x)


def other_structure(x: Any) -> Any:
    if x.sum() > 0:  # here
        y = (x, x)
    else:
        y = (x,)
    return y[0]


def other_shape_at_a_break(x: Any) -> Any:
    y = x
    while x.sum() < 10:
        x = x + 1
        if x[0] > 2:  # here
            y = x[:2]
            break
    return y.sum()


def other_shape_at_a_continue(x: Any) -> Any:
    y = x
    while x.sum() + y.sum() < 10:
        x = x + 1
        if x[0] > 2:  # here
            y = x[:2]
            continue
        x = x + 1
    return x


def matched(x: Any) -> Any:
    match x.sum():  # here
        case 0 | 1:
            return x
        case _:
            return -x


def guarded(x: Any) -> Any:
    match x:
        case y if y.sum() > 0:  # here
            return y
        case _:
            return -x


def growing(x: Any) -> Any:
    while x.sum() < 10:  # here
        x = np.concatenate([x, x])
    return x


def narrowing(x: Any) -> Any:
    for v in x:  # here
        x = (x + v).astype("float32")
    return x


def first_in_the_loop(x: Any) -> Any:
    for v in x:  # here
        y = v
    return y  # pyright: ignore[reportPossiblyUnboundVariable]


def none_at_first(x: Any) -> Any:
    best = None
    for v in x:  # here
        if best is None or v > best:
            best = v
    return best


def text_in_a_loop(x: Any) -> Any:
    mode = "a"
    while x.sum() < 10:  # here
        x = x + 1
        mode = mode + "b"
    return x * len(mode)


def appended(x: Any) -> Any:
    out: list[Any] = []
    for v in x:  # here
        out.append(v * 2)
    return out


def appended_to_a_global(x: Any) -> Any:
    for v in x:
        HELD.append(v)  # here
    return x


def appended_by_a_function(x: Any) -> Any:
    def add(out: list[Any], v: Any) -> None:
        out.append(v)  # here

    found: list[Any] = []
    if x.sum() > 0:
        add(found, x)
    return x


def global_written(x: Any) -> Any:
    global COUNT
    if x.sum() > 0:
        COUNT = 1  # here
    return x


def attribute_written(x: Any) -> Any:
    return Model().remember(x)


def attribute_appended(x: Any) -> Any:
    return Model().collect(x)


def set_written(x: Any) -> Any:
    seen: set[int] = set()
    if x.sum() > 0:  # here
        seen.add(1)
    return x * len(seen)


def array_written(x: Any) -> Any:
    y = np.zeros(3)
    for i in range(int(abs(x[2]) * 2)):
        y[i] = 1.0  # here
    return y * x


def raised(x: Any) -> Any:
    if x.sum() < 0:
        raise ValueError("negative")  # here
    return x


def tried(x: Any) -> Any:
    try:
        if x.sum() > 0:  # here
            x = x * 2
    except ValueError:
        x = -x
    return x


def left_by_finally(x: Any) -> Any:
    try:
        x = x * 2
    finally:
        return x  # noqa: B012  # here


def without_end(x: Any) -> Any:
    for _ in itertools.count():  # here
        x = x + 1
        if x.sum() > 10:
            break
    return x


def recursion(x: Any) -> Any:
    if x.sum() < 10:  # here
        return recursion(x + 1)
    return x


def walrus(x: Any) -> Any:
    if x.sum() > 0 and (y := x[0]) > 0:  # here
        return y
    return x[1]


def comprehension(x: Any) -> Any:
    return sum([v for v in x if v > 0])  # here


def text_from_a_loop(x: Any) -> Any:
    for v in x:  # here
        if v > 0:
            return "a"
    return "b"


def many_elements(x: Any) -> Any:
    if x > 0:  # here
        return x
    return -x


def rows_of_a_number(x: Any) -> Any:
    for v in x.sum():  # here
        x = x + v
    return x


def range_of_a_fraction(x: Any) -> Any:
    for i in range(x.sum()):  # here
        x = x + i
    return x


def generator(x: Any) -> Any:  # here
    yield x


async def coroutine(x: Any) -> Any:  # here
    return x


REFUSED: Final[dict[Callable[..., Any], tuple[str, str, str]]] = {
    # function: code, words of the message, words of the help
    one_branch: ("PK0708", "`y` has a value only where the condition holds", "before the `if`"),
    deleted: ("PK0708", "`y` has a value only where the condition does not", "before the `if`"),
    other_dtype: ("PK0708", "`y` is tensor<3xf64> in one branch", "astype"),
    other_shape: ("PK0708", "tensor<2xf64> in one branch, tensor<3xf64>", "zeros_like"),
    nothing_returned: ("PK0708", "what the function returns is a tensor<3xf64>", "return a value"),
    strings: ("PK0708", "`mode` is 'a' in one branch, 'b'", "the same"),
    functions: ("PK0708", "`g` is a function", "the same"),
    other_structure: ("PK0708", "a tuple of 2 values", "structure"),
    other_shape_at_a_break: ("PK0708", "`y` is tensor<2xf64> in one branch", "zeros_like"),
    other_shape_at_a_continue: ("PK0708", "`y` is tensor<2xf64> in one branch", "zeros_like"),
    growing: ("PK0708", "`x` begins as tensor<3xf64>", "keep shape"),
    narrowing: ("PK0708", "an iteration makes it tensor<3xf32>", "astype"),
    first_in_the_loop: ("PK0708", "`y` has no value before the loop", "before the loop"),
    none_at_first: ("PK0708", "from None to one tensor", "from the start"),
    text_in_a_loop: ("PK0708", "`mode` changes from 'a' to 'ab'", "from the start"),
    appended: ("PK0708", "`out` changes from a list of 0", "pirkit.scan"),
    appended_to_a_global: ("PK0709", "`HELD.append()`", "return it"),
    appended_by_a_function: ("PK0709", "`out.append()`", "return it"),
    global_written: ("PK0709", "assignment to `COUNT`, a global", "return it"),
    attribute_written: ("PK0709", "assignment to `self.last`", "return it"),
    attribute_appended: ("PK0709", "`self.seen.append()`", "return it"),
    set_written: ("PK0709", "`seen`, a set, is written", "lists, tuples and dicts"),
    matched: ("PK0709", "a `match`", "`elif`"),
    guarded: ("PK0709", "a `match`", "`elif`"),
    array_written: ("PK0706", "assignment to elements", "pirkit.where"),
    raised: ("PK0709", "`raise` in a branch", "`assert`"),
    tried: ("PK0709", "inside a `try`", "out of it"),
    left_by_finally: ("PK0709", "out of `finally`", "after the `try`"),
    without_end: ("PK0709", "may have no end", "`while`"),
    recursion: ("PK0709", "recursion", "a loop"),
    walrus: ("PK0709", "`:=`", "assignment before"),
    comprehension: ("PK0709", "a comprehension", "`for` loop"),
    text_from_a_loop: ("PK0708", "returns 'a' from a loop", "return tensors"),
    many_elements: ("PK0706", "one boolean, not a tensor<3xb>", "any()"),
    rows_of_a_number: ("PK0706", "iteration", "one number"),
    range_of_a_fraction: ("PK0706", "one integer, not a tensor<f64>", "astype"),
    generator: ("PK0709", "a generator", "a list"),
    coroutine: ("PK0709", "a coroutine", "a list"),
}


def marked_line(f: Callable[..., Any]) -> int:
    """The first line from the function on that is marked."""
    mark = {attribute_written: Model.remember, attribute_appended: Model.collect}.get(f, f)
    with open(__file__) as held:
        lines = held.read().splitlines()
    first = mark.__code__.co_firstlineno
    return next(n for n in range(first, len(lines)) if lines[n - 1].endswith("# here"))


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_line_and_remedy(f: Callable[..., Any]) -> None:
    code, words, remedy = REFUSED[f]
    with pytest.raises(TraceError) as caught:
        pirkit.to_static(f)(X)
    error = caught.value
    assert error.code == code
    assert words in error.message
    assert remedy in (error.help or "")
    assert error.span is not None
    assert (error.span.file, error.span.line) == (__file__, marked_line(f))


def test_there_are_fifteen() -> None:
    assert len(REFUSED) >= 15


def test_notes_name_where_a_variable_is_set() -> None:
    with pytest.raises(TraceError) as caught:
        pirkit.to_static(other_dtype)(X)
    first = other_dtype.__code__.co_firstlineno
    assert [n.rpartition(":")[2] for n in caught.value.notes] == [f"{first + 2}", f"{first + 4}"]


def test_without_source() -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x", names)
    with pytest.raises(TraceError, match="source of `f`") as caught:
        pirkit.to_static(names["f"])
    assert "pirkit.cond" in (caught.value.help or "")


@pytest.mark.parametrize("given", [3, np.sin, None])
def test_no_function(given: Any) -> None:
    if given is None:
        assert callable(pirkit.to_static(given))
        return
    with pytest.raises(UsageError, match="to_static"):
        pirkit.to_static(given)


def test_plain_python_may_do_all_of_it() -> None:
    """Where no tensor decides, the same statements run as Python does."""

    @pirkit.to_static
    def f(x: Any) -> Any:
        out: list[Any] = []
        for k in range(3):
            try:
                if k == 1:
                    raise ValueError
                out.append(x * k)
            except ValueError:
                continue
        match (len(out), x):
            case (2, y) if len(out) == 2:
                out.append(y * 2)
            case _:
                pass
        match len(out):
            case 3:
                out.pop()
            case _:
                pass
        seen = {len(out)}
        seen.add(5)
        return out[-1] * len(seen)

    np.testing.assert_allclose(f(X), X * 4)
