"""Quotients by the sum of a row are taken after products: what they give, and when they are not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from pirkit import ops
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel
from pirkit.lowering.codegen.matmul import fused_row_blocks
from pirkit.lowering.codegen.matmul.deferred_normalization import with_deferred_scales
from pirkit.lowering.codegen.matmul.fused_row_blocks import native_rows
from pirkit.lowering.codegen.matmul.row_block_plan import (
    RowAccumulation,
    RowBlocks,
    RowGemm,
    RowNest,
)
from pirkit.runtime.native.target import host
from tests.whole_program.test_attention_groups import (
    Array,
    attention,
    compared,
    heads,
    masked,
    normal,
    reference,
    transposed,
    with_gradients,
)

INF, NAN = np.inf, np.nan


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[RowBlocks]:
    """The groups that a program is made of, with their factors."""
    found: list[RowBlocks] = []

    def noted(group: RowBlocks) -> Any:
        found.append(with_deferred_scales(group, host()))
        return native_rows(group)

    monkeypatch.setattr(fused_row_blocks, "native_rows", noted)
    return found


def kernels(groups: list[RowBlocks]) -> Iterator[Kernel]:
    for group in groups:
        yield from (s.kernel for s in group.steps if isinstance(s, RowNest))


def factors(groups: list[RowBlocks]) -> int:
    """Products with a factor for each row."""
    steps = [s for group in groups for s in group.steps]
    return sum(isinstance(s, RowGemm | RowAccumulation) and s.row_scale is not None for s in steps)


def divides(groups: list[RowBlocks]) -> bool:
    """Whether a kernel divides at each element of a row."""
    lines = [
        line for kernel in kernels(groups) for phase in kernel.loop_phases for line in phase.body
    ]
    return any(isinstance(line, Compute) and line.primitive == "divide" for line in lines)


def chosen(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = transposed(q, k) * 0.25
    return ops.matmul(ops.softmax(ops.where(seen > 0, scores, scores * 0 - INF), -1), v)


def dropped(q: Any, k: Any, v: Any, kept: Any) -> Any:
    return ops.matmul(ops.softmax(transposed(q, k) * 0.25, -1) * kept * 1.25, v)


def squared(q: Any, k: Any, v: Any) -> Any:
    weights = ops.softmax(transposed(q, k), -1)
    return ops.matmul(weights, v), ops.matmul(weights * weights, v)


def centred(q: Any, k: Any, v: Any, other: Any) -> Any:
    weights = ops.softmax(transposed(q, k), -1)
    return ops.matmul(weights * other - weights * (weights * other).sum([-1], keepdim=True), v)


def with_logarithm(q: Any, k: Any, v: Any) -> Any:
    weights = ops.softmax(transposed(q, k), -1)
    return weights, ops.matmul(ops.log(weights), v)


def kept_weights(q: Any, k: Any, v: Any) -> Any:
    weights = ops.softmax(transposed(q, k), -1)
    return weights, ops.matmul(weights, v)


SEEN = (normal(3, 67, 93, seed=5) > -0.5).astype("float32")
WITH = {
    "softmax": (attention, (), 1),
    "added mask": (masked, (np.where(SEEN > 0, 0, -INF).astype("float32"),), 1),
    "chosen": (chosen, (SEEN,), 1),
    "dropped": (dropped, (SEEN,), 1),
    "squared": (squared, (), 1),
    "centred": (centred, (normal(3, 67, 93, seed=6),), 1),
}
WITHOUT = {"with a logarithm": with_logarithm, "kept": kept_weights}


@pytest.mark.parametrize("name", WITH)
def test_quotients_after_products(name: str, groups: list[RowBlocks]) -> None:
    function, more, count = WITH[name]
    compared(function, (*heads(67, 93, 20, 9, (3,)), *more))
    assert factors(groups) == count
    assert not divides(groups)


@pytest.mark.parametrize(("name", "count"), [("softmax", 4), ("chosen", 2), ("dropped", 4)])
def test_gradients(name: str, count: int, groups: list[RowBlocks]) -> None:
    function, more, _ = WITH[name]
    more = tuple([np.stack([m] * 3) for m in more])
    given = (normal(3, 3, 67, 9, seed=7), *heads(67, 93, 20, 9, (3, 3)), *more)
    compared(with_gradients(function), given)
    assert factors(groups) == count
    assert not divides(groups)


@pytest.mark.parametrize("name", WITHOUT)
def test_quotients_that_stay(name: str, groups: list[RowBlocks]) -> None:
    """Something that is not linear in them, or a result, needs the quotients themselves."""
    compared(WITHOUT[name], heads(67, 93, 20, 9, (3,)))
    assert factors(groups) == 0


def test_float64(groups: list[RowBlocks]) -> None:
    compared(attention, heads(67, 93, 20, 9, (3,), "float64"), 1e-12)
    assert factors(groups) == 1


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_no_sum_overflows_that_quotients_would_not(kind: str) -> None:
    q, k, v = heads(130, 130, 16, 16, (3,), kind)
    most = float(np.finfo(kind).max)
    v = np.sign(v) * np.array(most / 2, kind)
    made = compared(attention, (q * 0, k, v), most * 1e-6)(q * 0, k, v)[0]
    assert np.isfinite(made).all()


@pytest.mark.parametrize("backward", [False, True])
def test_what_is_no_number(backward: bool) -> None:
    """NaN and infinities in masks and values end where the rules put them."""
    q, k, v = heads(130, 140, 16, 16, (3, 3))
    places = normal(130, 140, seed=5) > 1.5
    given: list[Array] = [q, k, v, np.zeros((130, 140), np.float32)]
    if backward:
        given = [normal(3, 3, 130, 16, seed=7), *given]
    function = with_gradients(masked) if backward else masked
    native = compared(function, tuple(given), 1e-4)
    exact = reference(function, tuple(given))
    for score, value in product((INF, -INF, NAN, 0.0), (INF, -INF, NAN, 1.0)):
        mask = np.where(places, score, 0).astype("float32")
        mask[7], mask[8, 1:] = score, -INF
        v[0, 1, 11, 3] = value
        given[-1] = mask
        for made, right in zip(native(*given), exact(*given), strict=True):
            np.testing.assert_allclose(made, right, rtol=1e-4, atol=1e-4)


def gram(q: Any, k: Any, v: Any) -> Any:
    weights = ops.softmax(transposed(q, k), -1)
    return ops.matmul(weights, weights, transpose_x=True), ops.matmul(weights, v)


def plain(q: Any, k: Any, v: Any) -> Any:
    e = ops.exp(transposed(q, k))
    return ops.matmul(e / e.sum([-1], keepdim=True), v)


def with_sum(q: Any, k: Any, v: Any) -> Any:
    s = transposed(q, k)
    e = ops.exp(s - ops.max(s, [-1], keepdim=True))
    t = e.sum([-1], keepdim=True)
    return ops.matmul(e / t * t, v)


def with_shares(q: Any, k: Any, v: Any) -> Any:
    s = transposed(q, k)
    e = ops.exp(s - ops.max(s, [-1], keepdim=True))
    return ops.matmul(e / e.sum([-1], keepdim=True) + e, v)


def other_largest(q: Any, k: Any, v: Any) -> Any:
    s = transposed(q, k)
    e = ops.exp(s - ops.max(s * 2.0, [-1], keepdim=True))
    return ops.matmul(e / e.sum([-1], keepdim=True), v)


@pytest.mark.parametrize("f", [gram, plain, with_sum, with_shares, other_largest])
def test_quotients_that_the_proof_does_not_cover(f: Any, groups: list[RowBlocks]) -> None:
    compared(f, heads(67, 93, 20, 9, (9,)))
    assert factors(groups) == 0


def several(q: Any, k: Any, v: Any) -> Any:
    w = ops.softmax(transposed(q, k), -1)
    return ops.matmul(w * 2.0 + w, v), ops.matmul(w * 0.5 - w * 4.0, v)


def ratio(q: Any, k: Any, v: Any) -> Any:
    w = ops.softmax(transposed(q, k), -1)
    return ops.matmul(w / (w * 2.0 + 0.0 * w), v), ops.matmul(w, v)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("f", [several, ratio])
def test_factors_that_differ(f: Any) -> None:
    compared(f, heads(67, 93, 20, 9, (9,)))
