"""Keyed hashes of arrays at the rate of memory: hashes of Python's library take a second for 1 GB.

Blocks are hashed by NH (Black, Halevi, Krawczyk, Krovetz and Rogaway: UMAC, CRYPTO 1999) with two
keys, the second one the first shifted by a pair of words (the Toeplitz construction of the same
paper): two different blocks have equal hashes for one key in 2**64. Keyed BLAKE2b hashes the rest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b, shake_256
from string import Template
from typing import Any, Final

import numpy as np

from pirkit.diag.once import once
from pirkit.runtime.native.cached_ir import compile_cached_ir
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

BLOCK: Final = 8192
"""Bytes of a block; its key has a stripe more."""
_STRIPE: Final = 64
_SUMS: Final = 16
"""Words of the hash of a block: eight lanes under two keys."""
_FUNCTION: Final = "pirkit_digest"
_BYTES: Final = 32

_TEXT: Final = Template("""
define void @$name(ptr %data, i64 %count, ptr %key, ptr %sums) {
entry:
  br label %next
next:
  %b = phi i64 [ 0, %entry ], [ %b1, %end ]
  %more = icmp ult i64 %b, %count
  br i1 %more, label %begin, label %done
begin:
  %first = mul i64 %b, $block
  br label %stripe
stripe:
  %at = phi i64 [ 0, %begin ], [ %after, %stripe ]
  %x = phi <8 x i64> [ zeroinitializer, %begin ], [ %x1, %stripe ]
  %y = phi <8 x i64> [ zeroinitializer, %begin ], [ %y1, %stripe ]
  %after = add i64 %at, $stripe
  %offset = add i64 %first, %at
  %p = getelementptr i8, ptr %data, i64 %offset
  %pk = getelementptr i8, ptr %key, i64 %at
  %pl = getelementptr i8, ptr %key, i64 %after
  %d = load <16 x i32>, ptr %p, align 1
  %k = load <16 x i32>, ptr %pk, align 1
  %l = load <16 x i32>, ptr %pl, align 1
  $x
  $y
  %inside = icmp ult i64 %after, $block
  br i1 %inside, label %stripe, label %end
end:
  %o = mul i64 %b, $row
  %po = getelementptr i8, ptr %sums, i64 %o
  %pp = getelementptr i8, ptr %po, i64 $stripe
  store <8 x i64> %x1, ptr %po, align 8
  store <8 x i64> %y1, ptr %pp, align 8
  %b1 = add i64 %b, 1
  br label %next
done:
  ret void
}
""")
_SUM: Final = Template("""
  %${s}s = add <16 x i32> %d, %$k
  %${s}w = bitcast <16 x i32> %${s}s to <8 x i64>
  %${s}a = and <8 x i64> %${s}w, splat (i64 4294967295)
  %${s}b = lshr <8 x i64> %${s}w, splat (i64 32)
  %${s}p = mul <8 x i64> %${s}a, %${s}b
  %${s}1 = add <8 x i64> %$s, %${s}p""")


def digest_text() -> str:
    """The module of the function that hashes blocks."""
    numbers = {"block": str(BLOCK), "stripe": str(_STRIPE), "row": str(8 * _SUMS)}
    sums = {s: _SUM.substitute(s=s, k=k) for s, k in (("x", "k"), ("y", "l"))}
    return _TEXT.substitute(numbers, name=_FUNCTION, **sums)


class Digest:
    """A hash under a secret key; `add` takes arrays, one after the other, each with a label."""

    def __init__(self, secret: bytes) -> None:
        self._hash = blake2b(key=secret, digest_size=_BYTES)
        self._key = _key(secret)

    def add(self, label: bytes, array: Array) -> None:
        """Append a label and the elements of an array, in rows."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._hash.update(f"{len(label)} {data.size} ".encode() + label)
        count, rest = divmod(data.size, BLOCK)
        if count:
            sums = np.empty((count, _SUMS), np.uint64)
            _function()(address_of(data), count, address_of(self._key), address_of(sums))
            self._hash.update(sums.data)
        self._hash.update(data[data.size - rest :].data)

    def digest(self) -> bytes:
        """The hash of what was added."""
        return self._hash.digest()


@lru_cache(4)
def _key(secret: bytes) -> Array:
    return np.frombuffer(shake_256(secret).digest(BLOCK + _STRIPE), np.uint8)


@once
def _linked() -> Library:
    return load(compile_cached_ir(digest_text()), [_FUNCTION])


@once
def _function() -> Callable[[int, int, int, int], None]:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return kind(_linked().addresses[_FUNCTION])
