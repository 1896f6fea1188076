"""Verifies a kernel from its text alone, without the program that it was built from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Final

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.certificate import admits, differences
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.kernel_text import known_kernel
from pirkit.dialect.map_expr.specialize import Shape, sizes_at, specialised, with_sizes
from pirkit.dialect.map_expr.tiling import problems_of_tiles
from pirkit.dialect.map_expr.tree import Choose, Load, element_type, walk
from pirkit.index.expr import Expr
from pirkit.index.extent import is_sized, names_of
from pirkit.index.index_maps import Guard, bindings, compose, evaluate, points, space
from pirkit.runtime.dtype import DType

VISIT_LIMIT: Final = 4096
"""Largest number of points at which an index is evaluated if its bounds prove nothing."""

MAX_ITERATIONS: Final = 2**63 - 1
"""The largest loop count that native code holds."""

TRIED: Final = (1, 2, 3, 8)
"""The values tried for a kernel's symbolic sizes."""

WIDE: Final = 4
"""The number of symbols that are tried as 1 while all others are equal (broadcasts)."""


@lru_cache(maxsize=512)
def problem_of(text: str) -> str | None:
    """The first problem of the kernel of a text, including its certificate; None if it is valid.
    Raises ConstraintError (C1) for a text that is no kernel.
    """
    kernel = known_kernel(text)
    return next(chain(problems(kernel), differences(kernel)), None)


@lru_cache(maxsize=512)
def kernel_at(text: str, shapes: tuple[Shape, ...]) -> MapExpr:
    """The kernel of a text for inputs of these shapes.

    Raises ConstraintError if they do not fit, or if the kernel would read out of bounds for these
    shapes (a constant index of the program may be too large).
    """
    general = known_kernel(text)
    kernel = specialised(general, shapes)
    if general.is_sized:
        wrong = next(_problems(kernel, with_order=False), None)
        if wrong is not None:
            shown = ", ".join(map(str, shapes))
            raise ConstraintError("C3", f"{wrong}, as the inputs have the shapes {shown}")
    return kernel


def problems(kernel: MapExpr, shapes: Sequence[Shape] | None = None) -> Iterator[str]:
    """Messages about the problems of a kernel; empty if it is valid.

    The order of statements is checked for all sizes at once. In-bounds access is proved by bounds
    for all sizes where possible, else tested for sample sizes, or for those of these ``shapes``.
    """
    yield from _problems(kernel)
    if kernel.is_sized:
        for sizes in _samples(kernel) if shapes is None else [sizes_at(kernel, shapes)]:
            for message in _problems(with_sizes(kernel, sizes), with_order=False):
                yield f"{message}, where sizes are {sizes}"


def _samples(kernel: MapExpr) -> Iterator[dict[str, int]]:
    """Sample values of a kernel's symbols: equal ones, different ones, some of 1."""
    follow = {derived.name for derived in kernel.sizes}
    free = [n for n in names_of(kernel.numbers()) if n not in follow]
    for chosen in _chosen(len(free)):
        sizes = dict(zip(free, chosen, strict=True))
        try:
            for derived in kernel.sizes:
                value = derived.value(sizes)
                if value is None or sizes.setdefault(derived.name, value) != value:
                    raise ConstraintError("sizes", f"{derived} does not hold")
        except ConstraintError:
            continue  # no kernel of these sizes can be called
        if admits(with_sizes(kernel, sizes)):
            yield sizes


def _chosen(count: int) -> Iterator[tuple[int, ...]]:
    """Sample values for a number of independent symbols."""
    yield from ((size,) * count for size in TRIED)
    if count > 1:
        upwards = range(2, 2 + count)
        yield tuple(upwards)
        yield tuple(reversed(upwards))
        for one in range(min(count, WIDE)):  # as if this axis were broadcast
            yield tuple([1 if k == one else 3 for k in range(count)])
            yield tuple([4 if k == one else 1 for k in range(count)])


