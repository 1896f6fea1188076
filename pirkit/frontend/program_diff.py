"""The difference between two programs, whose values have the same names where they correspond."""

from __future__ import annotations

from collections import Counter
from difflib import unified_diff
from io import StringIO
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.matching import match_programs
from pirkit.dialect.printing import ProgramPrinter


class ProgramDiff(NamedTuple):
    """How many operations differ, and where."""

    removed: int
    added: int
    changed: int
    """Operations with other attributes, types or operands."""
    text: str
    """A unified diff, in which values of the second program have the names of the first; empty if
    the programs differ in nothing but names and the order of independent operations."""


def diff_programs(first: ModuleOp, second: ModuleOp, names: tuple[str, str]) -> ProgramDiff:
    """Compare two modules; ``names`` stand at the head of the diff."""
    matching = match_programs(first, second)
    changed = sum(1 for _ in matching.changed())
    counts = (len(matching.removed), len(matching.added), changed)
    if not any(counts):
        return ProgramDiff(*counts, "")
    before, after = _Recorder(), _Follower()
    before.print_op(first)
    after.names = {new: before.names[old] for old, new in matching.values()}
    after.taken = set(before.names.values())
    after.print_op(second)
    old_lines, new_lines = (p.text.getvalue().splitlines(True) for p in (before, after))
    return ProgramDiff(*counts, "".join(unified_diff(old_lines, new_lines, *names)))


class _Recorder(ProgramPrinter):
    """A printer that remembers the names that it gives to values."""

    def __init__(self) -> None:
        self.text = StringIO()
        super().__init__(self.text)
        self.names: dict[SSAValue, str] = {}

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self.names[value] = super().print_ssa_value(value)
        return name


class _Follower(_Recorder):
    """A printer that knows names of values; the others get names that are not ``taken``."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: set[str] = set()
        self.next: Counter[str] = Counter()

    def print_ssa_value(self, value: SSAValue) -> str:
        if value not in self.names:
            self.names[value] = self._fresh(value.name_hint or "")
        # indices of kernels are printed from the table of the printer
        self._ssa_values[value] = self.names[value]
        self.print_string(f"%{self.names[value]}")
        return self.names[value]

    def _fresh(self, stem: str) -> str:
        name = stem
        while not name or name in self.taken:
            name = f"{stem}_{self.next[stem]}" if stem else str(self.next[stem])
            self.next[stem] += 1
        self.taken.add(name)
        return name
