"""From LLVM IR to functions in memory: the only file that drives llvmlite's compiler."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from pirkit.diag.errors import InternalError
from pirkit.runtime.native.llvm import llvm
from pirkit.runtime.native.target import Target, host

_lock = threading.Lock()
_names = count()


@dataclass(frozen=True, slots=True)
class Library:
    """Code in memory, for as long as this object lives."""

    addresses: dict[str, int]
    handle: Any


@cache
def _machine(target: Target) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", jit=True
    )


@cache
def _linker(target: Target) -> Any:
    return llvm.create_lljit_compiler(_machine(target), suppress_errors=True)


def compile_ir(text: str, target: Target | None = None) -> bytes:
    """Object code of a module. Raises InternalError for a module that LLVM refuses."""
    machine_target = target or host()
    with _lock:
        machine = _machine(machine_target)
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise InternalError("LLVM refuses generated code", notes=(str(error),)) from error
        module.triple = machine_target.triple
        module.data_layout = str(machine.target_data)
        _optimise(module, machine)
        return machine.emit_object(module)


def _optimise(module: Any, machine: Any) -> None:
    """A few cheap passes: the code comes vectorised and unrolled, with its loops in order."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def load(image: bytes, symbols: Sequence[str]) -> Library:
    """Link object code into this process; symbols of the C library are found by themselves."""
    with _lock:
        linker = _linker(host())
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        tracker = builder.link(linker, f"pirkit{next(_names)}")
        return Library({symbol: tracker[symbol] for symbol in symbols}, (tracker, linker))


def _unlock() -> None:
    """In the child of a fork: whoever compiled is not here."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
