"""Cuts a MapExpr kernel into loop nests.

The loops that all statements share become the outer axes of one nest, the rest of their iteration
spaces the inner ones. Statements that do not fit one nest are cut into runs that do, or else become
nests of their own, with the values between them in memory. Tiled statements and scatters are nests
of their own kind. What no nest computes is left to the interpreter, with the reason.
"""

from __future__ import annotations

from itertools import takewhile

from msgspec.structs import replace

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tiling import Untiled, tiles_of
from pirkit.index.index_maps import space
from pirkit.lowering.codegen.ir.index_set_splitting import split_index_sets
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.codegen.ir.nest_builder import NotLowerableError
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.lowering.codegen.lower.statement_nest import ArrayNest, StatementNestBuilder
from pirkit.lowering.codegen.lower.tiled_nest_build import tiled_nest_of


def nests_of(kernel: MapExpr) -> tuple[ArrayNest, ...] | str:
    """The loop nests of a kernel in order, or the reason why there are none."""
    metas = (*kernel.inputs, *(s.meta for s in kernel.statements))
    if kernel.is_sized:
        return "its shapes are dynamic"
    if any(m.numel == 0 for m in metas):
        return "there is nothing to compute"
    nests: list[ArrayNest] = []
    start, last = 0, len(kernel.statements)
    try:
        split = without_scatters(kernel)
        tiled = {frame.statements[0]: frame for frame in tiles_of(kernel)}
        while start < last:
            if start in split.scatters:
                scatter = split.scatters[start]
                # The operands of the scatter, then the scatter, then the rounding of its result.
                for k in scatter.made:
                    nests.append(StatementNestBuilder(split.kernel, (k,), None).nest())
                nests.append(ArrayNest(scatter.nest, scatter.arrays))
                if start not in scatter.made:
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
                parts = split_index_sets(nest.kernel, nest.arrays)
                nests += [replace(nest, kernel=part, arrays=arrays) for part, arrays in parts]
            else:
                nests.append(nest)
    except (NotLowerableError, Untiled) as reason:
        return str(reason)
    return tuple(nests)


def _longest_fusible(kernel: MapExpr, start: int, limit: int) -> tuple[ArrayNest, int]:
    """The nest of the longest run of statements from ``start`` on, and the end of the run."""
    end = start
    while end < limit and kernel.statements[end].rows is not None:
        end += 1
    for stop in range(end, start + 1, -1):
        try:
            return StatementNestBuilder(kernel, tuple(range(start, stop)), kernel.rows).nest(), stop
        except NotLowerableError:
            continue
    # No run shares the kernel's loops: try the statements with the same iteration space.
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
    """Elementwise statements from ``start`` on with the same shape and no iteration mapping.

    Even in a kernel whose values share no loops, such as scalars and what they multiply, they run
    in one loop.
    """
    shape = kernel.statements[start].meta.shape
    found = takewhile(
        lambda s: not s.rows and not s.reduction and s.meta.shape == shape,
        kernel.statements[start:],
    )
    return tuple([replace(s, rows=space(shape)) for s in found])
