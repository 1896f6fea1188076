"""Fourier transforms. The last dimension holds real and imaginary parts, or real numbers alone."""

from __future__ import annotations

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule


def _complex(b: NodeBuilder, x: Value) -> Value:
    """The complex numbers whose parts are the last dimension, of size 2, or 1 for reals."""
    if x.shape[-1] == 2:
        return b.as_complex(x)
    real = b.squeezed(x, (x.rank - 1,))
    return b("pd_op.complex", real, b.zeros_like(real))


def _sized(b: NodeBuilder, x: Value, axis: int, size: int) -> Value:
    """``x`` with a dimension cut, or padded with zeros behind, to a size."""
    held = b.static(x)[axis]
    if held >= size:
        return b.cut(x, axis, 0, size)
    shape = (*x.shape[:axis], size - held, *x.shape[axis + 1 :])
    return b.concat([x, b.full(shape=shape, value=0.0, dtype=x.dtype)], axis)


@rule("DFT")
def _(
    b: NodeBuilder, x: Value, dft_length: Value | None = None, axis_input: Value | None = None,
    axis: int = 1, inverse: int = 0, onesided: int = 0,
) -> Value:  # fmt: skip
    given = b.integers_of(axis_input, "axis")
    place = b.axis(given[0] if given else -2 if b.opset >= 20 else axis, x.rank)
    length = b.integers_of(dft_length, "dft_length")
    how = {"axes": (place,), "normalization": "backward", "forward": not inverse}
    if inverse and onesided:  # the input is half of the spectrum of a real signal
        size = length[0] if length else 2 * (b.static(x)[place] - 1)
        half = _complex(b, _sized(b, x, place, size // 2 + 1))
        found = b("pd_op.fft_c2r", half, last_dim_size=size, **how)
        return b.unsqueezed(found, (found.rank,))
    x = _sized(b, x, place, length[0]) if length else x
    if x.shape[-1] == 1 and not inverse:
        real = b.squeezed(x, (x.rank - 1,))
        return b.as_real(b("pd_op.fft_r2c", real, onesided=bool(onesided), **how))
    if onesided:
        raise b.unsupported("of complex numbers, onesided, has no rule")
    return b.as_real(b("pd_op.fft_c2c", _complex(b, x), **how))


@rule("STFT")
def _(
    b: NodeBuilder, signal: Value, frame_step: Value, window: Value | None = None,
    frame_length: Value | None = None, onesided: int = 1,
) -> Value:  # fmt: skip
    if len(signal.shape) == 2:  # exporters leave out the last dimension, as ONNX Runtime allows
        signal = b.reshape(signal, (*signal.shape, 1))
    (step,) = b.integers_of(frame_step, "frame_step") or [1]
    given = b.integers_of(frame_length, "frame_length")
    size = given[0] if given else b.static(window)[0] if window is not None else 0
    if size <= 0:
        raise b.unsupported("has neither a window nor a length of frames")
    count = (b.static(signal)[1] - size) // step + 1
    starts = np.arange(count)[:, None] * step + np.arange(size)
    flat = b.gather(signal, b.array(starts.ravel().astype(np.int64)), axis=1)
    frames = b.reshape(flat, (signal.shape[0], count, size, signal.shape[2]))
    if window is not None:
        frames = b.multiply(frames, b.reshape(b.cast(window, signal.dtype), (size, 1)))
    how = {"axes": (2,), "normalization": "backward", "forward": True}
    if signal.shape[2] == 1:
        real = b.squeezed(frames, (3,))
        return b.as_real(b("pd_op.fft_r2c", real, onesided=bool(onesided), **how))
    found = b.as_real(b("pd_op.fft_c2c", b.as_complex(frames), **how))
    return b.cut(found, 2, 0, size // 2 + 1) if onesided else found
