"""Random chains of movements, as index maps."""

from __future__ import annotations

import random
from itertools import product
from math import prod

from pirkit.index.expr import Expr
from pirkit.index.index_maps import Index, bindings, compose, digits, evaluate, flat, space


def factors(n: int) -> list[int]:
    found: list[int] = []
    while n > 1:
        prime = next(p for p in range(2, n + 1) if n % p == 0)
        found.append(prime)
        n //= prime
    return found


def chain(draw: random.Random, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Index]:
    """The shape after some movements of a tensor, and where its elements come from."""
    index = space(shape)
    for _ in range(draw.randint(1, 5)):
        kind = draw.choice(("reshape", "transpose", "slice", "flip", "tile", "roll"))
        axis = draw.randrange(len(shape))
        width, new = shape[axis], list(shape)
        if kind == "reshape":
            left = factors(prod(shape))
            draw.shuffle(left)
            new = []
            while left:
                count = draw.randint(1, len(left))
                new.append(prod(left[:count]))
                left = left[count:]
            new = new or [1]
            step: list[Expr] = list(digits(flat(space(new), new), shape))
        elif kind == "transpose":
            perm = draw.sample(range(len(shape)), len(shape))
            new = [shape[p] for p in perm]
            here = space(new)
            step = [here[perm.index(a)] for a in range(len(shape))]
        elif kind == "slice" and width > 1:
            stride, start = draw.choice((1, 2)), draw.randrange(2)
            new[axis] = (width - start + stride - 1) // stride
            step = list(space(new))
            step[axis] = step[axis] * stride + start
        elif kind == "tile" and prod(shape) <= 40:
            new[axis] = 2 * width
            step = list(space(new))
            step[axis] = step[axis] % width
        elif kind == "roll":
            step = list(space(new))
            step[axis] = (step[axis] - draw.randrange(width)) % width
        else:
            step = list(space(new))
            step[axis] = width - 1 - step[axis]
        index = compose(index, bindings(space(shape), tuple(step)))
        shape = tuple(new)
    return shape, index


def table(shape: tuple[int, ...], index: Index) -> tuple[tuple[int, ...], ...]:
    """The map written out: the element that each element comes from."""
    here = space(shape)
    rows: list[tuple[int, ...]] = []
    for point in product(*map(range, shape)):
        values = {e.iter: n for e, n in zip(here, point, strict=True) if e.iter is not None}
        rows.append(tuple(evaluate(e, values) for e in index))
    return tuple(rows)
