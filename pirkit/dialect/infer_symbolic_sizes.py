"""Symbolic sizes of results, found by evaluating the shape rules at sample sizes.

Shape rules compute with numbers only. So a rule is evaluated for many assignments of numbers to the
symbols of its operands, and a result dimension gets a symbolic size if one sum of symbols agrees
with the rule for all of them. The assignments are far apart and unrelated: ones, small numbers,
primes, numbers with many divisors, and sizes beyond any tensor; ascending and descending, because a
rule may take a minimum. A dimension stays without a symbolic size if the rule refuses an ordinary
assignment (a broadcast of ``N`` with ``M``), if the result is no sum of symbols (``N/2``), or if
one assignment disagrees (``min(N, 512)``).

So a symbolic size is tested, not proved: a rule that differs from the sum only between the samples
goes unnoticed. Nothing is computed from symbolic sizes of results, so a wrong one misleads a reader
but no program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

from xdsl.ir import Attribute, SSAValue

from pirkit.diag.errors import PirkitError
from pirkit.dialect.infer import Constant, constants_of, metas_of_call
from pirkit.dialect.opdef import OpDef, infer_meta
from pirkit.dialect.sizes import Size
from pirkit.dialect.types import Sizes, meta_of
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta

Point: TypeAlias = Mapping[str, int]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
"""The shape of each tensor of a result slot; UNKNOWN where the rule does not determine a size."""

MAX_SYMBOLS: Final = 8
"""More symbols than operands of one operation have in practice; each costs two evaluations."""

_START: Final = (1009, 24)
_ORDINARY: Final = ((131, 2), (5040, -120), (30011, -1000), (1_999_999_973, -98))
"""The number for the first symbol, and the distance to the number for the next one."""

_SMALL: Final = (1, 2, 3, 5, 8, 16, 33, 64)
"""Assignments that a rule may refuse: a window of 7 does not fit into 3 pixels."""


def infer_sizes(
    definition: OpDef,
    operands: Sequence[SSAValue | None],
    properties: Mapping[str, Attribute],
    sizes: Sequence[Sizes],
) -> tuple[Sizes, ...] | None:
    """Symbolic sizes of the tensors of each result slot, given those of each operand slot.

    None if nothing can be determined: the op has no rule, its operands have no symbols, or the rule
    refuses an ordinary assignment.
    """
    symbols = {n for slot in sizes for dims in slot for s in dims if s for n in s.symbols}
    if infer_meta.get(definition) is None or not 0 < len(symbols) <= MAX_SYMBOLS:
        return None
    metas = tuple([None if v is None else meta_of(v.type) for v in operands])
    constants = constants_of(definition, operands, properties)
    held = tuple(properties.items())
    return _infer(definition, metas, tuple(sizes), tuple(sorted(symbols)), constants, held)


@lru_cache(maxsize=2048)
def _infer(
    definition: OpDef,
    metas: tuple[Meta | None, ...],
    sizes: tuple[Sizes, ...],
    symbols: tuple[str, ...],
    constants: tuple[tuple[str, Constant], ...],
    properties: tuple[tuple[str, Attribute], ...],
) -> tuple[Sizes, ...] | None:
    rule = infer_meta.of(definition)
    named = {size for slot in sizes for dims in slot for size in dims}

    def infer_at(point: Point) -> tuple[Shapes, ...] | None:
        if any(size is not None and _is_negative(size, point) for size in named):
            return None
        known = tuple([_at(m, s, point) for m, s in zip(metas, sizes, strict=True)])
        try:
            found = metas_of_call(definition, rule, known, constants, properties)
        except PirkitError:
            return None
        return tuple([() if m is None else _shapes(m) for m in found])

    # A rule that needs a size decides the number of its results by it, which may be any.
    return None if infer_at({}) is None else _fit(infer_at, symbols)


def _at(meta: Meta | None, sizes: Sizes, point: Point) -> Meta | None:
    """The meta of an operand under an assignment."""
    if isinstance(meta, TensorMeta) and sizes:
        return meta.with_shape(_number(size, point) for size in sizes[0])
    if isinstance(meta, VecMeta):
        pairs = zip(meta.items, sizes, strict=True)
        return VecMeta(tuple([cast(TensorMeta, _at(m, (dims,), point)) for m, dims in pairs]))
    return meta


def _number(size: Size | None, point: Point) -> int:
    known = None if size is None else size.at(point).known
    return UNKNOWN if known is None else known


def _is_negative(size: Size, point: Point) -> bool:
    known = size.at(point).known
    return known is not None and known < 0


def _shapes(meta: Meta) -> Shapes:
    if isinstance(meta, TensorMeta):
        return (meta.shape,)
    return tuple([m.shape for m in meta.items]) if isinstance(meta, VecMeta) else ()


def _points(symbols: tuple[str, ...], first: int, step: int) -> Point:
    return {name: first + i * step for i, name in enumerate(symbols)}


def _must_agree(symbols: tuple[str, ...]) -> Iterator[Point]:
    for first, step in _ORDINARY:
        yield _points(symbols, first, step)


def _may_refuse(symbols: tuple[str, ...]) -> Iterator[Point]:
    for value in _SMALL:
        yield _points(symbols, value, 0)
    for name in symbols if len(symbols) > 1 else ():
        yield {**_points(symbols, *_START), name: 1}


def _fit(infer_at: Callable[[Point], Any], symbols: tuple[str, ...]) -> tuple[Sizes, ...] | None:
    """The sums of symbols that agree with the rule under all assignments."""
    start = _points(symbols, *_START)
    base = infer_at(start)
    steps = {name: infer_at({**start, name: start[name] + 1}) for name in symbols}
    required = [(point, infer_at(point)) for point in _must_agree(symbols)]
    if base is None or None in steps.values() or any(a is None for _, a in required):
        return None
    optional = [(point, infer_at(point)) for point in _may_refuse(symbols)]
    tests = required + [(point, answer) for point, answer in optional if answer is not None]
    ranks = _ranks(base)
    if any(_ranks(answer) != ranks for answer in (*steps.values(), *(a for _, a in tests))):
        return None

    def size(slot: int, item: int, dim: int) -> Size | None:
        at_start = base[slot][item][dim]
        factors = {n: a[slot][item][dim] - at_start for n, a in steps.items()}
        constant = at_start - sum(f * start[n] for n, f in factors.items())
        found = Size.of(factors, constant)
        agrees = all(found.at(p).known == a[slot][item][dim] for p, a in tests)
        return found if agrees and at_start != UNKNOWN else None

    return tuple(
        [
            tuple([tuple([size(i, j, k) for k in range(n)]) for j, n in enumerate(items)])
            for i, items in enumerate(ranks)
        ]
    )


def _ranks(answer: tuple[Shapes, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple([tuple([len(shape) for shape in slot]) for slot in answer])
