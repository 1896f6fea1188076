"""Bodies of programs over `%x`, to each of which a law of `canonicalize` applies.

The key is the name of the law, or its equation if it holds for several ops. The output is ``%y``.
Placeholders: ``{op}``, ``{D}`` the dtype of the input, ``{value}`` a number, and types: ``{T}`` the
input, ``{N}`` one element, ``{B}`` bools and ``{W}`` float64 of its shape, ``{R}`` its transpose,
``{S}`` a matrix of its rows squared,
``{F}`` its elements in a row.
"""

from __future__ import annotations

from typing import Final

_NUMBER: Final = """
    %k = pd_op.full() {{shape = array<i64: 1>, value = {value} : f64, dtype = #pir.dtype<{D}>}}
        : () -> {N}
    """

ON_NUMBERS: Final = {
    "pd_op.add: x + (-0) = x": _NUMBER + "%y = pd_op.add(%x, %k) : ({T}, {N}) -> {T}",
    "pd_op.add: (-0) + y = y": _NUMBER + "%y = pd_op.add(%k, %x) : ({N}, {T}) -> {T}",
    "pd_op.subtract: x - 0 = x": _NUMBER + "%y = pd_op.subtract(%x, %k) : ({T}, {N}) -> {T}",
    "pd_op.multiply: x * 1 = x": _NUMBER + "%y = pd_op.multiply(%x, %k) : ({T}, {N}) -> {T}",
    "pd_op.multiply: 1 * y = y": _NUMBER + "%y = pd_op.multiply(%k, %x) : ({N}, {T}) -> {T}",
    "pd_op.divide: x / 1 = x": _NUMBER + "%y = pd_op.divide(%x, %k) : ({T}, {N}) -> {T}",
}
"""With a number, which may be neutral or not."""

_TWICE: Final = """
    %a = {op}(%x) : ({T}) -> {T}
    %y = {op}(%a) : ({T}) -> {T}"""
_UNARY: Final = "%y = {op}(%x) : ({T}) -> {T}"

ON_TENSORS: Final = {
    "pd_op.scale: x * 1 + (-0) = x": """
        %y = {op}(%x) {{scale = 1.0 : f64, bias = -0.0 : f32}} : ({T}) -> {T}""",
    "pd_op.pow: x ** 1 = x": "%y = {op}(%x) {{y = 1.0 : f32}} : ({T}) -> {T}",
    "f(x, x) = x": "%y = {op}(%x, %x) : ({T}, {T}) -> {T}",
    "f(f(x)) = f(x)": _TWICE,
    "f(f(x)) = x": _TWICE,
    "pd_op.logical_not: not not x = x": """
        %a = {op}(%x) : ({T}) -> {B}
        %y = {op}(%a) : ({B}) -> {B}""",
    "pd_op.logical_and: f(x, x) = x": "%y = {op}(%x, %x) : ({T}, {T}) -> {B}",
    "pd_op.logical_or: f(x, x) = x": "%y = {op}(%x, %x) : ({T}, {T}) -> {B}",
    "pd_op.where: c ? x : x = x": """
        %b = pd_op.equal(%x, %x) : ({T}, {T}) -> {B}
        %y = {op}(%b, %x, %x) : ({B}, {T}, {T}) -> {T}""",
    "pd_op.assign: copy of x = x": _UNARY,
    "pd_op.share_data: name for x = x": _UNARY,
    "pd_op.cast: cast to its own dtype = x": """
        %y = {op}(%x) {{dtype = #pir.dtype<{D}>}} : ({T}) -> {T}""",
    "pd_op.cast: cast to a wider dtype and back = x": """
        %a = {op}(%x) {{dtype = #pir.dtype<float64>}} : ({T}) -> {W}
        %y = {op}(%a) {{dtype = #pir.dtype<{D}>}} : ({W}) -> {T}""",
    "pd_op.transpose: transpose in order = x": """
        %y = {op}(%x) {{perm = array<i32: 0, -1>}} : ({T}) -> {T}""",
    "pd_op.transpose: transpose of transpose = transpose": """
        %a = {op}(%x) {{perm = array<i32: 1, 0>}} : ({T}) -> {R}
        %y = {op}(%a) {{perm = array<i32: -1, 0>}} : ({R}) -> {T}""",
    "pd_op.matmul: matmul of transpose = transposed matmul": """
        %a = pd_op.transpose(%x) {{perm = array<i32: 1, 0>}} : ({T}) -> {R}
        %y = {op}(%x, %a) : ({T}, {R}) -> {S}""",
    "pd_op.transpose: (x y)' = y' x'": """
        %a = pd_op.matmul(%x, %x) {{transpose_y = true}} : ({T}, {T}) -> {S}
        %y = {op}(%a) {{perm = array<i32: 1, 0>}} : ({S}) -> {S}""",
    "pd_op.reshape: reshape of reshape = reshape": """
        %a = {op}(%x) {{shape = array<i64: -1>}} : ({T}) -> {F}
        %y = {op}(%a) {{shape = array<i64: 4, 2>}} : ({F}) -> {R}""",
    "pd_op.reshape: x in its own shape = x": """
        %y = {op}(%x) {{shape = array<i64: 2, -1>}} : ({T}) -> {T}""",
    "pd_op.expand: x in its own shape = x": """
        %y = {op}(%x) {{shape = array<i64: 2, -1>}} : ({T}) -> {T}""",
    "pd_op.expand_as: x in its own shape = x": """
        %y = {op}(%x, %x) {{target_shape = array<i64: 2, 4>}} : ({T}, {T}) -> {T}""",
    "pd_op.squeeze: x in its own shape = x": """
        %y = {op}(%x) {{axis = array<i64: 0>}} : ({T}) -> {T}""",
    "pd_op.flatten: x in its own shape = x": """
        %y = {op}(%x) {{start_axis = 1 : i32, stop_axis = 1 : i32}} : ({T}) -> {T}""",
    "pd_op.tile: x once = x": "%y = {op}(%x) {{repeat_times = array<i64: 1>}} : ({T}) -> {T}",
    "pd_op.concat: concat of one = it": """
        %l = pir.combine(%x) : ({T}) -> !pir.vec<{T}>
        %y = {op}(%l) {{axis = 0 : i32}} : (!pir.vec<{T}>) -> {T}""",
}
"""With nothing but the input."""
