"""The symbols of a kernel with dynamic shapes: each is determined by its inputs' shapes, or derived
from such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.specialize import derived_at, with_sizes
from pirkit.dialect.map_expr.symbolic_shapes import Sizes
from pirkit.index.extent import Extent, named, names_of
from pirkit.index.size_solver import Derived, determined
from pirkit.runtime.meta import TensorMeta


def sized(kernel: MapExpr, sizes: Sizes) -> MapExpr | None:
    """The kernel with the derivations of its sizes, and symbols renamed to ``s0``, ``s1``...

    ``sizes`` are those of the block. None if the inputs do not determine a size that it needs.
    """
    kernel = replace(kernel, sizes=_needed(kernel, sizes.derived))
    inside = {*names_of(_dims(kernel)), *(size.name for size in kernel.sizes)}
    checks = [d for d in sizes.checks if inside.issuperset(names_of(d.args))]
    symbolic = _symbolic(kernel)
    for dim in _dims(kernel):
        whole = _product(dim)
        numbers = (*kernel.numbers(), *_of_ops(kernel))
        if whole and symbolic.issuperset(whole) and _are_tied(numbers, whole):
            ones = dict.fromkeys(whole[1:], 1)
            kernel = with_sizes(kernel, ones)
            checks = [derived_at(d, ones) for d in checks if _are_tied(d.args, whole)]
            symbolic = _symbolic(kernel)
    if symbolic:
        return None
    known = determined(_dims(kernel), kernel.sizes)
    checks = [d for d in checks if known.issuperset(names_of(d.args))]
    kernel = replace(kernel, sizes=(*kernel.sizes, *checks))
    names = names_of((*_dims(kernel), *kernel.numbers(), *_of_ops(kernel)))
    return with_sizes(kernel, {name: named(f"s{k}") for k, name in enumerate(names)})


def _of_ops(kernel: MapExpr) -> Iterator[int]:
    """The sizes in the metas of the ops that the kernel replaces."""
    for origin in kernel.ops:
        yield from origin.meta.shape
        for operand in origin.operands:
            for meta in operand if isinstance(operand, tuple) else (operand,):
                yield from meta.shape if isinstance(meta, TensorMeta) else ()


def _dims(kernel: MapExpr) -> list[int]:
    return [n for meta in kernel.inputs for n in meta.shape]


def _symbolic(kernel: MapExpr) -> set[str]:
    """Symbols that the inputs do not determine."""
    return {*names_of(kernel.numbers())} - determined(_dims(kernel), kernel.sizes)


def _needed(kernel: MapExpr, derived: Sequence[Derived]) -> tuple[Derived, ...]:
    """The derivations that the kernel's sizes need, directly or through other derivations."""
    determined_names = determined(_dims(kernel))
    needed = set(names_of((*_dims(kernel), *kernel.numbers())))
    found: list[Derived] = []
    for size in reversed(derived):
        if size.name in needed and (
            size.name not in determined_names or determined_names.issuperset(names_of(size.args))
        ):
            needed |= set(names_of(size.args))
            found.append(size)
    return tuple(reversed(found))


def _product(dim: int) -> tuple[str, ...]:
    """The symbols of a size that is a product of distinct symbols; else none."""
    if not isinstance(dim, Extent) or len(dim.terms) > 1:
        return ()
    return next((names for names, _ in dim.terms if 1 < len(names) == len(set(names))), ())


def _are_tied(numbers: Iterable[int], names: Sequence[str]) -> bool:
    """True if the symbols occur in the numbers only as the product of all of them."""
    for number in numbers:
        for factors, _ in number.terms if isinstance(number, Extent) else ():
            met = Counter(factors)
            if len({met[name] for name in names}) > 1:
                return False
    return True
