"""Complex numbers and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule

_SCALED: Final = {
    # torch's number: normalization of the forward transform, and of the inverse
    0: ("backward", "forward"),
    1: ("ortho", "ortho"),
    2: ("forward", "backward"),
}


@rule("_fft_r2c")
def _(b: AtenBuilder, x: Value, dim: Sequence[int], scaling: int, onesided: bool) -> Value:
    return b.fft_r2c(x, axes=b.axes(x, dim), normalization=_SCALED[scaling][0], forward=True,
                     onesided=onesided)  # fmt: skip


@rule("_fft_c2c")
def _(b: AtenBuilder, x: Value, dim: Sequence[int], scaling: int, forward: bool) -> Value:
    return b.fft_c2c(x, axes=b.axes(x, dim), normalization=_SCALED[scaling][not forward],
                     forward=forward)  # fmt: skip


@rule("_fft_c2r")
def _(b: AtenBuilder, x: Value, dim: Sequence[int], scaling: int, last: int) -> Value:
    return b.fft_c2r(x, axes=b.axes(x, dim), normalization=_SCALED[scaling][1], forward=False,
                     last_dim_size=last)  # fmt: skip


@rule("view_as_real", "view_as_real_copy")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.as_real(x)


@rule("view_as_complex", "view_as_complex_copy")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.as_complex(x)


@rule("real", "imag")
def _(b: AtenBuilder, x: Value) -> Any:
    return b("pd_op.real" if "real" in str(b.node.target) else "pd_op.imag", x)


@rule("complex")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    return b.complex(x, y)


@rule("polar")
def _(b: AtenBuilder, x: Value, angle: Value) -> Value:
    return b.complex(b.multiply(x, b.cos(angle)), b.multiply(x, b.sin(angle)))


@rule("_conj", "_conj_physical", "conj_physical", "_conj_copy")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.conj(x) if x.dtype.is_complex else x


@rule("resolve_conj", "resolve_neg")
def _(b: AtenBuilder, x: Value) -> Value:
    return x


@rule("angle")
def _(b: AtenBuilder, x: Value) -> Any:
    return b.angle(x) if x.dtype.is_complex or x.dtype.is_float else NotImplemented
