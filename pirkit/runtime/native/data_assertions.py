"""Runtime assertions of native code on data, such as index bounds, and their errors."""

from __future__ import annotations

from dataclasses import dataclass

from pirkit.diag.errors import ConstraintError, PirkitError, RuntimeFault


@dataclass(frozen=True, slots=True)
class DataAssertion:
    """An assertion on data: indices lie in [0, extent); with extent None, divisors are not 0."""

    extent: int | None = None

    def error(self) -> PirkitError:
        """The error of a violation, the same as the interpreter raises."""
        if self.extent is None:
            return RuntimeFault("integer division by zero")
        return ConstraintError("bounds", f"an index does not lie in [0, {self.extent})")
