"""The caching allocator: big blocks come back when the last array over them dies."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pirkit.runtime.tensor.allocator import SMALL, CachingAllocator, size_class
from tests.unit.runtime.test_planning import executable

F32 = np.dtype(np.float32)
BIG = (SMALL,)


def test_a_block_is_reused_when_its_last_array_is_gone() -> None:
    allocator = CachingAllocator()
    array = allocator.empty(BIG, F32)
    place, view = array.ctypes.data, array[5:]
    del array
    other = allocator.empty(BIG, F32)
    assert other.ctypes.data != place
    del view
    again = allocator.empty(BIG, F32)
    assert again.ctypes.data == place
    assert (allocator.stats.fresh, allocator.stats.hits) == (2, 1)


def test_blocks_are_aligned_and_counted() -> None:
    allocator = CachingAllocator()
    arrays = [allocator.empty((SMALL + i,), np.dtype(np.uint8)) for i in range(3)]
    assert all(a.ctypes.data % 64 == 0 for a in arrays)
    assert allocator.stats.live == sum(size_class(SMALL + i) for i in range(3))
    del arrays
    gc.collect()
    assert allocator.stats.live == 0
    assert allocator.trim() > 0
    assert allocator.stats.cached == 0


def test_the_limit_returns_memory_to_the_system() -> None:
    allocator = CachingAllocator(limit=size_class(4 * SMALL))
    held = [allocator.empty(BIG, F32) for _ in range(4)]
    del held
    assert allocator.stats.cached <= size_class(4 * SMALL)


def test_threads_never_get_the_same_memory() -> None:
    allocator = CachingAllocator()

    def work(number: int) -> bool:
        for _ in range(50):
            array = allocator.empty(BIG, F32)
            array[:] = number
            if not (array == number).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_outputs_of_a_steady_run_take_no_fresh_memory() -> None:
    from pirkit.runtime.tensor.allocator import HOST

    kind = f"tensor<{SMALL}xf32>"
    exe = executable(
        f'pir.program @main(%x "x" : {kind}) {{\n'
        f"  %y = pd_op.tanh(%x) : ({kind}) -> {kind}\n"
        f'  pir.shadow_output(%y) {{output_name = "y"}} : ({kind}) -> ()\n}}'
    )
    x = np.ones(SMALL, np.float32)
    for _ in range(2):
        exe(x=x)
    before = HOST.stats.fresh
    for _ in range(5):
        exe(x=x)
    assert HOST.stats.fresh == before
