"""Reads programs of JAX, which are StableHLO modules as text."""

from pirkit.stablehlo.import_module import program_of_text
from pirkit.stablehlo.loading import from_jax, load
from pirkit.stablehlo.rules import RULES, rule

__all__ = ["RULES", "from_jax", "load", "program_of_text", "rule"]
