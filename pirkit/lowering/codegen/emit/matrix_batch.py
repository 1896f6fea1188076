"""Factorizations of batches of matrices by loops: a vector holds one element of as many matrices.

The matrices of as many lanes are transposed into scratch memory, factorized there by rows and
columns as LAPACK does it, and transposed back. The last group repeats its last matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.memory_access import Memory, masked_load, store
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.transpose_tile import transposed
from pirkit.lowering.codegen.emit.vector_emit import argument, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.math import vecmath
from pirkit.lowering.codegen.math.casts import stored
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host

Index = Value | int
_OPS_PER_NS: Final = 1
"""Loads, multiply-adds and stores of a vector in a nanosecond."""


class MatrixBatch(Struct, frozen=True):
    """Operands of the function are the matrix, its right sides, the results and a flag.

    ``method`` is a key of `METHODS`. ``shapes`` are those of the matrices among them, without the
    batch; ``inputs`` is the number of the first result. Without ``has_flag`` nothing is refused.
    The triangle is that which a solver reads, after transposing.
    """

    method: str
    dtype: DType
    batch: int
    shapes: tuple[tuple[int, int], ...]
    inputs: int
    has_flag: bool
    upper: bool = False
    transpose: bool = False
    unit: bool = False

    @property
    def lanes(self) -> int:
        return host().vector_bits // (8 * self.dtype.itemsize)

    @property
    def elements(self) -> int:
        """Those of a matrix, its right sides and its results."""
        return sum(rows * columns for rows, columns in self.shapes)

    @property
    def operations(self) -> int:
        """About how many multiply-adds a matrix takes."""
        rows, columns = self.shapes[0]
        return rows * columns * (columns + sum(c for _, c in self.shapes[1:]))


def native_matrix_batch(found: MatrixBatch) -> NativeFunction:
    """The function of a factorization."""
    return function_of(key_of(found, host()), lambda: _draft(found))


def _draft(found: MatrixBatch) -> Draft:
    lanes, item = found.lanes, found.dtype.itemsize
    blocks = -(-found.batch // lanes)
    known = about(_Group, f"matrices {found.method}", lanes=lanes, blocks=blocks)
    routines = Routines()
    b = Builder(blocks=blocks)
    b.block_loop(lambda number, _: _Group(b, found, number).write())
    sizes = [found.batch * rows * columns * item for rows, columns in found.shapes]
    scratch = (found.elements + min(found.shapes[0])) * lanes * item
    work = blocks * found.operations // _OPS_PER_NS
    return routines.draft(b, scratch, (*sizes, *[1] * found.has_flag), work, known)


class _Lanes(Struct, frozen=True):
    """A matrix in scratch memory, whose elements are vectors."""

    b: Builder
    type: Type
    base: Value
    rows: int
    columns: int
    transpose: bool = False

    def at(self, i: Index, j: Index) -> Value:
        size = self.type.lanes * self.type.bits // 8
        row, column = (j, i) if self.transpose else (i, j)
        offset = self.b.times(_value(row), self.columns * size)
        return self.b.at(self.base, self.b.plus(offset, self.b.times(_value(column), size)))

    def get(self, i: Index, j: Index) -> Value:
        return self.b.load(self.type, self.at(i, j), self.type.bits // 8)

    def put(self, i: Index, j: Index, value: Value) -> None:
        self.b.store(value, self.at(i, j), self.type.bits // 8)


def _value(index: Index) -> Value:
    return index if isinstance(index, Value) else Value(str(index), I64)


class _Group:
    """Writes the code for the matrices of as many lanes: those of a block."""

    def __init__(self, b: Builder, found: MatrixBatch, number: Value) -> None:
        self.b, self.found = b, found
        self.type = Type(stored(found.dtype), found.lanes)
        last = Value(str(found.batch - 1), I64)
        first = b.times(number, found.lanes)
        self.numbers = [b.binary("smin", b.plus(first, k), last) for k in range(found.lanes)]
        size = found.lanes * found.dtype.itemsize
        self.matrices: list[_Lanes] = []
        place = Value("%scratch", Type("ptr"))
        for k, (rows, columns) in enumerate(found.shapes):
            turned = found.transpose if found.method == "triangular_solve" else found.upper
            turned = turned and (k == 0 or found.method == "cholesky")
            self.matrices.append(_Lanes(b, self.type, place, rows, columns, turned))
            place = b.at(place, rows * columns * size)
        self.taus = _Lanes(b, self.type, place, 1, min(found.shapes[0]))
        self.zero, self.one = b.const(self.type, 0), b.const(self.type, 1)

    def write(self) -> Sequence[Value]:
        for k in range(self.found.inputs):
            self._move(k, is_load=True)
        METHODS[self.found.method](self)
        for k in range(self.found.inputs, len(self.found.shapes)):
            self._move(k, is_load=False)
        return []

    def _move(self, number: int, *, is_load: bool) -> None:
        """Transpose the matrices of an operand into scratch memory, or back."""
        b, found, matrix = self.b, self.found, self.matrices[number]
        count, item, lanes = matrix.rows * matrix.columns, found.dtype.itemsize, found.lanes
        base = argument(b, number)
        rows = [b.at(base, b.times(n, count * item)) for n in self.numbers]

        def chunk(first: Value, _: object, valid: int = lanes) -> Sequence[Value]:
            mask = None if valid == lanes else tail_mask(b, lanes, valid)
            there = [b.at(p, b.times(first, item)) for p in rows]
            start = b.at(matrix.base, b.times(first, item * lanes))
            here = [b.at(start, k * item * lanes) for k in range(valid)]
            if is_load:
                values = [masked_load(b, self.type, p, item, mask) for p in there]
                for value, p in zip(transposed(b, values), here, strict=False):
                    b.store(value, p, item)
            else:
                values = [b.load(self.type, p, item) for p in here]
                values += [self.zero] * (lanes - valid)
                for value, p in zip(transposed(b, values), there, strict=True):
                    store(b, value, found.dtype, Memory(p, item), mask)
            return []

        whole = count // lanes * lanes
        b.loop(0, whole, lanes, [], chunk)
        if count > whole:
            chunk(Value(str(whole), I64), None, count - whole)

    def each(self, start: Index, stop: Index, body: Callable[[Value], object]) -> None:
        def once(i: Value, _: object) -> Sequence[Value]:
            body(i)
            return []

        self.b.loop(start, stop, 1, [], once)

    def refuse(self, mask: Value) -> None:
        """Set the flag where a lane is no matrix that has the factors."""

        def fail() -> Sequence[Value]:
            self.b.store(Value("1", Type("i8")), argument(self.b, len(self.found.shapes)), 1)
            return []

        self.b.branch(vecmath.any_lane(self.b, mask), fail)

    def is_at(self, places: Value, i: Value) -> Value:
        return self.b.compare("eq", places, self._places(i))

    def _places(self, i: Value) -> Value:
        kind = self.type.integer
        one = i if kind.elem == "i64" else self.b.cast("trunc", i, kind.elem)
        return self.b.splat(one, kind.lanes)

    def eliminate(self, *sides: _Lanes) -> Value:
        """Make the matrix upper triangular, with the largest pivot of each column; the sign."""
        b, m = self.b, self.matrices[0]
        n = m.rows

        def step(k: Value, signs: list[Value]) -> Sequence[Value]:
            def larger(i: Value, best: list[Value]) -> Sequence[Value]:
                size = b.unary("fabs", m.get(i, k))
                is_larger = b.compare("ogt", size, best[0])
                place = b.select(is_larger, self._places(i), best[1])
                return [b.select(is_larger, size, best[0]), place]

            after = b.plus(k, 1)
            initial = [b.unary("fabs", m.get(k, k)), self._places(k)]
            place = b.loop(after, n, 1, initial, larger)[1]

            def exchange(x: _Lanes, j: Value) -> tuple[Value, Value]:
                """Put the pivot's row on top; the elements that were and are there."""

                def pick(i: Value, top: list[Value]) -> Sequence[Value]:
                    return [b.select(self.is_at(place, i), x.get(i, j), top[0])]

                old = x.get(k, j)
                [top] = b.loop(after, n, 1, [old], pick)
                x.put(k, j, top)
                return old, top

            old, top = exchange(m, k)
            divisor = b.select(b.compare("oeq", top, 0.0), self.one, top)

            def divide(i: Value) -> None:
                row = b.select(self.is_at(place, i), old, m.get(i, k))
                m.put(i, k, b.div(row, divisor))  # the reciprocal of a denormal is infinite

            self.each(after, n, divide)

            def update(x: _Lanes, j: Value) -> None:
                old, top = exchange(x, j)
                less = b.neg(top)

                def subtract(i: Value) -> None:
                    row = b.select(self.is_at(place, i), old, x.get(i, j))
                    x.put(i, j, b.muladd(m.get(i, k), less, row))

                self.each(after, n, subtract)

            self.each(after, n, lambda j: update(m, j))
            for x in sides:
                self.each(0, x.columns, lambda j, x=x: update(x, j))
            return [b.select(self.is_at(place, k), signs[0], b.neg(signs[0]))]

        return b.loop(0, n, 1, [self.one], step)[0]

    def substitute(self, x: _Lanes, *, upper: bool, unit: bool = False) -> None:
        """Solve with a triangle of the matrix, in place."""
        b, m = self.b, self.matrices[0]
        n = m.rows

        def unknown(number: Value) -> None:
            i = b.op("sub", Value(str(n - 1), I64), number) if upper else number
            if not unit:
                pivot = m.get(i, i)
                self.refuse(b.compare("oeq", pivot, 0.0))
                self.each(0, x.columns, lambda c: x.put(i, c, b.div(x.get(i, c), pivot)))

            def row(r: Value) -> None:
                less = b.neg(m.get(r, i))
                self.each(
                    0, x.columns, lambda c: x.put(r, c, b.muladd(less, x.get(i, c), x.get(r, c)))
                )

            self.each(0 if upper else b.plus(i, 1), i if upper else n, row)

        self.each(0, n, unknown)

    def reflect(self, x: _Lanes, k: Value, j: Value) -> None:
        """Apply a reflection, whose vector is below the diagonal of the matrix, to a column."""
        b, m = self.b, self.matrices[0]

        def add(i: Value, total: list[Value]) -> Sequence[Value]:
            return [b.muladd(m.get(i, k), x.get(i, j), total[0])]

        [total] = b.loop(b.plus(k, 1), m.rows, 1, [x.get(k, j)], add)
        less = b.neg(b.mul(self.taus.get(0, k), total))
        x.put(k, j, b.add(x.get(k, j), less))
        self.each(
            b.plus(k, 1), m.rows, lambda i: x.put(i, j, b.muladd(m.get(i, k), less, x.get(i, j)))
        )


