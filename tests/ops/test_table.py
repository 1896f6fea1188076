"""What must hold of every op of the table, checked on the samples that the table declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pirkit.dialect
from pirkit.diag.errors import ConstraintError
from pirkit.dialect.opdef import OpDef, all_ops, bad_samples, find, infer_meta, reference, samples
from pirkit.runtime import dtype as dt
from pirkit.runtime import meta as metas
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta, compatible
from tests.ops.calls import (
    Call,
    arrays,
    calls,
    complete,
    each_array,
    is_gradient,
    maker,
    sample_dtypes,
    table,
    tensor_slots,
)
from tests.tolerance import difference

Array = np.ndarray[Any, Any]

TABLE: Final = table()
COMPUTED: Final = [d for d in TABLE if samples.get(d) is not None]
CASES: Final = [(d, t) for d in COMPUTED for t in sample_dtypes(d)]

DATA_DEPENDENT: Final = frozenset(
    (name if "." in name else "pd_op." + name)
    for name in (
        "nonzero masked_select unique unique_consecutive multiclass_nms3 nms generate_proposals "
        "pir.non_max_suppression "
        "segment_pool sequence_mask distribute_fpn_proposals bincount "
        "repeat_interleave_with_tensor_index viterbi_decode "
        "matrix_nms batch_norm batch_norm_ sync_batch_norm_ linear_interp nearest_interp "
        "bilinear_interp "
        "bicubic_interp trilinear_interp interp_antialias"
    ).split()
)
"""Ops whose result sizes depend on values, or whose scratch result has no declared size."""

RESHAPING_TWINS: Final = {
    "pd_op.reshape_": "changes dimensions",
    "pd_op.unsqueeze_": "adds dimensions",
    "pd_op.squeeze_": "removes dimensions",
    "pd_op.flatten_": "merges dimensions",
    "pd_op.cast_": "samples change the dtype",
}
"""In-place ops whose result always differs from the operand whose storage it takes."""

KINDS_FILE: Final = Path(pirkit.dialect.__file__).with_name("graphnet_kinds.txt")

by_case = pytest.mark.parametrize(
    ("definition", "dtype"), CASES, ids=[f"{d.name}-{t.name}" for d, t in CASES]
)


def by_op(definitions: list[OpDef]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("definition", definitions, ids=[d.name for d in definitions])


def check(call: Call, declared: tuple[Meta | None, ...], actual: tuple[Meta | None, ...]) -> None:
    slots = call.definition.results
    assert len(declared) == len(actual), str(call)
    assert len(actual) == len(slots) or slots[-1].variadic, str(call)
    for index, (a, b) in enumerate(zip(declared, actual, strict=True)):
        assert compatible(a, b), f"{call}: result {index} is {b}, expected {a}"


def result_metas(values: tuple[Any, ...]) -> tuple[Meta | None, ...]:
    return tuple(None if v is None else metas.of_value(v) for v in values)


@by_case
def test_reference_agrees_with_infer_meta(definition: OpDef, dtype: DType) -> None:
    for call in calls(definition, dtype):
        inferred = call.infer()
        check(call, inferred, result_metas(call.compute()))
        if definition.name not in DATA_DEPENDENT:
            unknown = [m for m in inferred if isinstance(m, TensorMeta) and not m.is_static]
            assert not unknown, f"{call}: sizes are known, but the result is {unknown[0]}"


def with_unknown_dims(args: tuple[Meta | None, ...]) -> Iterator[tuple[Meta | None, ...]]:
    """The metas with each single dim unknown, and with all of them unknown."""
    for i, arg in enumerate(args):
        for changed in _one_unknown(arg):
            yield (*args[:i], changed, *args[i + 1 :])
    yield tuple(_all_unknown(a) for a in args)


def _one_unknown(meta: Meta | None) -> Iterator[Meta]:
    if isinstance(meta, TensorMeta):
        for k in range(meta.rank):
            yield meta.with_shape((*meta.shape[:k], UNKNOWN, *meta.shape[k + 1 :]))
    if isinstance(meta, VecMeta):
        for i, item in enumerate(meta.items):
            for changed in _one_unknown(item):
                assert isinstance(changed, TensorMeta)
                yield VecMeta((*meta.items[:i], changed, *meta.items[i + 1 :]))


def _all_unknown(meta: Meta | None) -> Meta | None:
    if isinstance(meta, TensorMeta):
        return meta.with_shape((UNKNOWN,) * meta.rank)
    if isinstance(meta, VecMeta):
        return VecMeta(tuple(m.with_shape((UNKNOWN,) * m.rank) for m in meta.items))
    return meta


def unknown_values(call: Call) -> dict[str, Any]:
    """Every operand that may be an attribute, as if it were computed at run time."""
    kinds = {o.name: o.kind for o in call.definition.operands if o.kind is not None}
    return {
        name: (None,) * len(call.attrs[name]) if kind == "intarray" else None
        for name, kind in kinds.items()
    }


NEEDS_SIZES: Final = {
    "pd_op.gather_nd": "the last size of index decides the rank",
    "pd_op.unbind": "has as many results as the dimension has elements",
}


@by_case
def test_infer_meta_with_unknowns_is_never_wrong(definition: OpDef, dtype: DType) -> None:
    if definition.name in NEEDS_SIZES:
        pytest.skip(NEEDS_SIZES[definition.name])
    for call in calls(definition, dtype):
        static = call.infer()
        for args in with_unknown_dims(call.metas):
            check(call, static, call.infer(*args))
        hidden = unknown_values(call)
        if hidden:
            check(call, static, call.infer(**hidden))
            check(call, static, call.infer(*map(_all_unknown, call.metas), **hidden))


@by_op(COMPUTED)
def test_infer_meta_takes_lists_of_unknown_length(definition: OpDef) -> None:
    lists = [o.name for o in definition.operands if o.kind == "intarray"]
    for call in calls(definition, sample_dtypes(definition)[0]) if lists else ():
        with suppress(ConstraintError):  # a result of unknown rank cannot be described
            found = call.infer(**dict.fromkeys(lists))
            assert len(found) == len(definition.results)


def frozen(array: Array) -> Array:
    copy = array.copy()
    copy.setflags(write=False)
    return copy


def strided(array: Array) -> Array:
    """An equal array that is not contiguous (arrays without dimensions always are)."""
    if not array.ndim:
        return array
    return np.repeat(array, 2, axis=-1)[..., ::2]


@by_case
def test_reference_leaves_its_arguments_alone(definition: OpDef, dtype: DType) -> None:
    for call in calls(definition, dtype):
        expected = list(arrays(call.compute(tuple(each_array(a, frozen) for a in call.args))))
        found = list(arrays(call.compute(tuple(each_array(a, strided) for a in call.args))))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            wrong = difference(a, b, loosest=dtype)
            assert wrong is None, f"{call}, not contiguous: {wrong}"


INPLACE: Final = [d for d in all_ops() if d.writes and samples.get(d) is not None]


@by_op(INPLACE)
def test_inplace_result_fits_its_operand(definition: OpDef) -> None:
    """Of a twin, one sample must fit: others may broadcast, which only the pure form allows."""
    if definition.name in RESHAPING_TWINS:
        pytest.skip(RESHAPING_TWINS[definition.name])
    slots = [o.name for o in tensor_slots(definition)]
    fits = []
    for call in (c for t in sample_dtypes(definition) for c in calls(definition, t)):
        pairs = [
            (call.metas[slots.index(operand)], result)
            for slot, result in zip(definition.results, call.infer(), strict=True)
            if (operand := definition.inplace.get(slot.name)) is not None
        ]
        fits.append(all(a is None or b is None or compatible(a, b) for a, b in pairs))
    assert any(fits) if definition.pure else all(fits)


BAD: Final = [d for d in TABLE if bad_samples.get(d) is not None]


def infer_and_compute(call: Call) -> None:
    """Some constraints concern values, which only the reference sees."""
    call.infer()
    call.compute()


@by_op(BAD)
def test_bad_samples_are_refused(definition: OpDef) -> None:
    make = maker(definition, sample_dtypes(definition)[0])
    for tag, sample in bad_samples.of(definition)(make):
        call = complete(definition, sample)
        with pytest.raises(ConstraintError) as raised:
            infer_and_compute(call)
        assert raised.value.constraint == tag, f"{call}: {raised.value}"


@by_op(TABLE)
def test_every_constraint_has_a_bad_sample(definition: OpDef) -> None:
    documented = set(re.findall(r"^\s*(C\d+):", definition.doc, re.MULTILINE))
    rule = bad_samples.get(definition)
    make = maker(definition, next(iter(sample_dtypes(definition)), dt.float32))
    shown = {tag for tag, _ in rule(make)} if rule else set()
    assert shown <= documented
    if not is_gradient(definition):
        assert shown == documented


@by_op([d for d in TABLE if not is_gradient(d)])
def test_op_is_complete(definition: OpDef) -> None:
    rules = {"infer_meta": infer_meta, "reference": reference, "samples": samples}
    assert [name for name, rule in rules.items() if rule.get(definition) is None] == []
    assert definition.doc
    assert sample_dtypes(definition)
    assert definition.signature.results


def test_recorded_op_kinds_exist() -> None:
    """The op kinds that occur in recorded graphs of real models."""
    missing = [name for name in KINDS_FILE.read_text().split() if find(name) is None]
    assert missing == []
