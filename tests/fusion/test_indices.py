"""Numbers that say where: an op counts them from the end, or refuses them, in whatever runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.build import Value
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.runtime import dtype as dt
from pirkit.runtime.place import UNDEFINED
from tests.fusion.cases import Case
from tests.fusion.random_programs import Array

Build = Callable[[Case, int], Value]

X: Final = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
"""Five rows: indices are tried along them."""

WAYS: Final[dict[str, dict[str, Any]]] = {
    "rule": {"backend": "reference", "pipeline": ""},
    "kernel": {"pipeline": "@simplify"},
    "default": {"pipeline": "@default"},
    "native": {"pipeline": "@fused"},
    "interpreted": {"backend": "reference", "pipeline": "@fused"},
}


def given(c: Case, array: Any, dtype: dt.DType = dt.float32) -> Value:
    name = f"x{len(c.inputs)}"
    c.inputs[name] = np.asarray(array, dtype.np)
    shape = c.inputs[name].shape
    return c.b("pd_op.data", name=name, shape=shape, dtype=dtype, place=UNDEFINED)


def at(c: Case, *places: Any, dtype: dt.DType = dt.int64) -> Value:
    return given(c, places, dtype)


def rows(c: Case) -> Value:
    return given(c, X) * 1.0


def permuted(c: Case) -> Value:
    return given(c, X.T) * 1.0


def two(c: Case) -> Value:
    return given(c, np.ones((2, 3))) * 2.0


def along(reduce: str, include_self: bool = True) -> Build:
    def build(c: Case, v: int) -> Value:
        values = given(c, np.full((1, 3), 2.0))
        attrs = {"axis": 0, "reduce": reduce, "include_self": include_self}
        return c.op("put_along_axis", rows(c), at(c, [1, v, 0]), values, **attrs)

    return build


def put(accumulate: bool) -> Build:
    def build(c: Case, v: int) -> Value:
        index = c.b.combine([at(c, 1, v)])
        return c.op("index_put", rows(c), index, two(c), accumulate=accumulate)

    return build


def scattered(overwrite: bool) -> Build:
    return lambda c, v: c.op("scatter", rows(c), at(c, 1, v), two(c), overwrite=overwrite)


def lookup_result(padding: int, dtype: dt.DType) -> Build:
    def build(c: Case, v: int) -> Value:
        return c.op("embedding", at(c, 1, v, dtype=dtype), rows(c), padding_idx=padding)

    return build


def one_column(c: Case, v: int) -> Value:
    """Rows and columns put together are one number: one that is too large is no other row."""
    index = c.b.combine([at(c, 1, 0), at(c, 2, v)])
    return c.op("index_put", permuted(c), index, at(c, 7.0, 8.0, dtype=dt.float32))


COUNTED: Final[dict[str, Build]] = {
    "gather": lambda c, v: c.op("gather", rows(c), at(c, 1, v), axis=0),
    "gather axis 1": lambda c, v: c.op("gather", permuted(c), at(c, 1, v), axis=1),
    "gather_nd": lambda c, v: c.op("gather_nd", rows(c), at(c, [1, 0], [v, 1])),
    "index_select": lambda c, v: c.op("index_select", permuted(c), at(c, 1, v), axis=1),
    "take_along_axis": lambda c, v: c.op("take_along_axis", rows(c), at(c, [1, v, 0]), axis=0),
    "index_add": lambda c, v: c.op("index_add", rows(c), at(c, 1, v), two(c), axis=0),
    "index_put": put(False),
    "index_put columns": one_column,
    "index_put accumulate": put(True),
    "scatter": scattered(True),
    "scatter added": scattered(False),
    "scatter_nd_add": lambda c, v: c.op("scatter_nd_add", rows(c), at(c, [1], [v]), two(c)),
    **{f"put {way}": along(way) for way in ("assign", "add", "mul", "amin", "amax", "mean")},
    "put without itself": along("add", False),
}
"""Ops that count negative indices from the end, as Paddle does."""

_LOSS: Final[dict[str, Any]] = {
    "soft_label": False, "use_softmax": True, "numeric_stable_mode": True, "ignore_index": -100,
}  # fmt: skip


def send(source: bool) -> Build:
    def build(c: Case, v: int) -> Value:
        edges = (at(c, 1, v), at(c, 0, 1))
        return c.op("send_u_recv", rows(c), *(edges if source else edges[::-1]))[0]

    return build


def chosen(c: Case, v: int) -> Value:
    inputs = c.b.combine([given(c, X[:2] + k) for k in range(5)])
    return c.op("multiplex", inputs, at(c, [1], [v], dtype=dt.int32))


def sampled(c: Case, v: int) -> Value:
    return c.op("index_sample", permuted(c), at(c, [1, v], [0, 1], [2, 2]))


def cross_entropy(c: Case, v: int) -> Value:
    label = at(c, [1], [v], [0])
    return c.op("cross_entropy_with_softmax", permuted(c), label, **_LOSS, axis=-1)[1]


def nll(c: Case, v: int) -> Value:
    attrs = {"ignore_index": -100, "reduction": "none"}
    return c.b("pd_op.nll_loss", permuted(c), at(c, 1, v, 0), None, **attrs)[0]


def sharded(c: Case, v: int) -> Value:
    return c.op("shard_index", at(c, [1], [v]), index_num=5, nshards=2, shard_id=0)


STRICT: Final[dict[str, Build]] = {
    **{f"embedding {p}": lookup_result(p, dt.int64) for p in (-1, 1, 4)},
    "embedding of int8": lookup_result(-1, dt.int8),
    "index_sample": sampled,
    "one_hot": lambda c, v: c.op("one_hot", at(c, 1, v), num_classes=5),
    "multiplex": chosen,
    "shard_index": sharded,
    "cross_entropy": cross_entropy,
    "nll_loss": nll,
    "send_u_recv from": send(True),
    "send_u_recv to": send(False),
    "send_uv": lambda c, v: c.op("send_uv", rows(c), rows(c), at(c, 1, v), at(c, 0, 1)),
    "segment_pool": lambda c, v: c.op("segment_pool", rows(c), at(c, 0, 0, 0, v, 4))[0],
}
"""Ops that refuse negative indices, as Paddle does."""


def quotients(c: Case, v: int) -> Value:
    """By a zero in front of what is read, and by another number."""
    y = c.op("slice", at(c, 0, 2, v, 1, 5), axes=[0], starts=[1], ends=[5])
    return c.op("floor_divide", at(c, 7, 8, 9, 10), y)


def joined(c: Case, value: Value) -> Value:
    return c.op("concat", c.b.combine([value, c.b.abs(value), value]), axis=0)


def padded(c: Case, value: Value) -> Value:
    return c.op("pad", value, paddings=[2, 1, *[0, 0] * (value.rank - 1)], pad_value=0.0)


AFTER_IN_PLACE: Final[dict[str, Callable[[Case, Value], Value]]] = {
    "joined": joined,
    "padded": padded,
    "padded and joined": lambda c, v: joined(c, padded(c, v)),
    "rolled": lambda c, v: c.op("roll", v, shifts=[1], axis=[0]),
    "turned": lambda c, v: padded(c, c.op("flip", v, axis=[0])) + 0,
}
"""Ops that choose by place: each has an element that is chosen for the first one's result."""

