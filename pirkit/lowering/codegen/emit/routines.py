"""Private functions of an LLVM module, each emitted once however often it is called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from pirkit.lowering.codegen.about import About
from pirkit.lowering.codegen.emit.batch_compile import Draft
from pirkit.lowering.codegen.emit.code_key import SYMBOL
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.ir.llvm_text import Builder
from pirkit.runtime.native.function import Code

_PARAMETERS: Final = "ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi"


class Routines:
    """Emits functions on demand; equal keys share one function."""

    def __init__(self, scalef: bool = False) -> None:
        self.scalef = scalef
        self._names: dict[Hashable, str] = {}
        self._texts: list[str] = []
        self._declared: dict[str, str] = {}

    def builder(self) -> Builder:
        """A builder for the body of one function."""
        return Builder(scalef=self.scalef)

    def add(self, key: Hashable, parameters: str, write: Callable[[Builder], None]) -> str:
        """The name of the function for a key; ``write`` emits its body at the first use."""
        if key not in self._names:
            name = f"part{len(self._names)}"
            self._names[key] = name
            b = self.builder()
            write(b)
            self.define(f"private void @{name}({parameters})", b)
        return self._names[key]

    def define(self, head: str, b: Builder, first: tuple[str, ...] = ()) -> None:
        """Add a function whose body a builder holds, after the lines ``first``."""
        lines = [f"define {head} {{", "entry:", *first, *b.lines, "  ret void", "}"]
        self._texts.append("\n".join(lines))
        self._declared |= b.declared

    def include(self, lines: Sequence[str]) -> None:
        """Add what another module defines and declares, under names that no function here has."""
        declared = [line for line in lines if line.startswith(("declare", "!"))]
        self._declared |= {d.rpartition("@")[2].partition("(")[0]: d for d in declared}
        self._texts += [line for line in lines if line not in declared]

    def draft(
        self, b: Builder, scratch: int, sizes: tuple[int, ...], work: int, known: About,
        stages: Sequence[Stage] = (),
    ) -> Draft:  # fmt: skip
        """The module whose function has the body of a builder, not yet compiled.

        ``sizes`` are those of the operands in bytes, ``work`` the time on one thread in ns.
        ``known`` gives the number of blocks; without one there is one block. ``stages`` are its
        loops, if it was written from the loop IR.
        """
        code = Code(b"", SYMBOL, known.sizes.get("blocks", 1), scratch, work, sizes)
        return Draft(self.module(b, len(sizes), scratch), code, known, tuple(stages))

    def module(self, b: Builder, operands: int, scratch: int) -> str:
        """The text of the module whose function has the body of a builder."""
        first = (  # the address of the scratch memory of the thread
            f"  %scratch_slot = getelementptr i8, ptr %args, i64 {8 * operands}",
            "  %scratch_base = load ptr, ptr %scratch_slot, align 8",
            f"  %scratch_offset = mul i64 %slot, {scratch}",
            "  %scratch = getelementptr i8, ptr %scratch_base, i64 %scratch_offset",
        )
        self.define(f"void @{SYMBOL}({_PARAMETERS})", b, first)
        return "\n".join([*self._texts, *self._declared.values(), "!0 = !{i32 1}"]) + "\n"
