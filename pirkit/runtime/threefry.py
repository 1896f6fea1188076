"""The cipher Threefry-2x32 with 20 rounds, behind random numbers from keys (`pirkit.random`).

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pirkit.runtime.lazy_numpy import np

_PARITY: Final = 0x1BD11BDA
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Distances of a group of four rounds; groups alternate."""
_GROUPS: Final = 5


def cipher(
    words: tuple[Any, Any], counter: tuple[Any, Any], rotated: Callable[[Any, int], Any]
) -> tuple[Any, Any]:
    """Both words for a key and a counter, of any type with ``+`` and ``^`` on 32 bits."""
    schedule = (*words, words[0] ^ words[1] ^ _PARITY)
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(_GROUPS):
        for distance in _ROTATIONS[group % 2]:
            x = x + y
            y = rotated(y, distance) ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + (group + 1)
    return x, y


def threefry(key0: Any, key1: Any, x: Any, y: Any, word: int, xp: Any = np) -> Any:
    """The first or the second word for arrays of int32, with the array module ``xp``."""
    shape = np.broadcast_shapes(*(v.shape for v in (key0, key1, x, y)))
    given = [xp.atleast_1d(v).view(xp.uint32) for v in (key0, key1, x, y)]
    found = cipher((given[0], given[1]), (given[2], given[3]), _rotated)[word]
    return xp.broadcast_to(found, shape or (1,)).reshape(shape).view(xp.int32)


def _rotated(x: Any, distance: int) -> Any:
    return x << np.uint32(distance) | x >> np.uint32(32 - distance)
