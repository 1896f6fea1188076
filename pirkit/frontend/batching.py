"""How an op on one row is an op on many: rules by kind of op, axes shifted by one.

An op without a rule is decomposed into ops that have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, cast

from xdsl.ir import Operation, SSAValue

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import ELEMENTWISE, LIST
from pirkit.dialect.opdef import RANDOM
from pirkit.dialect.operation import PirOp, bodies, declares, span_of
from pirkit.dialect.ops.linalg.solve import holds_vectors
from pirkit.dialect.structure import CHECKPOINT, CUSTOM
from pirkit.dialect.types import meta_of
from pirkit.passes.decompose import decompose_op
from pirkit.runtime.meta import TensorMeta


@dataclass(frozen=True, slots=True)
class Batched:
    """A value, with an axis of rows in front or the same for all rows."""

    value: Value
    rows: bool


@dataclass(frozen=True, slots=True)
class OneRow:
    """An op as it was recorded for one row, with what stands for its operands."""

    b: Builder
    op: PirOp
    operands: tuple[Any, ...]
    """By slot: a `Batched`, a list of them, or None."""
    count: int

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes, those that may be operands included."""
        found = self.op.attribute_values()
        for slot in self.op.definition.operands:
            if slot.kind is not None and slot.name in self.op.properties:
                found[slot.name] = self.op.attribute(slot.name)
        return found

    @property
    def rank(self) -> int:
        """Axes of the first operand, for one row."""
        return self.meta(0).rank

    def meta(self, slot: int) -> TensorMeta:
        """Of an operand, for one row."""
        return cast(TensorMeta, meta_of(cast(SSAValue, self.op.operand_slots[slot]).type))

    @property
    def result(self) -> TensorMeta:
        """Of the first result, for one row."""
        return cast(TensorMeta, meta_of(self.op.results[0].type))

    def value(self, slot: int) -> Value:
        """An operand, with the axis of rows."""
        return self.spread(self.operands[slot])

    def spread(self, given: Batched) -> Value:
        """A value with the axis of rows."""
        x = given.value
        if given.rows:
            return x
        return self.b(
            "pd_op.expand", self.b.reshape(x, (1, *x.shape)), shape=(self.count, *x.shape)
        )

    def aligned(self, slot: int, rank: int) -> Value:
        """An operand whose axes for one row are as many as ``rank``, to be broadcast."""
        given = self.operands[slot]
        x = given.value
        if not given.rows:
            return x
        return self.b.reshape(x, (x.shape[0], *[1] * (rank - x.rank + 1), *x.shape[1:]))

    def emit(self, tensors: Sequence[Any], **changed: Any) -> Any:
        """The op on other tensors, with some attributes changed."""
        kinds = {s.name for s in self.op.definition.operands if s.kind is not None}
        late = {
            s.name: cast(Batched, v).value
            for s, v in zip(self.op.definition.operands, self.operands, strict=False)
            if s.name in kinds and v is not None
        }
        return self.b(self.op.definition, *tensors, **{**self.attrs, **late, **changed})


Rule = Callable[[OneRow], Any]


def apply_rule(
    b: Builder, op: PirOp, values: dict[SSAValue, Any], count: int, alike: bool = False
) -> Operation | None:
    """Emit an op for all rows, and note what its results are.

    Random ops are refused, unless rows are ``alike`` in what they draw.

    Gives the op to go on with: the next one, or the first part where the op was decomposed. Raises
    UnsupportedError (PK0402), naming op and line, for an op without a rule.
    """
    if op.name == "pir.combine":
        values[op.results[0]] = [values[v] for v in op.operands]
        return op.next_op
    if declares(op, LIST):
        held = values[op.operands[0]]
        is_one = "index" in op.definition.attr_kinds
        parts = [held[op.attribute("index")]] if is_one else held
        values.update(zip(op.results, parts, strict=True))
        return op.next_op
    operands = tuple([None if v is None else values[v] for v in op.operand_slots])
    one = OneRow(b, op, operands, count)
    draws = op.definition.effects == RANDOM and not alike
    if not any(_has_rows(v) for v in operands) and not draws:
        _shared(one, values)
        return op.next_op
    rule = _rule_of(one)
    if rule is None:
        before = op.prev_op
        block = op.parent
        if draws or not decompose_op(op):
            raise no_rule(op)
        assert block is not None
        return block.first_op if before is None else before.next_op
    saved, b.location = b.location, op.location
    try:
        found = rule(one)
    finally:
        b.location = saved
    several = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
    for i, (result, value) in enumerate(zip(op.result_slots, several, strict=False)):
        if result is not None:
            is_stopped = any(op.stop_gradient[i : i + 1]) and isinstance(value, Value)
            values[result] = Batched(_stopped(b, value) if is_stopped else value, True)
    return op.next_op


