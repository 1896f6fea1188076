"""Random numbers from explicit keys: pure functions, as JAX's ``jax.random``.

A key is a tensor of two int32, the bits of two 32-bit words. Equal keys give equal numbers:
eagerly, compiled, in threads, over rows (`pirkit.vmap`) and on all backends. So a key is used once,
and `split` or `fold_in` makes others of it::

    key = pirkit.random.key(42)
    key, sub = pirkit.random.split(key)
    x = pirkit.random.normal(sub, (1000, 2))

The generator is Threefry-2x32 with 20 rounds: number i is the cipher of the counter i under the key
(Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Counters
and conversions are laid out as in JAX with ``jax_threefry_partitionable=True``: keys, integers and
uniform numbers are those of `jax.random`, bit by bit, and numbers that go through elementary
functions agree within rounding. The random ops of the op table (`pirkit.ops.uniform`,
`pirkit.seed`) have a state instead.

Arguments called ``shape`` are an int or several, ``dtype`` is float32 or float64. UsageError is
raised for others, and for a key that is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, prod, sqrt
from typing import Any, Final, cast

import numpy as np

from pirkit import ops
from pirkit.dialect.build import Value
from pirkit.frontend.jit import jit
from pirkit.frontend.traced_value import where
from pirkit.frontend.user_line import wrong_call
from pirkit.runtime import dtype as dt
from pirkit.runtime.bessel import ERFINV_CENTRE, ERFINV_TAIL
from pirkit.runtime.dtype import DType
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type

Shape = int | Sequence[int]
Dimensions = tuple[int, ...]

_WORD: Final = 0xFFFFFFFF


# --- keys ----------------------------------------------------------------------------------------


def key(seed: Any) -> Any:
    """A key from an integer of 64 bits."""
    if isinstance(seed, Value):
        wide = cast(Any, seed).astype("int64")
        return np.stack([_word(wide >> 32), _word(wide)])
    number = int(seed)
    words = np.array([number >> 32 & _WORD, number & _WORD], np.uint32)
    return DenseTensor(words.view(np.int32))


PRNGKey = key
"""JAX's older name."""


def split(key: Any, num: Shape = 2) -> Any:
    """New keys, of shape ``[num, 2]``. Use them instead of the old one."""
    return _split(_key(key), shape=_dimensions(num))


def fold_in(key: Any, data: Any) -> Any:
    """A new key for a key and an integer of 32 bits, such as the number of a step or a layer."""
    if not isinstance(data, Value):
        data = np.asarray(int(data), np.int64)
    return _fold_in(_key(key), data)


@jit(static_argnames="shape")
def _split(key: Any, *, shape: Dimensions) -> Any:
    return np.stack(_cipher(key, *_counters(shape)), axis=-1)


@jit
def _fold_in(key: Any, data: Any) -> Any:
    word = _word(data.astype("int64"))
    return np.stack(_cipher(key, word * 0, word))


# --- numbers -------------------------------------------------------------------------------------


def bits(key: Any, shape: Shape = ()) -> Any:
    """32 random bits each, as int32."""
    return _bits(_key(key), shape=_dimensions(shape))


def uniform(
    key: Any,
    shape: Shape = (),
    dtype: DTypeLike = "float32",
    minval: Any = 0.0,
    maxval: Any = 1.0,
) -> Any:
    """Numbers between ``minval`` and ``maxval``, which is left out."""
    return _uniform(_key(key), minval, maxval, shape=_dimensions(shape), dtype=_float(dtype))


def normal(key: Any, shape: Shape = (), dtype: DTypeLike = "float32") -> Any:
    """Numbers of mean 0 and deviation 1."""
    return _normal(_key(key), shape=_dimensions(shape), dtype=_float(dtype))


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Shape | None = None, dtype: DTypeLike = "float32"
) -> Any:
    """Normal numbers between ``lower`` and ``upper``, which are broadcast to the shape."""
    wanted = np.broadcast_shapes(np.shape(lower), np.shape(upper)) if shape is None else shape
    return _truncated(_key(key), lower, upper, shape=_dimensions(wanted), dtype=_float(dtype))


