"""Small matrices in native programs: a vector holds one element of as many matrices of a batch.

Elimination with row exchanges is written out for all rows and columns, as statements of one loop
over the batch. Of two rows the one with the larger pivot is kept, by selects, so that lanes need
not agree. LAPACK spends most of its time on calls and branches for matrices of this size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import prod
from typing import Any, Final

from msgspec import Struct

from pirkit.lowering.codegen.emit.matrix_batch import METHODS, MatrixBatch, native_matrix_batch
from pirkit.lowering.codegen.ir.loopnest import Kernel, LoopPhase, Operand, Store
from pirkit.lowering.codegen.ir.nest_builder import StatementBuilder
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.data_assertions import DataAssertion
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.plan import Call

Rows = list[list[str]]

MOST: Final = 640
"""Multiply-adds and selects of a matrix, above which code would take longer to compile than it is
worth, and registers no longer hold the matrix: loops compute larger ones."""
MOST_IN_LOOPS: Final = 1 << 16
MOST_ELEMENTS: Final = 1 << 12
"""Multiply-adds and elements of a matrix above which LAPACK is faster, which knows blocks."""
SINGULAR: Final = DataAssertion(message="the matrix is not invertible")
INDEFINITE: Final = DataAssertion(message="a matrix is not positive definite")


class SmallMatrices(Struct, frozen=True):
    """The nest of a call. For each of its operands ``places`` has the number of the operand or
    result of the call that it addresses, operands first; the flags of ``assertions`` follow them.
    """

    kernel: Kernel
    places: tuple[int, ...]
    assertions: tuple[DataAssertion, ...]


def small_matrices_of(call: Call, meta: Callable[[int], TensorMeta]) -> SmallMatrices | None:
    """The nest of a factorization of small matrices; None for any other call."""
    write = WRITERS.get(call.kernel)
    slots = (*call.inputs, *call.outputs)
    if write is None or not all(isinstance(s, int) for s in slots):
        return None
    metas = [meta(s) for s in slots if isinstance(s, int)]
    n, sides = metas[0].shape[-1], metas[1].shape if len(call.inputs) == 2 else ()
    has_vectors = bool(sides) and len(sides) < metas[0].rank
    columns = 0 if not sides else 1 if has_vectors else sides[-1]
    batch = metas[0].shape[:-2]
    wide = n if call.kernel == "pd_op.inverse" else columns
    depth = wide if call.kernel == "pd_op.triangular_solve" else n + wide
    fits = metas[0].dtype in (dt.float32, dt.float64) and 0 < n * n * depth <= MOST
    fits = fits and metas[0].shape[-2] == n
    expected = (*batch, n) if has_vectors else (*batch, n, columns)
    if sides and (sides != expected or not columns):
        return None
    if not fits or not prod(batch):
        return None
    made = _Writer(metas[0].dtype, prod(batch))
    shapes = [(n, n), *[(n, columns)] * bool(sides)]
    results = [m.shape[len(batch) :] for m in metas[len(call.inputs) :]]
    dtypes = [m.dtype for m in metas]
    made.add_operands([*shapes, *results], dtypes)
    write(made, call)
    return made.found()


class _Writer:
    """Writes the statements for one matrix. Elements are names, matrices lists of rows."""

    def __init__(self, dtype: DType, batch: int) -> None:
        self.dtype, self.batch = dtype, batch
        self.assertions: list[DataAssertion] = []
        self.operands: list[Operand] = []
        self.places: list[int] = []
        self.first: list[int] = []
        self.shapes: list[tuple[int, ...]] = []
        self.builder = StatementBuilder(count(1), self._flag)
        self.stores: list[Store] = []

    def add_operands(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[DType]) -> None:
        """Each element of a matrix is an operand, whose stride is the size of the matrix."""
        for place, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
            size = prod(shape) * dtype.itemsize
            self.first.append(len(self.operands))
            self.shapes.append(shape)
            for k in range(prod(shape)):
                offset = k * dtype.itemsize
                made = Operand(dtype, (size,), (), size * self.batch, offset)
                self.operands.append(made)
                self.places.append(place)

    def found(self) -> SmallMatrices:
        flags = tuple([Operand(dt.bool_, (0,), (), 1) for _ in self.assertions])
        body = (*self.builder.statements, *self.stores)
        kernel = Kernel((self.batch,), (), (*self.operands, *flags), (LoopPhase(body),))
        return SmallMatrices(kernel, tuple(self.places), tuple(self.assertions))

    def _flag(self, what: DataAssertion) -> int:
        if what not in self.assertions:
            self.assertions.append(what)
        return len(self.operands) + self.assertions.index(what)

    # --- elements ---

    def __call__(self, primitive: str, *args: str, of: DType | None = None) -> str:
        return self.builder.compute(primitive, args, of or self.dtype)

    def number(self, value: float, dtype: DType | None = None) -> str:
        return self.builder.constant(value, dtype or self.dtype)

    def load(self, place: int, *, transposed: bool = False) -> Rows:
        rows, columns = self.shapes[place]
        found = [
            [self.builder.load(self.first[place] + i * columns + j) for j in range(columns)]
            for i in range(rows)
        ]
        return [list(row) for row in zip(*found, strict=True)] if transposed else found

    def store(self, place: int, values: Iterator[str] | Sequence[str]) -> None:
        self.stores += [Store(self.first[place] + k, v) for k, v in enumerate(values)]

    def require(self, what: DataAssertion, primitive: str, value: str) -> None:
        """Assert how a value compares with 0."""
        self.builder.assert_holds(what, self(primitive, value, self.number(0), of=dt.bool_))

    def require_not(self, what: DataAssertion, primitive: str, value: str) -> None:
        """Assert how a value does not compare with 0."""
        found = self(primitive, value, self.number(0), of=dt.bool_)
        self.builder.assert_holds(what, self("logical_not", found, of=dt.bool_))

    def without(self, value: str, terms: Sequence[tuple[str, str]]) -> str:
        """A value minus products."""
        for x, y in terms:
            value = self("subtract", value, self("multiply", x, y))
        return value

    def eliminate(self, rows: Rows, n: int) -> str:
        """Make the first ``n`` columns upper triangular, in place; the sign of the exchanges.

        A column of zeros stays as it is.
        """
        sign, zero, one = self.number(1), self.number(0), self.number(1)
        for k in range(n):
            top = rows[k]
            for row in rows[k + 1 : n]:
                sizes = self("abs", row[k]), self("abs", top[k])
                is_larger = self("greater_than", *sizes, of=dt.bool_)
                for j in range(k, len(top)):
                    pair = top[j], row[j]
                    top[j] = self("where", is_larger, pair[1], pair[0])
                    row[j] = self("where", is_larger, *pair)
                sign = self("where", is_larger, self("negative", sign), sign)
            if k + 1 == n:
                break
            # A division, as the reciprocal of a denormal number is infinite.
            is_zero = self("equal", top[k], zero, of=dt.bool_)
            divisor = self("where", is_zero, one, top[k])
            for row in rows[k + 1 : n]:
                factor = self("divide", row[k], divisor)
                for j in range(k + 1, len(top)):
                    row[j] = self.without(row[j], [(factor, top[j])])
        return sign

    def substitute(self, rows: Rows, sides: Rows, *, unit: bool = False) -> Rows:
        """Solve with an upper triangle, the last row first."""
        n = len(rows)
        found: Rows = [[] for _ in rows]
        for i in reversed(range(n)):
            found[i] = [
                self.without(side, [(rows[i][k], found[k][c]) for k in range(i + 1, n)])
                for c, side in enumerate(sides[i])
            ]
            if not unit:
                found[i] = [self("divide", x, rows[i][i]) for x in found[i]]
        return found


# --- operations ----------------------------------------------------------------------------------


def _solve(w: _Writer, call: Call) -> None:
    rows = w.load(0)
    n = len(rows)
    is_inverse = call.kernel == "pd_op.inverse"
    eye = [[w.number(float(i == j)) for j in range(n)] for i in range(n)]
    sides = eye if is_inverse else w.load(1)
    for row, side in zip(rows, sides, strict=True):
        row += side
    w.eliminate(rows, n)
    for k in range(n):
        w.require(SINGULAR, "not_equal", rows[k][k])
    found = w.substitute([row[:n] for row in rows], [row[n:] for row in rows])
    w.store(len(w.first) - 1, [x for row in found for x in row])


def _triangular_solve(w: _Writer, call: Call) -> None:
    rows, sides = w.load(0, transposed=call.attrs["transpose"]), w.load(1)
    unit, is_upper = call.attrs["unitriangular"], call.attrs["upper"] != call.attrs["transpose"]
    if not is_upper:  # the last unknown first
        rows, sides = [row[::-1] for row in rows[::-1]], sides[::-1]
    for k, row in enumerate(rows):
        if not unit:
            w.require(SINGULAR, "not_equal", row[k])
    found = w.substitute(rows, sides, unit=unit)
    w.store(2, [x for row in (found if is_upper else found[::-1]) for x in row])


def _pivots(w: _Writer) -> tuple[str, list[str]]:
    rows = w.load(0)
    sign = w.eliminate(rows, len(rows))
    return sign, [row[k] for k, row in enumerate(rows)]


def _det(w: _Writer, _: Call) -> None:
    found, pivots = _pivots(w)
    for pivot in pivots:
        found = w("multiply", found, pivot)
    w.store(1, [found])


def _slogdet(w: _Writer, _: Call) -> None:
    sign, pivots = _pivots(w)
    logarithm = w.number(0)
    for pivot in pivots:
        sign = w("multiply", sign, w("sign", pivot))
        logarithm = w("add", logarithm, w("log", w("abs", pivot)))
    w.store(1, [sign])
    w.store(2, [logarithm])


def _cholesky(w: _Writer, call: Call) -> None:
    upper = call.attrs["upper"]
    rows = w.load(0, transposed=upper)
    n = len(rows)
    found = [[w.number(0)] * n for _ in rows]
    for j in range(n):
        square = w.without(rows[j][j], [(x, x) for x in found[j][:j]])
        w.require_not(INDEFINITE, "less_equal", square)  # NaN spreads, as in OpenBLAS
        found[j][j] = w("sqrt", square)
        for i in range(j + 1, n):
            terms = list(zip(found[i][:j], found[j][:j], strict=True))
            found[i][j] = w("divide", w.without(rows[i][j], terms), found[j][j])
    if upper:
        found = [list(row) for row in zip(*found, strict=True)]
    w.store(1, [x for row in found for x in row])


def _lu(w: _Writer, call: Call) -> None:
    """With the one exchange of rows at each column that the pivots tell: the first largest's."""
    rows = w.load(0)
    zero, one = w.number(0), w.number(1)
    info, places = w.number(0, dt.int32), list[str]()
    for k in range(len(rows)):
        place, size = w.number(k + 1, dt.int32), w("abs", rows[k][k])
        for i in range(k + 1, len(rows)) if call.attrs["pivot"] else ():
            other = w("abs", rows[i][k])
            is_larger = w("greater_than", other, size, of=dt.bool_)
            size = w("where", is_larger, other, size)
            place = w("where", is_larger, w.number(i + 1, dt.int32), place, of=dt.int32)
        places.append(place)
        top = rows[k]
        for i in range(k + 1, len(rows)) if call.attrs["pivot"] else ():
            is_it = w("equal", place, w.number(i + 1, dt.int32), of=dt.bool_)
            pairs = list(zip(rows[k], rows[i], top, strict=True))
            top = [w("where", is_it, x, t) for _, x, t in pairs]
            rows[i] = [w("where", is_it, first, x) for first, x, _ in pairs]
        rows[k] = top
        is_zero = w("equal", top[k], zero, of=dt.bool_)
        is_first = w("equal", info, w.number(0, dt.int32), of=dt.bool_)
        here = w("where", is_zero, w.number(k + 1, dt.int32), info, of=dt.int32)
        info = w("where", is_first, here, info, of=dt.int32)
        divisor = w("where", is_zero, one, top[k])
        for row in rows[k + 1 :]:
            row[k] = w("divide", row[k], divisor)
            for j in range(k + 1, len(top)):
                row[j] = w.without(row[j], [(row[k], top[j])])
    w.store(1, [x for row in rows for x in row])
    w.store(2, places)
    w.store(3, [info])


