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
from pirkit.index.maps import space
from pirkit.lowering.codegen.digits import without_digits
from pirkit.lowering.codegen.landing import laid_out
from pirkit.lowering.codegen.loopnest import Kernel
from pirkit.lowering.codegen.nests import Builder, Nest
from pirkit.lowering.codegen.tile_phases import nest_of
from pirkit.lowering.codegen.writing import Unknown


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
        laid = laid_out(kernel)
        tiled = {frame.statements[0]: frame for frame in tiles_of(kernel)}
        while start < last:
            if start in laid.landings:
                landing, *made = laid.landings[start]
                nests += [Builder(laid.kernel, (k,), None).nest() for k in made]
                nests.append(Nest(landing, tuple([len(kernel.inputs) + k for k in made])))
                if start not in made:
                    nests.append(Builder(laid.kernel, (start,), None).nest())
                start += 1
                continue
            if start in tiled:
                nests.append(nest_of(laid.kernel, tiled[start]))
                start += len(tiled[start].axes)
                continue
            ends = (*laid.landings, *tiled)
            limit = min((k for k in ends if k > start), default=last)
            nest, start = _longest(laid.kernel, start, limit)
            if isinstance(nest.kernel, Kernel):
                straight, arrays = without_digits(nest.kernel, nest.arrays)
                nest = replace(nest, kernel=straight, arrays=arrays)
            nests.append(nest)
    except (Unknown, Untiled) as reason:
        return str(reason)
    return tuple(nests)


def _longest(kernel: MapExpr, start: int, limit: int) -> tuple[Nest, int]:
    """A nest of as many statements from ``start`` on as share one, up to a limit, and where it
    ends.
    """
    end = start
    while end < limit and kernel.statements[end].rows is not None:
        end += 1
    for stop in range(end, start + 1, -1):
        try:
            return Builder(kernel, tuple(range(start, stop)), kernel.rows).nest(), stop
        except Unknown:
            continue
    alike = _alike(kernel, start)[: limit - start]
    for stop in range(start + len(alike), start + 1, -1):
        together = (*kernel.statements[:start], *alike, *kernel.statements[start + len(alike) :])
        shape = kernel.statements[start].meta.shape
        try:
            apart = replace(kernel, statements=together, rows=shape)
            return Builder(apart, tuple(range(start, stop)), shape).nest(), stop
        except Unknown:
            continue
    return Builder(kernel, (start,), None).nest(), start + 1


def _alike(kernel: MapExpr, start: int) -> tuple[Statement, ...]:
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
