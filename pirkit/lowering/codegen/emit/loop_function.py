"""One native function for all iterations of a loop whose steps compute few numbers.

The driver (`pirkit.runtime.native.records_ir`) calls each step of a loop through a pointer, which
takes as long as some twenty instructions, and values pass from step to step through memory. Here
the steps are inlined into a loop, so that LLVM keeps in registers what it can::

    @pirkit_kernel(args)     loads the addresses of the operands, and calls
    @loop(noalias b0, ...)   step, step, branch, step ...; again while the condition holds
    @pirkit_kernel.K(args)   the function of step K, inlined

The loop also returns after about a millisecond, so that Python can handle signals, and where a
stack is full, so that it can be enlarged. The driver then calls it again, if the condition holds.
It does not look at assertions: whoever calls it does, when it returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, LazyFunction, function_of
from pirkit.lowering.codegen.emit.code_key import SYMBOL, key_of
from pirkit.runtime.native.function import Branch, Code, NativeFunction
from pirkit.runtime.native.object_compiler import INLINE, SIMPLIFY
from pirkit.runtime.native.records_ir import STACK
from pirkit.runtime.native.target import host

_CALL_NS: Final = 1_000_000
_STEP_NS: Final = 8
"""What a step takes, where a value passes through memory to the next one."""
_MOST_ITERATIONS: Final = 1 << 16
_NAME: Final = re.compile(r"^(?:define [^@]*)?(@[\w.$]+)(?= =|\()", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LoopBody:
    """The body of a loop, over operands that do not overlap, by number.

    The target of a `Branch` is the number of a step, or of the end; its operand is a byte. The body
    runs, and runs again while the byte ``condition`` is 1. ``pushed`` are the bytes that one
    iteration pushes on a stack, by the operand that is the stack.
    """

    steps: tuple[tuple[NativeFunction | Branch, tuple[int, ...]], ...]
    operands: int
    condition: int
    pushed: tuple[tuple[int, int], ...]


def loop_function(body: LoopBody) -> NativeFunction:
    """The function of a loop; its operands are those of the body."""
    steps = tuple([(f if isinstance(f, Branch) else _lazy(f).key, b) for f, b in body.steps])
    key = key_of(("loop", steps, body.operands, body.condition, body.pushed), host())
    return function_of(key, lambda: _draft(body))


def _lazy(function: NativeFunction) -> LazyFunction:
    assert isinstance(function, LazyFunction)
    return function


def _draft(body: LoopBody) -> Draft:
    written: dict[str, Draft] = {}
    parts: dict[int, Draft] = {}
    sizes = [0] * body.operands
    sizes[body.condition] = 1
    for number, (function, operands) in enumerate(body.steps):
        if isinstance(function, Branch):
            sizes[operands[0]] = max(sizes[operands[0]], 1)
            continue
        lazy = _lazy(function)
        if lazy.key not in written:
            written[lazy.key] = lazy.write()
        parts[number] = written[lazy.key]
        for operand, size in zip(operands, parts[number].code.sizes, strict=True):
            sizes[operand] = max(sizes[operand], size)
    work = _STEP_NS + sum(part.code.work + _STEP_NS for part in parts.values())
    iterations = max(1, min(_MOST_ITERATIONS, _CALL_NS // work))
    scratch = max((part.code.scratch for part in parts.values()), default=0)
    lines = list[str]()
    declared = dict.fromkeys([INLINE])
    for number, part in parts.items():
        lines += _inlined(part.text, number, declared)
    lines += _loop(body, {k: part.code.blocks for k, part in parts.items()}, iterations)
    lines += _entry(body.operands)
    # The time of a call, by which the driver decides how many iterations it counts.
    code = Code(b"", SYMBOL, 1, scratch, iterations * work, tuple(sizes))
    known = about(_loop, f"loop of {len(parts)} functions")
    return Draft("\n".join([*lines, *declared, ""]), code, known)


def _inlined(text: str, number: int, declared: dict[str, None]) -> Iterator[str]:
    """The definitions of a module, named after a step; its declarations go into ``declared``."""
    for name in dict.fromkeys(_NAME.findall(text)):
        text = re.sub(re.escape(name) + r"(?![\w.$])", f"{name}.{number}", text)
    start = f"define void @{SYMBOL}.{number}("
    for line in text.splitlines():
        if line.startswith(("declare", "!")):
            if line not in (SIMPLIFY, INLINE):
                declared[line] = None
        elif line.startswith(start):
            yield line.replace("define", "define internal", 1).replace(") {", ") alwaysinline {")
        else:
            yield line


def _loop(body: LoopBody, blocks: dict[int, int], iterations: int) -> list[str]:
    """The loop itself. Its operands do not overlap, as all are in use while it runs."""
    end = len(body.steps)
    given = ", ".join(f"ptr noalias %b{k}" for k in range(body.operands))
    lines = [f"define internal void @loop({given}, ptr noalias %scratch, i64 %slot) noinline {{"]
    lines.append("entry:")
    for number in blocks:
        places = [f"%b{k}" for k in body.steps[number][1]]
        lines.append(f"  %a{number} = alloca [{len(places) + 1} x ptr]")
        lines += _stored(f"%a{number}", [*places, "%scratch"])
    lines += [
        "  br label %s0",
        "s0:",
        f"  %left = phi i64 [ {iterations}, %entry ], [ %next, %s{end} ]",
    ]
    for number, (function, operands) in enumerate(body.steps):
        if isinstance(function, Branch):
            lines += [
                f"  %byte{number} = load i8, ptr %b{operands[0]}",
                f"  %is{number} = icmp eq i8 %byte{number}, {int(function.when)}",
                f"  br i1 %is{number}, label %s{function.target}, label %s{number + 1}",
            ]
        else:
            lines.append(
                f"  call void @{SYMBOL}.{number}(ptr %a{number}, i64 %slot, i64 0, "
                f"i64 {blocks[number]})"
            )
            lines.append(f"  br label %s{number + 1}")
        lines.append(f"s{number + 1}:")
    lines += [
        f"  %byte = load i8, ptr %b{body.condition}",
        "  %holds = icmp eq i8 %byte, 1",
        "  %next = sub i64 %left, 1",
        "  %may = icmp sgt i64 %next, 0",
        "  %m0 = and i1 %holds, %may",
    ]
    for k, (stack, nbytes) in enumerate(body.pushed):
        for word in ("used", "capacity"):
            place = STACK.index(word)
            lines.append(f"  %p_{word}{k} = getelementptr i64, ptr %b{stack}, i64 {place}")
            lines.append(f"  %{word}{k} = load i64, ptr %p_{word}{k}")
        lines += [
            f"  %wanted{k} = add i64 %used{k}, {nbytes}",
            f"  %room{k} = icmp sle i64 %wanted{k}, %capacity{k}",
            f"  %m{k + 1} = and i1 %m{k}, %room{k}",
        ]
    return [*lines, f"  br i1 %m{len(body.pushed)}, label %s0, label %done",
            "done:", "  ret void", "}"]  # fmt: skip


def _stored(array: str, values: Sequence[str]) -> Iterator[str]:
    for k, value in enumerate(values):
        yield f"  {array}.{k} = getelementptr ptr, ptr {array}, i64 {k}"
        yield f"  store ptr {value}, ptr {array}.{k}"


def _entry(operands: int) -> list[str]:
    lines = [f"define void @{SYMBOL}(ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi) {{"]
    for k in range(operands + 1):
        lines.append(f"  %p{k} = getelementptr ptr, ptr %args, i64 {k}")
        lines.append(f"  %v{k} = load ptr, ptr %p{k}")
    given = ", ".join(f"ptr %v{k}" for k in range(operands + 1))
    return [*lines, f"  call void @loop({given}, i64 %slot)", "  ret void", "}"]
