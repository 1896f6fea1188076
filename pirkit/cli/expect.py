"""``pirkit-opt --expect-diagnostics``: compares diagnostics with comments of the file.

::

    // expected-error @+1 {{PK0203}}
    %2 = pd_op.matmul(%0, %1) : ...

``@+N``, ``@-N``, ``@below`` and ``@above`` count lines from the comment, without one of them it is
its own line; ``@unknown`` is a diagnostic without a line. The text is part of the diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pirkit.diag.errors import MismatchError, PirkitError
from pirkit.diag.span import Span

if TYPE_CHECKING:
    from pirkit.passes import Remark

_COMMENT: Final = re.compile(
    r"//\s*expected-(?P<kind>error|remark)"
    r"(?:\s*@(?P<place>[+-]\d+|below|above|unknown))?\s*\{\{(?P<text>.*?)\}\}"
)
_PLACES: Final = {"below": 1, "above": -1}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An expected or reported diagnostic: its kind, line (0: none) and text."""

    kind: str
    line: int
    text: str

    def fulfils(self, wanted: Diagnostic) -> bool:
        return (self.kind, self.line) == (wanted.kind, wanted.line) and wanted.text in self.text

    def __str__(self) -> str:
        return f"{self.kind} at line {self.line or 'unknown'}: {self.text}"


def expected_in(text: str) -> Iterator[Diagnostic]:
    """The diagnostics that the comments of a text expect."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in _COMMENT.finditer(line):
            place = match["place"] or "+0"
            offset = _PLACES.get(place)
            if place == "unknown":
                at = 0
            else:
                at = number + (int(place) if offset is None else offset)
            yield Diagnostic(match["kind"], at, match["text"])


def found_in(error: PirkitError | None, remarks: Sequence[Remark]) -> list[Diagnostic]:
    """The diagnostics of a run: its remarks, and the error that ended it."""
    found = [Diagnostic("remark", _line(r.span), str(r)) for r in remarks]
    if error is not None:
        found.append(Diagnostic("error", _line(error.span), f"[{error.code}] {error.message}"))
    return found


def differences(expected: Sequence[Diagnostic], found: Sequence[Diagnostic]) -> list[str]:
    """The missing diagnostics and the unexpected errors; remarks need no comment."""
    rest = list(found)
    missing: list[str] = []
    for wanted in expected:
        match = next((d for d in rest if d.fulfils(wanted)), None)
        if match is None:
            missing.append(f"missing: {wanted}")
        else:
            rest.remove(match)
    return missing + [f"unexpected: {d}" for d in rest if d.kind == "error"]


def require_expected(wrong: Sequence[str]) -> None:
    """Raise MismatchError (PK0603) that lists the differences, if there are any."""
    if wrong:
        count = f"{len(wrong)} diagnostic{'s differ' if len(wrong) > 1 else ' differs'}"
        raise MismatchError(f"{count} from the expected ones", code="PK0603", notes=tuple(wrong))


def _line(span: Span | None) -> int:
    return span.line if span is not None else 0