def matrix_batch_of(
    call: Call, meta: Callable[[int], TensorMeta]
) -> tuple[NativeFunction, tuple[int, ...], DataAssertion | None] | None:
    """The function of a factorization by loops, the slots of its operands, and what it refuses."""
    method = call.kernel.removeprefix("pd_op.")
    slots = tuple([s for s in (*call.inputs, *call.outputs) if isinstance(s, int)])
    if method not in METHODS or not all(isinstance(s, int) for s in call.inputs):
        return None
    refused = _REFUSED.get(WRITERS.get(call.kernel))
    metas, attrs, inputs = [meta(s) for s in slots], call.attrs, len(call.inputs)
    batch = metas[0].shape[:-2]
    shapes: list[tuple[int, ...]] = [m.shape[len(batch) :] for m in metas]
    if metas[0].dtype not in (dt.float32, dt.float64) or any(
        m.dtype is not metas[0].dtype or m.shape[: len(batch)] != batch or not m.numel
        for m in metas
    ):
        return None
    # A determinant is a matrix of one element, and a vector one of a column.
    sizes = [((*s, 1)[0], (*s, 1, 1)[1]) for s in shapes]
    rows = sizes[0][0]
    is_broadcast = any(len(s) > 2 for s in shapes)
    if is_broadcast or (inputs == 2 and not (sizes[1] == sizes[2] and sizes[1][0] == rows)):
        return None
    is_upper, transpose = attrs.get("upper", False), attrs.get("transpose", False)
    made = MatrixBatch(
        method, metas[0].dtype, prod(batch), tuple(sizes), inputs, refused is not None,
        is_upper != transpose, transpose, attrs.get("unitriangular", False),
    )  # fmt: skip
    if made.operations > MOST_IN_LOOPS or made.elements > MOST_ELEMENTS:
        return None
    return native_matrix_batch(made), slots, refused


WRITERS: Final[dict[str, Callable[[_Writer, Call], None]]] = {
    "pd_op.solve": _solve,
    "pd_op.inverse": _solve,
    "pd_op.triangular_solve": _triangular_solve,
    "pd_op.det": _det,
    "pd_op.slogdet_v2": _slogdet,
    "pd_op.cholesky": _cholesky,
    "pd_op.lu": _lu,
}
"""Op -> the function that writes the statements of its nest."""
_REFUSED: Final[dict[Any, DataAssertion]] = {
    _solve: SINGULAR,
    _triangular_solve: SINGULAR,
    _cholesky: INDEFINITE,
}
"""What loops refuse of the ops with these statements, which assert it themselves."""
