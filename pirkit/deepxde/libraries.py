"""DeepXDE and PyTorch as untyped modules: their own annotations are partial.

Everything of this room that needs them imports them from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
overrides: Any = import_module("torch.overrides")
deepxde: Any = import_module("deepxde")