def exponential(key: Any, shape: Shape = (), dtype: DTypeLike = "float32") -> Any:
    """Numbers of density ``exp(-x)``."""
    return _exponential(_key(key), shape=_dimensions(shape), dtype=_float(dtype))


def gumbel(key: Any, shape: Shape = (), dtype: DTypeLike = "float32") -> Any:
    """Numbers of distribution ``exp(-exp(-x))``."""
    return _gumbel(_key(key), shape=_dimensions(shape), dtype=_float(dtype))


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None) -> Any:
    """True with probability ``p``, which is broadcast to the shape."""
    return _bernoulli(_key(key), p, shape=_dimensions(np.shape(p) if shape is None else shape))


def randint(key: Any, shape: Shape, minval: Any, maxval: Any, dtype: DTypeLike = "int64") -> Any:
    """Integers from ``minval`` to ``maxval``, which is left out; they lie within 32 bits.

    As in JAX for int32, a range that is no power of two is biased by less than 2^-32 of its size.
    """
    kind = element_type(dtype)
    if not kind.is_integer:
        raise wrong_call(f"`randint` draws integers, not {kind}", "take `uniform`")
    return _randint(_key(key), minval, maxval, shape=_dimensions(shape), dtype=kind)


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The parts of ``x`` along an axis in random order; those of ``arange(x)`` for an integer."""
    if isinstance(x, int):
        return _order(_key(key), count=x)
    rows: Any = x if isinstance(x, Value | DenseTensor) else np.asarray(x)
    return _taken(rows, _order(_key(key), count=int(rows.shape[axis])), axis)


def choice(
    key: Any, a: Any, shape: Shape = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Parts of ``a`` along an axis, or of ``arange(a)``, with probabilities ``p`` if given.

    Without ``replace`` none is drawn twice. Raises UsageError for more of them than there are.
    """
    rows: Any = np.arange(a) if isinstance(a, int) else a
    rows = rows if isinstance(rows, Value | DenseTensor) else np.asarray(rows)
    count, wanted = int(rows.shape[axis]), _dimensions(shape)
    if not replace and prod(wanted) > count:
        raise wrong_call(
            f"{prod(wanted)} of {count} parts without any twice", "take `replace=True`"
        )
    places = _places(_key(key), p, count=count, shape=wanted, replace=replace)
    flat: Any = _taken(rows, places.reshape((-1,)), axis)
    at = axis % rows.ndim
    return np.reshape(flat, (*rows.shape[:at], *wanted, *rows.shape[at + 1 :]))


def categorical(key: Any, logits: Any, axis: int = -1, shape: Shape | None = None) -> Any:
    """Places along an axis, each with a probability in proportion to ``exp(logits)`` (int64).

    ``shape`` is that of the result; it ends with that of ``logits`` without the axis.
    """
    whole = tuple(np.shape(logits))
    at = axis % len(whole)
    rest = whole[:at] + whole[at + 1 :]
    wanted = rest if shape is None else _dimensions(shape)
    lead = wanted[: len(wanted) - len(rest)]
    if wanted[len(lead) :] != rest:
        raise wrong_call(f"`categorical` of {whole} has no shape {wanted}", f"it ends with {rest}")
    return _categorical(_key(key), logits, axis=at - len(whole), lead=lead)


@jit(static_argnames="shape")
def _bits(key: Any, *, shape: Dimensions) -> Any:
    x, y = _cipher(key, *_counters(shape))
    return x ^ y


@jit(static_argnames=("shape", "dtype"))
def _uniform(key: Any, low: Any, high: Any, *, shape: Dimensions, dtype: DType) -> Any:
    low, high = (_as(v, key, dtype) for v in (low, high))
    return ops.maximum(_fraction(key, shape, dtype) * (high - low) + low, low)


@jit(static_argnames=("shape", "dtype"))
def _normal(key: Any, *, shape: Dimensions, dtype: DType) -> Any:
    low = float(np.nextafter(dtype.np.type(-1), dtype.np.type(0)))
    drawn = _uniform(key, low, 1.0, shape=shape, dtype=dtype)
    return _erfinv(drawn) * _as(sqrt(2), key, dtype)


