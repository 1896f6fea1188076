"""Runs loop nests with numpy, a statement over all iterations at once: the oracle of the emitters.

It knows no schedule, no vectors and no threads. So numbers that are wrong in native code and right
here come from the schedule or from an emitter, and numbers that are wrong here too from the
lowering of the MapExpr to loop nests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.lib.stride_tricks import as_strided

from pirkit.diag.errors import InternalError
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Kernel,
    LaneConstants,
    Load,
    Operand,
    Reduce,
    RuntimeAssert,
    Scatter,
    Statement,
    Store,
)
from pirkit.lowering.codegen.ir.piecewise_poly_match import (
    COMPOSITE_FUNCTIONS,
    CompositeFunction,
)
from pirkit.lowering.codegen.ir.tiled_nest import TileAccess, TiledNest, TilePhase
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.lowering.codegen.lower.statement_nest import ArrayNest
from pirkit.runtime import bessel, special_functions
from pirkit.runtime.dtype import DType
from pirkit.runtime.threefry import threefry

Array = np.ndarray[Any, Any]


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _tanh_of_softplus(x: Array) -> Array:
    return np.tanh(np.logaddexp(0, x))


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _left(x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < 8 * x.dtype.itemsize)
    return np.where(inside, np.left_shift(x, np.where(inside, y, 0)), 0).astype(x.dtype)


def _right(x: Array, y: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.right_shift(x, np.where((y >= 0) & (y < width), y, width - 1))


def _logical_right(x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < 8 * x.dtype.itemsize)
    bits = np.dtype(f"u{x.dtype.itemsize}")
    moved = np.right_shift(x.astype(bits), np.where(inside, y, 0).astype(bits))
    return np.where(inside, moved, 0).astype(x.dtype)


FUNCTIONS: Final[dict[str, Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "quotient": np.floor_divide,
    "remainder": np.remainder, "maximum": np.maximum,
    "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "copysign": np.copysign,
    "atan2": np.arctan2, "negative": np.negative, "abs": np.abs, "sign": np.sign,
    "sqrt": np.sqrt, "rsqrt": _rsqrt, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sigmoid": _sigmoid,
    "erf": _erf, "elementwise_pow": np.power, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "log2": np.log2,
    "log10": np.log10, "lgamma": special_functions.lgamma, "gammaln": special_functions.lgamma,
    "digamma": special_functions.digamma, "erfinv": bessel.erfinv,
    "equal": np.equal, "not_equal": np.not_equal, "less_than": np.less,
    "less_equal": np.less_equal, "greater_than": np.greater, "greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "logical_not": np.logical_not, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_left_shift": _left,
    "bitwise_right_shift": _right,
    "unsigned_right_shift": _logical_right,
    "threefry": partial(threefry, word=0), "threefry_second": partial(threefry, word=1),
    "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert, "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite, "where": np.where,
    "tanh_of_softplus": _tanh_of_softplus,
}  # fmt: skip


def _composite(of: CompositeFunction, x: Array) -> Array:
    return FUNCTIONS[of.function](sum(c * x**power for power, c in of.inner.items()))


FUNCTIONS.update({c.primitive: partial(_composite, c) for c in COMPOSITE_FUNCTIONS})

_FOLDS: Final[dict[str, Any]] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
COMBINE: Final[dict[str, Any]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
"""The function that a reduction applies at each step."""


def poison(dtype: np.dtype[Any]) -> Any:
    """The fill value of results before they are computed, which results hardly ever hold."""
    if dtype.kind in "iu":
        return np.array(np.iinfo(dtype).max // 3, dtype)
    return np.array(np.nan).astype(dtype) if dtype.kind != "b" else True


def interpret(kernel: MapExpr, nests: Sequence[ArrayNest], inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a kernel whose loop nests are `nests_of(kernel)`, for these inputs.

    Raises what native code raises for data that a nest refuses.
    """
    metas = [s.meta for s in without_scatters(kernel).kernel.statements]
    arrays = [np.ascontiguousarray(a) for a in inputs]
    arrays += [np.full(m.shape, poison(np.dtype(m.dtype.np)), m.dtype.np) for m in metas]
    first = len(arrays)
    for nest in nests:
        flags = [np.zeros(1, np.uint8) for _ in nest.assertions]
        known = [*arrays, *flags]
        # places of flags count from the end of all values, anew in each nest
        run_nest(nest, [known[k] if k < first else flags[k - first] for k in nest.arrays])
        for flag, assertion in zip(flags, nest.assertions, strict=True):
            if flag[0]:
                raise assertion.error()
    return [arrays[len(inputs) + k] for k in kernel.outputs]


