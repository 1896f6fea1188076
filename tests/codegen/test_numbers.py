"""What a routine gets as a number is, in native code, what the loop IR says of it."""

from __future__ import annotations

import ctypes
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import llvmlite.binding as llvm

from pirkit.lowering.codegen.emit.nest_state import NestState
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Value
from pirkit.lowering.codegen.ir.loop_ir import Iteration, Number, Window

NUMBERS: list[Number] = [
    *(Iteration("i", of) for of in (0, 1, 2, 3, 7)),
    *(
        Window(0, taps, stride, dilation, before, length, counts)
        for taps, stride, dilation, before, length, counts in product(
            (1, 3), (1, 2), (1, 2, 3), (0, 1, 5), (1, 4, 9), (False, True)
        )
    ),
]


def functions() -> str:
    """A module with a function of the iteration or index for each number."""
    texts: list[str] = []
    declared: set[str] = set()
    for k, number in enumerate(NUMBERS):
        state = cast(Any, object.__new__(NestState))
        state.b = Builder()
        at = SimpleNamespace(iterations={"i": Value("%i", I64)}, index={0: Value("%i", I64)})
        found = NestState.number(state, number, cast(Any, at))
        body = "\n".join(state.b.lines)
        declared |= set(state.b.declared.values())
        texts.append(f"define i64 @f{k}(i64 %i) {{\n{body}\n  ret i64 {found.text}\n}}")
    return "\n".join([*sorted(declared), *texts])


def test_numbers_are_those_of_the_loop_ir() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(functions())
    machine = llvm.Target.from_default_triple().create_target_machine()
    with llvm.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()
        for k, number in enumerate(NUMBERS):
            run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(
                engine.get_function_address(f"f{k}")
            )
            known = cast("Iteration | Window", number)
            count = getattr(number, "of", 0) or 12
            assert [run(i) for i in range(count)] == [known.at(i) for i in range(count)], number
