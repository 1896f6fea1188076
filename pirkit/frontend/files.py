"""Programs in files: detection of the format, reading and writing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from xdsl.dialects import builtin as mlir

from pirkit.analysis.execution_order import clone_module
from pirkit.diag.errors import ArtifactError, LimitError, ParseError, UsageError
from pirkit.diag.limits import check, read_at_most
from pirkit.diag.source import register_source
from pirkit.diag.span import Span
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.dot import write_dot
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.params import (
    parameter_metas,
    read_params,
    unfilled_parameters,
    write_params,
)
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text
from pirkit.runtime.atomic_write import atomic_write

Array = np.ndarray[Any, Any]
Reader = Callable[[str, str], mlir.ModuleOp]
Writer = Callable[[mlir.ModuleOp], str]


@dataclass
class Program:
    """A module of programs, with its weights.

    ``str(program)`` is its text; ``program.main`` the first program of the module.
    """

    module: mlir.ModuleOp
    params: dict[str, Array] = field(default_factory=dict[str, Array])
    source: str = "<text>"

    @property
    def programs(self) -> dict[str, ProgramOp]:
        """The programs of the module by name."""
        return {op.symbol: op for op in self.module.ops if isinstance(op, ProgramOp)}

    @property
    def main(self) -> ProgramOp:
        """The first program. Raises UsageError if the module holds none."""
        return self.entry(None)

    def entry(self, name: str | None) -> ProgramOp:
        """The program of that name, or the first one. Raises UsageError if there is none."""
        programs = self.programs
        if name is None and programs:
            return next(iter(programs.values()))
        if name in programs:
            return programs[name]
        raise UsageError(
            f"{self.source} holds no program" + (f" called @{name}" if name else ""),
            help="it holds " + (", ".join(f"@{n}" for n in programs) or "nothing"),
        )

    def copy(self) -> Program:
        """A copy whose module can be changed without changing this one."""
        return Program(clone_module(self.module), dict(self.params), self.source)

    def __str__(self) -> str:
        return print_mlir(self.module)


def _print_plans(module: mlir.ModuleOp) -> str:
    from pirkit.lowering.plan_writer import write_plan  # noqa: PLC0415  not for text in and out

    programs = (op for op in module.ops if isinstance(op, ProgramOp))
    return "".join(str(write_plan(p)) for p in programs)


def _print_map_exprs(module: mlir.ModuleOp) -> str:
    from pirkit.lowering.fusion.print import print_map_exprs  # noqa: PLC0415  as above

    return print_map_exprs(module)


def _print_native(stage: str) -> Writer:
    def write(module: mlir.ModuleOp) -> str:
        from pirkit.lowering.native_text import native_text  # noqa: PLC0415  as above
        from pirkit.lowering.plan_writer import write_plan  # noqa: PLC0415

        programs = (op for op in module.ops if isinstance(op, ProgramOp))
        return "".join(native_text(write_plan(p), stage) for p in programs)

    return write


def explain_kernels(module: mlir.ModuleOp, backend: str = "cpu") -> str:
    """Which kernel runs each operation of the module's programs, and why."""
    from pirkit.lowering.explain_kernels import why_kernels  # noqa: PLC0415
    from pirkit.lowering.kernel_library import KernelLibrary  # noqa: PLC0415  not for text in and out
    from pirkit.lowering.plan_writer import write_plan  # noqa: PLC0415

    library = KernelLibrary(backend)
    programs = (op for op in module.ops if isinstance(op, ProgramOp))
    return "".join(why_kernels(write_plan(p, library=library), library) for p in programs)


READERS: Final[Mapping[str, Reader]] = {
    "mlir": parse_mlir,
    "paddle-text": read_paddle_text,
    "paddle-json": read_paddle_json,
}
"""The values of ``pirkit-opt -f``."""

WRITERS: Final[Mapping[str, Writer]] = {
    "mlir": print_mlir,
    "mlir-generic": lambda module: print_mlir(module, generic=True),
    "mlir-locations": lambda module: print_mlir(module, locations=True),
    "paddle-text": write_paddle_text,
    "paddle-json": write_paddle_json,
    "plan": _print_plans,
    "dot": write_dot,
    "map-expr": _print_map_exprs,
    **{stage: _print_native(stage) for stage in ("nest", "llvm", "asm")},
}
"""The values of ``pirkit-opt -t``."""

_SUFFIXES: Final = {".json": "paddle-json", ".mlir": "mlir", ".txt": "paddle-text"}


def detect_format(text: str, name: str = "") -> str:
    """Detect the format of a text by its beginning, or else by the suffix of the file.

    Raises ParseError (PK0405) if neither identifies it.
    """
    start = text.lstrip()[:4096]
    if start.startswith("{"):
        inner = start[1:].lstrip()
        if inner.startswith('"'):
            return "paddle-json"
        if inner.startswith(("(", "^", "}")):
            return "paddle-text"
    if start.startswith(('"builtin.module"', "builtin.module", "pir.program", "module", "//")):
        return "mlir"
    if start.startswith(('"pir.program"', "!", "#")):
        return "mlir"
    suffix = _SUFFIXES.get(Path(name).suffix)
    if suffix is not None and start:
        return suffix
    raise ParseError(
        "the text is in no known format" if start else "the file is empty",
        code="PK0405" if start else "PK0102",
        span=Span(name or "<text>"),
        help=f"say which with -f: {', '.join(READERS)}",
    )


