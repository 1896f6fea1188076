"""Reads and writes ``.pdiparams``: the values of a program's parameters.

The file holds the tensors one after the other, sorted by name, without names and without a header;
little endian. A tensor is::

    u32 0   u64 levels   per level: u64 bytes, offsets   u32 0   i32 n   n bytes   elements

where the n bytes are a protobuf message: field 1 the element type, field 2 one dimension each.
Nothing is allocated before its size is known to fit into the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import numpy as np
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import ArtifactError
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.dialect.attrs import decode
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.operation import PirOp, declares, host_name, with_nested
from pirkit.dialect.types import meta_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.atomic_write import atomic_write
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta, compatible

Array = np.ndarray[Any, Any]

_DTYPE_TAG: Final = 1 << 3
_DIM_TAG: Final = 2 << 3
_PACKED_DIMS_TAG: Final = 2 << 3 | 2
_LONGEST_VARINT: Final = 10


def parameter_metas(module: mlir.ModuleOp) -> dict[str, TensorMeta]:
    """The values that a program's ``.pdiparams`` holds, by name, in the order of the file.

    These are its persistable parameters and persistable inputs.
    """
    return dict(sorted(source_metas(module, _is_persistable), key=itemgetter(0)))


def source_metas(
    module: mlir.ModuleOp, wanted: Callable[[PirOp], bool] = lambda op: True
) -> Iterator[tuple[str, TensorMeta]]:
    """Name and meta of each tensor that a program takes from outside: inputs and parameters."""
    for op in with_nested(module):
        if isinstance(op, PirOp) and declares(op, SOURCE) and wanted(op):
            meta = meta_of(op.results[0].type)
            if isinstance(meta, TensorMeta):
                yield host_name(op), meta


def unfilled_parameters(module: mlir.ModuleOp) -> dict[str, Array]:
    """The parameters that no file holds because they are never initialized, as empty arrays.

    An example is the state of a dropout that is switched off. They are not persistable, and Paddle
    declares them without dimensions.
    """
    found: dict[str, Array] = {}
    for op in with_nested(module):
        if isinstance(op, PirOp) and op.name == "pir.parameter" and not _is_persistable(op):
            meta = meta_of(op.results[0].type)
            if isinstance(meta, TensorMeta) and not meta.shape:
                found[op.attribute("parameter_name")] = np.empty(0, meta.dtype.np)
    return found


def _is_persistable(op: PirOp) -> bool:
    if op.name == "pir.parameter":
        return all(op.attribute("persistable"))
    held = op.attributes.get("persistable")
    return held is not None and all(decode("bool[]", held))


# --- reading -------------------------------------------------------------------------------------


def read_params(path: str | Path, metas: Mapping[str, TensorMeta]) -> dict[str, Array]:
    """The tensors of a file, by name; ``metas`` says which ones it holds.

    Raises ArtifactError, with the parameter and the position in the file, if the file is missing,
    damaged, or belongs to another program.
    """
    span = Span(str(path))
    try:
        with open(path, "rb") as handle:
            file = _File(handle, os.fstat(handle.fileno()).st_size, span)
            arrays = {name: file.tensor(name, metas[name]) for name in sorted(metas)}
            if file.at != file.size:
                raise ArtifactError(
                    f"{file.size - file.at} bytes are left after the last parameter, "
                    f"at byte {file.at}",
                    code="PK0504",
                    span=span,
                    help="the file may belong to another program",
                )
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ArtifactError(
            f"cannot read the parameters: {reason}",
            code="PK0506",
            span=span,
            help="check the path and its permissions",
        ) from error
    return arrays


class _File:
    """A cursor that never reads past the end of the file."""

    def __init__(self, handle: BinaryIO, size: int, span: Span) -> None:
        self.handle = handle
        self.size = size
        self.span = span
        self.at = 0
        self.name = ""

    def tensor(self, name: str, meta: TensorMeta) -> Array:
        self.name = name
        start = self.at
        self.version("list")
        levels = self.number("<Q", "the number of its levels")
        if levels > self.size // 8:
            self.fail(f"claims {levels} levels")
        for _ in range(levels):
            self.take(self.number("<Q", "the size of a level"), "a level")
        self.version("tensor")
        length = self.number("<i", "the size of its description")
        if length < 0:
            self.fail(f"claims a description of {length} bytes")
        dtype, shape = self.description(self.take(length, "its description"))
        found = TensorMeta(shape, dtype)
        if not compatible(meta, found):
            raise ArtifactError(
                f"parameter `{name}` at byte {start} is `{found}`, but the program declares "
                f"`{meta}`",
                code="PK0504",
                span=self.span,
                help="use the `.json` and the `.pdiparams` of one `paddle.jit.save`",
            )
        return self.elements(dtype, shape)

    def elements(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        size = prod(shape) * dtype.itemsize
        self.require(size, "its elements")
        raw = np.fromfile(self.handle, np.uint8, size)
        if raw.size != size:
            self.fail("ends early: the file shrank while it was read")
        self.at += size
        return raw.view(dtype.np).reshape(shape)

    def version(self, what: str) -> None:
        version = self.number("<I", f"its {what} version")
        if version != 0:
            self.fail(f"has {what} version {version}, expected 0")

    def number(self, form: str, what: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form), what))[0]

    def take(self, count: int, what: str) -> bytes:
        self.require(count, what)
        data = self.handle.read(count)
        if len(data) != count:
            self.fail("ends early: the file shrank while it was read")
        self.at += count
        return data

    def require(self, count: int, what: str) -> None:
        if count > self.size - self.at:
            self.fail(
                f"needs {count} bytes for {what}, but the file has {self.size - self.at} left"
            )

    def description(self, message: bytes) -> tuple[DType, tuple[int, ...]]:
        """Element type and shape from the protobuf message."""
        code: int | None = None
        dims: list[int] = []
        at = 0
        while at < len(message):
            tag, at = self.varint(message, at)
            value, at = self.varint(message, at)
            if tag == _DTYPE_TAG and code is None:
                code = value
            elif tag == _DIM_TAG:
                dims.append(value)
            elif tag == _PACKED_DIMS_TAG:
                end = at + value
                if end > len(message):
                    self.fail("has a description that is cut off")
                while at < end:
                    dim, at = self.varint(message[:end], at)
                    dims.append(dim)
            else:
                self.fail(f"has a description with an unexpected field {tag >> 3}")
            check("rank", len(dims), self.span)
        if code not in dt.BY_CODE:
            self.fail("has no element type" if code is None else f"has unknown element type {code}")
        for dim in dims:
            if dim >= 1 << 63:
                self.fail(f"has the negative dimension {dim - (1 << 64)}")
        return dt.BY_CODE[code], tuple(dims)

    def varint(self, message: bytes, at: int) -> tuple[int, int]:
        value = 0
        for index, byte in enumerate(message[at : at + _LONGEST_VARINT]):
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return value, at + index + 1
        self.fail("has a description with a damaged number")

    def fail(self, what: str) -> NoReturn:
        raise ArtifactError(
            f"parameter `{self.name}` at byte {self.at} {what}", code="PK0504", span=self.span
        )


# --- writing -------------------------------------------------------------------------------------


def write_params(path: str | Path, arrays: Mapping[str, Array]) -> None:
    """Write tensors so that Paddle reads them as the parameters of those names.

    The file is written atomically. Raises ArtifactError for an array of a dtype that Paddle does
    not have, or if the file cannot be written.
    """
    headers = {name: _header(name, arrays[name]) for name in sorted(arrays)}
    with atomic_write(str(path)) as file:
        for name, header in headers.items():
            file.write(header)
            file.write(_raw(arrays[name]))


def _header(name: str, array: Array) -> bytes:
    dtype = dt.of_numpy(array.dtype)
    if dtype is None or dtype not in dt.ALL:
        raise ArtifactError(
            f"parameter `{name}` is an array of {array.dtype}, which no program holds",
            code="PK0500",
            help="convert it with `astype`, for instance to float32",
        )
    message = bytes([_DTYPE_TAG, *_varint(dtype.code)])
    for dim in array.shape:
        message += bytes([_DIM_TAG, *_varint(dim)])
    return struct.pack("<IQIi", 0, 0, 0, len(message)) + message


def _varint(value: int) -> Iterator[int]:
    while value >= 0x80:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


def _raw(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
