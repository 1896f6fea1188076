"""Places (devices) of tensors."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Place(Struct, frozen=True):
    """A device: ``kind`` is ``undefined``, ``cpu``, ``gpu``, ``gpu_pinned`` or ``xpu``."""

    kind: str
    device: int = 0

    @property
    def on_host(self) -> bool:
        """True if the processor that runs Python can read the memory."""
        return self.kind in ("cpu", "gpu_pinned")

    def __str__(self) -> str:
        return f"{self.kind}:{self.device}"


UNDEFINED: Final = Place("undefined")
CPU: Final = Place("cpu")
