"""Code that runs only if a tensor decides so: its nesting depth, and what is refused there."""

from __future__ import annotations

from threading import local
from typing import Any, Final

from pirkit.diag.errors import TraceError
from pirkit.dialect.build import Value
from pirkit.frontend.user_line import user_span

DEEPEST: Final = 64
"""Most branches and loops inside each other: tracing a recursion that a tensor ends never ends."""


class _Depth(local):
    value = 0


_DEPTH: Final = _Depth()


def depth() -> int:
    """How many branches and loops that tensors decide are recorded now."""
    return _DEPTH.value


class Deciding:
    """For the body of a ``with`` statement, a block that a tensor decides about is recorded.

    Raises TraceError (PK0709) beyond `DEEPEST`.
    """

    def __enter__(self) -> None:
        if _DEPTH.value >= DEEPEST:
            raise TraceError(
                f"more than {DEEPEST} branches inside each other: a recursion that a tensor ends"
                " has no end while it is traced",
                code="PK0709", span=user_span(), help="write it as a loop",
            )  # fmt: skip
        _DEPTH.value += 1

    def __exit__(self, *error: object) -> None:
        _DEPTH.value -= 1


def effect(what: str, entered: int, where: str) -> None:
    """Raise TraceError (PK0709) for what happens while tracing, where a tensor decides about it.

    ``entered`` is the depth at which the function began, ``where`` what may not decide: a branch
    ``inside`` the function, one around the ``call``, or one ``anywhere``.
    """
    found = {"inside": depth() - entered, "call": entered, "anywhere": depth()}[where]
    if found > 0:
        remedy = _REMEDIES.get(what, "keep the new value in a variable, and return it")
        raise TraceError(
            f"{what} in a branch or loop that a tensor decides would happen while it is traced",
            code="PK0709", span=user_span(), help=remedy,
        )  # fmt: skip


def untraced(value: Any) -> Any:
    """The subject or guard of a `match`. Raises TraceError (PK0709) for an unknown tensor."""
    if isinstance(value, Value) and getattr(value.b, "known", None) is None:
        raise TraceError(
            "a tensor cannot decide which `case` of a `match` runs", code="PK0709",
            span=user_span(), help="write it as `if` and `elif`, which are converted",
        )  # fmt: skip
    return value


_REMEDIES: Final = {
    "`raise`": "use `assert`, which is checked when the program runs; or return a flag"
}
