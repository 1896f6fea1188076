"""Ops called on tensors: the samples of the op table, through the public functions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault, UnsupportedError, UsageError
from pirkit.dialect.opdef import RANDOM, OpDef, bad_samples, find, reference
from pirkit.runtime import dtype as dt
from pirkit.runtime.tensor.dense import DenseTensor
from tests.ops.calls import Call, calls, complete, maker, sample_dtypes, table, tensor_slots
from tests.tolerance import difference

Array = np.ndarray[Any, Any]

CALLABLE: Final = [
    d
    for d in table()
    if reference.get(d) is not None and d.effects != RANDOM and d.dialect == "pd_op" and d.dtypes
]


def tensors(call: Call) -> list[Any]:
    return [
        [DenseTensor(v.copy()) for v in a]
        if isinstance(a, list)
        else None
        if a is None
        else DenseTensor(np.array(a))
        for a in call.args
    ]


def called(definition: OpDef, call: Call, given: list[Any]) -> list[Any]:
    function = ops.op(definition.name)
    slots = tensor_slots(definition)
    if slots and slots[-1].variadic:
        found = function(*given, **call.attrs)
    else:
        named = {s.name: t for s, t in zip(slots, given, strict=True) if t is not None}
        found = function(**named, **call.attrs)
    return list(found) if isinstance(found, tuple) else [found]


def expected(definition: OpDef, call: Call) -> list[Any]:
    results = call.compute()
    shown = [i for i, r in enumerate(definition.results) if not r.intermediate] or [0]
    if definition.results and definition.results[-1].variadic:
        return [v for v in results if v is not None]
    return [results[i] for i in shown if i < len(results) and results[i] is not None]


def compare(found: Any, wanted: Any, call: Call) -> None:
    if isinstance(wanted, list | tuple):
        for one, other in zip(found, wanted, strict=True):
            compare(one, other, call)
        return
    assert isinstance(found.array, np.ndarray), f"{call}: a scalar"
    coarsest = max((dt.of_array(a) for a in _arrays(call)), key=_coarseness, default=None)
    wrong = difference(found.array, np.asarray(wanted), coarsest)
    assert wrong is None, f"{call}: {wrong}"


def _arrays(call: Call) -> list[Array]:
    flat = [v for a in call.args for v in (a if isinstance(a, list) else [a])]
    return [v for v in flat if v is not None]


def _coarseness(dtype: dt.DType) -> int:
    order = (dt.float64, dt.float32, dt.float16, dt.bfloat16)
    return order.index(dtype) if dtype in order else -1


@pytest.mark.parametrize("definition", CALLABLE, ids=lambda d: d.name)
def test_every_op_is_a_function_of_tensors(definition: OpDef) -> None:
    for dtype in sample_dtypes(definition)[:2]:
        for call in calls(definition, dtype):
            for _ in range(2):  # the second call takes what the first one bound
                given = tensors(call)
                compare(called(definition, call, given), expected(definition, call), call)


@pytest.mark.parametrize(
    "definition", [d for d in CALLABLE if bad_samples.get(d)], ids=lambda d: d.name
)
def test_what_an_op_does_not_allow_names_the_constraint(definition: OpDef) -> None:
    dtype = sample_dtypes(definition)[0]
    for constraint, sample in bad_samples.of(definition)(maker(definition, dtype)):
        call = complete(definition, sample)
        with pytest.raises(RuntimeFault) as told:
            called(definition, call, tensors(call))
        assert f"constraint {constraint}" in str(told.value.notes), constraint


def f32(*values: float) -> DenseTensor:
    return pirkit.tensor(np.array(values, np.float32))


def test_the_calls_of_the_seed() -> None:
    x = f32(1.0, -2.0)
    np.testing.assert_array_equal(ops.scale(x, scale=2.0, bias=1.0), [3.0, -3.0])
    np.testing.assert_array_equal(ops.scale(x, 2.0, 1.0, False), [4.0, -2.0])
    np.testing.assert_array_equal(ops.sign(x), [1.0, -1.0])
    assert ops.mean(x).shape == ()
    np.testing.assert_array_equal(ops.dot(x, x), 5.0)
    np.testing.assert_array_equal(ops.full_like(x, 7), [7.0, 7.0])
    assert ops.flatten(pirkit.tensor(np.ones((2, 3, 4))), 1, 2).shape == (2, 12)


def test_numbers_and_arrays_stand_for_tensors() -> None:
    np.testing.assert_array_equal(ops.add(f32(1.0), 2), [3.0])
    assert ops.add(f32(1.0), 2).dtype is dt.float32
    np.testing.assert_array_equal(ops.add(np.ones(2, np.float32), f32(1.0)), [2.0, 2.0])


def test_an_in_place_op_writes_its_operand() -> None:
    x = f32(1.0, -2.0)
    view = ops.reshape(x, [2, 1])
    assert ops.relu_(x) is x
    np.testing.assert_array_equal(x, [1.0, 0.0])
    np.testing.assert_array_equal(view, [[1.0], [0.0]])
    assert (x.version, view.version) == (1, 1)


@pytest.mark.parametrize(
    "listed",
    [
        lambda x: ops.add_n([x]),
        lambda x: ops.broadcast_tensors([x, f32(0.0, 0.0).reshape(2, 1)])[0],
        lambda x: ops.meshgrid([x, f32(0.0, 0.0)])[0].T,
    ],
    ids=["add_n", "broadcast_tensors", "meshgrid"],
)
def test_no_result_lies_in_the_memory_of_an_element_of_a_list(listed: Any) -> None:
    x = f32(1.0, 2.0)
    y = listed(x)
    y[..., 0] = 5.0
    np.testing.assert_array_equal(x, [1.0, 2.0])
    y = listed(x)
    ops.scale_(x, -1.0)
    np.testing.assert_array_equal(y.reshape(-1)[:2], [1.0, 2.0])


def test_an_operand_may_lie_in_memory_that_is_written() -> None:
    moved = np.arange(8.0).reshape(4, 2)
    wanted = moved.copy()
    wanted[[1, 0]] = moved[:2]
    ops.scatter_(moved, np.array([1, 0]), moved[:2])
    np.testing.assert_array_equal(moved, wanted)
    both, ones = np.ones(3), np.ones(2)
    with pytest.raises(RuntimeFault) as caught:  # which of the two writes is the last is not told
        ops.batch_norm_(np.ones((4, 2)), both[:2], both[1:], ones, ones)
    assert caught.value.code == "PK0908"


def test_an_in_place_op_never_writes_read_only_memory() -> None:
    frozen = np.ones(2, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeFault, match="read-only"):
        ops.tanh_(pirkit.from_numpy(frozen))
    np.testing.assert_array_equal(frozen, [1.0, 1.0])


def test_an_in_place_op_keeps_the_shape() -> None:
    with pytest.raises(UnsupportedError, match="reshape"):
        ops.reshape_(f32(1.0, 2.0), [2, 1])


@pytest.mark.parametrize(
    ("args", "keywords", "problem"),
    [
        ((), {}, "lacks the tensor `x`"),
        ((1.0, 2.0, 3.0), {}, "takes 2 arguments"),
        ((1.0,), {"z": 2.0}, "no parameter `z`"),
        ((1.0, 2.0), {"x": 2.0}, "`x` twice"),
    ],
)
def test_wrong_arguments(args: Any, keywords: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        ops.add(*args, **keywords)


def test_an_attribute_of_a_wrong_type() -> None:
    with pytest.raises(UsageError, match="cannot take 'first' as `axis`"):
        ops.softmax(f32(1.0), axis="first")


def test_random_ops_follow_the_seed() -> None:
    draws = []
    for _ in range(2):
        pirkit.seed(3)
        draws.append(
            [ops.uniform(shape=[4], dtype="float32", min=0.0, max=1.0).array for _ in range(2)]
        )
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0][0], draws[0][1])


def test_names() -> None:
    assert "scale" in dir(ops)
    assert "relu_" in dir(ops)
    with pytest.raises(AttributeError, match="did you mean"):
        ops.scal  # noqa: B018
    assert find("pd_op.scale").doc in ops.scale.__doc__


def test_a_label_that_is_nan_shows_in_the_divergence() -> None:
    """As in Paddle, where only a label of 0 or less has no loss."""
    x, label = np.zeros(4, np.float32), np.array([np.nan, 1.0, 0.0, -1.0], np.float32)
    wanted = [np.nan, 0.0, 0.0, 0.0]
    np.testing.assert_array_equal(ops.kldiv_loss(x, label, reduction="none"), wanted)
    step = pirkit.jit(lambda x, label: ops.kldiv_loss(x, label, reduction="none"))
    np.testing.assert_array_equal(step(x, label), wanted)


@pytest.mark.parametrize("pipeline", ["", "decompose", "@default"])
def test_hardshrink_at_its_threshold(pipeline: str) -> None:
    """Paddle's kernel of the CPU passes what is beyond the threshold."""
    x = np.array([-0.75, -0.5, 0.25, 0.5, 0.75])
    wanted = np.where(np.abs(x) > 0.5, x, 0.0)
    np.testing.assert_array_equal(ops.hardshrink(x, 0.5), wanted)
    program = pirkit.trace(lambda x: ops.hardshrink(x, 0.5), x)
    np.testing.assert_array_equal(pirkit.compile(program, pipeline=pipeline)(x=x)["y0"], wanted)


