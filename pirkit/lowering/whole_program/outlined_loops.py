"""Loops that are alike are one function of the module, which is called with other places.

Layers of one shape do the same with rows that lie elsewhere. What a loop is told apart by, such as
where its rows and weights are, becomes arguments; two whose texts are then equal are one, so LLVM
sees the loops of a layer once, however many layers there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value


@dataclass(slots=True)
class OutlinedLoop:
    """A function in the making: what it is given, and what tells its caller what to give."""

    bound: dict[Hashable, tuple[Value, Callable[[], Value], str]] = field(
        default_factory=dict[Hashable, "tuple[Value, Callable[[], Value], str]"]
    )

    def pointer(self, key: Hashable, place: Callable[[], Value], alone: bool = False) -> Value:
        """An address; ``alone`` says that no other argument leads to the same memory."""
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
        """Written by the caller, who works out what is given."""
        return ", ".join(str(made()) for _, made, _ in self.bound.values())


class OutlinedLoops:
    """The functions of a module besides the one that is called from outside."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._declared: dict[str, str] = {}

    def name_of(self, parameters: str, b: Builder) -> str:
        """The function with the body that a builder holds."""
        text = "\n".join([f"({parameters}) {{", "entry:", *b.lines, "  ret void", "}"])
        self._declared |= b.declared
        return self._names.setdefault(text, f"@loop{len(self._names)}")

    def declared(self) -> dict[str, str]:
        return self._declared

    def lines(self) -> list[str]:
        return [f"define internal void {name}{text}" for text, name in self._names.items()]
