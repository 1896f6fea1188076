"""Settings of all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import Final

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip everything under a ``PIRKIT_TARGET`` that this CPU lacks."""
    try:
        host()
    except UsageError as error:
        if os.environ.get("PIRKIT_TARGET") not in LEVELS:
            raise
        for item in items:
            item.add_marker(pytest.mark.skip(reason=error.message))
