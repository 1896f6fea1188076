"""xDSL's own tools find our dialects and passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from pirkit.passes import PASSES
from pirkit.universe import PIRKIT_UNIVERSE
from tests.execution import parsed

PROGRAM = """
pir.program @main {
  %x = pd_op.data() {name = "x", shape = array<i64: -1>, dtype = #pir.dtype<float32>}
      : () -> tensor<?xf32>
}
"""


def test_no_name_clashes_with_one_of_xdsl() -> None:
    assert not set(PIRKIT_UNIVERSE.all_passes) & set(get_all_passes())
    assert len(PIRKIT_UNIVERSE.all_passes) == len(PASSES)
    assert "pirkit-cse" in PIRKIT_UNIVERSE.all_passes


@pytest.mark.parametrize("name", PIRKIT_UNIVERSE.all_passes)
def test_every_pass_runs_as_a_pass_of_xdsl(name: str) -> None:
    cls = PIRKIT_UNIVERSE.all_passes[name]()
    assert cls.name == name
    cls().apply(Context(), parsed(PROGRAM))


def test_options_reach_the_pass() -> None:
    module = parsed(PROGRAM)
    PIRKIT_UNIVERSE.all_passes["infer-meta"]()(bind=("x:4",)).apply(Context(), module)
    assert "tensor<4xf32>" in str(module)


def test_the_entry_point_is_found() -> None:
    assert {"pir", "pd_op"} <= Universe.get_multiverse().all_dialects.keys()


@pytest.mark.slow  # starts xdsl-opt, which loads every dialect
def test_xdsl_opt_runs_a_pass() -> None:
    command = [str(Path(sys.executable).with_name("xdsl-opt")), "-p", 'infer-meta{bind="x:4"}']
    done = subprocess.run(command, input=PROGRAM, capture_output=True, text=True, check=True)
    assert "tensor<4xf32>" in done.stdout