@pytest.mark.parametrize("kind", ["int8", "float16", "float32", "float64", "complex64"])
def test_every_byte_but_zero_chooses_the_first(kind: str) -> None:
    """Booleans that are a view of bytes, as numpy and native code take them."""
    condition = np.array([0, 1, 2, 128, 255, 0], np.uint8).view(np.bool_)
    x, y = np.arange(6).astype(kind), -np.arange(6).astype(kind)
    found = ops.where(condition, x, y).numpy()
    np.testing.assert_array_equal(found, np.where(condition, x, y))
    np.testing.assert_array_equal(ops.where(condition, x[:1], y).numpy()[1:5], 0)


@pytest.mark.parametrize("name", ["relu6", "hardtanh", "hardshrink"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_zeros_have_the_sign_of_the_bound(name: str, kind: str) -> None:
    """In eager ops, in the reference and in native code."""
    function: Any = getattr(ops, name)
    x = pirkit.tensor(np.array([-0.0, -0.25])).astype(kind)
    program = pirkit.trace(function, x)
    exe = pirkit.compile(program, backend="reference")
    (reference_,) = exe.run({exe.inputs[0].name: x.numpy()}).values()
    for found in (function(x), pirkit.jit(function)(x), reference_):
        assert not np.signbit(np.asarray(found).astype(float)).any()
