"""Symbolic sizes: sums of symbols such as ``N``, ``2*N+1``, and the attribute that holds them.

A symbol is one size, at least 1, in the whole program: dimensions with equal symbols have equal
size. Symbols inform a reader about related dimensions. Rules, kernels and the executor do not read
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

SYMBOL: Final = re.compile(r"[A-Z][A-Z0-9_]{0,31}")
_TERM: Final = re.compile(
    rf"(?P<sign>[+-]?)(?:(?:(?P<factor>\d{{1,18}})\*)?(?P<symbol>{SYMBOL.pattern})"
    r"|(?P<number>\d{1,18}))(?=[+-]|\Z)",
    re.ASCII,
)


class Size(Struct, frozen=True):
    """A sum of symbols with integer factors and a constant; equal sizes are equal objects.

    `terms` is sorted by symbol and has no factor 0.
    """

    terms: tuple[tuple[str, int], ...]
    constant: int = 0

    @staticmethod
    def of(factors: Mapping[str, int], constant: int = 0) -> Size:
        """The sum of these symbols times their factors, and of the constant."""
        return Size(tuple(sorted((s, f) for s, f in factors.items() if f)), constant)

    @staticmethod
    def parse(text: str) -> Size:
        """Read ``2*N-M+1``. Raises ValueError for other text, and for a sum without a symbol."""
        factors: dict[str, int] = {}
        constant = at = 0
        while at < len(text):
            term = _TERM.match(text, at)
            if term is None or (at and not term["sign"]):
                raise ValueError(f"`{text}` is no sum of named sizes such as `2*N+1`")
            sign = -1 if term["sign"] == "-" else 1
            if term["number"] is not None:
                constant += sign * int(term["number"])
            else:
                symbol = term["symbol"]
                factors[symbol] = factors.get(symbol, 0) + sign * int(term["factor"] or 1)
            at = term.end()
        size = Size.of(factors, constant)
        if not size.terms:
            raise ValueError(f"`{text}` names no dimension")
        return size

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(symbol for symbol, _ in self.terms)

    @property
    def known(self) -> int | None:
        """The number, if no symbol is left."""
        return None if self.terms else self.constant

    def at(self, sizes: Mapping[str, int]) -> Size:
        """The size with these symbols replaced by numbers; others stay."""
        constant = self.constant + sum(f * sizes[s] for s, f in self.terms if s in sizes)
        return Size(tuple(t for t in self.terms if t[0] not in sizes), constant)

    def __str__(self) -> str:
        shown = "".join(f"{_factor(factor)}{symbol}" for symbol, factor in self.terms)
        shown += f"{self.constant:+d}" if self.constant or not self.terms else ""
        return shown.removeprefix("+")


def _factor(factor: int) -> str:
    sign = "-" if factor < 0 else "+"
    return sign if abs(factor) == 1 else f"{sign}{abs(factor)}*"


def symbol(name: str) -> Size:
    """The size that consists of this symbol."""
    return Size(((name, 1),))


def number(value: int) -> Size:
    """A constant size."""
    return Size((), value)


@irdl_attr_definition
class DimsAttr(Data[tuple[Size | None, ...]]):
    """The symbolic sizes of a tensor's dynamic dimensions: ``#pir.dims<["N", "", "2*N+1"]>``.

    There is one entry for each dimension; it is empty for a static dimension or one without symbol.
    """

    name = "pir.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Size | None, ...]:
        with parser.in_angle_brackets():
            return tuple(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _parse_size(parser)
                )
            )

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets(), printer.in_square_brackets():
            printer.print_list(
                self.data, lambda s: printer.print_string_literal("" if s is None else str(s))
            )


def _parse_size(parser: AttrParser) -> Size | None:
    start = parser.pos
    text = parser.parse_str_literal()
    if not text:
        return None
    try:
        return Size.parse(text)
    except ValueError as error:
        parser.raise_error(f"attribute `#pir.dims`: {error}", start, parser.pos)
