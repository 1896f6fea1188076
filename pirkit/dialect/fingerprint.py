"""Fingerprints of modules: equal if no pass can distinguish the modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

_BYTES: Final = 32


def fingerprint_of(module: ModuleOp, *, places: bool = False) -> str:
    """A hash of the content of a module; source locations count only with ``places``.

    It covers operations in their order and nesting, operands, types, attributes, and the names of
    values. It is the same in every process.
    """
    rows = _RowTable(module, places).rows
    return blake2b("\n".join(rows).encode(), digest_size=_BYTES).hexdigest()


class _RowTable:
    """Text for hashing a module: one row for each operation and block."""

    def __init__(self, module: ModuleOp, places: bool) -> None:
        self.places = places
        self.rows: list[str] = []
        self._numbers: dict[SSAValue | Block, int] = {}
        self._texts: dict[int, str] = {}
        """By identity, which no attribute changes while the module holds it; equal ones may be
        spelled differently."""
        self._add(module)

    def _add(self, op: Operation) -> None:
        row = (
            op.name,
            [self._number(value) for value in op.operands],
            self._values(op.results),
            self._attributes(op.properties),
            self._attributes(op.attributes),
            [self._number(block) for block in op.successors],
            [len(region.blocks) for region in op.regions],
            self._place(op) if self.places else None,
        )
        self.rows.append(repr(row))
        for region in op.regions:
            for block in region.blocks:
                inside = list(block.ops)
                here = (self._number(block), self._values(block.args), len(inside))
                self.rows.append(repr(here))
                for inner in inside:
                    self._add(inner)

    def _place(self, op: Operation) -> tuple[str, int, int] | str:
        """The source location of an operation. Few operations share a location."""
        where = op.location
        if isinstance(where, FileLineColLoc):
            return where.filename.data, where.line.data, where.column.data
        return self._text(where)

    def _number(self, what: SSAValue | Block) -> int:
        return self._numbers.setdefault(what, len(self._numbers))

    def _values(self, values: Sequence[SSAValue]) -> list[tuple[int, str, str | None]]:
        return [(self._number(v), self._text(v.type), v.name_hint) for v in values]

    def _attributes(self, held: Mapping[str, Attribute]) -> list[tuple[str, str]]:
        return [(name, self._text(held[name])) for name in sorted(held)]

    def _text(self, attribute: Attribute) -> str:
        found = self._texts.get(id(attribute))
        if found is None:
            found = self._texts[id(attribute)] = str(attribute)
        return found
