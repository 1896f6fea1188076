"""What an import gives: a program, where its inputs come from, and what torch computes in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pirkit.diag.errors import UnsupportedError
from pirkit.diag.span import Span
from pirkit.frontend.files import Program
from pirkit.torch.draws import Draw


@dataclass(frozen=True)
class Fallback:
    """A call that torch computes: the overload, the user's line, and why."""

    target: str
    span: Span | None
    reason: str


@dataclass
class Imported:
    """A program, and where its inputs come from.

    ``names`` are those of all inputs: first of arguments, whose indices are ``inputs``, then of
    random numbers (``draws``), then of tensors that the graph holds (``constants``). ``in_orders``
    and ``out_orders`` give, for each argument and output that is dense but not contiguous, its
    dimensions from the outermost in memory to the innermost; None for others.
    """

    program: Program
    names: tuple[str, ...]
    inputs: tuple[int, ...]
    draws: tuple[Draw, ...]
    constants: tuple[Any, ...]
    outputs: tuple[str, ...]
    in_orders: tuple[tuple[int, ...] | None, ...]
    out_orders: tuple[tuple[int, ...] | None, ...]
    cut: frozenset[int]
    """Indices of outputs that no gradient flows through."""
    fallbacks: list[Fallback] = field(default_factory=list[Fallback])
    counts: Counter[str] = field(default_factory=Counter[str])
    """How often each overload occurs."""


def refuse(fallbacks: Sequence[Fallback]) -> None:
    """Refuse what torch would compute. Raises UnsupportedError (PK0409) if there is any."""
    if not fallbacks:
        return
    counts = Counter(f.target for f in fallbacks)
    lines = tuple([
        f"{n} x {target} ({next(f.reason for f in fallbacks if f.target == target)})"
        for target, n in counts.most_common()
    ])  # fmt: skip
    first = fallbacks[0]
    raise UnsupportedError(
        f"`{first.target}` has no rule", code="PK0409", span=first.span, notes=lines,
        help='without `options={"strict": True}` torch computes what has no rule',
    )  # fmt: skip
