"""Programs in files: detection of the format, reading and writing.

Behind ``pirkit.load``, ``loads`` and ``save``, and the options ``-f`` and ``-t`` of `pirkit-opt`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import (
    ArgumentError,
    ArtifactError,
    LimitError,
    ParseError,
    UnsupportedError,
)
from pirkit.diag.limits import check, read_at_most
from pirkit.diag.paths import unreadable
from pirkit.diag.source import register_source
from pirkit.diag.span import Span
from pirkit.dialect.program import Program
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.foreign_files import recognised, recognised_text
from pirkit.frontend.python_calls import require
from pirkit.runtime.atomic_write import atomic_write

Reader = Callable[[str, str], mlir.ModuleOp]
"""Takes a text and the name of its source for messages; returns a module, not verified yet."""
Writer = Callable[[mlir.ModuleOp], str]


def _deferred(module: str, name: str) -> Callable[..., Any]:
    """A function of this room, imported at its first call: a command needs one or two formats."""
    return lambda *given: getattr(import_module(f"pirkit.frontend.{module}"), name)(*given)


def _lowered(stage: str) -> Writer:
    """The writer of a lowered form."""
    return lambda module: import_module("pirkit.frontend.lowered_text").LOWERED[stage](module)


_read_paddle_text: Final = _deferred("paddle.text_reader", "read_paddle_text")
_load_params: Final = _deferred("weight_files", "load_params")
_save_params: Final = _deferred("weight_files", "save_params")
_parameter_metas: Final = _deferred("paddle.params", "parameter_metas")
_write_params: Final = _deferred("paddle.params", "write_params")


def _write_onnx(module: mlir.ModuleOp) -> str:
    """The textual form of ONNX; parameters, whose weights a module does not have, are inputs."""
    return _onnx("-t onnx", "text_of_program")(Program(module))


def _stablehlo(text: str, name: str) -> Program:
    """The program of a text of StableHLO.

    The room `stablehlo` lies above this one, so it is imported at the call.
    """
    return import_module("pirkit.stablehlo").program_of_text(text, name)


READERS: Final[Mapping[str, Reader]] = {
    "mlir": parse_mlir,
    "stablehlo": lambda text, name: _stablehlo(text, name).module,
    "paddle-text": _read_paddle_text,
    "paddle-json": _deferred("paddle.json_reader", "read_paddle_json"),
}
"""The formats that can be read: the values of ``pirkit-opt -f``."""

WRITERS: Final[Mapping[str, Writer]] = {
    "mlir": print_mlir,
    "mlir-generic": lambda module: print_mlir(module, generic=True),
    "mlir-locations": lambda module: print_mlir(module, locations=True),
    "paddle-text": _deferred("paddle.text_writer", "write_paddle_text"),
    "paddle-json": _deferred("paddle.json_writer", "write_paddle_json"),
    "dot": _deferred("dot", "write_dot"),
    "onnx": _write_onnx,
    **{
        stage: _lowered(stage)
        for stage in ("plan", "map-expr", "nest", "llvm", "llvm-locations", "asm")
    },
}
"""The formats that can be written: the values of ``pirkit-opt -t``."""

_STABLEHLO: Final = re.compile(r"\b(?:stablehlo|chlo|mhlo|jax)\.\w")
_HEAD: Final = 1 << 16
"""How many characters from the beginning decide about the format: texts may be large."""
_BINARY: Final = re.compile(rb"[\0-\x08\x0e-\x1a\x80-\xff]")
"""A byte that ASCII text does not have; where there is one, the file may be a binary one."""

_SUFFIXES: Final = {".json": "paddle-json", ".mlir": "mlir", ".txt": "paddle-text"}


def detect_format(text: str, name: str = "") -> str:
    """Detect the format of a text by its beginning, or else by the suffix of the file.

    Raises ParseError if the text is empty (PK0102), or if neither identifies it (PK0405).
    """
    start = text.lstrip()[:4096]
    if start.startswith("{"):
        inner = start[1:].lstrip()
        if inner.startswith('"'):
            return "paddle-json"
        if inner.startswith(("(", "^", "}")):
            return "paddle-text"
    if _STABLEHLO.search(text, 0, _HEAD) and "pir.program" not in text:
        return "stablehlo"
    if start.startswith(('"builtin.module"', "builtin.module", "pir.program", "module", "//")):
        return "mlir"
    if start.startswith(('"pir.program"', "!", "#")):
        return "mlir"
    foreign = recognised_text(start)
    suffix = _SUFFIXES.get(Path(name).suffix)
    if suffix is not None and start and foreign is None:
        return suffix
    if not start:
        raise ParseError(
            "the file is empty",
            code="PK0102",
            span=Span(name or "<text>"),
            help="name another file: what should have written this one has not, or has not yet",
        )
    raise ParseError(
        f"the text is {foreign[0]}" if foreign else "the text is in no known format",
        code="PK0405",
        span=Span(name or "<text>"),
        help=foreign[1] if foreign else f"say which with -f: {', '.join(READERS)}",
    )


def _seems(text: str) -> str | None:
    """The format that the beginning of a text has, or None."""
    try:
        return detect_format(text[:_HEAD])
    except ParseError:
        return None


def read_text(path: str) -> str:
    """The text of a file, or of standard input for ``-``, with line ends ``\\n``.

    Raises ArtifactError (PK0506) if it cannot be read, LimitError (PK0302) if it is too large,
    ParseError if it is a file of another program (PK0405) or is not UTF-8 (PK0107).
    """
    data = _read_bytes(path)
    check("input_bytes", len(data), Span(path))
    kind = recognised(data) if _BINARY.search(data, 0, _HEAD) else None
    if kind is not None:
        raise ParseError(f"the file is {kind.what}", code="PK0405", span=Span(path), help=kind.help)
    try:
        text = data.decode("utf-8-sig")
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
        raise unreadable(path, error) from error


def parse(
    text: str, *, format: str = "auto", name: str = "<text>", outputs: Sequence[str] = ()
) -> mlir.ModuleOp:
    """The module of a text, verified. ``name`` is that of its source, for messages.

    ``outputs`` are values of a dump of Paddle that become its outputs; see `load`. Raises
    InputError with the location, and UsageError for an unknown format.
    """
    if format == "auto":
        format = detect_format(text, name)
    require(format in READERS,
            f"there is no format `{format}`",
            f"formats are {', '.join(READERS)}, and `auto`")  # fmt: skip
    if outputs and format != "paddle-text":
        raise ArgumentError(
            f"outputs are named for the text that Paddle prints, and {name} is {format}",
            help="write a `pir.shadow_output` into the program",
        )
    try:
        module = _read_paddle_text(text, name, outputs) if outputs else READERS[format](text, name)
    except (ParseError, ArtifactError) as error:
        seems = _seems(text)
        if seems not in (None, format):
            error.help = f"the text begins like `{seems}`: write `-f {seems}`, or leave out -f"
        raise
    verify_module(module)
    return module


def loads(
    text: str,
    *,
    format: str = "auto",
    params: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = (),
) -> Program:
    """Read a program from a string, in any format that `load` reads, and verify it.

    ``params`` are arrays by the names of the parameters; they are not copied. ``outputs`` are those
    of `load`. Raises InputError, which says what is wrong with the text and where, and UsageError
    for wrong arguments.
    """
    require(isinstance(cast(object, text), str),
            f"`loads` takes the text of a program, not a {type(text).__name__}",
            "`pirkit.load` takes the path of a file")  # fmt: skip
    register_source("<text>", text)
    program = _read(text, format, "<text>", outputs)
    program.params.update(params or {})
    return program


def _read(text: str, format: str, name: str, outputs: Sequence[str]) -> Program:
    """The program of a text; the large constants of StableHLO are its parameters."""
    if format == "auto":
        format = detect_format(text, name)
    if format == "stablehlo" and not outputs:
        return _stablehlo(text, name)
    return Program(parse(text, format=format, name=name, outputs=outputs), source=name)


def load(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    params: Any = None,
    outputs: Sequence[str] = (),
) -> Program:
    """Read a program from a file (``-``: standard input), verify it, and read its weights.

    ``outputs`` names values of a dump of Paddle that has none, as ``str(fn.main_program)``:
    ``["%10"]`` makes the value ``%10`` its output ``output_0`` (see docs/paddle.md).

    ``params`` is a ``.pdiparams``, ``.npz`` or ``.safetensors`` file with the weights. Without it,
    ``NAME.json`` takes them from a ``NAME.pdiparams`` beside it. A ``.onnx`` file is a model of
    ONNX with its weights (see `pirkit.onnx`), and a text of StableHLO has its constants (see
    `pirkit.stablehlo`).

    Raises InputError, which says what is wrong with the file and where, and UsageError for wrong
    arguments.
    """
    name = _path(path, "load")
    if name.endswith(".onnx"):
        return _onnx(name, "load_model")(name)
    text = read_text(name)
    source = "<stdin>" if name == "-" else name
    if name == "-":
        register_source(source, text)
    program = _read(text, format, source, outputs)
    params_file = Path(name).with_suffix(".pdiparams")
    if params is None and name.endswith(".json") and os.path.isfile(params_file):
        params = params_file
    if params is not None:
        program.params.update(_load_params(str(params), program.module))
    return program


def _onnx(path: str, name: str) -> Callable[..., Any]:
    """A function of the room `onnx`, which lies above this one and needs an optional package.

    Raises UnsupportedError (PK0405) if the package is not installed.
    """
    try:
        return getattr(import_module("pirkit.onnx"), name)
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"`{path}` needs the package onnx, which is not installed", code="PK0405",
            span=Span(path), help="pip install pirkit[onnx]",
        ) from error  # fmt: skip


def _path(path: Any, what: str) -> str:
    """A path as text. Raises CallError (PK0701), naming the function, for anything else."""
    require(isinstance(path, str | os.PathLike),
            f"`{what}` takes the path of a file, not a {type(path).__name__}",
            "for instance `model.json`, `program.txt` or `program.mlir`")  # fmt: skip
    return cast(str, os.fspath(path))


def save(
    program: Program,
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    params: str | os.PathLike[str] | None = None,
) -> None:
    """Write a program to a file; with its weights if that is ``NAME.onnx`` or ``NAME.json``.

    The latter has its weights in ``NAME.pdiparams``. ``params`` names a ``.safetensors`` or
    ``.npz`` file for the weights, by name; other formats have no place for them.

    The format follows the suffix (``.mlir``, ``.txt``, ``.json``, ``.onnx``) unless given. Files
    are written atomically. Raises UsageError for wrong arguments, ArtifactError (PK0506) if writing
    is impossible, and InputError for a program that the format cannot express.
    """
    require(isinstance(cast(object, program), Program),
            f"`save` writes a program, not a {type(program).__name__}",
            "`pirkit.trace(f, x)` makes one of a function")  # fmt: skip
    name = _path(path, "save")
    if name.endswith(".onnx") and format in ("auto", "onnx"):
        _onnx(name, "save_model")(program, name)
        return
    if format == "auto":
        suffix = Path(name).suffix
        require(suffix in _SUFFIXES or suffix in ("", ".pir"),
                f"`save` knows no format of the suffix `{suffix}`",
                f"name the file {', '.join(_SUFFIXES)} or .onnx, or give `format=`")  # fmt: skip
        format = _SUFFIXES.get(suffix, "mlir")
    require(format in WRITERS,
            f"there is no format `{format}`",
            f"formats are {', '.join(WRITERS)}, and `auto`")  # fmt: skip
    text = WRITERS[format](program.module)
    stored = [*_parameter_metas(program.module)] if format == "paddle-json" else []
    missing = [m for m in stored if m not in program.params] if program.params else []
    require(not missing,
            f"the program has no weight for its parameter `{''.join(missing[:1])}`",
            "set it in `program.params`, or empty that to write the program alone")  # fmt: skip
    if params is not None:  # first, as weights may be refused
        _save_params(os.fspath(params), program.params)
    write_file(name, text)
    if format == "paddle-json" and program.params:
        weights = {m: program.params[m] for m in stored}
        _write_params(str(Path(name).with_suffix(".pdiparams")), weights)


def write_file(path: str, text: str) -> None:
    """Write a text to a file in UTF-8, atomically. Raises ArtifactError (PK0506) if impossible."""
    data = text.encode("utf-8")
    with atomic_write(path) as file:
        file.write(data)
