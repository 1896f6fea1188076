"""The arena allocator: live ranges never overlap, and free ones are used again."""

from __future__ import annotations

from random import Random

import pytest

from pirkit.runtime.arena import ALIGNMENT, Arena


@pytest.mark.parametrize("reuse", [True, False])
def test_live_ranges_are_apart_aligned_and_inside(reuse: bool) -> None:
    draw, arena = Random(1), Arena(reuse)
    live: list[tuple[int, int]] = []
    for _ in range(400):
        if live and draw.random() < 0.5:
            arena.give(*live.pop(draw.randrange(len(live))))
            continue
        nbytes = draw.randrange(1, 700)
        start = arena.take(nbytes)
        assert start % ALIGNMENT == 0
        assert start + nbytes <= arena.size
        assert all(start + nbytes <= s or s + n <= start for s, n in live)
        live.append((start, nbytes))


def test_a_freed_range_serves_a_request_of_its_size() -> None:
    arena = Arena()
    first, _ = arena.take(128), arena.take(64)
    arena.give(first, 128)
    assert (arena.take(128), arena.size) == (first, 192)


def test_the_smallest_range_that_fits_is_taken_and_its_rest_stays_free() -> None:
    arena = Arena()
    large, _, small, _ = (arena.take(n * 64) for n in (4, 1, 2, 1))
    arena.give(large, 4 * 64)
    arena.give(small, 2 * 64)
    assert arena.take(64) == small
    assert arena.take(64) == small + 64
    assert arena.take(4 * 64) == large
    assert arena.size == 8 * 64


def test_neighbours_that_are_free_are_one_range_and_others_are_not() -> None:
    arena = Arena()
    a, b, _, c, _ = (arena.take(64) for _ in range(5))
    for offset in (c, a, b):
        arena.give(offset, 64)
    assert arena.take(128) == a
    assert arena.take(64) == c
    assert arena.size == 5 * 64


def test_a_free_range_at_the_end_grows() -> None:
    arena = Arena()
    first, last = arena.take(64), arena.take(64)
    arena.give(first, 64)
    arena.give(last, 64)
    assert (arena.take(256), arena.size) == (first, 256)


def test_without_reuse_no_byte_is_allocated_twice() -> None:
    arena = Arena(reuse=False)
    first = arena.take(64)
    arena.give(first, 64)
    assert (arena.take(64), arena.size) == (64, 128)


def test_nothing_needs_no_range() -> None:
    arena = Arena()
    arena.give(arena.take(0), 0)
    assert (arena.take(64), arena.size) == (0, 64)
