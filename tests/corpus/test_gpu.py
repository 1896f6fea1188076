"""The captured cases on the backend ``gpu``, with the stand-in for cupy: there is no GPU here."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pirkit.diag.errors import UnsupportedError
from pirkit.frontend.cases import SOURCES, check_case
from pirkit.frontend.compile import compile
from pirkit.frontend.files import load
from pirkit.runtime.fallback import FallbackWarning
from pirkit.runtime.registry import GPU, KERNELS
from tests.ops.fake_cupy import FakeCupy, fake_cupyx

CASES = sorted(p for p in (Path(__file__).parent / "paddle").iterdir() if p.is_dir())


@pytest.fixture(autouse=True)
def _cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    for name, module in {"cupy": FakeCupy(), **fake_cupyx()}.items():
        monkeypatch.setitem(sys.modules, name, module)
    # the device remembers the module that it imported
    vars(KERNELS.device(GPU)).pop("xp", None)
    yield
    vars(KERNELS.device(GPU)).pop("xp", None)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_numbers_are_those_of_paddle(case: Path, source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        report = check_case(case, source, backend=GPU)
    assert report.status in ("pass", "skip"), report.message


def test_fused_kernels_are_refused() -> None:
    program = load(CASES[0] / "program.txt")
    with pytest.raises(UnsupportedError, match="fused operators run on the CPU, not on `gpu`"):
        compile(program, backend=GPU, pipeline="@fused")
