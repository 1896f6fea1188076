"""Reproducible random number generators for the random ops of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import erfc, sqrt
from typing import Final

from msgspec import Struct, field

from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import np
from pirkit.runtime.plan import Call

_WORD: Final = (1 << 64) - 1


def greatest_below(low: float, high: float, dtype: DType) -> float:
    """The greatest number of a float type in [`low`, `high`); infinity if there is none.

    It bounds what is drawn in float64, of which the greatest numbers are rounded to `high`.
    """
    with np.errstate(all="ignore"):
        rounded = np.asarray(high, dtype.np)
        below = rounded if rounded < high else np.nextafter(rounded, np.asarray(-np.inf, dtype.np))
    return float(below) if low <= below else np.inf


def truncation(mean: float, std: float, a: float, b: float) -> tuple[float, float, float]:
    """Probabilities of standard normal bounds, and the factor of their quantiles: `std`, or `-std`.

    Bounds above the mean are mirrored: small probabilities keep the digits that are lost near 1.
    Both probabilities are 0 beyond 38 deviations, where the nearer bound is the number drawn.
    """
    if a > mean:
        return *truncation(-mean, std, -b, -a)[:2], -std
    low, high = (0.5 * erfc((mean - x) / ((std or 1e-300) * sqrt(2))) for x in (a, b))
    return low, high, std


class Draws(Struct):
    """The generator state of a run: the seed, the run number, and how often each op has drawn."""

    seed: int = 0
    run: int = 0
    repeats: Counter[int] = field(default_factory=Counter[int])

    def begin(self, seed: int, run: int) -> None:
        self.seed, self.run = seed, run
        self.repeats.clear()

    def generator(self, call: Call) -> Callable[[], np.random.Generator]:
        """A factory of generators that depend on seed, run and op, or on the op's own seed.

        Repeated calls of one op in a run, as in a loop, draw different numbers.
        """
        own = int(call.attrs.get("seed") or 0)
        which = call.random or 0

        def draw() -> np.random.Generator:
            repeat = self.repeats[which]
            self.repeats[which] = repeat + 1
            stream = 0 if own else (self.run << 32) + which
            key = np.array([(own or self.seed) & _WORD, stream & _WORD], dtype=np.uint64)
            return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, repeat]))

        return draw
