"""Functions that push values on a stack of a loop, and pop them.

Derivatives of a loop read, from the last iteration to the first, what its iterations have computed.
An iteration pushes that on a stack, whose memory grows as the loop runs:
`pirkit.runtime.native.records_ir` reserves room before each push.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import SYMBOL, key_of
from pirkit.runtime.machine_costs import BYTES_PER_NS
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.records_ir import STACK, STACK_BYTES
from pirkit.runtime.native.target import host

Action = Literal["create", "push", "pop", "test"]


def entry_bytes(sizes: Sequence[int]) -> int:
    """The bytes of a pushed entry; one without values is counted all the same."""
    return max(1, sum(sizes))


def stack_access(action: Action, sizes: Sequence[int]) -> NativeFunction:
    """The function of an action on a stack, its first operand.

    The others have ``sizes`` bytes: what ``push`` reads; what ``pop`` writes; the token that
    ``create`` writes, how many bytes are in use (int64); and those of ``test``, the token of the
    stack and the byte that is set if the stack is not empty.
    """
    return function_of(
        key_of(("stack", action, *sizes), host()), lambda: _draft(action, tuple(sizes))
    )


def _draft(action: Action, sizes: tuple[int, ...]) -> Draft:
    code = Code(b"", SYMBOL, 1, 0, sum(sizes) // BYTES_PER_NS, (STACK_BYTES, *sizes))
    return Draft(_text(action, sizes), code, about(_text, f"stack {action}"))


def _text(action: Action, sizes: tuple[int, ...]) -> str:
    lines = [
        "%stack = load ptr, ptr %args, align 8",
        f"%p_used = getelementptr i64, ptr %stack, i64 {STACK.index('used')}",
        "%data = load ptr, ptr %stack, align 8",
        "%used = load i64, ptr %p_used, align 8",
    ]
    for k in range(len(sizes)):
        lines += [
            f"%p_x{k} = getelementptr ptr, ptr %args, i64 {k + 1}",
            f"%x{k} = load ptr, ptr %p_x{k}, align 8",
        ]
    if action == "create":
        lines.append("store i64 %used, ptr %x0, align 8")
    elif action == "test":
        lines += [
            "%bottom = load i64, ptr %x0, align 8",
            "%holds = icmp sgt i64 %used, %bottom",
            "%byte = zext i1 %holds to i8",
            "store i8 %byte, ptr %x1, align 1",
        ]
    else:
        # A push writes above the top and then moves it; a pop moves it first and reads there.
        begin = "%used" if action == "push" else "%rest"
        sign = "add" if action == "push" else "sub"
        lines.append(f"%rest = {sign} i64 %used, {entry_bytes(sizes)}")
        lines.append(f"%top = getelementptr i8, ptr %data, i64 {begin}")
        for k, (at, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False)):
            pair = f"ptr %at{k}, ptr %x{k}" if action == "push" else f"ptr %x{k}, ptr %at{k}"
            lines.append(f"%at{k} = getelementptr i8, ptr %top, i64 {at}")
            lines.append(f"call void @llvm.memcpy.p0.p0.i64({pair}, i64 {size}, i1 false)")
        lines.append("store i64 %rest, ptr %p_used, align 8")
    body = "\n".join(f"  {line}" for line in lines)
    head = f"define void @{SYMBOL}(ptr %args, i64 %slot, i64 %lo, i64 %hi)"
    declared = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    return f"{declared}\n{head} {{\n{body}\n  ret void\n}}\n"
