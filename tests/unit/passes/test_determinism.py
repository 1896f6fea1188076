"""The same program gives the same text in every process, whatever Python's hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from random import Random
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.passes import run_pipeline
from tests.unit.passes.random_programs import random_program
for seed in range(20):
    module = parse_mlir(random_program(Random(seed)))
    result = run_pipeline(module, "infer-meta,@default")
    print(print_mlir(module), result.stats, [str(r) for r in result.remarks])
"""


def output(hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.slow  # starts Python four times
def test_text_does_not_depend_on_the_hash_seed() -> None:
    first = output("0")
    assert first
    assert [output(seed) for seed in ("1", "2", "12345")] == [first] * 3
