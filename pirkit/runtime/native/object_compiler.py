"""Compiles the text of an LLVM module to object code; also the main program of compile workers.

It is imported as a module, and run as a script in worker processes (see `compile_workers.py`). To
start fast, it imports neither pirkit nor numpy. Workers exchange messages over pipes: a length of
eight bytes (little endian), then the payload.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from typing import IO, Any, Final

LENGTH: Final = 8
DONE: Final = b"+"
REFUSED: Final = b"-"
"""First byte of an answer: object code follows, or the error message of LLVM."""
SIMPLIFY: Final = "!simplify = !{}"
"""A line of a module that requests LLVM's instruction combining before code generation."""
INLINE: Final = "!inline = !{}"
"""A line of a module whose variables LLVM puts in registers, and of which it inlines the functions
that are marked `alwaysinline`."""
QUICK: Final = "!quick = !{}"
"""A line of a module whose code need not be fast: a third of the time to compile it."""
_HALVES: Final = """
define hidden float @__extendhfsf2(half %x) {
  %bits = bitcast half %x to i16
  %wide = zext i16 %bits to i32
  %sign.low = and i32 %wide, 32768
  %sign = shl i32 %sign.low, 16
  %size = and i32 %wide, 32767
  %moved = shl i32 %size, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %nan = icmp ugt i32 %size, 31744
  %quiet = select i1 %nan, i32 2143289344, i32 2139095040
  %special = or i32 %moved, %quiet
  %is.special = icmp uge i32 %size, 31744
  %found = select i1 %is.special, i32 %special, i32 %finite
  %signed = or i32 %found, %sign
  %y = bitcast i32 %signed to float
  ret float %y
}
define hidden half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %sign.high = lshr i32 %bits, 16
  %sign = and i32 %sign.high, 32768
  %last = lshr i32 %size, 13
  %odd = and i32 %last, 1
  %biased = add i32 %size, -939520001
  %rounded = add i32 %biased, %odd
  %normal = lshr i32 %rounded, 13
  %positive = bitcast i32 %size to float
  %added = fadd float %positive, 0x3FE0000000000000
  %added.bits = bitcast float %added to i32
  %below = sub i32 %added.bits, 1056964608
  %is.below = icmp ult i32 %size, 947912704
  %finite = select i1 %is.below, i32 %below, i32 %normal
  %payload = and i32 %last, 1023
  %quiet = or i32 %payload, 32256
  %nan = icmp ugt i32 %size, 2139095040
  %special = select i1 %nan, i32 %quiet, i32 31744
  %is.special = icmp uge i32 %size, 1199570944
  %found = select i1 %is.special, i32 %special, i32 %finite
  %signed = or i32 %found, %sign
  %narrow = trunc i32 %signed to i16
  %y = bitcast i16 %narrow to half
  ret half %y
}
"""
"""The functions that LLVM calls to convert float16 on a CPU without F16C (older x86-64).

Compilers provide them in their runtime library, which a Python process need not have loaded."""
_HALF_OF_DOUBLE: Final = """
define hidden half @__truncdfhf2(double %x) {
  %near = fptrunc double %x to float
  %y = call half @__truncsfhf2(float %near)
  ret half %y
}
"""
"""LLVM's name for a conversion that no x86-64 without AVX512-FP16 has an instruction for.

No emitter asks for it, but LLVM moves the sign of a scalar (`copysign`) after the conversions to
float and to half, and then merges these two. This rounds twice, as the two do."""

_BYTES: Final = re.compile(
    r"(%\S+) = (shufflevector (<\d+ x i8>) )(\S+)(, <\d+ x i8> )(\S+)(, <64 x i32> <.*)"
)
"""A shuffle to a 512-bit vector of bytes."""


def _llvm() -> Any:
    """llvmlite, which plans from the cache do not need."""
    import llvmlite.binding  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

    return llvmlite.binding


@cache
def machine(triple: str, cpu: str, features: str, level: int = 1) -> Any:
    """LLVM's code generator for a CPU."""
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if triple != llvm.get_process_triple():  # cross compilation
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    # levels above 1 add another instruction scheduling pass, which is slow for long blocks and
    # gains nothing on out-of-order CPUs
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", jit=True
    )