def _stopped(b: Builder, value: Value) -> Value:
    """A value through which no derivative flows."""
    made = b("pd_op.assign", value)
    cast(PirOp, made.ssa.owner).attributes["stop_gradient"] = encode("bool[]", (True,))
    return made


def _shared(one: OneRow, values: dict[SSAValue, Any]) -> None:
    """An op that is the same for all rows."""
    mapped: dict[SSAValue, SSAValue] = {}
    for slot, given in zip(one.op.operand_slots, one.operands, strict=True):
        if slot is not None:
            mapped[slot] = _single(one.b, given)
    made = one.b.insert(one.op.clone(value_mapper=mapped))
    for result, new in zip(one.op.results, made.results, strict=True):
        meta = meta_of(new.type)
        wrapped = one.b.wrap(new)
        is_tensor = isinstance(meta, TensorMeta)
        values[result] = (
            Batched(wrapped, False)
            if is_tensor
            else [Batched(v, False) for v in one.b.split_vec(wrapped)]
        )


def _single(b: Builder, given: Any) -> SSAValue:
    if isinstance(given, list):
        return b.combine([cast(Batched, v).value for v in cast("list[Any]", given)]).ssa
    return cast(Batched, given).value.ssa


def _has_rows(given: Any) -> bool:
    if isinstance(given, list):
        return any(cast(Batched, v).rows for v in cast("list[Any]", given))
    return given is not None and cast(Batched, given).rows


def _rule_of(one: OneRow) -> Rule | None:
    """The rule for an op. Operands that stand for attributes have to be the same in all rows."""
    definition = one.op.definition
    pairs = zip(definition.operands, one.operands, strict=False)
    if any(s.kind is not None and _has_rows(v) for s, v in pairs):
        return None
    found = RULES.get(definition.name)
    if found is None and definition.kind == ELEMENTWISE and not _names_axes(one):
        return _elementwise
    return found


def _names_axes(one: OneRow) -> bool:
    """Whether an op is elementwise along some axes only, or sums in the end."""
    return not _ABOUT_AXES.isdisjoint(one.op.definition.attr_kinds) or any(
        s.is_vec for s in one.op.definition.operands
    )


_ABOUT_AXES: Final = frozenset(
    "axis axes dim perm shape data_format num reduction normalize".split()
)


def no_rule(op: PirOp) -> UnsupportedError:
    """The error for an op that cannot be mapped over rows."""
    if bodies(op):
        help = "rows turn as often in a loop with a derivative inside: take `fori_loop`, `scan`"
    elif op.definition.effects == RANDOM:
        help = "draw for all rows outside of `vmap`, and pass the numbers as an argument"
    else:
        help = "call the function for each row with `pirkit.scan`, or on all rows at once"
    return UnsupportedError(
        f"`{op.name}` cannot be mapped over rows", code="PK0402", span=span_of(op), help=help
    )


# --- rules ---------------------------------------------------------------------------------------


