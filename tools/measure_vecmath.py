"""Measures the vector math over every float32 and prints the table of docs/native.md.

The exact values are computed by the same functions in float64, whose own errors (a few units in the
last of 53 bits, tested against wider floats in tests/codegen) are invisible in 24 bits.

    python tools/measure_vecmath.py [--step N] [FUNCTION...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from pirkit.lowering.codegen.emit.compile import native_function
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, LoopPhase, Operand, Store
from pirkit.runtime.dtype import DType, float32, float64

Array = np.ndarray[Any, Any]
CHUNK = 1 << 20
FUNCTIONS = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "erf", "rsqrt",
             "sqrt", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
             "log2", "log10")  # fmt: skip


def bound(primitive: str, dtype: DType) -> tuple[Array, Array, Callable[[], None]]:
    one = Operand(dtype, (dtype.itemsize,), (), CHUNK * dtype.itemsize)
    body = (Load("x", 0), Compute("y", primitive, ("x",), dtype), Store(1, "y"))
    x, y = np.zeros(CHUNK, dtype.np), np.zeros(CHUNK, dtype.np)
    kernel = Kernel((CHUNK,), (), (one, one), (LoopPhase(body),))
    return x, y, native_function(kernel).bind([x, y])


def measure(primitive: str, step: int) -> tuple[float, float, float]:
    """Largest error, where, and mean error, in ULP."""
    x, y, single = bound(primitive, float32)
    wide, exact, double = bound(primitive, float64)
    worst, where, total, count = 0.0, 0.0, 0.0, 0
    for start in range(0, 2**32, CHUNK * step):
        bits = np.arange(start, min(start + CHUNK * step, 2**32), step, dtype=np.uint64)
        x[: len(bits)] = bits.astype(np.uint32).view(np.float32)
        wide[...] = x
        single()
        double()
        nearest = exact.astype(np.float32)
        finite = np.isfinite(nearest)
        if not ((y == nearest) | finite | (np.isnan(y) & np.isnan(nearest))).all():
            raise SystemExit(f"{primitive}: a special value is wrong")
        _, exponent = np.frexp(nearest)
        size = np.ldexp(1.0, np.maximum(exponent, -125) - 24)
        error = np.where(finite, np.abs(y - exact) / size, 0)
        if error.max() > worst:
            worst, where = float(error.max()), float(x[error.argmax()])
        total, count = total + float(error.sum()), count + int(finite.sum())
    return worst, where, total / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("functions", nargs="*", default=FUNCTIONS)
    parser.add_argument("--step", type=int, default=1)
    options = parser.parse_args()
    print("| function | largest error (ULP) | at | mean error |\n|---|---|---|---|")
    with np.errstate(all="ignore"):
        for name in options.functions:
            worst, where, mean = measure(name, options.step)
            print(f"| `{name}` | {worst:.3f} | {where:.9g} | {mean:.3f} |", flush=True)


if __name__ == "__main__":
    main()
