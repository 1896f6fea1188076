"""A function of one row as a function of many rows at once: ``vmap``.

The function is recorded for one row, with the derivatives in it expanded. Then each operation whose
operands differ from row to row is emitted with an axis in front, by the rules of `batching`; the
others are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import DERIVATIVE
from pirkit.dialect.operation import PirOp, declares
from pirkit.frontend import tree
from pirkit.frontend.batching import Batched
from pirkit.frontend.batching_regions import Rows
from pirkit.frontend.bodies import Body
from pirkit.frontend.control_flow import entered
from pirkit.frontend.numpy_functions import apply_function
from pirkit.frontend.python_calls import takes_functions
from pirkit.frontend.tracing import Recorder
from pirkit.frontend.user_line import wrong_call
from pirkit.passes import run_pipeline
from pirkit.passes.base import PassContext
from pirkit.passes.functionalize import without_writes, write_backs
from pirkit.passes.pipelines import EXPANSION
from pirkit.runtime.meta import UNKNOWN

Function = Callable[..., Any]


@takes_functions("f")
def vmap(f: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """``f`` over rows: arguments and results get one more axis.

    ``in_axes`` is the axis of the rows in all arguments, or one for each (a tree of them for a tree
    of tensors); None for an argument that all rows share. Keyword arguments have their rows in
    front. ``out_axes`` is where the rows of the results go (or a tree of such), None for a result
    that all rows share. Nests with itself, with derivatives and with `jit`.

    Raises ArgumentError (PK0701) if the numbers of rows differ or are unknown, and if a result
    differs from row to row in spite of None; UnsupportedError (PK0402), naming the op and the line,
    for random ops and for results whose sizes follow from elements.
    """

    @wraps(f, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes = _spread(in_axes, args) + [0] * len(tree.leaves(kwargs))

        def recorded(b: Recorder, args: Any, kwargs: Any) -> Any:
            leaves, shape = tree.flatten((args, kwargs))
            rows = [_to_front(b, v, a) for v, a in zip(leaves, axes, strict=True)]
            count = _count(rows, axes)
            found, result = _mapped(b, f, shape, rows, [a is not None for a in axes], count)
            outs = _prefix(out_axes, result)
            moved = [_placed(b, v, a, count) for v, a in zip(found, outs, strict=True)]
            return tree.unflatten(tree.flatten(result)[1], iter(moved))

        return entered(recorded, args, kwargs)

    return mapped


def _spread(axes: Any, trees: Sequence[Any]) -> list[int | None]:
    """An axis for each leaf, given one for all, one for each tree, or trees of them."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree.leaves(tuple(trees)))
    if not isinstance(axes, list | tuple) or len(cast("list[Any]", axes)) != len(trees):
        raise wrong_call(f"axes {axes!r} for {len(trees)} trees", "give one for each of them")
    found: list[int | None] = []
    for axis, each in zip(cast("list[Any]", axes), trees, strict=True):
        found += _prefix(axis, each)
    return found


def _prefix(axis: Any, given: Any) -> list[int | None]:
    if axis is None or isinstance(axis, int):
        return [axis] * len(tree.leaves(given))
    if isinstance(axis, dict) and isinstance(given, dict) and axis.keys() == given.keys():
        both = cast("dict[Any, Any]", axis), cast("dict[Any, Any]", given)
        order = cast(tree.Node, tree.flatten(both[1])[1]).extra
        return [a for k in order for a in _prefix(both[0][k], both[1][k])]
    return _spread(axis, cast("Sequence[Any]", given))


def _count(rows: Sequence[Value], axes: Sequence[int | None]) -> int:
    counts = {v.shape[0] for v, a in zip(rows, axes, strict=True) if a is not None}
    if len(counts) != 1:
        raise wrong_call(f"`vmap` over {sorted(counts) or 'no'} rows",
                     "mapped arguments have the same number of rows; give None in `in_axes` for"
                     " those that all rows share")  # fmt: skip
    (count,) = counts
    if count == UNKNOWN:
        raise wrong_call("`vmap` over rows whose number is not known while it is traced",
                     "declare that size; others may be unknown")  # fmt: skip
    return count


