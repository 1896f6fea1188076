"""From a MapExpr to loop nests that native code is generated from.

The loops that all statements share become the outer axes, what is left of their spaces the inner
ones; a reduction ends a sweep. Where statements do not go into one nest, those that follow each
other and do share one, each of the others gets one of its own, with the values between them in
memory. Statements that go through tiles together are a nest of their own kind. What no nest holds
is left to the interpreter, with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tiling import Untiled, tiles_of
from pirkit.index.index_maps import space
from pirkit.lowering.codegen.ir.delinearize import delinearized
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.codegen.ir.nest_builder import NotLowerableError
from pirkit.lowering.codegen.lower.statement_nest import Nest, StatementNestBuilder
from pirkit.lowering.codegen.lower.tiled_nest_build import tiled_nest_of
from pirkit.lowering.codegen.scatter.scatter import without_scatters


def nests_of(kernel: MapExpr) -> tuple[Nest, ...] | str:
    """The loop nests of a kernel in order, or why there are none."""
    metas = (*kernel.inputs, *(s.meta for s in kernel.statements))
    if kernel.is_sized:
        return "its sizes are known only when it runs"
    if any(m.numel == 0 for m in metas):
        return "there is nothing to compute"
    nests: list[Nest] = []
    start, last = 0, len(kernel.statements)
    try:
        split = without_scatters(kernel)
        tiled = {frame.statements[0]: frame for frame in tiles_of(kernel)}
        while start < last:
            if start in split.scatters:
                scatter, *made = split.scatters[start]
                nests += [StatementNestBuilder(split.kernel, (k,), None).nest() for k in made]
                nests.append(Nest(scatter, tuple([len(kernel.inputs) + k for k in made])))
                if start not in made:
                    nests.append(StatementNestBuilder(split.kernel, (start,), None).nest())
                start += 1
                continue
            if start in tiled:
                nests.append(tiled_nest_of(split.kernel, tiled[start]))
                start += len(tiled[start].axes)
                continue
            ends = (*split.scatters, *tiled)
            limit = min((k for k in ends if k > start), default=last)
            nest, start = _longest_fusible(split.kernel, start, limit)
            if isinstance(nest.kernel, Kernel):
                delinearized_kernel, arrays = delinearized(nest.kernel, nest.arrays)
                nest = replace(nest, kernel=delinearized_kernel, arrays=arrays)
            nests.append(nest)
    except (NotLowerableError, Untiled) as reason:
        return str(reason)
    return tuple(nests)


def _longest_fusible(kernel: MapExpr, start: int, limit: int) -> tuple[Nest, int]:
    """A nest of as many statements from ``start`` on as share one, up to a limit, and where it
    ends.
    """
    end = start
    while end < limit and kernel.statements[end].rows is not None:
        end += 1
    for stop in range(end, start + 1, -1):
        try:
            return StatementNestBuilder(kernel, tuple(range(start, stop)), kernel.rows).nest(), stop
        except NotLowerableError:
            continue
    same_space = _same_space(kernel, start)[: limit - start]
    for stop in range(start + len(same_space), start + 1, -1):
        merged = (
            *kernel.statements[:start],
            *same_space,
            *kernel.statements[start + len(same_space) :],
        )
        shape = kernel.statements[start].meta.shape
        try:
            separate = replace(kernel, statements=merged, rows=shape)
            return StatementNestBuilder(separate, tuple(range(start, stop)), shape).nest(), stop
        except NotLowerableError:
            continue
    return StatementNestBuilder(kernel, (start,), None).nest(), start + 1


def _same_space(kernel: MapExpr, start: int) -> tuple[Statement, ...]:
    """Statements from ``start`` on that go through the same space, without sharing loops by rows.

    A kernel whose values have no loops in common, such as scalars and what they multiply, still
    computes what has the same shape in one sweep.
    """
    shape = kernel.statements[start].meta.shape
    found = takewhile(
        lambda s: not s.rows and not s.reduction and s.meta.shape == shape,
        kernel.statements[start:],
    )
    return tuple([replace(s, rows=space(shape)) for s in found])
