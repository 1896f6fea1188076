"""DeepXDE as an untyped module: its own annotations are partial."""

from __future__ import annotations

from importlib import import_module
from typing import Any

deepxde: Any = import_module("deepxde")
