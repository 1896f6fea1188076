"""The ops that native code may run, with their binders, which are imported at first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pirkit.diag.gc_pause import imported
from pirkit.runtime.binding import Bind, Step
from pirkit.runtime.plan import PROGRAMS, SEGMENT
from pirkit.runtime.registry import NATIVE

NAME: Final = NATIVE
FUSED: Final = "pir.map_expr"
MATMUL: Final = "pd_op.matmul"
ROWS: Final = "pir.rows"
"""Calls of a rewritten plan that stand for matmuls and the kernels between them."""
NESTS: Final = "nest"
FUSED_BY: Final = (NAME, NESTS, "interpret")
"""The executors of fused kernels: native code, the interpreters of loop nests and of MapExpr."""
SMALL_GEMM: Final = "pir.small_matmul"
"""Call of a rewritten plan: a small matmul with an optional bias row."""
QUANTIZED: Final = "pir.quantized_matmul"
PANELS: Final = ("pir.packed_matmul", QUANTIZED)
"""Ops whose weights may be in panels."""
_CONVOLUTION: Final = (
    "pirkit.lowering.native_conv:bind_convolution",
    "native code for these sizes",
)
_NCHWC: Final = ("pirkit.lowering.native_nchwc:bind_nchwc", "native code for these sizes")

NATIVE_KERNELS: Final[dict[str, tuple[str, str]]] = {
    FUSED: ("pirkit.lowering.native_fused:bind_native", "native code of a fused kernel"),
    "pd_op.conv2d": _CONVOLUTION,
    "pd_op.conv3d": _CONVOLUTION,
    "pd_op.depthwise_conv2d": _CONVOLUTION,
    "pd_op.conv2d_transpose": _CONVOLUTION,
    "pd_op.conv3d_transpose": _CONVOLUTION,
    "pd_op.depthwise_conv2d_transpose": _CONVOLUTION,
    "pir.nchwc_conv2d": _NCHWC,
    "pir.nchwc_max_pool2d": _NCHWC,
    "pir.nchwc_quantized_conv2d": _NCHWC,
    "pir.nchwc_winograd_conv2d": ("pirkit.lowering.native_nchwc:bind_winograd", _NCHWC[1]),
    "pir.packed_matmul": (
        "pirkit.lowering.native_matmul:bind_panels",
        "a matmul with packed weights",
    ),
    "pir.quantized_matmul": (
        "pirkit.lowering.native_matmul:bind_panels",
        "a matmul with weights of fewer bits",
    ),
    ROWS: (
        "pirkit.lowering.row_block_kernel:bind_rows",
        "matmuls and the kernels between them, fused by blocks of rows",
    ),
    **dict.fromkeys(
        (MATMUL, "pd_op.bmm"),
        ("pirkit.lowering.native_matmul:bind_matmul", "a large matmul"),
    ),
    SMALL_GEMM: ("pirkit.lowering.gemm_kernel:bind_small_gemm", "a small matmul"),
    SEGMENT: ("pirkit.lowering.native_segment:bind_segment", "native code of several calls"),
}
"""For each op, the function that binds it to native code, its module, and a description."""
REWRITTEN: Final = frozenset({ROWS, SMALL_GEMM, *PROGRAMS})
"""Those of them that are in no program: plans get them when their sizes are known."""


def nest_interpreter() -> Bind:
    """Bind fused kernels to the interpreter of their loop nests."""
    return imported("pirkit.lowering.native_fused").bind_interpreted


def loop_interpreter() -> Callable[[Step | None], Step | None]:
    """Bind a native step to the interpreter of its loops."""
    return imported("pirkit.lowering.interpreted_step").interpreted


def binder(op: str) -> Bind:
    """The binder of an op."""
    module, _, function = NATIVE_KERNELS[op][0].partition(":")
    return getattr(imported(module), function)
