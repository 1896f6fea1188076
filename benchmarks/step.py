"""What a call of a compiled function costs beside its native code: training steps as users write
them, and the same native programs on arrays that are bound once.

They run in turn in short bursts on one thread, and `jax.jit` of the same step with them if it is
asked for; printed are the least times.

    python benchmarks/step.py [--rounds N] [--jax]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import pirkit
from pirkit import ops

BURST = 0.002
"""Seconds that a burst lasts, about: short enough that some bursts are not disturbed."""


@dataclass
class Library:
    """What the losses take from pirkit or jax."""

    tanh: Callable[..., Any]
    log_softmax: Callable[..., Any]
    vmap: Callable[..., Any]
    laplacian: Callable[..., Any]
    derivative: Callable[..., Any]
    """Of a function of one number."""


Loss = Callable[..., Any]
Problem = tuple[Callable[[Library], Loss], Any, tuple[Any, ...]]
"""A loss for a library, its parameters, and the data."""

PIRKIT = Library(
    ops.tanh, ops.log_softmax, pirkit.vmap, pirkit.laplacian,
    lambda f: lambda t: pirkit.jvp(f, (t,), (np.float32(1),))[1],
)  # fmt: skip


def jax_library() -> Library:
    import jax
    import jax.numpy as jnp

    def laplacian(f: Any) -> Any:
        return lambda x: jnp.trace(jax.hessian(f)(x))

    def derivative(f: Any) -> Any:
        return lambda t: jax.jvp(f, (t,), (jnp.float32(1),))[1]

    return Library(jnp.tanh, jax.nn.log_softmax, jax.vmap, laplacian, derivative)


RNG = np.random.default_rng(0)


def layers(*sizes: int) -> list[dict[str, Any]]:
    """Parameters of a dense network, in float32."""
    return [{"w": normal(a, b) / a**0.5, "b": np.zeros(b, np.float32)} for a, b in pairwise(sizes)]


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def network(lib: Library, params: Any, x: Any) -> Any:
    for p in params[:-1]:
        x = lib.tanh(x @ p["w"] + p["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def regression(rows: int, *sizes: int) -> Problem:
    def of(lib: Library) -> Loss:
        return lambda params, x, y: ((network(lib, params, x) - y) ** 2).mean()

    return of, layers(*sizes), (normal(rows, sizes[0]), normal(rows, sizes[-1]))


def classification() -> Problem:
    def of(lib: Library) -> Loss:
        def loss(params: Any, x: Any, y: Any) -> Any:
            return -(lib.log_softmax(network(lib, params, x)) * y).sum(axis=1).mean()

        return loss

    labels = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 128)]
    return of, layers(64, 64, 64, 10), (normal(128, 64), labels)


def beam(points: int) -> Problem:
    """Of a beam that bends under its load: the fourth derivative is the load."""

    def of(lib: Library) -> Loss:
        def loss(params: Any, at: Any, load: Any) -> Any:
            def u(t: Any) -> Any:
                return network(lib, params, t.reshape(1))[0]

            bent = u
            for _ in range(4):
                bent = lib.derivative(bent)
            return ((lib.vmap(bent)(at) - load) ** 2).mean()

        return loss

    return of, layers(1, 20, 20, 1), (normal(points), normal(points))


def poisson(points: int) -> Problem:
    def of(lib: Library) -> Loss:
        def loss(params: Any, points: Any, right: Any) -> Any:
            def u(point: Any) -> Any:
                return network(lib, params, point)[0]

            return ((lib.vmap(lib.laplacian(u))(points) + right) ** 2).mean()

        return loss

    return of, layers(2, 20, 20, 1), (normal(points, 2), normal(points))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "regression, 2-20-20-20-1, 32 rows": lambda: regression(32, 2, 20, 20, 20, 1),
    "regression, 2-20-20-20-1, 100 rows": lambda: regression(100, 2, 20, 20, 20, 1),
    "beam, 1-20-20-1, 12 points": lambda: beam(12),
    "Poisson's equation, 2-20-20-1, 100 points": lambda: poisson(100),
    "classification, 64-64-64-10, 128 rows": classification,
    "Poisson's equation, 2-20-20-1, 1000 points": lambda: poisson(1000),
}


Burst = Callable[[int], None]
"""So many steps in a loop, as users write them."""


def repeated(call: Callable[..., object], *given: Any) -> Burst:
    """Calls on up to three arguments; without the cost of a function of Python around each."""
    names = ["a", "b", "c"][: len(given)]
    lines = f"def burst(count):\n    for _ in range(count):\n        call({', '.join(names)})"
    scope = {"call": call, **dict(zip(names, given, strict=True))}
    exec(lines, scope)
    return scope["burst"]


def jax_step(problem: Problem) -> Burst:
    """The same step by jax, of arrays of its own."""
    import jax

    of, params, data = problem
    step = jax.jit(jax.value_and_grad(of(jax_library())))
    held, given = jax.device_put(params), jax.device_put(data)
    return repeated(lambda: jax.block_until_ready(step(held, *given)))


def steps(problem: Problem) -> dict[str, Burst]:
    """The step as a user writes it, the native call alone, and the same on bound arrays."""
    of, params, data = problem
    step = pirkit.jit(pirkit.value_and_grad(of(PIRKIT)))
    step(params, *data)
    (compiled,) = next(iter(step._compiled.values()))
    native = compiled.whole.native
    assert native is not None, compiled.whole.reasons
    leaves = dict(enumerate(pirkit.tree.leaves((params, *data))))
    arrays = tuple([leaves[int(name.removeprefix("x"))] for name in compiled.order])
    results = native.attempt(arrays)
    assert results is not None
    return {
        "bound": repeated(native.bind(arrays, results)),
        "jit": repeated(step, params, *data),
    }


def timed(burst: Burst, count: int) -> float:
    begin = time.perf_counter()
    burst(count)
    return (time.perf_counter() - begin) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="bursts of each")
    parser.add_argument("--jax", action="store_true", help="time jax as well")
    given = parser.parse_args()
    pirkit.config.threads = 1
    if given.jax:  # before jax is imported
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    others = f" {'jax':>8}" if given.jax else ""
    print(f"{'microseconds a step':44} {'bound':>8} {'jit':>8}{others} {'jit/bound':>10}")
    for name, make in PROBLEMS.items():
        problem = make()
        calls = steps(problem) | ({"jax": jax_step(problem)} if given.jax else {})
        count = max(1, int(BURST / (timed(calls["bound"], 50) * 1e-6)))
        times: dict[str, list[float]] = {way: [] for way in calls}
        for _ in range(given.rounds):
            for way, call in calls.items():
                times[way].append(timed(call, count))
        least = {way: min(found) for way, found in times.items()}
        shown = " ".join(f"{t:8.2f}" for t in least.values())
        print(f"{name:44} {shown} {least['jit'] / least['bound']:10.3f}", flush=True)


if __name__ == "__main__":
    main()
