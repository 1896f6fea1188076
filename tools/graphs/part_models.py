"""Parts of models in many domains, written with `torch.nn` alone, with arguments of a call."""

from __future__ import annotations

from typing import Any

from graphs import domain_parts, science_parts, sequence_parts  # noqa: F401  declare parts
from graphs.parts import MODELS as MODELS


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model, arguments by position, none by name."""
    made, args = MODELS[name]()
    return made, args, {}
