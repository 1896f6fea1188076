"""Sizes that a user binds to inputs and to symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn, TypeAlias

from xdsl.ir import SSAValue

from pirkit.diag.errors import PassError, UsageError
from pirkit.dialect.operation import ProgramOp, span_of
from pirkit.dialect.sizes import Size
from pirkit.dialect.types import VecType, sizes_of
from pirkit.passes.symbolic_dims import inputs_of, symbols_of
from pirkit.runtime.meta import UNKNOWN

Shape: TypeAlias = tuple[int, ...]


def read_bindings(options: Iterable[str]) -> dict[str, Shape]:
    """The shapes of option ``bind``. Raises UsageError for text that is not a shape."""
    return dict(_binding(text) for text in options)


def _binding(text: str) -> tuple[str, Shape]:
    name, _, dims = text.rpartition(":")
    sizes = [] if not dims else dims.split("x")
    if not name or not all(s == "?" or s.isdecimal() for s in sizes):
        raise UsageError(
            f"`{text}` binds no shape to an input", code="PK0703", help="write `bind=NAME:4x3`"
        )
    return name, tuple(UNKNOWN if s == "?" else int(s) for s in sizes)


def numbers_of(program: ProgramOp, bindings: Mapping[str, Shape]) -> dict[str, int]:
    """The sizes of symbols: those that are bound, and those that follow from the bound shapes.

    Raises PassError if a dimension cannot have the size that it is bound to, or if a symbol gets
    more than one size.
    """
    inputs, symbols = inputs_of(program), symbols_of(program)
    numbers: dict[str, int] = {}
    for name, shape in bindings.items():
        if name in symbols and name not in inputs:
            if len(shape) != 1 or shape[0] == UNKNOWN:
                raise PassError(
                    f"`{name}` is the name of a dimension, which takes one size",
                    code="PK0801",
                    help=f"write `bind={name}:4`",
                )
            numbers[name] = shape[0]
    for name, value in inputs.items():
        for dims in sizes_of(value.type)[:1] if name in bindings else ():
            for size, dim in zip(dims, bindings[name], strict=False):
                if size is not None and size.terms and dim != UNKNOWN:
                    numbers.update(_solve(program, name, size, dim, numbers))
    return numbers


def _solve(
    program: ProgramOp, name: str, size: Size, dim: int, numbers: Mapping[str, int]
) -> dict[str, int]:
    """Solve ``size`` = ``dim`` for its last unknown symbol, if exactly one is unknown."""
    left = size.at(numbers)
    if len(left.terms) > 1:
        return {}
    factor = left.terms[0][1] if left.terms else 1
    quotient, rest = divmod(dim - left.constant, factor)
    if rest or quotient < 0 or (quotient and not left.terms):
        _cannot(program, name, size, f"be {dim}", numbers)
    return {symbol: quotient for symbol in left.symbols}


def _cannot(
    program: ProgramOp, name: str, size: Size, what: str, numbers: Mapping[str, int]
) -> NoReturn:
    raise PassError(
        f"a dimension of input `{name}` is `{size}` and cannot {what}",
        code="PK0801",
        span=span_of(program),
        notes=tuple(f"`{s}` is {numbers[s]}" for s in size.symbols if s in numbers),
        help="bind shapes that agree with each other, or leave some of them out",
    )


def shapes_of(
    program: ProgramOp, bindings: Mapping[str, Shape], numbers: Mapping[str, int]
) -> dict[str, Shape]:
    """The shapes of the inputs: as bound, or with the sizes of the symbols inserted."""
    found: dict[str, Shape] = {}
    for name, value in inputs_of(program).items():
        shape = _at(program, name, value, numbers) if numbers else None
        bound = bindings.get(name, shape)
        if bound is None:
            continue
        if shape is not None and len(shape) == len(bound):
            bound = tuple(a if b == UNKNOWN else b for a, b in zip(shape, bound, strict=True))
        found[name] = bound
    return found


def _at(program: ProgramOp, name: str, value: SSAValue, numbers: Mapping[str, int]) -> Shape | None:
    """The shape of an input for these sizes of symbols; None if none of them occurs in it."""
    held = sizes_of(value.type)
    if len(held) != 1 or isinstance(value.type, VecType):
        return None
    dims = held[0]
    if not any(s in numbers for size in dims if size is not None for s in size.symbols):
        return None
    found: list[int] = []
    for size in dims:
        known = None if size is None else size.at(numbers).known
        if size is not None and known is not None and known < 0:
            _cannot(program, name, size, "be negative", numbers)
        found.append(UNKNOWN if known is None else known)
    return tuple(found)
