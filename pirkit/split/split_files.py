"""Saves and loads splits, as JSON with both programs as MLIR text, their names, and the report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, TypeVar, cast

from pirkit.diag.errors import ArtifactError
from pirkit.diag.limits import check, read_at_most
from pirkit.diag.paths import unreadable
from pirkit.diag.span import Span
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.program import Program
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.passes.differentiate import outputs_of
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime.atomic_write import atomic_write
from pirkit.split.split_result import Saved, SplitNames, SplitParts, SplitReport

T = TypeVar("T")

VERSION: Final = 1
_PARTNERS: Final = (
    ("fx", "bx"),
    ("fx", "bx_g"),
    ("fp", "bp"),
    ("fp", "bp_g"),
    ("fm", "bm"),
    ("fo", "bo"),
    ("fo", "bo_g"),
)
"""Lists that must be of equal length, because their positions correspond."""
_NEVER_NULL: Final = ("fx", "fp", "fm", "fo", "no_need_buffers")


def save_parts(parts: SplitParts, path: str | os.PathLike[str]) -> None:
    """Write a split to a file, atomically; weights are not written.

    Raises ArtifactError if that is impossible.
    """
    held = {
        "pirkit_split": VERSION,
        "forward": print_mlir(parts.forward.module, locations=True),
        "backward": print_mlir(parts.backward.module, locations=True),
        "names": dict(parts.names.items()),
        "saved": [asdict(each) for each in parts.saved],
        "report": asdict(parts.report),
        "returns": parts.returns,
    }
    with atomic_write(os.fspath(path)) as file:
        file.write(json.dumps(held, indent=1).encode() + b"\n")


def load_parts(path: str | os.PathLike[str]) -> SplitParts:
    """Read a split from a file.

    Raises ArtifactError for a file that is missing, no JSON (PK0501), no split or one whose names
    do not fit its programs (PK0502), or of another version (PK0503); ParseError and VerifyError for
    a program that is not valid; LimitError for a file that is too large.
    """
    name = os.fspath(path)
    held = _Held(name, _json(name))
    version = held.take("pirkit_split", int)
    if version != VERSION:
        raise ArtifactError(
            f"{name} is a split of version {version}",
            code="PK0503",
            span=Span(name),
            help=f"this pirkit reads version {VERSION}",
        )
    names = held.names()
    report = _Held(name, held.take("report", dict))
    parts = SplitParts(
        _program(name, "forward", held.take("forward", str)),
        _program(name, "backward", held.take("backward", str)),
        names,
        tuple([_Held(name, each).saved() for each in held.items("saved")]),
        SplitReport(
            report.take("mode", str),
            report.take("bytes", int),
            report.strings("recomputed"),
            report.strings("notes"),
        ),
        held.returns(len(names.fo)),
    )
    _check_names(name, parts)
    return parts


def _json(name: str) -> Any:
    try:
        check("input_bytes", os.stat(name).st_size, Span(name))
        with open(name, "rb") as file:
            text = read_at_most(file)
        check("input_bytes", len(text), Span(name))
    except OSError as error:
        raise unreadable(name, error) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            f"{name} is no JSON: {error}", code="PK0501", span=Span(name)
        ) from error


def _program(name: str, half: str, text: str) -> Program:
    module = parse_mlir(text, f"{name}:{half}")
    verify_module(module)
    found = [op for op in module.ops if isinstance(op, ProgramOp)]
    if len(found) != 1:
        raise _malformed(name, f"its {half} holds {len(found)} programs")
    return Program(module, source=f"{name}:{half}")


class _Held:
    """A JSON object of the file; each access checks the type of the value."""

    def __init__(self, path: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise _malformed(path, "an object is missing")
        self._path = path
        self._value = cast("dict[str, Any]", value)

    def take(self, key: str, kind: type[T]) -> T:
        value = self._value.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _malformed(self._path, f"{key!r} is no {kind.__name__}")
        return value

    def items(self, key: str) -> list[Any]:
        return cast("list[Any]", self.take(key, list))

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.items(key)
        if not all(isinstance(each, str) for each in value):
            raise _malformed(self._path, f"{key!r} holds something that is no name")
        return tuple(value)

    def names(self) -> SplitNames:
        lists = _Held(self._path, self.take("names", dict))
        return SplitNames(**{f.name: lists.listed(f.name) for f in fields(SplitNames)})

    def listed(self, key: str) -> Any:
        if key in _NEVER_NULL:
            return self.strings(key)
        value = self.items(key)
        if not all(each is None or isinstance(each, str) for each in value):
            raise _malformed(self._path, f"{key!r} holds something that is no name")
        return tuple(value)

    def saved(self) -> Saved:
        return Saved(self.take("name", str), self.take("bytes", int), self.take("how", str))

    def returns(self, outputs: int) -> tuple[tuple[str, int], ...]:
        found: list[tuple[str, int]] = []
        for each in self.items("returns"):
            match each:
                case [str(name), int(position)] if 0 <= position < outputs:
                    found.append((name, position))
                case _:
                    raise _malformed(self._path, "'returns' names an output that is none")
        return tuple(found)


def _check_names(path: str, parts: SplitParts) -> None:
    """Check that each name of a program is in a list, and that partner lists are equally long."""
    lists: Mapping[str, Sequence[str | None]] = dict(parts.names.items())
    for ours, theirs in _PARTNERS:
        if len(lists[ours]) != len(lists[theirs]):
            raise _malformed(path, f"{ours!r} and {theirs!r} are not of one length")
    uses: tuple[tuple[ProgramOp, Callable[[ProgramOp], Mapping[str, Any]], str], ...] = (
        (parts.forward_program, inputs_of, "fx fp"),
        (parts.forward_program, outputs_of, "fm fo"),
        (parts.backward_program, inputs_of, "bx bp bm bo bo_g"),
        (parts.backward_program, outputs_of, "bx_g bp_g"),
    )
    for program, ports, keys in uses:
        known = {name for key in keys.split() for name in lists[key]}
        for name in ports(program):
            if name not in known:
                raise _malformed(path, f"{name!r} of @{program.symbol} is in none of {keys}")


def _malformed(path: str, why: str) -> ArtifactError:
    return ArtifactError(f"{path} is no split: {why}", code="PK0502", span=Span(path))
