"""``pirkit gui``: xDSL's terminal user interface, with pirkit's dialects and passes."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from xdsl.dialects import get_all_dialects

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import load
from pirkit.passes.registry import PASSES, pass_named
from pirkit.universe import PIRKIT_UNIVERSE, as_module_pass


def gui(arguments: argparse.Namespace) -> int:
    """Show a program of any format. Raises ArgumentError (PK0701) without textual."""
    application(arguments.file).run()
    return 0


def application(file: str | None) -> Any:
    """The application, an object of textual; without a file it shows a program that is empty."""
    try:
        app = import_module("xdsl.interactive.app").InputApp
    except ModuleNotFoundError as error:
        raise ArgumentError(
            f"the interface needs the package {error.name}", help="pip install 'pirkit[gui]'"
        ) from error
    text = print_mlir(load(file).module) if file else "pir.program @main {\n}\n"
    passes = tuple((name, as_module_pass(pass_named(name), name)) for name in sorted(PASSES))
    known = get_all_dialects() | PIRKIT_UNIVERSE.all_dialects
    return app(tuple(known.items()), passes, file, text)