def run_nest(nest: ArrayNest, buffers: list[Array]) -> None:
    """Run a nest over the buffers of its operands."""
    match nest.kernel:
        case TiledNest():
            _in_tiles(nest.kernel, buffers)
        case Kernel():
            Evaluation(nest.kernel, buffers).run()


def _in_tiles(tiled: TiledNest, buffers: Sequence[Array]) -> None:
    """Phase after phase over the whole frame: a tile is then an array over all of it."""
    whole = [
        np.empty([tiled.extents[a] if a >= 0 else 1 for a in tile.axes], tile.dtype.np)
        for tile in tiled.tiles
    ]
    for phase in tiled.phases:
        operands, given = list(phase.kernel.operands), list[Array]()
        for number, where in enumerate(phase.places):
            if isinstance(where, TileAccess):
                tile = whole[where.tile]
                strides = _tile_strides(tiled, phase, where, tile.strides)
                operand = replace(operands[number], outer=strides, size=tile.nbytes, offset=0)
                operands[number] = operand
                given.append(tile)
            else:
                given.append(buffers[where])
        Evaluation(replace(phase.kernel, operands=tuple(operands)), given).run()


def _tile_strides(
    tiled: TiledNest, phase: TilePhase, spot: TileAccess, strides: Sequence[int]
) -> tuple[int, ...]:  # fmt: skip
    """Bytes between neighbours of a tile along the axes of a phase that sees it at an image."""
    found = [0] * len(phase.axes)
    for axis, stride in zip(tiled.tiles[spot.tile].axes, strides, strict=True):
        if axis >= 0:
            found[phase.axes.index(tiled.images[spot.image][axis])] = stride
    return tuple(found)


