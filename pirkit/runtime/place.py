"""Places (devices) of tensors, and layouts of their axes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
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


class DataLayout(StrEnum):
    """The meaning of a dense tensor's axes.

    The storage format (dense, selected rows, sparse) is the ``kind`` of a tensor, and the order in
    memory its strides; Paddle's enumeration mixes the three.
    """

    ANY = "any"
    NCHW = "NCHW"
    NHWC = "NHWC"
    NCDHW = "NCDHW"
    NDHWC = "NDHWC"
