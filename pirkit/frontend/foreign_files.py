"""Files of other programs, recognised by their content, each with what to do about it.

`files.py` asks when a file is no program that pirkit reads, so that the error says what it is.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

DAMAGE: Final = (
    EOFError,
    KeyError,
    MemoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    UnicodeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What ``zipfile`` and ``numpy`` raise for damaged or mislabelled files."""

_PICKLE_HELP: Final = (
    "pirkit never unpickles files; write weights with `safetensors`, and give them with --params"
)
_EXPORT_HELP: Final = (
    "save the model with `torch.export.save(torch.export.export(model, args), 'model.pt2')`, which"
    " pirkit-opt reads"
)
_WEIGHTS_HELP: Final = "name the program that they belong to, and give this file with --params"
_MLIR_HELP: Final = (
    "write it as text, in the dialects `pir` and `pd_op`, or StableHLO's: `mlir_module()` of"
    " `jax.export` does"
)


class Foreign(NamedTuple):
    """A kind of file that pirkit recognises, but does not read as a program."""

    what: str
    """The name of the kind, for messages."""
    help: str
    is_one: Callable[[bytes], bool]
    """Whether the content of a file is of the kind."""


def _starts(*beginnings: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(beginnings)


def _zip_with(pattern: str) -> Callable[[bytes], bool]:
    """A test for zip archives with a member in whose name the regular expression is found."""

    def test(data: bytes) -> bool:
        if not data.startswith(b"PK"):
            return False
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return any(re.search(pattern, name) for name in archive.namelist())
        except DAMAGE:
            return False

    return test


def _is_flat_buffer(data: bytes) -> bool:
    return data[4:8] == b"TFL3"


def _is_safetensors(data: bytes) -> bool:
    length = int.from_bytes(data[:8], "little")
    return data[8:10] == b'{"' and 2 <= length <= len(data)


def _is_onnx(data: bytes) -> bool:
    """Whether a file begins as a ``ModelProto`` of ONNX does: with its version, then another field.

    In protobuf, field 1 is ``ir_version``, here from 1 to 32; one of the fields 2 to 7 follows.
    """
    return re.match(rb"\x08[\x01-\x20][\x10-\x3a]", data) is not None


def _is_program_desc(data: bytes) -> bool:
    """Whether a file begins with field 1 of protobuf, and has the ops of inputs or outputs."""
    return data.startswith(b"\x0a") and (b"fetch" in data or b"feed" in data)


KINDS: Final = (
    Foreign("a program of TorchScript", _EXPORT_HELP, _zip_with(r"(^|/)code/")),
    Foreign("a pickle of torch.save", f"{_PICKLE_HELP}; {_EXPORT_HELP}", _zip_with(r"data\.pkl$")),
    Foreign("an .npz file of arrays", _WEIGHTS_HELP, _zip_with(r"\.npy$")),
    Foreign("a model of Keras", "export it to ONNX with tf2onnx", _zip_with(r"\.weights\.h5$")),
    Foreign("a zip archive", "unpack it, and name the program inside", _zip_with("")),
    Foreign("a damaged zip archive, perhaps a cut .pt2", "write or copy it again",
            _starts(b"PK\x03\x04")),
    Foreign("text in UTF-16", "save it as UTF-8", _starts(b"\xff\xfe", b"\xfe\xff")),
    Foreign("a .pdiparams file of weights", _WEIGHTS_HELP, _starts(bytes(8))),
    Foreign("a pickle", _PICKLE_HELP, _starts(*(bytes([0x80, n]) for n in range(2, 6)))),
    Foreign("a .safetensors file", _WEIGHTS_HELP, _is_safetensors),
    Foreign("an .npy file of one array", "give it with `pirkit-run --inputs NAME=FILE.npy`",
            _starts(b"\x93NUMPY")),
    Foreign("an HDF5 file", "export the model to ONNX, or its weights to .safetensors",
            _starts(b"\x89HDF")),
    Foreign("a GGUF file of weights", "convert the weights to .safetensors", _starts(b"GGUF")),
    Foreign("a model of TensorFlow Lite", "export the model to ONNX with tf2onnx",
            _is_flat_buffer),
    Foreign("compressed by gzip", "unpack it first", _starts(b"\x1f\x8b")),
    Foreign("bytecode of MLIR or a StableHLO portable artifact", _MLIR_HELP, _starts(b"ML\xefR")),
    Foreign("bitcode of LLVM", _MLIR_HELP, _starts(b"BC\xc0\xde")),
    Foreign("a model of ONNX", "give the file a name that ends in .onnx", _is_onnx),
    Foreign("a ProgramDesc of Paddle 2 (.pdmodel)",
            "load it in Paddle 3 and save it again with `paddle.jit.save`, which writes .json",
            _is_program_desc),
)  # fmt: skip
"""The kinds of binary files, the more specific ones first."""

TEXTS: Final = (
    (r"version https://git-lfs", "a pointer of Git LFS", "get the file itself with `git lfs pull`"),
    (r"<(!doctype|html|\?xml)", "a page of HTML or XML", "download the raw file"),
    (r"\{ lambda ", "a jaxpr", "give StableHLO: `jax.jit(f).lower(*arguments).as_text()`"),
    (r"HloModule", "HLO of XLA", "give StableHLO: `jax.jit(f).lower(*arguments).as_text()`"),
    (r"graph\(", "a graph of TorchScript or of torch.fx", _EXPORT_HELP),
    (r"<\s*(ir_version|opset_import)", "a model of ONNX in its textual form",
     "`onnx.save(onnx.parser.parse_model(text), 'model.onnx')` writes what pirkit-opt reads"),
    (r"; ModuleID|define |target triple|source_filename", "LLVM IR", _MLIR_HELP),
    (r"#!.*python|(import|from|def|class|@\w+)\b", "a program in Python",
     "`pirkit.save(pirkit.trace(function, *arguments), 'program.mlir')` in Python writes one"),
)  # fmt: skip
"""How texts of other languages begin (a regular expression), what they are, and what to do."""


def recognised(data: bytes) -> Foreign | None:
    """The kind of a binary file, or None."""
    return next((kind for kind in KINDS if kind.is_one(data)), None)


def recognised_text(start: str) -> tuple[str, str] | None:
    """The kind of a text that is no program, and the remedy; or None."""
    found = (row for row in TEXTS if re.match(row[0], start, re.IGNORECASE))
    return next(((what, help) for _, what, help in found), None)
