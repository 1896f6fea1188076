"""Archives of `torch.export.save` among the files that the commands read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pirkit.diag.errors import UnsupportedError
from pirkit.diag.span import Span
from pirkit.frontend.files import load, read_text


def is_torch_archive(path: str) -> bool:
    """Whether a file is such an archive, by its content: a zip file that names its format."""
    file = Path(path)
    if not os.path.isfile(file):  # reading a pipe would consume it
        return False
    try:
        with file.open("rb") as begin:
            if begin.read(4) != b"PK\3\4":
                return False
    except OSError:  # whoever reads it says so
        return False
    import zipfile  # noqa: PLC0415  with shutil and compressors, for one format

    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("archive_format") for name in archive.namelist())


def load_program(path: str, **options: Any) -> Any:
    """A program with its weights, from any file; see `pirkit.load`.

    Raises UnsupportedError (PK0405) for an archive of torch where torch is not installed.
    """
    if not is_torch_archive(path):
        return load(path, **options)
    try:
        from pirkit.torch.export import load_archive  # noqa: PLC0415  imports torch
    except ImportError as error:
        raise UnsupportedError(
            f"{path} is an archive of torch, which is not installed", code="PK0405",
            span=Span(path), help="pip install pirkit[torch]",
        ) from error  # fmt: skip
    return load_archive(path)


def read_source(path: str) -> str:
    """The text of a program, from any file; weights are not in it."""
    if is_torch_archive(path) or path.endswith(".onnx"):
        return str(load_program(path))
    return read_text(path)
