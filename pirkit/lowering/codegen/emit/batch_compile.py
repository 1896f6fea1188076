"""Lazy native functions: the first use of one compiles all that are pending, in one batch.

While a program is bound, its kernels become known one after the other and none of them is called.
Compilation therefore waits until some function's address is needed, and then runs in parallel.
Pending functions are weakly referenced: those that nobody uses any more are not compiled.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.errors import ArtifactError, InternalError
from pirkit.diag.gc_pause import imported
from pirkit.diag.progress import delayed_bar
from pirkit.runtime.native.cache import user_cache
from pirkit.runtime.native.compile_stats import COMPILE_STATS
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.float_environment import default_environment
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.target import host

if TYPE_CHECKING:
    from pirkit.lowering.codegen.about import About
    from pirkit.lowering.codegen.emit.schedule_loops import Stage
    from pirkit.lowering.codegen.ir.loopnest import Kernel
    from pirkit.lowering.codegen.ir.tiled_nest import TiledNest

_PROGRESS_AFTER_S: Final = 1.0


class Draft(Struct, frozen=True):
    """A function before compilation: the text of its module, and its `Code` without an image.

    ``stages`` are the loops after each rewrite, where the loop IR is not made from a MapExpr.
    ``kernel`` is the loop nest that it was written from, if there is one.
    """

    text: str
    code: Code
    about: About | None = None
    stages: tuple[Stage, ...] = ()
    kernel: Kernel | TiledNest | None = None


class LazyFunction(NativeFunction):
    """A function that is compiled at its first use, together with all pending ones."""

    def __init__(self, key: str, write: Callable[[], Draft]) -> None:
        super().__init__()
        self.key, self.write = key, write
        self.made: Code | InternalError | None = None

    @property
    def code(self) -> Code:
        """The compiled code. Raises InternalError if LLVM rejects it."""
        if self.made is None:
            compile_pending()
        assert self.made is not None
        if isinstance(self.made, InternalError):
            raise self.made
        return self.made


_lock = threading.Lock()
# `_lock` guards the tables for moments; `_compiling` is held while LLVM runs.
_compiling = threading.Lock()
_functions: WeakValueDictionary[str, LazyFunction] = WeakValueDictionary()
_recent: deque[LazyFunction] = deque(maxlen=128)
"""Functions that stay without a user, for programs that are compiled again soon."""
_pending: WeakValueDictionary[str, LazyFunction] = WeakValueDictionary()
_requests: ContextVar[list[LazyFunction] | None] = ContextVar("requests", default=None)
_compiles_anew: ContextVar[bool] = ContextVar("compiles_anew", default=False)


@contextmanager
def requested() -> Generator[list[LazyFunction]]:
    """Collects the functions that are requested inside, for tools that describe kernels."""
    found: list[LazyFunction] = []
    token = _requests.set(found)
    try:
        yield found
    finally:
        _requests.reset(token)


@contextmanager
def compiling_anew() -> Generator[None]:
    """Functions requested inside bypass all caches, to distinguish wrong code from a wrong key."""
    token = _compiles_anew.set(True)
    try:
        yield
    finally:
        _compiles_anew.reset(token)


def function_of(key: str, write: Callable[[], Draft]) -> NativeFunction:
    """The function of a key, compiled at most once per process and, with a cache, per user.

    ``write`` generates the module when the function is needed and no cache has it.
    """
    if _compiles_anew.get():
        draft = write()
        return NativeFunction(replace(draft.code, image=compile_ir(draft.text)))
    with _lock:
        found = _functions.get(key) or _pending.get(key)
        if found is None:
            found = _pending[key] = LazyFunction(key, write)
        found.write = write if found.write is _no_draft else found.write
    requests = _requests.get()
    if requests is not None and found not in requests:
        requests.append(found)
    return found


def cached_function(key: str) -> NativeFunction | None:
    """The function of a key if this process or the user's cache already has it; None otherwise."""
    with _lock:
        found = _functions.get(key)
    store = user_cache()
    # Read the cache outside of the lock: it is file access.
    data = store.get(key) if store and found is None else None
    if data is None:
        return found
    function = LazyFunction(key, _no_draft)
    function.made = unpack(data)
    COMPILE_STATS.read += 1
    # Another thread may have stored the same function meanwhile; the first one stays.
    with _lock:
        return _functions.setdefault(key, function)