@jit(static_argnames=("shape", "dtype"))
def _truncated(key: Any, low: Any, high: Any, *, shape: Dimensions, dtype: DType) -> Any:
    low, high, root = (_as(v, key, dtype) for v in (low, high, sqrt(2)))
    drawn = _uniform(key, ops.erf(low / root), ops.erf(high / root), shape=shape, dtype=dtype)
    finite = float(np.nextafter(dtype.np.type(1), dtype.np.type(0)))
    drawn = ops.clip(drawn, -finite, finite)
    ends = (_as(v, key, dtype) for v in (np.inf, -np.inf))
    inside = [ops.nextafter(v, end) for v, end in zip((low, high), ends, strict=True)]
    return ops.minimum(ops.maximum(_erfinv(drawn) * root, inside[0]), inside[1])


@jit(static_argnames=("shape", "dtype"))
def _exponential(key: Any, *, shape: Dimensions, dtype: DType) -> Any:
    return -ops.log1p(-_fraction(key, shape, dtype))


@jit(static_argnames=("shape", "dtype"))
def _gumbel(key: Any, *, shape: Dimensions, dtype: DType) -> Any:
    tiny = float(np.finfo(dtype.np).smallest_normal)
    return -ops.log(-ops.log(_uniform(key, tiny, 1.0, shape=shape, dtype=dtype)))


@jit(static_argnames="shape")
def _bernoulli(key: Any, p: Any, *, shape: Dimensions) -> Any:
    dtype = dt.float64 if p.dtype is dt.float64 else dt.float32
    return _fraction(key, shape, dtype) < _as(p, key, dtype)


@jit(static_argnames=("shape", "dtype"))
def _randint(key: Any, low: Any, high: Any, *, shape: Dimensions, dtype: DType) -> Any:
    """The remainder of a number of 64 bits, by arithmetic on 32 bits."""
    keys = _split(key, shape=(2,))
    upper, lower = (_unsigned(_bits(keys[i], shape=shape)) for i in range(2))
    low, high = (v.astype("int64") for v in (low, high))
    span = where(high > low, high - low, low * 0 + 1)
    half = (low * 0 + (1 << 16)) % span
    multiplier = _unsigned(half * half) % span
    return (low + _unsigned(upper % span * multiplier + lower % span) % span).astype(dtype)


@jit(static_argnames="count")
def _order(key: Any, *, count: int) -> Any:
    """Sorts by random bits, so often that equal ones hardly matter."""
    order = None
    for _ in range(ceil(3 * log(max(1, count)) / log(_WORD))):
        keys = _split(key, shape=(2,))
        key = keys[0]
        drawn = _unsigned(_bits(keys[1], shape=(count,)))
        found = ops.argsort(drawn, axis=0, stable=True)[1]
        order = found if order is None else np.take(cast(Any, order), found, axis=0)
    return ops.arange(0, count, 1, dtype="int64") + key[0] * 0 if order is None else order


@jit(static_argnames=("count", "shape", "replace"))
def _places(key: Any, p: Any, *, count: int, shape: Dimensions, replace: bool) -> Any:
    if p is None and replace:
        return _randint(key, 0, count, shape=shape, dtype=dt.int64)
    if p is None:
        return _order(key, count=count)[: prod(shape)].reshape(shape)
    dtype = dt.float64 if p.dtype is dt.float64 else dt.float32
    if replace:
        ends: Any = np.cumsum(p.astype(dtype))
        drawn = ends[-1] * (1 - _fraction(key, shape, dtype))
        return cast(Any, np).searchsorted(ends, drawn)
    scores: Any = _gumbel(key, shape=(count,), dtype=dtype) + np.log(p.astype(dtype))
    return np.argsort(-scores)[: prod(shape)].reshape(shape)


