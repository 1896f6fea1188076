"""The cycle collector rests while programs are read and modules imported, and only then."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from pirkit.diag.gc_pause import collection_paused, imported, importing, uncollected


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_it_rests_inside_and_runs_again() -> None:
    seen: list[bool] = []
    with collection_paused():
        with importing():
            seen.append(gc.isenabled())
        seen.append(gc.isenabled())
    assert seen == [False, False]
    assert gc.isenabled()
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()
    assert uncollected(gc.isenabled)() is False


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with importing():
        pass
    assert not gc.isenabled()


def test_only_what_imports_make_is_old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for imports in (True, False):
        with importing():
            made = [[] for _ in range(10)]
            if imports:
                monkeypatch.setitem(sys.modules, "pirkit_made_up", ModuleType("pirkit_made_up"))
        held = {id(x) for x in gc.get_objects(generation=2)}
        assert all((id(x) in held) == imports for x in made)
        assert gc.get_freeze_count() == 0


def test_what_others_froze_stays_frozen() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    with importing():
        pass
    assert gc.get_freeze_count() == count > 0


def test_a_module_is_imported() -> None:
    assert imported("json").dumps([1]) == "[1]"


COUNTED = """
import gc
walked = []
def noted(phase, info):
    if phase == "start":
        walked.extend(len(gc.get_objects(generation=g)) for g in range(info["generation"] + 1))
gc.callbacks.append(noted)
import pirkit
from pirkit.frontend.tracing import trace
import numpy as np
x = np.ones(3, np.float32)
pirkit.compile(trace(lambda x: pirkit.ops.tanh(x), (x,)).program)(x0=x)
print(sum(walked), gc.isenabled())
"""


def test_no_collection_walks_what_was_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True
    )
    walked, is_enabled = done.stdout.split()
    assert int(walked) < 50_000
    assert is_enabled == "True"