def _no_draft() -> Draft:
    raise InternalError("a cached function must not be written again")


def compile_pending() -> None:
    """Compile all pending functions, or load them from the user's cache."""
    with _compiling:
        with _lock:
            # Strong references from here on, so that no function vanishes while it is compiled.
            # Threads that waited for `_compiling` find theirs compiled and skip them.
            pending = [f for f in _pending.values() if f.made is None]
        try:
            with COMPILE_STATS.timed():
                _make(pending)
        finally:
            with _lock:
                for function in pending:
                    if function.made is not None:
                        _functions[function.key] = function
                        _recent.append(function)
                        _pending.pop(function.key, None)


def _make(pending: Sequence[LazyFunction]) -> None:
    """Load functions from the user's cache and compile the others in parallel.

    Errors of single functions are stored in them, so that the rest is compiled all the same.
    """
    store = user_cache()
    missing: list[LazyFunction] = []
    for function in pending:
        data = store.get(function.key) if store else None
        if data is None:
            missing.append(function)
        else:
            function.made = unpack(data)
    COMPILE_STATS.read += len(pending) - len(missing)
    if not missing:
        return
    from pirkit.runtime.native.parallel_compile import compile_all  # noqa: PLC0415  seldom

    drafts: dict[LazyFunction, Draft] = {}
    costs: list[float] = []
    with default_environment():
        for function, draft, cost in _written_drafts(missing):
            drafts[function] = draft
            costs.append(cost)
    texts = [draft.text for draft in drafts.values()]

    def cpu_seconds(number: int, seconds: float) -> None:
        COMPILE_STATS.costs.append(costs[number] + seconds)

    with delayed_bar("compiling kernels", len(texts), after=_PROGRESS_AFTER_S) as progress:
        images = compile_all(texts, host(), progress, cpu_seconds)
    made: list[tuple[str, bytes]] = []
    for (function, draft), image in zip(drafts.items(), images, strict=True):
        if isinstance(image, InternalError):
            function.made = image
            continue
        function.made = replace(draft.code, image=image)
        made.append((function.key, pack(function.made)))
    if store:
        store.put_all(made)
    COMPILE_STATS.compiled += len(texts)


def _written_drafts(missing: Sequence[LazyFunction]) -> Iterator[tuple[LazyFunction, Draft, float]]:
    """Functions, their modules, and the CPU seconds that it took to generate these."""
    for function in missing:
        start = time.thread_time()
        try:
            draft = function.write()
            if host().sanitized:
                name = f"kernel {function.key[:12]} ({draft.about})"
                checks = imported("pirkit.lowering.codegen.emit.sanitize")
                draft = replace(draft, text=checks.sanitized(draft.text, draft.code, name))
        # Reported by `LazyFunction.code`, to the caller who needs this function.
        except InternalError as error:
            function.made = error
        else:
            yield function, draft, time.thread_time() - start


def pack(code: Code) -> bytes:
    """Serialize code: a line of JSON, then the object file."""
    facts = {
        "symbol": code.symbol,
        "blocks": code.blocks,
        "scratch": code.scratch,
        "work": code.work,
        "sizes": code.sizes,
    }
    return json.dumps(facts).encode() + b"\n" + code.image


def unpack(data: bytes) -> Code:
    """The inverse of `pack`. Raises ArtifactError for anything else."""
    head, _, image = data.partition(b"\n")
    try:
        facts = json.loads(head)
        return Code(
            image,
            str(facts["symbol"]),
            int(facts["blocks"]),
            int(facts["scratch"]),
            int(facts["work"]),
            tuple(map(int, facts["sizes"])),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError("native code in the cache is damaged") from error


def _unlock() -> None:
    """In a forked child: the threads that held the locks do not exist here."""
    global _lock, _compiling
    _lock, _compiling = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
