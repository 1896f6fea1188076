"""What a check of the kernels of a program found: the wrong ones, and the suspicious files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pirkit.diag.errors import RuntimeFault
from pirkit.diag.span import Span
from pirkit.frontend.suspects import Ran
from pirkit.lowering.codegen.about import About, Lines
from pirkit.lowering.instruction_check import MEMORY_PLAN, KernelFault

KERNEL: Final = "a kernel"
SEGMENT: Final = "a native segment"
CALL: Final = "its native call"
"""The words for what may be wrong, also in `Report.symptom`."""


@dataclass(frozen=True)
class Report:
    """The result of checking a program on a backend.

    ``together`` says what is wrong with a run in which native kernels share launches or memory,
    although each of the ``checked`` instructions is right alone; ``suspect`` then names what they
    share.
    """

    program: str
    backend: str
    checked: int
    """The number of instructions that were compared."""
    faults: tuple[KernelFault, ...]
    """The wrong instructions."""
    together: str | None = None
    suspect: str = ""
    in_segments: bool = False
    """Whether the run that is wrong is the one in native segments."""
    ended: bool = False
    """Whether a kernel ended the process, or did not end in time."""
    lines_run: Lines = frozenset()
    """The lines of the code generator that ran for the wrong code."""
    stage_run: Lines = frozenset()
    """Those of them that ran in the stage that is wrong, if that is known."""
    others_run: tuple[Ran, ...] = ()
    """The same of other kernels of the program and of parts of it, and whether each is right."""
    files: tuple[str, ...] = ()
    """The files that may be wrong, the most suspicious first."""

    def __bool__(self) -> bool:
        """True if something is wrong."""
        return bool(self.faults or self.together)

    def lines(self, verbose: bool = False) -> Iterator[str]:
        """The report as text: the first fault in full, the others in two lines each."""
        if not self:
            right = "1 kernel is" if self.checked == 1 else f"{self.checked} kernels are"
            yield f"@{self.program} on `{self.backend}`: {right} right"
        elif self.faults:
            count = len({fault.instruction for fault in self.faults})
            what = f"{count} of {self.checked} kernels are wrong"
            yield f"@{self.program} on `{self.backend}`: {what}"
        for number, fault in enumerate(self.faults):
            yield from list(fault.lines(verbose))[: None if number == 0 else 2]
        if self.together:
            yield f"@{self.program} on `{self.backend}`: {self.together}"
            yield f"  each instruction is right alone: {self.suspect} is wrong"
        if self.files:
            yield f"  most suspicious files: {', '.join(self.files)}"

    @property
    def symptom(self) -> str:
        """What a reduced program must show too, so that it has the same error.

        Errors of the memory plans of sessions and of segments are one symptom, as both plans come
        from one allocator.
        """
        if self.faults and not self.faults[0].stage.startswith(MEMORY_PLAN):
            return f"{KERNEL} of {', '.join(self.faults[0].emitters)}"
        return CALL if self.suspect == CALL else "what kernels share"

    def require_right(self) -> None:
        """Raise RuntimeFault (PK0909) for the first fault."""
        if not self:
            return
        first, *more = self.lines()
        raise RuntimeFault(
            first,
            code="PK0909",
            span=self.faults[0].span if self.faults else None,
            notes=tuple(line.strip() for line in more),
            help="`pirkit-reduce FILE -p PIPELINE numbers` makes the program small",
        )


def report_of(found: dict[str, Any]) -> Report:
    """A report from its fields as plain data, in which form it comes from a child process."""
    faults: list[KernelFault] = []
    for fault in found["faults"]:
        fields: dict[str, Any] = {
            **fault,
            "functions": tuple([About(**known) for known in fault["functions"]]),
            "span": Span(**fault["span"]) if fault["span"] else None,
            "origin": tuple(fault["origin"]),
        }
        faults.append(KernelFault(**fields))
    others = [(_lines_of(lines), is_right) for lines, is_right in found["others_run"]]
    lines: dict[str, Any] = {k: _lines_of(found[k]) for k in ("lines_run", "stage_run")}
    lines["others_run"] = tuple(others)
    whole: dict[str, Any] = {**found, "faults": tuple(faults), **lines}
    return Report(**whole)


def _lines_of(lines: Sequence[Sequence[Any]]) -> Lines:
    return frozenset({(file, number) for file, number in lines})
