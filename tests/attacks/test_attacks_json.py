"""Hostile ``model.json`` and ``model.pdiparams`` files: a coded error, soon, in little memory.

The files in ``json/`` are named after the code that refuses them. What is too large for a file is
made here.
"""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pirkit.diag.errors import ArtifactError, InputError
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.params import read_params
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from tests.frontend.json_documents import (
    Json,
    attr,
    data,
    dense,
    document,
    dumped,
    op,
    region,
    tanh,
)

FILES: Final = sorted((Path(__file__).parent / "json").glob("*.json"))
SECONDS: Final = 2.0
BYTES: Final = 300 << 20
MANY: Final = 100_000


@contextmanager
def bounded() -> Generator[None]:
    """Fail if the body takes too long or too much memory."""
    tracemalloc.start()
    start = time.process_time()
    try:
        yield
    finally:
        elapsed = time.process_time() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert elapsed <= SECONDS
    assert peak <= BYTES


def refused(data: str | bytes) -> str:
    """The code with which reading and verifying refuse a document."""
    with bounded(), pytest.raises(InputError) as caught:
        verify_module(read_paddle_json(data, "model.json"))
    assert caught.value.span is not None
    assert caught.value.span.file.startswith("model.json")
    assert len(caught.value.message) < 400
    assert caught.value.message.isprintable()
    return caught.value.code


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_file_is_refused_with_its_code(path: Path) -> None:
    assert refused(path.read_bytes()) == path.name.partition("-")[0]


def nested(opening: str, closing: str, count: int) -> str:
    return opening * count + "0" + closing * count


def loops(depth: int) -> Json:
    """That many loops inside each other."""
    ops = [op("2.yield", [1])]
    for level in range(depth, 0, -1):
        ops = [op("1.while", [1], {}, None, [region(level, ops)]), op("2.yield", [1])]
    return document(data(1, "c", element="bool"), *ops[:1])


def nested_type(depth: int) -> Json:
    type_ = dense(2)
    for _ in range(depth):
        type_ = {"#": "0.t_vec", "D": [type_]}
    return document(op("1.tanh", [], {1: type_}))


def nested_attribute(depth: int) -> Json:
    node: Json = {"#": "0.a_bool", "D": True}
    for _ in range(depth):
        node = {"#": "0.a_array", "D": [node]}
    return document(op("0.split", [], {}, [{"AT": node, "N": "mine.extra"}]))


GENERATED: Final[dict[str, tuple[str, Callable[[], str | bytes]]]] = {
    "lists": ("PK0301", lambda: nested("[", "]", MANY)),
    "objects": ("PK0301", lambda: nested('{"a":', "}", MANY)),
    "lists that never close": ("PK0301", lambda: "[" * MANY),
    "brackets behind an odd quote": ("PK0301", lambda: '"' + "[" * MANY),
    "only closing brackets": ("PK0501", lambda: "]" * MANY),
    "loops": ("PK0301", lambda: dumped(loops(120))),
    "types": ("PK0301", lambda: dumped(nested_type(100))),
    "attributes": ("PK0301", lambda: dumped(nested_attribute(100))),
    "64 MiB of brackets": ("PK0303", lambda: b"[" * (64 << 20)),
    "65 MiB of blanks": ("PK0302", lambda: b" " * (65 << 20)),
    "64 MiB in one string": ("PK0501", lambda: b'"' + b"a" * ((64 << 20) - 1)),
    "name of an op of 1 MiB": ("PK0502", lambda: dumped(document(op("1." + "a" * (1 << 20))))),
    "many operands that dangle": (
        "PK0505",
        lambda: dumped(document(op("0.combine", list(range(1, MANY))))),
    ),
}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_document_is_refused_with_its_code(name: str) -> None:
    code, make = GENERATED[name]
    assert refused(make()) == code


def test_brackets_inside_strings_do_not_count() -> None:
    node = data(1, "[" * 10_000 + '\\"' + "{" * 10_000, 2)
    verify_module(read_paddle_json(dumped(document(node))))


def test_chain_of_many_ops_is_read() -> None:
    ops = [data(1, "x", 2), *(tanh(n, n + 1, 2) for n in range(1, 1_000))]
    with bounded():
        verify_module(read_paddle_json(dumped(document(*ops))))


def test_document_cut_anywhere_is_refused() -> None:
    text = dumped(document(data(1, "x", 2), tanh(1, 2, 2)))
    for end in range(len(text)):
        with pytest.raises(ArtifactError) as caught:
            read_paddle_json(text[:end])
        assert caught.value.code == "PK0501"


