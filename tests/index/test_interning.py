"""Tables of index expressions: one object for each expression in use, and none for others."""

from __future__ import annotations

import gc
from threading import Barrier, Thread

from pirkit.index import expr as exprs
from pirkit.index.expr import Expr, floor, iterator


def test_tables_do_not_grow() -> None:
    def work(number: int) -> Expr:
        i = iterator("i", 1000 + number)
        return floor(i * 7 + 3, 5 + number % 90) + i * number

    def sizes(numbers: range) -> tuple[int, int]:
        for number in numbers:
            work(number)
        assert len(exprs._FLOORS) <= exprs.MOST_FLOORS
        exprs._FLOORS.clear()  # it holds what it simplified until it is full
        gc.collect()
        return len(exprs._EXPRS), len(exprs._ATOMS)

    first, last = sizes(range(6_000)), sizes(range(6_000, 18_000))
    assert last[0] < first[0] + 100
    assert last[1] < first[1] + 100


def test_an_expression_in_use_stays_the_same_object() -> None:
    kept = iterator("kept", 77) * 3 + 1
    for number in range(6_000):
        iterator("other", 2 + number) * 5
    gc.collect()
    assert iterator("kept", 77) * 3 + 1 is kept


def test_threads_get_the_same_objects() -> None:
    barrier, found = Barrier(8), [list[Expr]() for _ in range(8)]

    def make(mine: list[Expr]) -> None:
        for number in range(200):
            barrier.wait()
            i = iterator(f"t{number}", 50)
            mine.append(floor(i * 3 + number, 7) + i)

    threads = [Thread(target=make, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for same in zip(*found, strict=True):
        assert all(e is same[0] for e in same)
