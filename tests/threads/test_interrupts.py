"""An interrupt in any import that pirkit puts off leaves a process that still computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.threads.network import PARTS, write_network

SCRIPT = """
from importlib.machinery import PathFinder

when = sys.argv[2]
seen = set()

def interrupt(name):
    seen.add(name)
    raise KeyboardInterrupt(name)

class Interrupting:
    # each module of pirkit is interrupted once, before or after its body has run
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("pirkit") or name in seen or when == "never":
            return None
        if when == "before":
            interrupt(name)
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        def body(module):
            run(module)
            interrupt(name)
        spec.loader.exec_module = body
        return spec

def all_forms():
    program = loaded()
    compiled, whole = pirkit.compile(program), pirkit.compile(program, fast_math=True)
    run(compiled)
    run(whole)
    step(pirkit.split.RunnableProgram(pirkit.split.forward_backward(program)))
    close(network(x).numpy(), want)
    return [i.kernel for i in compiled.plan.body], whole.native is not None

sys.meta_path.insert(0, Interrupting())
interrupts = 0
while True:
    try:
        found = all_forms()
        break
    except KeyboardInterrupt:
        interrupts += 1
print(interrupts >= len(seen) and (interrupts > 100 or when == "never"), found)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("network")
    write_network(made)
    return made


def printed(folder: Path, when: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PARTS + SCRIPT, str(folder), when],
        env={**os.environ, "PIRKIT_NATIVE_CACHE": "objects"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_interrupt_at_each_import(folder: Path) -> None:
    found = {printed(folder, when) for when in ("before", "after", "never")}
    assert len(found) == 1
    assert found.pop().startswith("True")
