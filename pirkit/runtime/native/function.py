"""Native functions, and calls of them that are bound to memory.

A function has the C signature ``void f(void **args, int64 slot, int64 lo, int64 hi)``: ``args`` are
the addresses of its operands followed by that of the scratch memory, ``slot`` is the number of the
thread (which selects its part of the scratch memory), and it computes the blocks ``lo`` to ``hi``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import InternalError
from pirkit.runtime.machine_costs import MIN_SHARED_NS
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.cores import allowed_threads
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.native.records_ir import CALLS_LIBRARY, RESERVES, STACK, STACK_BYTES
from pirkit.runtime.native.thread_pool import AVAILABLE, pool
from pirkit.runtime.plan import Call
from pirkit.runtime.tensor.allocator import HOST, SMALL, no_memory, plain_bytes
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

_CHUNKS_PER_THREAD: Final = 4
_LINE: Final = 64
_SMALLEST_STACK: Final = 4096
_KERNEL: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)


class Code(Struct, frozen=True):
    """The object code of a function and its calling information; plain data, for caches.

    ``blocks`` is the number of independent blocks that threads can share, ``scratch`` the bytes of
    scratch memory per thread, ``work`` the estimated time on one thread in ns, ``sizes`` the bytes
    of each operand; a number below 0 is that of `size_from_words`.
    """

    image: bytes
    symbol: str
    blocks: int
    scratch: int
    work: int
    sizes: tuple[int, ...]


def size_from_words(number: int) -> int:
    """The size of an operand whose first byte and bytes are words of the last operand.

    They are its int64 ``number`` and the next one.
    """
    return ~number


def may_be_shared(code: Code) -> bool:
    """Whether threads may share a call: below some 20 us of work, waking them costs more."""
    return AVAILABLE and code.work > MIN_SHARED_NS and code.blocks > 1


def thread_share(code: Code) -> tuple[int, int]:
    """The number of threads for a call, and the number of blocks that a thread takes at a time."""
    # several chunks per thread balance the load
    threads = min(pool().threads, allowed_threads()) if may_be_shared(code) else 1
    return threads, max(1, code.blocks // (threads * _CHUNKS_PER_THREAD))


class NativeFunction:
    """A native function; its code is linked at first use."""

    def __init__(self, code: Code | None = None) -> None:
        self._code = code
        self._loaded: dict[str, Library] = {}

    @property
    def code(self) -> Code:
        """The object code of the function."""
        assert self._code is not None
        return self._code

    @property
    def library(self) -> Library:
        """The linked code of the function."""
        symbol = self.code.symbol
        found = self._loaded.get(symbol)
        if found is None:  # if two threads load it, both use the first result
            found = self._loaded.setdefault(symbol, load(self.code.image, [symbol]))
        return found

    @property
    def address(self) -> int:
        """The address of its code, valid as long as this object lives."""
        return self.library.addresses[self.code.symbol]

    def bind(self, arrays: Sequence[Array]) -> Callable[[], None]:
        """A call on fixed arrays; running it allocates and looks up nothing.

        Operands are addressed from the first byte of their array. Raises InternalError if an
        array is smaller than the operand. The call is not re-entrant: it owns its scratch memory.
        """
        code = self.code
        if len(arrays) != len(code.sizes):
            raise InternalError(f"{len(arrays)} arrays for {len(code.sizes)} operands")
        for number, (array, size) in enumerate(zip(arrays, code.sizes, strict=True)):
            if _span(array) < size:
                raise InternalError(f"operand {number} has {_span(array)} bytes of {size}")
        call, block = self._call((arrays,))
        block[: len(arrays)] = [a.ctypes.data for a in arrays]
        return call

    def _call(self, owned: tuple[Any, ...]) -> tuple[Callable[[], None], Any]:
        """A call, and the argument block from which it reads the addresses of its operands."""
        code = self.code
        threads, chunk = thread_share(code)
        # cache-line aligned, so that threads do not share lines
        scratch = ctypes.create_string_buffer(code.scratch * threads + _LINE)
        start = -(-ctypes.addressof(scratch) // _LINE) * _LINE
        count = len(code.sizes)
        block = (ctypes.c_size_t * (count + 1))(*[0] * count, start)
        # native code has only addresses, so the call keeps these objects alive
        owned = (*owned, scratch, block, self.library)
        address = ctypes.addressof(block)
        if threads == 1:
            return _SingleThreaded(_KERNEL(self.address), address, code.blocks, owned), block
        return _MultiThreaded(self.address, address, code.blocks, chunk, threads, owned), block


class Control(Struct, frozen=True):
    """A step without code of its own, which the loop over records executes (`records_ir`).

    Its one operand has ``operand_bytes`` bytes, if it is no `LibraryCall`.
    """

    operand_bytes: ClassVar[int]

    @property
    def code(self) -> Code:
        return Code(b"", "", 1, 0, 0, (self.operand_bytes,))

    def words(self, begin: int) -> tuple[int, int]:
        """The words ``blocks`` and ``chunk`` of its record, in steps from record ``begin`` on."""
        raise NotImplementedError


class Branch(Control, frozen=True):
    """Continues at step ``target`` if its operand, a byte, is ``when``; any byte but 0 is true."""

    operand_bytes = 1
    target: int
    when: bool

    def words(self, begin: int) -> tuple[int, int]:
        return begin + self.target, int(self.when)


class Reserve(Control, frozen=True):
    """Makes room for ``nbytes`` bytes on the stack that is its operand."""

    operand_bytes = STACK_BYTES
    nbytes: int

    def words(self, begin: int) -> tuple[int, int]:
        return self.nbytes, RESERVES


class LibraryCall(Control, frozen=True):
    """A call of a library in a loop or a branch: native code returns to Python, which makes it.

    ``metas`` are those of its operands and then of its results, without those that are absent.
    """

    operand_bytes = 0
    call: Call
    metas: tuple[TensorMeta, ...]

    @property
    def code(self) -> Code:
        return Code(b"", "", 1, 0, 0, tuple([m.numel * m.dtype.itemsize for m in self.metas]))

    def words(self, begin: int) -> tuple[int, int]:
        return 0, CALLS_LIBRARY


class Stacks:
    """Memory of the stacks of a program, enlarged as it runs. A stack is the words of `STACK`."""

    def __init__(self, addresses: Sequence[int]) -> None:
        self.words = [(ctypes.c_int64 * len(STACK)).from_address(a) for a in addresses]
        self.places = (ctypes.c_size_t * max(len(addresses), 1))(*addresses)
        self.held: list[Array | None] = [None] * len(addresses)

    def clear(self) -> None:
        """Empty all stacks, after a run that did not end."""
        for words in self.words:
            words[1] = 0

    def enlarge(self) -> None:
        """Give the stacks the room that they want. Raises RuntimeFault where memory is short."""
        for k, words in enumerate(self.words):
            data, used, capacity, wanted = words
            if wanted <= capacity:
                continue
            try:
                made = plain_bytes(max(2 * capacity, wanted, _SMALLEST_STACK))
            except MemoryError as error:
                raise no_memory(error) from error
            if used:
                ctypes.memmove(address_of(made), data, used)
            words[0], words[2] = address_of(made), made.nbytes
            self.held[k] = made


class NativeSequence(Struct, frozen=True):
    """Functions that run in order, over ``operands`` operands and temporaries of these sizes.

    Each step is a function with the numbers of its operands; temporaries follow the operands.
    """

    steps: tuple[tuple[NativeFunction, tuple[int, ...]], ...]
    operands: int
    temporaries: tuple[int, ...]

    def bind(self, arrays: Sequence[Array]) -> Callable[[], None]:
        """A call on these arrays; see `NativeFunction.bind`."""
        if len(arrays) != self.operands:
            raise InternalError(f"{len(arrays)} arrays for {self.operands} operands")
        buffers = [*arrays, *(np.empty(size, np.uint8) for size in self.temporaries)]
        calls = [function.bind([buffers[k] for k in places]) for function, places in self.steps]
        if len(calls) == 1:
            return calls[0]

        def run() -> None:
            for call in calls:
                call()

        return run


class _SingleThreaded(Struct, frozen=True):
    kernel: Callable[[int, int, int, int], None]
    arguments: int
    blocks: int
    owned: object

    def __call__(self) -> None:
        self.kernel(self.arguments, 0, 0, self.blocks)


class _MultiThreaded(Struct, frozen=True):
    address: int
    arguments: int
    blocks: int
    chunk: int
    threads: int
    owned: object

    def __call__(self) -> None:
        current = pool()
        current.run(
            current.address, self.address, self.arguments, self.blocks, self.chunk, self.threads
        )


def new_array(meta: TensorMeta) -> Array:
    """An uninitialized array for a result.

    Memory of large arrays is pooled, since page faults on fresh pages cost more than most kernels,
    and page-aligned, as non-temporal stores need aligned vectors.
    """
    return array_maker(meta)()


def array_maker(meta: TensorMeta) -> partial[Array]:
    """`new_array` specialized for one meta, for repeated calls."""
    small = meta.numel * meta.dtype.itemsize < SMALL
    return partial(np.empty if small else HOST.empty, meta.shape, meta.dtype.np)


def _span(array: Array) -> int:
    """Bytes from the first element to the end of the last one, for non-negative strides."""
    if array.size == 0:
        return 0
    pairs = zip(array.shape, array.strides, strict=True)
    return sum((extent - 1) * stride for extent, stride in pairs) + array.itemsize
