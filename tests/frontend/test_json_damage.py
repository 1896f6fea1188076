"""Damaged JSON programs: each kind of damage has its code, and the message names the place."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from pirkit.diag.errors import ArtifactError, LimitError, UnsupportedError
from pirkit.diag.limits import STRICT, use_limits
from pirkit.frontend.paddle.json_reader import read_paddle_json
from tests.frontend.json_documents import (
    Json,
    attr,
    data,
    document,
    dumped,
    flags,
    parameter,
    region,
    tanh,
)

GOOD: Final = document(parameter(1, "w", 2), data(2, "x", 2), tanh(2, 3, 2))
OPS: Final = "program.regions[0].blocks[0].ops"


def change(path: str, value: Any) -> Json:
    """The good document with one field set; the path is written as in a message."""
    tree = copy.deepcopy(GOOD)
    *steps, last = path.replace("[", ".[").split(".")
    node: Any = tree
    for step in steps:
        node = node[int(step[1:-1])] if step.startswith("[") else node[step]
    if last.startswith("["):
        node[int(last[1:-1])] = value
    elif value is ...:
        del node[last]
    else:
        node[last] = value
    return tree


@pytest.mark.parametrize(
    ("path", "value", "code", "place"),
    [
        ("base_code", ..., "PK0502", "base_code"),
        ("base_code.magic", "pirate", "PK0503", "base_code.magic"),
        ("base_code.version", 0, "PK0503", "base_code.version"),
        ("base_code.version", 5, "PK0503", "base_code.version"),
        ("base_code.version", 10**18, "PK0503", "base_code.version"),
        ("base_code.version", "4", "PK0502", "base_code.version"),
        ("program", ..., "PK0502", "program"),
        ("program", [], "PK0502", "program"),
        ("program.regions", [], "PK0502", "program.regions"),
        ("program.regions[0].blocks", ..., "PK0502", "program.regions[0]"),
        ("program.regions[0].#", "block_0", "PK0505", "program.regions[0].blocks[0].#"),
        ("program.regions[0].blocks[0].ops", {}, "PK0502", OPS),
        ("program.regions[0].blocks[0].args", [{"#": 1}], "PK0502", "args[0].#"),
        ("program.regions[0].blocks[0].args", [{"#": -1, "A": 0}], "PK0502", "args[0].TT"),
        (
            "program.regions[0].blocks[0].args",
            [{"#": -1, "TT": {"#": "NULL"}, "A": 0}],
            "PK0502",
            "args[0].A",
        ),
        (f"{OPS}[2]", 7, "PK0502", f"{OPS}[2]"),
        (f"{OPS}[2].#", ..., "PK0502", f"{OPS}[2]"),
        (f"{OPS}[2].#", "1.a b", "PK0502", f"{OPS}[2].#"),
        (f"{OPS}[2].I", ..., "PK0502", f"{OPS}[2]"),
        (f"{OPS}[2].I[0].%", 99, "PK0505", f"{OPS}[2].I[0]"),
        (f"{OPS}[2].I[0].%", 3, "PK0505", f"{OPS}[2].I[0]"),
        (f"{OPS}[2].I[0].%", 0, "PK0502", f"{OPS}[2].I[0]"),
        (f"{OPS}[2].I[0].%", True, "PK0502", f"{OPS}[2].I[0].%"),
        (f"{OPS}[2].O[0].%", 2, "PK0505", f"{OPS}[2]"),
        (f"{OPS}[2].O[0].%", -2, "PK0502", f"{OPS}[2].O[0].%"),
        (f"{OPS}[2].O[0].TT", {"#": "NULL"}, "PK0502", f"{OPS}[2].O[0]"),
        (f"{OPS}[2].O[0].TT.#", "0.t_f99", "PK0502", f"{OPS}[2].O[0].TT.#"),
        (f"{OPS}[2].O[0].TT.D[1][0]", -2, "PK0502", f"{OPS}[2].O[0].TT.D[1][0]"),
        (f"{OPS}[2].O[0].TT.D[1][0]", 2**63, "PK0502", f"{OPS}[2].O[0].TT.D[1][0]"),
        (f"{OPS}[2].OA[0].AT.D[0].D", 1, "PK0502", f"{OPS}[2].OA[0].AT.D[0].D"),
        (f"{OPS}[2].A", [attr("operandSegmentSizes", "0.a_i32", 1)], "PK0502", f"{OPS}[2].A[0].N"),
        (f"{OPS}[2].A", [attr("a", "0.a_i32", 1)] * 2, "PK0502", f"{OPS}[2].A[1].N"),
        (f"{OPS}[2].A", [flags("stop_gradient", True)], "PK0502", f"{OPS}[2].OA"),
        (f"{OPS}[2].regions", [region(1, [])], "PK0502", f"{OPS}[2].regions"),
        (f"{OPS}[2].surprise", 1, "PK0502", f"{OPS}[2]"),
        (f"{OPS}[1].A[0].AT.D", 5, "PK0502", f"{OPS}[1].A[0].AT.D"),
        (f"{OPS}[0].A", [0, 1, 1], "PK0502", f"{OPS}[0].A"),
        (f"{OPS}[0].A[0]", 2, "PK0502", f"{OPS}[0].A[0]"),
        (f"{OPS}[0].OA[2]", True, "PK0502", f"{OPS}[0].OA[2]"),
        (f"{OPS}[0].O.%", 0, "PK0502", f"{OPS}[0].O.%"),
        (f"{OPS}[0].O.TT", {"#": "NULL"}, "PK0502", f"{OPS}[0].O.TT"),
    ],
)
def test_damage_is_named_with_its_place(path: str, value: Any, code: str, place: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_paddle_json(dumped(change(path, value)), "model.json")
    assert caught.value.code == code
    assert place in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.file == "model.json"


def test_unknown_op_is_named_with_its_place() -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_paddle_json(dumped(change(f"{OPS}[2].#", "1.tanhh")), "model.json")
    assert caught.value.code == "PK0401"
    assert f"at {OPS}[2]" in caught.value.notes


@pytest.mark.parametrize(
    ("text", "line"),
    [("{", 1), ("", 1), ('{"a": 1,\n "b": }', 2), ("[1,]", 1), ("{'a': 1}", 1), ("\ufeff{}", 1)],
)
def test_text_that_is_no_json_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_paddle_json(text)
    assert caught.value.code == "PK0501"
    assert caught.value.span is not None
    assert caught.value.span.line == line


def test_rank_is_limited() -> None:
    with pytest.raises(LimitError) as caught, use_limits(STRICT):
        read_paddle_json(dumped(change(f"{OPS}[2].O[0].TT.D[1]", [1] * 10)))
    assert caught.value.code == "PK0305"
    assert f"at {OPS}[2]" in caught.value.notes