def _view(buffer: Array, operand: Operand, shape: tuple[int, ...]) -> Array:
    """The elements of an operand, as an array with one axis for each axis of the kernel."""
    if 0 in shape:
        return np.empty(shape, operand.dtype.np)
    start = buffer.reshape(-1).view(np.uint8)[operand.offset :]
    first = start[: len(start) // operand.dtype.itemsize * operand.dtype.itemsize]
    return as_strided(first.view(operand.dtype.np), shape, (*operand.outer, *operand.inner))


class Evaluation:
    """Values have an axis of length 1 where they do not vary."""

    def __init__(self, kernel: Kernel, buffers: list[Array]) -> None:
        self.kernel, self.buffers = kernel, buffers
        self.values: dict[str, Array] = {}
        self.rank = len(kernel.outer)
        self.inner = tuple(range(self.rank, self.rank + len(kernel.inner)))

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for phase in self.kernel.loop_phases:
                for statement in phase.body:
                    self.statement(statement)
                for statement in phase.after:
                    self.statement(statement, after=True)

    def operand(self, number: int, after: bool) -> Array:
        # After a reduction there is one iteration, even where nothing was reduced.
        inner = (1,) * len(self.inner) if after else self.kernel.inner
        operand = self.kernel.operands[number]
        return _view(self.buffers[number], operand, (*self.kernel.outer, *inner))

    def statement(self, statement: Statement, after: bool = False) -> None:
        """Run a statement at all iterations at once; ``after`` the reductions, once a row."""
        match statement:
            case Load(name, operand, None, _, None):
                loaded = self.operand(operand, after)
                self.values[name] = widened(loaded, self.kernel.operands[operand].dtype).copy()
            case Load():
                self.values[statement.name] = self.load(statement)
            case Constant(name, dtype, value):
                self.values[name] = widened(np.array(value, dtype.np), dtype)
            case LaneConstants():
                raise InternalError("a kernel without vectors has no constants of lanes")
            case Index(name, axis, dtype):
                self.values[name] = self.along(axis).astype(dtype.np)
            case Compute(name, _, args):
                self.values[name] = computed(statement, [self.values[a] for a in args])
            case Reduce(name, kind, value):
                shape = (*self.kernel.outer, *self.kernel.inner)
                array = np.broadcast_to(self.values[value], shape)
                if kind in ("max", "min") and array.size == 0:  # numpy has none; native code does
                    worst = -np.inf if kind == "max" else np.inf
                    kept = np.full([*self.kernel.outer, *[1] * len(self.inner)], worst)
                    self.values[name] = kept.astype(array.dtype)
                    return
                wide = array.dtype if kind in ("max", "min") else _wider(array.dtype)
                folded = _FOLDS[kind](array.astype(wide), axis=self.inner, keepdims=True)
                self.values[name] = folded.astype(array.dtype)
            case Store(operand, value):
                self.operand(operand, after)[...] = self.values[value]
            case Accumulate(operand, kind, value):
                self.accumulation(operand, kind, self.values[value], after)
            case Scatter():
                self.scatter(statement)
            case RuntimeAssert(operand, value):
                self.buffers[operand][0] |= not self.values[value].all()

    def accumulation(self, number: int, kind: str, value: Array, after: bool) -> None:
        operand = self.kernel.operands[number]
        inner = [1] * len(self.inner) if after else list(self.kernel.inner)
        array = np.broadcast_to(value, (*self.kernel.outer, *inner))
        shared = tuple(k for k, s in enumerate((*operand.outer, *operand.inner)) if s == 0)
        wide = array.dtype if kind in ("max", "min") else _wider(array.dtype)
        folded = _FOLDS[kind](array.astype(wide), axis=shared, keepdims=True)
        self.operand(number, after)[...] = folded.astype(operand.dtype.np)

    def scatter(self, scatter: Scatter) -> None:
        """Iterations in order; those whose index is out of range are skipped."""
        at, operand = self.values[scatter.at], self.kernel.operands[scatter.operand]
        strides = [n // operand.dtype.itemsize for n in operand.inner]
        places = at + sum(self.along(k) * n for k, n in enumerate(strides))
        fits = np.broadcast_to((at >= 0) & (at <= scatter.limit), self.kernel.inner)
        places = np.broadcast_to(places, self.kernel.inner)[fits]
        given = np.broadcast_to(self.values[scatter.value], self.kernel.inner)[fits]
        out = self.buffers[scatter.operand].reshape(-1)
        if scatter.kind is not None:
            COMBINE[scatter.kind].at(out, places, given)
        else:
            out[places] = given  # the last write to an element wins

    def along(self, axis: int) -> Array:
        """The position along an axis."""
        extents = (*self.kernel.outer, *self.kernel.inner)
        return np.arange(extents[axis]).reshape(
            [-1 if k == axis else 1 for k in range(len(extents))]
        )

    def load(self, load: Load) -> Array:
        """Elements that lie where values say, or that are read only in places; byte by byte."""
        operand = self.kernel.operands[load.operand]
        # After a reduction nothing varies along its axes, whose strides are 0.
        moving = [(k, n) for k, n in enumerate((*operand.outer, *operand.inner)) if n]
        place = operand.offset + sum(self.along(k) * stride for k, stride in moving)
        if load.at is not None:
            at = self.values[load.at].astype(np.int64)
            at = np.where((at < 0) | (at > load.limit), load.limit, at)
            place = place + at * operand.dtype.itemsize
        holds = np.asarray(True) if load.predicate is None else self.values[load.predicate]
        place, holds = np.broadcast_arrays(place, holds)
        memory = self.buffers[load.operand].reshape(-1).view(np.uint8)
        bytes_at = np.where(holds, place, 0)[..., None] + np.arange(operand.dtype.itemsize)
        found = memory[bytes_at].view(operand.dtype.np)[..., 0]
        return widened(np.where(holds, found, np.zeros((), found.dtype)), operand.dtype)


def computed(statement: Compute, args: Sequence[Array]) -> Array:
    """The value of a primitive. Raises InternalError if its element type is another one."""
    dtype = statement.dtype
    if statement.primitive == "cast":
        return widened(args[0].astype(dtype.np), dtype)
    result = FUNCTIONS[statement.primitive](*args)
    if result.dtype != widened(np.empty(0, dtype.np), dtype).dtype:
        raise InternalError(f"{statement} gives {result.dtype}")
    return result


def _wider(dtype: Any) -> Any:
    """Sums are exact enough to compare any order of adding up with."""
    return np.dtype(np.float64) if dtype == np.float32 else dtype


def widened(array: Array, dtype: DType) -> Array:
    """Values in their compute type: float32 for fp16 and bf16."""
    half = dtype.is_float and dtype.itemsize < 4
    return array.astype(np.float32) if half else array
