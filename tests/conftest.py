"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator
from typing import Final
from zlib import crc32

import pytest
from hypothesis import settings

from pirkit.diag.errors import UsageError
from pirkit.runtime.native.target import LEVELS, host

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
# The same examples on every run; a campaign looks for new ones with HYPOTHESIS_PROFILE=explore.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and diagnostics would be cut to it

# Tests change what compiles programs: what they make of one is nobody else's.
os.environ["PIRKIT_NATIVE_CACHE"] = "objects"

CPU_SECONDS: Final = 120.0
"""How long a test may compute. A clock on the wall would tell how busy the machine is."""

SHARE: Final = int(os.environ.get("PIRKIT_TEST_SHARE", "1"))
"""Of tests that have MANY cases one case in so many runs; `make check-all` runs them all."""
MANY: Final = 14


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that computes for too long, in this process or in children that it waited for."""
    mark = item.get_closest_marker("cpu_seconds")
    limit: float = mark.args[0] if mark else CPU_SECONDS
    if not hasattr(signal, "setitimer"):
        return (yield)

    def stop(*_: object) -> None:
        pytest.fail(f"more than {limit:g} s of CPU time")

    before, handler = _children_seconds(), signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    if (spent := _children_seconds() - before) > limit:
        pytest.fail(f"{spent:.0f} s of CPU time in other processes, more than {limit:g}")


def _children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a share of the cases; skip all under a ``PIRKIT_TARGET`` that this CPU lacks."""
    if SHARE > 1:
        kept = set(_share(items))
        config.hook.pytest_deselected(items=[i for i in items if i not in kept])
        items[:] = [i for i in items if i in kept]
    try:
        host()
    except UsageError as error:
        if os.environ.get("PIRKIT_TARGET") not in LEVELS:
            raise
        for item in items:
            item.add_marker(pytest.mark.skip(reason=error.message))


def _share(items: list[pytest.Item]) -> Generator[pytest.Item]:
    """One case in SHARE of each test with MANY of them.

    Neighbours are mostly cases of one op: each op keeps some of its cases. Tests of one case for
    each op start at different ones.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for name, group in cases.items():
        many = len(group) > MANY
        yield from group[crc32(name.encode()) % SHARE :: SHARE] if many else group


def pytest_collection_finish() -> None:
    """The collected tests stay for the whole run: the garbage collector need not visit them."""
    gc.collect()
    gc.freeze()
