"""From a loop nest to a native function, by way of the caches."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pirkit.diag.errors import ArtifactError
from pirkit.diag.version import VERSION
from pirkit.lowering.codegen.generate import SYMBOL, generate
from pirkit.lowering.codegen.loopnest import Compute, Kernel, numbered
from pirkit.lowering.codegen.parts import in_parts
from pirkit.lowering.codegen.schedule import COSTLY, Schedule, schedule
from pirkit.runtime.native.cache import ObjectCache, user_cache
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.function import Code, NativeFunction, NativeSequence
from pirkit.runtime.native.llvm import LLVMLITE_VERSION
from pirkit.runtime.native.target import Target, host

_BYTES_PER_NS: Final = 20
_COSTLY_NS: Final = 0.4
_PLAIN_NS: Final = 0.03

_lock = threading.Lock()
_functions: dict[str, NativeFunction] = {}


def native(kernel: Kernel) -> NativeSequence:
    """What runs a kernel on all threads: one function, or several for long folds.

    Raises InternalError for a kernel that is not well formed.
    """
    parts = in_parts(kernel, schedule(kernel, host()).blocks)
    steps = tuple((native_function(step.kernel), step.buffers) for step in parts.steps)
    return NativeSequence(steps, len(kernel.operands), parts.temporaries)


def native_function(kernel: Kernel) -> NativeFunction:
    """The function of a kernel, compiled at most once by this process and this user.

    Raises InternalError for a kernel that is not well formed.
    """
    return function_of(kernel_key(kernel, host()), lambda: compile_kernel(kernel, host()))


def function_of(key: str, make: Callable[[], Code]) -> NativeFunction:
    """The function of a key (see `key_of`), made at most once by this process and this user."""
    with _lock:
        if key in _functions:
            return _functions[key]
    function = NativeFunction(_code(key, make, user_cache()))
    with _lock:
        return _functions.setdefault(key, function)


def _code(key: str, make: Callable[[], Code], store: ObjectCache | None) -> Code:
    found = store.get(key) if store else None
    if found is not None:
        return unpack(found)
    code = make()
    if store:
        store.put(key, pack(code))
    return code


def compile_kernel(kernel: Kernel, target: Target) -> Code:
    """Generate and compile, without any cache."""
    generated = generate(kernel, target)
    return Code(
        compile_ir(generated.text, target),
        SYMBOL,
        generated.blocks,
        generated.scratch,
        work_of(kernel, generated.schedule),
        tuple(o.size for o in kernel.operands),
        tuple(k for k, o in enumerate(kernel.operands) if o.stream),
    )


def kernel_key(kernel: Kernel, target: Target) -> str:
    """What decides about the object code: the kernel, the CPU, and those who make the code."""
    return key_of(numbered(kernel), target)


def key_of(what: object, target: Target) -> str:
    """The key of code for ``what``, which its text tells from everything else."""
    parts = (what, target, VERSION, LLVMLITE_VERSION, _generator())
    return blake2b(repr(parts).encode(), digest_size=32).hexdigest()


@cache
def _generator() -> str:
    """A hash of the code generator itself: what an older one made is not used."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def work_of(kernel: Kernel, plan: Schedule) -> int:
    """A guess of the time on one thread, in ns; decides whether threads are worth waking."""
    moved = sum(o.size for o in kernel.operands) / _BYTES_PER_NS
    computed = sum(
        _COSTLY_NS if s.primitive in COSTLY else _PLAIN_NS
        for s in kernel.statements()
        if isinstance(s, Compute)
    )
    return int(moved + computed * kernel.points * 16 / max(plan.lanes, 1) / 2)


def pack(code: Code) -> bytes:
    """Code as bytes: a line of JSON, then the object."""
    facts = {
        "symbol": code.symbol,
        "blocks": code.blocks,
        "scratch": code.scratch,
        "work": code.work,
        "sizes": code.sizes,
        "aligned": code.aligned,
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
            tuple(map(int, facts["aligned"])),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError("native code in the cache is damaged") from error