def _identity(w: _Group, x: _Lanes) -> None:
    w.each(0, x.rows, lambda i: w.each(0, x.columns, lambda j: x.put(i, j, w.zero)))
    w.each(0, min(x.rows, x.columns), lambda i: x.put(i, i, w.one))


def _copy(w: _Group, x: _Lanes, y: _Lanes) -> None:
    w.each(0, x.rows, lambda i: w.each(0, x.columns, lambda j: y.put(i, j, x.get(i, j))))


def _det(w: _Group) -> None:
    b, m, sign = w.b, w.matrices[0], w.eliminate()
    found = b.loop(0, m.rows, 1, [sign], lambda k, f: [b.mul(f[0], m.get(k, k))])
    w.matrices[1].put(0, 0, found[0])


def _slogdet(w: _Group) -> None:
    b, m, sign = w.b, w.matrices[0], w.eliminate()

    def pivot(k: Value, found: list[Value]) -> Sequence[Value]:
        x = m.get(k, k)
        is_sign = b.compare("one", x, 0.0)  # zero and NaN are their own
        one = b.select(is_sign, b.binary("copysign", w.one, x), x)
        return [b.mul(found[0], one), b.add(found[1], vecmath.log(b, b.unary("fabs", x)))]

    found = b.loop(0, m.rows, 1, [sign, w.zero], pivot)
    for matrix, value in zip(w.matrices[1:], found, strict=True):
        matrix.put(0, 0, value)


