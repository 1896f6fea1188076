"""A trace of the rewrites of a pipeline: the rule, and the operations before and after."""

from __future__ import annotations

from io import StringIO
from typing import TextIO

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Use
from xdsl.printer import Printer

from pirkit.dialect.operation import ProgramOp, span_of
from pirkit.passes.base import Pass


class _Before(Struct, frozen=True):
    """The state of a place that is about to be rewritten."""

    op: Operation
    previous: Operation | None
    following: Operation | None
    uses: tuple[Use, ...]


class RewriteTracer:
    """Writes each rewrite to a stream: a listener, and a watcher of the same pipeline.

    ::

        // canonicalize: x * 1 = x at block.mlir:4:3
        -   %2 = pd_op.multiply(%0, %1) : ...
        +   %0

    Values have the names that they have in the text of the program before the pass.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.printers: dict[Operation, Printer] = {}
        self.pass_name = ""
        self.open: _Before | None = None

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        """Start at the beginning of a pass, and flush at its end."""
        self.close()
        self.pass_name = pass_.name
        if when == "before":
            self.printers = {op: _naming(op) for op in module.ops if isinstance(op, ProgramOp)}

    def rewrote(self, rule: str, op: Operation) -> None:
        """Record a rewrite that is about to happen."""
        self.close()
        span = span_of(op)
        where = f" at {span}" if span is not None else ""
        self.stream.write(f"// {self.pass_name}: {rule}{where}\n- {self.shown(op)}\n")
        uses = tuple(use for result in op.results for use in result.uses)
        self.open = _Before(op, op.prev_op, op.next_op, uses)

    def close(self) -> None:
        """Write the outcome of the last rewrite."""
        before, self.open = self.open, None
        if before is None:
            return
        new = [before.op] if before.op.parent is not None else _between(before)
        lines = [self.shown(op) for op in new] or self.values(before) or ["(nothing)"]
        self.stream.writelines(f"+ {line}\n" for line in lines)

    def values(self, before: _Before) -> list[str]:
        """The values that replaced the results of the operation at its users."""
        names: list[str] = []
        for use in before.uses:
            operation = use.operation
            if operation.parent is not None:
                printer = self.printer(operation)
                printer.stream = StringIO()
                name = f"%{printer.print_ssa_value(operation.operands[use.index]).lstrip('%')}"
                if name not in names:
                    names.append(name)
        return names

    def shown(self, op: Operation) -> str:
        printer = self.printer(op)
        printer.stream = stream = StringIO()
        printer.print_op(op)
        return stream.getvalue()

    def printer(self, op: Operation) -> Printer:
        outermost = op
        while outermost.parent_op() is not None and not isinstance(outermost, ProgramOp):
            outermost = outermost.parent_op() or outermost
        return self.printers.setdefault(outermost, Printer(StringIO()))


def _naming(program: ProgramOp) -> Printer:
    """A printer that names the values of a program as its text does."""
    printer = Printer(StringIO())
    for argument in program.block.args:
        printer.print_ssa_value(argument)
    for op in program.block.ops:
        printer.print_op(op)
    return printer


def _between(before: _Before) -> list[Operation]:
    """The operations that are now where the operation was."""
    anchor = before.previous
    if anchor is not None and anchor.parent is not None:
        op = anchor.next_op
    elif before.following is not None and before.following.parent is not None:
        block = before.following.parent
        op = block.first_op
    else:
        return []
    found: list[Operation] = []
    while op is not None and op is not before.following:
        found.append(op)
        op = op.next_op
    return found
