"""numpy functions of traced values that are composed of others: products, joins, NaN, order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pirkit.diag.limits import check
from pirkit.dialect.build import Builder, Value
from pirkit.frontend.indexing import elements_at
from pirkit.frontend.numpy_rules import FUNCTIONS, function, together, value_of
from pirkit.frontend.numpy_ufuncs import apply_ufunc, dtype_of, held, is_number, refused, size_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.tensor.methods import Axis


def _call(b: Builder, name: str, *args: Any, **options: Any) -> Any:
    """A rule of the table, or a ufunc."""
    rule = FUNCTIONS.get(name)
    return rule(b, *args, **options) if rule else apply_ufunc(b, getattr(np, name), args)


# --- products ---


@function("einsum")
def _einsum(b: Builder, subscripts: Any, *operands: Any, **options: Any) -> Value:
    if not isinstance(subscripts, str) or not options.keys() <= {"optimize"}:
        raise refused("`einsum` in this form", "`einsum('ij,jk->ik', x, y)`")
    text = subscripts.replace(" ", "")
    if "->" not in text:  # numpy's rule: letters that occur once, in order
        letters = sorted({c for c in text if c.isalpha() and text.count(c) == 1})
        text += "->" + ("..." if "..." in text else "") + "".join(letters)
    found = b("pd_op.einsum", together(b, *operands), equation=text)
    return cast(Value, found[0] if isinstance(found, tuple) else found)


@function("inner")
def _inner(b: Builder, x: Any, y: Any) -> Value:
    x, y = together(b, x, y)
    if not x.rank or not y.rank:
        return _call(b, "multiply", x, y)
    return _call(b, "tensordot", x, y, axes=((-1,), (-1,)))


@function("vdot")
def _vdot(b: Builder, x: Any, y: Any) -> Value:
    return _call(b, "vecdot", _call(b, "ravel", x), _call(b, "ravel", y))


@function("kron")
def _kron(b: Builder, x: Any, y: Any) -> Value:
    x, y = together(b, x, y)
    rank = max(x.rank, y.rank)
    left, right = ((1,) * (rank - v.rank) + v.shape for v in (x, y))
    one = b.reshape(x, [n for size in left for n in (size, 1)])
    other = b.reshape(y, [n for size in right for n in (1, size)])
    shape = [m * n for m, n in zip(left, right, strict=True)]
    return b.reshape(_call(b, "multiply", one, other), shape)


@function("linalg.multi_dot")
def _multi_dot(b: Builder, arrays: Sequence[Any]) -> Value:
    found, *rest = factors = together(b, *arrays)
    if found.dtype.is_float:
        return b.multi_dot(list(factors))
    for each in rest:
        found = _call(b, "matmul", found, each)
    return found


@function("diag")
def _diag(b: Builder, v: Any, k: int = 0) -> Value:
    v = value_of(b, v)
    return b.diag(v, offset=k, padding_value=0.0) if v.rank == 1 else _call(b, "diagonal", v, k)


@function("polyval")
def _polyval(b: Builder, p: Any, x: Any) -> Value:
    found, *rest = list(cast(Any, value_of(b, p)))
    if not is_number(x):  # a constant polynomial has the shape of `x`, too
        found = _call(b, "add", _call(b, "multiply", x, 0), found)
    for each in rest:
        found = _call(b, "add", _call(b, "multiply", found, x), each)
    return found


# --- joins and splits ---


def _at_least(rank: int) -> Callable[..., Any]:
    def one(b: Builder, x: Any) -> Value:
        x = value_of(b, x)
        if x.rank >= rank:
            return x
        # For rank 3 numpy makes (1, N, 1) of (N,), and (M, N, 1) of (M, N).
        lead = 1 if rank == 3 and x.rank == 1 else rank - x.rank
        shape = (1,) * lead + x.shape
        return b.reshape(x, (*x.shape, 1) if (rank, x.rank) == (3, 2) else
                         (*shape, *(1,) * (rank - len(shape))))  # fmt: skip

    def rule(b: Builder, *arrays: Any) -> Any:
        found = tuple([one(b, x) for x in arrays])
        return found[0] if len(found) == 1 else found

    return rule


for _rank in (1, 2, 3):
    function(f"atleast_{_rank}d")(_at_least(_rank))


@function("column_stack")
def _column_stack(b: Builder, arrays: Sequence[Any]) -> Value:
    parts = [value_of(b, x) for x in arrays]
    columns = [b.reshape(x, (-1, 1)) if x.rank < 2 else x for x in parts]
    return _call(b, "concatenate", columns, axis=1)


@function("dstack")
def _dstack(b: Builder, arrays: Sequence[Any]) -> Value:
    return _call(b, "concatenate", [_call(b, "atleast_3d", x) for x in arrays], axis=2)


@function("append")
def _append(b: Builder, arr: Any, values: Any, axis: int | None = None) -> Value:
    return _call(b, "concatenate", [value_of(b, arr), value_of(b, values)], axis=axis)


@function("array_split")
def _array_split(b: Builder, x: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    x = value_of(b, x)
    axis = normalize_axis_index(axis, x.rank)
    if not np.iterable(indices_or_sections):
        check("list_elements", index(indices_or_sections))
    split: Any = np.array_split
    places: list[Any] = split(np.arange(size_of(x, axis)), indices_or_sections)
    front = (slice(None),) * axis
    ends = [(int(p[0]), int(p[-1]) + 1) if len(p) else (0, 0) for p in places]
    return [x[(*front, slice(*end))] for end in ends]


@function("split")
def _split(b: Builder, x: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    x = value_of(b, x)
    size = size_of(x, normalize_axis_index(axis, x.rank))
    if not np.iterable(indices_or_sections) and size % index(indices_or_sections):
        raise refused(f"`split` of {size} rows into {indices_or_sections}", "take `array_split`")
    return _array_split(b, x, indices_or_sections, axis)


@function("hsplit")
def _hsplit(b: Builder, x: Any, indices_or_sections: Any) -> list[Value]:
    return _split(b, x, indices_or_sections, 1 if value_of(b, x).rank > 1 else 0)


@function("vsplit")
def _vsplit(b: Builder, x: Any, indices_or_sections: Any) -> list[Value]:
    return _split(b, x, indices_or_sections, 0)


@function("pad")
def _pad(b: Builder, array: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Value:
    x = value_of(b, array)
    widths = np.broadcast_to(np.asarray(pad_width), (x.rank, 2))
    value: Any = options.pop("constant_values", 0)
    value = cast(Any, value).item() if isinstance(value, np.generic) else value
    if options or not isinstance(value, int | float):
        raise refused(f"`pad` with {mode} and {', '.join(options) or 'several values'}",
                      "give one number as `constant_values`")  # fmt: skip
    if mode == "constant":
        paddings = [int(n) for n in widths.reshape(-1)]
        return b.pad(x, paddings=paddings, pad_value=held(value, x.dtype)) if x.rank else x
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise refused(f"`pad` with mode {mode!r}", "take constant, edge, reflect, symmetric, wrap")
    # numpy itself pads the indices of each axis, and the elements are gathered at them.
    for axis, n in enumerate(widths):
        places = np.pad(np.arange(size_of(x, axis)), tuple(n), mode=cast(Any, mode))
        x = elements_at(b, x, places, axis) if any(n) else x
    return x


@function("fliplr")
def _fliplr(b: Builder, x: Any) -> Value:
    return _call(b, "flip", x, axis=1)


@function("flipud")
def _flipud(b: Builder, x: Any) -> Value:
    return _call(b, "flip", x, axis=0)


@function("rot90")
def _rot90(b: Builder, x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Value:
    x = value_of(b, x)
    for _ in range(k % 4):
        x = _call(b, "flip", _call(b, "swapaxes", x, *axes), axis=axes[0])
    return x


@function("select")
def _select(b: Builder, condlist: Any, choicelist: Any, default: Any = 0) -> Value:
    found = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        found = _call(b, "where", condition, choice, found)
    return found


@function("i0")
def _i0(b: Builder, x: Any) -> Value:
    x = value_of(b, x)
    if x.dtype.is_complex:
        raise refused(f"`i0` of a {x.meta}", "take it of real numbers, as numpy does")
    return b.i0(x if x.dtype.is_float else b.cast(x, dt.float64))


@function("piecewise")
def _piecewise(b: Builder, x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Value:
    """Functions get all elements; the last condition that holds decides, as in NumPy."""
    x = value_of(b, x)
    several = isinstance(condlist, list | tuple)
    conditions: list[Any] = list(cast("list[Any]", condlist)) if several else [condlist]
    *choices, default = funclist if len(funclist) > len(conditions) else [*funclist, 0]
    found = default(x, *args, **kw) if callable(default) else default
    for condition, choice in zip(conditions, choices, strict=True):
        made = choice(x, *args, **kw) if callable(choice) else choice
        found = _call(b, "where", condition, made, found)
    return b.cast(_call(b, "broadcast_to", found, x.shape), x.dtype)


# --- NaN, infinities and comparisons ---


def _without_nan(name: str, fill: float) -> Callable[..., Any]:
    def rule(b: Builder, a: Any, axis: Axis = None, keepdims: bool = False) -> Value:
        x = value_of(b, a)
        if not (x.dtype.is_float or x.dtype.is_complex):
            return _call(b, name, x, axis=axis, keepdims=keepdims)
        nan = _call(b, "isnan", x)
        found = _call(b, name, _call(b, "where", nan, fill, x), axis=axis, keepdims=keepdims)
        if name not in ("max", "min"):
            return found
        # Of NaN only, the result is NaN.
        return _call(b, "where", _call(b, "all", nan, axis=axis, keepdims=keepdims), np.nan, found)

    return rule


for _name, _fill in (("sum", 0.0), ("prod", 1.0), ("max", -np.inf), ("min", np.inf)):
    function(f"nan{_name}")(_without_nan(_name, _fill))


def _accumulated_without_nan(name: str, fill: float) -> Callable[..., Any]:
    def rule(b: Builder, a: Any, axis: int | None = None, dtype: Any = None) -> Value:
        x = value_of(b, a)
        if x.dtype.is_float or x.dtype.is_complex:
            x = _call(b, "where", _call(b, "isnan", x), fill, x)
        return _call(b, name, x, axis=axis, dtype=dtype)

    return rule


for _name, _fill in (("cumsum", 0.0), ("cumprod", 1.0)):
    function(f"nan{_name}")(_accumulated_without_nan(_name, _fill))


@function("nan_to_num")
def _nan_to_num(
    b: Builder, x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Value:
    x = value_of(b, x)
    if x.dtype.is_complex:
        parts = [b.real(x), b.imag(x)]
        return b.complex(*[_nan_to_num(b, p, copy, nan, posinf, neginf) for p in parts])
    if not x.dtype.is_float:
        return x
    info = x.dtype.limits
    found = _call(b, "where", _call(b, "isnan", x), nan, x)
    for bound, given, limit in ((np.inf, posinf, info.max), (-np.inf, neginf, info.min)):
        put = float(limit if given is None else given)
        found = _call(b, "where", _call(b, "equal", found, bound), put, found)
    return found


@function("isclose")
def _isclose(
    b: Builder, a: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Value:
    kind = dtype_of(other) if not is_number(other) else None
    if kind is not None and not (kind.is_float or kind.is_complex):
        other = _call(b, "astype", other, np.float64)  # so that no difference overflows
    x, y = together(b, a, other)
    near = _call(b, "absolute", _call(b, "subtract", x, y))
    bound = _call(b, "add", atol, _call(b, "multiply", rtol, _call(b, "absolute", y)))
    finite = _call(b, "isfinite", y)
    found = (_call(b, "less_equal", near, bound) & finite) | _call(b, "equal", x, y)
    return found | (_call(b, "isnan", x) & _call(b, "isnan", y)) if equal_nan else found


@function("allclose")
def _allclose(b: Builder, a: Any, other: Any, **options: Any) -> Value:
    return _call(b, "all", _isclose(b, a, other, **options))


@function("array_equal")
def _array_equal(b: Builder, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    x, y = value_of(b, a1), value_of(b, a2)
    if x.shape != y.shape:
        return False
    same = _call(b, "equal", x, y)
    if equal_nan:
        nan = [_call(b, "not_equal", v, v) for v in (x, y)]
        same = _call(b, "logical_or", same, _call(b, "logical_and", *nan))
    return _call(b, "all", same)


# --- order and sums ---


@function("ptp")
def _ptp(b: Builder, a: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    high, low = (_call(b, n, a, axis=axis, keepdims=keepdims) for n in ("max", "min"))
    return _call(b, "subtract", high, low)


@function("trapezoid")
def _trapezoid(b: Builder, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Value:
    y = value_of(b, y)
    at = normalize_axis_index(axis, y.rank)
    is_line = np.ndim(x) == 1
    width = dx if x is None else _call(b, "diff", x, axis=-1 if is_line else axis)
    if x is not None and is_line:
        width = _call(b, "reshape", width, (-1, *(1,) * (y.rank - 1 - at)))
    front = (slice(None),) * at
    pairs = y[(*front, slice(1, None))] + y[(*front, slice(None, -1))]
    return _call(b, "sum", _call(b, "multiply", pairs, width) / 2, axis=axis)


@function("convolve")
def _convolve(b: Builder, a: Any, v: Any, mode: str = "full") -> Value:
    x, y = together(b, a, v)
    if size_of(x, 0) < size_of(y, 0):
        x, y = y, x
    n, m = x.shape[0], y.shape[0]
    # A convolution is a correlation with the flipped operand: `conv2d` of floats, and of integers,
    # which that op does not take, the product of all windows with the operand.
    y = _call(b, "flip", y)
    if x.meta.dtype.is_float:
        line, taps = (b.reshape(v, (1, 1, 1, v.shape[0])) for v in (x, y))
        found: Any = b.reshape(b.conv2d(line, taps, paddings=(0, m - 1)), (n + m - 1,))
    else:
        padded: Any = _pad(b, x, m - 1)
        rows = padded[np.arange(n + m - 1)[:, None] + np.arange(m)]
        found = _call(b, "matmul", rows, y)
    start, stop = {"full": (0, n + m - 1), "same": ((m - 1) // 2, (m - 1) // 2 + n),
                   "valid": (m - 1, n)}[mode]  # fmt: skip
    return found[start:stop]


@function("angle")
def _angle(b: Builder, z: Any, deg: bool = False) -> Value:
    imaginary = _call(b, "imag", z) if dtype_of(z).is_complex else 0
    found = _call(b, "arctan2", imaginary, _call(b, "real", z))
    return _call(b, "rad2deg", found) if deg else found


@function("iscomplexobj")
def _iscomplexobj(b: Builder, x: Any) -> bool:
    return dtype_of(x).is_complex
