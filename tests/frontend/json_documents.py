"""Small handwritten programs in Paddle's JSON form."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


def dense(*dims: int, element: str = "f32", layout: str = "NCHW") -> Json:
    return {"#": "0.t_dtensor", "D": [{"#": f"0.t_{element}"}, list(dims), layout, [], 0]}


def attr(name: str, kind: str, value: Any) -> Json:
    return {"AT": {"#": kind, "D": value}, "N": name}


def flags(name: str, *values: bool) -> Json:
    return attr(name, "0.a_array", [{"#": "0.a_bool", "D": v} for v in values])


def op(
    word: str,
    operands: list[int] | None = None,
    results: dict[int, Json] | None = None,
    attrs: list[Json] | None = None,
    regions: list[Json] | None = None,
) -> Json:
    results = results or {}
    made = {
        "#": word,
        "A": attrs or [],
        "I": [{"%": n} for n in operands or []],
        "O": [{"%": n, "TT": t} for n, t in results.items()],
        "OA": [flags("stop_gradient", *(True for _ in results))] if results else [],
    }
    return made | ({"regions": regions} if regions is not None else {})


def data(number: int, name: str = "x", *dims: int, element: str = "f32") -> Json:
    attrs = [
        attr("name", "0.a_str", name),
        attr("shape", "1.a_intarray", list(dims)),
        attr("dtype", "1.a_dtype", {"f32": "float32", "bool": "bool", "i64": "int64"}[element]),
        attr("place", "1.a_place", [0, 0, ""]),
    ]
    return op("1.data", [], {number: dense(*dims, element=element)}, attrs)


def parameter(number: int, name: str, *dims: int, element: str = "f32", stored: int = 1) -> Json:
    return {
        "#": "p",
        "A": [0, 1, 1, name],
        "DA": [],
        "O": {"%": number, "TT": dense(*dims, element=element)},
        "OA": [stored, 0, 1],
        "QA": [],
    }


def tanh(operand: int, result: int, *dims: int) -> Json:
    return op("1.tanh", [operand], {result: dense(*dims)})


def region(number: int, ops: list[Json], args: dict[int, Json] | None = None) -> Json:
    listed = [{"#": n, "TT": t} for n, t in (args or {}).items()]
    block = {"#": f"block_{number}", "args": listed, "ops": ops}
    return {"#": f"region_{number}", "blocks": [block]}


def document(*ops: Json, version: Any = 4, magic: str = "pir") -> Json:
    return {
        "base_code": {"magic": magic, "trainable": True, "version": version},
        "program": {"regions": [region(0, list(ops))]},
    }


def dumped(tree: Json) -> str:
    """The text that Paddle would write for a document."""
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
