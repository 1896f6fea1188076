"""Outlines loops into functions, and merges equal ones.

Layers of one shape run equal loops on different addresses. Each address or count in which they
differ becomes an argument; loops whose text is then equal become one function. LLVM compiles the
loops of a layer once, whatever the number of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct, field

from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value


class OutlinedLoop(Struct):
    """The parameters of a function that is being emitted.

    ``bound`` maps the key of each parameter to its name, the callback by which the caller computes
    the argument, and its LLVM attribute.
    """

    bound: dict[Hashable, tuple[Value, Callable[[], Value], str]] = field(
        default_factory=dict[Hashable, "tuple[Value, Callable[[], Value], str]"]
    )

    def pointer(self, key: Hashable, place: Callable[[], Value], alone: bool = False) -> Value:
        """A pointer parameter; ``alone`` means that no other parameter aliases it (`noalias`)."""
        return self._value(key, PTR, place, " noalias" if alone else "")

    def number(self, key: Hashable, made: Callable[[], Value]) -> Value:
        return self._value(key, I64, made, "")

    def _value(self, key: Hashable, type_: Type, made: Callable[[], Value], note: str) -> Value:
        if key not in self.bound:
            self.bound[key] = Value(f"%a{len(self.bound)}", type_), made, note
        return self.bound[key][0]

    @property
    def parameters(self) -> str:
        return ", ".join(f"{v.type}{note} {v.text}" for v, _, note in self.bound.values())

    def arguments(self) -> str:
        """The arguments of the call, computed in the builder of the caller."""
        return ", ".join(str(made()) for _, made, _ in self.bound.values())


class OutlinedLoops:
    """The internal functions of a module, merged by text."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._declared: dict[str, str] = {}
        self._tables: dict[str, str] = {}

    def table(self, numbers: Sequence[int]) -> Value:
        """The address of constant integers."""
        values = ", ".join(f"i64 {n}" for n in numbers)
        text = f"private unnamed_addr constant [{len(numbers)} x i64] [{values}]"
        return Value(self._tables.setdefault(text, f"@table{len(self._tables)}"), PTR)

    def name_of(self, parameters: str, b: Builder) -> str:
        """The name of the function with this builder's body; an equal one is reused."""
        text = "\n".join([f"({parameters}) {{", "entry:", *b.lines, "  ret void", "}"])
        # a reused function declares nothing that the first one has not
        self._declared |= b.declared
        return self._names.setdefault(text, f"@loop{len(self._names)}")

    def lines(self) -> list[str]:
        """The module of these functions."""
        tables = [f"{name} = {text}" for text, name in self._tables.items()]
        return [
            *tables,
            *(f"define internal void {name}{text}" for text, name in self._names.items()),
            *self._declared.values(),
        ]
