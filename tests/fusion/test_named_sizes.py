"""Rules of shapes and of indices hold where sizes have names: on every sample of every op."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.interpreter import run
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.symbolic_shapes import Sizes, result_shapes
from pirkit.dialect.map_expr.tree import Opaque, Reduction, Scatter, Value
from pirkit.dialect.opdef import OpDef, all_ops, index_maps
from pirkit.index.extent import Undecided, at, is_sized
from pirkit.index.size_solver import solve
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from tests.ops.calls import Call, calls, sample_dtypes

RULED = [d for d in all_ops() if result_shapes.get(d) is not None and d.pure is None]


def some_calls(definition: OpDef) -> list[Call]:
    """The samples of the op for float32, or for what it has."""
    dtypes = sample_dtypes(definition)
    dtype = dt.float32 if dt.float32 in dtypes else dtypes[0]
    return list(calls(definition, dtype))


MODES = ("every", "wide", "alike")


def named_metas(call: Call, sizes: Sizes, mode: str) -> list[Meta | None]:
    """Operands whose sizes have names: ``every`` one its own, or all but those of 1 element; or
    equal ones the same.
    """
    by_size: dict[tuple[int, int, int], int] = {}

    def name(meta: TensorMeta, operand: int) -> TensorMeta:
        shape: list[int] = []
        for axis, n in enumerate(meta.shape):
            key = (operand, axis, n) if mode != "alike" else (0, 0, n)
            if n == 1 and mode != "every":
                shape.append(n)
                continue
            if key not in by_size:
                by_size[key] = sizes.new()
            shape.append(by_size[key])
        return meta.with_shape(shape)

    found: list[Meta | None] = []
    for k, meta in enumerate(call.metas):
        if isinstance(meta, VecMeta):
            found.append(VecMeta(tuple([name(m, 100 * k + j) for j, m in enumerate(meta.items)])))
        else:
            found.append(None if meta is None else name(cast(TensorMeta, meta), k))
    return found


def flat_dims(metas: list[Meta | None]) -> list[int]:
    found: list[int] = []
    for meta in metas:
        items = meta.items if isinstance(meta, VecMeta) else (meta,)
        found += [n for m in items if m is not None for n in cast(TensorMeta, m).shape]
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("definition", RULED, ids=str)
def test_shapes_are_those_of_infer_meta(definition: OpDef, mode: str) -> None:
    output = 0
    for call in some_calls(definition):
        sizes = Sizes()
        named = named_metas(call, sizes, mode)
        want = [cast(TensorMeta, m) for m in call.infer()]
        try:
            shapes = result_shapes.of(definition)(
                MapCall(definition, named, want, call.attrs), sizes
            )
        except Undecided:
            continue
        assert len(shapes) <= len(want)
        known = solve(flat_dims(named), flat_dims(list(call.metas)), sizes.derived)
        checked(sizes, named, list(call.metas))
        for meta, shape in zip(want, shapes, strict=False):
            assert len(shape) == meta.rank, str(call)
            for n, wanted in zip(shape, meta.shape, strict=True):
                assert n is None or at(n, known) == wanted, str(call)
                output += 1
    assert output or definition.name == "pd_op.squeeze"


def checked(sizes: Sizes, named: list[Meta | None], found: list[Meta | None]) -> None:
    """Raise ConstraintError if a check of sizes fails for the operands that are found."""
    known = solve(flat_dims(named), flat_dims(found), sizes.derived)
    for check in sizes.checks:
        check.value(known)


# how many elements are added is checked when a matmul runs
@pytest.mark.parametrize("definition", [d for d in RULED if d.name != "pd_op.matmul"], ids=str)
def test_a_rule_that_checks_sizes_checks_all_that_the_op_refuses(definition: OpDef) -> None:
    """Where the sizes of the first operand are open, and one of them is not that of the sample."""
    for call in some_calls(definition):
        sizes, metas = Sizes(), list(call.metas)
        if not metas or not isinstance(metas[0], TensorMeta):
            continue
        named = [named_metas(call, sizes, "every")[0], *metas[1:]]
        try:
            result_shapes.of(definition)(
                MapCall(definition, named, list(call.infer()), call.attrs), sizes
            )
        except Undecided:
            continue
        for axis, n in enumerate(metas[0].shape if sizes.checks else ()):
            shape = (*metas[0].shape[:axis], n + 1, *metas[0].shape[axis + 1 :])
            changed = [metas[0].with_shape(shape), *metas[1:]]
            try:
                call.infer(*changed)
            except ConstraintError:
                with pytest.raises(ConstraintError):
                    checked(sizes, named, changed)


def kernel_of(call: Call, metas: list[Meta | None], sizes: Sizes) -> MapExpr | None:
    """The kernel of one call, if its rules tell one for these sizes."""
    results = [cast(TensorMeta, m) for m in call.infer()]
    try:
        shapes = result_shapes.of(call.definition)(
            MapCall(call.definition, metas, results, call.attrs), sizes
        )
    except Undecided:
        return None
    if any(n is None for n in shapes[0]):
        return None
    return kernel_with(call, metas, [results[0].with_shape(shapes[0]), *results[1:]], sizes)


def kernel_with(
    call: Call, metas: list[Meta | None], results: list[TensorMeta], sizes: Sizes
) -> MapExpr | None:
    """The kernel of one call with such results, if its index rule tells one."""
    definition, out = call.definition, results[0]
    try:
        value: Value | Opaque = index_maps.of(definition)(
            MapCall(definition, metas, results, call.attrs, sizes)
        )
    except Undecided:
        return None
    if isinstance(value, Opaque | tuple):
        return None
    flat: list[TensorMeta] = []
    for meta in metas:
        items = meta.items if isinstance(meta, VecMeta) else (meta,)
        flat += [cast(TensorMeta, m) for m in items if m is not None]
    if isinstance(value, Reduction | Scatter):
        statement = Statement(
            out, value.body, definition.name, value.op, value.extents, value.attrs
        )
        if isinstance(value, Scatter):
            statement = replace(statement, start=value.start, index=value.index)
    else:
        statement = Statement(out, value, definition.name)
    return MapExpr("one", tuple(flat), (statement,), (0,), (), tuple(sizes.derived))


MAPPED = [d for d in RULED if index_maps.get(d) is not None]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("definition", MAPPED, ids=str)
def test_elements_are_those_of_the_reference(definition: OpDef, mode: str) -> None:
    for call in some_calls(definition):
        sizes = Sizes()
        kernel = kernel_of(call, named_metas(call, sizes, mode), sizes)
        if kernel is None:
            continue
        arrays = [
            a for x in call.args for a in (x if isinstance(x, list) else [x]) if a is not None
        ]
        assert kernel.is_sized or all(m.rank == 0 for m in kernel.inputs) or mode != "every"
        (found,) = run(kernel, arrays)
        want = cast("np.ndarray", call.compute()[0])
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6, err_msg=str(call))


def test_sizes_that_follow_from_others_are_made_once() -> None:
    sizes = Sizes()
    n, m = sizes.new(), sizes.new()
    assert sizes.broadcast(n, n) == n
    assert sizes.broadcast(n, 1) == n
    assert sizes.broadcast(n, 4) == 4
    assert sizes.broadcast(n, m) == sizes.broadcast(m, n)
    assert is_sized(sizes.quotient(6 * n, 4))
    assert sizes.quotient(6 * n * m, 2 * n) == 3 * m
    assert [d.rule for d in sizes.derived] == ["broadcast", "quotient"]


def test_sizes_of_a_reshape_whose_total_is_a_product_of_unknown_sizes() -> None:
    """The kernel knows the product of two sizes only, and that both totals are equal."""
    b = pirkit.ProgramBuilder()
    x, w = (b.input(name, (-1, -1), "float32") for name in "xw")
    labels = b.input("labels", (-1, -1), "int64")
    operands = (x, labels, w, None, None, None)
    out, *_ = b("pd_op.hsigmoid_loss", *operands, num_classes=6, is_sparse=False)
    b.output("loss", out)
    both = pirkit.run_passes(b.finish(), "autodiff")
    draw = np.random.default_rng(0)
    given = {
        "x": draw.random((3, 4), np.float32), "w": draw.random((5, 4), np.float32),
        "labels": np.array([[0], [3], [5]]),
    }  # fmt: skip
    want = pirkit.compile(both, backend="reference", pipeline="")(**given)
    found = pirkit.compile(both)(**given)
    for name, value in want.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
