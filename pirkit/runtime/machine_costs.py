"""The measured costs of the machine, from which all estimates of time are computed.

They were measured on one thread of x86-64 with AVX-512. Estimates choose between forms that compute
the same; no result depends on them. What one op costs beside them stands on its record
(``cost`` and ``library_ns`` of `dialect/opdef.py`). Units are in the names: nanoseconds, bytes,
FMAs (multiply-adds); ``ADDS`` are scalar additions, in which fusion compares costs per element.
"""

from __future__ import annotations

from typing import Final

# --- calls of a library (numpy, BLAS) ---

CALL_NS: Final = 300.0
"""The fixed cost of a call of a plan."""
BYTE_NS: Final = 0.1
"""A byte of memory traffic of a library call."""
SCATTER_CALL_NS: Final = 10_000.0
"""The fixed excess of a call that writes at places which the data say: several calls of numpy."""
LEAST_EXCESS_NS: Final = 2000.0
"""The least excess of a call over native code for which compiling a kernel for one op pays."""
FP16_NS: Final = 1.5
"""Excess per element of any op on float16 and bfloat16, which numpy converts one by one."""
BROADCAST_NS: Final = 0.15
"""Excess per element of a cheap elementwise op with a broadcast operand: short inner loops."""
BLAS_CALL_NS: Final = 1000
BLAS_VIEW_NS: Final = 700
BLAS_MATRIX_NS: Final = 100
"""A matmul by numpy: the call, a transposed operand, each matrix of a batch."""
BLAS_FMAS_PER_NS: Final = 55
"""Float32 FMAs of a BLAS."""

# --- native code, of one thread ---

BYTES_PER_NS: Final = 20
"""Memory traffic of contiguous loops."""
PACKED_BYTES_PER_NS: Final = 4
"""Memory traffic of packing and of adding partial results, which is strided."""
COSTLY_NS: Final = 0.4
PLAIN_NS: Final = 0.03
"""An elementary function and an arithmetic instruction per element, with 8 lanes."""
NEAR_STRIDE: Final = 4
"""Strides, in elements, up to which whole vectors are loaded and deinterleaved by shuffles."""
VECTOR_FMAS_PER_NS: Final = 3
"""Vector instructions where operands stay in L1."""
CONV_FMAS_PER_NS: Final = 32
"""Float32 FMAs of a convolution."""
SMALL_GEMM_STEP_NS: Final = 1
SMALL_GEMM_PACK_NS: Final = 6
"""A small matmul: four rows, or one, by a vector of columns for each element of the depth; packing
one strided line of a tile into a vector."""

# --- threads ---

MIN_SHARED_NS: Final = 20_000
"""Work from which waking other threads pays."""
GIL_HOLD_NS: Final = 50_000
"""Calls shorter than this keep the GIL, as releasing and taking it again costs more."""

# --- fusion, in additions ---

MEMORY_BYTE_ADDS: Final = 0.5
"""One byte read from or written to memory."""
PERMUTED_READ_ADDS: Final = 2.0
"""A strided read of one element."""
TILED_ELEMENT_ADDS: Final = 2.0
"""Writing one element to a tile and reading it."""
TILED_BYTE_ADDS: Final = 0.375
"""The cost of each byte of such an element."""
LAUNCH_ADDS: Final = 8000.0
"""One more kernel launch."""
LOOKUP_ADDS: Final = 24
"""What is interpolated by tables of places, where it is an operand of a `concat`: 3.7 ms instead of
0.8 for 786,432 elements on a Cascade Lake."""
GATHER_ADDS: Final = 6
"""Looking up one element at a place from data, beyond reading it as part of a row: 0.7 ns instead
of 0.15 on a Zen 4."""
CONCAT_SELECT_ADDS: Final = 2
"""A select for each further operand of a `concat`."""
