"""Each op with a rule for rows: its samples, in rows of other numbers, beside one row at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Builder
from pirkit.dialect.kinds import ELEMENTWISE
from pirkit.dialect.opdef import all_ops, lookup, reference
from pirkit.dialect.operation import ProgramOp
from pirkit.frontend.batching_rules import RULES
from pirkit.frontend.files import Program
from pirkit.runtime import dtype as dt
from pirkit.runtime.place import UNDEFINED
from tests.ops.calls import Call, calls, sample_dtypes
from tests.prim.rule_checks import emitted, tensors_of
from tests.tolerance import difference
from tools.campaigns.oracle import referred

Arrays = dict[str, Any]
NAMES: Final = [n for n in RULES if n.startswith("pd_op.") and reference.get(lookup(n)) is not None]

ALIGNED: Final = [
    d.name
    for d in all_ops()
    if d.kind == ELEMENTWISE and len(d.operands) > 1 and d.name not in RULES
    and d.effects == "pure" and d.dialect == "pd_op" and reference.get(d) is not None
]  # fmt: skip
"""Elementwise ops of several operands, which share one rule."""

LOOPED: Final = ("pd_op.yolo_box", "pd_op.warpctc", "pd_op.prior_box")
"""Ops without a rule, which run row by row."""


def program_of(call: Call, arrays: list[Any]) -> Program:
    made = ProgramOp.build("case")
    b = Builder(made.block)
    values = [
        b("pd_op.data", name=f"x{k}", shape=a.shape, dtype=dt.of_array(a), place=UNDEFINED)
        for k, a in enumerate(arrays)
    ]
    for k, value in enumerate(emitted(call, b, values)):
        b("pir.shadow_output", value, output_name=f"y{k}")
    return Program(ModuleOp([made]), {}, "case")


AXES: Final = frozenset("axis axes perm dim decrease_axis".split())


def variants(call: Call) -> Iterator[Call]:
    """A call, and the one that counts axes from the end."""
    yield call
    rank = max([a.ndim for a in tensors_of(call)[:1]], default=0)
    turned: dict[str, Any] = {}
    for name in AXES & call.attrs.keys():
        held = call.attrs[name]
        listed = [held] if isinstance(held, int) else list(held)
        if listed and all(isinstance(a, int) and 0 <= a < rank for a in listed):
            moved = [a - rank for a in listed]
            turned[name] = moved[0] if isinstance(held, int) else tuple(moved)
    if turned:
        yield replace(call, attrs={**call.attrs, **turned})


@pytest.mark.parametrize("name", [*NAMES, *ALIGNED, *LOOPED])
@pytest.mark.parametrize("first", [False, True], ids=["all", "first"])
def test_rows_are_what_each_of_them_gives(first: bool, name: str) -> None:
    """All operands have rows, or the first one alone. Integers are the same in another order."""
    rng = np.random.default_rng(0)
    definition, checked = lookup(name), 0
    known = sample_dtypes(definition)
    dtypes = [t for t in (dt.float32, dt.int32, dt.bool_) if t in known] or known[:1]
    given = [(t, c) for t in dtypes for one in calls(definition, t) for c in variants(one)]
    for dtype, call in given:
        arrays = tensors_of(call)
        if not arrays:
            continue
        others = [
            a if first and k
            else rng.permutation(a.ravel()).reshape(a.shape) if a.dtype.kind in "iub"
            else (a * rng.uniform(0.5, 1.5, a.shape)).astype(a.dtype)
            for k, a in enumerate(arrays)
        ]  # fmt: skip
        rows = [{f"x{k}": a for k, a in enumerate(row)} for row in (arrays, others)]
        axes = {n: None if first and n != "x0" else 0 for n in rows[0]}
        try:
            program = program_of(call, arrays)
            want = [referred(program, row) for row in rows]
        except PirkitError:
            continue  # the other row has indices outside, or the op takes no such axis
        mapped = pirkit.vmap(lambda given, of=program: of(**given), in_axes=(axes,))
        stacked = {n: np.stack([r[n] for r in rows]) if axes[n] == 0 else a for n, a in
                   rows[0].items()}  # fmt: skip
        found: Any = mapped(stacked)
        several = found if isinstance(found, tuple) else (found,)
        for k, value in enumerate(several):
            for row in range(2):
                one = np.asarray(value)[row]
                assert difference(one, want[row][f"y{k}"], dtype) is None, (call, k, row)
        checked += 1
    assert checked


def test_sizes_may_be_computed() -> None:
    """In a shape with an axis of rows, -1 would mean the size of the operand."""
    mapped = pirkit.vmap(lambda x, n: ops.expand(x, shape=n * 1), in_axes=(0, None))
    found = np.asarray(mapped(np.arange(6.0).reshape(3, 2, 1), np.array([2, 4])))
    np.testing.assert_array_equal(found, np.arange(6.0).reshape(3, 2, 1) + np.zeros(4))


UNSIZED: Final = "numel mean_all layer_norm batch_norm fill_diagonal_tensor".split()


@pytest.mark.parametrize("name", [*NAMES, *(f"pd_op.{n}" for n in UNSIZED)])
def test_rows_may_have_sizes_that_the_program_does_not_know(name: str) -> None:
    checked, known = 0, sample_dtypes(lookup(name))
    dtype = dt.float64 if dt.float64 in known else known[0]
    for call in [c for c in calls(lookup(name), dtype) if tensors_of(c)][:3]:
        given = [np.stack([a, a]) for a in tensors_of(call)]
        found: list[dict[str, Any]] = []
        for hides in (False, True):
            b = pirkit.ProgramBuilder()
            values = [
                b.input(
                    f"x{k}",
                    (2, *[-1 if hides and a.dtype.kind in "fc" else n for n in a.shape[1:]]),
                    dt.of_array(a).name,
                )
                for k, a in enumerate(given)
            ]
            mapped = pirkit.vmap(lambda *rows, of=call: tuple(emitted(of, rows[0].b, rows)))
            for k, value in enumerate(mapped(*values)):
                b.output(f"y{k}", value)
            run = pirkit.compile(b.finish(), pipeline="")
            found.append(run(**{f"x{k}": a for k, a in enumerate(given)}))
        for k, want in found[0].items():
            assert difference(found[1][k], want, dtype) is None, (call, k)
        checked += 1
    assert checked


PLACES: Final = np.array([True, False, True, True])
SELECTED: Final[dict[str, Any]] = {
    "product": lambda x, w: ops.matmul(x, w),
    "Gram matrix": lambda x, w: ops.softmax(ops.matmul(x, x, transpose_y=True), axis=-1),
    "product of rows": lambda x, w: ops.matmul(x, ops.transpose(x, perm=(1, 0)) @ (x @ w)),
    "filters": lambda x, w: ops.conv2d(ops.reshape(x, (-1, 1, 1, 3)), np.ones((2, 1, 1, 2))),
    "own filters": lambda x, w: ops.conv2d(
        ops.reshape(x, (-1, 1, 1, 3)), ops.reshape(w[:2, :2], (2, 1, 1, 2))
    ),
    "places": lambda x, w: ops.gather(w, ops.cast(x[:, 0] > 0, "int64"), axis=0),
    "sums": lambda x, w: ops.reduce_as(x, w[:1]),
    "derivative": lambda x, w: pirkit.grad(lambda v: ops.tanh(v @ w).sum())(x),
}


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", SELECTED)
def test_rows_of_a_selection(both: bool, name: str) -> None:
    """A mask that all rows share selects as many elements of each; the program knows no number."""
    x, w = (np.random.default_rng(0).standard_normal((2, 4, 3)) for _ in range(2))
    w = w[:, :3] if both else w[0, :3]

    def one(x: Any, w: Any, mask: Any) -> Any:
        places = ops.reshape(ops.nonzero(mask), (-1,))
        return SELECTED[name](ops.gather(x, places, axis=0), w)

    found = np.asarray(pirkit.vmap(one, in_axes=(0, 0 if both else None, None))(x, w, PLACES))
    for k in range(2):
        want = np.asarray(SELECTED[name](x[k][PLACES], w[k] if both else w))
        np.testing.assert_allclose(found[k], want, rtol=1e-12)


def test_a_scan_passes_sizes_that_the_program_does_not_know() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (3, -1, -1), "float64")
    b.output("y", pirkit.scan(lambda c, row: (c, row.sum() + c), np.float64(1.0), x)[1])
    given = np.arange(12.0).reshape(3, 2, 2)
    np.testing.assert_array_equal(pirkit.compile(b.finish())(x=given)["y"], [7.0, 23.0, 39.0])


EVALUATED: Final[dict[str, Any]] = {
    "dropout": lambda x: ops.dropout(x, None, 0.5, is_test=True)[0],
    "rrelu": lambda x: ops.rrelu(x, 0.25, 0.25, is_test=True),
    "flash_attn": lambda x: ops.flash_attn(x := x.reshape((1, 2, 1, 2)), x, x, is_test=True)[0],
}


@pytest.mark.parametrize("name", EVALUATED)
def test_what_may_draw_but_does_not_has_rows(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4))
    found = np.asarray(pirkit.vmap(EVALUATED[name])(x))
    np.testing.assert_allclose(found, [np.asarray(EVALUATED[name](r)) for r in x], rtol=1e-12)


def test_what_draws_is_refused_by_its_name() -> None:
    with pytest.raises(PirkitError, match=r"PK0402.*`pd_op.dropout` cannot be mapped"):
        pirkit.vmap(lambda x: ops.dropout(x, None, 0.5, is_test=False)[0])(np.ones((3, 4)))


def test_a_number_of_rows_is_known() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (-1, 3), "float64")
    with pytest.raises(PirkitError, match="number is not known"):
        pirkit.vmap(lambda v: v + 1)(x)


def test_places_of_a_table_for_each_row_are_checked() -> None:
    """They do not count from the end, and do not reach into the table of the next row."""
    tables = np.arange(2 * 4 * 3, dtype=np.float32).reshape(2, 4, 3)
    places = np.array([[0, 3], [2, 1]])
    mapped = pirkit.vmap(lambda x, w: ops.embedding(x, w, padding_idx=2))
    want = np.stack([t[p] * (p != 2)[:, None] for t, p in zip(tables, places, strict=True)])
    np.testing.assert_array_equal(np.asarray(mapped(places, tables)), want)
    for wrong in (-1, 4):
        with pytest.raises(PirkitError):
            mapped(np.array([[0, wrong], [2, 1]]), tables)


@pytest.mark.parametrize(("dtype", "rows"), [("uint8", 256), ("int8", 3), ("int16", 3)])
def test_ids_of_few_bits_find_the_tables_of_all_rows(dtype: str, rows: int) -> None:
    tables = np.arange(300 * rows * 2, dtype=np.float32).reshape(300, rows, 2)
    ids = (np.arange(300)[:, None] % rows).astype(dtype)
    mapped = pirkit.vmap(lambda x, w: ops.embedding(x, w))
    want = np.stack([t[p] for t, p in zip(tables, ids, strict=True)])
    np.testing.assert_array_equal(np.asarray(mapped(ids, tables)), want)


@pytest.mark.parametrize("ranks", [(1, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize("flips", [(True, False), (False, True), (True, True)])
def test_a_vector_is_not_turned(ranks: tuple[int, int], flips: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, *(3,) * r)) for r in ranks)

    def product(a: Any, b: Any) -> Any:
        return ops.matmul(a, b, transpose_x=flips[0], transpose_y=flips[1])

    want = np.stack([np.asarray(product(x[k], y[k])) for k in range(2)])
    np.testing.assert_allclose(np.asarray(pirkit.vmap(product)(x, y)), want)
