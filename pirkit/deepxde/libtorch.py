"""PyTorch as untyped modules: everything of this room that needs torch imports it from here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
overrides: Any = import_module("torch.overrides")
