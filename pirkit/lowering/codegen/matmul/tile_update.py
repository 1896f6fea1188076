"""Register tiles as functions of a module, described by offsets and strides alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Array, Functions, Location, matrix
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile
from pirkit.runtime.dtype import DType


class Access(Struct, frozen=True):
    """How a tile function reads an operand, in bytes from a base that is a parameter.

    ``offsets`` are those of the elements of a term, ``strides`` those of the loops over the terms.
    """

    offsets: tuple[int, ...]
    strides: tuple[int, ...]

    def elements(self, type_: Type, base: Value) -> Elements:
        return Elements(type_, [(base, offset) for offset in self.offsets], self.strides)

    def arrays(
        self, base: Location, dtype: DType, extents: Sequence[int], lanes: int = 1
    ) -> list[Array]:
        """Each element or vector of a term, for all terms; the terms are the first axis."""
        shape, strides = (*extents, lanes), (*self.strides, dtype.itemsize)
        return [
            matrix((base[0], base[1] + offset), dtype, shape, strides).reshape(-1, lanes)
            for offset in self.offsets
        ]


class TileUpdate(Struct, frozen=True):
    """``C += A B`` for a tile in memory, ``C = A B`` if it ``begins`` the sums.

    ``vector`` is the type of B and C, ``output`` the offsets of the vectors of C, row by row.
    """

    vector: Type
    left: Access
    right: Access
    output: tuple[int, ...]
    begins: bool = False

    def run(self, bases: Sequence[Location], dtype: DType, extents: Sequence[int]) -> None:
        """The same with numpy. Raises ValueError for what leaves a buffer."""
        lanes, size = self.vector.lanes, dtype.itemsize
        left = np.stack(self.left.arrays(bases[0], dtype, extents))[..., 0]
        right = np.stack(self.right.arrays(bases[1], dtype, extents, lanes))
        # The terms, axis 1 of both, are added up: every scalar of A meets every vector of B.
        products = np.tensordot(left, right, ((1,), (1,))).reshape(-1, lanes)
        for offset, product in zip(self.output, products, strict=True):
            sums = matrix((bases[2][0], bases[2][1] + offset), dtype, (lanes,), (size,))
            sums[...] = product if self.begins else sums + product

    def call(
        self, b: Builder, routines: Functions, bases: Sequence[Value], extents: Sequence[Value]
    ) -> None:
        """Call the function of this update; ``bases`` are the addresses of A, B and C.

        It is a function so that values that live across its loop, such as constants that LLVM
        hoists out of the loops around it, do not take registers from the accumulators.
        """
        # Known extents are part of the function, as constants in its loops; others are parameters.
        fixed = tuple([int(n.text) if n.text.isdigit() else None for n in extents])
        given = [n for n, known in zip(extents, fixed, strict=True) if known is None]
        names = [f"i64 %n{k}" for k in range(len(given))]
        name = routines.add(
            (self, fixed),
            ", ".join(["ptr %a", "ptr %b", "ptr %c", *names]),
            lambda inner: self._write(inner, fixed),
        )
        b.emit_void(f"call void @{name}({', '.join(map(str, [*bases, *given]))})")

    def _write(self, b: Builder, fixed: Sequence[int | None]) -> None:
        parameters = count()
        extents = [
            Value(f"%n{next(parameters)}", I64) if known is None else known for known in fixed
        ]
        left = self.left.elements(Type(self.vector.elem), Value("%a", PTR))
        right = self.right.elements(self.vector, Value("%b", PTR))
        output = OutputTile(self.vector, [b.at(Value("%c", PTR), at) for at in self.output])
        zeros = [b.const(self.vector, 0.0)] * len(self.output)
        start = zeros if self.begins else output.load(b)
        output.store(b, microkernel(b, left, right, extents, start))
