"""Every kernel against the reference rule of its op, on the samples of the op table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pirkit.dialect
from pirkit.dialect.opdef import decompose, find
from pirkit.lowering.native_ops import NATIVE_KERNELS
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta, of_value
from pirkit.runtime.registry import CPU, KERNELS, Kernel
from tests.ops.calls import STRUCTURAL, Call, calls, tensor_slots
from tests.tolerance import difference

Array = np.ndarray[Any, Any]

EVERY: Final = [k for k in KERNELS.kernels(backend=CPU) if k.kind == "dense"]


def samples_of(kernel: Kernel) -> Iterator[Call]:
    definition = find(kernel.op)
    assert definition is not None, f"{kernel.source} serves {kernel.op}, which is no op"
    yield from calls(definition, kernel.key.dtype)


def strided(value: Any) -> Any:
    """The same elements behind negative and doubled strides."""
    if isinstance(value, list):
        return [strided(v) for v in value]
    if value is None or value.ndim == 0:
        return value
    room = np.zeros((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)
    view = room[..., ::2][::-1]
    view[...] = value
    return view


def poisoned(meta: Meta | None) -> Any:
    """Memory that no right answer is in."""
    if meta is None:
        return None
    if isinstance(meta, VecMeta):
        return [poisoned(m) for m in meta.items]
    assert isinstance(meta, TensorMeta)
    raw = np.frombuffer(bytes([0xA5]) * (meta.numel * meta.dtype.itemsize), meta.dtype.np)
    return raw.reshape(meta.shape).copy()


def copied(value: Any) -> Any:
    if isinstance(value, list):
        return [copied(v) for v in value]
    return None if value is None else np.copy(value)


def run(kernel: Kernel, call: Call, args: tuple[Any, ...], outs: Any = None) -> Any:
    """Results of one call, None if the kernel does not serve it."""
    expected_metas = tuple(None if v is None else of_value(v) for v in call.compute())
    binding = Binding(
        inputs=call.metas,
        outputs=expected_metas,
        attrs=call.attrs,
        op=kernel.op,
        generator=lambda: np.random.Generator(np.random.Philox(key=7)),
    )
    step = kernel(binding)
    if step is None:
        return None
    with np.errstate(all="ignore"):
        if kernel.form != "out":
            found = step(*args)
            return found if isinstance(found, tuple) else (found,)
        for _ in range(2):  # scratch memory holds what the first call left there
            held = tuple(map(poisoned, expected_metas)) if outs is None else outs
            step(*args, *held)
            if outs is not None:
                break
        return held


def check(found: Any, expected: Any, kernel: Kernel, call: Call) -> None:
    coarsest = max((m.dtype for m in tensors(call.metas)), key=coarseness, default=None)
    for one, other in zip(found, expected, strict=True):
        if one is None or other is None:
            continue
        pairs = zip(one, other, strict=True) if isinstance(other, list) else [(one, other)]
        for ours, theirs in pairs:
            wrong = difference(np.asarray(ours), np.asarray(theirs), coarsest)
            assert wrong is None, f"{kernel.source} {kernel.key}: {call}: {wrong}"


def tensors(metas: tuple[Meta | None, ...]) -> Iterator[TensorMeta]:
    for meta in metas:
        if isinstance(meta, TensorMeta):
            yield meta
        elif isinstance(meta, VecMeta):
            yield from meta.items


def coarseness(dtype: dt.DType) -> int:
    order = (dt.float64, dt.float32, dt.float16, dt.bfloat16, dt.float8_e4m3fn, dt.float8_e5m2)
    return order.index(dtype) if dtype in order else -1


@pytest.mark.parametrize("kernel", EVERY, ids=lambda k: f"{k.op}-{k.key.dtype}-{k.key.layout}")
def test_kernel_agrees_with_the_reference(kernel: Kernel) -> None:
    for call in samples_of(kernel):
        expected = call.compute()
        for args in (call.args, tuple(map(strided, call.args))):
            before = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
            found = run(kernel, call, args)
            if found is None:
                continue
            check(found, expected, kernel, call)
            for one, other in zip(args, before, strict=True):
                if isinstance(other, np.ndarray):
                    assert one.tobytes() == other.tobytes(), f"{call}: an operand was written"


@pytest.mark.parametrize(
    "kernel",
    [k for k in EVERY if k.inplace],
    ids=lambda k: f"{k.op}-{k.key.dtype}-{k.key.layout}",
)
def test_kernel_may_write_over_the_operands_it_names(kernel: Kernel) -> None:
    definition = find(kernel.op)
    assert definition is not None
    operands = [slot.name for slot in tensor_slots(definition)]
    results = [slot.name for slot in definition.results]
    for call in samples_of(kernel):
        expected = call.compute()
        for result, names in kernel.inplace.items():
            for name in names:
                at, to = operands.index(name), results.index(result)
                source = call.args[at]
                if source is None or of_value(source) != of_value(expected[to]):
                    continue
                args = tuple(map(copied, call.args))
                outs = [None if v is None else poisoned(of_value(v)) for v in expected]
                outs[to] = args[at]
                found = run(kernel, call, args, tuple(outs))
                if found is not None:
                    check(found, expected, kernel, call)


KINDS: Final = sorted(
    {
        name
        for listed in ("graphnet_kinds.txt", "training_kinds.txt")
        for name in Path(pirkit.dialect.__file__).with_name(listed).read_text().split()
    }
)
"""The op kinds of recorded graphs of real models, and those of programs that train."""


WITHOUT: Final = {
    "pd_op.bernoulli", "pd_op.generate_proposals", "pd_op.distribute_fpn_proposals",
    "pd_op.masked_select", "pd_op.nonzero", "pd_op.randint", "pd_op.randperm", "pd_op.yolo_box",
}  # fmt: skip
"""Ops whose reference rule takes as long as a kernel: most of it is one call of numpy."""


@pytest.mark.parametrize("name", KINDS)
def test_every_recorded_kind_has_a_kernel(name: str) -> None:
    """Or native code, or a decomposition. Ops that compute nothing are the executor's."""
    definition = find(name)
    assert definition is not None
    served = {k.op for k in EVERY} | NATIVE_KERNELS.keys() | WITHOUT
    is_composite = decompose.get(definition.base) is not None
    assert definition.base.name in served or is_composite or definition.family in STRUCTURAL
