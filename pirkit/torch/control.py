"""Branches and loops: `torch.cond` and `torch.while_loop`."""

from __future__ import annotations

from typing import Any


def control(importer: Any, node: Any, args: list[Any]) -> Any:
    """The results of a branch or loop; NotImplemented for other nodes."""
    return NotImplemented