def read_text(path: str) -> str:
    """The text of a file, or of standard input for ``-``.

    Raises ArtifactError if it cannot be read, LimitError if it is too large, ParseError (PK0107)
    if it is not UTF-8 or begins with a byte-order mark.
    """
    data = _read_bytes(path)
    check("input_bytes", len(data), Span(path))
    if data.startswith(b"\xef\xbb\xbf"):
        raise ParseError(
            "the file begins with a byte-order mark",
            code="PK0107",
            span=Span(path, 1, 1),
            help="save it as UTF-8 without a byte-order mark",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ParseError(
            f"the file is not UTF-8: {error.reason}", code="PK0107", span=Span(path, line)
        ) from error
    return text.replace("\r\n", "\n") if "\r" in text else text


def _read_bytes(path: str) -> bytes:
    if path == "-":
        return read_at_most(sys.stdin.buffer)
    try:
        check("input_bytes", os.stat(path).st_size, Span(path))
        with open(path, "rb") as file:
            return read_at_most(file)
    except LimitError:
        raise
    except OSError as error:
        raise ArtifactError(
            f"cannot read {path}: {error.strerror}", code="PK0506", span=Span(path)
        ) from error


def parse(text: str, *, format: str = "auto", name: str = "<text>") -> mlir.ModuleOp:
    """Read and verify a text. Raises InputError with the location."""
    if format == "auto":
        format = detect_format(text, name)
    module = READERS[format](text, name)
    verify_module(module)
    return module


def load(path: str | os.PathLike[str], *, format: str = "auto", params: Any = None) -> Program:
    """Read a program from a file (``-``: standard input), verify it, and read its weights.

    ``params`` is a ``.pdiparams``, ``.npz`` or ``.safetensors`` file. A ``NAME.json`` with a
    ``NAME.pdiparams`` beside it takes its weights from there.

    Raises InputError (what is wrong with the file, and where).
    """
    name = os.fspath(path)
    text = read_text(name)
    source = "<stdin>" if name == "-" else name
    if name == "-":
        register_source(source, text)
    program = Program(parse(text, format=format, name=source), source=source)
    params_file = Path(name).with_suffix(".pdiparams")
    if params is None and name.endswith(".json") and params_file.is_file():
        params = params_file
    if params is not None:
        program.params = load_params(str(params), program.module)
    return program


def load_params(path: str, module: mlir.ModuleOp) -> dict[str, Array]:
    """Weights by name: ``.npz``, ``.safetensors``, or ``.pdiparams`` (in the module's order)."""
    if path.endswith(".safetensors"):
        from pirkit.frontend.safetensors_files import read_safetensors  # noqa: PLC0415  as below

        return read_safetensors(path)
    if path.endswith(".npz"):
        from pirkit.frontend.arrays import read_npz  # noqa: PLC0415  not needed for other files

        return read_npz(path)
    return {**unfilled_parameters(module), **read_params(path, parameter_metas(module))}


def save(
    program: Program,
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    params: str | os.PathLike[str] | None = None,
) -> None:
    """Write a program to a file; its weights too if the file is ``NAME.json``.

    ``params`` names a ``.safetensors`` or ``.npz`` file for the weights, by name.

    The format follows the suffix (``.mlir``, ``.txt``, ``.json``) unless given. Files are written
    atomically.
    """
    name = os.fspath(path)
    if format == "auto":
        format = _SUFFIXES.get(Path(name).suffix, "mlir")
    write_file(name, WRITERS[format](program.module))
    if format == "paddle-json" and program.params:
        stored = {m: program.params[m] for m in parameter_metas(program.module)}
        write_params(str(Path(name).with_suffix(".pdiparams")), stored)
    if params is not None:
        save_params(os.fspath(params), program.params)


def save_params(path: str, params: Mapping[str, Array]) -> None:
    """Write weights by name to ``.safetensors`` or ``.npz``. Raises UsageError for other names."""
    if path.endswith(".safetensors"):
        from pirkit.frontend.safetensors_files import write_safetensors  # noqa: PLC0415  as below

        write_safetensors(path, params)
    elif path.endswith(".npz"):
        from pirkit.frontend.arrays import write_npz  # noqa: PLC0415  not needed for other files

        write_npz(path, params)
    else:
        raise UsageError(
            f"weights are written to .safetensors or .npz, not to {path}",
            help="`NAME.json` writes a program of Paddle with its `NAME.pdiparams` beside it",
        )


def write_file(path: str, text: str) -> None:
    """Write a text to a file, atomically. Raises ArtifactError if that is impossible."""
    data = text.encode("utf-8")
    with atomic_write(path) as file:
        file.write(data)
