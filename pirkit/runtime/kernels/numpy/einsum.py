"""Sums of products given by an equation of labels: of two tensors, as one batched product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

import numpy as np
from msgspec.structs import replace

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.meta import VecMeta
from pirkit.runtime.registry import kernel

Product = Callable[[Sequence[Array], Array], None]


@kernel("einsum", dtypes=dt.NUMBERS, widen=True)
def einsum(b: Binding) -> Step | None:
    """One tensor, or two as a batched product; others run the reference rule.

    The equation needs an explicit result and has no ellipsis.
    """
    terms, arrow, target = b.attrs["equation"].replace(" ", "").partition("->")
    labels = terms.split(",")
    if not arrow or "." in terms or len(labels) > 2:
        return None
    product = _alone(terms, target) if len(labels) == 1 else _pair(b, labels[0], labels[1], target)
    if product is None:
        return None

    def step(
        x: Sequence[Array], out: Array, _: Sequence[Array] | None, shapes: Sequence[Array] | None
    ) -> None:
        product(x, out)
        for copy, source in zip(shapes or (), x, strict=False):
            np.copyto(copy, source)

    return step


def _alone(term: str, target: str) -> Product:
    equation, compute = f"{term}->{target}", np.einsum

    def product(x: Sequence[Array], out: Array) -> None:
        compute(equation, x[0], out=out)

    return product


def _pair(b: Binding, left: str, right: str, target: str) -> Product | None:
    """The product of two tensors, or None if it is no batched matmul.

    It is one if each label has one size, occurs once in a term, and is kept, or is in both terms
    and summed over.
    """
    shapes = [item.shape for item in b.items()]
    sizes = dict(zip(left, shapes[0], strict=True)) | dict(zip(right, shapes[1], strict=True))
    each = all(len(set(term)) == len(term) for term in (left, right))
    same = all(sizes[a] == d for a, d in zip(left, shapes[0], strict=True))
    if not each or not same or not set(left) ^ set(right) <= set(target):
        return None
    batch = [a for a in target if a in left and a in right]
    rows = [a for a in target if a not in right]
    columns = [a for a in target if a not in left]
    summed = [a for a in left if a not in target]
    if list(target) == [*batch, *columns, *rows] and rows and columns:
        swapped_binding = replace(b, inputs=(VecMeta(b.items()[::-1]),))
        swapped = _pair(swapped_binding, right, left, target)
        return None if swapped is None else _flipped(swapped)
    return _product(b, (left, right, target), (batch, rows, summed, columns), sizes)


def _flipped(product: Product) -> Product:
    return lambda x, out: product(x[::-1], out)


def _product(
    b: Binding,
    terms: tuple[str, str, str],
    groups: tuple[list[str], list[str], list[str], list[str]],
    sizes: dict[str, int],
) -> Product:
    batch, rows, summed, columns = groups
    left, right, target = terms
    first, second = [*batch, *rows, *summed], [*batch, *summed, *columns]
    made = [*batch, *rows, *columns]
    first_order, second_order = _order(left, first), _order(right, second)
    count, m, k, n = (prod(sizes[a] for a in group) for group in groups)
    is_plain, multiply = made == list(target), np.matmul if summed else np.multiply
    space = None if is_plain else b.workspace((count, m, n))
    shape, order = tuple(sizes[a] for a in made), _order(made, target)

    def product(x: Sequence[Array], out: Array) -> None:
        one = x[0].transpose(first_order).reshape(count, m, k)
        other = x[1].transpose(second_order).reshape(count, k, n)
        if space is None:
            multiply(one, other, out.reshape(count, m, n))
        else:
            multiply(one, other, space)
            np.copyto(out, space.reshape(shape).transpose(order))

    return product


def _order(labels: Sequence[str], wanted: Iterable[str]) -> tuple[int, ...]:
    return tuple(labels.index(a) for a in wanted)
