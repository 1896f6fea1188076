"""The manifest tells everything of every primitive."""

from __future__ import annotations

import importlib
import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.cli.primitive_manifest import (
    BY_PLAN,
    FALLBACK,
    LINEAR_IN_FIRST,
    NO_GRADIENT,
    TWICE,
    list_primitives,
    manifest,
)
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.runtime import dtype as dt
from pirkit.runtime.kernels.cupy.host_fallback import ON_HOST

ROWS = manifest()
ROOT = Path(__file__).parents[3]


def exists(place: str) -> bool:
    """True for a line of a file of pirkit, a function of numpy, and a named function."""
    file, _, line = place.partition(":")
    if line:
        return int(line) <= len((ROOT / file).read_text(encoding="utf-8").splitlines())
    if place.startswith("numpy."):
        return hasattr(np, place.removeprefix("numpy."))
    parts = place.split(".")
    ends = (n for n in range(len(parts), 0, -1) if _is_module(".".join(parts[:n])))
    inside = next(ends, 0)
    found: Any = importlib.import_module(".".join(parts[:inside])) if inside else None
    for name in takewhile("<locals>".__ne__, parts[inside:]):
        found = getattr(found, name, None)
    return found is not None


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def test_a01_it_has_every_primitive_once() -> None:
    assert [row["name"] for row in ROWS] == list(PRIMITIVES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"].removeprefix("pd_op."))
def test_a01_each_member_has_everything(row: dict[str, Any]) -> None:
    """Or says that it has no gradient, or that the plan or the CPU stands in for a kernel."""
    assert {"operands", "attributes", "results", "effects", "reason"} <= row.keys()
    assert all(slot["name"] for slot in (*row["operands"], *row["attributes"], *row["results"]))
    assert row["dtypes"] == "any" or set(row["dtypes"]) <= dt.BY_NAME.keys()
    assert row["types"] in ("those of its regions", "stated") or exists(row["types"])
    assert row["numpy"] == BY_PLAN or (row["numpy"] and all(map(exists, row["numpy"])))
    _has_a_kernel_for_devices_or_a_reason(row)
    differentiable = PRIMITIVES[row["name"]].differentiable
    for mode, words in (("vjp", ()), ("jvp", (LINEAR_IN_FIRST, TWICE))):
        assert (row[mode] == NO_GRADIENT) != differentiable
        assert row[mode] in (*words, NO_GRADIENT) or exists(row[mode])


def _has_a_kernel_for_devices_or_a_reason(row: dict[str, Any]) -> None:
    told = row["cupy"]
    if isinstance(told, list):
        assert told
        assert all(map(exists, told))
        assert row["name"] not in ON_HOST
    elif told != BY_PLAN:
        assert ON_HOST[row["name"]]
        assert told == f"{FALLBACK}: {ON_HOST[row['name']]}"


def test_every_reason_is_one_of_a_primitive() -> None:
    primitive = {*PRIMITIVES, "pir.non_max_suppression"}  # ops of `pir` are all primitive
    assert primitive >= set(ON_HOST)


def test_it_is_json_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    list_primitives(as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(ROWS))
    list_primitives(as_json=False)
    assert len(capsys.readouterr().out.splitlines()) == len(ROWS) + 1
