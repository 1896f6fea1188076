"""Private functions of an LLVM module, each emitted once however often it is called."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from pirkit.lowering.codegen.ir.llvm_text import Builder


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
        """Add a function whose body a builder holds, behind the lines ``first``."""
        lines = [f"define {head} {{", "entry:", *first, *b.lines, "  ret void", "}"]
        self._texts.append("\n".join(lines))
        self._declared |= b.declared

    def text(self) -> str:
        """The text of the module."""
        return "\n".join([*self._texts, *self._declared.values(), "!0 = !{i32 1}"]) + "\n"
