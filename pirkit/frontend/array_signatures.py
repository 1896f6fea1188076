"""The functions of the array API standard (2024.12) and their signatures, in one table.

Source: https://data-apis.org/array-api/2024.12/. Parameters before a ``/`` may be given only by
position, those after a ``*`` only by name.
"""

from __future__ import annotations

import ast
from inspect import Parameter, Signature
from typing import Any, Final

VERSION: Final = "2024.12"
OLDER: Final = ("2021.12", "2022.12", "2023.12")
"""Earlier versions, which a caller may ask for: the newest one is compatible with them."""

_ELEMENTWISE: Final = (
    ("x, /", """
        abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
        isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal
        round sign signbit sin sinh square sqrt tan tanh trunc
    """),
    ("x1, x2, /", """
        add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
        divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
        logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
        matmul linalg.matmul linalg.outer linalg.solve
    """),
    ("x, /", """
        nonzero unique_all unique_counts unique_inverse unique_values matrix_transpose
        linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.matrix_transpose linalg.slogdet
        linalg.svdvals
    """),
    ("x, /, *, axis=None, keepdims=False", "all any argmax argmin count_nonzero max mean min"),
    ("x, /, *, axis=None, dtype=None, keepdims=False", "prod sum"),
    ("x, /, *, axis=None, correction=0.0, keepdims=False", "std var"),
    ("x, /, *, axis=None, dtype=None, include_initial=False", "cumulative_prod cumulative_sum"),
    ("x, /, *, axis=-1, descending=False, stable=True", "argsort sort"),
    ("x, /, *, dtype=None, device=None", "empty_like ones_like zeros_like"),
    ("shape, *, dtype=None, device=None", "empty ones zeros"),
    ("x, /, *, k=0", "tril triu"),
    ("x1, x2, /, *, axis=-1", "vecdot linalg.vecdot linalg.cross"),
    ("x1, x2, /, *, axes=2", "tensordot linalg.tensordot"),
    ("type, /", "finfo iinfo"),
    ("x, /, *, n=None, axis=-1, norm='backward'",
     "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft"),
    ("x, /, *, s=None, axes=None, norm='backward'", "fft.fftn fft.ifftn fft.rfftn fft.irfftn"),
    ("n, /, *, d=1.0, dtype=None, device=None", "fft.fftfreq fft.rfftfreq"),
    ("x, /, *, axes=None", "fft.fftshift fft.ifftshift"),
)  # fmt: skip
"""Each signature that several functions have, with those functions."""

_SINGLE: Final = """
    arange(start, /, stop=None, step=1, *, dtype=None, device=None)
    asarray(obj, /, *, dtype=None, device=None, copy=None)
    eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
    from_dlpack(x, /, *, device=None, copy=None)
    full(shape, fill_value, *, dtype=None, device=None)
    full_like(x, /, fill_value, *, dtype=None, device=None)
    linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
    meshgrid(*arrays, indexing='xy')
    astype(x, dtype, /, *, copy=True, device=None)
    can_cast(from_, to, /)
    isdtype(dtype, kind)
    result_type(*arrays_and_dtypes)
    clip(x, /, min=None, max=None)
    take(x, indices, /, *, axis=None)
    take_along_axis(x, indices, /, *, axis=-1)
    broadcast_arrays(*arrays)
    broadcast_to(x, /, shape)
    concat(arrays, /, *, axis=0)
    expand_dims(x, /, axis)
    flip(x, /, *, axis=None)
    moveaxis(x, source, destination, /)
    permute_dims(x, /, axes)
    repeat(x, repeats, /, *, axis=None)
    reshape(x, /, shape, *, copy=None)
    roll(x, /, shift, *, axis=None)
    squeeze(x, /, axis)
    stack(arrays, /, *, axis=0)
    tile(x, repetitions, /)
    unstack(x, /, *, axis=0)
    searchsorted(x1, x2, /, *, side='left', sorter=None)
    where(condition, x1, x2, /)
    diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
    linalg.cholesky(x, /, *, upper=False)
    linalg.diagonal(x, /, *, offset=0)
    linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
    linalg.matrix_power(x, n, /)
    linalg.matrix_rank(x, /, *, rtol=None)
    linalg.pinv(x, /, *, rtol=None)
    linalg.qr(x, /, *, mode='reduced')
    linalg.svd(x, /, *, full_matrices=True)
    linalg.trace(x, /, *, offset=0, dtype=None)
    linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""
"""The functions that have a signature of their own."""


def _rows() -> dict[str, str]:
    rows = {name: text for text, names in _ELEMENTWISE for name in names.split()}
    for line in _SINGLE.strip().splitlines():
        name, _, rest = line.strip().partition("(")
        rows[name] = rest.removesuffix(")")
    return rows


ROWS: Final = _rows()
"""The parameters of each function, as text; names of extensions begin ``linalg.`` or ``fft.``."""


def signature_of(name: str) -> Signature:
    """The signature of a function of the standard, by a name of `ROWS`."""
    written = ast.parse(f"def f({ROWS[name]}): ...").body[0]
    assert isinstance(written, ast.FunctionDef)
    given = written.args
    ordered = (*given.posonlyargs, *given.args)
    defaults = (None,) * (len(ordered) - len(given.defaults)) + tuple(given.defaults)
    made = [
        _parameter(a.arg, kind, default)
        for a, default, kind in zip(
            ordered,
            defaults,
            [Parameter.POSITIONAL_ONLY] * len(given.posonlyargs)
            + [Parameter.POSITIONAL_OR_KEYWORD] * len(given.args),
            strict=True,
        )
    ]
    if given.vararg is not None:
        made.append(_parameter(given.vararg.arg, Parameter.VAR_POSITIONAL, None))
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    made += [_parameter(a.arg, Parameter.KEYWORD_ONLY, default) for a, default in pairs]
    return Signature(made)


def _parameter(name: str, kind: Any, default: ast.expr | None) -> Parameter:
    value = Parameter.empty if default is None else ast.literal_eval(default)
    return Parameter(name, kind, default=value)