def _elementwise(one: OneRow) -> Any:
    slots = one.op.definition.operands
    at = [i for i, s in enumerate(slots) if s.kind is None and one.operands[i] is not None]
    metas = [one.meta(i) for i in at]
    rank = max(m.rank for m in metas)
    values = [one.aligned(i, rank) if rank else one.value(i) for i in at]
    # A number beside a tensor does not promote it; with an axis of rows it would.
    kinds = {m.dtype for m in metas if m.rank and m.dtype.is_float}
    for k, m in enumerate(metas):
        if len(kinds) == 1 and not m.rank and m.dtype.is_float:
            values[k] = one.b.cast(values[k], *kinds)
    return one.emit(values)


def _same(one: OneRow) -> Any:
    return one.emit([one.value(0)])


def _leading(one: OneRow) -> Any:
    """Ops on the matrices of the last axes: axes in front of them are aligned, vectors columns."""
    given = [i for i, v in enumerate(one.operands) if v is not None]
    plain = [one.meta(i).shape for i in given]
    if one.op.name == "pd_op.solve" and holds_vectors(*plain):
        plain[1] = (*plain[1], 1)
    rank = max(map(len, plain))
    shapes = [(one.count, *[1] * (rank - len(s)), *s) for s in plain]
    pairs = zip(given, shapes, strict=True)
    found = one.emit([one.b.reshape(one.value(i), shape) for i, shape in pairs])
    if isinstance(found, tuple):
        metas = [cast(TensorMeta, meta_of(r.type)) for r in one.op.results]
        pairs = zip(cast("tuple[Value, ...]", found), metas, strict=True)
        return tuple([one.b.reshape(v, (one.count, *m.shape)) for v, m in pairs])
    if one.op.name == "pd_op.slogdet":  # signs, then logarithms, of all matrices
        found = one.b.transpose(found, perm=(1, 0, *range(2, found.rank)))
    return one.b.reshape(found, (one.count, *one.result.shape))


def _shifted(name: str) -> Rule:
    """An op on one operand whose attribute ``name`` is an axis, or several."""

    def rule(one: OneRow) -> Any:
        given = one.attrs[name]
        x = one.value(0)
        if one.attrs.get("flatten"):
            x = one.b.reshape(x, (one.count, -1))
            found = one.emit([x], **{name: 1, "flatten": False})
            first = cast("Value", found[0] if isinstance(found, tuple) else found)
            return one.b.reshape(first, (one.count, *one.result.shape))
        if not one.rank:  # a number: its row is the only axis
            x = one.b.reshape(x, (one.count, 1))
            found = one.emit([x], **{name: 1 if isinstance(given, int) else [1]})
            several = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
            return tuple([one.b.reshape(v, (one.count,)) for v in several])
        return one.emit([x], **{name: _moved(given, one.rank)})

    return rule


def _moved(axis: Any, rank: int) -> Any:
    if isinstance(axis, int):
        return axis % rank + 1
    return [int(a) % rank + 1 for a in axis]


def _reduced(one: OneRow) -> Any:
    """A reduction, where no axes are all axes."""
    given = one.attrs["axis"]
    listed = [given] if isinstance(given, int) else list(given or ())
    axes = [a % one.rank for a in listed] if one.rank else []
    if not listed or one.attrs.get("reduce_all"):
        axes = list(range(one.rank))
    x = one.value(0)
    if not one.rank:
        x, axes = one.b.reshape(x, (one.count, 1)), [0]
    changed: dict[str, Any] = {"axis": [a + 1 for a in axes]}
    if "reduce_all" in one.attrs:
        changed["reduce_all"] = False
    found = one.emit([x], **changed)
    return one.b.reshape(found, (one.count, *one.result.shape))


def _reshape(one: OneRow) -> Any:
    return one.b.reshape(one.value(0), (one.count, *one.result.shape))


def _transpose(one: OneRow) -> Any:
    perm = [a % one.rank + 1 for a in one.attrs["perm"]] if one.rank else []
    return one.b("pd_op.transpose", one.value(0), perm=(0, *perm))


def _expand(one: OneRow) -> Any:
    x = one.aligned(0, one.result.rank)
    return one.b("pd_op.expand", x, shape=(one.count, *one.result.shape))


