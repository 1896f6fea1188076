"""Finds which version of each forward value the backward needs, and whether it still exists then.

If a storage is written after the forward has read it, the backward would read other data. The
version that it needs is determined as follows. In a program without in-place writes each value has
one version. Otherwise a gradient op (``relu_grad``) needs the version that its forward op
(``relu``) read or computed, and any other op the version that all forward operations read. If there
are several such versions, the program is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn, cast

from msgspec import Struct
from xdsl.ir import Operation, SSAValue

from pirkit.analysis.differentiation import block_of
from pirkit.analysis.execution_order import operations
from pirkit.analysis.versions import Content, versions_of
from pirkit.diag.errors import PassError
from pirkit.dialect.operation import PirOp, bodies, describe, origin_of, span_of
from pirkit.split.joint import Joint

_GRADIENT: Final = "_grad"


class Need(Struct, frozen=True):
    """A version of a forward value that the backward may read."""

    value: SSAValue
    stale: tuple[Content, ...] = ()
    """The versions that are overwritten before the backward begins; a list may have several."""


class Contents:
    """The versions of the values of one joint program."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.versions = versions_of(joint.program)
        forward = set(joint.forward)
        self.top_writers = {c: self._top(maker) for c, maker in self.versions.makers.items()}
        """Version -> the top-level operation that writes it; initial versions are not in it."""
        self.last: dict[int, int] = {}
        """Written alias class -> its version at the end of the forward program."""
        self.backward_writes: set[Content] = set()
        """The versions that the backward writes."""
        for (element, number), top_writer in self.top_writers.items():
            if top_writer in forward:
                self.last[element] = max(number, self.last.get(element, 0))
            else:
                self.backward_writes.add((element, number))
        self.readers: dict[SSAValue, list[tuple[PirOp, int]]] = {}
        for op in joint.forward:
            for inner in with_inner(op):
                for index, value in enumerate(inner.operands):
                    self.readers.setdefault(value, []).append((inner, index))

    def meant(self, op: PirOp, index: int) -> Need:
        """The version that an operand of a backward operation should read.

        Raises PassError (PK0806) if it is ambiguous.
        """
        value = op.operands[index]
        literal = self.versions.read(op, index)
        is_plain = self.joint.is_exact or not any(e in self.last for e, _ in literal)
        if is_plain or any(c in self.backward_writes for c in literal):
            made = self.versions.made[value]
            if len(literal) > 1 and not is_plain and self._need(value, made).stale:
                self._refuse(op, value, made)  # forward and backward write elements of a list
            return self._need(value, literal)
        return self._need(value, self._used(op, value))

    def read(self, op: PirOp, index: int) -> Need:
        """The version that an operand of a forward operation reads."""
        return self._need(op.operands[index], self.versions.read(op, index))

    def made(self, value: SSAValue) -> Need:
        """The version of a value at its definition."""
        return self._need(value, self.versions.made[value])

    def can_be_had(self, op: PirOp, index: int) -> bool:
        """True if the version that a forward operand read is available throughout the backward."""
        rewritten = {element for element, _ in self.backward_writes}
        contents = self.versions.read(op, index)
        return self.can_keep(self.read(op, index)) and not any(e in rewritten for e, _ in contents)

    def overwriter(self, need: Need) -> PirOp | None:
        """The forward operation before which an overwritten version can be copied.

        None if the version exists only inside a region.
        """
        for element, number in need.stale:
            top_writer = self.top_writers.get((element, number + 1))
            inside = top_writer is not None and top_writer is self.top_writers.get(
                (element, number)
            )
            if top_writer is not None and not inside and block_of(need.value) is top_writer.parent:
                return cast(PirOp, top_writer)
        return None

    def can_keep(self, need: Need) -> bool:
        """True if the version can be saved for the backward, as it is or by a copy."""
        return not need.stale or self.overwriter(need) is not None

    def refuse(self, need: Need, reader: Operation) -> NoReturn:
        """Raise PassError (PK0806): the version that ``reader`` needs is lost."""
        self._refuse(cast(PirOp, reader), need.value, need.stale)

    def _need(self, value: SSAValue, contents: tuple[Content, ...]) -> Need:
        return Need(value, tuple([c for c in contents if not self._is_current((c,))]))

    def _is_current(self, contents: tuple[Content, ...]) -> bool:
        return all(
            number == self.last.get(element, 0) or (element, number) in self.backward_writes
            for element, number in contents
        )

    def _used(self, op: PirOp, value: SSAValue) -> tuple[Content, ...]:
        """The version that the forward used of a value of which ``op`` computes a gradient."""
        source = _forward_name(op)
        made = self.versions.made[value]
        read = [(o, self.versions.read(o, i)) for o, i in self.readers.get(value, ())]
        own = [contents for o, contents in read if _is_named(o, source)]
        if isinstance(value.owner, PirOp) and _is_named(value.owner, source):
            own.append(made)
        candidates = own or [contents for _, contents in read] or [made]
        if len(set(candidates)) > 1:
            self._refuse(op, value, candidates[0])
        return candidates[0]

    def _refuse(self, op: PirOp, value: SSAValue, contents: tuple[Content, ...]) -> NoReturn:
        writers = [self.versions.makers.get((e, n + 1)) for e, n in contents]
        by = "".join(
            f" by `{w.name}`" + (f" at {span_of(w)}" if span_of(w) else "") for w in writers if w
        )
        raise PassError(
            f"`{op.name}` needs {describe(value)} as it was before it is overwritten{by}",
            code="PK0806",
            span=span_of(op),
            notes=origin_of(op),
            help="run `functionalize` before the gradient is taken, or write to a copy",
        )

    def _top(self, op: Operation) -> Operation:
        """The operation in the program's own block that contains an operation."""
        while op.parent is not self.joint.program.block:
            op = cast(Operation, op.parent_op())
        return op


def with_inner(op: PirOp) -> Iterator[PirOp]:
    """An operation, and all operations inside its regions."""
    yield op
    for region in bodies(op):
        yield from operations(region.block)


def _forward_name(op: PirOp) -> str:
    """The name of the forward op of a gradient op; empty for other ops."""
    name = op.name.rstrip("_")
    return name.removesuffix(_GRADIENT) if name.endswith(_GRADIENT) else ""


def _is_named(op: PirOp, name: str) -> bool:
    return op.name.rstrip("_") == name
