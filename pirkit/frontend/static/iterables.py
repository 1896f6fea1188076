"""The iterables of loops that are recorded once: traced ranges, and the rows of tensors."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from pirkit.dialect.build import Value
from pirkit.frontend import tree
from pirkit.frontend.control_flow import lifted, row_of
from pirkit.frontend.traced_value import where
from pirkit.frontend.tracing import Recorder
from pirkit.frontend.user_line import untraceable
from pirkit.runtime import dtype as dt


class TracedRange(Struct, frozen=True):
    """``range`` of which a bound or the step is traced; all are int64 without dimensions."""

    start: Any
    stop: Any
    step: Any

    def more(self, index: Any) -> Any:
        """Whether there is another iteration."""
        if not isinstance(self.step, Value):
            return index < self.stop if self.step > 0 else index > self.stop
        return where(self.step > 0, index < self.stop, index > self.stop)

    def item(self, index: Any) -> Any:
        """What an iteration is given."""
        return index

    def __len__(self) -> int:
        raise untraceable("`len()` of a range of traced bounds", "subtract the bounds")

    def __getitem__(self, index: Any) -> Any:
        return self.start + index * self.step

    def __iter__(self) -> Any:
        raise untraceable("a range of traced bounds outside of a `for`", "loop over it directly")


class TracedRows(Struct, frozen=True):
    """The rows of a tree of tensors with ``count`` rows each, numbered if ``first`` is given."""

    rows: Any
    count: int
    first: Any = None
    """What the numbers of `enumerate` begin with; None if there are none."""
    backwards: bool = False
    start: Any = 0
    step: int = 1

    def more(self, index: Any) -> Any:
        """Whether there is another iteration."""
        return index < self.count

    def item(self, index: Any) -> Any:
        """What an iteration is given."""
        place = (self.count - 1) - index if self.backwards else index
        at = place.b.reshape(place, (1,))
        row = tree.mapped(lambda v: row_of(v, at), self.rows)
        return row if self.first is None else (index + self.first, row)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        found = [tree.mapped(lambda v, i=i: v[i], self.rows) for i in range(self.count)]
        ordered = found[::-1] if self.backwards else found
        return iter(ordered) if self.first is None else enumerate(ordered, self.first)


def rows_of(items: Any) -> Any:
    """The iterable of a recorded loop; None if Python iterates.

    Raises TraceError for a tensor whose number of rows is unknown.
    """
    if isinstance(items, TracedRange):
        b = _recorder(items.start, items.stop, items.step)
        return TracedRange(_integer(b, items.start), items.stop, items.step)
    if isinstance(items, Value):
        if not items.shape:
            iter(cast(Any, items))  # raises TypeError
        items = TracedRows(items, items.shape[0])
    if not isinstance(items, TracedRows):
        return None
    if items.count < 0:
        raise untraceable(
            "a loop over rows whose number is not known while it is traced",
            "loop over `range(n)`, and gather the rows",
        )
    first = next(iter(tree.leaves(items.rows)))
    start = _integer(cast(Recorder, first.b).innermost, 0)
    return TracedRows(items.rows, items.count, items.first, items.backwards, start)


def _recorder(*values: Any) -> Recorder:
    return next(cast(Recorder, v.b).innermost for v in values if isinstance(v, Value))


def _integer(b: Recorder, value: Any) -> Value:
    return b.cast(value, dt.int64) if isinstance(value, Value) else lifted(b, int(value))


def traced_range(*bounds: Any) -> Any:
    """``range``, with traced bounds as well. Raises TraceError for a bound that is no integer."""
    if not any(isinstance(v, Value) for v in bounds):
        return range(*bounds)
    for value in bounds:
        if isinstance(value, Value) and (value.shape or not value.dtype.is_integer):
            raise untraceable(
                f"a bound of `range` is one integer, not a {value.meta}",
                "convert it: `n.astype('int64')`",
            )
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not isinstance(step, Value) and step == 0:
        raise ValueError("range() arg 3 must not be zero")
    return TracedRange(start, stop, step)


def traced_enumerate(items: Any, start: Any = 0) -> Any:
    """``enumerate``; rows of a traced tensor are one loop."""
    if isinstance(items, Value) and items.shape and items.shape[0] >= 0:
        return TracedRows(items, items.shape[0], start)
    if isinstance(items, TracedRows) and items.first is None:
        return TracedRows(items.rows, items.count, start, items.backwards)
    return enumerate(cast(Any, items), start)


def traced_zip(*items: Any, strict: bool = False) -> Any:
    """``zip``; rows of traced tensors of the same length are one loop."""
    if items and all(isinstance(v, Value) and v.shape for v in items):
        counts = {v.shape[0] for v in items}
        if len(counts) == 1 and min(counts) >= 0:
            return TracedRows(tuple(items), counts.pop())
    return zip(*items, strict=strict)


def traced_reversed(items: Any) -> Any:
    """``reversed``; rows of a traced tensor are one loop."""
    if isinstance(items, Value) and items.shape and items.shape[0] >= 0:
        return TracedRows(items, items.shape[0], None, True)
    return reversed(cast(Any, items))
