"""Entries of this room: programs from StableHLO files, texts and functions of JAX."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pirkit.diag.source import register_source
from pirkit.dialect.program import Program
from pirkit.frontend.files import read_text
from pirkit.stablehlo.import_module import program_of_text


def load(path_or_text: str | os.PathLike[str]) -> Program:
    """The program of a StableHLO file, or of a text (a string with a newline).

    Raises ArtifactError for a file that cannot be read, and what `program_of_text` raises.
    """
    text = os.fspath(path_or_text)
    if isinstance(path_or_text, Path) or "\n" not in text:
        return program_of_text(read_text(text), text)
    register_source("<text>", text)
    return program_of_text(text)


def from_jax(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
    """The program of a function of JAX for arguments of these shapes and element types.

    Arguments are arrays, numbers, `jax.ShapeDtypeStruct`, or trees of them; each leaf becomes an
    input. Raises what `program_of_text` raises, and ImportError without jax.
    """
    jax: Any = import_module("jax")
    export: Any = import_module("jax.export")
    held = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    return load(export.export(held, platforms=["cpu"])(*args, **kwargs).mlir_module())
