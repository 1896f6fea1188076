"""Index expressions as MLIR's affine expressions, and their readable form over SSA values.

Iterators and data-dependent indices are the dimensions of a map, symbolic sizes its symbols: size
``s3`` is symbol 3. Products and divisors may be symbolic (MLIR calls such maps semi-affine; xDSL
holds and prints them, but does not read them: :class:`IndexParser` does). A remainder by a symbolic
size is the index of an axis that is possibly broadcast: ``i mod s`` is 0 where ``s`` is 1, and
``i`` along an axis of ``s`` elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any, Final, cast

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.ir.affine.affine_expr import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineSymExpr,
)
from xdsl.parser import AffineParser
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRToken, MLIRTokenKind

from pirkit.diag.errors import ConstraintError
from pirkit.index.expr import Atom, Broadcast, Expr, Floor, broadcast, const, floor
from pirkit.index.extent import Extent, is_sized, named

_ADD: Final = AffineBinaryOpKind.Add
_MUL: Final = AffineBinaryOpKind.Mul
_MOD: Final = AffineBinaryOpKind.Mod
_DIV: Final = AffineBinaryOpKind.FloorDiv
_CEIL: Final = AffineBinaryOpKind.CeilDiv
_TOKENS: Final = {"+": _ADD, "*": _MUL, "mod": _MOD, "floordiv": _DIV, "ceildiv": _CEIL}
_SIZE: Final = re.compile(r"s(0|[1-9]\d{0,3})")
MAX_OPERATIONS: Final = 256
"""Largest number of operands in the text of an index; expressions are walked recursively."""


# --- to MLIR -------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def index_map(index: tuple[Expr, ...]) -> tuple[AffineMapAttr, tuple[Atom, ...]]:
    """The map of an index, and the atoms (iterators, data-dependent indices) of its dimensions."""
    dims: dict[Atom, int] = {}
    results = tuple([_affine(e, dims) for e in index])
    return _attribute(len(dims), results), tuple(dims)


@lru_cache(maxsize=65536)
def sizes_map(sizes: tuple[int, ...]) -> AffineMapAttr:
    """The map without dimensions of a list of sizes."""
    return _attribute(0, tuple(map(_size, sizes)))


def _attribute(dims: int, results: tuple[AffineExpr, ...]) -> AffineMapAttr:
    symbols = [e.position for r in results for e in r.dfs() if isinstance(e, AffineSymExpr)]
    return AffineMapAttr(AffineMap(dims, max(symbols, default=-1) + 1, results))


def _affine(expr: Expr, dims: dict[Atom, int]) -> AffineExpr:
    terms: list[AffineExpr] = []
    for atom, factor in expr.terms:
        if isinstance(atom, Floor):
            term = AffineBinaryOpExpr(_DIV, _affine(atom.inner, dims), _size(atom.by))
        elif isinstance(atom, Broadcast):
            term = AffineBinaryOpExpr(_MOD, _affine(atom.inner, dims), _size(atom.extent))
        else:
            term = AffineDimExpr(dims.setdefault(atom, len(dims)))
        is_one = not is_sized(factor) and factor == 1
        terms.append(term if is_one else AffineBinaryOpExpr(_MUL, term, _size(factor)))
    if not terms or is_sized(expr.constant) or expr.constant:
        terms.append(_size(expr.constant))
    return _sum(terms)


def _size(number: int) -> AffineExpr:
    """A size: a polynomial of symbols, or a constant."""
    if not isinstance(number, Extent):
        return AffineConstantExpr(number)
    terms: list[AffineExpr] = []
    for names, factor in number.terms:
        parts: list[AffineExpr] = [AffineSymExpr(int(name[1:])) for name in names]
        if factor != 1 or not parts:
            parts.append(AffineConstantExpr(factor))
        terms.append(reduce(lambda a, b: AffineBinaryOpExpr(_MUL, a, b), parts))
    return _sum(terms)


def _sum(terms: Sequence[AffineExpr]) -> AffineExpr:
    return reduce(lambda a, b: AffineBinaryOpExpr(_ADD, a, b), terms)


# --- from MLIR -----------------------------------------------------------------------------------


def indices_of(attribute: AffineMapAttr, dims: Sequence[Expr] = ()) -> tuple[Expr, ...]:
    """The results of a map whose dimensions have these values.

    Raises ConstraintError (C1) for a map that is no index: one that multiplies two indices, or
    divides by anything but a positive size.
    """
    affine = attribute.data
    if affine.num_dims != len(dims):
        raise ConstraintError("C1", f"a map has {affine.num_dims} dimensions, not {len(dims)}")
    return tuple([_expr(e, dims) for e in affine.results])


@lru_cache(maxsize=65536)
def sizes_of(attribute: AffineMapAttr) -> tuple[int, ...]:
    """The sizes of a map without dimensions. Raises ConstraintError (C1) as `indices_of`."""
    return tuple([_constant(e) for e in indices_of(attribute)])


def _constant(expr: Expr) -> int:
    if not expr.is_constant:
        raise ConstraintError("C1", f"`{expr}` is no size")
    return expr.constant


def _expr(affine: AffineExpr, dims: Sequence[Expr]) -> Expr:
    match affine:
        case AffineConstantExpr():
            return const(affine.value)
        case AffineSymExpr():
            return const(named(f"s{affine.position}"))
        case AffineDimExpr():
            return dims[affine.position]
        case _:
            pass
    binary = cast(AffineBinaryOpExpr, affine)
    left, right = _expr(binary.lhs, dims), _expr(binary.rhs, dims)
    if binary.kind is _ADD:
        return left + right
    if binary.kind is _MUL:
        return left * _constant(right) if right.is_constant else right * _constant(left)
    by = _constant(right)
    if not is_sized(by) and by <= 0:
        raise ConstraintError("C1", f"an index is divided by {by}")
    if binary.kind is _MOD:
        return broadcast(left, by) if is_sized(by) else left % by
    return floor(left if binary.kind is _DIV else left + (by - 1), by)


# --- the readable form ---------------------------------------------------------------------------


def show(affine: AffineExpr, dims: Sequence[str], parent: int = 0) -> str:
    """An expression with names for its dimensions, and no more parentheses than it needs."""
    match affine:
        case AffineConstantExpr():
            return str(affine.value)
        case AffineSymExpr():
            return f"s{affine.position}"
        case AffineDimExpr():
            return dims[affine.position]
        case _:
            pass
    binary = cast(AffineBinaryOpExpr, affine)
    strength = 1 if binary.kind is _ADD else 2
    left = show(binary.lhs, dims, strength)
    text = f"{left} {binary.kind.get_token()} {show(binary.rhs, dims, strength + 1)}"
    return f"({text})" if strength < parent else text


class IndexParser(AffineParser):
    """Reads semi-affine expressions over symbols ``s0...`` and, in an index, SSA values."""

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self.operations = 0

    def indices(self) -> tuple[AffineMapAttr, list[Span]]:
        """An index in square brackets, and the names of its dimensions in their order."""
        names: dict[str, int] = {}
        spans: list[Span] = []

        def atom() -> AffineExpr | None:
            token = self._parse_optional_token(MLIRTokenKind.PERCENT_IDENT)
            if token is None:
                return self._symbol()
            if token.text not in names:
                names[token.text] = len(names)
                spans.append(token.span)
            return AffineDimExpr(names[token.text])

        results = self._list(atom)
        return _attribute(len(names), results), spans

    def sizes(self) -> AffineMapAttr:
        """Sizes in square brackets."""
        return _attribute(0, self._list(self._symbol))

    def _list(self, atom: Callable[[], AffineExpr | None]) -> tuple[AffineExpr, ...]:
        read = lambda: self._parse_affine_expr(atom)  # noqa: E731
        return tuple(self.parse_comma_separated_list(self.Delimiter.SQUARE, read))

    def symbol(self) -> int:
        """The number of a size."""
        return cast(AffineSymExpr, self.expect(self._symbol, "a size `s0`, `s1`...")).position

    def _symbol(self) -> AffineExpr | None:
        token = self._parse_optional_token(MLIRTokenKind.BARE_IDENT)
        if token is None:
            return None
        found = _SIZE.fullmatch(token.text)
        if found is None:
            self.raise_error(f"`{token.text}` is no size `s0`, `s1`...", token.span)
        return AffineSymExpr(int(found[1]))

    def _parse_primary(self, parse_optional_bare_id: Callable[[], AffineExpr | None]) -> AffineExpr:
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            self.raise_error(f"an index has more than {MAX_OPERATIONS} operands")
        return super()._parse_primary(parse_optional_bare_id)

    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: MLIRToken) -> AffineExpr:
        if binop.text != "-":
            return AffineBinaryOpExpr(_TOKENS[binop.text], lhs, rhs)
        if isinstance(rhs, AffineConstantExpr):
            return AffineBinaryOpExpr(_ADD, lhs, AffineConstantExpr(-rhs.value))
        return AffineBinaryOpExpr(_ADD, lhs, _negated(rhs))


def _negated(expr: AffineExpr) -> AffineExpr:
    return AffineBinaryOpExpr(_MUL, expr, AffineConstantExpr(-1))