FAR: Final = 100
INSIDE: Final = (0, 3)
FROM_END: Final = (-1, -5)
OUTSIDE: Final = (-6, 5, FAR, -FAR - 1)


def built(build: Build, v: int) -> Case:
    c = Case()
    value = build(c, v)
    out = value * 2.0 if value.dtype.is_float else value
    c.b("pir.shadow_output", out, output_name="y")
    return c


def compiled(build: Build, way: str) -> Callable[[int], Array | None]:
    """What gives the result for a place; None if the place is refused."""
    program = Program(ModuleOp([built(build, 0).program]), {}, "test")
    exe = compile(program, **WAYS[way])

    def run(v: int) -> Array | None:
        inputs = built(build, v).inputs
        with suppress(RuntimeFault):
            return exe(**inputs)["y"]
        return None

    return run


@pytest.mark.parametrize("name", [*COUNTED, *STRICT])
def test_all_that_runs_an_op_agrees_about_its_indices(name: str) -> None:
    build = COUNTED.get(name) or STRICT[name]
    taken = INSIDE if name in STRICT else INSIDE + FROM_END
    ways = {way: compiled(build, way) for way in WAYS}
    for v in (*INSIDE, *FROM_END, *OUTSIDE):
        want = ways["rule"](v)
        assert (want is not None) == (v in taken), v
        for way, run in ways.items():
            got = run(v)
            assert (got is None) == (want is None), (v, way)
            if got is not None and want is not None:
                np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=f"{v} {way}")


@pytest.mark.parametrize("behind", AFTER_IN_PLACE)
@pytest.mark.parametrize("of", ["gather", "embedding -1", "quotients"])
def test_what_is_chosen_by_place_is_checked_where_it_is_chosen(of: str, behind: str) -> None:
    first = {**COUNTED, **STRICT, "quotients": quotients}[of]
    runs = {way: compiled(lambda c, v: AFTER_IN_PLACE[behind](c, first(c, v)), way) for way in WAYS}
    for v in (3, -1, -FAR, FAR, 0):
        want = runs["rule"](v)
        assert (want is None) == (v == 0) or of != "quotients"
        for run in runs.values():
            got = run(v)
            assert (got is None) == (want is None), v
            if got is not None and want is not None:
                np.testing.assert_allclose(got, want, rtol=1e-6)
