"""A printer of programs that spells each type and attribute once."""

from __future__ import annotations

from io import StringIO

from xdsl.ir import Attribute
from xdsl.printer import Printer


class ProgramPrinter(Printer):
    """A printer with a cache of types, which repeat on every line and take most of its time."""

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text or self.stream is None:
            super().print_string(text, indent=indent)
            return
        self._current_column += len(text)
        self.stream.write(text)

    def print_attribute(self, attribute: Attribute) -> None:
        texts = self.__dict__.setdefault("_texts", {})
        held: tuple[Attribute, str] | None = texts.get(id(attribute))
        if held is None:
            stream = StringIO()
            Printer(stream, print_generic_format=self.print_generic_format).print_attribute(
                attribute
            )
            # the attribute is held so that no other one gets its id
            held = texts[id(attribute)] = (attribute, stream.getvalue())
        self.print_string(held[1])
