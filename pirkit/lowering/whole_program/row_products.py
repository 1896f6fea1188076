"""Writes products of rows and matrices: each element of a matrix is used for a vector of points.

Networks that are differentiated multiply many rows by the same weights. Some rows by some columns
are added up at once, so that a row that is read serves all of these columns, and a weight all of
these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pirkit.lowering.codegen.ir import I64, Value
from pirkit.lowering.codegen.points import Memory, load
from pirkit.lowering.whole_program.graph import Op
from pirkit.lowering.whole_program.tiling import even, in_tiles
from pirkit.lowering.whole_program.writer import Writer

_ROWS: Final = 5
"""Rows that are added up at once."""
_SUMS: Final = {512: 20}
"""Sums in registers, by the width of vectors; ``_FEW`` where there are 16 registers."""
_FEW: Final = 12
_CHAINS: Final = 4
"""Sums side by side that hide how long an addition takes."""


def multiply(w: Writer, ops: Sequence[Op]) -> None:
    """Rows times the matrix that the products have in common."""
    some = even(len(ops), _ROWS)
    for start in range(0, len(ops), some):
        w.in_shared(partial(_product, w, ops[start : start + some]))


def _product(w: Writer, ops: Sequence[Op]) -> None:
    b, (x, y), out = w.b, ops[0].args, ops[0].out
    inner, count = w.stages.columns(x), w.stages.columns(out)
    size = w.graph.dtype(y).itemsize
    turned = ops[0].attrs["transpose_y"]
    along, beside = (size, inner * size) if turned else (count * size, size)
    most = _SUMS.get(w.lanes * w.dtype.itemsize * 8, _FEW)
    width = even(count, max(1, most // len(ops)))
    chains = max(1, min(_CHAINS // (width * len(ops)), inner))

    def tile(start: Value, some: int) -> None:
        base = b.at(w.pointer(y), b.times(start, beside))
        zero = b.const(w.type_of(w.dtype, w.lanes), 0.0)
        apart = some * len(ops)

        def step(index: Value, sums: Sequence[Value], chain: int) -> list[Value]:
            vectors = [w.read_row(op.args[0], index) for op in ops]
            line = b.at(base, b.times(index, along))
            made = list(sums)
            for k in range(some):
                number = load(b, w.dtype, Memory(b.at(line, k * beside), 0), 1, None)
                factor = b.splat(number, w.lanes)
                for j, vector in enumerate(vectors):
                    at = chain * apart + k * len(ops) + j
                    made[at] = b.muladd(vector, factor, made[at])
            return made

        def steps(index: Value, sums: Sequence[Value]) -> Sequence[Value]:
            made = list(sums)
            for chain in range(chains):
                made = step(b.plus(index, chain), made, chain)
            return made

        whole = inner - inner % chains
        sums = b.loop(0, whole, chains, [zero] * (apart * chains), steps)
        for k in range(whole, inner):
            sums = step(Value(str(k), I64), sums, 0)
        for k in range(some):
            for j, op in enumerate(ops):
                total = sums[k * len(ops) + j]
                for chain in range(1, chains):
                    total = b.add(total, sums[chain * apart + k * len(ops) + j])
                w.put_row(op.out, b.plus(start, k), total)

    in_tiles(b, count, width, tile)