def _sliced(one: OneRow) -> Any:
    changed: dict[str, Any] = {"axes": _moved(one.attrs["axes"], one.rank)}
    if one.attrs.get("decrease_axis"):
        changed["decrease_axis"] = _moved(one.attrs["decrease_axis"], one.rank)
    return one.emit([one.value(0)], **changed)


def _pad(one: OneRow) -> Any:
    return one.emit([one.value(0)], paddings=(0, 0, *one.attrs["paddings"]))


def _joined(one: OneRow) -> Any:
    parts = [one.spread(v) for v in cast("list[Batched]", one.operands[0])]
    rank = parts[0].rank - 1 + (one.op.name == "pd_op.stack")
    return one.emit([parts], axis=one.attrs["axis"] % rank + 1)


def _matmul(one: OneRow) -> Any:
    """Vectors become matrices, and axes in front of matrices are aligned.

    Rows times one matrix are one matmul, which is tiled; a matmul for each row reads the matrix
    anew for each of them.
    """
    b, ranks = one.b, [one.meta(0).rank, one.meta(1).rank]
    x, y = one.operands
    flips = [bool(one.attrs[name]) for name in ("transpose_x", "transpose_y")]
    shape = (one.count, *one.result.shape)
    if x.rows and not y.rows and ranks[1] == 2 and (ranks[0] == 1 or not flips[0]):
        *lead, depth = x.value.shape
        rows = b.reshape(x.value, (prod(lead), depth))
        return b.reshape(one.emit([rows, y.value], transpose_x=False), shape)
    if y.rows and not x.rows and ranks == [2, 1]:
        found = one.emit([y.value, x.value], transpose_x=False, transpose_y=not flips[0])
        return b.reshape(found, shape)
    rank = max(2, *ranks)
    sides: list[Value] = []
    for slot, name in enumerate(("transpose_x", "transpose_y")):
        given = one.operands[slot]
        x, plain = given.value, one.meta(slot).shape
        if len(plain) == 1:
            as_row = (slot == 0) != bool(one.attrs[name])
            plain = (1, *plain) if as_row else (*plain, 1)
        lead = (one.count, *[1] * (rank - len(plain))) if given.rows else ()
        sides.append(b.reshape(x, (*lead, *plain)))
    return b.reshape(one.emit(sides), (one.count, *one.result.shape))


def _gather(one: OneRow) -> Any:
    """Rows of one tensor, or of each row's own: then places have the number of the row in front."""
    b, axis = one.b, int(one.attrs["axis"]) % max(one.rank, 1)
    index = one.operands[1]
    if not index.rows:
        return one.emit([one.value(0), index.value], axis=axis + 1)
    x, places = one.value(0), one.value(1)
    front = [1 + axis, *[a for a in range(1, x.rank) if a != 1 + axis]]
    rows = b("pd_op.transpose", x, perm=(0, *front))
    taken = b.gather_nd(rows, _paired(one, b.reshape(places, (one.count, -1, 1))))
    order = [0, *range(2, 2 + axis), 1, *range(2 + axis, taken.rank)]
    return b.reshape(b("pd_op.transpose", taken, perm=order), (one.count, *one.result.shape))


def _paired(one: OneRow, places: Value) -> Value:
    """Places along the first axes, with the number of the row in front."""
    b, front = one.b, (*places.shape[:-1], 1)
    numbers = b("pd_op.arange", start=0, end=one.count, step=1, dtype=places.dtype)
    numbers = b.reshape(numbers, (one.count, *[1] * (len(front) - 1)))
    return b.concat([b("pd_op.expand", numbers, shape=front), places], axis=len(front) - 1)


def _gather_nd(one: OneRow) -> Any:
    if not one.operands[0].rows:
        return one.emit([one.operands[0].value, one.value(1)])
    return one.emit([one.value(0), _paired(one, one.value(1))])


def _scatter_nd(one: OneRow) -> Any:
    return one.emit([one.value(0), _paired(one, one.value(1)), one.value(2)])


