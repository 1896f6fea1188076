"""Make `torchvision`, which timm and transformers import, importable beside any torch.

Its module registers shapes of two operators that only its native library defines. Where that
library was built for another torch and does not load, declaring the two is enough for whatever does
not call them.
"""

from __future__ import annotations

from typing import Any

import torch

_KEPT: list[Any] = []
"""The declarations, which live as long as this object of torch."""


def declare() -> None:
    """Declare what a `torchvision` without its native library lacks; nothing where it loads."""
    try:
        import torchvision  # noqa: F401, PLC0415  optional
    except ModuleNotFoundError:
        return  # the text models of transformers need none
    except RuntimeError:
        if _KEPT:
            raise
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
