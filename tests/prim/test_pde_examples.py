"""The problems of `examples/pde`: losses and steps are those of jax, in one native call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.pde import NAMES, example, in_jax, jax_adam, jax_state


@pytest.mark.parametrize("name", NAMES)
def test_an_example_trains_in_one_native_call(name: str) -> None:
    module: Any = example(name)
    from pinn import adam, state  # pyright: ignore

    params, data = module.problem(n=64, dtype="float64")
    step, held, losses = adam(module.loss), state(params), list[float]()
    for _ in range(3):
        value, held = step(held, *data)
        losses.append(float(value))
    assert losses[2] < losses[0]
    ((compiled,),) = step._compiled.values()
    assert compiled.whole.native is not None

    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        lowered = jax.jit(in_jax(name, "jvp")).lower(params, *data)
        quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        expected = float(lowered.compile(compiler_options=quick)(params, *data))
    np.testing.assert_allclose(losses[0], expected, rtol=1e-10)


def test_steps_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax")
    module: Any = example(name := "inverse_heat")
    from pinn import adam, state  # pyright: ignore

    params, data = module.problem(n=64, dtype="float64")
    step, held, found = adam(module.loss), state(params), list[float]()
    with jax.enable_x64(True):
        other, theirs, expected = jax_adam(in_jax(name)), jax_state(params), list[float]()
        for _ in range(4):
            value, held = step(held, *data)
            found.append(float(value))
            value, theirs = other(theirs, *data)
            expected.append(float(value))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