def _along_axis(one: OneRow) -> Any:
    tensors = [one.value(i) for i in range(len(one.operands))]
    rank = max(v.rank for v in tensors)  # a number among them is for all elements of its row
    tensors = [
        v if v.rank == rank else one.b.reshape(v, (one.count, *[1] * (rank - v.rank), *v.shape[1:]))
        for v in tensors
    ]
    return one.emit(tensors, axis=one.attrs["axis"] % one.rank + 1)


def _shape(one: OneRow) -> Any:
    sizes = one.b.cast(one.b.integers(one.meta(0).shape), one.result.dtype)
    return one.b("pd_op.expand", one.b.reshape(sizes, (1, -1)), shape=(one.count, one.rank))


def _convolution(one: OneRow) -> Any:
    """Rows of images are more images."""
    if one.operands[1].rows or one.attrs.get("data_format") not in ("NCHW", "NCDHW"):
        raise no_rule(one.op)
    x = one.value(0)
    images = one.b.reshape(x, (one.count * x.shape[1], *x.shape[2:]))
    return one.b.reshape(one.emit([images, one.operands[1].value]), (one.count, *one.result.shape))


def _custom(one: OneRow) -> Any:
    """A derivative that the user wrote, of all rows; see `custom_rules`."""
    return one.emit([one.value(i) for i in range(len(one.operands))])


def _recomputed(one: OneRow) -> Any:
    """What a function that is recomputed takes stays as it is: what it computed was from that."""
    count = one.attrs["outputs"]
    outputs = [one.value(i) for i in range(count)]
    return one.emit([*outputs, *[v.value for v in one.operands[count:]]])


def _depend(one: OneRow) -> Any:
    return one.emit([one.value(0), [v.value for v in one.operands[1]]])


def _embedding(one: OneRow) -> Any:
    """Rows of one table, or of each row's own. There is no place below 0, nor beyond the table."""
    b, rows = one.b, one.meta(1).shape[0]
    if not one.operands[1].rows:
        return one.emit([one.value(0), one.operands[1].value])
    ids = b.reshape(one.value(0), (one.count, -1, 1))
    inside = b.where(ids < 0, b("pd_op.full", shape=(), value=rows, dtype=ids.dtype), ids)
    taken = b.gather_nd(one.value(1), _paired(one, inside))
    if (padding := one.attrs["padding_idx"]) != -1:
        taken = b.where(ids == padding, b.zeros_like(taken), taken)
    return b.reshape(taken, (one.count, *one.result.shape))


def _named(rule: Rule, names: str) -> dict[str, Rule]:
    return {f"pd_op.{name}": rule for name in names.split()}


RULES: Final[dict[str, Rule]] = {
    CUSTOM: _custom,
    CHECKPOINT: _recomputed,
    "pd_op.depend": _depend,
    **_named(_same, "assign share_data full_like as_real as_complex"),
    **_named(_reduced, "sum mean max min prod any all amax amin logsumexp"),
    **_named(_shifted("axis"), "cumsum cummax cummin argmax argmin argsort topk softmax flip"
                               " log_softmax"),
    **_named(_shifted("dim"), "cumprod"),
    **_named(_reshape, "reshape squeeze unsqueeze flatten"),
    **_named(_transpose, "transpose"),
    **_named(_expand, "expand"),
    **_named(_sliced, "slice strided_slice"),
    **_named(_pad, "pad"),
    **_named(_joined, "concat stack"),
    **_named(_matmul, "matmul"),
    **_named(_gather, "gather"),
    **_named(_gather_nd, "gather_nd"),
    **_named(_scatter_nd, "scatter_nd_add"),
    **_named(_along_axis, "take_along_axis put_along_axis"),
    **_named(_shape, "shape64 shape"),
    **_named(_convolution, "conv2d conv3d"),
    **_named(_embedding, "embedding"),
    **_named(_leading, "cholesky triangular_solve qr svd inverse det eigh slogdet solve"),
}  # fmt: skip
"""By op; elementwise ops have theirs by their kind."""