def object_code(text: str, triple: str, cpu: str, features: str) -> bytes:
    """Object code of a module. Raises RuntimeError for a module that LLVM refuses.

    No IR pass of LLVM runs, unless the module has the line `SIMPLIFY` or `INLINE`: the generated
    code is already vectorized, unrolled and tiled, with addresses in the form of addressing modes.
    """
    module, chosen = _parsed(text, triple, cpu, features)
    return chosen.emit_object(module)


def assembly(text: str, triple: str, cpu: str, features: str) -> str:
    """The same code as text. Raises RuntimeError for a module that LLVM refuses."""
    module, chosen = _parsed(text, triple, cpu, features)
    return chosen.emit_assembly(module)


def _parsed(text: str, triple: str, cpu: str, features: str) -> tuple[Any, Any]:
    """A module that is ready for the code generator, and the code generator."""
    llvm = _llvm()
    chosen = machine(triple, cpu, features, 0 if f"\n{QUICK}\n" in text else 1)
    if " half" in text and triple.startswith("x86_64"):
        merges = " double" in text
        if merges or "+f16c" not in features.split(","):
            text += _HALVES + _HALF_OF_DOUBLE * merges
    if "<64 x i32> <" in text and "+avx512bw" in features.split(","):
        text = _BYTES.sub(_isolated, text)
    # A context keeps all types and constants that its modules had, until it goes with the last one.
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    module.triple = triple
    module.data_layout = str(chosen.target_data)
    if f"\n{SIMPLIFY}\n" in text:
        passes, builder = _simplification(chosen)
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)
    if f"\n{INLINE}\n" in text:
        passes, builder = _inlining(chosen)
        passes.run(module, builder)
    return module, chosen


def _isolated(found: re.Match[str]) -> str:
    """A shuffle of bytes between empty instructions, which LLVM does not look through.

    LLVM 22.1 does not end where it selects AVX-512BW instructions for `x + x` or `x << 1` of some
    shuffles that repeat bytes, and for such shuffles of what a binary instruction computes: it
    moves the shuffle behind the instruction and back.
    """
    name, opcode, type_, a, between, b, mask = found.groups()
    lines = list[str]()

    def opaque(value: str, of: str, as_: str) -> str:
        # other sizes are no registers, and only loaded
        if not value.startswith("%") or of not in ("<16 x i8>", "<32 x i8>", "<64 x i8>"):
            return value
        lines.append(f'{as_} = call {of} asm "", "=v,0"({of} {value})')
        return as_

    a, b = opaque(a, type_, f"{name}.a"), opaque(b, type_, f"{name}.b")
    lines.append(f"{name}.raw = {opcode}{a}{between}{b}{mask}")
    opaque(f"{name}.raw", "<64 x i8>", name)
    return "\n  ".join(lines)


# Pass managers and builders serve all modules: llvmlite frees less than it made for each of them.
@cache
def _simplification(chosen: Any) -> tuple[Any, Any]:
    passes = _llvm().create_new_function_pass_manager()
    passes.add_instruction_combine_pass()
    return passes, _builder(chosen)


@cache
def _inlining(chosen: Any) -> tuple[Any, Any]:
    passes = _llvm().create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    return passes, _builder(chosen)


@cache
def _builder(chosen: Any) -> Any:
    llvm = _llvm()
    return llvm.create_pass_builder(chosen, llvm.create_pipeline_tuning_options(1))


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message. Raises OSError if the reader is gone."""
    stream.write(len(message).to_bytes(LENGTH, "little") + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream."""
    head = stream.read(LENGTH)
    if len(head) < LENGTH:
        return None
    count = int.from_bytes(head, "little")
    message = stream.read(count)
    return message if len(message) == count else None


def answer(text: bytes, target: list[str]) -> bytes:
    """The answer of a worker to a text."""
    try:
        return DONE + object_code(text.decode(), *target)
    except RuntimeError as error:
        return REFUSED + str(error).encode()


def main(folder: str) -> None:
    """Answer requests until the end of standard input; llvmlite is imported from ``folder``."""
    sys.path.append(folder)
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    target = json.loads(receive(requests) or b"null")
    while target and (text := receive(requests)) is not None:
        try:
            send(replies, answer(text, target))
        except OSError:
            return  # the parent is gone


if __name__ == "__main__":
    main(sys.argv[1])
