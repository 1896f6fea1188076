"""What a call of a compiled function costs beside its native code: training steps as users write
them, and the same native programs on arrays that are bound once.

Both run in turn in short bursts of CPU time on one thread; printed are the least times.

    python benchmarks/step.py [--rounds N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import pirkit
from pirkit import ops

BURST = 0.02
"""Seconds that a burst lasts, about."""

Problem = tuple[Callable[..., Any], Any, tuple[Any, ...]]
"""A loss, its parameters, and the data."""

RNG = np.random.default_rng(0)


def layers(*sizes: int) -> list[dict[str, Any]]:
    """Parameters of a dense network, in float32."""
    return [{"w": normal(a, b) / a**0.5, "b": np.zeros(b, np.float32)} for a, b in pairwise(sizes)]


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def network(params: Any, x: Any) -> Any:
    for p in params[:-1]:
        x = ops.tanh(x @ p["w"] + p["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def regression() -> Problem:
    def loss(params: Any, x: Any, y: Any) -> Any:
        return ((network(params, x) - y) ** 2).mean()

    return loss, layers(2, 20, 20, 20, 1), (normal(32, 2), normal(32, 1))


def classification() -> Problem:
    def loss(params: Any, x: Any, y: Any) -> Any:
        return -(ops.log_softmax(network(params, x)) * y).sum(axis=1).mean()

    labels = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 128)]
    return loss, layers(64, 64, 64, 10), (normal(128, 64), labels)


def poisson() -> Problem:
    def loss(params: Any, points: Any, right: Any) -> Any:
        def u(point: Any) -> Any:
            return network(params, point)[0]

        residual = pirkit.vmap(pirkit.laplacian(u))(points) + right
        return (residual**2).mean()

    return loss, layers(2, 20, 20, 1), (normal(200, 2), normal(200))


PROBLEMS = {
    "regression, 2-20-20-20-1, 32 rows": regression,
    "classification, 64-64-64-10, 128 rows": classification,
    "Poisson's equation, 2-20-20-1, 200 points": poisson,
}


def steps(problem: Problem) -> dict[str, Callable[[], object]]:
    """The step as a user writes it, the native call alone, and the same on bound arrays."""
    loss, params, data = problem
    step = pirkit.jit(pirkit.value_and_grad(loss))
    step(params, *data)
    (compiled,) = next(iter(step._compiled.values()))
    native = compiled.whole.native
    assert native is not None, compiled.whole.reasons
    leaves = dict(enumerate(pirkit.tree.leaves((params, *data))))
    arrays = tuple([leaves[int(name.removeprefix("x"))] for name in compiled.order])
    results = native.attempt(arrays)
    assert results is not None
    return {
        "bound": native.bind(arrays, results),
        "native": lambda: native.attempt(arrays),
        "jit": lambda: step(params, *data),
    }


def timed(call: Callable[[], object], count: int) -> float:
    begin = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begin) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="bursts of each")
    rounds = parser.parse_args().rounds
    pirkit.threads(1)
    print(f"{'microseconds a step':44} {'bound':>8} {'native':>8} {'jit':>8} {'of bound':>9}")
    for name, problem in PROBLEMS.items():
        calls = steps(problem())
        count = max(1, int(BURST / (timed(calls["bound"], 50) * 1e-6)))
        times: dict[str, list[float]] = {way: [] for way in calls}
        for _ in range(rounds):
            for way, call in calls.items():
                times[way].append(timed(call, count))
        least = {way: min(found) for way, found in times.items()}
        shown = " ".join(f"{t:8.2f}" for t in least.values())
        ratio = least["jit"] / least["bound"]
        print(f"{name:44} {shown} {ratio:9.3f}")


if __name__ == "__main__":
    main()