def test_document_with_any_field_falsified_makes_no_traceback() -> None:
    good = document(
        data(1, "c", element="bool"),
        data(2, "x", 2),
        op(
            "1.while",
            [1, 2],
            {3: dense(2)},
            [attr("struct_name", "0.a_str", "/")],
            [region(1, [op("2.yield", [1, -1])], {-1: dense(2)})],
        ),
    )
    for value in (None, True, -7, 0.5, "word", [], {}, [[]], 1 << 64):
        for holder, key in places(good):
            kept = holder[key]
            holder[key] = value
            with suppress(InputError):
                verify_module(read_paddle_json(json.dumps(good)))
            holder[key] = kept


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON tree."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys = node.keys() if isinstance(node, dict) else range(len(node))
        for key in list(keys):
            found.append((node, key))
            if isinstance(node[key], dict | list):
                waiting.append(node[key])
    return found


# --- parameters ----------------------------------------------------------------------------------

META: Final = TensorMeta((2, 3), dt.float32)
DESCRIPTION: Final = bytes.fromhex("0805 1002 1003")


def tensor(
    description: bytes = DESCRIPTION,
    elements: bytes = bytes(24),
    *,
    version: int = 0,
    levels: int = 0,
    behind_levels: bytes = b"",
    inner_version: int = 0,
    length: int | None = None,
) -> bytes:
    """One tensor of a parameter file, with any field falsified."""
    size = len(description) if length is None else length
    head = struct.pack("<IQ", version, levels) + behind_levels
    return head + struct.pack("<Ii", inner_version, size) + description + elements


def refused_params(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "model.pdiparams"
    path.write_bytes(content)
    with bounded(), pytest.raises(InputError) as caught:
        read_params(path, {"w": META})
    assert caught.value.span is not None
    return caught.value.code


LARGEST: Final = (1 << 63) - 1
VARINT_LARGEST: Final = b"\xff" * 8 + b"\x7f"
VARINT_MINUS_ONE: Final = b"\xff" * 9 + b"\x01"

BOMBS: Final = {
    "description longer than the file": tensor(length=LARGEST >> 32),
    "description of negative length": tensor(length=-1),
    "dimension of 2^63 - 1": tensor(b"\x08\x05\x10" + VARINT_LARGEST, b""),
    "product of dimensions beyond 64 bits": tensor(b"\x08\x05" + b"\x10\x80\x80\x80\x80\x10" * 3),
    "product of dimensions that wraps to zero": tensor(
        b"\x08\x05" + b"\x10\x80\x80\x80\x80\x10" * 2, b""
    ),
    "negative dimension": tensor(b"\x08\x05\x10" + VARINT_MINUS_ONE + b"\x10\x03"),
    "number without end": tensor(b"\x08" + b"\x80" * 64),
    "number of 70 bits": tensor(b"\x08" + b"\xff" * 9 + b"\x7f"),
    "packed dimensions longer than the message": tensor(b"\x08\x05\x12\x7f\x02\x03"),
    "packed dimension across the end": tensor(b"\x08\x05\x12\x01\x82\x03"),
    "unknown element type": tensor(b"\x08\x63\x10\x02\x10\x03"),
    "no element type": tensor(b"\x10\x02\x10\x03"),
    "element type twice": tensor(b"\x08\x05\x08\x05\x10\x02\x10\x03"),
    "unknown field": tensor(DESCRIPTION + b"\x1a\x00"),
    "levels without end": tensor(levels=LARGEST),
    "level longer than the file": tensor(levels=1, behind_levels=struct.pack("<Q", LARGEST)),
    "version of the list": tensor(version=1),
    "version of the tensor": tensor(inner_version=1),
    "other element type": tensor(b"\x08\x02\x10\x02\x10\x03"),
    "other shape": tensor(b"\x08\x05\x10\x03\x10\x02"),
    "other rank": tensor(b"\x08\x05\x10\x06"),
    "one byte behind": tensor() + b"\0",
    "a second tensor behind": tensor() * 2,
    "empty": b"",
    "text": b"not a parameter file at all, but long enough for a header",
}


@pytest.mark.parametrize("name", BOMBS)
def test_damaged_parameter_is_refused(name: str, tmp_path: Path) -> None:
    assert refused_params(tmp_path, BOMBS[name]) == "PK0504"


def test_rank_of_a_parameter_is_limited(tmp_path: Path) -> None:
    assert refused_params(tmp_path, tensor(b"\x08\x05" + b"\x10\x01" * 65)) == "PK0305"


def test_parameter_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content = tensor(levels=1, behind_levels=struct.pack("<QQQ", 16, 0, 2))
    for end in range(len(content)):
        assert refused_params(tmp_path, content[:end]) == "PK0504"