def _problems(kernel: MapExpr, with_order: bool = True) -> Iterator[str]:
    """The errors of rows, reads, outputs, and (``with_order``) of the order of statements.

    A read that a selection guards may leave its tensor: it is not evaluated there.
    """
    count = len(kernel.inputs)

    def stored(source: int) -> DType | None:
        is_known = 0 <= source < count + len(kernel.statements)
        return kernel.meta(source).dtype if is_known else None

    for k, statement in enumerate(kernel.statements):
        if statement.rows is not None and len(statement.rows) != len(kernel.rows):
            yield f"v{k} has {len(statement.rows)} rows of {len(kernel.rows)}"
        for row, loop_extent in zip(statement.rows or (), kernel.rows, strict=False):
            if not row.sized and _leaves(row, loop_extent):
                yield f"v{k} has a row {row!r} that is none of the {loop_extent} iterations"
        guarded = {
            id(n)
            for choice in statement.nodes()
            if isinstance(choice, Choose)
            for side in (choice.yes, choice.no)
            for n in walk(side)
        }
        yield from _writing(k, statement)
        if not statement.reduction:
            made = {element_type(root, stored) for root in statement.roots} - {
                statement.meta.dtype,
                None,
            }
            yield from (f"v{k} stores {dtype} as {statement.meta.dtype}" for dtype in made)
        sizes = *statement.meta.shape, *statement.extents
        is_empty, is_open = 0 in sizes, any(map(is_sized, sizes))
        if not is_empty and not is_open and prod(sizes) > MAX_ITERATIONS:
            yield f"v{k} has more than 2^63 - 1 iterations"
        for load in statement.loads():
            if not 0 <= load.source < count + k:
                yield f"v{k} reads a value that is not stored before it"
                continue
            meta = kernel.meta(load.source)
            if len(load.index) != len(meta.shape):
                yield f"v{k} reads a tensor of {len(meta.shape)} axes at {len(load.index)} indices"
                continue
            places = zip(load.index, meta.shape, strict=True)
            # with open sizes, what reads a tensor without elements may have no iterations
            may_be_empty = is_empty or (is_open and 0 in meta.shape)
            is_read = not may_be_empty and id(load) not in guarded
            if is_read and any(_leaves(e, n) for e, n in places):
                yield f"v{k} reads outside of {meta}: {list(load.index)}"
            if load.source >= count and with_order:
                yield from _order(kernel, k, statement, load)
    if with_order:
        yield from problems_of_tiles(kernel)
    if any(not 0 <= k < len(kernel.statements) for k in kernel.outputs):
        yield "an output is no stored value"


def _writing(k: int, statement: Statement) -> Iterator[str]:
    """Problems of a scatter: it must write in bounds and have no iteration mapping."""
    if statement.start is None:
        return
    shape = statement.meta.shape
    if statement.rows is not None or len(statement.index) != len(shape):
        yield f"v{k} writes at {list(statement.index)} into a value of {len(shape)} axes"
    elif any(_leaves(e, n) for e, n in zip(statement.index, shape, strict=True)):
        yield f"v{k} writes outside of {statement.meta}: {list(statement.index)}"


def _leaves(expr: Expr, extent: int) -> bool:
    """True if an index is found to be out of bounds.

    Bounds prove most indices correct; if they are too wide, the index is evaluated at all points of
    a small space, or near the corners of a large one.
    """
    guard = Guard(expr, extent)
    if expr.sized or is_sized(extent):
        return guard.is_false
    if guard.is_true or any(i.extent == 0 for i in expr.iters):
        return False
    if expr.has_reads:
        return guard.is_false
    tried = points(expr.iters, VISIT_LIMIT)
    return any(not 0 <= evaluate(expr, point) < extent for point in tried)


def _congruent_point(statement: Statement, load: Load) -> bool:
    return load.index == space(statement.meta.shape)


def _order(kernel: MapExpr, k: int, statement: Statement, load: Load) -> Iterator[str]:
    """Problems of a read of a temporary: it must be of an earlier stage or elementwise, and in the
    iteration that computed it.
    """
    source = kernel.statements[load.source - len(kernel.inputs)]
    waits = source.reduction or (source.tile and not _congruent_point(statement, load))
    if source.stage + bool(waits) > statement.stage:
        yield f"v{k} of stage {statement.stage} reads a value of stage {source.stage}"
    if source.rows is None or statement.rows is None:
        return
    if source.is_gathered:
        yield f"v{k} reads a value that is known when all iterations of the common loops are over"
        return
    at = bindings(space(source.meta.shape), load.index)
    if compose(source.rows, at) != statement.rows:
        yield f"v{k} reads a value of another iteration of the common loops"
