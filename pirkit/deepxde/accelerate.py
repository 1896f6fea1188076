"""The entry of the room: ``accelerate(model)``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from pirkit.deepxde.libraries import deepxde
from pirkit.diag.errors import ArgumentError

_BACKENDS: Final = {"pytorch": "torch_model", "paddle": "paddle_model"}


def accelerate(model: Any) -> Any:
    """Let a compiled model train in native code; returns the model.

    Call it after each ``model.compile``. The model's own Python (network, PDE, conditions,
    transforms, losses) is recorded once for each set of points; weights, moments and steps stay
    the framework's tensors, which native code updates in place, so saving, restoring and callbacks
    work as before. With Adam the whole step is native; other optimizers are the framework's, on
    native losses and gradients. What is not covered runs in the framework as before, and one line
    says why.

    Raises ArgumentError (PK0701) for a model that is not compiled, or of another backend than
    PyTorch and Paddle.
    """
    name = deepxde.backend.backend_name
    if name not in _BACKENDS:
        raise ArgumentError(
            f"`accelerate` takes models of the backends pytorch and paddle, not {name}",
            help="set DDE_BACKEND=pytorch",
        )
    if model.train_step is None:
        raise ArgumentError("the model is not compiled", help="call `model.compile(...)` before")
    import_module(f"pirkit.deepxde.{_BACKENDS[name]}").Accelerated(model)
    return model