@jit(static_argnames=("axis", "lead"))
def _categorical(key: Any, logits: Any, *, axis: int, lead: Dimensions) -> Any:
    dtype = dt.float64 if logits.dtype is dt.float64 else dt.float32
    drawn = _gumbel(key, shape=(*lead, *logits.shape), dtype=dtype)
    return (drawn + logits.astype(dtype)).argmax(axis=axis)


# --- the cipher ----------------------------------------------------------------------------------


def _counters(shape: Dimensions) -> tuple[Any, Any]:
    """The number of each element, as two words."""
    count = prod(shape)
    if count > _WORD:
        raise wrong_call(f"{count} numbers of one key", "split the key")
    low = ops.arange(0, count, 1, dtype="int64").astype("int32").reshape(shape)
    return low * 0, low


def _cipher(key: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Both words of Threefry-2x32 for counters."""
    return (
        ops.threefry(key[0], key[1], x, y, word=0),
        ops.threefry(key[0], key[1], x, y, word=1),
    )


def _fraction(key: Any, shape: Dimensions, dtype: DType) -> Any:
    """Numbers in [0, 1) with all bits of their mantissa drawn."""
    x, y = _cipher(key, *_counters(shape))
    if dtype is dt.float64:
        drawn = (_unsigned(x) << 20) + (_unsigned(y) >> 12)
        return drawn.astype("float64") * 2.0**-52
    drawn = ops.bitwise_right_shift(x ^ y, ops.full((), 9, dtype="int32"), is_arithmetic=False)
    return drawn.astype("float32") * 2.0**-23


def _unsigned(x: Any) -> Any:
    """The lowest 32 bits as a number that is not negative, in int64."""
    return x.astype("int64") & _WORD


def _word(x: Any) -> Any:
    """The lowest 32 bits of int64 as an int32."""
    low = x & _WORD
    return (low - ((low >> 31) << 32)).astype("int32")


def _erfinv(x: Any) -> Any:
    if x.dtype is dt.float64:
        return ops.erfinv(x)
    w = -ops.log1p(-x * x)
    is_central = w < 5.0
    z = where(is_central, w - 2.5, ops.sqrt(ops.maximum(w, w * 0 + 5.0)) - 3.0)
    pairs = zip(ERFINV_CENTRE, ERFINV_TAIL, strict=True)
    found = [where(is_central, a, b).astype(x.dtype) for a, b in pairs]
    total = found[0]
    for coefficient in found[1:]:
        total = total * z + coefficient
    return total * x


# --- arguments -----------------------------------------------------------------------------------


def _taken(rows: Any, places: Any, axis: int) -> Any:
    """Parts of an array or a tensor; places may be traced where the rows are not."""
    if isinstance(places, Value) and not isinstance(rows, Value):
        rows = places.b.value(rows)
    taken: Any = np.take
    return taken(rows, places, axis=axis)


def _as(given: Any, like: Any, dtype: DType) -> Any:
    """A number or a tensor in an element type, beside traced values."""
    if isinstance(given, Value):
        return cast(Any, given).astype(dtype)
    return ops.full((), float(given), dtype=dtype)


def _key(given: Any) -> Any:
    """The bits of a key: a tensor or array of shape [2] of 32-bit integers."""
    key: Any = given
    if getattr(key, "dtype", None) == np.dtype(np.uint32):  # an array of numpy or JAX
        key = np.asarray(key).view(np.int32)
    if np.shape(key) != (2,) or getattr(key, "dtype", None) not in (dt.int32, np.dtype(np.int32)):
        raise wrong_call(
            f"a key is a tensor<2xi32>, not {getattr(key, 'meta', type(given).__name__)}",
            "`pirkit.random.key(seed)` makes one; of several, take one: `keys[0]`, or `vmap`",
        )
    return key


def _dimensions(shape: Any) -> Dimensions:
    found = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
    if any(n < 0 for n in found):
        raise wrong_call(f"{found} is no shape", "sizes are 0 or more")
    return found


def _float(given: DTypeLike) -> DType:
    found = element_type(given)
    if found not in (dt.float32, dt.float64):
        raise wrong_call(f"random numbers are drawn as float32 or float64, not {found}",
                     "draw float32, and convert with `astype`")  # fmt: skip
    return found
