"""Connectionist temporal classification (A. Graves et al., 2006), step by step.

The numbers of steps and labels have to be known. Where they are not, the op is not decomposed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.loss.ctc import NEVER
from pirkit.dialect.rules.movement.movement import from_start
from pirkit.dialect.rules.movement.size_ops import in_shape, sizes_of, zeros
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.warpctc")
def _(c: OpCall) -> tuple[Value, Value | None]:
    """Logarithms of sums over all alignments, forward in time; the derivative needs the sums
    backward in time too.

    Training by the number of steps has another derivative than `loss`: it is not decomposed.
    """
    b, logits, kind = c.b, c.b.wide(c.logits), c.logits.dtype
    time, _, classes = logits.shape
    if UNKNOWN in (time, classes, c.label.shape[1]) or time == 0 or c.norm_by_times:
        return NotImplemented
    logs = b.log_softmax(logits, axis=-1)
    path, skips = _path(c)
    batch, width = sizes_of(b, path)
    classes_of = b.unsqueeze(from_start(b, path), axis=(0,))
    every = b.expand_like(classes_of, zeros(b, [time, batch, width], dt.int64))
    seen = b.take_along_axis(logs, every, axis=2)
    places = b.unsqueeze(b.arange(start=0, end=width, step=1, dtype=dt.int64), axis=(0,))
    last = b.unsqueeze(b.cast(c.labels_length, dt.int64) * 2, axis=(1,))
    ends = b.logical_or(b.equal(places, last), b.equal(places, last - 1))
    steps = b.unsqueeze(b.cast(c.logits_length, dt.int64), axis=(1,))

    never = b.like(NEVER, seen[0])
    states: list[Value] = []
    state = b.where(b.expand_like(b.equal(places, b.integers((0,))), never), 0.0 * never, never)
    for t in range(time):
        ways = [state, _at_end(b, state, 1)]
        if t:
            ways.append(b.where(skips, _at_end(b, state, 2), never))
        state = b.where(_active(b, steps, t, never), _logsum(b, ways) + seen[t], state)
        states.append(state)
    reached = b.where(ends, state, never)
    total = b.logsumexp(reached, axis=(-1,), keepdim=True, reduce_all=False)
    possible = total > NEVER / 2
    loss = b.where(possible, -total, b.zeros_like(total))
    if not c.is_used("warpctcgrad"):
        return b.cast(loss, kind), None

    state = b.where(ends, 0.0 * never, never)
    after = b.cast(_ahead(b, b.cast(skips, dt.int64), 2, 0), dt.bool_)
    share: list[Value] = []
    for t in reversed(range(time)):
        active = _active(b, steps, t, never)
        held = b.exp(b.minimum(states[t] + state - total, b.value(0.0, total)))
        counts = b.logical_and(active, b.expand_like(possible, never))
        share.append(b.where(counts, held, b.zeros_like(held)))
        moved = state + seen[t]
        skipped = b.where(after, _ahead(b, moved, 2, NEVER), never)
        back = _logsum(b, [moved, _ahead(b, moved, 1, NEVER), skipped])
        state = b.where(active, back, state)
    held = b.stack(share[::-1], axis=0)
    taken = b.put_along_axis(b.zeros_like(logits), every, held, axis=2, reduce="add")
    counts = b.stack([_active(b, steps, t, logits[0]) for t in range(time)], axis=0)
    counts = b.logical_and(counts, b.expand_like(possible, logits))
    slope = b.where(counts, b.exp(logs) - taken, b.zeros_like(logits))
    return b.cast(loss, kind), b.cast(slope, kind)


@decompose("pd_op.warpctc_grad")
def _(c: OpCall) -> Value:
    """Each sequence by its cotangent, and by its number of steps if that is asked for."""
    b, g = c.b, c.loss_grad
    if c.norm_by_times:
        steps = b.cast(c.logits_length, g.dtype)
        g = g / b.unsqueeze(b.maximum(steps, b.ones_like(steps)), axis=(1,))
    return c.warpctcgrad * b.unsqueeze(g, axis=(0,))


def _path(c: OpCall) -> tuple[Value, Value]:
    """Classes with blanks around and between; where a blank may be left out."""
    b, labels = c.b, c.b.cast(c.label, dt.int64)
    batch, count = sizes_of(b, labels)
    assert isinstance(count, int)
    places = b.unsqueeze(b.arange(start=0, end=count, step=1, dtype=dt.int64), axis=(0,))
    lengths = b.unsqueeze(b.cast(c.labels_length, dt.int64), axis=(1,))
    blank = b.like(c.blank, labels)
    labels = b.where(b.expand_like(places < lengths, labels), labels, blank)
    pairs = in_shape(b, b.stack([blank, labels], axis=2), [batch, 2 * count])
    end = zeros(b, [batch, 1], dt.int64) + c.blank
    path = b.concat([pairs, end], axis=1)
    before = _at_end(b, path, 2, c.blank)
    given = b.not_equal(path, b.like(c.blank, path))
    return path, b.logical_and(given, b.not_equal(path, before))


def _at_end(b: Builder, x: Value, by: int, fill: float = NEVER) -> Value:
    """The columns moved to the right."""
    keep_mask = b.pad(x, paddings=(0, 0, by, 0), pad_value=fill)
    return keep_mask[:, : x.shape[1]]


def _ahead(b: Builder, x: Value, by: int, fill: float) -> Value:
    """The columns moved to the left."""
    return b.pad(x, paddings=(0, 0, 0, by), pad_value=fill)[:, by:]


def _active(b: Builder, steps: Value, t: int, like: Value) -> Value:
    """Which sequences have not ended."""
    return b.expand_like(steps > t, like)


def _logsum(b: Builder, ways: Sequence[Value]) -> Value:
    top = ways[0]
    for way in ways[1:]:
        top = b.maximum(top, way)
    total = b.total([b.exp(w - top) for w in ways])
    assert total is not None
    return top + b.log(total)
