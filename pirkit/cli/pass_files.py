"""``--load FILE``: ops and passes of one's own, from a file of Python."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from pirkit.diag.errors import ArgumentError, PirkitError
from pirkit.diag.paths import unreadable
from pirkit.diag.span import Span
from pirkit.dialect.opdef import OpDef
from pirkit.passes import Pass, register_pass


def load_passes(arguments: argparse.Namespace) -> int:
    """Run the files of ``--load``, which declare ops, and register their passes; the exit code.

    Raises ArtifactError (PK0506) if a file cannot be read, and ArgumentError (PK0701) if running it
    fails or it defines neither an op nor a pass.
    """
    paths: Sequence[str] = arguments.load
    for path in paths:
        _load(path)
    return 0


def _load(path: str) -> None:
    if not os.path.isfile(path):
        raise unreadable(path)
    name = f"<{path}>"  # no other module has that name
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(
            f"{path} is no file of Python", span=Span(path),
            help="its name ends in .py",
        )  # fmt: skip
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except PirkitError as error:  # raised by a decorator of pirkit
        error.span = error.span or Span(path, _line_of(error, path))
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise ArgumentError(
            f"{path} cannot be run: {type(error).__name__}: {error}",
            span=Span(path, _line_of(error, path)),
            help=f"`{Path(sys.executable).name} {path}` shows the whole error",
        ) from error
    classes = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == name]
    passes = [c for c in classes if issubclass(c, Pass) and not inspect.isabstract(c)]
    if not passes and not any(isinstance(found, OpDef) for found in vars(module).values()):
        raise ArgumentError(
            f"{path} defines no op and no pass",
            span=Span(path),
            help="an op is a class with `@pirkit.dialect.opdef.op`; a pass is a function with "
            "`@pirkit.passes.rewrite`, or a class of passes",
        )
    for cls in passes:
        register_pass(cls)


def _line_of(error: BaseException, path: str) -> int:
    """The line of the file that raised; 0 if none did."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    full = os.path.abspath(path)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == full]
    return (lines[-1] or 0) if lines else 0
