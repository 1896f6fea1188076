"""Runtime assertions of native code on data, such as index bounds, and their errors."""

from __future__ import annotations

from msgspec import Struct

from pirkit.diag.errors import ConstraintError, PirkitError, RuntimeFault
from pirkit.diag.span import Span


class DataAssertion(Struct, frozen=True):
    """A condition on data: indices that are read must lie in [0, extent).

    Without an extent it is another condition, and ``message`` is the error where it does not hold.
    ``op``, ``span`` and ``origin`` say which call of a native program demands it; a kernel by
    itself leaves that to its caller.
    """

    extent: int | None = None
    op: str = ""
    span: Span | None = None
    origin: tuple[str, ...] = ()
    message: str = "integer division by zero"

    def error(self) -> PirkitError:
        """The error of a violation, the same as the interpreter raises."""
        if self.extent is None:
            found: PirkitError = RuntimeFault(self.message)
        else:
            found = ConstraintError("bounds", f"an index does not lie in [0, {self.extent})")
        if not self.op:
            return found
        broken = ("constraint bounds",) if self.extent is not None else ()
        return RuntimeFault(
            f"`{self.op}`: {found.message}",
            code="PK0901",
            span=self.span,
            notes=(*broken, *self.origin),
        )
