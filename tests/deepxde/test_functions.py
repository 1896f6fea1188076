"""Recorded functions have torch's values and derivatives, also where they have a kink."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit

os.environ["DDE_BACKEND"] = "pytorch"
torch: Any = pytest.importorskip("torch")
dde: Any = pytest.importorskip("deepxde")
if dde.backend.backend_name != "pytorch":
    pytest.skip("deepxde runs on another backend", allow_module_level=True)

from pirkit.deepxde.probes import Probe, Recording  # noqa: E402
from pirkit.deepxde.torch_functions import call  # noqa: E402
from pirkit.frontend.tracing import trace  # noqa: E402

F: Final[Any] = torch.nn.functional
POINTS: Final = np.array([[0, -0.0, 0.5, -0.5], [1, -1, 2, 2], [-3, 2.7, np.inf, np.nan]])
FINITE: Final = np.array([[0.5, 0, 3, 3], [2, 2, -1, 0.5], [-3, 3, 0.25, 1]])

CASES: Final[dict[str, tuple[Callable[[Any], Any], Any]]] = {
    "clamp": (lambda x: x.clamp(-0.5, 2.0), POINTS),
    "clamp by name": (lambda x: torch.clamp(x, max=0.5), POINTS),
    "clamp by a tensor": (lambda x: x.clamp(min=x.detach() * 0 + 0.5), POINTS),
    "clamp of a slice": (lambda x: x[1:].clamp(-0.5, 2.0) * x[1:], FINITE),
    "clip in place": (lambda x: (x * 1).clip_(-0.5, 2.0), POINTS),
    "fmod": (lambda x: torch.fmod(x, 1.5), POINTS),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), POINTS),
    "elu": (lambda x: torch.nn.ELU(2.0, inplace=True)(x * 1), POINTS),
    "selu": (torch.selu, POINTS),
    "sign": (lambda x: torch.sign(x) * x, POINTS),
    "float_power": (lambda x: torch.float_power(x, 3), FINITE.astype(np.float32)),
    "amax of rows": (lambda x: torch.amax(x, 0), FINITE),
    "amin of rows": (lambda x: x.amin(dim=0, keepdim=True), FINITE),
    "amax of all": (lambda x: x.amax([]), FINITE),
    "mean of all": (lambda x: (x * x).mean([]), FINITE),
    "squeeze": (lambda x: (x * x)[None, None].squeeze((0, 1)), FINITE),
}


def derived(f: Callable[[Any], Any], x: Any) -> list[Any]:
    """The result of a function, and its first and second derivative by ``x``."""
    x.requires_grad_()
    found = [f(x)]
    for _ in range(2):
        y = found[-1]
        if isinstance(y, Probe) or y.requires_grad:
            weights = torch.arange(1, y.numel() + 1, dtype=y.dtype).reshape(y.shape)
            found += torch.autograd.grad((y * weights).sum(), x, create_graph=True)
    return found


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_torch(name: str) -> None:
    f, x = CASES[name]
    recordings: list[Any] = []

    def recorded(value: Any) -> list[Any]:
        recording = Recording({0: value}, value.shape[0], call)
        recordings.append(recording)
        with recording:
            return [recording.whole(y) for y in derived(f, Probe.of(value))]

    traced = trace(recorded, (x,))
    ours = pirkit.compile(traced.program).run({"x0": x, **traced.captured})
    theirs = [y.numpy(force=True) for y in derived(f, torch.from_numpy(x.copy()))]
    for have, want in zip(ours.values(), theirs, strict=False):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-12)
