"""Serializes native programs for the cache, without the code of their functions.

Functions are referenced by their cache keys; branches are written out. Entries are authenticated
(see `cache.py`) and still validated: an inconsistent one counts as a miss.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final
from zlib import compress, decompress
from zlib import error as ZlibError

from pirkit.runtime.dtype import BY_NAME
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.data_assertions import DataAssertion
from pirkit.runtime.native.function import Branch, Control, NativeFunction, Reserve
from pirkit.runtime.native.program import Content, NativeProgram, ProgramStep
from pirkit.runtime.native.records_ir import STACK_BYTES
from pirkit.runtime.plan_json import pack_span, read_span

_CONTROL: Final[dict[str, Callable[..., Control]]] = {"branch": Branch, "reserve": Reserve}


def pack_program(program: NativeProgram, keys: Sequence[str]) -> dict[str, Any]:
    """A program as JSON data; ``keys`` are the cache keys of its steps' functions, if they have
    code of their own.
    """
    return {
        "inputs": [_meta(m) for m in program.inputs],
        "results": [_meta(m) for m in program.results],
        "steps": [
            [
                _words(step.function) if isinstance(step.function, Control) else key,
                list(step.operands),
                step.flags.start,
                step.flags.stop,
            ]
            for key, step in zip(keys, program.steps, strict=True)
        ],
        "temporaries": list(program.temporaries),
        "memory": program.memory,
        "names": [list(names) for names in program.names],
        "summary": program.summary,
        "in_place": sorted(map(list, program.in_place)),
        "contents": [[c.offset, b64encode(compress(c.content)).decode()] for c in program.contents],
        "marks": program.flags,
        "stacks": list(program.stacks),
        "assertions": [[d.extent, d.op, pack_span(d.span), d.origin] for d in program.assertions],
    }


def unpack_program(
    data: Any, function_of: Callable[[str], NativeFunction | None]
) -> NativeProgram | None:
    """The inverse of `pack_program`; None for invalid data, or if a function is missing."""
    try:
        steps: list[ProgramStep] = []
        for key, operands, first, last in data["steps"]:
            function = function_of(str(key)) if isinstance(key, str) else _control(*key)
            if function is None:
                return None
            steps.append(ProgramStep(function, _numbers(operands), range(int(first), int(last))))
        inputs, results = data["names"]
        program = NativeProgram(
            tuple([_read_meta(m) for m in data["inputs"]]),
            tuple([_read_meta(m) for m in data["results"]]),
            tuple(steps),
            _numbers(data["temporaries"]),
            int(data["memory"]),
            (tuple(map(str, inputs)), tuple(map(str, results))),
            str(data["summary"]),
            frozenset((int(a), int(b)) for a, b in data["in_place"]),
            tuple([Content(int(at), decompress(b64decode(c))) for at, c in data["contents"]]),
            int(data["marks"]),
            tuple([_read_demand(*fields) for fields in data["assertions"]]),
            _numbers(data["stacks"]),
        )
    except (KeyError, TypeError, ValueError, ZlibError):
        return None
    return program if _is_consistent(program) else None


def _is_consistent(program: NativeProgram) -> bool:
    """Whether all operands and offsets are in range, and operand counts match the functions."""
    count = len(program.inputs) + len(program.results) + len(program.temporaries)
    places = [(offset, 0) for offset in program.temporaries]
    places += [(c.offset, len(c.content)) for c in program.contents]
    places += [(s.flags.start, len(s.flags)) for s in program.steps]
    places.append((program.flags, len(program.assertions)))
    places += [(offset, STACK_BYTES) for offset in program.stacks]
    inside = all(0 <= offset <= program.memory - size for offset, size in places)
    flow = [s.function for s in program.steps if isinstance(s.function, Control)]
    targets = [f.target for f in flow if isinstance(f, Branch)]
    sizes = [f.nbytes for f in flow if isinstance(f, Reserve)]
    inside = inside and all(0 <= to <= len(program.steps) for to in targets)
    inside = inside and all(0 <= size < 1 << 62 for size in sizes)
    return inside and all(
        len(step.operands) == len(step.function.code.sizes)
        and all(0 <= operand < count for operand in step.operands)
        for step in program.steps
    )


def _words(function: Control) -> list[Any]:
    name = "branch" if isinstance(function, Branch) else "reserve"
    return [name, *(getattr(function, field) for field in function.__slots__)]


def _control(name: str, *fields: Any) -> Control:
    """The inverse of `_words`. Raises KeyError or TypeError for anything else."""
    return _CONTROL[name](*map(int, fields))


def _read_demand(extent: Any, op: Any, span: Any, origin: Any) -> DataAssertion:
    notes = tuple(map(str, origin))
    return DataAssertion(None if extent is None else int(extent), str(op), read_span(span), notes)


def _meta(meta: TensorMeta) -> list[Any]:
    return [meta.dtype.name, list(meta.shape)]


def _read_meta(data: Any) -> TensorMeta:
    name, shape = data
    return TensorMeta(_numbers(shape), BY_NAME[name])


def _numbers(data: Any) -> tuple[int, ...]:
    return tuple(map(int, data))
