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
from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, LazyFunction, function_of
from pirkit.lowering.codegen.emit.code_key import SYMBOL, key_of
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Type, Value
from pirkit.runtime.native.function import Branch, NativeFunction
from pirkit.runtime.native.object_compiler import INLINE
from pirkit.runtime.native.records_ir import STACK
from pirkit.runtime.native.target import host

_CALL_NS: Final = 1_000_000
_STEP_NS: Final = 8
"""What a step takes, where a value passes through memory to the next one."""
_MOST_ITERATIONS: Final = 1 << 16
_NAME: Final = re.compile(r"^(?:define [^@]*)?(@[\w.$]+)(?= =|\()", re.MULTILINE)


class LoopBody(Struct, frozen=True):
    """The body of a loop, over operands that do not overlap, by number.

    The target of a `Branch` is the number of a step, or of the end; its operand is a byte. The body
    runs, and runs again while the byte ``condition`` is not 0. ``pushed`` are the bytes that one
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
    routines = Routines()
    for number, part in parts.items():
        routines.include(_inlined(part.text, number))
    _define_loop(routines, body, {k: part.code.blocks for k, part in parts.items()}, iterations)
    b = routines.builder()
    b.declared[INLINE] = INLINE
    given = [*(argument(b, k) for k in range(body.operands + 1)), Value("%slot", I64)]
    b.emit_void(f"call void @loop({', '.join(map(str, given))})")
    known = about(_define_loop, f"loop of {len(parts)} functions")
    # The time of a call, by which the driver decides how many iterations it counts.
    return routines.draft(b, scratch, tuple(sizes), iterations * work, known)


def _inlined(text: str, number: int) -> list[str]:
    """A module whose functions are named after a step, and whose own function is inlined."""
    for name in dict.fromkeys(_NAME.findall(text)):
        text = re.sub(re.escape(name) + r"(?![\w.$])", f"{name}.{number}", text)
    start = re.compile(rf"^define (void @{SYMBOL}\.{number}\(.*\)) {{$", re.MULTILINE)
    text = start.sub(r"define internal \1 alwaysinline {", text)
    return [line for line in text.splitlines() if not line.startswith("!")]


def _define_loop(
    routines: Routines, body: LoopBody, blocks: dict[int, int], iterations: int
) -> None:
    """The loop itself. Its operands do not overlap, as all are in use while it runs."""
    b = routines.builder()
    places = [Value(f"%b{k}", PTR) for k in range(body.operands)]
    # Once the steps are inlined, LLVM replaces their argument blocks by the addresses in them.
    scratch, arguments = Value("%scratch", PTR), dict[int, Value]()
    for number in blocks:
        given = [*(places[k] for k in body.steps[number][1]), scratch]
        arguments[number] = b.emit(PTR, f"alloca [{len(given)} x ptr]")
        for k, place in enumerate(given):
            b.store(place, b.at(arguments[number], 8 * k), 8)
    b.emit_void("br label %s0")
    b.begin("s0")
    b.emit_void(f"%left = phi i64 [ {iterations}, %entry ], [ %next, %s{len(body.steps)} ]")
    for number, (function, operands) in enumerate(body.steps):
        if isinstance(function, Branch):
            byte = b.load(Type("i8"), places[operands[0]], 1)
            taken = b.compare("ne" if function.when else "eq", byte, 0)
            b.emit_void(f"br {taken}, label %s{function.target}, label %s{number + 1}")
        else:
            run = f"{arguments[number]}, i64 %slot, i64 0, i64 {blocks[number]}"
            b.emit_void(f"call void @{SYMBOL}.{number}({run})")
            b.emit_void(f"br label %s{number + 1}")
        b.begin(f"s{number + 1}")
    b.emit_void("%next = sub i64 %left, 1")
    goes_on = b.compare("ne", b.load(Type("i8"), places[body.condition], 1), 0)
    goes_on = b.op("and", goes_on, b.compare("sgt", Value("%next", I64), 0))
    for stack, nbytes in body.pushed:
        used, capacity = (
            b.load(I64, b.at(places[stack], 8 * STACK.index(word)), 8)
            for word in ("used", "capacity")
        )
        goes_on = b.op("and", goes_on, b.compare("sle", b.plus(used, nbytes), capacity))
    b.emit_void(f"br {goes_on}, label %s0, label %done")
    b.begin("done")
    # `noalias` is a fact about parameters, so the loop is a function that is not inlined.
    named = ", ".join(f"ptr noalias {place.text}" for place in (*places, scratch))
    routines.define(f"internal void @loop({named}, i64 %slot) noinline", b)
