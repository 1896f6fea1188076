"""Names of result dimensions: no answer of a rule contradicts one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

import pytest
from xdsl.ir import SSAValue

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.infer_symbolic_sizes import infer_sizes
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.operation import PirOp, ProgramOp, make
from pirkit.dialect.sizes import Size, number, symbol
from pirkit.dialect.types import Sizes, meta_of, retyped, sizes_of, tensor_type
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta
from tests.dialect.programs import Builder, calls_of, sampled

Place: TypeAlias = tuple[int, int, int]
"""Operand, tensor of a list, dimension."""


def namings(sizes: tuple[Sizes, ...]) -> Iterator[tuple[Sizes, ...]]:
    """One dimension called N, or all dimensions of equal size."""
    places = {
        (i, j, k): size
        for i, slot in enumerate(sizes)
        for j, dims in enumerate(slot)
        for k, size in enumerate(dims)
    }
    for at in places:
        yield name_where(sizes, lambda place, at=at: place == at)
    for size in set(places.values()):
        yield name_where(sizes, lambda place, size=size: places[place] == size)


def name_where(sizes: tuple[Sizes, ...], chosen: Callable[[Place], bool]) -> tuple[Sizes, ...]:
    return tuple(
        tuple(
            tuple(symbol("N") if chosen((i, j, k)) else s for k, s in enumerate(dims))
            for j, dims in enumerate(slot)
        )
        for i, slot in enumerate(sizes)
    )


def at_point(meta: Meta, sizes: Sizes, n: int) -> Meta:
    shapes = [tuple(s.at({"N": n}).constant for s in dims if s is not None) for dims in sizes]
    if isinstance(meta, VecMeta):
        pairs = zip(meta.items, shapes, strict=True)
        return VecMeta(tuple(item.with_shape(shape) for item, shape in pairs))
    assert isinstance(meta, TensorMeta)
    return meta.with_shape(shapes[0])


def answer(op: PirOp, sizes: tuple[Sizes, ...], n: int) -> tuple[Sizes, ...] | None:
    """What the op's rule says if N is ``n``; None if it refuses."""
    values: list[SSAValue | None] = []
    for value, held in zip(op.operand_slots, sizes, strict=True):
        if value is not None:
            type_ = retyped(value.type, at_point(meta_of(value.type), held, n))
            value = ProgramOp.build("main", [type_], [{}]).block.args[0]
        values.append(value)
    try:
        types = infer_result_types(op.definition, values, op.properties)
    except ConstraintError:
        return None
    return tuple(() if t is None else sizes_of(t) for t in types)


@pytest.mark.parametrize("definition", sampled(), ids=lambda d: d.name)
def test_no_answer_contradicts_a_name(definition: OpDef) -> None:
    random = Random(definition.name)
    for call in calls_of(definition):
        op = Builder().call(call)
        held = tuple(() if v is None else sizes_of(v.type) for v in op.operand_slots)
        for sizes in namings(held):
            found = infer_sizes(definition, op.operand_slots, op.properties, sizes)
            for n in [random.randrange(1, 400) for _ in range(6)] if found is not None else ():
                told = answer(op, sizes, n)
                if told is not None:
                    assert at_number(found, n, told) == told, f"{call}: {found} at {n}"


def at_number(found: tuple[Sizes, ...], n: int, told: tuple[Sizes, ...]) -> tuple[Sizes, ...]:
    """The sizes at that N; what has no name is as the rule has told."""
    return tuple(
        tuple(
            tuple(t if s is None else s.at({"N": n}) for s, t in zip(*dims, strict=True))
            for dims in zip(*slot, strict=True)
        )
        for slot in zip(found, told, strict=True)
    )


# --- what is found -------------------------------------------------------------------------------

N, M = symbol("N"), symbol("M")


def tensor(*dims: Size | int) -> tuple[SSAValue, Sizes]:
    """A value whose named dimensions are unknown."""
    type_ = tensor_type(tuple(d if isinstance(d, int) else UNKNOWN for d in dims), dt.float32)
    sizes = tuple(number(d) if isinstance(d, int) else d for d in dims)
    return ProgramOp.build("main", [type_], [{}]).block.args[0], (sizes,)


def names(name: str, *operands: tuple[SSAValue, Sizes], **attrs: object) -> list[str] | None:
    op = make(name, [v for v, _ in operands], attrs)
    held = [sizes for _, sizes in operands]
    held += [()] * (len(op.operand_slots) - len(held))
    found = infer_sizes(op.definition, op.operand_slots, op.properties, held)
    return None if found is None else ["?" if s is None else str(s) for s in found[0][0]]


def test_a_name_goes_through() -> None:
    assert names("pd_op.relu", tensor(N, 8)) == ["N", "8"]
    assert names("pd_op.matmul", tensor(N, M), tensor(M, 4)) == ["N", "4"]
    assert names("pd_op.add", tensor(N, 8), tensor(8)) == ["N", "8"]
    assert names("pd_op.transpose", tensor(N, 8, M), perm=[2, 0, 1]) == ["M", "N", "8"]


def test_sums_of_names() -> None:
    assert names("pd_op.flatten", tensor(N, 8), start_axis=0, stop_axis=1) == ["8*N"]
    assert names("pd_op.reshape", tensor(N, 8), shape=[-1, 2]) == ["4*N", "2"]
    assert names("pd_op.conv2d", tensor(1, 3, N, M), tensor(4, 3, 1, 1)) == ["1", "4", "N", "M"]
    found = names("pd_op.pad", tensor(N, 8), paddings=[1, 2, 0, 0], pad_value=0.0)
    assert found == ["N+3", "8"]


def test_what_is_no_sum_has_no_name() -> None:
    halved = {"strides": [2, 2]}
    assert names("pd_op.conv2d", tensor(1, 3, N, 4), tensor(4, 3, 1, 1), **halved) == [
        "1", "4", "?", "2",
    ]  # fmt: skip
    cut = {"axes": [0], "starts": [0], "infer_flags": [1], "decrease_axis": []}
    assert names("pd_op.slice", tensor(N, 8), **cut, ends=[512]) == ["?", "8"]
    assert names("pd_op.slice", tensor(N, 8), **cut, ends=[2**31 - 1]) == ["N", "8"]
    assert names("pd_op.flatten", tensor(N, M), start_axis=0, stop_axis=1) == ["?"]


def test_a_refusal_leaves_all_without_names() -> None:
    assert names("pd_op.add", tensor(N, 8), tensor(M, 8)) is None
    assert names("pd_op.reshape", tensor(N, 8), shape=[-1, 16]) is None


def test_without_names_nothing_is_asked() -> None:
    assert names("pd_op.relu", tensor(2, 8)) is None