def _solve(w: _Group) -> None:
    x = w.matrices[-1]
    if w.found.method == "inverse":
        _identity(w, x)
    else:
        _copy(w, w.matrices[1], x)
    if w.found.method == "triangular_solve":
        w.substitute(x, upper=w.found.upper, unit=w.found.unit)
        return
    w.eliminate(x)
    w.substitute(x, upper=True)


def _cholesky(w: _Group) -> None:
    b, (m, x) = w.b, w.matrices

    def column(j: Value) -> None:
        square = m.get(j, j)
        w.refuse(b.compare("ole", square, 0.0))  # NaN spreads, as in OpenBLAS
        root = b.unary("sqrt", square)
        x.put(j, j, root)
        after = b.plus(j, 1)

        def divide(i: Value) -> None:
            x.put(j, i, w.zero)
            x.put(i, j, b.div(m.get(i, j), root))

        w.each(after, m.rows, divide)

        def row(i: Value) -> None:
            less = b.neg(x.get(i, j))
            w.each(
                after, b.plus(i, 1),
                lambda c: m.put(i, c, b.muladd(less, x.get(c, j), m.get(i, c))),
            )  # fmt: skip

        w.each(after, m.rows, row)

    w.each(0, m.rows, column)


def _qr(w: _Group) -> None:
    """Householder's reflections, with LAPACK's signs."""
    b, m = w.b, w.matrices[0]
    least = min(m.rows, m.columns)

    def step(k: Value) -> None:
        after = b.plus(k, 1)
        head = m.get(k, k)

        def larger(i: Value, best: list[Value]) -> Sequence[Value]:
            return [b.binary("maxnum", best[0], b.unary("fabs", m.get(i, k)))]

        [most] = b.loop(after, m.rows, 1, [w.zero], larger)
        is_zero = b.compare("oeq", most, 0.0)
        most = b.binary("maxnum", most, b.unary("fabs", head))
        scale = b.select(b.compare("oeq", most, 0.0), w.one, most)  # squares do not overflow

        def add(i: Value, total: list[Value]) -> Sequence[Value]:
            part = b.div(m.get(i, k), scale)
            return [b.muladd(part, part, total[0])]

        first = b.div(head, scale)
        [total] = b.loop(after, m.rows, 1, [b.mul(first, first)], add)
        norm = b.mul(scale, b.unary("sqrt", total))
        beta = b.select(is_zero, head, b.neg(b.binary("copysign", norm, head)))
        divisor = b.select(is_zero, w.one, beta)
        w.taus.put(0, k, b.select(is_zero, w.zero, b.div(b.sub(beta, head), divisor)))
        below = b.select(is_zero, w.one, b.sub(head, beta))
        w.each(after, m.rows, lambda i: m.put(i, k, b.div(m.get(i, k), below)))
        w.each(after, m.columns, lambda j: w.reflect(m, k, j))
        m.put(k, k, beta)

    w.each(0, least, step)
    if len(w.matrices) == 3:
        q = w.matrices[1]
        _identity(w, q)

        def back(number: Value) -> None:
            k = b.op("sub", Value(str(least - 1), I64), number)
            w.each(k, q.columns, lambda j: w.reflect(q, k, j))

        w.each(0, least, back)
    r = w.matrices[-1]
    _identity(w, r)
    w.each(0, least, lambda i: w.each(i, m.columns, lambda j: r.put(i, j, m.get(i, j))))


METHODS: Final[dict[str, Callable[[_Group], None]]] = {
    "det": _det,
    "slogdet_v2": _slogdet,
    "solve": _solve,
    "inverse": _solve,
    "triangular_solve": _solve,
    "cholesky": _cholesky,
    "qr": _qr,
}
