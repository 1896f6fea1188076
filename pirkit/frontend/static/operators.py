"""`and`, `or`, `not`, comparisons, conditional expressions and `assert` of converted code."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from pirkit.diag.errors import TraceError
from pirkit.dialect.build import Value
from pirkit.frontend.control_flow import chosen, truth
from pirkit.frontend.static.decided import Deciding
from pirkit.frontend.tracing import Recorder
from pirkit.frontend.user_line import user_span
from pirkit.runtime import dtype as dt

Thunk = Callable[[], Any]


def _truth(value: Value) -> Value:
    return truth(cast(Recorder, value.b).innermost, value)


def _decided(thunk: Thunk) -> Thunk:
    def run() -> Any:
        with Deciding():
            return thunk()

    return run


def negated(value: Any) -> Any:
    """``not value``."""
    if not isinstance(value, Value):
        return not value
    return cast(Any, _truth(value).b).logical_not(_truth(value))


def both(first: Any, second: Thunk, harmless: bool, is_test: bool = False) -> Any:
    """``first and second()``; a ``harmless`` second operand may be computed in any case.

    Of a test only the truth counts, so its operands may be of several element types.
    """
    return _logical("logical_and", first, second, harmless, is_test)


def either(first: Any, second: Thunk, harmless: bool, is_test: bool = False) -> Any:
    """``first or second()``."""
    return _logical("logical_or", first, second, harmless, is_test)


def _logical(name: str, first: Any, second: Thunk, harmless: bool, is_test: bool) -> Any:
    is_and = name == "logical_and"
    if not isinstance(first, Value):
        return second() if bool(first) is is_and else first
    condition = _truth(first)
    if is_test:
        first, second = condition, partial(_truth_of, second)
    # Two booleans of which the second may be computed in any case need no branch.
    if harmless and first.dtype is dt.bool_:
        other = second()
        if isinstance(other, bool):  # a bool decides alone, or does not matter
            return first if other is is_and else other
        if isinstance(other, Value) and other.dtype is dt.bool_:
            return getattr(condition.b, name)(condition, _truth(other))
        second = _constant(other)
    other = _decided(second)
    what = "the operand of `and`" if is_and else "the operand of `or`"
    return chosen(
        what, condition, *((other, _constant(first)) if is_and else (_constant(first), other))
    )


def _truth_of(thunk: Thunk) -> Any:
    found = thunk()
    return _truth(found) if isinstance(found, Value) else bool(found)


def _constant(value: Any) -> Thunk:
    return lambda: value


def choice(test: Any, then: Thunk, otherwise: Thunk) -> Any:
    """``then() if test else otherwise()``."""
    if isinstance(test, Value):
        return chosen(
            "the conditional expression", _truth(test), _decided(then), _decided(otherwise)
        )
    return then() if test else otherwise()


def plain(value: Any, place: str) -> Any:
    """A condition that stands where only Python can decide.

    Raises TraceError (PK0709) if it is traced.
    """
    if isinstance(value, Value):
        raise TraceError(
            f"a tensor cannot decide a condition with {place}",
            code="PK0709", span=user_span(),
            help="write it as an `if` statement, with the assignment before it"
            if place == "`:=`"
            else "write a `for` loop, or choose with `pirkit.where`",
        )  # fmt: skip
    return value


def any_of(items: Any) -> Any:
    """``any(items)``."""
    return _folded(items, False, either)


def all_of(items: Any) -> Any:
    """``all(items)``."""
    return _folded(items, True, both)


def _folded(items: Any, found: Any, join: Callable[[Any, Thunk, bool], Any]) -> Any:
    """The items joined, up to the first Python value that decides the result."""
    start = found
    for each in items:
        now = each if isinstance(each, Value) else bool(each)
        if not isinstance(now, Value) and now is not start:
            return now
        found = join(found, _constant(now if not isinstance(now, Value) else _truth(now)), True)
    return found


_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}


def compared(left: Any, names: tuple[str, ...], *rest: Thunk) -> Any:
    """``left < a <= b``, and ``in``; operands after one that is false are not evaluated."""
    found: Any = True
    for name, thunk in zip(names, rest, strict=True):
        right = thunk()
        if name in ("In", "NotIn"):
            each = _contained(left, right)
            each = each if name == "In" else negated(each)
        else:
            each = _COMPARE[name](left, right)
        found = each if found is True else both(found, _constant(each), True)
        if not isinstance(found, Value) and not found:
            return found
        left = right
    return found


def _contained(item: Any, container: Any) -> Any:
    if isinstance(container, Value):
        return (container == item).any()
    if not isinstance(item, Value) or not isinstance(container, list | tuple):
        return item in container
    found: Any = False
    for each in cast("list[Any]", container):
        is_equal = each is item or each == item
        found = is_equal if found is False else either(found, _constant(is_equal), True)
    return found


def check(test: Thunk, message: Thunk) -> None:
    """``assert test(), message()``; of a traced value it is checked when the program runs."""
    found = test()
    if isinstance(found, Value):
        _truth(found).b("pd_op.assert", _truth(found))
    elif not found:
        text = message()
        raise AssertionError(text) if text is not None else AssertionError
