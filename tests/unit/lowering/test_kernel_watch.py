"""Kernels that do not return: a child process meets them, and the parent goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from pirkit.diag.errors import InternalError, RuntimeFault
from pirkit.lowering.kernel_watch import EndedError, Watch, watched


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave() -> None:
    os._exit(7)


def repeat() -> None:
    while True:
        pass


def fine() -> None:
    pass


def checked(*kernels: Callable[[], None]) -> Callable[[Watch], list[str]]:
    """A check that runs kernels and gives what it knows of them."""

    def check(watch: Watch) -> list[str]:
        found: list[str] = []
        for kernel in kernels:
            try:
                with watch.running():
                    kernel()
            except EndedError as ended:
                found.append(str(ended))
            else:
                found.append("right")
        return found

    return check


def test_kernels_that_end_the_process_are_told() -> None:
    assert watched(checked(fine, fine)) == ["right", "right"]
    assert watched(checked(fine, crash, fine, leave)) == [
        "right",
        "it ends the process by SIGSEGV",
        "right",
        "it ends the process with status 7",
    ]


def test_kernels_that_never_end_are_told() -> None:
    found = watched(checked(fine, repeat), patience=3.0)
    assert found == ["right", "it has not ended after 3 seconds"]


def test_the_outer_of_two_kernels_is_told() -> None:
    def check(watch: Watch) -> list[str]:
        try:
            with watch.running():
                checked(fine)(watch)
                crash()
        except EndedError as ended:
            return [f"{watch.number}: {ended}"]
        return []

    assert watched(check) == ["1: it ends the process by SIGSEGV"]


def test_errors_of_a_check_are_raised() -> None:
    def refuse(_: Watch) -> None:
        raise RuntimeFault("no such axis", notes=("of `x`",))

    with pytest.raises(RuntimeFault, match="no such axis") as caught:
        watched(refuse)
    assert caught.value.notes == ("of `x`",)

    def fail(_: Watch) -> None:
        raise ZeroDivisionError("of a check")

    with pytest.raises(ZeroDivisionError, match="of a check"):
        watched(fail)
    with pytest.raises(InternalError, match="outside of one"):
        watched(lambda _: leave())
