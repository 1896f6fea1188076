"""Rewrites a plan for known input shapes: attention-like groups of matmuls and row kernels, and
small matmuls with a bias, become native calls if that pays.

Only plans with fused kernels are rewritten, as these already change the order of additions. The
calls of a group are sunk to the position of its last call, and only if no instruction between
writes what the group reads or accesses what it writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from msgspec.structs import replace

from pirkit.diag.errors import ConstraintError
from pirkit.lowering.gemm_kernel import is_small
from pirkit.lowering.liveness import with_frees
from pirkit.lowering.native_ops import FUSED, MATMUL, ROWS
from pirkit.lowering.native_ops import SMALL_GEMM as SMALL
from pirkit.runtime.library import Library
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.plan import (
    Call,
    Copy,
    Instruction,
    Operand,
    Output,
    Plan,
    instructions,
    reads,
    slots_of,
    writes,
)
from pirkit.runtime.planning import MAX_COPIED_BYTES

if TYPE_CHECKING:
    from pirkit.lowering.whole_program.attention_groups import RowGroup

_NOTHING: Final = Copy((), ())
_MIN_MULTIPLICATIONS: Final = 1 << 12
"""Elements of the largest matmul result below which no row groups are searched."""


def grouped(plan: Plan, library: Library, bound_inputs: Mapping[int, Meta]) -> Plan:
    """The rewritten plan; ``bound_inputs`` are the metas of inputs and parameters, by slot."""
    kernels = {i.kernel for i in plan.body if isinstance(i, Call)}
    if MATMUL not in kernels:
        return plan
    metas = known_metas(plan, library, bound_inputs)
    groups = {k: g for k, g in _groups(plan, metas).items() if _can_sink(plan, g)}
    calls = {k: _call(plan, group, metas) for k, group in groups.items()}
    grouped_calls = {k for group in groups.values() for k in group.members}
    for number, members, call in _small_gemms(
        plan, metas, grouped_calls, _moving_views(plan, library)
    ):
        calls[number] = call
        grouped_calls |= members
    if not calls:
        return plan
    body = [
        calls.get(k, instruction)
        for k, instruction in enumerate(plan.body)
        if k in calls or k not in grouped_calls
    ]
    ports = (*plan.inputs, *plan.params)
    live: list[Operand] = [*(p.slot for p in ports), *(o.source for o in plan.outputs)]
    return replace(plan, body=with_frees(tuple(body), live))


def known_metas(
    plan: Plan, library: Library, bound_inputs: Mapping[int, Meta]
) -> list[TensorMeta | None]:
    """The static meta of each slot that is written once; None for all other slots."""
    known: dict[int, Meta | None] = dict(bound_inputs)
    count = Counter(s for i in instructions(plan.body) for s in writes(i))
    for instruction in plan.body:
        found: Sequence[Meta | None] = ()
        if isinstance(instruction, Call) and not instruction.host:
            given = tuple([_meta(known, operand) for operand in instruction.inputs])
            pairs = zip(given, instruction.inputs, strict=True)
            here = all(g is not None or o is None for g, o in pairs)
            try:
                found = library.infer(instruction.kernel, given, instruction.attrs) if here else ()
            except ConstraintError:  # reported when the call is planned
                found = ()
        known |= dict.fromkeys(writes(instruction))
        if isinstance(instruction, Call):
            for output, meta in zip(instruction.outputs, found, strict=False):
                items = meta.items if isinstance(meta, VecMeta) else (meta,)
                known |= dict(zip(slots_of((output,)), items, strict=False))
    ports = {p.slot for p in (*plan.inputs, *plan.params)}
    sure = {s for s in known if count[s] == (s not in ports)}
    return [
        m if s in sure and isinstance(m := known.get(s), TensorMeta) and m.is_static else None
        for s in range(len(plan.slots))
    ]


def _meta(known: Mapping[int, Meta | None], operand: Operand) -> Meta | None:
    if operand is None or isinstance(operand, int):
        return None if operand is None else known.get(operand)
    items = [m for s in operand if isinstance(m := known.get(s), TensorMeta)]
    return VecMeta(tuple(items)) if len(items) == len(operand) else None


# --- groups of rows ------------------------------------------------------------------------------


def _groups(plan: Plan, metas: Sequence[TensorMeta | None]) -> dict[int, RowGroup]:
    """Row groups among calls with static operands. Slots that other instructions access count as
    live outputs, so that a group materializes them.
    """
    products = [i for i in plan.body if _is_plain(i, metas) and cast(Call, i).kernel == MATMUL]
    outs = [metas[s] for i in products for s in writes(i)]
    if not any(m.numel >= _MIN_MULTIPLICATIONS for m in outs if m is not None):
        return {}
    from pirkit.lowering.whole_program.attention_groups import find_row_groups  # noqa: PLC0415  seldom

    body = [i if _is_plain(i, metas) else _NOTHING for i in plan.body]
    others = [i for i, seen in zip(plan.body, body, strict=True) if seen is _NOTHING]
    touched = {s for i in instructions(tuple(others)) for s in (*reads(i), *writes(i))}
    live = [Output("", s, m) for s in sorted(touched) if (m := metas[s]) is not None]
    seen = replace(plan, body=tuple(body), outputs=(*plan.outputs, *live))
    return find_row_groups(seen, lambda slot: cast(TensorMeta, metas[slot]), {})


def _is_plain(instruction: Instruction, metas: Sequence[TensorMeta | None]) -> bool:
    if not isinstance(instruction, Call) or instruction.kernel not in (FUSED, MATMUL):
        return False
    slots = [s for s in (*instruction.inputs, *instruction.outputs) if s is not None]
    return all(isinstance(s, int) and metas[s] is not None for s in slots)


def _can_sink(plan: Plan, group: RowGroup) -> bool:
    """Whether all calls of a group can run at the position of the last one."""
    read, written = _operands_and_results(plan, group)
    inside = {s for k in group.members for s in writes(plan.body[k])}
    first, last = min(group.members), max(group.members)
    for number, instruction in enumerate(plan.body):
        if number in group.members:
            continue
        nested = list(instructions((instruction,)))
        touched = {s for i in nested for s in (*reads(i), *writes(i))}
        # values internal to the group are never materialized, so nobody else may access them
        if touched & (inside - set(written)):
            return False
        between = first < number < last
        if between and (touched & inside or {s for i in nested for s in writes(i)} & set(read)):
            return False
    return True


def _operands_and_results(plan: Plan, group: RowGroup) -> tuple[list[int], list[int]]:
    """The slots that a group reads from outside, and those that it writes."""
    inside = {s for k in group.members for s in writes(plan.body[k])}
    read = [s for s in group.operands if s not in inside]
    return read, [s for s in group.operands if s in inside]


def _call(plan: Plan, group: RowGroup, metas: Sequence[TensorMeta | None]) -> Call:
    read, written = _operands_and_results(plan, group)
    numbers = {slot: k for k, slot in enumerate((*read, *written))}
    attrs: dict[str, Any] = {
        "blocks": group.blocks,
        "numbers": tuple([numbers[s] for s in group.operands]),
        "results": tuple([metas[s] for s in written]),
        "calls": tuple([cast(Call, plan.body[k]) for k in sorted(group.members)]),
        "slots": (tuple(read), tuple(written)),
    }
    calls: tuple[Call, ...] = attrs["calls"]
    middle = next(c for c in calls if c.kernel == FUSED)
    return Call(ROWS, tuple(read), tuple(written), attrs, span=middle.span, origin=middle.origin)


# --- small matmuls -------------------------------------------------------------------------------


def _small_gemms(
    plan: Plan, metas: Sequence[TensorMeta | None], claimed: Collection[int], views: Collection[int]
) -> Iterator[tuple[int, frozenset[int], Call]]:
    """Small matmuls, fused with a following bias addition if it is their only reader.

    Yields the position of the new call, the positions that it replaces, and the call. Matmuls that
    read ``views`` are left out: such an operand would be copied in each run.
    """
    readers = Counter(s for i in instructions(plan.body) for s in reads(i))
    readers.update(slots_of(o.source for o in plan.outputs))
    added = {s: k for k, i in enumerate(plan.body) if _is_add(i, metas) for s in reads(i)}
    for number, call in enumerate(plan.body):
        if number in claimed or not isinstance(call, Call) or not _is_small(call, metas):
            continue
        if not {*reads(call)}.isdisjoint(views):
            continue
        out = cast(int, call.outputs[0])
        follows = added.get(out)
        # The epilogue adds a bias only if nobody reads the product without it.
        alone = follows is None or follows in claimed or readers[out] != 1
        row = None if alone else _bias_row(plan, cast(int, follows), out, metas)
        result = metas[out]
        attrs = {**call.attrs, "results": (result,)}
        if row is None or follows is None:
            yield number, frozenset({number}), replace(call, kernel=SMALL, attrs=attrs)
            continue
        outputs = cast(Call, plan.body[follows]).outputs
        whole = replace(
            call, kernel=SMALL, inputs=(*call.inputs, row), outputs=outputs, attrs=attrs
        )
        yield follows, frozenset({number, follows}), whole


def _is_static(meta: Meta) -> TypeGuard[TensorMeta]:
    return isinstance(meta, TensorMeta) and meta.is_static


def _moving_views(plan: Plan, library: Library) -> frozenset[int]:
    """Views of arrays whose address changes from run to run: of large inputs, and of outputs."""
    found = {s for o in plan.outputs for s in slots_of((o.source,))}
    for port in (*plan.inputs, *plan.params):
        size = port.meta.numel * port.meta.dtype.itemsize if _is_static(port.meta) else None
        if size is None or size > MAX_COPIED_BYTES:
            found.add(port.slot)
    moving = set(found)
    for call in plan.body:
        if not isinstance(call, Call) or not call.inputs or call.inputs[0] not in moving:
            continue
        meta = plan.slots[call.inputs[0]]
        if isinstance(meta, TensorMeta):
            choices = library.choices(call.kernel, meta.dtype, call.attrs)
            if choices and choices[0].kernel.form == "view":
                moving.update(slots_of(call.outputs))
    return frozenset(moving - found)


def _is_small(call: Call, metas: Sequence[TensorMeta | None]) -> bool:
    if not _is_plain(call, metas) or call.kernel != MATMUL:
        return False
    x, y, out = (cast(TensorMeta, metas[cast(int, s)]) for s in (*call.inputs, *call.outputs))
    return is_small(x, y, out, call.attrs)


def _is_add(instruction: Instruction, metas: Sequence[TensorMeta | None]) -> bool:
    if not isinstance(instruction, Call) or instruction.kernel != "pd_op.add":
        return False
    slots = (*instruction.inputs, *instruction.outputs)
    return all(isinstance(s, int) and metas[s] is not None for s in slots)


def _bias_row(
    plan: Plan, position: int, product: int, metas: Sequence[TensorMeta | None]
) -> int | None:
    """The slot of the bias row that an addition adds to a matmul's result; None if it is none."""
    call = cast(Call, plan.body[position])
    (other,) = [cast(int, s) for s in call.inputs if s != product]
    row, whole = cast(TensorMeta, metas[other]), cast(TensorMeta, metas[product])
    result = metas[cast(int, call.outputs[0])]
    is_row = row.rank >= 1 and row.numel == row.shape[-1] == whole.shape[-1]
    return other if is_row and row.dtype == whole.dtype and result == whole else None
