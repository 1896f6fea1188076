"""The facts about a branch or loop that its source determines, and the errors about it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from pirkit.diag.errors import TraceError
from pirkit.diag.span import Span
from pirkit.frontend.control_flow import TypesDifferError
from pirkit.runtime.meta import TensorMeta

Live = frozenset[str]
Lines = Mapping[str, int]


class Site(Struct, frozen=True):
    """A branch or loop in the source of a function.

    ``names`` are the variables that it may bind, with the line of the first place in each of its
    two blocks (a loop has one); ``needed`` those that are read after each block.
    """

    file: str
    line: int
    what: str
    names: tuple[str, ...]
    lines: tuple[Lines, Lines]
    needed: tuple[Live, Live]
    after: Live = frozenset()
    """What is read after a loop."""
    captured: Live = frozenset()
    """Names that functions inside the function use."""
    mutated: Lines = field(default_factory=dict[str, int])
    """Containers that are written in place."""
    refused: str | None = None
    """Why no tensor may decide here."""

    @property
    def span(self) -> Span:
        """The place in the source."""
        return Span(self.file, self.line)

    def wrong(self, problem: str, help: str, *names: str) -> TraceError:
        """The error for variables that differ between branches or iterations."""
        return TraceError(
            problem, code="PK0708", span=self.span, notes=self.places(*names), help=help
        )

    def differ(self, name: str, meta: TensorMeta, problem: str, help: str) -> TypesDifferError:
        """The error for a variable that has another shape or element type in one place."""
        notes = () if name.startswith("_") else self.places(name)
        error = TypesDifferError(problem, code="PK0708", span=self.span, notes=notes, help=help)
        error.name, error.meta = name, meta
        return error

    def refusal(self, problem: str, help: str) -> TraceError:
        """The error for Python that cannot be a part of a program."""
        return TraceError(problem, code="PK0709", span=self.span, help=help)

    def places(self, *names: str) -> tuple[str, ...]:
        """Notes on where variables are set or written."""
        every = [(n, "set", lines.get(n)) for n in names for lines in self.lines]
        every += [(n, "written", self.mutated.get(n)) for n in names]
        return tuple([f"`{n}` is {how} at {self.file}:{line}" for n, how, line in every if line])