def _to_front(b: Recorder, value: Value, axis: int | None) -> Value:
    if axis is None or axis == 0:
        if axis == 0 and not value.shape:
            raise wrong_call(f"`vmap` over a {value.meta}, which has no rows", "give None for it")
        return value
    return apply_function(b, "moveaxis", (value, axis, 0), {})


def _placed(b: Recorder, given: Batched, axis: int | None, count: int) -> Value:
    """A result with its rows at an axis; None for one that all rows share."""
    if axis is None:
        if given.rows:
            raise wrong_call("a result differs from row to row, and has None in `out_axes`",
                         "give the axis at which its rows go")  # fmt: skip
        return given.value
    rows = all_rows(b, given, count)
    return rows if not axis else apply_function(b, "moveaxis", (rows, 0, axis), {})


def all_rows(b: Builder, given: Batched, count: int) -> Value:
    """A value with the axis of rows."""
    if given.rows:
        return given.value
    x = b.reshape(given.value, (1, *given.value.shape))
    return b("pd_op.expand", x, shape=(count, *given.value.shape))


def _mapped(
    b: Recorder, f: Function, shape: tree.Shape, rows: list[Value], flags: list[bool], count: int
) -> tuple[list[Batched], Any]:
    """The results of ``f`` for all rows, and the tree of its result for one row."""
    body = Body(b)
    one = [
        v.meta.with_shape(v.shape[1:]) if flag else v.meta
        for v, flag in zip(rows, flags, strict=True)
    ]
    made = tree.leaves(body.arguments(shape, one))
    pairs = zip(rows, made, strict=True)  # numbers are read from around, to stay weak
    args, kwargs = tree.unflatten(shape, iter([v if v.weak else a for v, a in pairs]))
    result = body.record(lambda: f(*args, **kwargs))
    given = [Batched(v, flag) for v, flag in zip(rows, flags, strict=True)]
    return over_rows(body, tree.leaves(result), given, count), result


def over_rows(
    body: Body, results: Sequence[Any], given: Sequence[Batched], count: int, *, alike: bool = False
) -> list[Batched]:
    """Emit a body for many rows: its results, where ``given`` stands for its arguments.

    Random numbers are refused, unless rows are to be ``alike`` in them.
    """
    b, recorder, program = body.outer, body.recorder, body.recorder.program
    for i, value in enumerate(results):
        made = body.record(recorder.value, value)
        recorder("pir.shadow_output", made, output_name=f"y{i}")
    recorder.is_dynamic = False
    if any(declares(op, DERIVATIVE) for op in program.block.ops):
        run_pipeline(ModuleOp([program]), EXPANSION, verify=False)
        program.detach()
    without_writes(program, PassContext("vmap", 0))
    for op in write_backs(program):  # arguments are rows, which keep no state
        if not cast(PirOp, op.operands[1].owner).attribute("name").startswith("outer"):
            op.detach()
    known = {f"x{i}": v for i, v in enumerate(given)}
    known |= {f"outer{i}": Batched(b.own(b.wrap(v)), False) for i, v in enumerate(recorder.links)}
    emitted = Rows.of(b, count, program.block, alike)
    for value in emitted.around:
        emitted.values[value] = Batched(b.own(b.wrap(value)), False)
    outputs: dict[str, PirOp] = {}  # an op is decomposed into others: their results take its uses
    for op in [cast(PirOp, op) for op in program.block.ops]:
        if op.name == "pd_op.data":
            emitted.values[op.results[0]] = known[op.attribute("name")]
        elif op.name == "pir.shadow_output":
            outputs[op.attribute("output_name")] = op
        else:
            continue
        op.detach()
    emitted.run(cast("PirOp | None", program.block.first_op))
    found = {n: cast(Batched, emitted.values[op.operands[0]]) for n, op in outputs.items()}
    return [found[f"y{i}"] for i in range(len(found))]
