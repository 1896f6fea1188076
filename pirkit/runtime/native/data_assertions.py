"""What native code demands of data while it runs, and the errors where they do not keep to it."""

from __future__ import annotations

from dataclasses import dataclass

from pirkit.diag.errors import ConstraintError, PirkitError, RuntimeFault


@dataclass(frozen=True, slots=True)
class DataAssertion:
    """What data must keep to: numbers that say where to read lie in [0, extent).

    Without an extent: integers that divide are not 0.
    """

    extent: int | None = None

    def error(self) -> PirkitError:
        """What the interpreter raises for data that do not."""
        if self.extent is None:
            return RuntimeFault("integer division by zero")
        return ConstraintError("bounds", f"an index does not lie in [0, {self.extent})")
