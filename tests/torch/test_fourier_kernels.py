"""Fourier transforms by torch's library, beside numpy's, in the forms that numpy has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

pytest.importorskip("torch")

import torch as torch_module

import pirkit
import pirkit.torch.fourier_kernels  # registers them
from pirkit.runtime.native.cores import at_most
from pirkit.runtime.registry import KERNELS

Array = np.ndarray[Any, Any]
torch: Any = torch_module

DRAW: Final = np.random.default_rng(5)
FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "fft": lambda x, norm: np.fft.fft(x, norm=norm),
    "ifft": lambda x, norm: np.fft.ifft(x, axis=0, norm=norm),
    "fftn": lambda x, norm: np.fft.fftn(x, norm=norm),
    "rfft": lambda x, norm: np.fft.rfft(x.real, norm=norm),
    "rfft2": lambda x, norm: np.fft.rfft2(x.real, norm=norm),
    "irfft": lambda x, norm: np.fft.irfft(x, norm=norm),
    "irfft odd": lambda x, norm: np.fft.irfft(x, n=9, axis=0, norm=norm),
    "hfft": lambda x, norm: np.fft.hfft(x, norm=norm),
    "ihfft": lambda x, norm: np.fft.ihfft(x.real, norm=norm),
}
WHOLE: Final[Array] = DRAW.standard_normal((6, 5, 8)) + 1j * DRAW.standard_normal((6, 5, 8))
ARRAYS: Final[dict[str, Array]] = {
    "rows": WHOLE,
    "reversed": WHOLE[::-1, :, ::-1],
    "strided": WHOLE[::2, :, ::2],
    "repeated": np.broadcast_to(WHOLE[0, 0], (3, 8)),
    "single": WHOLE[:1, :1],
    "in float32": WHOLE.astype(np.complex64),
}


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms(name: str, array: str, norm: str) -> None:
    function, x = FUNCTIONS[name], ARRAYS[array]
    found = np.asarray(pirkit.jit(lambda x: function(x, norm))(x))
    wanted = function(x, norm)
    exact = 2e-5 if x.dtype == np.complex64 else 1e-12
    np.testing.assert_allclose(found, wanted, rtol=exact, atol=exact * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft"])
def test_no_rows(name: str) -> None:
    """MKL refuses them."""
    found = np.asarray(pirkit.jit(lambda x: FUNCTIONS[name](x, "ortho"))(WHOLE[:0]))
    assert found.shape == FUNCTIONS[name](WHOLE[:0], "ortho").shape


@pytest.mark.parametrize("axes", [[-1], [-2, -1], [-1, 0], [2, -3]])
def test_axes_that_are_counted_from_the_end(axes: list[int]) -> None:
    """As in programs of Paddle; torch's function knows none."""
    found = pirkit.jit(
        lambda x: pirkit.ops.fft_c2c(x, axes=axes, normalization="backward", forward=True)
    )(WHOLE)
    np.testing.assert_allclose(found, np.fft.fftn(WHOLE, axes=axes), atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 7, 12, 20])
def test_spectra_that_are_cut_and_padded(size: int) -> None:
    """Torch's function wants as much as it reads, and does not look."""
    found = pirkit.jit(
        lambda x: pirkit.ops.fft_c2r(
            x, axes=[2], normalization="backward", forward=False, last_dim_size=size
        )
    )(WHOLE)
    np.testing.assert_allclose(found, np.fft.irfft(WHOLE, n=size), atol=1e-12)


def test_they_are_the_kernels_of_this_process() -> None:
    for name in ("fft_c2c", "fft_r2c", "fft_c2r"):
        sources = {k.source for k in KERNELS.kernels(f"pd_op.{name}")}
        assert any(s.startswith("pirkit.torch.fourier_kernels") for s in sources)


def test_no_more_threads_than_a_run_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    before, found = torch.get_num_threads(), list[int]()
    transform = torch._fft_c2c

    def counted(*args: Any, **options: Any) -> Any:
        found.append(torch.get_num_threads())
        return transform(*args, **options)

    monkeypatch.setattr(torch, "_fft_c2c", counted)
    torch.set_num_threads(3)
    try:
        function = pirkit.jit(lambda x: np.fft.fft(x) * 2.0)
        with at_most(1):
            np.testing.assert_allclose(function(WHOLE), np.fft.fft(WHOLE) * 2, atol=1e-12)
        assert found == [1]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
