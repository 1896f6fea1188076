"""Limits that the parser, the readers and the pass drivers check.

A limit turns a program that is too large for its own good into a coded error, within time and
memory that do not depend on the program. ``--limits`` selects a profile; Python code writes::

    with use_limits(STRICT):
        program = pirkit.load(path)

Code that counts asks ``check("rank", len(shape), span)``; a loop that counts a lot reads
``current_limits()`` once and calls ``check`` when it is exceeded.
"""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Literal

from pirkit.diag.errors import LimitError
from pirkit.diag.span import Span

MEBI: Final = 1 << 20

Knob = Literal[
    "input_bytes",
    "nesting",
    "ops",
    "attribute_nodes",
    "alias_bytes",
    "literal_digits",
    "integer_width",
    "rank",
    "dimension",
    "constant_elements",
    "list_elements",
    "rewrites_per_op",
    "decomposition_depth",
    "derivative_order",
    "index_nodes",
    "fused_ops",
    "loop_steps",
    "compile_seconds",
]
"""The name of a limit: a field of ``Limits``."""


def _knob(default: int, what: str, *, code: str = "PK0300", floor: int = 1) -> Any:
    """A limit. ``floor`` is the least value that still admits ordinary programs."""
    metadata = {"what": what, "code": code, "floor": floor}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest admitted values; a value equal to its limit is admitted."""

    input_bytes: int = _knob(64 * MEBI, "bytes of one input file", code="PK0302")
    nesting: int = _knob(
        64, "levels of nested regions, types or attributes", code="PK0301", floor=20
    )
    ops: int = _knob(1_000_000, "ops in one module", code="PK0303")
    attribute_nodes: int = _knob(4_000_000, "attribute and type nodes in one module", code="PK0303")
    alias_bytes: int = _knob(256 * MEBI, "bytes of text after alias expansion", code="PK0307")
    literal_digits: int = _knob(64, "digits of one number", code="PK0304", floor=20)
    integer_width: int = _knob(128, "bits of an integer type", code="PK0304", floor=64)
    rank: int = _knob(32, "dimensions of one tensor", code="PK0305", floor=9)
    dimension: int = _knob(2**63 - 1, "elements along one dimension", code="PK0305", floor=2**31)
    constant_elements: int = _knob(1_000_000, "elements of one written constant", code="PK0306")
    list_elements: int = _knob(65_536, "tensors in one list", floor=4096)
    rewrites_per_op: int = _knob(100, "rewrites by one pass, per op of its program")
    decomposition_depth: int = _knob(32, "nested decompositions of one op", floor=8)
    derivative_order: int = _knob(8, "nested derivatives", floor=3)
    index_nodes: int = _knob(10_000, "nodes of one index expression")
    fused_ops: int = _knob(64, "ops in one fused kernel", floor=8)
    loop_steps: int = _knob(10_000_000, "iterations of one loop, each time it runs")
    compile_seconds: int = _knob(120, "seconds to compile one program", floor=30)


_METADATA: Final = {knob.name: knob.metadata for knob in dataclasses.fields(Limits)}

DEFAULT: Final = Limits()

STRICT: Final = Limits(
    **{name: max(getattr(DEFAULT, name) // 10, data["floor"]) for name, data in _METADATA.items()}
)
"""A tenth of each default, but never so little that ordinary programs are refused."""

OFF: Final = Limits(**dict.fromkeys(_METADATA, sys.maxsize))
"""No limits, for input that is trusted. Deep nesting then ends where Python's stack ends."""

PROFILES: Final[Mapping[str, Limits]] = {"default": DEFAULT, "strict": STRICT, "off": OFF}
"""The values of ``--limits``."""

_current: Final = ContextVar("pirkit_limits", default=DEFAULT)


def current_limits() -> Limits:
    """The limits in force in this thread or task."""
    return _current.get()


@contextmanager
def use_limits(limits: Limits) -> Generator[Limits]:
    """Put limits in force for the body of a ``with`` statement."""
    token = _current.set(limits)
    try:
        yield limits
    finally:
        _current.reset(token)


def check(name: Knob, value: int, span: Span | None = None) -> None:
    """Raise LimitError, naming the knob, if ``value`` is above the limit ``name`` in force."""
    limit: int = getattr(_current.get(), name)
    if value <= limit:
        return
    data = _METADATA[name]
    raise LimitError(
        f"{_shown(value)} {data['what']}, more than the limit `{name}` of {limit:,}",
        code=data["code"],
        span=span,
        help="`--limits off` lifts all limits, for input that you trust",
    )


MAX_RATIO: Final = 100
"""Bytes that a byte of a packed file may become, if the limit `input_bytes` does not admit them."""


def check_unpacked(stored: int, unpacked: int, span: Span | None = None) -> None:
    """Raise LimitError (PK0302) for a packed file that would become too large for what it is."""
    if unpacked > stored * MAX_RATIO:
        check("input_bytes", unpacked, span)


def read_at_most(file: BinaryIO) -> bytes:
    """Read a file, or a little more of it than ``input_bytes`` admits, which `check` then refuses.

    The size of pipes and devices is unknown, and some never end.
    """
    most = current_limits().input_bytes
    return file.read() if most >= sys.maxsize else file.read(most + 1)


def read_whole(path: str) -> bytes:
    """The bytes of a file. LimitError (PK0302) for a pipe or device beyond ``input_bytes``.

    A file of weights may be larger: its size on disk bounds what is read.
    """
    with open(path, "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read()
        data = read_at_most(file)
    check("input_bytes", len(data), Span(path))
    return data


def _shown(value: int) -> str:
    # Python refuses to print integers of thousands of digits.
    return f"{value:,}" if value.bit_length() <= 128 else f"a {value.bit_length()}-bit number of"
