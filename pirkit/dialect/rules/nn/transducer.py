"""The loss of sequence transduction (A. Graves, 2012), step by step.

The numbers of steps and labels have to be known. Where they are not, the op is not decomposed.
"""

from __future__ import annotations

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.ops.loss.ctc import NEVER
from pirkit.dialect.rules.movement.movement import refused
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.warprnnt")
def _(c: OpCall) -> tuple[Value, Value | None]:
    """Weighted emissions have another derivative than `loss`: the op is not decomposed."""
    if not _is_known(c) or c.fastemit_lambda != 0:
        return NotImplemented
    return _loss_and_slope(c, c.is_used("warprnntgrad"))


@vjp("pd_op.warprnnt")
def _(c: OpCall, g: Value | None, of_derivative: Value | None) -> tuple[Value | None, ...]:
    """By the closed form, whose parts can be differentiated again."""
    if of_derivative is not None:
        raise UnsupportedError(
            "`pd_op.warprnnt`: no derivative of `warprnntgrad`",
            code="PK0402",
            help="differentiate `loss` twice, with known sizes",
        )
    if g is None:
        return None, None, None, None
    slope = _loss_and_slope(c, True)[1] if _is_known(c) else c.warprnntgrad
    assert slope is not None
    return _scaled(c.b, slope, g), None, None, None


@decompose("pd_op.warprnnt_grad")
def _(c: OpCall) -> Value:
    return _scaled(c.b, c.warprnntgrad, c.loss_grad)


def _is_known(c: OpCall) -> bool:
    return UNKNOWN not in (*c.input.shape, *c.label.shape) and 0 not in c.input.shape


def _loss_and_slope(c: OpCall, with_slope: bool) -> tuple[Value, Value | None]:
    """Logarithms of sums over all alignments: `ahead` of the parts that lead to a state (forward
    variables), `after` of those that leave it (backward variables).
    """
    b, x = c.b, c.input
    batch, time, width, classes = x.shape
    logs = b.log_softmax(x, axis=-1)
    stay = logs[:, :, :, c.blank]
    emit = _emitted(c, logs)
    steps, counts = _lengths(c)
    never = b.const(NEVER, x.dtype, (batch, 1))
    nothing = b.const(0.0, x.dtype, (batch, 1))
    after: list[list[Value]] = [[never] * (width + 1) for _ in range(time + 1)]
    for t in reversed(range(time)):
        for u in reversed(range(width)):
            last = b.logical_and(b.equal(steps, b.like(t + 1, steps)), _equal(b, counts, u))
            on = b.where(last, nothing, after[t + 1][u]) + stay[:, t, u : u + 1]
            found = _either(b, on, after[t][u + 1] + emit[:, t, u : u + 1])
            inside = b.logical_and(steps > t, counts >= u)
            after[t][u] = b.where(inside, found, never)
    total = after[0][0]
    loss = b.squeeze(-total, axis=(1,))
    if not with_slope:
        return loss, None
    rows: list[Value] = []
    before: list[Value] = []
    for t in range(time):
        ahead: list[Value] = []
        for u in range(width):
            ways: list[Value] = []
            if t:
                ways.append(before[u] + stay[:, t - 1, u : u + 1])
            if u:
                ways.append(ahead[u - 1] + emit[:, t, u - 1 : u])
            ahead.append(nothing if not ways else ways[0] if len(ways) == 1 else _either(b, *ways))
        before = ahead
        for u in range(width):
            last = b.logical_and(b.equal(steps, b.like(t + 1, steps)), _equal(b, counts, u))
            on = b.where(last, nothing, after[t + 1][u])
            inside = b.logical_and(steps > t, counts >= u)
            reach = b.where(inside, ahead[u] - total, never)
            blanks = b.exp(reach + stay[:, t, u : u + 1] + on)
            labels = b.exp(reach + emit[:, t, u : u + 1] + after[t][u + 1])
            rows.append(b.concat([blanks, labels * (1 + c.fastemit_lambda)], axis=1))
    shares = b.reshape(b.stack(rows, axis=1), (batch, time, width, 2))
    slope = b.exp(logs) * b.sum(shares, (3,), keepdim=True)
    chosen = [_one_hot(b, c.blank, classes, x), _labels(c, classes, x)]
    for k, one in enumerate(chosen):
        slope = slope - shares[:, :, :, k : k + 1] * one
    return loss, slope


def _lengths(c: OpCall) -> tuple[Value, Value]:
    """Steps and labels of each sequence, looked up so that those without a meaning are refused."""
    b, (_, time, width, classes) = c.b, c.input.shape
    label, steps, counts = (
        b.cast(v, dt.int64) for v in (c.label, c.input_lengths, c.label_lengths)
    )
    is_label = b.integers(range(width - 1)) < b.unsqueeze(counts, axis=(1,))
    unknown = b.logical_or(label < 0, label >= classes)
    wrong = b.any(b.logical_and(is_label, unknown), axis=(1,), keepdim=False)
    for lengths, least, most in ((steps, 1, time), (counts, 0, width - 1)):
        wrong = b.logical_or(wrong, b.logical_or(lengths < least, lengths > most))
    none = refused(b, wrong)
    steps, counts = (b.unsqueeze(v + none, axis=(1,)) for v in (steps, counts))
    return steps, counts


def _scaled(b: Builder, slope: Value, g: Value) -> Value:
    return slope * b.unsqueeze(g, axis=(1, 2, 3))


def _equal(b: Builder, x: Value, number: int) -> Value:
    return b.equal(x, b.like(number, x))


def _either(b: Builder, one: Value, other: Value) -> Value:
    """``log(exp(one) + exp(other))``; what cannot be is a finite number."""
    top = b.maximum(one, other)
    return top + b.log(b.exp(one - top) + b.exp(other - top))


def _one_hot(b: Builder, number: int, classes: int, like: Value) -> Value:
    places = b.arange(start=0, end=classes, step=1, dtype=dt.int64)
    return b.cast(b.equal(places, b.like(number, places)), like.dtype)


def _labels(c: OpCall, classes: int, like: Value) -> Value:
    """``[B, 1, U + 1, V]``: one at the next label, nothing after the last."""
    b = c.b
    label = b.pad(b.cast(c.label, dt.int64), paddings=(0, 0, 0, 1), pad_value=-1.0)
    places = b.arange(start=0, end=classes, step=1, dtype=dt.int64)
    hot = b.equal(b.unsqueeze(label, axis=(2,)), places)
    return b.cast(b.unsqueeze(hot, axis=(1,)), like.dtype)


def _emitted(c: OpCall, logs: Value) -> Value:
    """``[B, T, U + 1]``: the logarithms of the probabilities of the next labels."""
    b, classes = c.b, logs.shape[3]
    hot = _labels(c, classes, logs)
    found = b.sum(b.where(hot > 0.0, logs, b.zeros_like(logs)), (3,))
    trailing = b.const(NEVER, logs.dtype, (*found.shape[:2], 1))
    return b.concat([found[:, :, :-1], trailing], axis=2)
