"""Loops and their derivatives in pirkit and jax: CPU time of a call and of the first one, error.

``python -m benchmarks.loops [names]``. Both run in turn in one process; a call counts in CPU
milliseconds, the least of seven. Needs jax.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Make = Callable[[Any], Callable[..., Any]]
"""From a framework (`Ours`, `Jax`) to a function."""

DRAW = np.random.default_rng(0)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (DRAW.standard_normal(shape) * scale).astype(np.float32)


class Ours:
    """pirkit's transforms, and numpy's functions on its values."""

    def __init__(self) -> None:
        import pirkit

        self.np: Any = np
        self.jit, self.grad, self.cond = pirkit.jit, pirkit.grad, pirkit.cond
        self.fori_loop, self.scan, self.while_loop = (
            pirkit.fori_loop, pirkit.scan, pirkit.while_loop
        )  # fmt: skip
        self.leaves: Any = pirkit.tree.leaves


class Jax:
    """The same of jax."""

    def __init__(self) -> None:
        import jax

        self.np: Any = jax.numpy
        self.jit, self.grad, self.cond = jax.jit, jax.grad, jax.lax.cond
        self.fori_loop, self.scan, self.while_loop = (
            jax.lax.fori_loop, jax.lax.scan, jax.lax.while_loop
        )  # fmt: skip
        self.leaves: Any = lambda x: [v.block_until_ready() for v in jax.tree.leaves(x)]


def lorenz(f: Any) -> Any:
    def step(_: Any, s: Any, p: Any) -> Any:
        x, y, z = s
        dx, dy, dz = p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z
        return x + 0.002 * dx, y + 0.002 * dy, z + 0.002 * dz

    def run(p: Any) -> Any:
        one = p[0] * 0 + 1.0
        return f.scan(lambda s, _: (step(0, s, p), None), (one, one, one), None, length=1000)[0][0]

    return run


def runge_kutta(f: Any) -> Any:
    def run(k: Any, y: Any) -> Any:
        def slope(y: Any) -> Any:
            return f.np.stack([y[1], -k[0] * y[0] - k[1] * y[1]])

        def step(y: Any, _: Any) -> Any:
            a = slope(y)
            b = slope(y + 0.005 * a)
            c = slope(y + 0.005 * b)
            y = y + 0.01 / 6 * (a + 2 * b + 2 * c + slope(y + 0.01 * c))
            return y, y

        return f.scan(step, y, None, length=500)[1][:, 0].sum()

    return run


def newton(f: Any) -> Any:
    def run(a: Any) -> Any:
        far = lambda r: f.np.abs(r * r - a) > 1e-5 * a  # noqa: E731
        return f.while_loop(far, lambda r: (r + a / r) / 2, a)

    return run


def lstm(f: Any) -> Any:
    def run(w: Any, rows: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            h, c = s
            z = f.np.concatenate([x, h], 1) @ w
            i, keep, g, o = (z[:, k * 64 : (k + 1) * 64] for k in range(4))
            i, keep, o = (1 / (1 + f.np.exp(-v)) for v in (i, keep, o))
            c = keep * c + i * f.np.tanh(g)
            h = o * f.np.tanh(c)
            return (h, c), h

        first = f.np.zeros((8, 64), "float32")
        return (f.scan(step, (first, first), rows)[1] ** 2).sum()

    return run


def heat(f: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        around = sum(f.np.roll(u, d, a) for d in (1, -1) for a in (0, 1))
        return u + 0.1 * (around - 4 * u)

    return lambda u: f.fori_loop(0, 100, step, u)


def wave(f: Any) -> Any:
    def step(s: Any, _: Any) -> Any:
        u, v = s
        return (2 * u - v + 0.2 * (f.np.roll(u, 1) - 2 * u + f.np.roll(u, -1)), u), u[0]

    return lambda u: (f.scan(step, (u, u), None, length=300)[1] ** 2).sum()


def branches(f: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return f.cond(x.sum() > 0, lambda x: x * 0.9 - 0.1, lambda x: x * 1.1 + 0.2, x)

    return lambda x: f.fori_loop(0, 200, step, x).sum()


def nested(f: Any) -> Any:
    def run(a: Any) -> Any:
        inner = lambda _, x: f.fori_loop(0, 5, lambda _, y: f.np.sin(y) + a, x) * 0.5  # noqa: E731
        return f.fori_loop(0, 40, inner, a)

    return run


def kalman(f: Any) -> Any:
    seen, noise = np.eye(2, 4, dtype=np.float32), 0.01 * np.eye(4, dtype=np.float32)

    def run(moves: Any, rows: Any) -> Any:
        def step(s: Any, z: Any) -> Any:
            x, p = s
            x, p = moves @ x, moves @ p @ moves.T + noise
            c = seen @ p @ seen.T + 0.1 * np.eye(2, dtype=np.float32)
            turned = f.np.stack([f.np.stack([c[1, 1], -c[0, 1]]), f.np.stack([-c[1, 0], c[0, 0]])])
            inverse = turned / (c[0, 0] * c[1, 1] - c[0, 1] * c[1, 0])
            gain, y = p @ seen.T @ inverse, z - seen @ x
            p = (np.eye(4, dtype=np.float32) - gain @ seen) @ p
            return (x + gain @ y, p), (y * (inverse @ y)).sum()

        start = f.np.zeros(4, "float32"), f.np.eye(4, dtype="float32")
        return f.scan(step, start, rows)[1].sum()

    return run


def sums(f: Any) -> Any:
    return lambda x: f.scan(lambda c, v: (c * 0.5 + v, c), x[0], x)[1]


MOVES = np.eye(4, dtype=np.float32) + 0.1 * np.eye(4, k=2, dtype=np.float32)
LORENZ, SPRING = np.array([10, 28, 8 / 3], np.float32), np.array([4, 0.1], np.float32)
LOOPS: dict[str, tuple[Make, tuple[Any, ...], tuple[bool, ...]]] = {
    # name: function, arguments, whether to differentiate
    "Lorenz, 1000 Euler steps": (lorenz, (LORENZ,), (False, True)),
    "spring, 500 Runge-Kutta steps": (runge_kutta, (SPRING, SPRING), (False, True)),
    "Newton until it converges": (newton, (np.float32(37),), (False,)),
    "LSTM, 50 steps of 8x64": (
        lstm,
        (normal(96, 256, scale=0.1), normal(50, 8, 32)),
        (False, True),
    ),
    "heat 256x256, 100 steps": (heat, (normal(256, 256),), (False,)),
    "wave of 256, 300 steps": (wave, (normal(256),), (False, True)),
    "200 branches": (branches, (normal(8),), (False, True)),
    "loop in a loop, 40x5": (nested, (np.float32(0.3),), (False, True)),
    "Kalman filter, 100 steps": (kalman, (MOVES, normal(100, 2)), (False, True)),
    "running sums of 10,000": (sums, (normal(10_000),), (False,)),
}


def cpu_ms(call: Callable[[], Any], count: int = 7) -> float:
    """The least CPU time of some calls."""
    found: list[float] = []
    for _ in range(count):
        before = time.process_time()
        call()
        found.append((time.process_time() - before) * 1e3)
    return min(found)


def called(f: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: f.leaves(function(*arguments))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", default=list(LOOPS))
    names = parser.parse_args().names
    frameworks = Ours(), Jax()
    print("| loop | pirkit | jax | jax / pirkit | first calls, s | difference |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in names:
        make, arguments, derivatives = LOOPS[name]
        for derived in derivatives:
            calls, firsts, results = list[Callable[[], Any]](), list[float](), list[Any]()
            for f in frameworks:
                function = f.jit(f.grad(make(f)) if derived else make(f))
                calls.append(called(f, function, arguments))
                firsts.append(cpu_ms(calls[-1], 1) / 1e3)
                results.append([np.asarray(v) for v in calls[-1]()])
            error = max(
                float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-9))
                for x, y in zip(*results, strict=True)
            )
            ours, theirs = map(cpu_ms, calls)
            title = f"{name}, gradient" if derived else name
            print(f"| {title} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} | "
                  f"{firsts[0]:.2f} / {firsts[1]:.2f} | {error:.0e} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
