"""Factorizations and systems of equations.

Results that torch keeps for its own derivatives (factors, pivots) are not computed: where a program
reads them, torch computes the call.
"""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


def _first(b: AtenBuilder, *found: Value) -> Any:
    """The given results, with zeros for those after them; NotImplemented if one of these is read.

    The last result may be read: it is the flag of success, 0.
    """
    rest = range(len(found), len(b.shapes))
    if any(b.is_used(n) and len(b.shapes) > n + 1 for n in rest):
        return NotImplemented
    return [*found, *[b.const(0, b.types[n], b.shapes[n]) for n in rest]]


@rule("linalg_inv_ex")
def _(b: AtenBuilder, x: Value, check_errors: bool = False) -> Any:
    return NotImplemented if x.dtype.is_complex else _first(b, b.inverse(x))


@rule("_linalg_det")
def _(b: AtenBuilder, x: Value) -> Any:
    if b.is_used(1) or b.is_used(2) or x.dtype.is_complex:
        return NotImplemented
    return [b.det(x), *[b.const(0, b.types[n], b.shapes[n]) for n in (1, 2)]]


@rule("_linalg_slogdet")
def _(b: AtenBuilder, x: Value) -> Any:
    if b.is_used(2) or b.is_used(3) or x.dtype.is_complex:
        return NotImplemented
    return [*b.slogdet_v2(x), *[b.const(0, b.types[n], b.shapes[n]) for n in (2, 3)]]


@rule("linalg_cholesky_ex")
def _(b: AtenBuilder, x: Value, upper: bool = False, check_errors: bool = False) -> Any:
    return NotImplemented if x.dtype.is_complex else _first(b, b.cholesky(x, upper=upper))


@rule("cholesky")
def _(b: AtenBuilder, x: Value, upper: bool = False) -> Any:
    return NotImplemented if x.dtype.is_complex else b.cholesky(x, upper=upper)


@rule("_linalg_solve_ex")
def _(b: AtenBuilder, x: Value, y: Value, left: bool = True, check_errors: bool = False) -> Any:
    if not left or x.dtype.is_complex:
        return NotImplemented
    vector = y.rank == x.rank - 1 and y.shape == x.shape[:-1]
    found = b.solve(x, b.reshape(y, (*y.shape, 1)) if vector else y)
    return _first(b, b.reshape(found, b.shapes[0]))


@rule("linalg_solve_triangular")
def _(
    b: AtenBuilder, x: Value, y: Value, *, upper: bool, left: bool = True,
    unitriangular: bool = False,
) -> Any:  # fmt: skip
    if not left or x.dtype.is_complex:
        return NotImplemented
    return b.triangular_solve(x, y, upper=upper, unitriangular=unitriangular)


@rule("triangular_solve")
def _(
    b: AtenBuilder, y: Value, x: Value, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> Any:  # fmt: skip
    if b.is_used(1) or x.dtype.is_complex:
        return NotImplemented
    found = b.triangular_solve(x, y, upper=upper, transpose=transpose, unitriangular=unitriangular)
    return found, b.const(0, b.types[1], b.shapes[1])


@rule("_linalg_svd")
def _(b: AtenBuilder, x: Value, full: bool = False, compute_uv: bool = True, **_: Any) -> Any:
    """Singular values alone: the signs of vectors are arbitrary, so those have to be torch's."""
    if full or not compute_uv or x.dtype.is_complex or b.is_used(0) or b.is_used(2):
        return NotImplemented
    return b.svd(x, full_matrices=False)


@rule("linalg_qr")
def _(b: AtenBuilder, x: Value, mode: str = "reduced") -> Any:
    if mode != "reduced" or x.dtype.is_complex:
        return NotImplemented
    return b.qr(x, mode=mode)
